//! Parcels that a worker has emptied and not yet returned: per slab the bits of its parcels. See README.md.

use super::Room;
use super::pool::give_back;
use super::slab::Slab;
use crate::link::Node;
use doorbell_machine::{Cell as _, Machine};
use std::cell::Cell;
use std::ptr::NonNull;

/// A worker holds parcels of at most `SETS * WAYS` slabs at once.
const SETS: usize = 16;
const WAYS: usize = 4;

/// Parcels of one slab on their way back.
struct HeldParcels<M: Machine> {
    slab: Option<Slab<M>>,
    mask: u64,
}

impl<M: Machine> HeldParcels<M> {
    const NOTHING: HeldParcels<M> = HeldParcels {
        slab: None,
        mask: 0,
    };

    /// Returns the parcels, if there are any.
    fn flush(&mut self) {
        let held = std::mem::replace(self, Self::NOTHING);
        if let Some(slab) = held.slab {
            // SAFETY: they were put here empty, and are not used any more.
            unsafe { give_back(slab, held.mask) };
        }
    }
}

/// The parcels that a worker holds. Not `Sync`: it belongs to the worker's thread.
pub(crate) struct Returns<M: Machine> {
    table: M::Cell<[[HeldParcels<M>; WAYS]; SETS]>,
    holds: Cell<bool>,
    /// How many were put here since the last [`Returns::take_fresh`].
    fresh: Cell<u64>,
}

impl<M: Machine> std::fmt::Debug for Returns<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Returns")
            .field("holds", &self.holds())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Default for Returns<M> {
    fn default() -> Self {
        Returns {
            table: M::Cell::new([const { [const { HeldParcels::NOTHING }; WAYS] }; SETS]),
            holds: Cell::new(false),
            fresh: Cell::new(0),
        }
    }
}

impl<M: Machine> Returns<M> {
    /// Takes an empty parcel. If all parcels of its slab are held, returns them.
    ///
    /// # Safety
    /// The node is that of a parcel, which was posted to this worker and which it has emptied; `room` is the number
    /// of the parcel's room.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, node: NonNull<Node<M>>, room: u8) {
        let room = Room::ALL[usize::from(room)];
        // SAFETY: the caller's promise.
        let (slab, bit) = unsafe { Slab::of(node, room) };
        self.holds.set(true);
        self.fresh.set(self.fresh.get() + 1);
        self.table.with_mut(|table| {
            // SAFETY: this is the worker's own, and no foreign code is called in here.
            let held = Self::held_of(unsafe { &mut *table }, slab);
            held.mask |= bit;
            if held.mask == Slab::<M>::all(room) {
                held.flush();
            }
        });
    }

    /// The entry of that slab: the one that was begun, or a new one.
    #[inline(always)]
    fn held_of(table: &mut [[HeldParcels<M>; WAYS]; SETS], slab: Slab<M>) -> &mut HeldParcels<M> {
        let at = if M::ADDRESSES_STEER {
            // Slabs are 2 KiB or more apart.
            slab.as_ptr().addr() >> 11
        } else {
            0
        };
        let set = &mut table[at % SETS];
        match (0..WAYS).find(|&way| set[way].slab == Some(slab)) {
            Some(way) => &mut set[way],
            None => Self::begin(set, slab),
        }
    }

    /// Begins an entry. If the set is full, the fullest entry is returned to make room: the others can still
    /// collect more.
    #[cold]
    fn begin(set: &mut [HeldParcels<M>; WAYS], slab: Slab<M>) -> &mut HeldParcels<M> {
        let free = (0..WAYS).find(|&way| set[way].slab.is_none());
        let fullest = || (0..WAYS).max_by_key(|&way| set[way].mask.count_ones());
        let held = &mut set[free.or_else(fullest).unwrap_or(0)];
        held.flush();
        held.slab = Some(slab);
        held
    }

    /// How many parcels were put here since the last call of this.
    #[inline]
    pub(crate) fn take_fresh(&self) -> u64 {
        self.fresh.replace(0)
    }

    /// Whether parcels may wait to be returned.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.holds.get()
    }

    /// Returns all parcels, for a worker that has nothing to run.
    #[inline]
    pub(crate) fn flush(&self) {
        if self.holds() {
            self.flush_all();
        }
    }

    #[cold]
    fn flush_all(&self) {
        self.holds.set(false);
        self.table.with_mut(|table| {
            // SAFETY: as in `put`.
            let table = unsafe { &mut *table };
            table.iter_mut().flatten().for_each(HeldParcels::flush);
        });
    }
}

impl<M: Machine> Drop for Returns<M> {
    fn drop(&mut self) {
        self.flush();
    }
}
