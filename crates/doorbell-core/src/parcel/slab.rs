//! Slabs: allocations of parcels of one size, after a header that names their home.
//!
//! | machine | room | a parcel | parcels of a slab |
//! |---|---|---|---|
//! | host | [`Room::Small`], 16 bytes | half a line | 62 |
//! | host | [`Room::Large`], 48 bytes | a line | 31 |
//! | a model | either | as large as it must be | 2 |

use super::pool::Home;
use super::{ParcelTable, table};
use crate::link::Node;
use doorbell_machine::{Cell, Machine, Ordering, PtrWord, Word};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::offset_of;
use std::ptr::NonNull;

/// Size and alignment of a slab, so that a parcel's address leads to the header.
const SLAB_BYTES: usize = 2048;

/// The alignment of parcels and of the closures in them.
const ALIGN: usize = 16;

/// How many bytes of closure a parcel has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// 16 bytes: two parcels travel in one line.
    Small = 0,
    /// 48 bytes: a parcel fills one line.
    Large = 1,
}

impl Room {
    /// All rooms.
    pub(super) const ALL: [Room; 2] = [Room::Small, Room::Large];

    /// How many bytes it is.
    pub const fn bytes(self) -> usize {
        match self {
            Room::Small => 16,
            Room::Large => 48,
        }
    }

    /// The smallest room that holds an `F`; `None` if none does.
    pub(super) const fn of<F>() -> Option<Room> {
        if align_of::<F>() > ALIGN || size_of::<F>() > Room::Large.bytes() {
            None
        } else if size_of::<F>() <= Room::Small.bytes() {
            Some(Room::Small)
        } else {
            Some(Room::Large)
        }
    }
}

/// A node, followed by the room for its closure. The address of the node, its first field, is what is
/// posted.
#[repr(C, align(16))]
pub(super) struct Parcel<M: Machine> {
    pub(super) node: Node<M>,
    /// Shows the model checker which thread uses the room, which the checker cannot see itself.
    pub(super) room_use: M::Cell<()>,
}

impl<M: Machine> Parcel<M> {
    /// The offset of a closure from its node.
    pub(super) const ROOM_OFFSET: usize = size_of::<Parcel<M>>();
}

/// The header of a slab.
#[repr(C)]
pub(super) struct SlabHeader<M: Machine> {
    /// First, whatever the machine.
    table: &'static ParcelTable,
    room: Room,
    home: NonNull<Home<M>>,
    /// The slab that its owner made before it.
    older: *mut SlabHeader<M>,
    /// Which of its parcels came back and were not yet taken by the owner, one bit each. While it
    /// is not zero the slab is in the owner's return stack, or about to be pushed.
    back: M::U64,
    /// The next slab in the return stack.
    below: M::Ptr<SlabHeader<M>>,
}

