//! The wheel: a worker's timers. See README.md in this folder for the protocol.
//!
//! A worker has two bases: one for the timers of pinned tasks (local), one for all others (global). Only the worker
//! touches them. To arm, re-arm or cancel a timer on its own worker takes no lock, and no atomic read-modify-write of
//! its own. Another thread reaches a worker's timer by one exchange of the timer's state word and by mail. While a
//! worker sleeps or is stuck in a long poll, another worker of its scheduler may expire its global timers (`gate.rs`).

mod clock;
pub(crate) mod entry;
mod gate;
mod levels;
#[cfg(test)]
mod loom;
#[cfg(test)]
mod loom_gate;
#[cfg(test)]
mod loom_lent;
#[cfg(test)]
mod loom_quiescence;
mod quiescence;
#[cfg(test)]
mod tests;
mod visit;
mod window;

pub use clock::Clock;
pub(crate) use quiescence::Ended;
pub use quiescence::{Hold, Holds, Quiescent, Sleepers};

use crate::quiet::{drop_quietly, wake_quietly};
use doorbell_machine::{Cell, Machine};
use entry::Fire;
pub(crate) use entry::{Cancel, Entry, TakenIn};
pub(crate) use gate::Gate;
pub(crate) use levels::WheelLevels;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;
pub(crate) use visit::Visited;
pub use window::Window;

/// How many entries a worker keeps for its next timers; more go back to the allocator. Fewer under Miri, where
/// a test that keeps as many would take minutes.
const KEPT_MAX: usize = if cfg!(miri) { 64 } else { 4_096 };

/// Which of a worker's two bases a timer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Of a task that is pinned to this core: only this worker expires it.
    Local,
    /// Of any other task.
    Global,
}

impl Base {
    pub(crate) const BOTH: [Base; 2] = [Base::Local, Base::Global];
}

/// The timers of one worker. Not `Sync`.
///
/// `O` leads to the worker that has a timer, for the timer's handle on other threads.
pub(crate) struct Wheel<M: Machine, O> {
    local: M::Cell<WheelLevels<M, O>>,
    /// The worker's, or for a moment a visitor's.
    global: M::Cell<WheelLevels<M, O>>,
    /// Entries for the next timers.
    kept: M::Cell<Vec<NonNull<Entry<M, O>>>>,
    /// By which others may visit the global base.
    gate: SharedGate<M, O>,
}

/// The gate of a wheel, which the worker's remote half has too.
pub(crate) type SharedGate<M, O> = Arc<<M as Machine>::Line<Gate<M, O>>>;

/// The waker of a timer that has left the wheel. It is woken or dropped outside of the wheel.
#[must_use]
#[derive(Debug)]
enum TimerReleased {
    ToWake(Option<Waker>),
    /// Its handle was gone.
    ToDrop(Option<Waker>),
}

impl TimerReleased {
    /// Wakes or drops; returns how many were woken.
    fn end<M: Machine>(self) -> u64 {
        match self {
            TimerReleased::ToWake(Some(waker)) => {
                wake_quietly::<M>(waker);
                1
            }
            TimerReleased::ToWake(None) => 0,
            TimerReleased::ToDrop(waker) => {
                drop_quietly(waker);
                0
            }
        }
    }
}

/// How many timers one round of a visit fires at most.
const VISIT_MAX: usize = 16;

/// How many timers one round of a visit looks at: it leaves those of the poll under way.
const VISIT_LOOKS: usize = 64;

/// After this time another visit may take the timers that were left, if that poll is over.
const VISIT_AGAIN_NS: u64 = 800_000;

impl<M: Machine, O> std::fmt::Debug for Wheel<M, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wheel")
            .field("pending", &self.len())
            .finish()
    }
}

impl<M: Machine, O> Wheel<M, O> {
    pub(crate) fn new(now_ns: u64, gate: SharedGate<M, O>) -> Self
    where
        O: Send,
    {
        Wheel {
            gate,
            local: M::Cell::new(WheelLevels::new(now_ns)),
            global: M::Cell::new(WheelLevels::new(now_ns)),
            // Once and for all: to free a timer allocates nothing.
            kept: M::Cell::new(Vec::with_capacity(KEPT_MAX)),
        }
    }

