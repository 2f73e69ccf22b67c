//! Where parcels come from and go back to: a pool per producer. See README.md.
//!
//! The head of the return stack:
//!
//! | value | meaning |
//! |---|---|
//! | null | nothing came back |
//! | a slab | the newest of which parcels came back; its bits say which |
//! | `closed` | the pool was dropped: who returns counts down `left`, and the last one frees |

use super::Gone;
use super::parcel::{ErasedPost, Header, Parcel, Slab, posting};
use crate::mailbox::{Front, Posted};
use crate::node::Node;
use doorbell_machine::{Bug, Cell as _, Line, Machine, Ordering, PtrWord, Word};
use std::cell::Cell;
use std::ptr::NonNull;

/// How many parcels ahead the owner fetches.
const AHEAD: usize = 8;

/// The head of a return stack whose pool is gone. No slab lies there.
fn closed<M: Machine>() -> *mut Header<M> {
    std::ptr::without_provenance_mut(1)
}

/// What pool and parcels share: alive until the pool is gone and every parcel is back.
pub(super) struct Home<M: Machine> {
    back: M::Line<Back<M>>,
    /// The newest slab: the owner's, then that of whoever frees.
    slabs: M::Cell<Option<Slab<M>>>,
    #[cfg(test)]
    _probe: Option<std::sync::Arc<()>>,
}

struct Back<M: Machine> {
    /// The return stack, of slabs of which parcels came back.
    head: M::Ptr<Header<M>>,
    /// Once closed: how many parcels are out. Those who return count down, also before the owner
    /// has counted up, and exactly one of them all makes it zero.
    left: M::U64,
}

// SAFETY: slabs are handed to the owner by the protocol of this file.
unsafe impl<M: Machine> Sync for Back<M> {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl<M: Machine> Send for Back<M> {}

/// How a push onto the return stack ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushed {
    /// The owner will find it; the slab may be gone.
    Yes,
    /// The pool is gone.
    Closed,
}

/// What a count of a closed pool's parcels found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Others are still out; the home may be gone.
    MoreOut,
    /// These were the last: who counted them frees everything.
    Last,
}

/// Returns parcels to their owner. The slab may be gone afterwards.
///
/// # Safety
/// The parcels are the caller's, empty, and it does not use them any more.
pub(super) unsafe fn give_back<M: Machine>(slab: Slab<M>, mask: u64) {
    let publish = if M::BUG.is(Bug::ParcelReturnRelaxed) {
        Ordering::Relaxed
    } else {
        Ordering::Release
    };
    // SAFETY: parcels of it are out, so it is alive.
    let (home, back) = unsafe { (slab.home(), slab.back()) };
    // ORDER: Release pairs with the Acquire of whoever takes the bits: the bodies were read.
    if back.fetch_or(mask, publish) != 0 {
        // Whoever made it so pushes the slab, or the owner has it in hand.
        return;
    }
    // SAFETY: these bits are seen by nobody before the push, so home and slab are alive.
    match unsafe { Home::push(home, slab, publish) } {
        Pushed::Yes => return,
        Pushed::Closed => {}
    }
    // ORDER: Acquire pairs with the Release of those who added to the bits meanwhile; the count
    // passes it on.
    let bits = back.swap(0, Ordering::Acquire);
    let count = u64::from(bits.count_ones());
    // SAFETY: as above; these parcels are not counted yet.
    if unsafe { Home::leave(home, 0_u64.wrapping_sub(count)) } == Left::Last {
        // SAFETY: it says so.
        unsafe { Home::free(home) };
    }
}

impl<M: Machine> Home<M> {
    /// Puts a slab on the return stack.
    ///
    /// # Safety
    /// The caller made its bits non-zero; until this is done they are seen by nobody.
    unsafe fn push(home: NonNull<Self>, slab: Slab<M>, publish: Ordering) -> Pushed {
        // SAFETY: the home is there until the slab is pushed; no reference to all of it is held.
        let back = unsafe { &*home.as_ref().back };
        // ORDER: Relaxed; a first guess, the exchange below decides.
        let mut head = back.head.load(Ordering::Relaxed);
        while head != closed::<M>() {
            // SAFETY: alive, and the caller's to push.
            unsafe { slab.set_below(head) };
            // ORDER: Release pairs with the Acquire of the owner's exchange: the link is visible.
            // Relaxed on failure: only the next guess.
            match back
                .head
                .compare_exchange_weak(head, slab.as_ptr(), publish, Ordering::Relaxed)
            {
                Ok(_) => return Pushed::Yes,
                Err(seen) => head = seen,
            }
        }
        Pushed::Closed
    }

