//! What must hold of the words of a tree while no operation is under way.

use super::shape::Children;
use super::word::State;
use super::{Branch, Tree};
use doorbell_machine::{Machine, Ordering, Word};

impl<M: Machine> Branch<M> {
    pub(super) fn at_rest(&self) -> State {
        // ORDER: Relaxed; no operation is under way.
        State(self.word.load(Ordering::Relaxed))
    }
}

impl<M: Machine> Tree<M> {
    /// Checks the words of the tree, for tests and the simulator: no operation may be under way. `counts` says of a
    /// worker whether what was noted of it counts: it has left its timers to others. A visitor of any other worker may
    /// have noted something and not reported it: that worker sees to its timers itself.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_at_rest(&self, counts: impl Fn(usize) -> bool) -> Result<(), &'static str> {
        let mut branches = self.branches.iter();
        branches.try_for_each(|branch| self.check_branch(branch, &counts))?;
        let workers = 0..self.seats.len();
        let (active, inactive): (Vec<usize>, Vec<usize>) =
            workers.partition(|worker| self.is_active(*worker));
        if self.sentry.worker().is_some_and(|it| active.contains(&it)) {
            return Err("the sentry is active");
        }
        let slots_ns = inactive.iter().map(|worker| {
            let seat = self.seats[*worker];
            self.branches[seat.branch].slot_ns(seat.child)
        });
        let earliest_ns = slots_ns.min().unwrap_or(u64::MAX);
        let looked_after = active.iter().map(|worker| self.next_ns(*worker));
        match looked_after.min() {
            Some(next_ns) if next_ns != earliest_ns => Err("the migrators look after other timers"),
            _ => Ok(()),
        }
    }

    /// One branch: it has a migrator if and only if a child is active, and it knows its inactive children.
    fn check_branch(
        &self,
        branch: &Branch<M>,
        counts: &impl Fn(usize) -> bool,
    ) -> Result<(), &'static str> {
        let own = branch.at_rest();
        if own.migrator().is_none() != own.is_empty() {
            return Err("a branch has a migrator without active children, or the reverse");
        }
        if own.migrator().is_some_and(|child| !own.holds(child)) {
            return Err("a migrator is inactive");
        }
        if own.active() >> branch.children.len() != 0 {
            return Err("a child is active that is not there");
        }
        for child in 0..branch.children.len() {
            let next_wake_ns = match &branch.children {
                Children::Workers(of) if !counts(of[child]) => continue,
                Children::Workers(of) => self.next_wake_ns(of[child]),
                Children::Branches(of) => {
                    let below = &self.branches[of[child]];
                    if own.holds(child) == below.at_rest().is_empty() {
                        return Err("the bit of a branch is wrong");
                    }
                    below.least_ns(State::INACTIVE)
                }
            };
            if !own.holds(child) && branch.slot_ns(child) != next_wake_ns {
                return Err("the slot of an inactive child is wrong");
            }
        }
        Ok(())
    }
}
