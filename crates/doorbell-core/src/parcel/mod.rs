//! Parcels: calls that no thread waits for. See README.md in this folder.
//!
//! A parcel is a node with its closure, in one line of 64 bytes or half of one. Parcels lie in slabs, whose header
//! names their owner. The owner fills a parcel and posts it; the worker empties it and collects it with others that go
//! back to the owner. See also `slab.rs` and `pool.rs`.

#[cfg(test)]
mod loom;
mod pool;
mod returns;
mod slab;
#[cfg(test)]
mod tests;

pub use pool::{Pool, post};
pub(crate) use returns::Returns;
pub use slab::Room;

use crate::link::{Deliver, Delivered, Node};
use crate::quiet::drop_quietly;
use doorbell_machine::{Cell, Machine};
use slab::{Parcel, table_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// How many bytes of closure travel in a parcel; a larger one is boxed.
pub const PARCEL_BYTES: usize = Room::Large.bytes();

/// Delivers a parcel, without the types of machine and closure. It is called as a [`Deliver`]: pointers to sized
/// types are passed in the same way.
type ErasedDeliver = unsafe fn(NonNull<()>) -> Delivered;

/// The function that runs a closure in a parcel, without the closure's type.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    deliver: ErasedDeliver,
}

/// A parcel that was drawn and is not yet posted, without the type of its machine; see
/// [`Pool::draw`](Pool::draw).
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Drawn {
    /// The place for its closure.
    pub(super) room: NonNull<()>,
    /// The pool that it was drawn from.
    pub(super) pool: NonNull<()>,
}

impl<M: Machine> Parcel<M> {
    /// One that was never filled.
    pub(super) fn empty() -> Self {
        Parcel {
            node: Node::new(deliver_nothing),
            room_use: M::Cell::new(()),
        }
    }

    /// Gives a filled parcel a new node, which is in no queue and runs the closure.
    ///
    /// # Safety
    /// The parcel is the caller's, and its room holds the closure that `run` takes out.
    #[inline(always)]
    pub(super) unsafe fn filled(parcel: NonNull<Self>, run: Run) {
        // SAFETY: both are functions of one thin pointer with the same result, and the pointer leads to what the erased
        // function expects.
        let deliver = unsafe { std::mem::transmute::<ErasedDeliver, Deliver<M>>(run.deliver) };
        let parcel = parcel.as_ptr();
        // SAFETY: the caller's own, and valid for writes.
        unsafe {
            (&raw mut (*parcel).node).write(Node::new(deliver));
            (*parcel).room_use.with_mut(|_| ());
        }
    }
}

/// What every delivery needs and does not know the types of.
pub(super) struct ParcelTable {
    room_offset: usize,
    /// Notes that the closure was moved out of the parcel.
    emptied: unsafe fn(NonNull<()>),
    room: Room,
    /// Takes back a parcel that was refused: its node, and its pool.
    take_back: unsafe fn(NonNull<()>, NonNull<()>),
}

/// The table of slabs of such room.
pub(super) fn table<M: Machine>(room: Room) -> &'static ParcelTable {
    match room {
        Room::Small => const { &table_of_room::<M, { Room::Small as usize }>() },
        Room::Large => const { &table_of_room::<M, { Room::Large as usize }>() },
    }
}

/// `ROOM` is the place of the room in [`Room::ALL`]: its functions know the sizes at compile time.
const fn table_of_room<M: Machine, const ROOM: usize>() -> ParcelTable {
    ParcelTable {
        room_offset: Parcel::<M>::ROOM_OFFSET,
        emptied: emptied::<M>,
        room: Room::ALL[ROOM],
        take_back: take_back::<M, ROOM>,
    }
}

/// # Safety
/// As for [`Deliver`], for a parcel that holds an `F`, without the type of the machine.
unsafe fn deliver_inline<F: FnOnce()>(node: NonNull<()>) -> Delivered {
    // SAFETY: the parcel is this worker's until it is given back.
    let table = unsafe { table_of(node) };
    // SAFETY: the closure was written there, and is moved out once.
    let closure = unsafe { node.byte_add(table.room_offset).cast::<F>().read() };
    // SAFETY: the parcel is empty.
    unsafe { (table.emptied)(node) };
    ran(closure, table.room)
}

/// # Safety
/// As for [`deliver_inline`], for a closure in a box.
unsafe fn deliver_boxed<F: FnOnce()>(node: NonNull<()>) -> Delivered {
    // SAFETY: as in `deliver_inline`.
    let table = unsafe { table_of(node) };
    // SAFETY: the address was written there, of a box that is taken once.
    let closure = unsafe {
        let address = node.byte_add(table.room_offset).cast::<*mut F>().read();
        Box::from_raw(address)
    };
    // SAFETY: the parcel is empty.
    unsafe { (table.emptied)(node) };
    ran(closure, table.room)
}

