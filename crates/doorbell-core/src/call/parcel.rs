//! A call that nobody waits for: a node with its closure, in one line of 64 bytes.
//!
//! Parcels lie in slabs, whose header says whose they are. A parcel is used in turn by its
//! owner, who fills it, and by the lane that it was posted to, which empties it and puts it
//! with what goes back to the owner. See README.md and `pool.rs`.

use super::pool::Home;
use crate::node::{Deliver, Node, Ready};
use crate::task::{Local, drop_quietly};
use doorbell_machine::{Cell, Counter, Machine, Ordering, PtrWord, Word};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// How many bytes of closure travel in the parcel; a larger one is boxed.
pub const PARCEL_BYTES: usize = 48;

/// Size and alignment of a slab: where its header lies follows from a parcel's address.
const SLAB_BYTES: usize = 2048;

/// The room of a closure.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug)]
struct Body([MaybeUninit<u8>; PARCEL_BYTES]);

/// Delivers a node to a lane, machine and closure without their types. Called as a
/// [`Deliver`]: both arguments are pointers to sized types, which are passed alike.
type ErasedDeliver = unsafe fn(NonNull<()>, NonNull<()>);

/// A closure without its type, ready to be posted. Dropping it drops nothing.
#[derive(Debug)]
pub struct ErasedPost {
    body: Body,
    deliver: ErasedDeliver,
}

impl ErasedPost {
    const fn fits<F>() -> bool {
        size_of::<F>() <= PARCEL_BYTES && align_of::<F>() <= align_of::<Body>()
    }

    /// Takes the closure in.
    ///
    /// # Safety
    /// It may be sent to the lane that it is posted to, and lives long enough for that.
    #[inline(always)]
    pub unsafe fn new<F: FnOnce()>(f: F) -> Self {
        let mut body = Body([MaybeUninit::uninit(); PARCEL_BYTES]);
        let room = &raw mut body;
        if Self::fits::<F>() {
            // SAFETY: it fits into the room, also by its alignment.
            unsafe { room.cast::<F>().write(f) };
            let deliver = deliver_inline::<F>;
            ErasedPost { body, deliver }
        } else {
            // SAFETY: an address fits.
            unsafe { room.cast::<*mut F>().write(Box::into_raw(Box::new(f))) };
            let deliver = deliver_boxed::<F>;
            ErasedPost { body, deliver }
        }
    }

    /// Gives the closure back.
    ///
    /// # Safety
    /// It was made with an `F`, and has not been posted.
    #[cold]
    pub unsafe fn into_closure<F: FnOnce()>(self) -> F {
        let room = &raw const self.body;
        if Self::fits::<F>() {
            // SAFETY: `new` wrote it there.
            unsafe { room.cast::<F>().read() }
        } else {
            // SAFETY: `new` wrote the address of a box of its own.
            *unsafe { Box::from_raw(room.cast::<*mut F>().read()) }
        }
    }
}

/// A node with its closure. What is posted is the address of the node, its first field.
#[repr(C, align(64))]
pub(super) struct Parcel<M: Machine> {
    node: Node<M>,
    body: UnsafeCell<Body>,
    /// Shows a checker who uses the body, which itself is of no machine.
    body_use: M::Cell<()>,
}

impl<M: Machine> Parcel<M> {
    /// Fills a parcel, and makes its node one that is in no queue.
    ///
    /// # Safety
    /// The parcel is the caller's, and is posted to a lane that `post` may be sent to.
    #[inline(always)]
    pub(super) unsafe fn fill(parcel: NonNull<Self>, post: &ErasedPost) {
        // SAFETY: both are functions of two thin pointers, and of nothing else; the pointers
        // are to what the erased one expects.
        let deliver = unsafe { std::mem::transmute::<ErasedDeliver, Deliver<M>>(post.deliver) };
        let parcel = parcel.as_ptr();
        // SAFETY: the caller's own, and valid for writes.
        unsafe {
            (&raw mut (*parcel).node).write(Node::new(deliver));
            (*parcel).body_use.with_mut(|_| ());
            UnsafeCell::raw_get(&raw const (*parcel).body).write(post.body);
        }
    }
}

/// What every delivery needs and does not know the types of.
struct Table {
    body_offset: usize,
    collect: ErasedDeliver,
    panicked: ErasedDeliver,
}

/// The head of a slab.
#[repr(C)]
pub(super) struct Header<M: Machine> {
    table: &'static Table,
    home: NonNull<Home<M>>,
    /// The slab that its owner made before it.
    older: *mut Header<M>,
    /// Which of its parcels came back and were not yet taken by the owner, one bit each. While it
    /// is not zero the slab is in the owner's return stack, or about to be pushed.
    back: M::U64,
    /// The next slab in the return stack.
    below: M::Ptr<Header<M>>,
}

/// A slab: an allocation of a header and parcels.
#[derive(Debug)]
pub(super) struct Slab<M: Machine>(NonNull<Header<M>>);

