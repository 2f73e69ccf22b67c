//! What a scheduler knows of timers: its timer tree, and which of its workers seems awake.

use super::Scheduler;
use crate::class::Class;
use crate::scheduler::Member;
use crate::tree::Tree;
use doorbell_machine::{Cpu, Machine};

/// Distances of two workers, up to which their cores share a last-level cache, and a node.
const SAME_CACHE: u32 = 1;
const SAME_NODE: u32 = 2;

/// The timer tree of a scheduler. `None` for one worker, which no other relieves, and for class Rt, whose workers fire
/// their timers themselves.
pub(super) fn tree_of<M: Machine>(
    class: Class,
    workers: usize,
    distance: impl Fn(usize, usize) -> u32,
) -> Option<Tree<M>> {
    if class == Class::Rt || workers < 2 {
        return None;
    }
    // A cache and a node are named by the first of their workers.
    let first_within = |worker: usize, far: u32| {
        let mut before = 0..worker;
        let first = before.find(|&first| distance(first, worker) <= far);
        first.unwrap_or(worker)
    };
    let cpu = |worker| Cpu {
        os_id: worker,
        smt: worker,
        llc: first_within(worker, SAME_CACHE),
        node: first_within(worker, SAME_NODE),
    };
    let cpus: Vec<Cpu> = (0..workers).map(cpu).collect();
    Some(Tree::new(&cpus))
}

impl<M: Machine> Scheduler<M> {
    /// The timer tree; `None` if the scheduler has none.
    #[inline]
    pub fn tree(&self) -> Option<&Tree<M>> {
        self.tree.as_ref()
    }

    /// Where a worker without other work arms a movable timer with `timer_pull=base`: the nearest other worker that
    /// seems awake and is on. `None` if none is, or the scheduler has no [tree](Scheduler::tree) that would do without.
    pub(crate) fn guess_awake(&self, near: usize) -> Option<&Member<M>> {
        self.tree()?;
        let is_on = |worker: usize| !self.remotes()[worker].is_off();
        let found = self.idle().nearest_awake(near, is_on);
        found.map(|worker| &self.remotes()[worker])
    }
}