    /// Adds to the count of what is out of a closed pool.
    ///
    /// # Safety
    /// The home is there: what the caller counts is not counted yet.
    unsafe fn leave(home: NonNull<Self>, change: u64) -> Left {
        let order = if M::BUG.is(Bug::PoolLeaveRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::AcqRel
        };
        // SAFETY: the caller's promise.
        let back = unsafe { &*home.as_ref().back };
        // ORDER: AcqRel; each count's Release pairs with the Acquire of the last one: who frees
        // comes after everybody's use of parcels and slabs.
        let before = back.left.fetch_add(change, order);
        if before.wrapping_add(change) == 0 {
            Left::Last
        } else {
            Left::MoreOut
        }
    }

    /// # Safety
    /// The pool is gone, all parcels are back, and nobody else frees.
    #[cold]
    unsafe fn free(home: NonNull<Self>) {
        // SAFETY: made by `Box` in `Pool::new`, and nobody else has it.
        let home = unsafe { Box::from_raw(home.as_ptr()) };
        // SAFETY: as above.
        if let Some(newest) = home.slabs.with_mut(|slabs| unsafe { (*slabs).take() }) {
            // SAFETY: as above.
            unsafe { newest.free_all() };
        }
    }
}

/// The parcels of one producer. Not `Sync`: it belongs to its thread, and may end before its
/// parcels are back.
pub struct Pool<M: Machine> {
    home: NonNull<Home<M>>,
    /// The slab that parcels are drawn from; `None` before the first draw.
    slab: Cell<Option<Slab<M>>>,
    /// Which of its parcels are there to be drawn.
    free: Cell<u64>,
    /// Slabs that came off the return stack and were not looked at, linked.
    more: Cell<*mut Header<M>>,
    /// How many parcels there are, here, out and on their way back.
    total: Cell<u64>,
}

impl<M: Machine> std::fmt::Debug for Pool<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("parcels", &self.total.get())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Default for Pool<M> {
    fn default() -> Self {
        Self::make(
            #[cfg(test)]
            None,
        )
    }
}

impl<M: Machine> Pool<M> {
    fn make(#[cfg(test)] probe: Option<std::sync::Arc<()>>) -> Self {
        let home = Box::new(Home {
            back: M::Line::new(|| Back {
                head: M::Ptr::new(std::ptr::null_mut()),
                left: M::U64::new(0),
            }),
            slabs: M::Cell::new(None),
            #[cfg(test)]
            _probe: probe,
        });
        Pool {
            home: NonNull::from(Box::leak(home)),
            slab: Cell::new(None),
            free: Cell::new(0),
            more: Cell::new(std::ptr::null_mut()),
            total: Cell::new(0),
        }
    }

    /// A pool whose memory lives as long as its share of `probe`.
    #[cfg(test)]
    pub(super) fn probed(probe: std::sync::Arc<()>) -> Self {
        Self::make(Some(probe))
    }

    /// Calls `f` with the pool of this lane or thread; the first time it makes one, which lives
    /// until the thread ends.
    #[inline(always)]
    pub fn with_current<R>(f: impl FnOnce(&Pool<M>) -> R) -> R {
        let pool = M::pool_slot().cast::<Pool<M>>();
        // SAFETY: the slot holds what `enter_slot` stored, until the thread ends.
        match unsafe { pool.as_ref() } {
            Some(pool) => f(pool),
            None => Self::enter_slot(f),
        }
    }

    #[cold]
    fn enter_slot<R>(f: impl FnOnce(&Pool<M>) -> R) -> R {
        let pool = Box::into_raw(Box::new(Pool::<M>::default()));
        // SAFETY: a pool, as everybody who reads the slot expects, and freed by `end` only.
        let stored = unsafe { M::set_pool_slot(pool.cast_const().cast(), end::<M>) };
        // SAFETY: just made; nobody ends it while this thread is in here.
        let result = f(unsafe { &*pool });
        if !stored {
            // The thread is ending and its slot is gone: a pool for this once.
            // SAFETY: nobody else has it.
            unsafe { end::<M>(pool.cast_const().cast()) };
        }
        result
    }

    /// How many parcels there are, here, out and on their way back.
    pub fn parcels(&self) -> u64 {
        self.total.get()
    }

    fn home(&self) -> &Home<M> {
        // SAFETY: a home outlives its pool.
        unsafe { self.home.as_ref() }
    }

    /// Posts a closure in a parcel of this pool.
    ///
    /// # Errors
    /// [`Gone`] if the lane is gone; the closure is untouched.
    ///
    /// # Safety
    /// As for [`ErasedPost::new`], for the lane with that front; `post` is posted once.
    #[inline(always)]
    pub unsafe fn post(&self, front: &Front<M>, post: &ErasedPost) -> Result<(), Gone> {
        let node = self.draw();
        // SAFETY: drawn, so it is this pool's own.
        unsafe { Parcel::<M>::fill(node.cast(), post) };
        // SAFETY: parcels stay in place, and this one is not touched again before it is back.
        match unsafe { front.post_entered(node) } {
            Posted::Yes => Ok(()),
            Posted::Closed => {
                // SAFETY: refused, so it is this pool's own again.
                let (slab, bit) = unsafe { Slab::of(node) };
                debug_assert!(self.slab.get() == Some(slab), "drawn from there just now");
                self.free.set(self.free.get() | bit);
                Err(Gone)
            }
        }
    }

