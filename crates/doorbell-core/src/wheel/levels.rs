//! The structure of one base: eleven levels of 64 slots, exact near and coarse far.
//!
//! A timer hangs in the level of the highest six-bit digit in which its deadline differs from the
//! wheel's time, in the slot of that digit. Slots of level 0 are one nanosecond wide, so they are
//! exact. When the time of a higher slot comes, its timers move to lower levels.
//! Insert and unlink take constant time. Everything in a lower level is due before everything
//! in a higher one, and within a level the slots are in order, so the next slot is found by a
//! look at eleven words.

use super::Window;
use super::entry::Entry;
use doorbell_machine::{Bug, Machine, Mark};
use std::ptr::{NonNull, null_mut};

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 64;
/// Eleven digits of six bits hold the 64 bits of a time.
const LEVELS: usize = 64_usize.div_ceil(DIGIT_BITS as usize);
/// The level number of the two lists of timers that are due and not yet fired.
const DUE: usize = LEVELS;
const _: () = assert!(SLOTS == 2_usize.pow(DIGIT_BITS));
const _: () = assert!(LEVELS == 11 && LEVELS * DIGIT_BITS as usize >= 64);

/// At most so many timers of the first slot are read to find the nearest. For a fuller slot its begin and its stored
/// `latest_ns` stand in: a look may come too early, a wake only after a cancel.
pub(super) const LOOKS_MAX: usize = 32;

/// Where a timer hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotPlace {
    level: u8,
    slot: u8,
}

/// The link of a timer. Who may touch it: README.md, "Who may touch what".
#[derive(Debug)]
pub(super) struct Link<M: Machine, O> {
    newer: *mut Entry<M, O>,
    older: *mut Entry<M, O>,
    /// When it may fire, by the worker's clock.
    pub(super) window: Window,
    /// `None`: in no list.
    place: Option<SlotPlace>,
}

impl<M: Machine, O> Link<M, O> {
    pub(super) fn new() -> Self {
        Link {
            newer: null_mut(),
            older: null_mut(),
            window: Window::NEVER,
            place: None,
        }
    }

    pub(super) fn is_linked(&self) -> bool {
        self.place.is_some()
    }
}

/// The timers of one slot.
struct Slot<M: Machine, O> {
    newest: *mut Entry<M, O>,
    /// The least `latest_ns` of all timers that hung here since the slot was last empty. So cancelled ones count.
    latest_ns: u64,
}

impl<M: Machine, O> Slot<M, O> {
    const EMPTY: Slot<M, O> = Slot {
        newest: null_mut(),
        latest_ns: u64::MAX,
    };
}

/// One base of a worker's wheel.
pub(crate) struct WheelLevels<M: Machine, O> {
    /// The time of the last look. No slot holds a timer whose deadline is earlier.
    elapsed_ns: u64,
    /// One bit per slot that is not empty.
    occupied: [u64; LEVELS],
    /// The slots of each level. The first two of the last level are lists of what is due.
    slots: Box<[[Slot<M, O>; SLOTS]]>,
    /// Which of these two a visitor takes from. What it must leave goes to the other one, so that it hides nothing.
    unseen: u8,
    len: usize,
}

