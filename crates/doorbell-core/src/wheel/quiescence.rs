//! Quiescence: how a paused clock learns that its runtime has nothing left to do, so that it may go on to
//! the next timer. For tests; a clock that runs has none of this.
//!
//! One word counts what is busy. The thread that gives back the last count looks whether every worker is
//! parked and was told nothing. If so, the runtime is quiescent, and the clock goes on.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0..24 | `BUSY` | workers that are not asleep, threads inside `block_on` that do not wait, and what else holds the clock |
//! | 24..40 | `INSIDE` | threads inside `block_on`: without one the clock stands still |
//! | 40 | `STEPPING` | the runtime was found quiescent, and the clock may be about to go on |
//! | 41..64 | `EPOCH` | grows by one whenever a thread becomes busy, and wraps |
//!
//! Why a look at the workers is enough: a sleeping worker is woken by a thread that is busy, and that
//! signals the worker's bell before it gives back its count. So the thread that finds the count at zero sees
//! that signal, unless the worker has woken. Then the worker has become busy first, and the epoch has changed.
//!
//! A thread that becomes busy while another sets the clock waits until that is done. So the clock stands
//! still from the moment on at which the thread is busy, and not only one step later.

use super::Clock;
use doorbell_machine::{Bug, Line, Machine, Ordering, Word};
use std::sync::Arc;

const BUSY: u64 = 1;
const INSIDE: u64 = 1 << 24;
const STEPPING: u64 = 1 << 40;
const EPOCH: u64 = 1 << 41;
const BUSY_MASK: u64 = INSIDE - BUSY;
const INSIDE_MASK: u64 = STEPPING - INSIDE;
const EPOCH_MASK: u64 = 0u64.wrapping_sub(EPOCH);

// The table above: four fields, none shared, nothing left over.
const _: () = assert!(BUSY_MASK | INSIDE_MASK | STEPPING | EPOCH_MASK == u64::MAX);
const _: () = assert!(
    BUSY_MASK.count_ones() + INSIDE_MASK.count_ones() + 1 + EPOCH_MASK.count_ones() == u64::BITS
);

/// What became of a count that was given back.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It is gone.
    Yes,
    /// It was the last: the clock has gone on, or a thread that waited for quiescence was woken. The
    /// caller is busy again.
    Resumed,
}

/// Whether a thread had waited for quiescence.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiescent {
    /// Yes, and it was woken: the clock stands still until the next quiescence.
    Woken,
    /// No: the clock goes on to the next timer.
    Nobody,
}

/// The workers whose timers go by a paused clock.
pub trait Sleepers: Send + Sync + 'static {
    /// How many there are.
    fn count(&self) -> usize;

    /// Whether every one of them is parked and was told nothing.
    fn are_quiescent(&self) -> bool;

    /// Asks a worker to look at its timers.
    fn wake(&self, worker: usize);
}

/// What a paused clock knows of its runtime.
pub(super) struct Quiescence<M: Machine> {
    word: M::Line<M::U64>,
    /// When each worker has to wake for a timer, stored as it falls asleep; `u64::MAX` for never.
    wake_ns: Box<[M::U64]>,
    workers: Box<dyn Sleepers>,
    told: Box<dyn Fn() -> Quiescent + Send + Sync>,
}

