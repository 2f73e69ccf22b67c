//! The specification of a simulated machine: its shape, and what everything on it costs.
//!
//! It is plain data with public fields, so that a profile can be read into it.

use crate::{Cpu, Topology};

/// The most CPUs of a simulated machine.
pub const CPUS_MAX: usize = 1_024;

/// A simulated machine.
///
/// Near CPUs have near numbers: first come SMT siblings, then the cores of one last-level cache, then those
/// of one socket.
///
/// ```
/// use doorbell_machine::sim::MachineSpec;
///
/// let spec = MachineSpec { sockets: 2, cores_per_llc: 4, smt: 2, ..MachineSpec::default() };
/// assert_eq!(spec.cpus(), 16);
/// assert_eq!(spec.topology().cpus[9].node, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSpec {
    /// Sockets, each with its own memory.
    pub sockets: usize,
    /// Last-level caches per socket.
    pub llc_groups_per_socket: usize,
    /// Physical cores per last-level cache.
    pub cores_per_llc: usize,
    /// Hardware threads per physical core; each is a CPU.
    pub smt: usize,
    /// What everything costs.
    pub costs: Costs,
    /// How long everything takes on a CPU while an SMT sibling is busy, in per cent of the time it takes
    /// while the siblings idle or spin on a line. At least 100.
    pub smt_busy_percent: u64,
    /// How long a store may wait in the store buffer, under [`Memory::Tso`](super::Memory::Tso).
    pub drain_ns: Range,
    /// How many stores a thread's store buffer holds; one more drains the oldest.
    pub store_buffer: usize,
    /// The slice of a thread in ns, unless its policy has one.
    pub slice_ns: u64,
    /// By how many per cent, up or down, the seed varies the cost of an access that misses.
    pub jitter_percent: u64,
}

/// Nanoseconds from the least to the most, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub min_ns: u64,
    /// The most.
    pub max_ns: u64,
}

/// What things cost on a simulated machine, in ns.
///
/// The first six are the costs of an access by where its line is; they include the access itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// The line is in the CPU's own cache, in the state that the access needs.
    pub own_hit_ns: u64,
    /// It is in the cache of an SMT sibling.
    pub smt_ns: u64,
    /// It is in the cache of another core under the same last-level cache.
    pub llc_ns: u64,
    /// It is under another last-level cache of the socket.
    pub socket_ns: u64,
    /// It is in another socket.
    pub cross_socket_ns: u64,
    /// It is in no cache.
    pub memory_ns: u64,
    /// What a read-modify-write costs beside the access.
    pub rmw_extra_ns: u64,
    /// A fence. The fences of doorbell follow read-modify-writes, and cost nothing on x86.
    pub fence_ns: u64,
    /// Reading the clock.
    pub clock_ns: u64,
    /// One hint that the CPU spins.
    pub relax_ns: u64,
    /// The switch from one thread of a CPU to another.
    pub context_switch_ns: u64,
    /// The way into the kernel and back.
    pub syscall_ns: u64,
    /// What it costs the waker to wake a thread in a futex, beside the syscall.
    pub futex_wake_ns: u64,
    /// The same through an eventfd.
    pub eventfd_wake_ns: u64,
    /// What it costs the waiter to wait for an eventfd, beside its two syscalls: `epoll_wait`, and the read
    /// that empties it.
    pub eventfd_wait_ns: u64,
    /// From an interrupt to the first instruction, on a CPU that has idled for 20 µs or less.
    pub idle_exit_20us_ns: u64,
    /// The same after 200 µs.
    pub idle_exit_200us_ns: u64,
    /// The same after 1 ms.
    pub idle_exit_ns: u64,
    /// The same after 10 ms or more. Between these four, the cost is on the line from one to the next.
    pub idle_exit_10ms_ns: u64,
    /// How late the interrupt of a timer comes.
    pub timer_late_ns: u64,
    /// From one CPU's wake to the interrupt on another.
    pub ipi_latency_ns: u64,
    /// Starting a thread, for the starter.
    pub spawn_ns: u64,
}

