//! The gate decides who may touch the global base of a worker's wheel: the worker, or for a moment a visitor that
//! expires timers while the worker sleeps or is stuck.
//!
//! | value | name | meaning |
//! |---|---|---|
//! | 0 | `ABSENT` | the worker has not begun, or has ended: there is no wheel |
//! | 1 | `OWNED` | the worker's |
//! | 2 | `VISITED` | a visitor's, until it stores `OWNED` |
//! | 3 | `ENDING` | a visitor's, and the worker sleeps until the visitor has left: it stores `ABSENT`, and rings |
//!
//! Store buffering: the worker says that it is inside and looks at this word; the visitor marks this
//! word and looks whether the worker is inside. With a fence on both sides at least one of them sees the
//! other, and the one that does steps back. The worker's fence is the light one: the visitor pays.
//!
//! A worker that falls asleep lends its wheel: it says so in the word `lent`. When it wakes it takes that back, makes a
//! read-modify-write that it makes anyway, and a fence after that. A visitor that has marked the gate's word, and
//! after a fence reads that the wheel is lent, needs no heavy fence: the worker, when it wakes, sees the mark and
//! steps back.

use super::Wheel;
use doorbell_machine::{Bug, Fenced, Machine, Ordering, Parker, PtrWord, Word};

const ABSENT: u32 = 0;
const OWNED: u32 = 1;
const VISITED: u32 = 2;
const ENDING: u32 = 3;
const _: () = assert!(ABSENT < OWNED && OWNED < VISITED && VISITED < ENDING);

/// How a visitor finds a global base that it may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// Its worker sleeps: no poll is under way.
    Lent,
    /// Its worker runs, but is not inside the global base.
    Unused,
}

/// The words that guard the global base of a worker's wheel.
pub(crate) struct Gate<M: Machine, O> {
    word: M::U32,
    /// 1 while the worker touches its global base.
    inside: M::U32,
    /// 1 while the worker sleeps and has lent its wheel.
    lent: M::U32,
    wheel: M::Ptr<Wheel<M, O>>,
}

impl<M: Machine, O> Default for Gate<M, O> {
    fn default() -> Self {
        Gate {
            word: M::U32::new(ABSENT),
            inside: M::U32::new(0),
            lent: M::U32::new(0),
            wheel: M::Ptr::new(std::ptr::null_mut()),
        }
    }
}

impl<M: Machine, O> std::fmt::Debug for Gate<M, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

// SAFETY: only the worker follows the pointer, whose wheel it is, or one visitor at a time, while
// the worker does not; see above. What hangs in a wheel is Send; `Wheel::new` demands that of `O`.
unsafe impl<M: Machine, O> Send for Gate<M, O> {}
// SAFETY: as for Send.
unsafe impl<M: Machine, O> Sync for Gate<M, O> {}

/// While this lives, the worker may touch its global base.
struct Inside<'a, M: Machine, O>(&'a Gate<M, O>);

impl<M: Machine, O> Drop for Inside<'_, M, O> {
    #[inline(always)]
    fn drop(&mut self) {
        // ORDER: Release pairs with the Acquire of a visitor's look: what the worker did in there
        // is visible.
        self.0.inside.store(0, Ordering::Release);
    }
}

/// A visitor has the wheel for as long as this is there.
struct WheelVisit<'a, M: Machine, O> {
    gate: &'a Gate<M, O>,
    /// The parker of the worker whose wheel it is.
    parker: &'a M::Parker,
}

impl<M: Machine, O> Drop for WheelVisit<'_, M, O> {
    fn drop(&mut self) {
        let word = &self.gate.word;
        // ORDER: Release pairs with the Acquire of the worker's look, and of the next visitor's exchange. Relaxed
        // on failure: the worker has published nothing.
        let left = word.compare_exchange(VISITED, OWNED, Ordering::Release, Ordering::Relaxed);
        if left.is_err() {
            // ORDER: Release pairs with the Acquire of the worker's look; unshown because it takes three preemptions,
            // with which `ends_meanwhile` fails. A read-modify-write, so that it follows what the worker has written.
            word.swap(ABSENT, Ordering::Release);
            self.parker.ring(word);
        }
    }
}

impl<M: Machine, O> Gate<M, O> {
    /// The worker begins.
    ///
    /// # Safety
    /// The wheel stays alive and in place until [`Gate::end`] has returned.
    pub(super) unsafe fn begin(&self, wheel: &Wheel<M, O>) {
        // ORDER: Relaxed; published below.
        self.wheel
            .store(std::ptr::from_ref(wheel).cast_mut(), Ordering::Relaxed);
        // ORDER: Release pairs with the Acquire of a visitor's exchange: the wheel is there.
        self.word.store(OWNED, Ordering::Release);
    }

