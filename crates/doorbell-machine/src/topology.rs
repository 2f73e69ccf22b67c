//! Which CPUs there are, and what they share.

/// One CPU that the process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The OS's number of the CPU.
    pub os_id: usize,
    /// CPUs with equal numbers here are SMT siblings on one physical core.
    pub smt: usize,
    /// CPUs with equal numbers share the last-level cache.
    pub llc: usize,
    /// The NUMA node.
    pub node: usize,
}

/// The CPUs of a machine, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The CPUs of the process's affinity mask.
    pub cpus: Vec<Cpu>,
    /// Names what could not be read. Those parts are assumed flat: each CPU is a physical core, and all share
    /// one last-level cache and one node. Empty if everything was read.
    pub unknown: Vec<String>,
}

impl Topology {
    /// A machine that reveals only the numbers of its CPUs.
    #[must_use]
    pub fn flat(os_ids: impl IntoIterator<Item = usize>, why: impl Into<String>) -> Self {
        let cpus = os_ids.into_iter().map(Cpu::flat).collect();
        Topology {
            cpus,
            unknown: vec![why.into()],
        }
    }

    /// The CPU with this number, if the process may use it.
    #[must_use]
    pub fn cpu(&self, os_id: usize) -> Option<&Cpu> {
        // Mostly all CPUs have their numbers as their places.
        let placed = self.cpus.get(os_id).filter(|cpu| cpu.os_id == os_id);
        placed.or_else(|| self.cpus.iter().find(|cpu| cpu.os_id == os_id))
    }
}

impl Cpu {
    /// A CPU of which only its number is known.
    #[must_use]
    pub fn flat(os_id: usize) -> Self {
        Cpu {
            os_id,
            smt: os_id,
            llc: 0,
            node: 0,
        }
    }
}

/// Parses a list as Linux writes it: `0-3,8,10-11`. Returns `None` for any other text.
#[cfg_attr(not(feature = "host"), allow(dead_code))]
pub(crate) fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    let text = text.trim();
    if text.is_empty() {
        return Some(cpus);
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last - first > 1 << 20 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::{Topology, parse_cpu_list};

    #[test]
    fn cpu_lists_as_linux_writes_them() {
        assert_eq!(
            parse_cpu_list("0-3,8,10-11\n"),
            Some(vec![0, 1, 2, 3, 8, 10, 11])
        );
        assert_eq!(parse_cpu_list("\n"), Some(vec![]));
        assert_eq!(parse_cpu_list("0"), Some(vec![0]));
        for bad in ["x", "1-", "-1", "3-1", "0,,1", "0-99999999999"] {
            assert_eq!(parse_cpu_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_flat_machine_says_that_it_is_flat() {
        let flat = Topology::flat([0, 2], "nothing readable");
        assert_eq!(flat.cpu(2).map(|c| (c.smt, c.llc, c.node)), Some((2, 0, 0)));
        assert_eq!(flat.cpu(1), None);
        assert_eq!(flat.unknown.len(), 1);
    }
}
