//! Timers that threads outside of a scheduler arm: any worker of it may take them. And the timer tree.

use super::Scheduler;
use crate::class::Class;
use crate::link::Node;
use crate::mailbox::{Posted, Pushed};
use crate::scheduler::Member;
use crate::tree::Tree;
use doorbell_machine::{Cpu, Machine};
use std::ptr::NonNull;

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

    /// Posts a timer that any worker may take in its next pass. Asks `prefer` for a pass if it is idle, else
    /// another idle worker. If none is idle, asks `prefer`, and the first worker that makes a pass takes the timer.
    ///
    /// # Panics
    /// As for [`Remote::post`].
    ///
    /// # Safety
    /// As for [`Remote::post`]; the node is one of a timer that is not armed yet.
    pub(crate) unsafe fn post_timer(&self, prefer: &Member<M>, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        match unsafe { self.timers().push(node) } {
            Pushed::First | Pushed::Behind => {}
            Pushed::Closed => return Posted::Closed,
            Pushed::Twice => panic!("a timer was posted twice"),
        }
        // Either this sees a worker in the idle set, or that worker's last look sees the timer.
        M::fence_recheck();
        self.find_idle(prefer).request_pass();
        Posted::Yes
    }
}
