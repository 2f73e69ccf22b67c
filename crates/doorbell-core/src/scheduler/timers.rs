//! What a scheduler knows of timers: its timer tree, and which of its workers seems awake.

use super::Scheduler;
use crate::class::Class;
use crate::scheduler::Member;
use crate::tree::Tree;
use doorbell_machine::{Cpu, Machine};

/// Distances of two workers, up to which their cores share a last-level cache, and a node.
const SAME_CACHE: u32 = 1;
const SAME_NODE: u32 = 2;

/// The timer tree of a scheduler. `None` for one worker, whose timers no other can fire, and for class Rt, whose
/// workers fire their timers themselves.
pub(super) fn tree_of<M: Machine>(
    class: Class,
    workers: usize,
    distance: &dyn Fn(usize, usize) -> u32,
) -> Option<Tree<M>> {
    if class == Class::Rt || workers < 2 {
        return None;
    }
    Some(Tree::new(&cpus_of(workers, distance)))
}

/// Which workers share a cache and a node. A cache and a node are named by the first of their workers.
fn cpus_of(workers: usize, distance: &dyn Fn(usize, usize) -> u32) -> Vec<Cpu> {
    let (mut caches, mut nodes) = (Vec::new(), Vec::new());
    let first_within = |firsts: &mut Vec<usize>, worker: usize, far: u32| {
        let first = firsts.iter().find(|&&first| distance(first, worker) <= far);
        first.copied().unwrap_or_else(|| {
            firsts.push(worker);
            worker
        })
    };
    let cpu = |worker| Cpu {
        os_id: worker,
        smt: worker,
        llc: first_within(&mut caches, worker, SAME_CACHE),
        node: first_within(&mut nodes, worker, SAME_NODE),
    };
    (0..workers).map(cpu).collect()
}

impl<M: Machine> Scheduler<M> {
    /// The timer tree; `None` if the scheduler has none.
    #[inline]
    pub fn tree(&self) -> Option<&Tree<M>> {
        self.tree.as_ref()
    }

    /// Where a worker without other work arms a movable timer with `timer_pull=base`: the nearest other worker that
    /// seems awake and is on. `None` if none is, or if the scheduler has no [tree](Scheduler::tree): then `base` is as
    /// `off`.
    pub(crate) fn guess_awake(&self, near: usize) -> Option<&Member<M>> {
        self.tree()?;
        let is_on = |worker: usize| !self.remotes()[worker].is_off();
        let found = self.idle().nearest_awake(near, is_on);
        found.map(|worker| &self.remotes()[worker])
    }
}

#[cfg(test)]
mod tests {
    use super::cpus_of;
    use crate::class::Class;
    use crate::scheduler::{Scheduler, SchedulerSpec};
    use doorbell_machine::Host;
    use std::sync::Arc;

    #[test]
    fn class_rt_has_no_timer_tree_and_neither_has_a_worker_that_is_alone() {
        let has_tree = |class, workers| {
            let spec = SchedulerSpec {
                class,
                ..SchedulerSpec::default()
            };
            let remotes = Scheduler::<Host>::described(workers, &Arc::default(), spec, |_, _| 0);
            remotes[0].scheduler().tree().is_some()
        };
        for class in [Class::Batch, Class::Fair, Class::Rt] {
            assert!(!has_tree(class, 1), "{class:?}");
            assert_eq!(has_tree(class, 2), class != Class::Rt, "{class:?}");
        }
    }

    /// Neighbours by number lie in different nodes.
    #[test]
    fn a_cache_and_a_node_are_named_by_their_first_workers() {
        let distance = |one: usize, other: usize| match one.abs_diff(other) {
            0 => 0,
            far if far % 4 == 0 => 1,
            far if far % 2 == 0 => 2,
            _ => 3,
        };
        let cpus = cpus_of(12, &distance);
        for (worker, cpu) in cpus.iter().enumerate() {
            assert_eq!((cpu.llc, cpu.node), (worker % 4, worker % 2), "{worker}");
        }
    }
}
