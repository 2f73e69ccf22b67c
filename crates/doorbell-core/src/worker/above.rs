//! Where tasks run by rank: a worker begins no poll while a task of a higher rank waits at another worker. See
//! ../scheduler/push/README.md.

use super::Worker;
use crate::queue::{Ahead, Greed};
use crate::scheduler::push::{OwnRank, Push, TAKES_NOTHING};
use crate::switches::IdleClaim;
use doorbell_machine::{Bug, Counter, Machine};

impl<M: Machine> Worker<M> {
    /// What a worker by rank shares with others, and its own part of that.
    fn push_and_rank(&self) -> Option<(&Push<M>, &OwnRank)> {
        let push = self.shared.remote().scheduler().push()?;
        Some((push, self.own_rank.as_ref()?))
    }

    /// Before a poll: publishes the rank of the next task, takes what waits above it at other workers, and says what
    /// waits here. While no worker is overloaded, and one task waits here, this is one load.
    #[inline]
    pub(super) fn look_above(&self, own: &OwnRank) {
        let Some(push) = self.shared.remote().scheduler().push() else {
            return;
        };
        let ahead = self.local.ahead();
        if ahead.next != 0 {
            let _ = push.map.publish(own, ahead.next);
        }
        if push.overloaded.any() || ahead.behind != 0 {
            self.look_above_now(push, own, ahead);
        }
    }

    #[cold]
    fn look_above_now(&self, push: &Push<M>, own: &OwnRank, ahead: Ahead) {
        let mut ahead = ahead;
        // A worker without tasks looks at the others when it parks.
        if ahead.next != 0 && !M::breaks(Bug::PushNoLook) {
            ahead = self.take_above(push, own, ahead);
        }
        self.say_what_waits(push, ahead);
    }

    /// Takes one task of each worker at which a task above this worker's next one waits.
    fn take_above(&self, push: &Push<M>, own: &OwnRank, ahead: Ahead) -> Ahead {
        let remote = self.shared.remote();
        let (scheduler, worker) = (remote.scheduler(), remote.worker());
        let mut ahead = ahead;
        // By that setting no worker takes from one that makes progress.
        let may_take = remote.idle_claim() != IdleClaim::Base;
        if !may_take || !push.overloaded.waits_above(worker, ahead.next) {
            return ahead;
        }
        let mut took = false;
        for (victim, rank) in push.overloaded.among(worker) {
            if victim == worker || rank <= ahead.next {
                continue;
            }
            self.shared.tally.searches.add_owned(1);
            took |= self.rob(&scheduler.remotes()[victim], Greed::Single);
            let _ = scheduler.clear_overloaded(push, victim);
            ahead = self.local.ahead();
        }
        if took {
            let _ = push.map.publish(own, ahead.next);
            self.offer_new_surplus();
        }
        ahead
    }

    /// Makes the worker's overloaded byte say what waits behind its next task.
    fn say_what_waits(&self, push: &Push<M>, ahead: Ahead) {
        let remote = self.shared.remote();
        let (worker, said) = (remote.worker(), push.overloaded.rank(remote.worker()));
        if ahead.behind > said {
            push.overloaded.set(worker, ahead.behind);
        } else if ahead.behind < said {
            let waits = |before| {
                if remote.has_injected() {
                    before
                } else {
                    ahead.behind
                }
            };
            let _ = push.overloaded.clear(worker, waits);
        }
    }

    /// Before calls that may be long: all tasks here wait behind them.
    pub(super) fn say_all_wait(&self) {
        if let Some((push, _)) = self.push_and_rank() {
            let movable = self.local.ahead().movable;
            if movable > push.overloaded.rank(self.shared.remote().worker()) {
                push.overloaded.set(self.shared.remote().worker(), movable);
            }
        }
    }

    /// Before the worker is throttled: it takes nothing until it runs again.
    pub(super) fn say_takes_nothing(&self) {
        self.say_all_wait();
        if let Some((push, own)) = self.push_and_rank() {
            let _ = push.map.publish(own, TAKES_NOTHING);
        }
    }

    /// Before the worker sleeps, behind its entry into the idle set: a poster may have said that a task waits here which
    /// the worker had taken before.
    pub(super) fn say_nothing_waits(&self) {
        let remote = self.shared.remote();
        if let Some((push, _)) = self.push_and_rank()
            && push.overloaded.rank(remote.worker()) != 0
        {
            let _ = remote.scheduler().clear_overloaded(push, remote.worker());
        }
    }
}
