//! By rank: the highest rank runs first. Before a poll, and before it parks, a worker looks whether a task of a higher
//! rank waits at another worker, and takes it. See ../../scheduler/push/README.md.

use crate::link::Node;
use crate::queue::{Ahead, Greed, Order, Share};
use crate::scheduler::Member;
use crate::scheduler::push::{End, OwnRank, Push, TAKES_NOTHING, TOKEN_FROM, Told};
use crate::switches::{IdleClaim, RtPush};
use crate::task::queue_node::RAISED_RANK;
use crate::worker::local::Ran;
use crate::worker::{Local, Worker};
use doorbell_machine::{Bug, Counter, Machine};
use std::ptr::NonNull;

/// The holder of the push token makes at most this many rounds. Then it leaves the rest to an offer.
const ROUNDS_MAX: usize = 8;

impl<M: Machine> Local<M> {
    /// Runs the next task once.
    #[inline]
    pub(super) fn run_next_by_rank(&self, order: &Order<M>) -> Ran {
        let Some(node) = self.next_by_rank(order) else {
            return Ran::Nothing;
        };
        self.run_task(self.shuffled(node));
        Ran::One
    }

    /// Takes out the task of the highest rank.
    #[inline]
    pub(super) fn next_by_rank(&self, order: &Order<M>) -> Option<NonNull<Node<M>>> {
        if !self.ready().is_empty() {
            return self.next_beside_pinned(order);
        }
        let queue = self.remote().queue();
        // SAFETY: this worker owns its remote half's queue.
        unsafe { self.pop_own(queue) }
    }

    /// As [`Local::next_by_rank`], where pinned tasks wait too.
    #[inline(never)]
    fn next_beside_pinned(&self, order: &Order<M>) -> Option<NonNull<Node<M>>> {
        let queue = self.remote().queue();
        // SAFETY: this worker owns its remote half's queue, and `order` is that queue's.
        let movable = unsafe { queue.pop_unless_pinned(order, || self.offer_refilled(queue)) };
        movable.or_else(|| self.ready().pop())
    }

    /// Which ranks wait on this worker. Of a worker by arrival it says nothing.
    pub(in crate::worker) fn ahead(&self) -> Ahead {
        let Some(order) = self.ready().order() else {
            return Ahead::default();
        };
        // SAFETY: this worker owns its remote half's queue, and `order` is that queue's.
        unsafe { self.remote().queue().ahead(order) }
    }

    /// Call it after the push of a task. If something long may run before what waits here, it makes known that the
    /// worker is overloaded: by all that waits, since another worker that looked while the push sorted the queue may
    /// have found nothing, and said so.
    pub(in crate::worker) fn note_waiting(&self) {
        let brings = self.brings();
        if self.ready().order().is_some()
            && let Some(push) = self.remote().scheduler().push()
            && (!brings || self.runs_another_first())
        {
            let waits = self.ahead().movable;
            if waits != 0 {
                push.overloaded.set(self.remote().worker(), waits);
            }
        }
    }

    /// As [`Local::steal`]: takes the task of the highest rank in the victim's ring buffer, or the backlog if that is
    /// empty. They go into this worker's own queue, where a more urgent task may still overtake them.
    pub(super) fn steal_by_rank(
        &self,
        victim: &Member<M>,
        greed: Greed,
        inject: bool,
    ) -> Option<u64> {
        let own = self.remote().queue();
        let mut count = 0;
        // SAFETY: this worker owns its own queue and not the victim's; both are of one scheduler.
        if let Some(loot) = unsafe { victim.queue().steal_into(own, greed) } {
            count += loot.count;
            // SAFETY: taken out, so only this worker has it; it is alive until it has run.
            unsafe { own.push(loot.first, Share::Surplus) };
        }
        // The inject queue is not sorted, so a task there may be more urgent than the stolen one.
        if let Some((chain, len)) = inject.then(|| victim.take_injected()).flatten() {
            count += len;
            self.push_chain(chain);
        }
        (count > 0).then(|| {
            self.list();
            count
        })
    }
}

impl<M: Machine> Worker<M> {
    /// What the workers share where tasks run by rank, and this worker's own rank in it. `None` if they run by arrival,
    /// or if there is only one worker.
    fn push_and_rank(&self) -> Option<(&Push<M>, &OwnRank)> {
        let push = self.shared.remote().scheduler().push()?;
        Some((push, self.own_rank.as_ref()?))
    }

    /// Before each poll, if the worker is not alone.
    #[inline]
    pub(super) fn before_poll_by_rank(&self, own: &OwnRank) {
        if !M::breaks(Bug::PushPassTakesParcels) {
            self.take_common();
        }
        self.look_above(own);
    }

