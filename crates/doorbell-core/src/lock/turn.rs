//! A turn: one task that waits for a lock. Its future and the line share it, and the half that is dropped
//! last frees it.
//!
//! | bit | name | meaning |
//! |---|---|---|
//! | 0 | `GRANTED` | its task has the lock |
//! | 1 | `LOOKING` | its future changes the waker, and looks for `GRANTED` afterwards |
//! | 2 | `WITHDRAWN` | its future is gone |
//! | 3 | `HALF` | one of its two halves was dropped |

use super::word::Holder;
use crate::quiet::drop_quietly;
use crate::task::{Schedule, SchedulerId};
use doorbell_machine::{Cell, Counter, Machine, Ordering, PtrWord, Word};
use std::ptr::{NonNull, null_mut};
use std::task::Waker;

const GRANTED: u32 = 1 << 0;
const LOOKING: u32 = 1 << 1;
const WITHDRAWN: u32 = 1 << 2;
const HALF: u32 = 1 << 3;

// The table above.
const _: () = assert!(GRANTED + LOOKING + WITHDRAWN + HALF == 0b1111);

/// What a waiting future finds when it is polled again.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnSeen {
    /// It has the lock.
    Granted,
    /// It still waits.
    Waits,
    /// It still waits, and is more urgent than before. The keeper must be told.
    MoreUrgent,
}

/// What became of a grant.
#[must_use]
#[derive(Debug)]
pub(super) enum Given {
    /// The turn has the lock, and its future must be woken.
    Wake(Waker),
    /// The turn has the lock, and its future is looking: it needs no wake.
    Looks,
    /// The future is gone: the turn does not get the lock.
    Withdrawn,
}

/// Whether a future that is dropped had been granted the lock.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Withdrawn {
    /// No, and it will not be.
    InTime,
    /// Yes, and it must unlock.
    Granted,
}

/// One of the two shares of a turn.
pub(super) struct Half<M: Machine>(NonNull<Turn<M>>);

// SAFETY: a turn is Send and Sync, and may be freed on any thread.
unsafe impl<M: Machine> Send for Half<M> {}
// SAFETY: as for Send.
unsafe impl<M: Machine> Sync for Half<M> {}

impl<M: Machine> std::fmt::Debug for Half<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}

impl<M: Machine> std::ops::Deref for Half<M> {
    type Target = Turn<M>;

    fn deref(&self) -> &Turn<M> {
        // SAFETY: the turn lives until both halves are dropped.
        unsafe { self.0.as_ref() }
    }
}

impl<M: Machine> Half<M> {
    fn into_raw(self) -> *mut Turn<M> {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }
}

