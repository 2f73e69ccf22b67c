//! The poster's side: a task goes to the worker that runs lowest, and others learn where it waits.

use super::{Cleared, Overloaded, PriorityMap, PushToken};
use crate::link::Node;
use crate::mailbox::Posted;
use crate::queue::RankOf;
use crate::scheduler::idle::Cores;
use crate::scheduler::{Member, Placed, Scheduler};
use doorbell_machine::{Bug, Machine};
use std::ptr::NonNull;
use std::sync::Arc;

/// What the workers of a scheduler know of each other's ranks. Only a scheduler that runs tasks by rank and has two or
/// more workers has this.
#[derive(Debug)]
pub(crate) struct Push<M: Machine> {
    /// At which workers tasks wait behind a poll.
    pub(crate) overloaded: Overloaded<M>,
    /// Which rank each worker runs.
    pub(crate) map: PriorityMap<M>,
    /// Which of the workers that park scans the others.
    pub(crate) token: PushToken<M>,
    rank_of: RankOf<M>,
}

impl<M: Machine> Push<M> {
    /// For the workers on these cores. `None` if they run tasks by arrival, or if there is only one worker.
    pub(in crate::scheduler) fn of(
        cores: &Arc<Cores<M>>,
        rank_of: Option<RankOf<M>>,
    ) -> Option<Self> {
        let rank_of = rank_of.filter(|_| cores.workers() > 1)?;
        Some(Push {
            overloaded: Overloaded::new(cores),
            map: PriorityMap::new(cores),
            token: PushToken::default(),
            rank_of,
        })
    }

    /// The rank of a node's task; 0 counts as 1.
    ///
    /// # Safety
    /// The node is one of a task, and alive.
    pub(crate) unsafe fn rank_of(&self, node: NonNull<Node<M>>) -> u8 {
        // SAFETY: passed on.
        unsafe { (self.rank_of)(node) }.max(1)
    }
}