    /// The worker touches one of its bases. `None`, and nothing is done, while a visitor has that base, which is the
    /// global one. `f` calls nothing that comes back to the wheel: wakers are woken and dropped outside.
    #[inline(always)]
    pub(crate) fn with<R>(
        &self,
        base: Base,
        f: impl FnOnce(&mut WheelLevels<M, O>) -> R,
    ) -> Option<R> {
        match base {
            // SAFETY: only the worker has a reference to its wheel, except for a visitor, which leaves this base alone.
            Base::Local => Some(self.local.with_mut(|base| f(unsafe { &mut *base }))),
            // SAFETY: the worker has entered.
            Base::Global => self.gate.enter(|| unsafe { self.with_global(f) }),
        }
    }

    /// # Safety
    /// The caller is the worker, and inside, or its visitor. `f` is as for [`Wheel::with`].
    #[inline(always)]
    unsafe fn with_global<R>(&self, f: impl FnOnce(&mut WheelLevels<M, O>) -> R) -> R {
        // SAFETY: the caller's promise.
        self.global.with_mut(|base| f(unsafe { &mut *base }))
    }

    /// The worker touches the entries that it keeps.
    #[inline(always)]
    fn with_kept<R>(&self, f: impl FnOnce(&mut Vec<NonNull<Entry<M, O>>>) -> R) -> R {
        // SAFETY: as for the local base in `with`; nothing that is called in here comes back.
        self.kept.with_mut(|kept| f(unsafe { &mut *kept }))
    }

    /// The worker begins to run: from here on others may visit its wheel.
    ///
    /// # Safety
    /// The wheel stays where it is until [`Wheel::close`] has returned.
    pub(crate) unsafe fn begin(&self) {
        // SAFETY: passed on.
        unsafe { self.gate.begin(self) };
    }

    /// How many timers hang in the wheel.
    pub(crate) fn len(&self) -> usize {
        let lens = Base::BOTH.map(|base| self.with(base, |base| base.len()));
        lens.into_iter().flatten().sum()
    }

    /// An entry for a new timer.
    #[inline]
    pub(crate) fn take_entry(&self, owner: impl FnOnce() -> O) -> NonNull<Entry<M, O>> {
        self.with_kept(Vec::pop)
            .unwrap_or_else(|| Entry::allocate_here(owner()))
    }

    /// Keeps an entry for the next timer.
    ///
    /// # Safety
    /// The caller alone has the entry, and it hangs nowhere.
    #[inline]
    pub(crate) unsafe fn recycle(&self, entry: NonNull<Entry<M, O>>) {
        // SAFETY: the caller's promise.
        let it = unsafe { entry.as_ref() };
        // SAFETY: as above. The waker is dropped outside of the wheel, because its drop may use the wheel.
        let waker = it.waker.with_mut(|waker| unsafe { (*waker).take() });
        // Only mailed entries have one.
        // SAFETY: as above.
        let known = unsafe { it.with_handle_waker(Option::take) };
        let is_roused = waker.is_some() && it.state() == entry::ROUSED;
        it.set(entry::FREE);
        let is_kept = self.with_kept(|kept| {
            let has_room = kept.len() < KEPT_MAX;
            if has_room {
                kept.push(entry);
            }
            has_room
        });
        if !is_kept {
            // SAFETY: the caller's promise.
            unsafe { Entry::free(entry) };
        }
        // Quietly, because the caller may be the worker's own loop. Mostly there is nothing to drop, and a look
        // is cheaper than a drop.
        match waker {
            Some(waker) if is_roused => wake_quietly::<M>(waker),
            None if known.is_none() => return,
            waker => drop_quietly(waker),
        }
        drop_quietly(known);
    }

    /// Hangs an entry in. `None`, and nothing is done, while a visitor has the wheel.
    ///
    /// # Safety
    /// The entry is this worker's, and hangs nowhere.
    #[inline]
    pub(crate) unsafe fn hang(&self, entry: NonNull<Entry<M, O>>, window: Window) -> Option<()> {
        // SAFETY: the caller's promise.
        let base = unsafe { entry.as_ref() }.base.get();
        // SAFETY: passed on.
        self.with(base, |base| unsafe { base.insert(entry.as_ptr(), window) })
    }

