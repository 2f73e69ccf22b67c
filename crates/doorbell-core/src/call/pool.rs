//! Where parcels come from and go back to: a pool per producer, and per lane the chains of what
//! it has run. See README.md.
//!
//! The head of the return stack:
//!
//! | value | meaning |
//! |---|---|
//! | null | nothing came back |
//! | a node | the newest of what came back |
//! | `closed` | the pool was dropped: who returns counts down `left`, and the last one frees |

use super::Gone;
use super::parcel::{ErasedPost, Parcel, Slab, home_of, posting};
use crate::mailbox::{Front, Posted};
use crate::node::Node;
use doorbell_machine::{Bug, Cell as _, Line, Machine, Ordering, PtrWord, Word};
use std::cell::Cell;
use std::ptr::NonNull;

/// How many parcels of one owner a lane collects before it returns them.
const fn batch<M: Machine>() -> usize {
    if M::MODEL { 2 } else { 64 }
}

/// How many parcels ahead the owner fetches.
const AHEAD: usize = 8;

/// How many owners a lane collects for at once: sets times ways.
const SETS: usize = 16;
const WAYS: usize = 4;

/// The head of a return stack whose pool is gone. No node lies there.
fn closed<M: Machine>() -> *mut Node<M> {
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
    /// The return stack.
    head: M::Ptr<Node<M>>,
    /// Once closed: how many parcels are out. Those who return count down, also before the owner
    /// has counted up, and exactly one of them all makes it zero.
    left: M::U64,
}

// SAFETY: nodes are handed to the owner by the protocol of this file.
unsafe impl<M: Machine> Sync for Back<M> {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl<M: Machine> Send for Back<M> {}

/// How a return ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Returned {
    /// The owner will find them.
    ToOwner,
    /// The pool is gone and others are still out.
    MoreOut,
    /// The pool is gone and these were the last: who returned them frees everything.
    Last,
}

impl<M: Machine> Home<M> {
    /// Puts a chain on the return stack. From `ToOwner` and `MoreOut` on the home may be gone.
    ///
    /// # Safety
    /// The chain is the caller's, of `count` parcels of this home, with `last` the end of it.
    unsafe fn give_back(home: NonNull<Self>, chain: &Chain<M>) -> Returned {
        let publish = if M::BUG.is(Bug::ParcelReturnRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        // SAFETY: the home is there until the chain is pushed, or counted; no reference to all
        // of it is held then.
        let back = unsafe { &*home.as_ref().back };
        // ORDER: Relaxed; a first guess, the exchange below decides.
        let mut head = back.head.load(Ordering::Relaxed);
        while head != closed::<M>() {
            // SAFETY: the caller's own until pushed.
            unsafe { (*chain.last).set_next(head) };
            // ORDER: Release pairs with the Acquire of the owner's swap: the bodies were read, and
            // the links written, before it draws them. Relaxed on failure: only the next guess.
            match back
                .head
                .compare_exchange_weak(head, chain.first, publish, Ordering::Relaxed)
            {
                Ok(_) => return Returned::ToOwner,
                Err(seen) => head = seen,
            }
        }
        // SAFETY: as above.
        unsafe { Self::leave(home, 0_u64.wrapping_sub(chain.count as u64)) }
    }

    /// Adds to the count of what is out of a closed pool.
    ///
    /// # Safety
    /// The home is there: what the caller counts is not counted yet.
    unsafe fn leave(home: NonNull<Self>, change: u64) -> Returned {
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
            Returned::Last
        } else {
            Returned::MoreOut
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
    /// Parcels to draw, linked; null if there are none.
    free: Cell<*mut Node<M>>,
    /// How many there are, here, out and on their way back.
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
            free: Cell::new(std::ptr::null_mut()),
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
                // SAFETY: refused, so it is this pool's own.
                unsafe { node.as_ref() }.set_next(self.free.replace(node.as_ptr()));
                Err(Gone)
            }
        }
    }

    #[inline(always)]
    fn draw(&self) -> NonNull<Node<M>> {
        let node = match NonNull::new(self.free.get()) {
            Some(node) => node,
            None => self.refill(),
        };
        // SAFETY: what is free is this pool's own.
        let next = unsafe { node.as_ref() }.next();
        // They lie in other cores' caches: asked for before the links lead there.
        if next.addr().wrapping_sub(node.addr().get()) == size_of::<Parcel<M>>() {
            M::prefetch_write(next.wrapping_byte_add(AHEAD * size_of::<Parcel<M>>()));
        } else {
            M::prefetch_write(next);
        }
        self.free.set(next);
        node
    }

    /// Takes what came back, else makes a slab.
    #[cold]
    #[inline(never)]
    fn refill(&self) -> NonNull<Node<M>> {
        // ORDER: Acquire pairs with the Release of `give_back`: the lanes are done with them.
        let back = self
            .home()
            .back
            .head
            .swap(std::ptr::null_mut(), Ordering::Acquire);
        if let Some(node) = NonNull::new(back) {
            return node;
        }
        // SAFETY: the slabs are the owner's while there is one.
        let slab = self.home().slabs.with_mut(|slabs| unsafe {
            let slab = Slab::new(self.home, *slabs);
            *slabs = Some(slab);
            slab
        });
        self.total.set(self.total.get() + Slab::<M>::PARCELS as u64);
        let node = |index| slab.parcel(index).cast::<Node<M>>();
        for index in 0..Slab::<M>::PARCELS {
            let next = if index + 1 < Slab::<M>::PARCELS {
                node(index + 1).as_ptr()
            } else {
                std::ptr::null_mut()
            };
            // SAFETY: new, so it is this pool's own.
            unsafe { node(index).as_ref() }.set_next(next);
        }
        node(0)
    }
}

