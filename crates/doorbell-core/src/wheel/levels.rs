//! The structure of one base: eleven levels of 64 slots, exact near and coarse far.
//!
//! A timer hangs in the level of the highest six-bit digit in which its time differs from the
//! wheel's, in the slot of that digit. Slots of level 0 are one nanosecond wide, so they are
//! exact. When the time of a higher slot comes, its timers move to lower levels.
//! Insert and unlink take constant time. Everything in a lower level is due before everything
//! in a higher one, and within a level the slots are in order, so the next slot is found by a
//! look at eleven words.

use super::entry::Entry;
use doorbell_machine::{Machine, Mark};
use std::ptr::{NonNull, null_mut};

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 64;
/// Eleven digits of six bits hold the 64 bits of a time.
const LEVELS: usize = 64_usize.div_ceil(DIGIT_BITS as usize);
/// The level number of the list of timers that are due and not yet fired.
const DUE: usize = LEVELS;
const _: () = assert!(SLOTS == 2_usize.pow(DIGIT_BITS));
const _: () = assert!(LEVELS == 11 && LEVELS * DIGIT_BITS as usize >= 64);

/// At most so many timers of a coarse slot are read to find the nearest. A fuller slot is first moved to
/// lower levels when it begins, which costs one more wake.
pub(super) const LOOKS_MAX: usize = 32;

/// Where a timer hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotPlace {
    level: u8,
    slot: u8,
}

/// The link of a timer. Only the worker touches it.
#[derive(Debug)]
pub(super) struct Link<M: Machine, O> {
    newer: *mut Entry<M, O>,
    older: *mut Entry<M, O>,
    /// When it is due, in nanoseconds of the worker's clock.
    when_ns: u64,
    /// `None`: in no list.
    place: Option<SlotPlace>,
}

impl<M: Machine, O> Link<M, O> {
    pub(super) fn new() -> Self {
        Link {
            newer: null_mut(),
            older: null_mut(),
            when_ns: 0,
            place: None,
        }
    }

    pub(super) fn is_linked(&self) -> bool {
        self.place.is_some()
    }
}

/// One base of a worker's wheel.
pub(super) struct WheelLevels<M: Machine, O> {
    /// Every timer due before this has left its slot, and at the last look also those due at it.
    elapsed_ns: u64,
    /// One bit per slot that is not empty.
    occupied: [u64; LEVELS],
    /// The newest timer of each slot. The last level is the list of what is due.
    newest: Box<[[*mut Entry<M, O>; SLOTS]]>,
    len: usize,
}