impl<M: Machine, O> WheelLevels<M, O> {
    pub(super) fn new(now_ns: u64) -> Self {
        WheelLevels {
            elapsed_ns: now_ns,
            occupied: [0; LEVELS],
            slots: (0..=LEVELS)
                .map(|_| [const { Slot::EMPTY }; SLOTS])
                .collect(),
            unseen: 0,
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
    pub(crate) unsafe fn insert(&mut self, entry: *mut Entry<M, O>, window: Window) {
        // A timer whose deadline has passed hangs in the slot of the present, so it is due at the next look.
        let window = window.not_before(self.elapsed_ns);
        let place = self.place_of(window.from_ns);
        self.occupied[usize::from(place.level)] |= 1 << place.slot;
        // SAFETY: passed on from the caller.
        unsafe { self.hang(entry, window, place) };
        self.len += 1;
    }

    #[inline]
    fn place_of(&self, from_ns: u64) -> SlotPlace {
        let differs = (self.elapsed_ns ^ from_ns) | (SLOTS as u64 - 1);
        let level = differs.ilog2() / DIGIT_BITS;
        SlotPlace {
            level: level as u8,
            slot: (from_ns >> (level * DIGIT_BITS)) as u8 & (SLOTS as u8 - 1),
        }
    }

    /// # Safety
    /// As for [`WheelLevels::insert`].
    #[inline]
    unsafe fn hang(&mut self, entry: *mut Entry<M, O>, window: Window, place: SlotPlace) {
        let slot = &mut self.slots[usize::from(place.level)][usize::from(place.slot)];
        let older = std::mem::replace(&mut slot.newest, entry);
        if older.is_null() || window.latest_ns < slot.latest_ns {
            slot.latest_ns = window.latest_ns;
        }
        // SAFETY: the caller's promise.
        unsafe {
            Entry::with_link(entry, |link| {
                *link = Link {
                    newer: null_mut(),
                    older,
                    window,
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
    pub(crate) unsafe fn unlink(&mut self, entry: *mut Entry<M, O>) {
        // SAFETY: the caller's promise.
        let (newer, older, place) =
            unsafe { Entry::with_link(entry, |link| (link.newer, link.older, link.place.take())) };
        let place = place.expect("a timer that is unlinked hangs in the wheel");
        if newer.is_null() {
            let (level, slot) = (usize::from(place.level), usize::from(place.slot));
            self.slots[level][slot].newest = older;
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
        let slot = self.occupied[level].trailing_zeros() as usize;
        Some((level, slot, self.begins_ns(level, slot)))
    }

    /// When a slot that is not empty begins.
    #[inline]
    fn begins_ns(&self, level: usize, slot: usize) -> u64 {
        let shift = level as u32 * DIGIT_BITS;
        // The digits above this level are those of the wheel's time.
        let above = self.elapsed_ns.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
        let above = above.checked_shl(shift + DIGIT_BITS).unwrap_or(0);
        above | (slot as u64) << shift
    }

    /// Between which times the worker has to look next: from the nearest deadline on, and by the least latest time.
    /// `from_ns` may be too early if the first slot has more than 32 timers, `latest_ns` after a cancel.
    /// [`Window::NEVER`] if there is no timer.
    pub(super) fn next(&self) -> Window {
        let is_due = |list: &Slot<M, O>| !list.newest.is_null();
        if self.slots[DUE][..2].iter().any(is_due) {
            return Window::at(self.elapsed_ns);
        }
        self.next_not_due()
    }

    /// As [`WheelLevels::next`], of the timers that are in no list of the due.
    fn next_not_due(&self) -> Window {
        let Some((level, slot, begins_ns)) = self.next_slot() else {
            return Window::NEVER;
        };
        let mut next = self.nearest(level, slot, begins_ns);
        // Without slack nothing in another slot is earlier.
        if next.latest_ns > next.from_ns && !M::breaks(Bug::WheelWakesForFirstSlot) {
            next.latest_ns = self.latest_behind(level, next.latest_ns);
        }
        next
    }

    /// The nearest times of the first slot. Of a slot with many timers: when it begins, and the least `latest_ns` that
    /// it has had.
    fn nearest(&self, level: usize, slot: usize, begins_ns: u64) -> Window {
        let slot = &self.slots[level][slot];
        let mut nearest = Window::NEVER;
        let mut entry = slot.newest;
        for _ in 0..LOOKS_MAX {
            // No timer of the slot is earlier than its begin.
            if entry.is_null() || nearest.latest_ns == begins_ns {
                return nearest;
            }
            // SAFETY: what hangs in the wheel is alive, and its link is this worker's.
            let (older, window) =
                unsafe { Entry::with_link(entry, |link| (link.older, link.window)) };
            nearest = nearest.and(window);
            entry = older;
        }
        if entry.is_null() {
            return nearest;
        }
        Window {
            from_ns: begins_ns,
            latest_ns: slot.latest_ns,
        }
    }

    /// The least of `of_first_ns` and the `latest_ns` of all slots after the first one. `first_level` is the level of
    /// the first slot.
    #[cold]
    fn latest_behind(&self, first_level: usize, of_first_ns: u64) -> u64 {
        let mut latest_ns = of_first_ns;
        for level in first_level..LEVELS {
            let mut occupied = self.occupied[level];
            if level == first_level {
                occupied &= occupied - 1;
            }
            while occupied != 0 {
                let slot = occupied.trailing_zeros() as usize;
                // No timer is earlier than the begin of its slot, and the slots come in order.
                if self.begins_ns(level, slot) >= latest_ns {
                    return latest_ns;
                }
                latest_ns = latest_ns.min(self.slots[level][slot].latest_ns);
                occupied &= occupied - 1;
            }
        }
        latest_ns
    }

    /// Moves what is due at `now_ns` to a list of the due.
    pub(super) fn advance(&mut self, now_ns: u64) {
        while let Some((level, slot, begins_ns)) = self.next_slot() {
            if begins_ns > now_ns {
                break;
            }
            self.elapsed_ns = self.elapsed_ns.max(begins_ns);
            self.occupied[level] &= !(1 << slot);
            let mut entry = std::mem::replace(&mut self.slots[level][slot].newest, null_mut());
            while !entry.is_null() {
                // SAFETY: as in `nearest`.
                let (older, window) =
                    unsafe { Entry::with_link(entry, |link| (link.older, link.window)) };
                let place = if window.from_ns <= now_ns {
                    SlotPlace {
                        level: DUE as u8,
                        slot: self.unseen,
                    }
                } else {
                    M::mark(Mark::WheelCascade);
                    let place = self.place_of(window.from_ns);
                    self.occupied[usize::from(place.level)] |= 1 << place.slot;
                    place
                };
                // SAFETY: it was taken out of its slot, whose whole list this loop empties.
                unsafe { self.hang(entry, window, place) };
                entry = older;
            }
        }
        self.elapsed_ns = self.elapsed_ns.max(now_ns);
    }

    /// Takes one timer out of those that are due.
    pub(super) fn pop_due(&mut self) -> Option<NonNull<Entry<M, O>>> {
        self.pop_unseen().or_else(|| self.pop(DUE, self.seen()))
    }

    /// The list of what a visitor has left.
    fn seen(&self) -> usize {
        usize::from(1 - self.unseen)
    }

    /// Takes out one timer that is due and that no visitor has seen since [`WheelLevels::look_anew`].
    pub(super) fn pop_unseen(&mut self) -> Option<NonNull<Entry<M, O>>> {
        self.pop(DUE, usize::from(self.unseen))
    }

    /// A visitor has seen all that is due. What was left meanwhile is unseen again.
    pub(super) fn look_anew(&mut self) {
        if !self.has_unseen() {
            self.unseen = 1 - self.unseen;
        }
    }

    /// Whether something is due that no visitor has seen.
    pub(super) fn has_unseen(&self) -> bool {
        !self.slots[DUE][usize::from(self.unseen)].newest.is_null()
    }

    /// Hangs a timer that a visitor took out, and must leave, among those that it has seen.
    ///
    /// # Safety
    /// As for [`WheelLevels::insert`]; it is due.
    pub(super) unsafe fn leave(&mut self, entry: *mut Entry<M, O>, window: Window) {
        let place = SlotPlace {
            level: DUE as u8,
            slot: 1 - self.unseen,
        };
        // SAFETY: passed on from the caller.
        unsafe { self.hang(entry, window, place) };
        self.len += 1;
    }

    /// By when a thread must look again after a visit: at once if it has not seen all. Else by the least latest time,
    /// but for what was left not before `again_ns`.
    pub(super) fn next_behind_visit_ns(&self, again_ns: u64) -> u64 {
        if self.has_unseen() {
            return self.elapsed_ns;
        }
        let left = &self.slots[DUE][self.seen()];
        let left_ns = if left.newest.is_null() {
            u64::MAX
        } else {
            left.latest_ns.max(again_ns)
        };
        self.next_not_due().latest_ns.min(left_ns)
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
        let entry = NonNull::new(self.slots[level][slot].newest)?;
        // SAFETY: it hangs in this base.
        unsafe { self.unlink(entry.as_ptr()) };
        Some(entry)
    }
}