impl<M: Machine> Scheduler<M> {
    /// Posts a task for which no worker was idle: to `prefer`, or where tasks run by rank to the worker that runs the
    /// lowest rank below the task's, if there is one. Returns [`Placed::Behind`] if the caller has to place the tasks
    /// of that worker's inject queue anew.
    ///
    /// # Panics
    /// As for [`Member::post_task`].
    ///
    /// # Safety
    /// As for [`Member::post_task`].
    pub(in crate::scheduler) unsafe fn post_behind<'a>(
        &'a self,
        prefer: &'a Member<M>,
        node: NonNull<Node<M>>,
    ) -> Placed<'a, M> {
        let Some(push) = self.push() else {
            // SAFETY: passed on.
            return unsafe { prefer.post_task(node) }.into();
        };
        // SAFETY: passed on; it is read before the post, since the task may be gone after it.
        let rank = unsafe { push.rank_of(node) };
        // SAFETY: passed on.
        unsafe { self.post_by_rank(push, prefer, node, rank) }
    }

    /// As [`Scheduler::post_behind`], of a task with this rank. Sets the overloaded byte of the worker.
    ///
    /// # Safety
    /// As for [`Member::post_task`].
    pub(super) unsafe fn post_by_rank<'a>(
        &'a self,
        push: &Push<M>,
        prefer: &'a Member<M>,
        node: NonNull<Node<M>>,
        rank: u8,
    ) -> Placed<'a, M> {
        let lower = || self.lowest_below(push, rank, prefer.worker());
        let to = lower().unwrap_or(prefer);
        // SAFETY: passed on.
        if unsafe { to.post_task(node) } == Posted::Closed {
            return Placed::Closed;
        }
        push.overloaded.set(to.worker(), rank);
        if !to.has_work() && self.clear_overloaded(push, to.worker()) == Cleared::Yes {
            return Placed::Yes;
        }
        // The second look: a worker that lowered meanwhile has seen no task here, or this sees that worker. No task may
        // wait in the hands of a caller of a lower class.
        let is_behind = push.map.rank(to.worker()) >= rank && self.may_claim();
        if is_behind && !M::breaks(Bug::PushNoSecondLook) && lower().is_some() {
            return Placed::Behind(to);
        }
        Placed::Yes
    }

    /// Of the workers that run below this rank, the one that runs the lowest, and of equal ones the one nearest to
    /// `near`. `None` if no worker runs below it.
    fn lowest_below(&self, push: &Push<M>, rank: u8, near: usize) -> Option<&Member<M>> {
        // One that wakes just now may get no CPU.
        let runs = |worker: usize| {
            let remote = &self.remotes()[worker];
            remote.is_inside() && !remote.is_off()
        };
        let found = push.map.lowest_below(rank, near, runs);
        found.map(|worker| &self.remotes()[worker])
    }

    /// Call it after tasks were taken from this worker. If none waits there any more, clears its overloaded byte.
    pub(crate) fn clear_overloaded(&self, push: &Push<M>, worker: usize) -> Cleared {
        let remote = &self.remotes()[worker];
        if remote.has_work() {
            // Which ranks are left, only the worker knows.
            return Cleared::SetAgain;
        }
        push.overloaded
            .clear(worker, |before| if remote.has_work() { before } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use crate::bell::Announced;
    use crate::scheduler::RemoteRef;
    use crate::scheduler::offline::TakenOff;
    use crate::scheduler::push::PriorityMap;
    use crate::switches::RtPush;
    use crate::task::Kind;
    use crate::testing::{by_rank, launch_ranked};
    use crate::worker::Local;
    use doorbell_machine::Host;

    fn spawn(remote: &RemoteRef<Host>, rank: u8) {
        launch_ranked(remote, Kind::Task, rank, async {});
    }

    /// Three workers, which run these ranks.
    fn running(ranks: [u8; 3]) -> Vec<RemoteRef<Host>> {
        let remotes = by_rank(3, RtPush::default());
        let map: &PriorityMap<Host> = &remotes[0].scheduler().push().unwrap().map;
        for (worker, rank) in ranks.into_iter().enumerate() {
            let _ = map.publish(&map.own(worker), rank);
        }
        remotes
    }

    fn end(remotes: &[RemoteRef<Host>]) {
        for remote in remotes {
            Local::new(remote.clone()).close();
        }
    }

    #[test]
    fn a_worker_that_is_off_gets_no_task_although_it_runs_lowest() {
        let remotes = running([50, 20, 10]);
        assert_eq!(remotes[0].scheduler().take_off(2), TakenOff::Now);
        spawn(&remotes[0], 40);
        assert!(remotes[1].has_injected() && !remotes[2].has_injected());
        end(&remotes);
    }

    #[test]
    fn a_worker_that_runs_nothing_gets_no_task_by_its_old_rank() {
        let remotes = running([50, 20, 10]);
        assert_eq!(remotes[2].bell().announce_spin(), Announced::Yes);
        assert!(!remotes[2].is_inside());
        // It is in no idle set, so the task goes behind a poll.
        spawn(&remotes[0], 40);
        assert!(remotes[1].has_injected() && !remotes[2].has_injected());
        let _ = remotes[2].bell().end_idle();
        end(&remotes);
    }

    #[test]
    fn a_task_without_a_rank_that_waits_sets_the_byte() {
        let remotes = running([50, 20, 10]);
        spawn(&remotes[0], 0);
        assert_eq!(remotes[0].scheduler().push().unwrap().overloaded.rank(0), 1);
        end(&remotes);
    }

    #[test]
    fn a_task_without_a_rank_goes_to_a_worker_that_has_begun_no_poll() {
        let remotes = running([50, 20, 0]);
        spawn(&remotes[0], 0);
        assert!(remotes[2].has_injected() && !remotes[0].has_injected());
        end(&remotes);
    }

    #[test]
    fn a_task_goes_to_the_worker_that_runs_lowest_which_is_overloaded_then() {
        let remotes = by_rank(3, RtPush::default());
        let push = remotes[0].scheduler().push().unwrap();
        let owns = [0, 1, 2].map(|worker| push.map.own(worker));
        for (own, rank) in owns.iter().zip([50, 20, 10]) {
            let _ = push.map.publish(own, rank);
        }
        spawn(&remotes[0], 40);
        assert!(remotes[2].has_injected() && !remotes[0].has_injected());
        assert_eq!(push.overloaded.rank(2), 40);
        spawn(&remotes[0], 10);
        assert!(remotes[0].has_injected(), "none runs lower");
        assert_eq!(push.overloaded.rank(0), 10);
        for remote in &remotes {
            Local::new(remote.clone()).close();
        }
    }

    #[test]
    fn a_worker_without_tasks_is_not_overloaded() {
        let remotes = by_rank(3, RtPush::default());
        let scheduler = remotes[0].scheduler();
        let push = scheduler.push().unwrap();
        push.overloaded.set(1, 50);
        let _ = scheduler.clear_overloaded(push, 1);
        assert_eq!(push.overloaded.rank(1), 0);
        let local = Local::new(remotes[1].clone());
        local.enter(|| spawn(&remotes[1], 60));
        assert_eq!(push.overloaded.rank(1), 60, "a poll may be long");
        let _ = scheduler.clear_overloaded(push, 1);
        assert_eq!(push.overloaded.rank(1), 60, "it has a task");
        local.enter(|| local.close());
    }
}