impl<M: Machine, O> WheelLevels<M, O> {
    pub(super) fn new(now_ns: u64) -> Self {
        WheelLevels {
            elapsed_ns: now_ns,
            occupied: [0; LEVELS],
            newest: vec![[null_mut(); SLOTS]; LEVELS + 1].into_boxed_slice(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Hangs a timer in.
    ///
    /// # Safety
    /// `entry` is alive until unlinked, is in no list, and its link is this worker's.
    #[inline]
    pub(super) unsafe fn insert(&mut self, entry: *mut Entry<M, O>, when_ns: u64) {
        // A timer whose time has passed hangs in the slot of the present, so it is due at the next look.
        let when_ns = when_ns.max(self.elapsed_ns);
        let place = self.place_of(when_ns);
        self.occupied[usize::from(place.level)] |= 1 << place.slot;
        // SAFETY: passed on from the caller.
        unsafe { self.hang(entry, when_ns, place) };
        self.len += 1;
    }

    #[inline]
    fn place_of(&self, when_ns: u64) -> SlotPlace {
        let differs = (self.elapsed_ns ^ when_ns) | (SLOTS as u64 - 1);
        let level = differs.ilog2() / DIGIT_BITS;
        SlotPlace {
            level: level as u8,
            slot: (when_ns >> (level * DIGIT_BITS)) as u8 & (SLOTS as u8 - 1),
        }
    }

    /// # Safety
    /// As for [`WheelLevels::insert`].
    #[inline]
    unsafe fn hang(&mut self, entry: *mut Entry<M, O>, when_ns: u64, place: SlotPlace) {
        let newest = &mut self.newest[usize::from(place.level)][usize::from(place.slot)];
        let older = std::mem::replace(newest, entry);
        // SAFETY: the caller's promise.
        unsafe {
            Entry::with_link(entry, |link| {
                *link = Link {
                    newer: null_mut(),
                    older,
                    when_ns,
                    place: Some(place),
                };
            });
        }
        if !older.is_null() {
            // SAFETY: what hangs in the wheel is alive.
            unsafe { Entry::with_link(older, |link| link.newer = entry) };
        }
    }

    /// Takes a timer out, wherever it hangs.
    ///
    /// # Safety
    /// `entry` hangs in this base.
    #[inline]
    pub(super) unsafe fn unlink(&mut self, entry: *mut Entry<M, O>) {
        // SAFETY: the caller's promise.
        let (newer, older, place) =
            unsafe { Entry::with_link(entry, |link| (link.newer, link.older, link.place.take())) };
        let place = place.expect("a timer that is unlinked hangs in the wheel");
        if newer.is_null() {
            let (level, slot) = (usize::from(place.level), usize::from(place.slot));
            self.newest[level][slot] = older;
            if older.is_null() && level < DUE {
                self.occupied[level] &= !(1 << slot);
            }
        } else {
            // SAFETY: what hangs in the wheel is alive.
            unsafe { Entry::with_link(newer, |link| link.older = older) };
        }
        if !older.is_null() {
            // SAFETY: as above.
            unsafe { Entry::with_link(older, |link| link.newer = newer) };
        }
        self.len -= 1;
    }

    /// The next slot that is not empty, and when it begins.
    #[inline]
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let slot = self.occupied[level].trailing_zeros();
        let shift = level as u32 * DIGIT_BITS;
        // The digits above this level are those of the wheel's time.
        let above = self.elapsed_ns.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
        let above = above.checked_shl(shift + DIGIT_BITS).unwrap_or(0);
        Some((level, slot as usize, above | u64::from(slot) << shift))
    }

    /// When the worker has to look next: when the nearest timer is due, or earlier if many timers share
    /// a coarse slot. `None` if there is no timer.
    pub(super) fn next_ns(&self) -> Option<u64> {
        if !self.newest[DUE][0].is_null() {
            return Some(self.elapsed_ns);
        }
        let (level, slot, begins_ns) = self.next_slot()?;
        if level == 0 {
            return Some(begins_ns);
        }
        let mut nearest_ns = u64::MAX;
        let mut entry = self.newest[level][slot];
        for _ in 0..LOOKS_MAX {
            if entry.is_null() {
                return Some(nearest_ns);
            }
            // SAFETY: what hangs in the wheel is alive, and its link is this worker's.
            let (older, when_ns) =
                unsafe { Entry::with_link(entry, |link| (link.older, link.when_ns)) };
            nearest_ns = nearest_ns.min(when_ns);
            entry = older;
        }
        if entry.is_null() {
            Some(nearest_ns)
        } else {
            Some(begins_ns)
        }
    }

    /// Moves what is due at `now_ns` to the list of the due.
    pub(super) fn advance(&mut self, now_ns: u64) {
        while let Some((level, slot, begins_ns)) = self.next_slot() {
            if begins_ns > now_ns {
                break;
            }
            self.elapsed_ns = self.elapsed_ns.max(begins_ns);
            self.occupied[level] &= !(1 << slot);
            let mut entry = std::mem::replace(&mut self.newest[level][slot], null_mut());
            while !entry.is_null() {
                // SAFETY: as in `next_ns`.
                let (older, when_ns) =
                    unsafe { Entry::with_link(entry, |link| (link.older, link.when_ns)) };
                let place = if when_ns <= now_ns {
                    SlotPlace {
                        level: DUE as u8,
                        slot: 0,
                    }
                } else {
                    M::mark(Mark::WheelCascade);
                    let place = self.place_of(when_ns);
                    self.occupied[usize::from(place.level)] |= 1 << place.slot;
                    place
                };
                // SAFETY: it was taken out of its slot, whose whole list this loop empties.
                unsafe { self.hang(entry, when_ns, place) };
                entry = older;
            }
        }
        self.elapsed_ns = self.elapsed_ns.max(now_ns);
    }

    /// Takes one timer out of the list of those that are due.
    pub(super) fn pop_due(&mut self) -> Option<NonNull<Entry<M, O>>> {
        self.pop(DUE, 0)
    }

    /// Takes out any timer, for a worker that ends.
    pub(super) fn pop_any(&mut self) -> Option<NonNull<Entry<M, O>>> {
        if let Some(entry) = self.pop_due() {
            return Some(entry);
        }
        let (level, slot, _) = self.next_slot()?;
        self.pop(level, slot)
    }

    fn pop(&mut self, level: usize, slot: usize) -> Option<NonNull<Entry<M, O>>> {
        let entry = NonNull::new(self.newest[level][slot])?;
        // SAFETY: it hangs in this base.
        unsafe { self.unlink(entry.as_ptr()) };
        Some(entry)
    }
}