impl<M: Machine> std::fmt::Debug for Quiescence<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quiescence")
            .field("word", &*self.word)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Quiescence<M> {
    /// Of a runtime whose workers have not begun yet: all count as busy.
    pub(super) fn new(
        workers: impl Sleepers,
        when_quiescent: impl Fn() -> Quiescent + Send + Sync + 'static,
    ) -> Self {
        let count = workers.count();
        Quiescence {
            word: M::Line::new(|| M::U64::new(count as u64 * BUSY)),
            wake_ns: (0..count).map(|_| M::U64::new(u64::MAX)).collect(),
            workers: Box::new(workers),
            told: Box::new(when_quiescent),
        }
    }

    fn begin(&self, what: u64) {
        let epoch = if M::breaks(Bug::QuiescenceNoEpoch) {
            0
        } else {
            EPOCH
        };
        // ORDER: Acquire pairs with the Release of a step that is over: its time is seen. A worker that cleared
        // its signals is seen to have begun by the Release of its bell after this, with the Acquire of
        // the last one's look at the bells in front of its exchange.
        let before = self
            .word
            .fetch_add(epoch.wrapping_add(what), Ordering::Acquire);
        if before & STEPPING != 0 && !M::breaks(Bug::QuiescenceNoWait) {
            // ORDER: Acquire pairs with the Release of the step: its time is seen. No other step can begin,
            // because the caller is busy.
            while self.word.load(Ordering::Acquire) & STEPPING != 0 {
                M::relax(1);
            }
        }
    }

    fn end(&self, what: u64, clock: &Clock<M>) -> Ended {
        // ORDER: AcqRel; Release publishes the signals that were set before it, and Acquire makes those of all
        // threads that ended before visible.
        let before = self.word.fetch_sub(what, Ordering::AcqRel);
        self.go_on_if_quiescent(before.wrapping_sub(what), clock)
    }

    /// Lets the clock go on if everything is quiescent. `seen` is the word as the caller left it.
    fn go_on_if_quiescent(&self, mut seen: u64, clock: &Clock<M>) -> Ended {
        loop {
            let is_over = seen & BUSY_MASK == 0 && seen & INSIDE_MASK != 0;
            if !is_over || !self.workers_are_quiescent() {
                // A thread that is busy, or was signalled, ends later.
                return Ended::Yes;
            }
            let resumed = seen.wrapping_add(EPOCH + BUSY);
            // ORDER: Relaxed; the word is as the caller left it, so there is nothing new to acquire, and nothing
            // is published. On failure another thread is busy.
            let claim =
                self.word
                    .compare_exchange(seen, resumed, Ordering::Relaxed, Ordering::Relaxed);
            if claim.is_err() {
                return Ended::Yes;
            }
            if self.go_on(resumed, clock) == Ended::Resumed {
                return Ended::Resumed;
            }
            // ORDER: Acquire makes visible what threads that ended meanwhile have signalled. This one has
            // signalled nothing since its own end.
            let before = self.word.fetch_sub(BUSY, Ordering::Acquire);
            if before == resumed {
                return Ended::Yes;
            }
            // Other threads became busy meanwhile. If they have ended, they were not the last.
            seen = before.wrapping_sub(BUSY);
        }
    }

    /// Whether every worker is parked and untold.
    fn workers_are_quiescent(&self) -> bool {
        M::breaks(Bug::QuiescenceWithoutALook) || self.workers.are_quiescent()
    }

    /// The runtime is quiescent except for the caller. Wakes the thread that waits for that; if there is none,
    /// goes to the next timer, unless a thread became busy since the word was `resumed`.
    fn go_on(&self, resumed: u64, clock: &Clock<M>) -> Ended {
        if (self.told)() == Quiescent::Woken {
            return Ended::Resumed;
        }
        // ORDER: Relaxed here and below; the caller's own end has acquired what each worker stored before its end.
        let due = |worker: &M::U64| worker.load(Ordering::Relaxed);
        let next_ns = self.wake_ns.iter().map(due).min().unwrap_or(u64::MAX);
        if next_ns == u64::MAX || !self.step_to(next_ns, resumed, clock) {
            return Ended::Yes;
        }
        for (worker, wake_ns) in self.wake_ns.iter().enumerate() {
            if due(wake_ns) <= next_ns {
                self.workers.wake(worker);
            }
        }
        Ended::Resumed
    }

    /// Sets the clock, while threads that become busy wait; `false`, and nothing is done, if a thread is busy already.
    /// No foreign code runs in here.
    fn step_to(&self, next_ns: u64, resumed: u64, clock: &Clock<M>) -> bool {
        let stepping = resumed | STEPPING;
        // ORDER: Relaxed; the caller's own end has acquired what the workers stored. On failure nothing is done.
        let claim =
            self.word
                .compare_exchange(resumed, stepping, Ordering::Relaxed, Ordering::Relaxed);
        if claim.is_err() {
            return false;
        }
        clock.advance_to(next_ns);
        // ORDER: Release pairs with the Acquire of a thread that begins, or waits for this: it sees the time.
        self.word.fetch_sub(STEPPING, Ordering::Release);
        true
    }
}

