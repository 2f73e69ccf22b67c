//! What a worker takes from another.

use super::Local;
use crate::queue::{Greed, Loot, is_shareable};
use crate::scheduler::{Member, Turns};
use doorbell_machine::{Bug, Machine};

impl<M: Machine> Local<M> {
    /// Takes tasks from another worker of the scheduler, also from its inject queue if `inject`, to be run next.
    /// Returns how many. `None` also where this worker has something to run, but for [`Greed::Single`].
    pub fn steal(&self, victim: &Member<M>, greed: Greed, inject: bool) -> Option<u64> {
        if greed != Greed::Single && !self.is_empty() && !M::breaks(Bug::SpinStealsFull) {
            return None;
        }
        if self.ready().order().is_some() {
            return self.steal_by_rank(victim, greed, inject);
        }
        if self.stolen.get().is_some() {
            return None;
        }
        if self.remote.scheduler().groups().table().is_some() {
            return self.steal_by_share(victim, greed, inject);
        }
        let own = self.remote.queue();
        // SAFETY: this worker owns its own queue and not the victim's.
        let loot = unsafe { victim.queue().steal_into(own, greed) };
        let loot = loot.or_else(|| {
            let (chain, len) = if inject {
                victim.take_injected()?
            } else {
                return None;
            };
            // SAFETY: this worker owns its queue, and the chain is of tasks that may run anywhere.
            let loot = unsafe { own.take_over(chain) }?;
            Some(Loot { count: len, ..loot })
        });
        loot.map(|Loot { first, count }| {
            self.stolen.set(Some(first));
            if !own.is_empty() {
                self.list();
            }
            count
        })
    }

    /// What a theft left in this worker's hands goes where others find it: it is not run next.
    pub(crate) fn share_stolen(&self) {
        if let Some(node) = self.stolen.take() {
            // SAFETY: stolen, so it is that of a task which may run anywhere, and in no queue.
            unsafe { self.push_again(node) };
        }
    }

    /// What lay in the backlog was in this worker's hands for a moment: a worker that looked then found nothing, and
    /// sleeps.
    #[cold]
    pub(in crate::worker) fn offer_refilled(&self) {
        let queue = self.remote.queue();
        if is_shareable(queue.len()) || self.turns() == Turns::ByRank {
            queue.show_stored();
            self.remote.scheduler().offer(self.remote.worker());
        }
    }
}