    /// Takes the first free parcel: in the order of their addresses, so that those who walk over
    /// them can fetch ahead.
    #[inline(always)]
    fn draw(&self) -> NonNull<Node<M>> {
        let (slab, free) = match self.slab.get() {
            Some(slab) if self.free.get() != 0 => (slab, self.free.get()),
            _ => self.refill(),
        };
        let index = free.trailing_zeros() as usize;
        self.free.set(free & (free - 1));
        // It lies in another core's cache.
        if index + AHEAD < Slab::<M>::PARCELS {
            M::prefetch_write(slab.parcel(index + AHEAD).as_ptr());
        }
        slab.parcel(index).cast()
    }

    /// Goes on to a slab of which parcels came back, else to a new one.
    #[cold]
    #[inline(never)]
    fn refill(&self) -> (Slab<M>, u64) {
        if self.more.get().is_null() {
            let head = &self.home().back.head;
            // ORDER: Acquire pairs with the Release of `Home::push`: the links are visible.
            self.more
                .set(head.swap(std::ptr::null_mut(), Ordering::Acquire));
        }
        // SAFETY: slabs are alive while there is a pool, and this one was taken off the stack.
        let (slab, free) = match unsafe { self.take_back() } {
            Some(taken) => taken,
            None => self.make_slab(),
        };
        self.slab.set(Some(slab));
        for index in 0..AHEAD.min(Slab::<M>::PARCELS) {
            M::prefetch_write(slab.parcel(index).as_ptr());
        }
        (slab, free)
    }

    /// Takes what came back of the first slab in hand.
    ///
    /// # Safety
    /// Those in hand are alive.
    unsafe fn take_back(&self) -> Option<(Slab<M>, u64)> {
        // SAFETY: the caller's promise.
        let slab = unsafe { Slab::from_ptr(self.more.get()) }?;
        // SAFETY: as above.
        let below = unsafe { slab.below() };
        M::prefetch_write(below);
        self.more.set(below);
        // ORDER: Acquire pairs with the Release of `give_back`: the lanes are done with them.
        // SAFETY: as above.
        let bits = unsafe { slab.back() }.swap(0, Ordering::Acquire);
        Some((slab, bits))
    }

    fn make_slab(&self) -> (Slab<M>, u64) {
        // SAFETY: the slabs are the owner's while there is one.
        let slab = self.home().slabs.with_mut(|slabs| unsafe {
            let slab = Slab::new(self.home, *slabs);
            *slabs = Some(slab);
            slab
        });
        self.total.set(self.total.get() + Slab::<M>::PARCELS as u64);
        (slab, Slab::<M>::ALL)
    }
}

impl<M: Machine> Drop for Pool<M> {
    fn drop(&mut self) {
        // ORDER: Acquire pairs with the Release of `Home::push`: the links are visible. Nothing
        // is published; who finds it closed looks at nothing but the bits and the count.
        let stack = self.home().back.head.swap(closed::<M>(), Ordering::Acquire);
        let mut here = u64::from(self.free.get().count_ones());
        for list in [self.more.get(), stack] {
            self.more.set(list);
            // SAFETY: slabs are alive until all parcels are counted.
            while let Some((_, bits)) = unsafe { self.take_back() } {
                here += u64::from(bits.count_ones());
            }
        }
        // SAFETY: a home outlives its pool, which ends here.
        match unsafe { Home::leave(self.home, self.total.get() - here) } {
            // SAFETY: the pool is gone, and everything is back.
            Left::Last => unsafe { Home::free(self.home) },
            Left::MoreOut => {}
        }
    }
}

/// # Safety
/// `pool` came from a box of a pool that nobody uses any more.
unsafe fn end<M: Machine>(pool: *const ()) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(pool.cast::<Pool<M>>().cast_mut()) });
}

/// Posts a closure that nobody waits for, in a parcel of the calling lane's or thread's pool.
///
/// # Errors
/// The closure, if the lane is gone.
pub fn post<M, F>(front: &Front<M>, f: F) -> Result<(), F>
where
    M: Machine,
    F: FnOnce() + Send + 'static,
{
    // SAFETY: the closure is Send and borrows nothing; it is posted at most once.
    let posted = unsafe {
        posting(f, |erased| {
            Pool::<M>::with_current(|pool| pool.post(front, erased))
        })
    };
    posted.map_err(|(f, Gone)| f)
}