    /// Takes in an entry that came by mail: hangs it, or unlinks it if it is cancelled. `None`, and nothing is
    /// done, while a visitor has the wheel. `tag` is the [tag](Entry::tag) of the poll under way.
    ///
    /// # Safety
    /// The entry is alive, and belongs to this worker.
    pub(crate) unsafe fn take_in(&self, entry: NonNull<Entry<M, O>>, tag: u16) -> Option<TakenIn> {
        // SAFETY: the caller's promise.
        let it = unsafe { entry.as_ref() };
        let base = it.base.get();
        self.with(base, |levels| {
            if it.accept() {
                it.polls.set(tag.wrapping_sub(1));
                // SAFETY: accepted, so it and its link are this worker's.
                let window = unsafe { Entry::with_link(entry.as_ptr(), |link| link.window) };
                // SAFETY: as above; it hangs in no list.
                unsafe { levels.insert(entry.as_ptr(), window) };
                return TakenIn::Hangs { base, window };
            }
            if it.is_linked() {
                // SAFETY: it hangs in this worker's wheel.
                unsafe { levels.unlink(entry.as_ptr()) };
            }
            TakenIn::Cancelled
        })
    }

    /// Between which times the worker has to look next at that base. `None` while a visitor has it.
    pub(crate) fn next(&self, base: Base) -> Option<Window> {
        self.with(base, |base| base.next())
    }

    /// Fires what is due at `now_ns`; returns how many. What a visitor has is left to it.
    pub(crate) fn expire(&self, now_ns: u64) -> u64 {
        for base in Base::BOTH {
            let _ = self.with(base, |base| base.advance(now_ns));
        }
        let mut fired = 0;
        // One by one: a waker may arm and cancel timers of this very wheel.
        while let Some(entry) = self.pop(WheelLevels::pop_due) {
            // SAFETY: it hung in the wheel until now, so it is alive. It stays alive until its
            // state gives it to the handle.
            fired += unsafe { Self::release(entry, Entry::fire) }.end::<M>();
        }
        fired
    }

    /// Takes a timer out of the first base that has one.
    fn pop(
        &self,
        pop: impl Fn(&mut WheelLevels<M, O>) -> Option<NonNull<Entry<M, O>>>,
    ) -> Option<NonNull<Entry<M, O>>> {
        let mut bases = Base::BOTH.into_iter();
        bases.find_map(|base| self.with(base, &pop).flatten())
    }

    /// Gives a timer that was unlinked to its handle; if the handle is gone, leaves it to the message that the
    /// handle sent.
    ///
    /// # Safety
    /// The entry is alive, and this worker's or its visitor's.
    unsafe fn release(
        entry: NonNull<Entry<M, O>>,
        how: unsafe fn(NonNull<Entry<M, O>>) -> Fire,
    ) -> TimerReleased {
        // SAFETY: while it is not yet the handle's, the waker is the worker's.
        let waker = unsafe { entry.as_ref().waker.with_mut(|waker| (*waker).take()) };
        // SAFETY: the caller's promise.
        match unsafe { how(entry) } {
            Fire::Wake | Fire::Roused => TimerReleased::ToWake(waker),
            Fire::Cancelled => TimerReleased::ToDrop(waker),
            Fire::Abandoned => {
                // SAFETY: its handle is gone and has left it to the worker, which has unlinked it.
                unsafe { Entry::free(entry) };
                // Whether it was cancelled or roused is not known any more; a wake too many does no harm.
                TimerReleased::ToWake(waker)
            }
        }
    }

    /// The worker ends: tells every handle, and lets no visitor in any more. `parker` is the worker's.
    pub(crate) fn close(&self, parker: &M::Parker) {
        self.gate.end(parker);
        while let Some(entry) = self.pop(WheelLevels::pop_any) {
            // SAFETY: as in `expire`.
            let _ = unsafe { Self::release(entry, Entry::orphan) }.end::<M>();
        }
        self.free_kept();
    }

    fn free_kept(&self) {
        for entry in self.with_kept(std::mem::take) {
            // SAFETY: only the worker has the entries that it keeps.
            unsafe { Entry::free(entry) };
        }
    }
}

impl<M: Machine, O> Drop for Wheel<M, O> {
    /// The handle of a timer that had fired may have given back its entry after the wheel was closed.
    fn drop(&mut self) {
        self.free_kept();
    }
}