impl Default for Costs {
    /// Figures of the order of current servers.
    fn default() -> Self {
        Costs {
            own_hit_ns: 1,
            smt_ns: 12,
            llc_ns: 45,
            socket_ns: 110,
            cross_socket_ns: 220,
            memory_ns: 90,
            rmw_extra_ns: 5,
            fence_ns: 0,
            clock_ns: 15,
            relax_ns: 20,
            context_switch_ns: 1_200,
            syscall_ns: 150,
            futex_wake_ns: 900,
            eventfd_wake_ns: 1_300,
            eventfd_wait_ns: 200,
            idle_exit_20us_ns: 2_500,
            idle_exit_200us_ns: 2_500,
            idle_exit_ns: 2_500,
            idle_exit_10ms_ns: 2_500,
            timer_late_ns: 0,
            ipi_latency_ns: 700,
            spawn_ns: 12_000,
        }
    }
}

impl Costs {
    /// What it takes to leave the idle state of a CPU that has idled for so long.
    pub(super) fn idle_exit_after(&self, idled_ns: u64) -> u64 {
        let known = [
            (20_000, self.idle_exit_20us_ns),
            (200_000, self.idle_exit_200us_ns),
            (1_000_000, self.idle_exit_ns),
            (10_000_000, self.idle_exit_10ms_ns),
        ];
        let [(shortest_ns, least), .., (_, most)] = known;
        if idled_ns <= shortest_ns {
            return least;
        }
        let mut spans = known.iter().zip(&known[1..]);
        let span = spans.find(|(_, (to_ns, _))| idled_ns < *to_ns);
        span.map_or(most, |((from_ns, short), (to_ns, long))| {
            let (behind, ahead) = (idled_ns - from_ns, to_ns - idled_ns);
            (short * ahead + long * behind) / (to_ns - from_ns)
        })
    }
}

impl Default for MachineSpec {
    /// Two cores under one cache.
    fn default() -> Self {
        MachineSpec {
            sockets: 1,
            llc_groups_per_socket: 1,
            cores_per_llc: 2,
            smt: 1,
            costs: Costs::default(),
            smt_busy_percent: 160,
            drain_ns: Range {
                min_ns: 5,
                max_ns: 400,
            },
            store_buffer: 56,
            slice_ns: 3_000_000,
            jitter_percent: 20,
        }
    }
}

/// Why a machine cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A field that must be at least 1 is 0.
    #[error("`{0}` is 0; it must be 1 at least")]
    Zero(&'static str),
    /// The machine has more than [`CPUS_MAX`] CPUs.
    #[error(
        "the machine has {0} CPUs; at most {CPUS_MAX} can be simulated: lower sockets, llc_groups_per_socket, cores_per_llc or smt"
    )]
    TooManyCpus(usize),
    /// A range that ends before it begins.
    #[error("`{0}` ends before it begins; write the smaller value first")]
    EmptyRange(&'static str),
    /// A busy sibling that makes a CPU faster.
    #[error("`smt_busy_percent` is {0}; it must be 100 at least")]
    SmtBusy(u64),
    /// A variation that could make a cost negative.
    #[error("`jitter_percent` is {0}; it must be below 100")]
    Jitter(u64),
}

impl MachineSpec {
    /// A machine with one socket, one last-level cache and this many cores.
    #[must_use]
    pub fn flat(cores: usize) -> Self {
        MachineSpec {
            cores_per_llc: cores,
            ..MachineSpec::default()
        }
    }

    /// How many CPUs the machine has.
    #[must_use]
    pub fn cpus(&self) -> usize {
        [
            self.sockets,
            self.llc_groups_per_socket,
            self.cores_per_llc,
            self.smt,
        ]
        .into_iter()
        .fold(1, usize::saturating_mul)
    }

