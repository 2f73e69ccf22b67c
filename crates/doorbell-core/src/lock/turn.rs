//! One that waits for a lock. It is shared by its future and the line, and whoever comes second
//! frees it.
//!
//! | bit | name | meaning |
//! |---|---|---|
//! | 0 | `GRANTED` | the lock is its own |
//! | 1 | `LOOKING` | its future changes the waker, and looks for `GRANTED` afterwards |
//! | 2 | `WITHDRAWN` | its future is gone |
//! | 3 | `HALF` | one of the two that share it has let go of it |

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

/// What a future that waits finds.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnSeen {
    /// The lock is its own.
    Granted,
    /// It waits on.
    Waits,
    /// It waits on, and is more urgent than before: who keeps the line is to know.
    MoreUrgent,
}

/// What became of a grant.
#[must_use]
#[derive(Debug)]
pub(super) enum Given {
    /// The lock is the turn's; it sleeps.
    Wake(Waker),
    /// The lock is the turn's, which looks just now.
    Looks,
    /// Its future is gone.
    Withdrawn,
}

/// Whether a future that goes away had the lock.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Withdrawn {
    /// It had not, and will not.
    InTime,
    /// It has it, to be passed on.
    Granted,
}

/// One of the two shares of a turn.
pub(super) struct Half<M: Machine>(NonNull<Turn<M>>);

// SAFETY: a turn is Send and Sync, and freed on whichever thread.
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
        // SAFETY: there until both halves are gone.
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
        // ORDER: Release: what this half did is over. Acquire: the second one sees it.
        if self.state.fetch_or(HALF, Ordering::AcqRel) & HALF != 0 {
            // SAFETY: made in `shared`, and the other half is gone.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

pub(super) struct Turn<M: Machine> {
    state: M::U32,
    /// Of its future, while that looks; of who keeps the line, once granted.
    waker: M::Cell<Option<Waker>>,
    /// The next one that arrived before it.
    next: M::Ptr<Turn<M>>,
    /// Who is to have the lock. Of who keeps the line.
    holder: M::Cell<Option<Holder<M>>>,
    urgency: M::Counter,
    /// The scheduler on whose worker it waits: an identity, and nothing that is followed.
    scheduler: M::Ptr<()>,
}

// SAFETY: the cells have one owner at a time, as the word says; the task of `holder` is an address
// with a reference, released on whichever thread.
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
        // Its drop is a user's, and whoever drops this may keep a line.
        // SAFETY: nobody else has it any more.
        drop_quietly(self.waker.with_mut(|cell| unsafe { (*cell).take() }));
    }
}

impl<M: Machine> Turn<M> {
    /// The caller waits. One half is its future's, the other goes into the line.
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
        // ORDER: Relaxed; it is compared only, and a raise comes with a kick, which orders it.
        self.scheduler.load(Ordering::Relaxed)
    }

    pub(super) fn is_granted(&self) -> bool {
        // ORDER: Relaxed; who finds it granted lets go of its half before it uses what the lock guards,
        // and that exchange of the same word pairs with the Release of `give`.
        self.state.load(Ordering::Relaxed) & GRANTED != 0
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        // ORDER: Relaxed; `give` decides.
        self.state.load(Ordering::Relaxed) & WITHDRAWN != 0
    }

    /// Its future is polled again.
    pub(super) fn look_again(&self, urgency: u8, waker: &Waker) -> TurnSeen {
        // ORDER: Relaxed, as in `is_granted`; nobody writes the waker before GRANTED.
        if self.state.fetch_or(LOOKING, Ordering::Relaxed) & GRANTED != 0 {
            return TurnSeen::Granted;
        }
        let old = self.waker.with(|cell| {
            // SAFETY: LOOKING, set before GRANTED, leaves the cell to the future.
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
        // ORDER: Release pairs with the Acquire of `give`: it sees the waker.
        if self.state.fetch_and(!LOOKING, Ordering::Release) & GRANTED != 0 {
            TurnSeen::Granted
        } else if more {
            TurnSeen::MoreUrgent
        } else {
            TurnSeen::Waits
        }
    }

    /// Its future goes away.
    pub(super) fn withdraw(&self) -> Withdrawn {
        // ORDER: Relaxed; a lock that was granted is passed on by an exchange of the lock's word, which
        // acquires what the grant came with.
        if self.state.fetch_or(WITHDRAWN, Ordering::Relaxed) & GRANTED == 0 {
            Withdrawn::InTime
        } else {
            Withdrawn::Granted
        }
    }

    /// Who is to have the lock. Only who keeps the line, once.
    pub(super) fn take_holder(&self) -> Holder<M> {
        // SAFETY: who keeps the line has it out of it.
        let holder = self.holder.with_mut(|cell| unsafe { (*cell).take() });
        holder.expect("one that was granted the lock has left the line")
    }

    /// The lock is its own. Only who keeps the line, and has written so in the lock's word.
    pub(super) fn give(&self) -> Given {
        // ORDER: Release pairs with the Acquire of the future's half, which it lets go of: what the
        // lock guards. Acquire pairs with the Release of `look_again`: the waker.
        let before = self.state.fetch_or(GRANTED, Ordering::AcqRel);
        if before & WITHDRAWN != 0 {
            return Given::Withdrawn;
        }
        if before & LOOKING != 0 {
            return Given::Looks;
        }
        // SAFETY: GRANTED, set while nobody looks, leaves the cell to who set it.
        let waker = self.waker.with_mut(|cell| unsafe { (*cell).take() });
        waker.map_or(Given::Looks, Given::Wake)
    }
}

/// Those that came and are not in the line yet, the newest first.
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
            // SAFETY: the half is the stack's from the exchange on.
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

    /// Takes all out, the oldest first.
    pub(super) fn take(&self, mut each: impl FnMut(Half<M>)) {
        // ORDER: Acquire pairs with the Release of `push`.
        let mut next = self.0.swap(null_mut(), Ordering::Acquire);
        let mut oldest = null_mut();
        while !next.is_null() {
            // SAFETY: what was in the stack is the caller's.
            let link = unsafe { &(*next).next };
            // ORDER: Relaxed; the swap saw the push.
            let older = link.load(Ordering::Relaxed);
            // ORDER: Relaxed; only the caller has it.
            link.store(oldest, Ordering::Relaxed);
            (oldest, next) = (next, older);
        }
        while let Some(turn) = NonNull::new(oldest) {
            // The half that `push` left in the stack.
            let turn = Half(turn);
            // ORDER: Relaxed; only the caller has it.
            oldest = turn.next.load(Ordering::Relaxed);
            each(turn);
        }
    }
}
