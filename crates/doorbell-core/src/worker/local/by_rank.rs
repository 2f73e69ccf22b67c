//! How a worker that runs the highest rank first chooses its next task and steals from others.

use super::Local;
use crate::link::Node;
use crate::queue::{Ahead, Greed, Order, Share};
use crate::scheduler::{Member, Turns};
use doorbell_machine::Machine;
use std::ptr::NonNull;

impl<M: Machine> Local<M> {
    /// The order in which this worker runs its tasks.
    #[inline]
    pub fn turns(&self) -> Turns {
        match self.ready().order() {
            None => Turns::ByArrival,
            Some(_) => Turns::ByRank,
        }
    }

    /// Takes out the task of the highest rank, where pinned tasks wait too.
    #[inline(never)]
    pub(in crate::worker) fn next_by_rank(&self, order: &Order<M>) -> Option<NonNull<Node<M>>> {
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
        let brings = self.brings.get();
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
    pub(in crate::worker) fn steal_by_rank(
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
