//! The keys of a profile, in one table. It is used to read, check, write and explain profiles.

use crate::sim::{CPUS_MAX, MachineSpec};

/// A number that a profile gives.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The table in which it stands.
    pub table: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// The least allowed value.
    pub least: u64,
    /// The greatest allowed value.
    pub most: u64,
    /// What the key describes.
    pub about: &'static str,
    get: fn(&MachineSpec) -> u64,
    set: fn(&mut MachineSpec, u64),
}

impl Key {
    /// The key with this table and name.
    #[must_use]
    pub fn find(table: &str, name: &str) -> Option<&'static Key> {
        let mut keys = KEYS.iter();
        keys.find(|key| key.table == table && key.name == name)
    }

    /// `table.name`, as errors and documents write it.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.table, self.name)
    }

    /// The value of this key in a machine.
    #[must_use]
    pub fn get(&self, spec: &MachineSpec) -> u64 {
        (self.get)(spec)
    }

    /// Sets this key's value in a machine.
    pub fn set(&self, spec: &mut MachineSpec, value: u64) {
        (self.set)(spec, value);
    }
}

/// The highest cost: one second. A larger value is most likely a mistaken unit.
const COST_MAX_NS: u64 = 1_000_000_000;
/// The highest count: the most CPUs that the simulator supports.
const COUNT_MAX: u64 = CPUS_MAX as u64;

/// A row of the table; the last part is the field of the machine.
macro_rules! key {
    ($table:literal, $name:literal, $least:expr, $most:expr, $about:literal, $($place:ident).+ : $number:ty) => {
        Key {
            table: $table,
            name: $name,
            least: $least,
            most: $most,
            about: $about,
            get: |spec| spec.$($place).+ as u64,
            // The value was compared with `most` before.
            set: |spec, value| spec.$($place).+ = value as $number,
        }
    };
}

/// A row of the table of costs.
macro_rules! cost {
    ($name:literal, $least:expr, $about:literal, $place:ident) => {
        key!("costs", $name, $least, COST_MAX_NS, $about, costs.$place : u64)
    };
}

/// All keys, in the order in which profiles are written. Every profile has every key.
#[rustfmt::skip] // One row each: it is a table.
pub const KEYS: [Key; 32] = [
    key!("shape", "sockets", 1, COUNT_MAX, "sockets, each with memory of its own", sockets: usize),
    key!("shape", "llc_groups_per_socket", 1, COUNT_MAX, "last-level caches of a socket", llc_groups_per_socket: usize),
    key!("shape", "cores_per_llc", 1, COUNT_MAX, "physical cores that share one of them", cores_per_llc: usize),
    key!("shape", "smt", 1, COUNT_MAX, "hardware threads of a physical core", smt: usize),
    cost!("own_hit_ns", 1, "a line that is in the CPU's own cache, in the state it needs", own_hit_ns),
    cost!("smt_ns", 0, "a line from an SMT sibling", smt_ns),
    cost!("llc_ns", 0, "a line from another core under the same last-level cache", llc_ns),
    cost!("socket_ns", 0, "a line from under another last-level cache of the socket", socket_ns),
    cost!("cross_socket_ns", 0, "a line from another socket", cross_socket_ns),
    cost!("memory_ns", 0, "a line that no cache has", memory_ns),
    cost!("rmw_extra_ns", 0, "what a read-modify-write takes on top", rmw_extra_ns),
    cost!("fence_ns", 0, "a fence", fence_ns),
    cost!("clock_ns", 0, "reading the clock", clock_ns),
    cost!("relax_ns", 1, "one hint that the CPU spins", relax_ns),
    cost!("context_switch_ns", 0, "from one thread of a CPU to another", context_switch_ns),
    cost!("syscall_ns", 0, "into the kernel and back", syscall_ns),
    cost!("futex_wake_ns", 0, "what waking a thread in a futex takes from the waker, on top of the system call", futex_wake_ns),
    cost!("eventfd_wake_ns", 0, "the same through an eventfd", eventfd_wake_ns),
    cost!("eventfd_wait_ns", 0, "what waiting for an eventfd takes from the waiter, on top of two system calls: epoll_wait, and the read that empties it", eventfd_wait_ns),
    cost!("idle_exit_20us_ns", 0, "from an interrupt to the first instruction, on a CPU that has idled for 20 us or less", idle_exit_20us_ns),
    cost!("idle_exit_200us_ns", 0, "the same after 200 us", idle_exit_200us_ns),
    cost!("idle_exit_ns", 0, "the same after 1 ms", idle_exit_ns),
    cost!("idle_exit_10ms_ns", 0, "the same after 10 ms or more", idle_exit_10ms_ns),
    cost!("timer_late_ns", 0, "how late the interrupt of a timer comes", timer_late_ns),
    cost!("ipi_latency_ns", 0, "from one CPU's wake to the interrupt on another", ipi_latency_ns),
    cost!("spawn_ns", 0, "starting a thread, for the starter", spawn_ns),
    key!("costs", "smt_busy_percent", 100, 1_000, "how long everything takes on a CPU while an SMT sibling of it is busy, in per cent of what it takes alone", smt_busy_percent: u64),
    key!("costs", "jitter_percent", 0, 99, "by how many per cent, up or down, what misses varies", jitter_percent: u64),
    key!("tso", "drain_min_ns", 0, COST_MAX_NS, "how long a store waits in the store buffer, at least", drain_ns.min_ns: u64),
    key!("tso", "drain_max_ns", 0, COST_MAX_NS, "and at most", drain_ns.max_ns: u64),
    key!("tso", "store_buffer", 1, 4_096, "stores that the store buffer of a CPU holds", store_buffer: usize),
    key!("policy", "slice_ns", 1, 10 * COST_MAX_NS, "the slice of a thread under the policy `other`", slice_ns: u64),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_place_of_its_own() {
        let mut spec = MachineSpec::default();
        for (number, key) in KEYS.iter().enumerate() {
            key.set(&mut spec, 1_000 + number as u64);
        }
        for (number, key) in KEYS.iter().enumerate() {
            assert_eq!(key.get(&spec), 1_000 + number as u64, "{}", key.path());
            let found = Key::find(key.table, key.name).expect("it is in the table");
            assert_eq!(found.path(), key.path());
        }
        assert!(Key::find("costs", "sockets").is_none());
    }
}