/// While this lives, a paused clock does not go on.
#[derive(Debug)]
pub struct Hold<M: Machine> {
    clock: Arc<Clock<M>>,
    what: u64,
}

impl<M: Machine> Drop for Hold<M> {
    fn drop(&mut self) {
        self.clock.end(self.what);
    }
}

impl<M: Machine> Clock<M> {
    /// A paused clock: it starts at the machine's present time, and stands while anything of the runtime of
    /// these workers is busy, or no thread is inside its `block_on`. Otherwise it calls `when_quiescent`, and goes
    /// on to the next timer on [`Quiescent::Nobody`].
    pub fn paused(
        workers: impl Sleepers,
        when_quiescent: impl Fn() -> Quiescent + Send + Sync + 'static,
    ) -> Self {
        let mut clock = Clock::frozen();
        clock.quiescence = Some(Quiescence::new(workers, when_quiescent));
        clock
    }

    /// Keeps a paused clock from going on; `None` for any other.
    pub fn hold(self: &Arc<Self>) -> Option<Hold<M>> {
        self.hold_what(BUSY)
    }

    /// A thread goes inside `block_on`. If it holds the clock already, it gives up that hold while it waits
    /// in there.
    pub fn inside(self: &Arc<Self>, holds: Holds) -> Option<Hold<M>> {
        self.hold_what(match holds {
            Holds::Yes => INSIDE,
            Holds::No => INSIDE + BUSY,
        })
    }

    fn hold_what(self: &Arc<Self>, what: u64) -> Option<Hold<M>> {
        self.quiescence.as_ref().map(|it| {
            it.begin(what);
            Hold {
                clock: Arc::clone(self),
                what,
            }
        })
    }

    /// Sets a frozen clock forward by `duration_ns`. If the clock is paused, every worker looks at its timers.
    pub fn advance_by(&self, duration_ns: u64) {
        self.step(|seen_ns| seen_ns.saturating_add(duration_ns));
        if let Some(it) = &self.quiescence {
            (0..it.wake_ns.len()).for_each(|worker| it.workers.wake(worker));
        }
    }

    /// One more worker, or thread inside `block_on`, is busy from now on.
    pub(crate) fn begin(&self) {
        if let Some(it) = &self.quiescence {
            it.begin(BUSY);
        }
    }

    /// A thread that is no worker is not busy any more.
    fn end(&self, mut what: u64) {
        let Some(it) = &self.quiescence else { return };
        while it.end(what, self) == Ended::Resumed {
            // What that has woken is busy, or has been told.
            what = BUSY;
        }
    }

    pub(crate) fn end_busy(&self) {
        self.end(BUSY);
    }

    /// A worker is about to sleep, and has to wake for its timers at `wake_ns`; `u64::MAX` for never. On
    /// [`Ended::Resumed`] it must not sleep, and has to look now.
    pub(crate) fn end_worker(&self, worker: usize, wake_ns: u64) -> Ended {
        let Some(it) = &self.quiescence else {
            return Ended::Yes;
        };
        // ORDER: Relaxed; the Release of `end` below publishes it.
        it.wake_ns[worker].store(wake_ns, Ordering::Relaxed);
        it.end(BUSY, self)
    }

    /// A thread inside `block_on` is about to sleep. On [`Ended::Resumed`] it must not sleep.
    pub(crate) fn end_waiter(&self) -> Ended {
        match &self.quiescence {
            Some(it) => it.end(BUSY, self),
            None => Ended::Yes,
        }
    }
}

/// Whether a thread holds the clock already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// It is inside another `block_on`, or runs a closure that holds it.
    Yes,
    /// It does not.
    No,
}
