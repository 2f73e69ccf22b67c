//! The CPUs that a scenario uses, and the pinning of threads to them.

use crate::error::too_few_cpus;
use anyhow::{Context as _, Result};
use doorbell_machine::{Host, Machine};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

/// The CPUs of a caller and a callee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Placement {
    /// The caller's CPU.
    pub(crate) caller_cpu: usize,
    /// The callee's CPU.
    pub(crate) callee_cpu: usize,
    /// Whether the two are hardware threads of one core, because the process has no other pair.
    pub(crate) smt_siblings: bool,
}

impl Placement {
    /// The pair for this process, from its affinity mask and the machine's topology.
    pub(crate) fn of_this_process() -> Result<Self> {
        choose_pair(&allowed_cpus()?, smt_siblings_of)
    }
}

/// The first allowed CPU, and the next one that is not its SMT sibling. If there are only siblings, the
/// second CPU is one of them and the placement says so.
pub(crate) fn choose_pair(
    allowed: &[usize],
    siblings_of: impl Fn(usize) -> Vec<usize>,
) -> Result<Placement> {
    let [caller_cpu, others @ ..] = allowed else {
        return Err(too_few_cpus(2, allowed));
    };
    let second = others.first().ok_or_else(|| too_few_cpus(2, allowed))?;
    let siblings = siblings_of(*caller_cpu);
    let apart = others.iter().find(|cpu| !siblings.contains(cpu));
    Ok(Placement {
        caller_cpu: *caller_cpu,
        callee_cpu: *apart.unwrap_or(second),
        smt_siblings: apart.is_none(),
    })
}

/// The CPUs on which the calling thread may run, ascending.
pub(crate) fn allowed_cpus() -> Result<Vec<usize>> {
    let set = affinity()?;
    let all = 0..CpuSet::MAX_CPU;
    Ok(all.filter(|cpu| set.is_set(*cpu)).collect())
}

/// The CPU on which the calling thread runs at this moment.
pub(crate) fn current_cpu() -> u32 {
    Host::cpu() as u32
}

/// Keeps the calling thread on one CPU for as long as it lives.
#[derive(Debug)]
pub(crate) struct Pin {
    before: CpuSet,
}

impl Pin {
    /// Moves the calling thread to `cpu`. Dropping the pin restores its former mask.
    pub(crate) fn to(cpu: usize) -> Result<Self> {
        let before = affinity()?;
        let mut only = CpuSet::new();
        only.set(cpu);
        let moved = sched_setaffinity(None, &only);
        moved.context("sched_setaffinity")?;
        Ok(Self { before })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // The thread had this mask before. If the system refuses it now, the thread stays where it is, and
        // a later pin corrects that.
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn affinity() -> Result<CpuSet> {
    sched_getaffinity(None).context("sched_getaffinity")
}

/// The hardware threads that this process may use and that share a core with `cpu`, itself included.
fn smt_siblings_of(cpu: usize) -> Vec<usize> {
    let cpus = Host::topology().cpus;
    let own = cpus.iter().find(|one| one.os_id == cpu).map(|one| one.smt);
    let siblings = cpus.iter().filter(|one| Some(one.smt) == own);
    siblings.map(|one| one.os_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::thread_on;

    fn alone(cpu: usize) -> Vec<usize> {
        vec![cpu]
    }

    /// CPUs 0 and 1 are one core, 2 and 3 the next.
    fn neighbours(cpu: usize) -> Vec<usize> {
        vec![cpu & !1, cpu | 1]
    }

    #[test]
    fn the_first_two_without_siblings() {
        let placement = choose_pair(&[3, 5, 9], alone).expect("three CPUs suffice");
        assert_eq!((placement.caller_cpu, placement.callee_cpu), (3, 5));
        assert!(!placement.smt_siblings);
    }

    #[test]
    fn siblings_are_skipped() {
        let placement = choose_pair(&[0, 1, 2, 3], neighbours).expect("four CPUs suffice");
        assert_eq!((placement.caller_cpu, placement.callee_cpu), (0, 2));
        assert!(!placement.smt_siblings);
    }

    #[test]
    fn only_siblings_are_used_and_told() {
        let placement = choose_pair(&[2, 3], neighbours).expect("two CPUs suffice");
        assert_eq!((placement.caller_cpu, placement.callee_cpu), (2, 3));
        assert!(placement.smt_siblings);
    }

    #[test]
    fn fewer_than_two_is_an_error_that_says_what_to_do() {
        for allowed in [&[][..], &[4][..]] {
            let error = choose_pair(allowed, alone).expect_err("one CPU is too few");
            assert!(error.to_string().contains("needs 2 CPUs"));
            assert!(error.to_string().contains("taskset"), "{error}");
        }
    }

    #[test]
    fn a_pin_is_undone_when_dropped() {
        let before = allowed_cpus().expect("the mask can be read");
        let cpu = *before.last().expect("a thread runs somewhere");
        let pin = Pin::to(cpu).expect("an allowed CPU can be pinned to");
        assert_eq!(allowed_cpus().expect("the mask can be read"), [cpu]);
        assert_eq!(current_cpu() as usize, cpu);
        drop(pin);
        assert_eq!(allowed_cpus().expect("the mask can be read"), before);
    }

    #[test]
    fn a_pinned_thread_starts_on_its_cpu() {
        let cpu = allowed_cpus().expect("the mask can be read")[0];
        let thread = thread_on("pinned", Some(cpu), current_cpu).expect("the thread starts");
        assert_eq!(thread.join().expect("the thread ends") as usize, cpu);
    }
}
