//! A busy worker takes tasks of a task group that gets less than its share because it lacks tasks on this worker.

use super::Worker;
use doorbell_machine::{Counter, Machine};

impl<M: Machine> Worker<M> {
    /// Takes one such task from a worker that is inside a poll, if it is time to balance and there is one.
    #[inline]
    pub(super) fn balance_groups(&self) {
        if self.local.is_time_to_balance() && self.has_others() {
            self.balance_groups_now();
        }
    }

    #[cold]
    fn balance_groups_now(&self) {
        self.shared.tally.searches.add_owned(1);
        self.look_at_list();
        for group in self.local.lacking() {
            for other in self.listed() {
                if let Some(count) = self.local.pull(group, other) {
                    self.shared.tally.thefts.add_owned(1);
                    self.shared.tally.stolen.add_owned(count);
                    return;
                }
            }
        }
    }
}
