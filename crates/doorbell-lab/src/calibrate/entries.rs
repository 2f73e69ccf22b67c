//! Converts the figures of the probes into the numbers of a profile.
//!
//! A simulated wake costs the waker a system call and the wake itself. After that come the interrupt, the
//! idle exit if the CPU sleeps, and a context switch. Each part is computed by subtraction within one round
//! from figures of the whole, so the sum of the parts is what was measured.

use doorbell_sim::profile::{KEYS, Profile};

use super::calls;
use super::probe::{PROBES, Round, place_of};
use super::stand::{Distance, Stand};
use crate::measure::{Spread, median};

/// A line moves four times in a round trip: each side fetches it to write it, and again to see the answer.
const MOVES_PER_TRIP: f64 = 4.0;

/// A profile's value for one key, and its source.
pub(super) type Entry = (u64, String);

/// The data that the numbers come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) stand: &'a Stand,
    pub(super) rounds: &'a [Round],
    /// The profile whose values stand where nothing could be measured.
    pub(super) like: &'a Profile,
}

impl Sources<'_> {
    /// The entry of the key with this name.
    pub(super) fn entry(&self, name: &str) -> Entry {
        // With only one CPU there is no thread on another one to wake.
        let alone = self.stand.other().is_none();
        match name {
            "sockets" | "llc_groups_per_socket" | "cores_per_llc" | "smt" => self.extent(name),
            "own_hit_ns" => self.sum(name, &["own_hit"], &[]),
            "rmw_extra_ns" => self.sum(name, &["own_rmw"], &["own_hit"]),
            "fence_ns" => self.sum(name, &["fence"], &[]),
            "clock_ns" => self.sum(name, &["clock"], &[]),
            "relax_ns" => self.sum(name, &["relax"], &[]),
            "smt_ns" => self.trip(name, Distance::Sibling),
            "llc_ns" => self.trip(name, Distance::Cache),
            "socket_ns" => self.trip(name, Distance::Socket),
            "cross_socket_ns" => self.trip(name, Distance::Remote),
            "memory_ns" => self.sum(name, &["memory"], &[]),
            "syscall_ns" => self.sum(name, &["syscall"], &[]),
            "spawn_ns" => self.sum(name, &["spawn"], &[]),
            "context_switch_ns" => self.sum(name, &["hop"], &["futex_call", "syscall"]),
            "futex_wake_ns" if alone => self.sum(name, &["futex_call"], &["syscall"]),
            "futex_wake_ns" => self.sum(name, &["futex_wake"], &["syscall"]),
            "eventfd_wake_ns" if alone => self.sum(name, &["eventfd_call"], &["syscall"]),
            "eventfd_wake_ns" => self.sum(name, &["eventfd_wake"], &["syscall"]),
            "eventfd_wait_ns" => self.sum(
                name,
                &["eventfd_turn"],
                &["eventfd_call", "syscall", "syscall"],
            ),
            "ipi_latency_ns" if alone => self.assumed(
                name,
                "this process may use one CPU, so no other one can be woken",
            ),
            // A wake without its system call and without the switch at its end.
            "ipi_latency_ns" => self.sum(
                name,
                &["awake_to_run", "futex_call", "syscall"],
                &["awake_wake", "hop"],
            ),
            "idle_exit_ns" if alone => self.sum(name, &["late"], &["late_awake"]),
            "idle_exit_ns" => self.sum(
                name,
                &["futex_to_run", "awake_wake"],
                &["futex_wake", "awake_to_run"],
            ),
            "slice_ns" => self.slice(name),
            "smt_busy_percent" => self.busy(name),
            "jitter_percent" => self.assumed(name, "neighbours change it from minute to minute"),
            _ => self.assumed(name, "no program sees its own store buffer"),
        }
    }

    /// The median, over the rounds, of the sum of some probes minus the sum of others.
    fn sum(&self, name: &str, plus: &[&str], minus: &[&str]) -> Entry {
        let of = |round: &Round| -> Option<f64> {
            let total = |ids: &[&str]| ids.iter().map(|id| round.of(id)).sum::<Option<f64>>();
            Some(total(plus)? - total(minus)?)
        };
        let list = |ids: &[&str]| {
            let parts = ids.iter().map(|id| PROBES[place_of(id)]);
            let parts = parts.map(|probe| format!("{} ({})", probe.name, probe.how()));
            parts.collect::<Vec<_>>().join(" and ")
        };
        let mut how = list(plus);
        if !minus.is_empty() {
            how = format!("{how}, less {}", list(minus));
        }
        self.measured(name, &how, "ns", of)
    }

    /// How much longer a computation takes beside another one on the same core.
    fn busy(&self, name: &str) -> Entry {
        let (alone, beside) = ("work_alone", "work_beside");
        let [one, other] = [beside, alone].map(|id| PROBES[place_of(id)]);
        let how = format!("{} ({}) over {}", one.name, one.how(), other.name);
        self.measured(name, &how, "per cent", |round| {
            Some(100.0 * round.of(beside)? / round.of(alone)?)
        })
    }

    /// The cost of a line at a distance.
    fn trip(&self, name: &str, distance: Distance) -> Entry {
        let id = match distance {
            Distance::Sibling => "trip_sibling",
            Distance::Cache => "trip_cache",
            Distance::Socket => "trip_socket",
            Distance::Remote => "trip_remote",
        };
        if self.stand.partner(distance).is_none() {
            let why = format!("this process may not use two CPUs {}", distance.words());
            return self.assumed(name, &why);
        }
        let how = format!("a quarter of {}", PROBES[place_of(id)].how());
        self.measured(name, &how, "ns", |round| {
            Some(round.of(id)? / MOVES_PER_TRIP)
        })
    }

    fn measured(
        &self,
        name: &str,
        how: &str,
        unit: &str,
        of: impl Fn(&Round) -> Option<f64>,
    ) -> Entry {
        let values: Vec<f64> = self.rounds.iter().filter_map(of).collect();
        let (Some(middle), Some(spread)) = (median(&values), Spread::of(&values)) else {
            return self.assumed(name, "this host lacks what it takes");
        };
        let (value, raised) = Self::in_range(name, middle);
        let raised = if raised {
            format!("; {middle:.1} was measured, the nearest possible value is taken")
        } else {
            String::new()
        };
        let source = format!(
            "measured by `doorbell calibrate`: {how}; median of {} rounds, {:.1} to {:.1} {unit}{raised}",
            values.len(),
            spread.min,
            spread.max
        );
        (value, source)
    }

    /// The nearest whole number that the key allows, and whether it differs from the value.
    fn in_range(name: &str, value: f64) -> (u64, bool) {
        let key = KEYS.iter().find(|key| key.name == name);
        let (least, most) = key.map_or((0, u64::MAX), |key| (key.least, key.most));
        let rounded = value.round();
        let inside = rounded.clamp(least as f64, most as f64);
        (inside as u64, rounded.total_cmp(&inside).is_ne())
    }

    fn assumed(&self, name: &str, why: &str) -> Entry {
        let mut entries = self.like.entries();
        let like = entries.find(|(key, _, _)| key.name == name);
        let value = like.map_or(0, |(_, value, _)| value);
        let of = self.like.name();
        (
            value,
            format!("assumed: not measured, as in profile {of}, because {why}"),
        )
    }

    fn extent(&self, name: &str) -> Entry {
        let extent = self.stand.extent;
        let value = match name {
            "sockets" => extent.sockets,
            "llc_groups_per_socket" => extent.llcs_per_socket,
            "cores_per_llc" => extent.cores_per_llc,
            _ => extent.smt,
        };
        let mut source =
            "read by `doorbell calibrate`: /sys, of the CPUs this process may use".to_owned();
        for remark in &self.stand.remarks {
            source.push_str("; ");
            source.push_str(remark);
        }
        (value, source)
    }

    fn slice(&self, name: &str) -> Entry {
        match calls::slice_ns() {
            Some(ns) => (
                ns,
                "read by `doorbell calibrate`: sched_getattr of its own thread".to_owned(),
            ),
            None => self.assumed(name, "this kernel does not say (6.12 and later do)"),
        }
    }
}