impl<M: Machine> Clone for Slab<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine> Copy for Slab<M> {}

impl<M: Machine> PartialEq for Slab<M> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<M: Machine> Slab<M> {
    const TABLE: Table = Table {
        body_offset: offset_of!(Parcel<M>, body),
        collect: collect::<M>,
        panicked: panicked::<M>,
    };

    const LAYOUT: Layout = match Layout::from_size_align(SLAB_BYTES, SLAB_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a power of two"),
    };

    /// How many parcels a slab has. In a model few: each is a set of objects to be tracked.
    pub(super) const PARCELS: usize = if M::MODEL {
        2
    } else {
        SLAB_BYTES / size_of::<Parcel<M>>() - 1
    };

    /// The bits of all parcels.
    pub(super) const ALL: u64 = u64::MAX >> (64 - Self::PARCELS);

    /// The slab of a parcel's node, and the bit of that parcel.
    ///
    /// # Safety
    /// The node is that of a parcel that is alive, its address with all of its slab.
    #[inline(always)]
    pub(super) unsafe fn of(node: NonNull<Node<M>>) -> (Self, u64) {
        let slab = slab_of(node.cast());
        let at = (node.addr().get() - slab.addr().get()) / size_of::<Parcel<M>>();
        (Slab(slab.cast()), 1 << (at - 1))
    }

    pub(super) fn as_ptr(self) -> *mut Header<M> {
        self.0.as_ptr()
    }

    /// The slab at that address, if it is one.
    ///
    /// # Safety
    /// It came from [`Slab::as_ptr`] of a slab that is alive, or is null.
    pub(super) unsafe fn from_ptr(header: *mut Header<M>) -> Option<Self> {
        NonNull::new(header).map(Slab)
    }

    /// Whose it is.
    ///
    /// # Safety
    /// It is alive; so for the methods below.
    pub(super) unsafe fn home(self) -> NonNull<Home<M>> {
        // SAFETY: the caller's promise.
        unsafe { self.0.as_ref() }.home
    }

    /// The word of what came back.
    pub(super) unsafe fn back<'a>(self) -> &'a M::U64 {
        // SAFETY: the caller's promise.
        unsafe { &(*self.0.as_ptr()).back }
    }

    /// The slab below this one in the return stack. Read before what came back is taken: from
    /// then on it may be pushed again.
    pub(super) unsafe fn below(self) -> *mut Header<M> {
        // SAFETY: the caller's promise.
        let below = unsafe { &(*self.0.as_ptr()).below };
        // ORDER: Relaxed; the Acquire of the owner's exchange of the stack made it visible.
        below.load(Ordering::Relaxed)
    }

    pub(super) unsafe fn set_below(self, slab: *mut Header<M>) {
        // SAFETY: the caller's promise.
        let below = unsafe { &(*self.0.as_ptr()).below };
        // ORDER: Relaxed; published by the Release of the push that follows.
        below.store(slab, Ordering::Relaxed);
    }

    /// Makes a slab of parcels in no queue.
    #[cold]
    pub(super) fn new(home: NonNull<Home<M>>, older: Option<Slab<M>>) -> Self {
        const {
            assert!(size_of::<Header<M>>() <= size_of::<Parcel<M>>());
            assert!((Self::PARCELS + 1) * size_of::<Parcel<M>>() <= SLAB_BYTES);
        }
        // SAFETY: the layout's size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc(Self::LAYOUT) }) else {
            handle_alloc_error(Self::LAYOUT)
        };
        let slab = Slab(memory.cast());
        // SAFETY: freshly allocated, and large enough for a header.
        unsafe {
            slab.0.write(Header {
                table: const { &Self::TABLE },
                home,
                older: older.map_or(std::ptr::null_mut(), |slab| slab.0.as_ptr()),
                back: M::U64::new(0),
                below: M::Ptr::new(std::ptr::null_mut()),
            });
        }
        for index in 0..Self::PARCELS {
            // SAFETY: the parcel lies in the slab; nobody else has it yet.
            unsafe {
                slab.parcel(index).write(Parcel {
                    node: Node::new(deliver_nothing),
                    body: UnsafeCell::new(Body([MaybeUninit::uninit(); PARCEL_BYTES])),
                    body_use: M::Cell::new(()),
                });
            }
        }
        slab
    }

    /// A parcel of this slab.
    pub(super) fn parcel(self, index: usize) -> NonNull<Parcel<M>> {
        debug_assert!(index < Self::PARCELS);
        // SAFETY: inside the allocation; the header takes the room of one.
        unsafe { self.0.cast::<Parcel<M>>().add(1 + index) }
    }

    /// Frees this slab and the older ones.
    ///
    /// # Safety
    /// Nobody uses a parcel of them any more, and none is filled.
    pub(super) unsafe fn free_all(self) {
        let mut next = Some(self);
        while let Some(slab) = next {
            // SAFETY: the slab is alive until freed below.
            next = NonNull::new(unsafe { slab.0.as_ref() }.older).map(Slab);
            for index in 0..Self::PARCELS {
                // SAFETY: as above, and nobody else uses it.
                unsafe {
                    slab.parcel(index).as_ref().body_use.with_mut(|_| ());
                    slab.parcel(index).drop_in_place();
                }
            }
            // SAFETY: as above; allocated in `new` with this layout.
            unsafe {
                slab.0.drop_in_place();
                dealloc(slab.0.cast().as_ptr(), Self::LAYOUT);
            }
        }
    }
}

