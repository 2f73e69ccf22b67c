//! The look and the walk of a migrator: when the inactive workers that it looks after have something due, and which.

use super::climb::Climb;
use super::shape::{Children, Seat};
use super::word::State;
use super::{Branch, Tree};
use doorbell_machine::Machine;

/// What a walk has found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This worker is inactive and has a timer that is due. Visit its wheel: fire what is due, [note](Tree::note) the
    /// next wake, leave the wheel, and [report](Tree::report), also if nothing fired. If the wheel cannot be entered,
    /// go on, and walk again later.
    Expire(usize),
    /// Nothing more is due.
    Done,
}

/// A walk through the branches that a worker is the migrator of. It names each worker at most once per level and
/// only goes forward, so it ends whatever others do meanwhile.
pub struct Walk<'a, M: Machine> {
    pub(super) tree: &'a Tree<M>,
    pub(super) now_ns: u64,
    /// Where the walk is: the branch, and that child of it from which the worker came up. `None` at the end.
    pub(super) seat: Option<Seat>,
    /// In that branch the workers before this place of [`Tree::order`] are done.
    pub(super) from: usize,
}

impl<M: Machine> std::fmt::Debug for Walk<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk")
            .field("now_ns", &self.now_ns)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Tree<M> {
    /// When the worker has to walk: the least next wake of the inactive workers that it looks after; `u64::MAX` if it
    /// looks after none that has a timer. For active workers: 0 to a few loads, and no store.
    pub fn next_ns(&self, worker: usize) -> u64 {
        let watched = self.watched(worker);
        let least = watched.map(|(branch, state)| branch.least_ns(state));
        least.min().unwrap_or(u64::MAX)
    }

    /// The branches of which the worker is the migrator, from its own one up.
    fn watched(&self, worker: usize) -> impl Iterator<Item = (&Branch<M>, State)> {
        let mut seat = Some(self.seats[worker]);
        std::iter::from_fn(move || {
            let (branch, state) = self.watch(seat?)?;
            seat = branch.parent;
            Some((branch, state))
        })
    }

    /// The branch of this place, if the child there is its migrator.
    fn watch(&self, seat: Seat) -> Option<(&Branch<M>, State)> {
        let branch = &self.branches[seat.branch];
        let state = branch.look();
        (state.migrator() == Some(seat.child)).then_some((branch, state))
    }

    /// Begins a walk of this worker for what is due at `now_ns`.
    pub fn walk(&self, worker: usize, now_ns: u64) -> Walk<'_, M> {
        Walk {
            tree: self,
            now_ns,
            seat: Some(self.seats[worker]),
            from: 0,
        }
    }
}

impl<M: Machine> Walk<'_, M> {
    /// The next inactive worker that has something due.
    pub fn step(&mut self) -> Step {
        while let Some((branch, state)) = self.seat.and_then(|seat| self.tree.watch(seat)) {
            if let Some(place) = self.find(branch, state) {
                self.from = place + 1;
                return Step::Expire(self.tree.order[place]);
            }
            self.seat = branch.parent;
            self.from = 0;
        }
        self.seat = None;
        Step::Done
    }

    /// The next place below the branch whose worker is inactive and has something due.
    fn find(&self, branch: &Branch<M>, state: State) -> Option<usize> {
        let is_due = |child: &usize| !state.holds(*child) && branch.slot_ns(*child) <= self.now_ns;
        let mut due = (0..branch.children.len()).filter(is_due);
        match &branch.children {
            Children::Workers(_) => {
                let mut places = due.map(|child| branch.places.start + child);
                places.find(|place| *place >= self.from)
            }
            Children::Branches(of) => due.find_map(|child| self.find_below(of[child])),
        }
    }

    /// The same below a branch whose slot is due.
    fn find_below(&self, number: usize) -> Option<usize> {
        let branch = &self.tree.branches[number];
        let state = branch.look();
        // A worker there has just become active, and looks after it.
        if branch.places.end <= self.from || !state.is_empty() {
            return None;
        }
        let found = self.find(branch, state);
        if let (None, Some(parent), true) = (found, branch.parent, self.from <= branch.places.start)
        {
            // Nothing is due there: the slot is wrong, and would be met by every walk. If the tree is empty, this
            // worker was set aside meanwhile: it takes that back after its walk.
            let _ = Climb::from_branch(self.tree, number, parent).run();
        }
        found
    }
}