    /// Checks whether the machine can be simulated.
    ///
    /// # Errors
    /// [`SpecError`] names the field and says what it must be.
    pub fn check(&self) -> Result<(), SpecError> {
        let counts = [
            ("sockets", self.sockets),
            ("llc_groups_per_socket", self.llc_groups_per_socket),
            ("cores_per_llc", self.cores_per_llc),
            ("smt", self.smt),
            ("store_buffer", self.store_buffer),
        ];
        if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(SpecError::Zero(name));
        }
        if self.slice_ns == 0 {
            return Err(SpecError::Zero("slice_ns"));
        }
        // If a spin cost nothing, the clock would never advance.
        if self.costs.relax_ns == 0 {
            return Err(SpecError::Zero("relax_ns"));
        }
        if self.costs.own_hit_ns == 0 {
            return Err(SpecError::Zero("own_hit_ns"));
        }
        if self.cpus() > CPUS_MAX {
            return Err(SpecError::TooManyCpus(self.cpus()));
        }
        if self.drain_ns.min_ns > self.drain_ns.max_ns {
            return Err(SpecError::EmptyRange("drain_ns"));
        }
        if self.smt_busy_percent < 100 {
            return Err(SpecError::SmtBusy(self.smt_busy_percent));
        }
        if self.jitter_percent >= 100 {
            return Err(SpecError::Jitter(self.jitter_percent));
        }
        Ok(())
    }

    /// How many CPUs share a last-level cache.
    #[must_use]
    pub fn cpus_per_llc(&self) -> usize {
        self.cores_per_llc * self.smt
    }

    /// How many CPUs a socket has.
    #[must_use]
    pub fn cpus_per_socket(&self) -> usize {
        self.cpus_per_llc() * self.llc_groups_per_socket
    }

    /// Which CPUs there are, and what they share.
    #[must_use]
    pub fn topology(&self) -> Topology {
        let cpu = |os_id| Cpu {
            os_id,
            smt: os_id / self.smt,
            llc: os_id / self.cpus_per_llc(),
            node: os_id / self.cpus_per_socket(),
        };
        Topology {
            cpus: (0..self.cpus()).map(cpu).collect(),
            unknown: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CPUS_MAX, Costs, MachineSpec, Range, SpecError};

    #[test]
    fn the_default_machine_and_flat_ones_can_be_simulated() {
        assert_eq!(MachineSpec::default().check(), Ok(()));
        assert_eq!(MachineSpec::default().cpus(), 2);
        assert_eq!(MachineSpec::flat(CPUS_MAX).check(), Ok(()));
    }

    #[test]
    fn a_cpu_that_idled_longer_takes_what_lies_between_the_known_times() {
        let costs = Costs {
            idle_exit_20us_ns: 100,
            idle_exit_200us_ns: 1_000,
            idle_exit_ns: 5_000,
            idle_exit_10ms_ns: 4_100,
            ..Costs::default()
        };
        let us = [0, 20, 21, 110, 200, 600, 1_000, 2_000, 10_000, 1_000_000];
        let exits = us.map(|us| costs.idle_exit_after(us * 1_000));
        let expected = [100, 100, 105, 550, 1_000, 3_000, 5_000, 4_900, 4_100, 4_100];
        assert_eq!(exits, expected);
    }

    #[test]
    fn near_cpus_have_near_numbers() {
        let spec = MachineSpec {
            sockets: 2,
            llc_groups_per_socket: 2,
            cores_per_llc: 3,
            smt: 2,
            ..MachineSpec::default()
        };
        let cpus = spec.topology().cpus;
        assert_eq!(cpus.len(), 24);
        let at = |cpu: usize| (cpus[cpu].smt, cpus[cpu].llc, cpus[cpu].node);
        assert_eq!(at(0), at(1));
        assert_eq!(at(5), (2, 0, 0));
        assert_eq!(at(6), (3, 1, 0));
        assert_eq!(at(12), (6, 2, 1));
    }

    #[test]
    fn what_cannot_be_simulated_is_named() {
        let with = |change: fn(&mut MachineSpec)| {
            let mut spec = MachineSpec::default();
            change(&mut spec);
            spec.check().unwrap_err()
        };
        assert_eq!(with(|s| s.smt = 0), SpecError::Zero("smt"));
        assert_eq!(with(|s| s.slice_ns = 0), SpecError::Zero("slice_ns"));
        assert_eq!(
            with(|s| s.costs = Costs {
                relax_ns: 0,
                ..s.costs
            }),
            SpecError::Zero("relax_ns")
        );
        assert_eq!(with(|s| s.sockets = 513), SpecError::TooManyCpus(1_026));
        assert_eq!(
            with(|s| s.sockets = usize::MAX),
            SpecError::TooManyCpus(usize::MAX)
        );
        assert_eq!(with(|s| s.jitter_percent = 100), SpecError::Jitter(100));
        assert_eq!(with(|s| s.smt_busy_percent = 99), SpecError::SmtBusy(99));
        let backwards = with(|s| {
            s.drain_ns = Range {
                min_ns: 2,
                max_ns: 1,
            };
        });
        assert_eq!(backwards, SpecError::EmptyRange("drain_ns"));
        assert!(backwards.to_string().contains("smaller value first"));
    }
}
