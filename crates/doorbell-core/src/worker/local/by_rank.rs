//! A worker that runs the highest rank first: what it takes next, and from others.

use super::Local;
use crate::link::Node;
use crate::queue::{Greed, Order, Share};
use crate::scheduler::{Member, Turns};
use doorbell_machine::Machine;
use std::ptr::NonNull;

impl<M: Machine> Local<M> {
    /// In which turns this worker runs its tasks.
    #[inline]
    pub fn turns(&self) -> Turns {
        match self.ready().order() {
            None => Turns::ByArrival,
            Some(_) => Turns::ByRank,
        }
    }

    /// Takes the next task out, where pinned ones wait too.
    #[inline(never)]
    pub(in crate::worker) fn next_by_rank(&self, order: &Order<M>) -> Option<NonNull<Node<M>>> {
        let refilled = || self.offer_refilled();
        // SAFETY: this worker owns its remote half's queue, whose order that is.
        let movable = unsafe { self.remote().queue().pop_unless_pinned(order, refilled) };
        movable.or_else(|| self.ready().pop())
    }

    /// As [`Local::steal`]: the most urgent that the victim shows. It goes to this worker's own queue,
    /// where what comes before it runs may still go in front of it.
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
            // SAFETY: taken out, so it is this worker's, alive until it has run.
            unsafe { own.push(loot.first, Share::Surplus) };
        }
        // Not in order with the queue: one there may be more urgent.
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
