//! The CPUs that are measured, the distances between them, and a thread beside the measuring one.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use doorbell_machine::{Cpu, Host, Machine as _, Topology};

use crate::error::too_few_cpus;
use crate::measure::{Clock, Pin, median};
use crate::peers::{join, thread_on};

/// The distance between two CPUs: SMT siblings, cores under one last-level cache, two of those in a socket, two sockets.
fn distance(one: &Cpu, other: &Cpu) -> usize {
    let same = [
        one.smt == other.smt,
        one.llc == other.llc,
        one.node == other.node,
    ];
    same.iter().position(|same| *same).unwrap_or(same.len())
}

/// The machine's parts as a profile describes them, each as large as the largest of its kind: sockets, last-level caches
/// of a socket, cores under such a cache, hardware threads of a core.
fn extent(cpus: &[Cpu]) -> [u64; 4] {
    let most = |part: fn(&Cpu) -> usize, whole: fn(&Cpu) -> usize| {
        let count = |of: usize| {
            let inside = cpus.iter().filter(|cpu| whole(cpu) == of);
            inside.map(part).collect::<BTreeSet<_>>().len() as u64
        };
        cpus.iter().map(|cpu| count(whole(cpu))).max().unwrap_or(1)
    };
    [
        most(|cpu| cpu.node, |_| 0),
        most(|cpu| cpu.llc, |cpu| cpu.node),
        most(|cpu| cpu.smt, |cpu| cpu.llc),
        most(|cpu| cpu.os_id, |cpu| cpu.smt),
    ]
}

/// The CPUs and the clock used for measuring.
#[derive(Debug, Clone)]
pub(super) struct Stand {
    pub(super) clock: Clock,
    /// The CPU of the measuring thread.
    pub(super) here: usize,
    /// A CPU at each distance, from the nearest.
    pub(super) partners: [Option<usize>; 4],
    pub(super) extent: [u64; 4],
    /// What could not be read, or does not fit a profile's regular shape.
    pub(super) remarks: Vec<String>,
}

impl Stand {
    /// The part of this host that this process may use.
    pub(super) fn of_this_host() -> Result<Self> {
        Self::of(&Host::topology(), Clock::calibrated())
    }

    fn of(topology: &Topology, clock: Clock) -> Result<Self> {
        let [here, others @ ..] = &topology.cpus[..] else {
            return Err(too_few_cpus(1, &[]));
        };
        let partner = |wanted| {
            let mut others = others.iter();
            let found = others.find(|cpu| distance(here, cpu) == wanted);
            found.map(|cpu| cpu.os_id)
        };
        let mut stand = Self {
            clock,
            here: here.os_id,
            partners: [0, 1, 2, 3].map(partner),
            extent: extent(&topology.cpus),
            remarks: topology.unknown.clone(),
        };
        let (count, whole) = (topology.cpus.len(), stand.cpus());
        if whole != count as u64 {
            stand.remarks.push(format!(
                "this process may use {count} CPUs, which do not fill the regular machine of {whole}"
            ));
        }
        Ok(stand)
    }

    /// How many CPUs a machine of this extent has.
    pub(super) fn cpus(&self) -> u64 {
        self.extent.iter().product()
    }

    /// The nearest CPU that is not a sibling, else the sibling. `None` if there is only one CPU.
    pub(super) fn other(&self) -> Option<usize> {
        let [sibling, apart @ ..] = self.partners;
        apart.into_iter().flatten().next().or(sibling)
    }

    /// The time of one of many calls in a row, each with its number.
    #[inline(always)]
    pub(super) fn mean_ns(&self, count: u32, mut call: impl FnMut(u32)) -> f64 {
        let start = self.clock.now();
        for turn in 0..count {
            call(turn);
        }
        let end = self.clock.now();
        self.clock.ns_between(start, end) as f64 / f64::from(count)
    }

    /// The median over so many chunks, which ignores disturbed ones, of the time of one of as many calls.
    #[inline(always)]
    pub(super) fn median_ns(&self, [chunks, calls]: [u32; 2], mut call: impl FnMut()) -> f64 {
        let times = (0..chunks).map(|_| self.mean_ns(calls, |_| call()));
        median(&times.collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Measures on the CPU `here` while a partner runs on `there`, until it is told to `end`.
    pub(super) fn beside<S: Send + Sync + 'static, T>(
        &self,
        there: usize,
        shared: S,
        partner: impl FnOnce(&S) -> Result<()> + Send + 'static,
        end: impl FnOnce(&S),
        own: impl FnOnce(&S) -> T,
    ) -> Result<T> {
        let shared = Arc::new(shared);
        let theirs = Arc::clone(&shared);
        let thread = thread_on("calibrate-partner", Some(there), move || partner(&theirs))?;
        let found = Pin::to(self.here).map(|_here| own(&shared));
        end(&shared);
        join(thread)??;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two caches of two cores of two threads.
    fn large() -> Topology {
        let cpu = |os_id| Cpu {
            os_id,
            smt: os_id / 2,
            llc: os_id / 4,
            node: os_id / 8,
        };
        Topology {
            cpus: (0..16).map(cpu).collect(),
            unknown: Vec::new(),
        }
    }

    #[test]
    fn there_is_a_partner_at_each_distance() {
        let stand = Stand::of(&large(), Clock::calibrated()).expect("there are CPUs");
        assert_eq!(stand.partners, [Some(1), Some(2), Some(4), Some(8)]);
        assert_eq!(stand.other(), Some(2), "no sibling");
        assert_eq!((stand.cpus(), stand.remarks.len()), (16, 0));
    }

    #[test]
    fn one_cpu_is_enough_and_a_hole_is_told() {
        let mut topology = large();
        topology.cpus.truncate(1);
        let alone = Stand::of(&topology, Clock::calibrated()).expect("one is enough");
        assert_eq!((alone.other(), alone.cpus()), (None, 1));
        assert_eq!(alone.remarks, [] as [String; 0]);
        let mut topology = large();
        topology.cpus.remove(3);
        let hole = Stand::of(&topology, Clock::calibrated()).expect("there are CPUs");
        assert!(hole.remarks[0].contains("15 CPUs"), "{:?}", hole.remarks);
        topology.cpus.clear();
        assert!(Stand::of(&topology, Clock::calibrated()).is_err());
    }
}
