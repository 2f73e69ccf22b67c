//! The timer tree: which awake worker looks after the timers of which sleeping ones. See README.md.
//!
//! A pure state machine: it reads no clock, fires no timer and wakes no thread. It is told when workers must wake for
//! timers, and returns what the caller has to do. The workers use it in `worker/pull.rs`.

mod climb;
#[cfg(test)]
mod loom;
mod rest;
mod sentry;
mod shape;
#[cfg(test)]
mod tests;
mod walk;
mod word;

pub use walk::{Step, Walk};

use climb::{Bit, Climb, Top};
use doorbell_machine::{Cpu, Line, Machine, Ordering, Word};
use sentry::{Own, Sentry, Stood, WORKERS_MAX};
use shape::{Children, Seat, Shape};
use std::ops::Range;
use word::State;

/// The most children of a branch.
pub const FANOUT_MAX: usize = 8;

/// What a worker must do after it became inactive.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deactivated {
    /// Sleep without regard to global timers: another worker sees to them all.
    Nothing,
    /// Sleep until that time at the latest, on behalf of all workers: no other one is active. When it wakes, for
    /// whatever reason, it calls [`Tree::activate`].
    SleepUntil(u64),
}

/// What the caller must do after it told the tree about a worker.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Nothing: another worker sees to it.
    Nothing,
    /// Ensure that a worker is awake by that time: the tree is empty, and no sentry wakes by then. A
    /// worker that is woken calls [`Tree::activate`] and sees to the rest.
    WakeBy(u64),
}

/// A branch: workers, or branches of the level below.
struct Branch<M: Machine> {
    parent: Option<Seat>,
    children: Children,
    /// Where its workers stand in [`Tree::order`].
    places: Range<usize>,
    /// A [`State`].
    word: M::Line<M::U64>,
    /// By child: its next wake. It counts while that child is inactive.
    slots: M::Line<[M::U64; FANOUT_MAX]>,
}

impl<M: Machine> Branch<M> {
    /// The state, and behind it the slots as they were when it was exchanged, or later.
    fn look(&self) -> State {
        // ORDER: Acquire pairs with the Release of a climb's exchange: the slot of a child that this shows as inactive.
        State(self.word.load(Ordering::Acquire))
    }

    /// Whether it has no active child, as a climb from it sees that.
    fn is_inactive(&self) -> bool {
        // ORDER: Relaxed; after the Acquire of the parent's word, so it is not older than what any earlier climb saw.
        // A thread that changes it later climbs later.
        State(self.word.load(Ordering::Relaxed)).is_empty()
    }

    /// The next wake of a child, if that is inactive.
    fn slot_ns(&self, child: usize) -> u64 {
        // ORDER: Relaxed; after the Acquire of this branch's word, or of one that was exchanged after it.
        self.slots[child].load(Ordering::Relaxed)
    }

    /// The least next wake of the children that are inactive in this state; `u64::MAX` for none.
    fn least_ns(&self, state: State) -> u64 {
        let inactive = (0..self.children.len()).filter(|child| !state.holds(*child));
        let slots_ns = inactive.map(|child| self.slot_ns(child));
        slots_ns.min().unwrap_or(u64::MAX)
    }
}

/// The timer tree of one scheduler. All workers begin inactive and without timers.
pub struct Tree<M: Machine> {
    /// Level by level from the workers up; the last one is the root.
    branches: Box<[Branch<M>]>,
    /// By worker: its place in its branch.
    seats: Box<[Seat]>,
    /// The workers in the order of their branches.
    order: Box<[usize]>,
    own: Box<[M::Line<Own<M>>]>,
    sentry: Sentry<M>,
}

