//! The CPUs that are measured, and the distances between them.

use std::collections::BTreeSet;

use doorbell_machine::{Cpu, Host, Machine as _, Topology};

use crate::error::LabError;
use crate::measure::Clock;

/// The distance between two CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distance {
    /// Hardware threads of one core.
    Sibling,
    /// Two cores that share a last-level cache.
    Cache,
    /// Two last-level caches of one socket.
    Socket,
    /// Two sockets.
    Remote,
}

impl Distance {
    /// From nearest to farthest.
    pub(super) const ALL: [Self; 4] = [Self::Sibling, Self::Cache, Self::Socket, Self::Remote];

    /// In words, to follow "two CPUs …".
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Sibling => "that are SMT siblings",
            Self::Cache => "that share the last-level cache",
            Self::Socket => "of one socket with two last-level caches",
            Self::Remote => "of two sockets",
        }
    }

    fn between(one: &Cpu, other: &Cpu) -> Self {
        if one.smt == other.smt {
            Self::Sibling
        } else if one.llc == other.llc {
            Self::Cache
        } else if one.node == other.node {
            Self::Socket
        } else {
            Self::Remote
        }
    }
}

/// The machine's parts as a profile describes them. Every part counts as large as the largest of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) sockets: u64,
    pub(super) llcs_per_socket: u64,
    pub(super) cores_per_llc: u64,
    pub(super) smt: u64,
}

impl Extent {
    fn of(cpus: &[Cpu]) -> Self {
        let most = |part: fn(&Cpu) -> usize, whole: fn(&Cpu) -> usize| {
            let count = |of: usize| {
                let inside = cpus.iter().filter(|cpu| whole(cpu) == of);
                inside.map(part).collect::<BTreeSet<_>>().len() as u64
            };
            cpus.iter().map(|cpu| count(whole(cpu))).max().unwrap_or(1)
        };
        Self {
            sockets: most(|cpu| cpu.node, |_| 0),
            llcs_per_socket: most(|cpu| cpu.llc, |cpu| cpu.node),
            cores_per_llc: most(|cpu| cpu.smt, |cpu| cpu.llc),
            smt: most(|cpu| cpu.os_id, |cpu| cpu.smt),
        }
    }

    /// How many CPUs such a machine has.
    pub(super) fn cpus(self) -> u64 {
        self.sockets * self.llcs_per_socket * self.cores_per_llc * self.smt
    }
}

/// The CPUs and the clock used for measuring.
#[derive(Debug, Clone)]
pub(super) struct Stand {
    pub(super) clock: Clock,
    /// The CPU of the measuring thread.
    pub(super) here: usize,
    /// A CPU at each [`Distance`], in order.
    partners: [Option<usize>; 4],
    pub(super) extent: Extent,
    /// What could not be read, or does not fit a profile's regular shape.
    pub(super) remarks: Vec<String>,
}

impl Stand {
    /// The part of this host that this process may use.
    ///
    /// # Errors
    /// [`LabError::TooFewCpus`] if the process may not use any CPU.
    pub(super) fn of_this_host() -> Result<Self, LabError> {
        Self::of(&Host::topology(), Clock::calibrated())
    }

    fn of(topology: &Topology, clock: Clock) -> Result<Self, LabError> {
        let cpus = &topology.cpus;
        let [here, others @ ..] = &cpus[..] else {
            return Err(LabError::TooFewCpus {
                needed: 1,
                allowed: Vec::new(),
            });
        };
        let partner = |distance| {
            let fits = |cpu: &&Cpu| Distance::between(here, cpu) == distance;
            others.iter().find(fits).map(|cpu| cpu.os_id)
        };
        let extent = Extent::of(cpus);
        let mut remarks = topology.unknown.clone();
        if extent.cpus() != cpus.len() as u64 {
            remarks.push(format!(
                "this process may use {} CPUs, which do not fill the regular machine of {}",
                cpus.len(),
                extent.cpus()
            ));
        }
        Ok(Self {
            clock,
            here: here.os_id,
            partners: Distance::ALL.map(partner),
            extent,
            remarks,
        })
    }

    /// A CPU at this distance, if there is one.
    pub(super) fn partner(&self, distance: Distance) -> Option<usize> {
        self.partners[distance as usize]
    }

    /// The nearest CPU that is not a sibling, else the sibling. `None` if there is only one CPU.
    pub(super) fn other(&self) -> Option<usize> {
        let [sibling, apart @ ..] = self.partners;
        apart.into_iter().flatten().next().or(sibling)
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
        let partners = Distance::ALL.map(|distance| stand.partner(distance));
        assert_eq!(partners, [Some(1), Some(2), Some(4), Some(8)]);
        assert_eq!(stand.other(), Some(2), "no sibling");
        assert_eq!((stand.extent.cpus(), stand.remarks.len()), (16, 0));
    }

    #[test]
    fn one_cpu_is_enough_and_a_hole_is_told() {
        let mut topology = large();
        topology.cpus.truncate(1);
        let alone = Stand::of(&topology, Clock::calibrated()).expect("one is enough");
        assert_eq!((alone.other(), alone.extent.cpus()), (None, 1));
        assert_eq!(alone.remarks, [] as [String; 0]);
        let mut topology = large();
        topology.cpus.remove(3);
        let hole = Stand::of(&topology, Clock::calibrated()).expect("there are CPUs");
        assert!(hole.remarks[0].contains("15 CPUs"), "{:?}", hole.remarks);
        topology.cpus.clear();
        assert!(Stand::of(&topology, Clock::calibrated()).is_err());
    }
}