/// Runs the closure of a parcel of that room, which is empty now.
#[inline(always)]
fn ran(closure: impl FnOnce(), room: Room) -> Delivered {
    let result = catch_unwind(AssertUnwindSafe(closure));
    let panicked = result.is_err();
    if let Err(payload) = result {
        drop_quietly(payload);
    }
    let room = room as u8;
    Delivered::Parcel { room, panicked }
}

/// # Safety
/// None: a parcel that was never filled is never delivered.
unsafe fn deliver_nothing<M: Machine>(_node: NonNull<Node<M>>) -> Delivered {
    unreachable!("a parcel was posted empty")
}

/// # Safety
/// `node` is that of an empty parcel of this machine, which this worker has.
unsafe fn emptied<M: Machine>(node: NonNull<()>) {
    // SAFETY: the caller's promise.
    let parcel = unsafe { node.cast::<Parcel<M>>().as_ref() };
    parcel.room_use.with_mut(|_| ());
}

/// # Safety
/// As for [`Pool::take_back`], for a parcel of that room.
unsafe fn take_back<M: Machine, const ROOM: usize>(node: NonNull<()>, pool: NonNull<()>) {
    // SAFETY: the caller's promise.
    unsafe { Pool::<M>::take_back(pool.cast(), node.cast(), Room::ALL[ROOM]) };
}

/// Posts a closure by functions that do not know its type: `draw` draws a parcel of the given
/// room, the closure is moved into it, and `send` posts it. A closure that no parcel has room
/// for travels as the address of a box.
///
/// # Errors
/// The closure, with the error of `draw` or `send`.
///
/// # Safety
/// The closure may be sent to the worker, and lives long enough for that. `draw` returns the result of
/// [`Pool::draw`](Pool::draw) for that room. `send` returns `Ok` only if the parcel was posted,
/// once, and `Err` only if it was not.
#[inline(always)]
pub unsafe fn posting<F: FnOnce(), E>(
    f: F,
    draw: impl FnOnce(Room) -> Result<Drawn, E>,
    send: impl FnOnce(Drawn, Run) -> Result<(), E>,
) -> Result<(), (F, E)> {
    let Some(room) = (const { Room::of::<F>() }) else {
        // SAFETY: passed on from the caller.
        return unsafe { posting_boxed(f, draw, send) };
    };
    let drawn = match draw(room) {
        Ok(drawn) => drawn,
        Err(error) => return Err((f, error)),
    };
    let place = drawn.room.cast::<F>();
    // SAFETY: the parcel is this thread's, and has room and alignment for an `F`.
    unsafe { place.write(f) };
    let deliver = deliver_inline::<F>;
    match send(drawn, Run { deliver }) {
        Ok(()) => Ok(()),
        Err(error) => {
            // SAFETY: not posted, so it still lies there: only this thread has the parcel.
            let f = unsafe { place.read() };
            // SAFETY: refused, and empty again.
            unsafe { refused(drawn) };
            Err((f, error))
        }
    }
}

/// Gives a parcel that was refused back to its pool. The pool may be gone afterwards.
///
/// # Safety
/// The parcel was drawn on this thread, was not posted, and is empty.
#[cold]
unsafe fn refused(drawn: Drawn) {
    // SAFETY: the parcel is alive: its pool is.
    let table = unsafe { table_of(drawn.room) };
    // SAFETY: the room lies behind its node.
    let node = unsafe { drawn.room.byte_sub(table.room_offset) };
    // SAFETY: the caller's promise.
    unsafe { (table.take_back)(node, drawn.pool) };
}

/// # Errors
/// As for [`posting`].
///
/// # Safety
/// As for [`posting`].
#[inline(never)]
unsafe fn posting_boxed<F: FnOnce(), E>(
    f: F,
    draw: impl FnOnce(Room) -> Result<Drawn, E>,
    send: impl FnOnce(Drawn, Run) -> Result<(), E>,
) -> Result<(), (F, E)> {
    let room = const { Room::of::<*mut F>().expect("an address fits") };
    // Boxed first, so that no other parcel is drawn between this one's draw and its post.
    let boxed = Box::new(f);
    let drawn = match draw(room) {
        Ok(drawn) => drawn,
        Err(error) => return Err((*boxed, error)),
    };
    let boxed = Box::into_raw(boxed);
    // SAFETY: as in `posting`.
    unsafe { drawn.room.cast::<*mut F>().write(boxed) };
    let deliver = deliver_boxed::<F>;
    match send(drawn, Run { deliver }) {
        Ok(()) => Ok(()),
        Err(error) => {
            // SAFETY: refused; the parcel holds only the address.
            unsafe { refused(drawn) };
            // SAFETY: made from a box above, and not posted.
            Err((*unsafe { Box::from_raw(boxed) }, error))
        }
    }
}
