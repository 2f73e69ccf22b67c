//! The climb: brings a branch up to date with one of its children, then its parent with it, and so on.

use super::Tree;
use super::shape::Seat;
use super::word::State;
use doorbell_machine::{Bug, Machine, Ordering, Word};

/// What becomes of a worker's bit in its branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bit {
    /// The worker is active.
    Set,
    /// It is not.
    Clear,
    /// As it was: only its next wake has changed.
    Keep,
}

/// From which child a branch is brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum From {
    Worker(usize, Bit),
    Branch(usize),
}

/// How a climb ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Top {
    /// At a branch with an active child, which looks after the others.
    Awake,
    /// At the root, which has no active child.
    Empty,
}

/// How one exchange of a climb ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exchanged {
    /// The word had changed, or the climb goes on with the parent: read next.
    Again,
    /// The climb is over.
    Ended(Top),
}

/// Where a climb is, and what it has read there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct At {
    seat: Seat,
    from: From,
    seen: State,
    is_active: bool,
    next_wake_ns: u64,
}

/// A climb. Its three steps are apart so that tests can try every order of the steps of several climbs.
pub(super) struct Climb<'a, M: Machine> {
    pub(super) tree: &'a Tree<M>,
    pub(super) at: At,
}

impl<'a, M: Machine> Climb<'a, M> {
    /// A climb from a worker.
    pub(super) fn from_worker(tree: &'a Tree<M>, worker: usize, bit: Bit) -> Self {
        Self::new(tree, tree.seats[worker], From::Worker(worker, bit))
    }

    /// A climb from a branch whose place is `seat`.
    pub(super) fn from_branch(tree: &'a Tree<M>, branch: usize, seat: Seat) -> Self {
        Self::new(tree, seat, From::Branch(branch))
    }

    fn new(tree: &'a Tree<M>, seat: Seat, from: From) -> Self {
        let at = At {
            seat,
            from,
            seen: State::INACTIVE,
            is_active: false,
            next_wake_ns: u64::MAX,
        };
        Climb { tree, at }
    }

    /// Climbs as far as it must.
    pub(super) fn run(mut self) -> Top {
        loop {
            self.read();
            self.write();
            if let Exchanged::Ended(top) = self.exchange() {
                return top;
            }
        }
    }

    /// Reads the branch's word, and after it what the child is now.
    pub(super) fn read(&mut self) {
        let branch = &self.tree.branches[self.at.seat.branch];
        // ORDER: Acquire pairs with the Release of each exchange before it: what those threads saw of this child, and
        // stored into its slot, is visible.
        self.at.seen = State(branch.word.load(Ordering::Acquire));
        match self.at.from {
            From::Worker(worker, bit) => {
                self.at.is_active = match bit {
                    Bit::Set => true,
                    Bit::Clear => false,
                    Bit::Keep if M::breaks(Bug::TreeReportBlind) => false,
                    Bit::Keep => self.at.seen.holds(self.at.seat.child),
                };
                self.at.next_wake_ns = self.tree.next_wake_ns(worker);
            }
            From::Branch(_) if M::breaks(Bug::TreeClimbBlind) => {}
            From::Branch(child) => self.at.is_active = !self.tree.branches[child].is_inactive(),
        }
        if let (From::Branch(child), false) = (self.at.from, self.at.is_active) {
            self.at.next_wake_ns = self.tree.branches[child].least_ns(State::INACTIVE);
        }
    }

    /// Writes the child's slot, if it counts and is wrong.
    pub(super) fn write(&self) {
        let slot = &self.tree.branches[self.at.seat.branch].slots[self.at.seat.child];
        // ORDER: Relaxed; after the Acquire of `read`, so whatever earlier climbs stored is visible.
        if !self.at.is_active && slot.load(Ordering::Relaxed) != self.at.next_wake_ns {
            // ORDER: Relaxed; published by the exchange after it.
            slot.store(self.at.next_wake_ns, Ordering::Relaxed);
        }
    }

    /// Exchanges the branch's word, unless it has changed since it was read.
    pub(super) fn exchange(&mut self) -> Exchanged {
        let branch = &self.tree.branches[self.at.seat.branch];
        let before = self.at.seen;
        let mut after = before.next(self.at.seat.child, self.at.is_active);
        if M::breaks(Bug::TreeNoSequence) {
            after = after.under_the_sequence_of(before);
        }
        // ORDER: Release pairs with the Acquire of `read` and of a look: the slot, and all that was seen of the child,
        // is visible to a thread that finds this state or a later one. Relaxed on failure: all is read again.
        let exchanged =
            branch
                .word
                .compare_exchange(before.0, after.0, Ordering::Release, Ordering::Relaxed);
        if exchanged.is_err() {
            return Exchanged::Again;
        }
        let stops = if M::breaks(Bug::TreeStopsEarly) {
            before.is_empty() == after.is_empty()
        } else {
            !before.is_empty() && !after.is_empty()
        };
        if stops {
            return Exchanged::Ended(Top::Awake);
        }
        let Some(parent) = branch.parent else {
            let is_empty = after.is_empty();
            return Exchanged::Ended(if is_empty { Top::Empty } else { Top::Awake });
        };
        self.at.from = From::Branch(self.at.seat.branch);
        self.at.seat = parent;
        // What the mutant that does not read the child takes it for.
        self.at.is_active = !after.is_empty();
        Exchanged::Again
    }
}