impl<M: Machine> Drop for Half<M> {
    fn drop(&mut self) {
        // ORDER: Release pairs with the Acquire of the other half's drop: what this half did with the turn.
        // Acquire pairs with the Release of `give` too: what the lock guards.
        if self.state.fetch_or(HALF, Ordering::AcqRel) & HALF != 0 {
            // SAFETY: made in `shared`, and the other half is gone.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

pub(super) struct Turn<M: Machine> {
    state: M::U32,
    /// Belongs to the future while `LOOKING` is set. After a grant it belongs to the keeper.
    waker: M::Cell<Option<Waker>>,
    /// In the stack of arrivals: the turn that arrived before this one.
    next: M::Ptr<Turn<M>>,
    /// The holder to write into the lock's word at the grant. Belongs to the keeper.
    holder: M::Cell<Option<Holder<M>>>,
    urgency: M::Counter,
    /// The scheduler for which the task waits. It is compared, never dereferenced.
    scheduler: M::Ptr<()>,
}

// SAFETY: the cells have one owner at a time, by the bits of `state`; the task of `holder` is an address
// with a reference, which any thread may release.
unsafe impl<M: Machine> Send for Turn<M> {}
// SAFETY: as for Send.
unsafe impl<M: Machine> Sync for Turn<M> {}

impl<M: Machine> std::fmt::Debug for Turn<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("urgency", &self.urgency())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Drop for Turn<M> {
    fn drop(&mut self) {
        // The waker's drop is user code, and the thread that drops the turn may keep a line.
        // SAFETY: both halves are gone.
        drop_quietly(self.waker.with_mut(|cell| unsafe { (*cell).take() }));
    }
}

impl<M: Machine> Turn<M> {
    /// A turn of the calling task: one half for its future, one for the line.
    pub(super) fn shared(urgency: u8, waker: Waker) -> [Half<M>; 2] {
        let turn = NonNull::from(Box::leak(Box::new(Self::new(urgency, waker))));
        [Half(turn), Half(turn)]
    }

    fn new(urgency: u8, waker: Waker) -> Self {
        let counted = M::Counter::default();
        counted.set(u64::from(urgency));
        Turn {
            state: M::U32::new(0),
            waker: M::Cell::new(Some(waker)),
            next: M::Ptr::new(null_mut()),
            holder: M::Cell::new(Some(Holder::here())),
            urgency: counted,
            scheduler: M::Ptr::new(<M as Schedule>::scheduler_that_waits().cast_mut()),
        }
    }

    pub(super) fn urgency(&self) -> u64 {
        self.urgency.get()
    }

    pub(super) fn scheduler(&self) -> SchedulerId {
        // ORDER: Relaxed; it is only compared, and each change is followed by a kick, which orders it.
        self.scheduler.load(Ordering::Relaxed)
    }

    pub(super) fn is_granted(&self) -> bool {
        // ORDER: Relaxed; a future that finds GRANTED drops its half before it uses what the lock guards, and
        // the Acquire of that drop, on the same word, pairs with the Release of `give`.
        self.state.load(Ordering::Relaxed) & GRANTED != 0
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        // ORDER: Relaxed; `give` decides.
        self.state.load(Ordering::Relaxed) & WITHDRAWN != 0
    }

    /// The future is polled again: unless the lock was granted, takes over the waker and a higher urgency.
    pub(super) fn look_again(&self, urgency: u8, waker: &Waker) -> TurnSeen {
        // ORDER: Relaxed, as in `is_granted`; before GRANTED, no other thread writes the waker.
        if self.state.fetch_or(LOOKING, Ordering::Relaxed) & GRANTED != 0 {
            return TurnSeen::Granted;
        }
        let old = self.waker.with(|cell| {
            // SAFETY: LOOKING, set before GRANTED, gives the cell to the future.
            let known = unsafe { (*cell).as_ref() };
            known.is_none_or(|known| !known.will_wake(waker))
        });
        if old {
            let waker = waker.clone();
            // SAFETY: as above.
            let old = self
                .waker
                .with_mut(|cell| unsafe { (*cell).replace(waker) });
            drop_quietly(old);
        }
        let more = u64::from(urgency) > self.urgency();
        if more {
            self.urgency.set(u64::from(urgency));
            // ORDER: Relaxed, as in `scheduler`.
            self.scheduler.store(
                <M as Schedule>::scheduler_that_waits().cast_mut(),
                Ordering::Relaxed,
            );
        }
        // ORDER: Release pairs with the Acquire of `give`: the waker.
        if self.state.fetch_and(!LOOKING, Ordering::Release) & GRANTED != 0 {
            TurnSeen::Granted
        } else if more {
            TurnSeen::MoreUrgent
        } else {
            TurnSeen::Waits
        }
    }

    /// The future is dropped.
    pub(super) fn withdraw(&self) -> Withdrawn {
        // ORDER: Relaxed; a granted lock is unlocked by an exchange of the lock's word, whose Acquire pairs
        // with the keeper's Release of that word.
        if self.state.fetch_or(WITHDRAWN, Ordering::Relaxed) & GRANTED == 0 {
            Withdrawn::InTime
        } else {
            Withdrawn::Granted
        }
    }

    /// Takes the holder to be. Only the keeper calls this, and once.
    pub(super) fn take_holder(&self) -> Holder<M> {
        // SAFETY: the cell belongs to the keeper.
        let holder = self.holder.with_mut(|cell| unsafe { (*cell).take() });
        holder.expect("one that was granted the lock has left the line")
    }

    /// Grants the lock. Only the keeper calls this, after it has written the holder into the lock's word.
    pub(super) fn give(&self) -> Given {
        // ORDER: Release pairs with the Acquire by which the future drops its half: what the lock guards.
        // Acquire pairs with the Release of `look_again`: the waker.
        let before = self.state.fetch_or(GRANTED, Ordering::AcqRel);
        if before & WITHDRAWN != 0 {
            return Given::Withdrawn;
        }
        if before & LOOKING != 0 {
            return Given::Looks;
        }
        // SAFETY: GRANTED, set while the future is not LOOKING, gives the cell to the keeper.
        let waker = self.waker.with_mut(|cell| unsafe { (*cell).take() });
        waker.map_or(Given::Looks, Given::Wake)
    }
}

/// A stack of the turns that are not in the line yet, the newest first.
pub(super) struct Arrivals<M: Machine>(M::Ptr<Turn<M>>);

impl<M: Machine> Arrivals<M> {
    pub(super) fn new() -> Self {
        Arrivals(M::Ptr::new(null_mut()))
    }

    pub(super) fn push(&self, turn: Half<M>) {
        let raw = turn.into_raw();
        // ORDER: Relaxed; the exchange decides.
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: the half belongs to the caller until the exchange.
            // ORDER: Relaxed; the exchange publishes it.
            unsafe { &*raw }.next.store(head, Ordering::Relaxed);
            // ORDER: Release pairs with the Acquire of `take`.
            match self
                .0
                .compare_exchange_weak(head, raw, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all turns out and passes them to `each`, the oldest first.
    pub(super) fn take(&self, mut each: impl FnMut(Half<M>)) {
        // ORDER: Acquire pairs with the Release of `push`.
        let mut next = self.0.swap(null_mut(), Ordering::Acquire);
        let mut oldest = null_mut();
        while !next.is_null() {
            // SAFETY: the swap has made the stack's halves the caller's.
            let link = unsafe { &(*next).next };
            // ORDER: Relaxed; the swap acquired the push.
            let older = link.load(Ordering::Relaxed);
            // ORDER: Relaxed; only the caller follows the link.
            link.store(oldest, Ordering::Relaxed);
            (oldest, next) = (next, older);
        }
        while let Some(turn) = NonNull::new(oldest) {
            // The half that `push` left in the stack.
            let turn = Half(turn);
            // ORDER: Relaxed; the caller stored it above.
            oldest = turn.next.load(Ordering::Relaxed);
            each(turn);
        }
    }
}
