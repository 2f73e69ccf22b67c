//! By arrival: what became ready first runs first, pinned and movable tasks in rounds. Tasks that yield or make long
//! polls are [deferred](crate::worker::local). All of it holds for the default group by share, too, but for the pass before a deferred task.

use crate::link::Node;
use crate::queue::{Greed, Loot};
use crate::scheduler::Member;
use crate::worker::Local;
use crate::worker::local::Ran;
use doorbell_machine::Machine;
use std::ptr::NonNull;

impl<M: Machine> Local<M> {
    /// Runs the next task once: the stolen one, what is ready, or what is deferred. Not the last before a pass, if one is
    /// due.
    #[inline]
    pub(super) fn run_next_by_arrival(&self) -> Ran {
        let stolen = self.take_stolen();
        let stolen = stolen.filter(|node| !self.defers(*node, false));
        let ready = || {
            (!self.has_slice())
                .then(|| self.next_by_arrival())
                .flatten()
        };
        let Some(node) = stolen.or_else(ready) else {
            if self.needs_pass_first() && !self.is_deferred_empty() {
                return Ran::PassFirst;
            }
            let Some(node) = self.next_deferred() else {
                return Ran::Nothing;
            };
            self.run_task(node);
            return Ran::One;
        };
        self.run_task(self.shuffled(node));
        Ran::One
    }

    /// Takes out the next task that is ready. Tasks with long polls go to the deferred queue.
    #[inline]
    pub(super) fn next_by_arrival(&self) -> Option<NonNull<Node<M>>> {
        let (ready, queue) = (self.ready(), self.remote().queue());
        // SAFETY: this worker owns its remote half's queue.
        let pop = || unsafe { self.pop_own(queue) };
        loop {
            let (node, is_pinned) = self.turns.round.pop(ready, || queue.len(), pop)?;
            if !self.defers(node, is_pinned) {
                return Some(node);
            }
        }
    }

    /// As [`Local::steal`]: from the victim's run queue, else its deferred queue, else its inject queue. The first task
    /// runs next.
    pub(super) fn steal_by_arrival(
        &self,
        victim: &Member<M>,
        greed: Greed,
        inject: bool,
    ) -> Option<u64> {
        let own = self.remote().queue();
        // SAFETY: this worker owns its own queue and not the victim's.
        let loot = unsafe { victim.queue().steal_into(own, greed) };
        let loot = loot.or_else(|| self.steal_deferred(victim, greed));
        let loot = loot.or_else(|| {
            let (chain, len) = inject.then(|| victim.take_injected()).flatten()?;
            // SAFETY: this worker owns its queue, and the chain is of tasks that may run anywhere.
            let loot = unsafe { own.take_over(chain) }?;
            Some(Loot { count: len, ..loot })
        });
        loot.map(|Loot { first, count }| {
            self.set_stolen(first);
            if !own.is_empty() || !self.is_deferred_empty() {
                self.list();
            }
            count
        })
    }
}