/// A slab: an allocation of a header and parcels.
#[derive(Debug)]
pub(super) struct Slab<M: Machine>(NonNull<SlabHeader<M>>);

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
    const LAYOUT: Layout = match Layout::from_size_align(SLAB_BYTES, SLAB_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a power of two"),
    };

    /// The distance from one parcel to the next, in bytes.
    pub(super) const fn stride(room: Room) -> usize {
        Parcel::<M>::ROOM_OFFSET + room.bytes()
    }

    /// The offset of the first parcel: after the header, at a multiple of the stride.
    const fn first(room: Room) -> usize {
        size_of::<SlabHeader<M>>().next_multiple_of(Self::stride(room))
    }

    /// How many parcels a slab has. Few in a model, which has to track every parcel.
    pub(super) const fn parcels(room: Room) -> usize {
        if M::MODEL {
            2
        } else {
            (SLAB_BYTES - Self::first(room)) / Self::stride(room)
        }
    }

    /// The bits of all parcels.
    pub(super) const fn all(room: Room) -> u64 {
        u64::MAX >> (64 - Self::parcels(room))
    }

    /// The slab of a parcel's node, and the bit of that parcel.
    ///
    /// # Safety
    /// The node is that of a parcel that is alive, in a slab of that room, and the pointer may reach the
    /// whole slab.
    #[inline(always)]
    pub(super) unsafe fn of(node: NonNull<Node<M>>, room: Room) -> (Self, u64) {
        let slab = slab_of(node.cast());
        let offset = node.addr().get() - slab.addr().get();
        let index = (offset - Self::first(room)) / Self::stride(room);
        (Slab(slab.cast()), 1 << index)
    }

    pub(super) fn as_ptr(self) -> *mut SlabHeader<M> {
        self.0.as_ptr()
    }

    /// The slab at that address; `None` for null.
    ///
    /// # Safety
    /// It came from [`Slab::as_ptr`] of a slab that is alive, or is null.
    pub(super) unsafe fn from_ptr(header: *mut SlabHeader<M>) -> Option<Self> {
        NonNull::new(header).map(Slab)
    }

    /// The home that it belongs to.
    ///
    /// # Safety
    /// The slab is alive. The same holds for the methods below.
    pub(super) unsafe fn home(self) -> NonNull<Home<M>> {
        // SAFETY: the caller's promise.
        unsafe { (*self.0.as_ptr()).home }
    }

    /// The room of its parcels.
    pub(super) unsafe fn room(self) -> Room {
        // SAFETY: the caller's promise.
        unsafe { (*self.0.as_ptr()).room }
    }

    /// The word whose bits say which parcels came back.
    pub(super) unsafe fn back<'a>(self) -> &'a M::U64 {
        // SAFETY: the caller's promise.
        unsafe { &(*self.0.as_ptr()).back }
    }

    /// The slab below this one in the return stack. Read before what came back is taken: from
    /// then on it may be pushed again.
    pub(super) unsafe fn below(self) -> *mut SlabHeader<M> {
        // SAFETY: the caller's promise.
        let below = unsafe { &(*self.0.as_ptr()).below };
        // ORDER: Relaxed; the Acquire of the owner's exchange of the stack made it visible.
        below.load(Ordering::Relaxed)
    }

    pub(super) unsafe fn set_below(self, slab: *mut SlabHeader<M>) {
        // SAFETY: the caller's promise.
        let below = unsafe { &(*self.0.as_ptr()).below };
        // ORDER: Relaxed; published by the Release of the push that follows.
        below.store(slab, Ordering::Relaxed);
    }

    /// Makes a slab of parcels in no queue.
    #[cold]
    pub(super) fn new(home: NonNull<Home<M>>, room: Room, older: Option<Slab<M>>) -> Self {
        const {
            let mut index = 0;
            while index < Room::ALL.len() {
                let room = Room::ALL[index];
                let (stride, parcels) = (Self::stride(room), Self::parcels(room));
                assert!(stride.is_multiple_of(align_of::<Parcel<M>>()));
                assert!(Self::first(room) + parcels * stride <= SLAB_BYTES);
                assert!(parcels >= 1 && parcels <= 64);
                index += 1;
            }
            assert!(align_of::<Parcel<M>>() >= ALIGN && align_of::<SlabHeader<M>>() <= SLAB_BYTES);
            assert!(offset_of!(SlabHeader<M>, table) == 0 && offset_of!(Parcel<M>, node) == 0);
        }
        // SAFETY: the layout's size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc(Self::LAYOUT) }) else {
            handle_alloc_error(Self::LAYOUT)
        };
        let slab = Slab(memory.cast());
        // SAFETY: freshly allocated, and large enough for a header.
        unsafe {
            slab.0.write(SlabHeader {
                table: table::<M>(room),
                room,
                home,
                older: older.map_or(std::ptr::null_mut(), |slab| slab.0.as_ptr()),
                back: M::U64::new(0),
                below: M::Ptr::new(std::ptr::null_mut()),
            });
        }
        for index in 0..Self::parcels(room) {
            // SAFETY: the parcel lies in the slab; no other thread has it yet.
            unsafe { slab.parcel(index, room).write(Parcel::empty()) };
        }
        slab
    }

    /// A parcel of this slab, which is of that room.
    #[inline(always)]
    pub(super) fn parcel(self, index: usize, room: Room) -> NonNull<Parcel<M>> {
        let parcels = const { [Self::parcels(Room::Small), Self::parcels(Room::Large)] };
        debug_assert!(index < parcels[room as usize]);
        // SAFETY: inside the allocation.
        unsafe {
            self.0
                .cast::<Parcel<M>>()
                .byte_add(Self::first(room) + index * Self::stride(room))
        }
    }

    /// Frees this slab and the older ones.
    ///
    /// # Safety
    /// No thread uses a parcel of them any more, and none is filled.
    pub(super) unsafe fn free_all(self) {
        let mut next = Some(self);
        while let Some(slab) = next {
            // SAFETY: the slab is alive until freed below.
            let room = unsafe { slab.room() };
            // SAFETY: as above.
            next = NonNull::new(unsafe { slab.0.as_ref() }.older).map(Slab);
            for index in 0..Self::parcels(room) {
                // SAFETY: as above, and no other thread uses it.
                unsafe {
                    slab.parcel(index, room).as_ref().room_use.with_mut(|_| ());
                    slab.parcel(index, room).drop_in_place();
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

/// The slab of a parcel's node; only the first field of its header is the same for all machines.
fn slab_of(node: NonNull<()>) -> NonNull<()> {
    let header = node.as_ptr().map_addr(|addr| addr & !(SLAB_BYTES - 1));
    // SAFETY: slabs are aligned to their size, so the node's slab begins at this address.
    unsafe { NonNull::new_unchecked(header) }
}

/// # Safety
/// The node is that of a parcel that is alive, of any machine.
#[inline(always)]
pub(super) unsafe fn table_of(node: NonNull<()>) -> &'static ParcelTable {
    // SAFETY: a header begins with the table, whatever the machine.
    unsafe { slab_of(node).cast::<&'static ParcelTable>().read() }
}

#[cfg(test)]
mod tests {
    use super::{Room, Slab};
    use doorbell_machine::Host;

    #[repr(align(32))]
    struct Wide;

    #[test]
    fn a_parcel_is_a_line_or_half_of_one() {
        let of = |room| {
            (
                Slab::<Host>::stride(room),
                Slab::<Host>::first(room),
                Slab::<Host>::parcels(room),
            )
        };
        assert_eq!(of(Room::Small), (32, 64, 62));
        assert_eq!(of(Room::Large), (64, 64, 31));
    }

    #[test]
    fn a_closure_gets_the_least_room_that_holds_it() {
        assert_eq!(Room::of::<()>(), Some(Room::Small));
        assert_eq!(Room::of::<[u64; 2]>(), Some(Room::Small));
        assert_eq!(Room::of::<u128>(), Some(Room::Small));
        assert_eq!(Room::of::<[u8; 17]>(), Some(Room::Large));
        assert_eq!(Room::of::<[u64; 6]>(), Some(Room::Large));
        assert_eq!(Room::of::<[u64; 7]>(), None);
        assert_eq!(Room::of::<Wide>(), None);
    }
}