    /// The worker ends: when this returns, no visitor is there or will come. The worker sleeps in its parker
    /// while a visitor is there, because the visitor may have lost its CPU to this worker. Only the worker's own
    /// thread calls this.
    pub(crate) fn end(&self, parker: &M::Parker) {
        loop {
            // ORDER: Acquire on both ways pairs with the Release of the last visitor; redundant because behind
            // this the worker enters its wheel as before, by the Acquire of `is_visited`.
            let ended =
                self.word
                    .compare_exchange(OWNED, ABSENT, Ordering::Acquire, Ordering::Acquire);
            if matches!(ended, Ok(_) | Err(ABSENT)) {
                return;
            }
            // ORDER: Relaxed; it publishes nothing. On failure the visitor has left.
            let asked =
                self.word
                    .compare_exchange(VISITED, ENDING, Ordering::Relaxed, Ordering::Relaxed);
            if matches!(asked, Ok(_) | Err(ENDING)) {
                let _ = parker.park(&self.word, ENDING, None);
            }
        }
    }

    /// The worker touches its global base: runs `f`, unless a visitor has that.
    #[inline(always)]
    pub(super) fn enter<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        // ORDER: Relaxed; in front of the fence, whose partner is the visitor's.
        self.inside.store(1, Ordering::Relaxed);
        let inside = Inside(self);
        if !M::breaks(Bug::WheelGateNoFence) {
            M::fence_light();
        }
        if self.is_visited() {
            return None;
        }
        let done = f();
        drop(inside);
        Some(done)
    }

    /// The worker is about to sleep, and touches its wheel no more before [`Gate::take_back`]: until then a visitor
    /// needs no heavy fence.
    pub(crate) fn lend(&self) {
        // ORDER: Release pairs with the Acquire of a visitor's look: what the worker did with its wheel is visible.
        self.lent.store(1, Ordering::Release);
    }

    /// Whether the worker sleeps and has lent its wheel. For oracles.
    pub(crate) fn is_lent(&self) -> bool {
        // ORDER: Relaxed; the worker sleeps.
        self.lent.load(Ordering::Relaxed) != 0
    }

    /// The worker is awake. `announce` is something that it does in any case; it ends with a read-modify-write. Behind
    /// this it may [enter](Gate::enter).
    pub(crate) fn take_back(&self, announce: impl FnOnce()) {
        // ORDER: Relaxed; in front of the fence, whose partner is the visitor's.
        self.lent.store(0, Ordering::Relaxed);
        announce();
        if !M::breaks(Bug::WheelTakeBackNoFence) {
            M::fence_announce();
        }
    }

    /// Whether a visitor has the wheel.
    #[inline(always)]
    pub(super) fn is_visited(&self) -> bool {
        // ORDER: Acquire pairs with the Release of a visitor that leaves: what it did is visible.
        self.word.load(Ordering::Acquire) == VISITED
    }

    /// Another worker visits the wheel: runs `f`, unless the wheel's worker or another visitor is inside. `parker`
    /// is that of the wheel's worker; the visitor keeps it in memory. `f` is told how the wheel stands.
    pub(super) fn visit<R>(
        &self,
        parker: &M::Parker,
        f: impl FnOnce(&Wheel<M, O>, Stands) -> R,
    ) -> Option<R> {
        // ORDER: Relaxed; only to spare the fence where the worker is inside anyway.
        if self.inside.load(Ordering::Relaxed) != 0 {
            return None;
        }
        // ORDER: Acquire pairs with the Release of `begin` and of the last visitor; redundant because the
        // fence after it acquires as well. A read-modify-write, so of two visitors one is refused.
        // Relaxed on failure: nothing is done.
        self.word
            .compare_exchange(OWNED, VISITED, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        let visit = WheelVisit { gate: self, parker };
        let stands = self.how_it_stands()?;
        // ORDER: Relaxed; published by `begin`.
        let wheel = self.wheel.load(Ordering::Relaxed);
        debug_assert!(!wheel.is_null(), "a visitor came before the worker");
        // SAFETY: the wheel is alive, because its worker does not end before the word is OWNED again. The worker
        // does not touch it: it has seen VISITED, or will.
        let done = f(unsafe { &*wheel }, stands);
        drop(visit);
        Some(done)
    }

    /// For tests outside of this folder: runs `f` while a visitor has the wheel.
    #[cfg(test)]
    pub(crate) fn visit_by_hand(&self, parker: &M::Parker, f: impl FnOnce()) -> Option<()> {
        self.visit(parker, |_, _| f())
    }

    /// After the visitor's mark: whether it may go in.
    fn how_it_stands(&self) -> Option<Stands> {
        if !M::breaks(Bug::WheelVisitNoFence) {
            M::fence_recheck();
        }
        // ORDER: Acquire pairs with the Release of `lend`.
        if self.lent.load(Ordering::Acquire) != 0 {
            return Some(Stands::Lent);
        }
        // Without it the worker may be inside unseen.
        // ORDER: with the light fence of `enter`; unshown because the checker takes each fence for a full one, and the
        // one above stands in for it. On x86 that one is no fence.
        if M::fence_heavy() == Fenced::Refused {
            return None;
        }
        // ORDER: Acquire pairs with the Release of the worker that leaves.
        (self.inside.load(Ordering::Acquire) == 0).then_some(Stands::Unused)
    }
}