/// The slab of a parcel's node; only its first two fields are the same for all machines.
fn slab_of(node: NonNull<()>) -> NonNull<()> {
    let header = node.as_ptr().map_addr(|addr| addr & !(SLAB_BYTES - 1));
    // SAFETY: slabs are aligned to their size, so this is where that of the node begins.
    unsafe { NonNull::new_unchecked(header) }
}

/// # Safety
/// The node is that of a parcel that is alive; the machine need not be known.
#[inline(always)]
unsafe fn table_of(node: NonNull<()>) -> &'static Table {
    // SAFETY: a header begins with the table, whatever the machine.
    unsafe { slab_of(node).cast::<&'static Table>().read() }
}

/// # Safety
/// As for [`Deliver`], for a parcel that was filled with an `F`, without the machine.
unsafe fn deliver_inline<F: FnOnce()>(node: NonNull<()>, ready: NonNull<()>) {
    // SAFETY: the parcel is this lane's until collected.
    let table = unsafe { table_of(node) };
    // SAFETY: the closure was written there, and is moved out once.
    let closure = unsafe { node.byte_add(table.body_offset).cast::<F>().read() };
    // SAFETY: the parcel is empty.
    unsafe { (table.collect)(node, ready) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(closure)) {
        drop_quietly(payload);
        // SAFETY: the same lane; the node is not looked at.
        unsafe { (table.panicked)(node, ready) };
    }
}

/// # Safety
/// As for [`deliver_inline`], for a closure in a box.
unsafe fn deliver_boxed<F: FnOnce()>(node: NonNull<()>, ready: NonNull<()>) {
    // SAFETY: as in `deliver_inline`.
    let table = unsafe { table_of(node) };
    // SAFETY: the address was written there, of a box that is taken once.
    let closure = unsafe {
        let address = node.byte_add(table.body_offset).cast::<*mut F>().read();
        Box::from_raw(address)
    };
    // SAFETY: the parcel is empty.
    unsafe { (table.collect)(node, ready) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(closure)) {
        drop_quietly(payload);
        // SAFETY: as in `deliver_inline`.
        unsafe { (table.panicked)(node, ready) };
    }
}

/// # Safety
/// None: a parcel that was never filled is never delivered.
unsafe fn deliver_nothing<M: Machine>(_node: NonNull<Node<M>>, _ready: &Ready<M>) {}

/// Puts an empty parcel with what goes back to its owner.
///
/// # Safety
/// `node` is that of a parcel of this machine, empty and this lane's; `ready` is the lane's.
unsafe fn collect<M: Machine>(node: NonNull<()>, ready: NonNull<()>) {
    let node = node.cast::<Parcel<M>>();
    // SAFETY: the caller's promise.
    unsafe { node.as_ref() }.body_use.with_mut(|_| ());
    // SAFETY: the caller's promise.
    unsafe { ready.cast::<Ready<M>>().as_ref().returns().put(node.cast()) };
}

/// Counts a closure that panicked.
///
/// # Safety
/// None; it has the type of [`collect`].
#[cold]
unsafe fn panicked<M: Machine>(_node: NonNull<()>, _ready: NonNull<()>) {
    Local::<M>::with_current(|local| {
        if let Some(local) = local {
            local.front().counts().posts_panicked.add_shared(1);
        }
    });
}

/// Posts a closure by a function that takes it without its type; gives it back if refused.
///
/// # Errors
/// The closure, if `post` says that the lane is gone.
///
/// # Safety
/// The closure may be sent to the lane, and lives long enough for that. `post` returns `Ok` only
/// if it was posted, once, and `Err` only if it was not.
#[inline(always)]
pub unsafe fn posting<F: FnOnce(), E>(
    f: F,
    post: impl FnOnce(&ErasedPost) -> Result<(), E>,
) -> Result<(), (F, E)> {
    // SAFETY: passed on from the caller. Without a drop of its own, so nothing is dropped twice.
    let erased = ManuallyDrop::new(unsafe { ErasedPost::new(f) });
    match post(&erased) {
        Ok(()) => Ok(()),
        // SAFETY: made with an `F` above, and not posted.
        Err(error) => Err((
            unsafe { ManuallyDrop::into_inner(erased).into_closure::<F>() },
            error,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{Parcel, Slab};
    use doorbell_machine::Host;

    #[test]
    fn a_parcel_is_one_line() {
        assert_eq!((size_of::<Parcel<Host>>(), Slab::<Host>::PARCELS), (64, 31));
    }
}