impl<M: Machine> std::fmt::Debug for Tree<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree")
            .field("workers", &self.seats.len())
            .field("branches", &self.branches.len())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Tree<M> {
    /// A tree for one worker on each of these CPUs.
    ///
    /// # Panics
    /// If there is no worker, or more than 65,535.
    pub fn new(cpus: &[Cpu]) -> Self {
        Self::with_fanout(cpus, FANOUT_MAX)
    }

    /// The same with at most `fanout` children for each branch, so that tests have many levels.
    ///
    /// # Panics
    /// As [`Tree::new`], and if the fan-out is not 2 to 8.
    pub fn with_fanout(cpus: &[Cpu], fanout: usize) -> Self {
        assert!(
            (1..=WORKERS_MAX).contains(&cpus.len()),
            "{} workers",
            cpus.len()
        );
        assert!((2..=FANOUT_MAX).contains(&fanout), "a fan-out of {fanout}");
        let shape = Shape::new(cpus, fanout);
        let branch = |(of, places): (shape::BranchShape, &Range<usize>)| Branch {
            parent: of.parent,
            children: of.children,
            places: places.clone(),
            word: M::Line::new(|| M::U64::new(State::INACTIVE.0)),
            slots: M::Line::new(|| std::array::from_fn(|_| M::U64::new(u64::MAX))),
        };
        let branches = shape.branches.into_iter().zip(&shape.places).map(branch);
        Tree {
            branches: branches.collect(),
            own: (0..cpus.len()).map(|_| M::Line::new(Own::new)).collect(),
            seats: shape.seats.into(),
            order: shape.order.into(),
            sentry: Sentry::new(),
        }
    }

    /// Whether the tree takes the worker for active. A worker that runs and finds that it is not was set aside, and
    /// [activates](Tree::activate) between two polls.
    pub fn is_active(&self, worker: usize) -> bool {
        let seat = self.seats[worker];
        // ORDER: Relaxed; of a worker's own bit. It changes while the worker runs only if another thread sets it aside.
        let state = State(self.branches[seat.branch].word.load(Ordering::Relaxed));
        state.holds(seat.child)
    }

    /// The worker is awake: it looks after its own timers again, and after those of others. Called by itself.
    pub fn activate(&self, worker: usize) {
        self.sentry.leave(&self.own[worker], worker);
        while Self::climbs_again(Climb::from_worker(self, worker, Bit::Set).run()) {}
    }

    /// Whether a worker that activates climbs once more: the tree is empty, so another thread has just set it aside.
    /// That thread has looked for a sentry, but maybe before this climb wrote what a slot is now.
    fn climbs_again(top: Top) -> bool {
        top == Top::Empty
    }

    /// The worker is about to sleep. Called by itself, after its last look; its next wake is [noted](Tree::note).
    /// If it does not sleep after all, it [activates](Tree::activate).
    pub fn deactivate(&self, worker: usize) -> Deactivated {
        let top = Climb::from_worker(self, worker, Bit::Clear).run();
        match self.uncovered_ns(top) {
            None => Deactivated::Nothing,
            Some(at_ns) => self.stand(worker, at_ns),
        }
    }

    /// Whether the tree is empty, and no sentry wakes for the first timer.
    pub fn lacks_sentry(&self) -> bool {
        let root = self.root().look();
        // If the root's word was never exchanged, no worker has used the tree.
        let is_used = root != State::INACTIVE;
        is_used && root.is_empty() && self.uncovered_ns(Top::Empty).is_some()
    }

    fn root(&self) -> &Branch<M> {
        self.branches.last().expect("a tree has a root")
    }

    fn stand(&self, worker: usize, at_ns: u64) -> Deactivated {
        match self.sentry.stand(&self.own[worker], worker, at_ns) {
            Stood::Yes => Deactivated::SleepUntil(at_ns),
            Stood::Covered => Deactivated::Nothing,
        }
    }

    /// The earliest next wake, if the tree is empty and no sentry wakes by then.
    fn uncovered_ns(&self, top: Top) -> Option<u64> {
        if top == Top::Awake {
            return None;
        }
        let at_ns = self.root().least_ns(State::INACTIVE);
        (at_ns != u64::MAX && !self.sentry.covers(at_ns)).then_some(at_ns)
    }

    /// The worker looks after no timers of others for now, though awake: it is stuck, off, or ends. Called by any
    /// thread.
    pub fn set_aside(&self, worker: usize) -> Duty {
        self.told(Climb::from_worker(self, worker, Bit::Clear).run())
    }

    fn told(&self, top: Top) -> Duty {
        self.uncovered_ns(top).map_or(Duty::Nothing, Duty::WakeBy)
    }

    /// Notes the next wake of the worker: when its first global timer needs one; `u64::MAX` for none. Called by the
    /// thread that has the worker's wheel: by the worker before it [falls asleep](Tree::deactivate), or by a visitor,
    /// which [reports](Tree::report) afterwards.
    pub fn note(&self, worker: usize, next_wake_ns: u64) {
        // ORDER: Relaxed; the thread that notes it climbs after this.
        self.own[worker]
            .next_wake_ns
            .store(next_wake_ns, Ordering::Relaxed);
    }

    /// The next wake that was noted last.
    pub fn next_wake_ns(&self, worker: usize) -> u64 {
        // ORDER: Relaxed; as for `note`.
        self.own[worker].next_wake_ns.load(Ordering::Relaxed)
    }

    /// How often the words of the branches were exchanged since the tree was made. The sum of what their words say, so
    /// it wraps around, and is exact only while no worker uses the tree.
    pub fn exchanges(&self) -> u64 {
        let words = self.branches.iter().map(Branch::at_rest);
        words.map(State::sequence).sum()
    }

    /// Brings the tree up to date after the next wake of a worker was [noted](Tree::note).
    pub fn report(&self, worker: usize) -> Duty {
        self.told(Climb::from_worker(self, worker, Bit::Keep).run())
    }
}
