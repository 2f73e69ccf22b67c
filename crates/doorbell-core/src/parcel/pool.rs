//! Pools of parcels: one per producer, which draws parcels and gets them back. See README.md.
//!
//! The head of the return stack:
//!
//! | value | meaning |
//! |---|---|
//! | null | nothing came back |
//! | a slab | the newest slab to which parcels have come back; its bits say which |
//! | `closed` | the pool was dropped: a thread that returns parcels counts down `left`, and the last one frees |

use super::slab::{Parcel, Slab, SlabHeader};
use super::{Drawn, Room, Run, posting};
use crate::mailbox::Posted;
use crate::mailbox::{Gone, Post};
use doorbell_machine::{Cell as _, Line, Machine, Ordering, PtrWord, Word};
use std::cell::Cell;
use std::ptr::NonNull;

/// How far ahead the owner fetches parcels.
const AHEAD_BYTES: usize = 512;
const LINE_BYTES: usize = 64;

/// The head of a return stack whose pool is gone. No slab lies there.
fn closed<M: Machine>() -> *mut SlabHeader<M> {
    std::ptr::without_provenance_mut(1)
}

/// What pool and parcels share. It lives until the pool is gone and every parcel is back.
pub(super) struct Home<M: Machine> {
    back: M::Line<ReturnedParcels<M>>,
    /// The newest slab: the owner's, then that of whoever frees.
    slabs: M::Cell<Option<Slab<M>>>,
    #[cfg(test)]
    _probe: Option<std::sync::Arc<()>>,
}

struct ReturnedParcels<M: Machine> {
    /// The return stacks, of slabs of which parcels came back: one for each room.
    heads: [M::Ptr<SlabHeader<M>>; Room::ALL.len()],
    /// Once closed: how many parcels are out. Those who return count down, also before the owner
    /// has counted up, and exactly one of them all makes it zero.
    left: M::U64,
}

// SAFETY: slabs are handed to the owner by the protocol of this file.
unsafe impl<M: Machine> Sync for ReturnedParcels<M> {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl<M: Machine> Send for ReturnedParcels<M> {}

/// How a push onto the return stack ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PoolPushed {
    /// The owner will find it; the slab may be gone.
    Yes,
    /// The pool is gone.
    Closed,
}

/// Whether parcels of a closed pool are still out.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParcelsLeft {
    /// Others are still out; the home may be gone.
    MoreOut,
    /// These were the last: the thread that counted them frees everything.
    Last,
}

/// Returns parcels to their owner. The slab may be gone afterwards.
///
/// # Safety
/// The parcels are the caller's, empty, and it does not use them any more.
pub(super) unsafe fn give_back<M: Machine>(slab: Slab<M>, mask: u64) {
    // SAFETY: parcels of it are out, so it is alive.
    let (home, back) = unsafe { (slab.home(), slab.back()) };
    // ORDER: Release pairs with the Acquire of the thread that takes the bits: the bodies were read.
    if back.fetch_or(mask, Ordering::Release) != 0 {
        // The thread that made the bits non-zero pushes the slab, or has pushed it.
        return;
    }
    // SAFETY: no other thread takes these bits before the push, so home and slab are alive.
    match unsafe { Home::push(home, slab) } {
        PoolPushed::Yes => return,
        PoolPushed::Closed => {}
    }
    // ORDER: Acquire pairs with the Release of threads that added to the bits meanwhile; the count
    // passes it on.
    let bits = back.swap(0, Ordering::Acquire);
    let count = u64::from(bits.count_ones());
    // SAFETY: as above; these parcels are not counted yet.
    if unsafe { Home::leave(home, 0_u64.wrapping_sub(count)) } == ParcelsLeft::Last {
        // SAFETY: it says so.
        unsafe { Home::free(home) };
    }
}

impl<M: Machine> Home<M> {
    /// Puts a slab on the return stack.
    ///
    /// # Safety
    /// The caller made its bits non-zero; until this is done they are seen by nobody.
    unsafe fn push(home: NonNull<Self>, slab: Slab<M>) -> PoolPushed {
        // SAFETY: the home is there until the slab is pushed; no reference to all of it is held.
        let back = unsafe { &*home.as_ref().back };
        // SAFETY: the slab is alive.
        let stack = &back.heads[unsafe { slab.room() } as usize];
        // ORDER: Relaxed; a first guess, the exchange below decides.
        let mut head = stack.load(Ordering::Relaxed);
        while head != closed::<M>() {
            // SAFETY: alive, and the caller's to push.
            unsafe { slab.set_below(head) };
            // ORDER: Release pairs with the Acquire of the owner's exchange: the link is visible.
            // Relaxed on failure: only the next guess.
            match stack.compare_exchange_weak(
                head,
                slab.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return PoolPushed::Yes,
                Err(seen) => head = seen,
            }
        }
        PoolPushed::Closed
    }

