//! Thefts of deferred tasks, and what a worker lets others take. Of other thefts see worker/turns/.

use super::Local;
use crate::link::Node;
use crate::queue::{Greed, Loot, Queue, is_shareable};
use crate::scheduler::Member;
use doorbell_machine::Machine;
use std::ptr::NonNull;

impl<M: Machine> Local<M> {
    /// Takes from the deferred queue of another worker. Not for [`Greed::Single`]: then this worker has work of its own,
    /// which waits as well, and two busy workers would pass tasks to and fro.
    pub(in crate::worker) fn steal_deferred(
        &self,
        victim: &Member<M>,
        greed: Greed,
    ) -> Option<Loot<M>> {
        let (own, deferred) = (self.remote.deferred(), victim.deferred());
        if deferred.is_empty() || greed == Greed::Single {
            return None;
        }
        let is_last_of_all = !is_shareable(deferred.len() + victim.queue().len());
        // The victim runs its last ready task first, so the last one here may go.
        let greed = match greed {
            Greed::Half if !is_shareable(deferred.len()) && !is_last_of_all => Greed::Single,
            _ => greed,
        };
        // SAFETY: this worker owns its own queue and not the victim's.
        unsafe { deferred.steal_into(own, greed) }
    }

    /// Defers here what is deferred at another worker, which has been inside one poll for milliseconds: one task, for
    /// this worker has work of its own. Returns whether there was one.
    pub(in crate::worker) fn relieve_deferred(&self, victim: &Member<M>) -> bool {
        // SAFETY: this worker owns its own queue and not the victim's.
        let loot = unsafe {
            victim
                .deferred()
                .steal_into(self.remote.deferred(), Greed::Single)
        };
        if let Some(loot) = &loot {
            // SAFETY: taken out, so only this worker has it; it is alive until it has run.
            unsafe { self.defer(loot.first, false) };
        }
        loot.is_some()
    }

    /// Puts the stolen task that this worker would run next into the run queue, where others find it.
    pub(crate) fn share_stolen(&self) {
        if let Some(node) = self.take_stolen() {
            // SAFETY: stolen, so its task may run anywhere, and it is in no queue.
            unsafe { self.push_between_polls(node) };
        }
    }

    /// Takes the next task out of a queue of this worker, and offers what a refill of its ring brings.
    ///
    /// # Safety
    /// The queue is one of this worker's.
    #[inline]
    pub(in crate::worker) unsafe fn pop_own(&self, queue: &Queue<M>) -> Option<NonNull<Node<M>>> {
        // SAFETY: passed on; only this worker's thread has its own half.
        unsafe { queue.pop_then(|| self.offer_refilled(queue)) }
    }

    /// Offers the tasks of a refill to an idle worker. While the refill moved them from the backlog, a worker that
    /// looked found no task and went to sleep.
    #[cold]
    pub(in crate::worker) fn offer_refilled(&self, queue: &Queue<M>) {
        if is_shareable(queue.len()) || self.turns().shares_one::<M>() {
            queue.show_stored();
            self.remote.scheduler().offer(self.remote.worker());
        }
    }
}
