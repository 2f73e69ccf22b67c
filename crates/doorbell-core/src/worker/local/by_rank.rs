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
        let refilled = || self.offer_refilled();
        // SAFETY: this worker owns its remote half's queue, and `order` is that queue's.
        let movable = unsafe { self.remote().queue().pop_unless_pinned(order, refilled) };
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

    /// The rank of a node's task, if this worker runs by rank.
    ///
    /// # Safety
    /// The node is one of a task, and alive.
    #[inline]
    pub(in crate::worker) unsafe fn rank_of(&self, node: NonNull<Node<M>>) -> Option<u8> {
        self.ready().order()?;
        let push = self.remote().scheduler().push()?;
        // SAFETY: passed on.
        Some(unsafe { push.rank_of(node) })
    }

    /// Call it after the push of a task of this rank. If something long may run before the task, it makes known that the
    /// worker is overloaded.
    pub(in crate::worker) fn note_waiting(&self, rank: u8) {
        let (remote, brings) = (self.remote(), self.brings.get());
        if let Some(push) = remote.scheduler().push()
            && (!brings || self.runs_another_first())
        {
            push.overloaded.set(remote.worker(), rank);
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