    /// Changes the count of parcels that are out of a closed pool.
    ///
    /// # Safety
    /// The home is there: what the caller counts is not counted yet.
    unsafe fn leave(home: NonNull<Self>, change: u64) -> ParcelsLeft {
        // SAFETY: the caller's promise.
        let back = unsafe { &*home.as_ref().back };
        // ORDER: AcqRel; each count's Release pairs with the Acquire of the last one: the thread that frees
        // comes after every use of parcels and slabs.
        let before = back.left.fetch_add(change, Ordering::AcqRel);
        if before.wrapping_add(change) == 0 {
            ParcelsLeft::Last
        } else {
            ParcelsLeft::MoreOut
        }
    }

    /// # Safety
    /// The pool is gone, all parcels are back, and only the caller frees.
    #[cold]
    unsafe fn free(home: NonNull<Self>) {
        // SAFETY: made by `Box` in `Pool::make`, and the caller alone has it.
        let home = unsafe { Box::from_raw(home.as_ptr()) };
        // SAFETY: as above.
        if let Some(newest) = home.slabs.with_mut(|slabs| unsafe { (*slabs).take() }) {
            // SAFETY: as above.
            unsafe { newest.free_all() };
        }
    }
}

/// The parcels of one producer. Not `Sync`: it belongs to its thread. It may end before its
/// parcels are back.
pub struct Pool<M: Machine> {
    home: NonNull<Home<M>>,
    stocks: [Stock<M>; Room::ALL.len()],
    /// How many parcels there are: here, out, or on their way back.
    total: Cell<u64>,
    /// Whether it was made for one post, on a thread that is ending.
    for_once: Cell<bool>,
}