impl<M: Machine> Drop for Pool<M> {
    fn drop(&mut self) {
        // ORDER: Acquire pairs with the Release of `give_back`: the links are visible. Nothing
        // is published; who finds it closed looks at nothing but the count.
        let back = self.home().back.head.swap(closed::<M>(), Ordering::Acquire);
        let here = count(self.free.get()) + count(back);
        let left = self.total.get() - here;
        // With none out nobody else counts, and this is zero at once.
        // SAFETY: a home outlives its pool, which ends here.
        match unsafe { Home::leave(self.home, left) } {
            // SAFETY: the pool is gone, and everything is back.
            Returned::Last => unsafe { Home::free(self.home) },
            Returned::MoreOut | Returned::ToOwner => {}
        }
    }
}

fn count<M: Machine>(mut node: *mut Node<M>) -> u64 {
    let mut count = 0;
    // SAFETY: linked parcels of a pool that are its own.
    while let Some(link) = unsafe { node.as_ref() } {
        count += 1;
        node = link.next();
    }
    count
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

/// Parcels of one owner on their way back.
struct Chain<M: Machine> {
    home: *mut Home<M>,
    first: *mut Node<M>,
    last: *mut Node<M>,
    count: usize,
}

impl<M: Machine> Clone for Chain<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine> Copy for Chain<M> {}

impl<M: Machine> Chain<M> {
    const EMPTY: Chain<M> = Chain {
        home: std::ptr::null_mut(),
        first: std::ptr::null_mut(),
        last: std::ptr::null_mut(),
        count: 0,
    };

    /// Returns the parcels, if there are any, and is empty.
    fn flush(&mut self) {
        let chain = std::mem::replace(self, Self::EMPTY);
        let Some(home) = NonNull::new(chain.home) else {
            return;
        };
        // SAFETY: the home is there while a parcel of it is out; the chain is this lane's.
        match unsafe { Home::give_back(home, &chain) } {
            Returned::ToOwner | Returned::MoreOut => {}
            // SAFETY: it says so.
            Returned::Last => unsafe { Home::free(home) },
        }
    }
}

/// What a lane has run and not yet returned, chained by owner. Not `Sync`: it is the lane's.
pub(crate) struct Returns<M: Machine> {
    table: M::Cell<[[Chain<M>; WAYS]; SETS]>,
    held: Cell<bool>,
}

impl<M: Machine> Default for Returns<M> {
    fn default() -> Self {
        Returns {
            table: M::Cell::new([[Chain::EMPTY; WAYS]; SETS]),
            held: Cell::new(false),
        }
    }
}

impl<M: Machine> Returns<M> {
    /// Takes an empty parcel; returns a batch if this makes one.
    ///
    /// # Safety
    /// The node is that of a parcel that this lane was posted and has emptied.
    #[inline]
    pub(super) unsafe fn put(&self, node: NonNull<Node<M>>) {
        // SAFETY: the caller's promise.
        let home = unsafe { home_of(node) }.as_ptr();
        self.held.set(true);
        self.table.with_mut(|table| {
            // SAFETY: this is the lane's own, and no reference into it is held across a call
            // of somebody else's code.
            let chain = Self::chain_of(unsafe { &mut *table }, home);
            if chain.count == 0 {
                chain.first = node.as_ptr();
            } else {
                // SAFETY: the chain is this lane's.
                unsafe { (*chain.last).set_next(node.as_ptr()) };
            }
            chain.last = node.as_ptr();
            chain.count += 1;
            if chain.count >= batch::<M>() {
                chain.flush();
            }
        });
    }

    /// The chain of that owner; one that was begun, or one made free for it.
    #[inline(always)]
    fn chain_of(table: &mut [[Chain<M>; WAYS]; SETS], home: *mut Home<M>) -> &mut Chain<M> {
        // Homes are 128 bytes or more apart.
        let hash = (home.addr() >> 7) ^ (home.addr() >> 12);
        let set = &mut table[hash % SETS];
        let way = set
            .iter()
            .position(|chain| chain.home == home)
            .unwrap_or_else(|| {
                // The longest: of those that were begun it waits the least for its end.
                let way = (0..WAYS).find(|&way| set[way].home.is_null());
                let way = way.unwrap_or_else(|| {
                    let longest = (0..WAYS).max_by_key(|&way| set[way].count);
                    longest.unwrap_or(0)
                });
                set[way].flush();
                set[way].home = home;
                way
            });
        &mut set[way]
    }

    /// Whether something waits to be returned.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.held.get()
    }

    /// Returns everything, for a lane that has nothing better to do.
    #[inline]
    pub(crate) fn flush(&self) {
        if self.holds() {
            self.flush_all();
        }
    }

    #[cold]
    fn flush_all(&self) {
        self.held.set(false);
        self.table.with_mut(|table| {
            // SAFETY: as in `put`.
            let table = unsafe { &mut *table };
            table.iter_mut().flatten().for_each(Chain::flush);
        });
    }
}

impl<M: Machine> Drop for Returns<M> {
    fn drop(&mut self) {
        self.flush();
    }
}