    /// Before a poll: publishes the rank of the next task, takes tasks of a higher rank that wait at other workers, and
    /// sets or clears this worker's overloaded byte. If the rank is as before, no worker is overloaded and one task
    /// waits here, this is one load, beside the look at the worker's own queues.
    #[inline]
    pub(in crate::worker) fn look_above(&self, own: &OwnRank) {
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

    /// Takes from each worker at which a task above this worker's next one waits: its most urgent task, and its whole
    /// inject queue. Returns what waits here after that.
    fn take_above(&self, push: &Push<M>, own: &OwnRank, ahead: Ahead) -> Ahead {
        let remote = self.shared.remote();
        let (scheduler, worker) = (remote.scheduler(), remote.worker());
        let mut ahead = ahead;
        // With `idle_claim=base` no worker takes from one that makes progress.
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

    /// The setting of the switch. `Auto` is returned as `Pull` if the scheduler is small; otherwise it means `On`.
    pub(in crate::worker) fn rt_push(&self) -> RtPush {
        let remote = self.shared.remote();
        let setting = remote.rt_push();
        if setting != RtPush::Auto {
            setting
        } else if remote.scheduler().remotes().len() < TOKEN_FROM {
            RtPush::Pull
        } else {
            RtPush::On
        }
    }

    /// The last scan of a worker that parks, after its entry into the idle set. With the token, if a worker is
    /// overloaded, the holder scans the others on behalf of the workers that park. A watchdog scans them itself,
    /// because the holder may get no CPU. Returns whether this worker found something.
    pub(in crate::worker) fn scan_before_sleep(&self) -> bool {
        let remote = self.shared.remote();
        let push = remote.scheduler().push();
        let relies = !remote.is_watchdog() || M::breaks(Bug::PushWatchdogRelies);
        let push = push.filter(|push| relies && push.overloaded.any());
        match (push, self.rt_push()) {
            (None, _) | (_, RtPush::Pull) => self.scan_others(),
            (Some(push), RtPush::On | RtPush::Auto) => match push.token.tell() {
                Told::Noted => false,
                Told::Holder => self.scan_for_all(push),
            },
        }
    }

    /// The rounds of the token's holder. Returns whether it found something. The token is free afterwards.
    #[cold]
    fn scan_for_all(&self, push: &Push<M>) -> bool {
        let mut found = false;
        for _ in 0..ROUNDS_MAX {
            push.token.begin_round();
            found = self.scan_others();
            if found {
                break;
            }
            if push.token.end() == End::Ended {
                return false;
            }
        }
        push.token.give_up();
        // Also what no byte speaks of: those that told have not looked.
        if self.others_have_work() {
            let remote = self.shared.remote();
            remote.scheduler().offer(remote.worker());
        }
        found
    }

    /// Sets the worker's overloaded byte to the highest rank that waits behind its next task, or clears it. Keeps a
    /// higher byte while its inject queue is not empty.
    fn say_what_waits(&self, push: &Push<M>, ahead: Ahead) {
        let remote = self.shared.remote();
        let (worker, said) = (remote.worker(), push.overloaded.rank(remote.worker()));
        if ahead.behind > said {
            push.overloaded.set(worker, ahead.behind);
        } else if ahead.behind < said && !remote.has_injected() {
            let waits = |before| if remote.has_injected() { before } else { 0 };
            let _ = push.overloaded.lower(worker, ahead.behind, waits);
        }
    }

    /// Before calls that may be long: sets the overloaded byte to the highest rank that waits here, since all tasks
    /// here wait behind the calls.
    pub(in crate::worker) fn say_all_wait(&self) {
        if let Some((push, _)) = self.push_and_rank() {
            let remote = self.shared.remote();
            let waits = if remote.has_injected() {
                // Of which rank, is not known here.
                RAISED_RANK
            } else {
                self.local.ahead().movable
            };
            if waits > push.overloaded.rank(remote.worker()) {
                push.overloaded.set(remote.worker(), waits);
            }
        }
    }

    /// Before the worker is throttled: sets the overloaded byte as before calls, and publishes that it takes nothing.
    /// The worker publishes a rank again before its next poll.
    pub(in crate::worker) fn say_takes_nothing(&self) {
        self.say_all_wait();
        if let Some((push, own)) = self.push_and_rank() {
            let _ = push.map.publish(own, TAKES_NOTHING);
        }
    }

    /// Before the worker sleeps, after its entry into the idle set: clears the overloaded byte if nothing waits here.
    /// A poster may have set it after the worker had taken the task.
    pub(in crate::worker) fn say_nothing_waits(&self) {
        let remote = self.shared.remote();
        if let Some((push, _)) = self.push_and_rank()
            && push.overloaded.rank(remote.worker()) != 0
        {
            let _ = remote.scheduler().clear_overloaded(push, remote.worker());
        }
    }
}