/// The parcels of one room that the owner has.
struct Stock<M: Machine> {
    room: Room,
    /// The slab that parcels are drawn from; `None` before the first draw.
    slab: Cell<Option<Slab<M>>>,
    /// Which parcels of that slab are free.
    free: Cell<u64>,
    /// Slabs that came off the return stack and were not looked at, linked.
    more: Cell<*mut SlabHeader<M>>,
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
            back: M::Line::new(|| ReturnedParcels {
                heads: Room::ALL.map(|_| M::Ptr::new(std::ptr::null_mut())),
                left: M::U64::new(0),
            }),
            slabs: M::Cell::new(None),
            #[cfg(test)]
            _probe: probe,
        });
        Pool {
            home: NonNull::from(Box::leak(home)),
            stocks: Room::ALL.map(Stock::new),
            total: Cell::new(0),
            for_once: Cell::new(false),
        }
    }

    /// A pool whose memory lives as long as its share of `probe`.
    #[cfg(test)]
    pub(super) fn probed(probe: std::sync::Arc<()>) -> Self {
        Self::make(Some(probe))
    }

    /// The pool of this worker or thread. The first call makes one, which lives until the thread
    /// ends.
    #[inline(always)]
    fn current() -> NonNull<Pool<M>> {
        match NonNull::new(M::pool_slot().cast::<Pool<M>>().cast_mut()) {
            Some(pool) => pool,
            None => Self::enter_slot(),
        }
    }

    #[cold]
    fn enter_slot() -> NonNull<Pool<M>> {
        let pool = Box::into_raw(Box::new(Pool::<M>::default()));
        // SAFETY: a pool, as every reader of the slot expects, and only `end` frees it.
        let stored = unsafe { M::set_pool_slot(pool.cast_const().cast(), end::<M>) };
        // SAFETY: comes from a box.
        let pool = unsafe { NonNull::new_unchecked(pool) };
        // Not stored: the thread is ending and its slot is gone.
        // SAFETY: just made; it does not end while this thread is in here.
        unsafe { pool.as_ref() }.for_once.set(!stored);
        pool
    }

    /// Draws a parcel of the calling worker's or thread's pool, to be filled and sent.
    #[inline(always)]
    pub fn draw_current(room: Room) -> Drawn {
        let pool = Self::current();
        Drawn {
            // SAFETY: it lives until this thread ends, or until what is drawn is sent.
            room: unsafe { pool.as_ref() }.draw(room).room,
            pool: pool.cast(),
        }
    }

    /// How many parcels there are: here, out, or on their way back.
    pub fn parcels(&self) -> u64 {
        self.total.get()
    }

    fn home(&self) -> &Home<M> {
        // SAFETY: a home outlives its pool.
        unsafe { self.home.as_ref() }
    }

    /// Draws a parcel, to be filled and sent. A parcel that is neither sent nor taken back leaks, with
    /// the memory of its pool.
    #[inline(always)]
    pub fn draw(&self, room: Room) -> Drawn {
        let parcel = self.stocks[room as usize].draw(self);
        Drawn {
            // SAFETY: behind the parcel lies its room.
            room: unsafe { parcel.byte_add(Parcel::<M>::ROOM_OFFSET) }.cast(),
            pool: NonNull::from(self).cast(),
        }
    }

    /// Posts a parcel that was drawn and filled.
    ///
    /// # Errors
    /// [`Gone`] if the worker is gone; the closure still lies in the parcel, which is to be taken back.
    ///
    /// # Safety
    /// The parcel was drawn on this thread from a pool of this machine, which is alive and was not moved. It holds
    /// the closure that `run` takes out, which may be sent to that worker.
    #[inline(always)]
    pub unsafe fn send(worker: &impl Post<M>, drawn: Drawn, run: Run) -> Result<(), Gone> {
        // SAFETY: the room lies behind its parcel.
        let parcel = unsafe { drawn.room.byte_sub(Parcel::<M>::ROOM_OFFSET) }.cast::<Parcel<M>>();
        let pool = drawn.pool.cast::<Pool<M>>();
        // SAFETY: drawn, so it is this pool's own, and filled.
        unsafe { Parcel::<M>::filled(parcel, run) };
        // SAFETY: parcels stay in place, and this thread does not touch this one before it is back.
        let posted = unsafe { worker.post_entered(parcel.cast()) };
        match posted {
            Posted::Yes => {
                // SAFETY: the parcel that was drawn of it is sent.
                unsafe { Self::end_if_for_once(pool) };
                Ok(())
            }
            Posted::Closed => Err(Gone),
        }
    }

    /// Takes back a parcel that was refused. A pool that was made for it ends.
    ///
    /// # Safety
    /// The parcel is of that room, was drawn last of that pool, on this thread, is empty and was
    /// not posted.
    #[cold]
    pub(super) unsafe fn take_back(pool: NonNull<Pool<M>>, parcel: NonNull<Parcel<M>>, room: Room) {
        // SAFETY: a pool outlives what it has drawn and not sent.
        let it = unsafe { pool.as_ref() };
        // SAFETY: the caller's promise.
        unsafe { it.stocks[room as usize].put_back(parcel) };
        // SAFETY: as above, and it is not used any more.
        unsafe { Self::end_if_for_once(pool) };
    }

    /// # Safety
    /// The pool is alive, and if it was made for one post, it is not used any more.
    #[inline(always)]
    unsafe fn end_if_for_once(pool: NonNull<Pool<M>>) {
        // SAFETY: the caller's promise.
        if unsafe { pool.as_ref() }.for_once.get() {
            // SAFETY: it is in no slot, and was made by `enter_slot`.
            unsafe { end::<M>(pool.cast::<()>().as_ptr()) };
        }
    }

    fn make_slab(&self, room: Room) -> (Slab<M>, u64) {
        // SAFETY: while there is an owner, only the owner touches the slabs.
        let slab = self.home().slabs.with_mut(|slabs| unsafe {
            let slab = Slab::new(self.home, room, *slabs);
            *slabs = Some(slab);
            slab
        });
        let parcels = Slab::<M>::parcels(room) as u64;
        self.total.set(self.total.get() + parcels);
        (slab, Slab::<M>::all(room))
    }
}

impl<M: Machine> Stock<M> {
    fn new(room: Room) -> Self {
        Stock {
            room,
            slab: Cell::new(None),
            free: Cell::new(0),
            more: Cell::new(std::ptr::null_mut()),
        }
    }

    /// Takes the free parcel with the lowest address. Parcels go out in the order of their addresses, so that
    /// threads that walk over them can fetch ahead.
    #[inline(always)]
    fn draw(&self, pool: &Pool<M>) -> NonNull<Parcel<M>> {
        let (slab, free) = match self.slab.get() {
            Some(slab) if self.free.get() != 0 => (slab, self.free.get()),
            _ => self.refill(pool),
        };
        self.free.set(free & (free - 1));
        let parcel = slab.parcel(free.trailing_zeros() as usize, self.room);
        // Later parcels lie in another core's cache. The address may be past the slab, which a hint may be.
        M::prefetch_write(parcel.as_ptr().wrapping_byte_add(AHEAD_BYTES));
        parcel
    }

    /// Takes back the parcel that was drawn last.
    ///
    /// # Safety
    /// It was drawn from this stock, and the caller alone has it.
    unsafe fn put_back(&self, parcel: NonNull<Parcel<M>>) {
        // SAFETY: the caller's promise.
        let (slab, bit) = unsafe { Slab::of(parcel.cast(), self.room) };
        debug_assert!(self.slab.get() == Some(slab), "drawn from there just now");
        self.free.set(self.free.get() | bit);
    }

    /// Goes on to a slab of which parcels came back, else to a new one.
    #[cold]
    #[inline(never)]
    fn refill(&self, pool: &Pool<M>) -> (Slab<M>, u64) {
        if self.more.get().is_null() {
            let head = &pool.home().back.heads[self.room as usize];
            // ORDER: Acquire pairs with the Release of `Home::push`: the links are visible.
            self.more
                .set(head.swap(std::ptr::null_mut(), Ordering::Acquire));
        }
        // SAFETY: slabs are alive while there is a pool, and this one was taken off the stack.
        let (slab, free) = match unsafe { self.take_back() } {
            Some(taken) => taken,
            None => pool.make_slab(self.room),
        };
        self.slab.set(Some(slab));
        let first = slab.parcel(0, self.room).as_ptr();
        for offset in (0..AHEAD_BYTES).step_by(LINE_BYTES) {
            M::prefetch_write(first.wrapping_byte_add(offset));
        }
        (slab, free)
    }

    /// Takes the parcels that came back of the first slab in `more`.
    ///
    /// # Safety
    /// The slabs in `more` are alive.
    unsafe fn take_back(&self) -> Option<(Slab<M>, u64)> {
        // SAFETY: the caller's promise.
        let slab = unsafe { Slab::from_ptr(self.more.get()) }?;
        // SAFETY: as above.
        let below = unsafe { slab.below() };
        M::prefetch_write(below);
        self.more.set(below);
        // ORDER: Acquire pairs with the Release of `give_back`: the workers are done with the parcels.
        // SAFETY: as above.
        let bits = unsafe { slab.back() }.swap(0, Ordering::Acquire);
        Some((slab, bits))
    }

    /// Closes the return stack, and counts the parcels that are here or came back.
    fn close(&self, head: &M::Ptr<SlabHeader<M>>) -> u64 {
        // ORDER: Acquire pairs with the Release of `Home::push`: the links are visible. Nothing
        // is published; a thread that finds the stack closed looks only at the bits and the count.
        let stack = head.swap(closed::<M>(), Ordering::Acquire);
        let mut here = u64::from(self.free.get().count_ones());
        for list in [self.more.get(), stack] {
            self.more.set(list);
            // SAFETY: slabs are alive until all parcels are counted.
            while let Some((_, bits)) = unsafe { self.take_back() } {
                here += u64::from(bits.count_ones());
            }
        }
        here
    }
}

impl<M: Machine> Drop for Pool<M> {
    fn drop(&mut self) {
        let heads = self.home().back.heads.iter();
        let here: u64 = self
            .stocks
            .iter()
            .zip(heads)
            .map(|(stock, head)| stock.close(head))
            .sum();
        // SAFETY: a home outlives its pool, which ends here.
        match unsafe { Home::leave(self.home, self.total.get() - here) } {
            // SAFETY: the pool is gone, and everything is back.
            ParcelsLeft::Last => unsafe { Home::free(self.home) },
            ParcelsLeft::MoreOut => {}
        }
    }
}

/// # Safety
/// `pool` came from a box, and the pool is not used any more.
unsafe fn end<M: Machine>(pool: *const ()) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(pool.cast::<Pool<M>>().cast_mut()) });
}

/// Posts a closure that no thread waits for, in a parcel of the calling worker's or thread's pool.
///
/// # Errors
/// The closure, if the worker is gone.
pub fn post<M, P, F>(worker: &P, f: F) -> Result<(), F>
where
    M: Machine,
    P: Post<M>,
    F: FnOnce() + Send + 'static,
{
    // SAFETY: the closure is Send and borrows nothing; it is posted at most once.
    let posted = unsafe {
        posting(
            f,
            |room| Ok(Pool::<M>::draw_current(room)),
            |drawn, run| Pool::<M>::send(worker, drawn, run),
        )
    };
    posted.map_err(|(f, Gone)| f)
}
