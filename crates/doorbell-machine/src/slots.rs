//! Slots: the three pointers that belong to the running lane or thread.
//!
//! * the *lane slot* is the core's own ([`Machine::lane_slot`](crate::Machine::lane_slot));
//! * the *ambient slot* is for the floor above: through it the public free functions find the
//!   runtime they are called in, whatever machine that runs on;
//! * the *task slot* is for that floor too: what the task that is polled now has bound.
//!
//! They are plain thread-locals here. A machine that runs many lanes on one thread swaps them
//! whenever it switches lanes.

use std::cell::Cell;

thread_local! {
    static SLOTS: Slots = const {
        Slots {
            lane: Cell::new(std::ptr::null()),
            ambient: Cell::new(std::ptr::null()),
            task: Cell::new(std::ptr::null()),
        }
    };
}

struct Slots {
    lane: Cell<*const ()>,
    ambient: Cell<*const ()>,
    task: Cell<*const ()>,
}

/// The lane slot of this thread; null where nothing was stored.
#[inline]
#[must_use]
pub fn lane() -> *const () {
    SLOTS.with(|s| s.lane.get())
}

/// Stores `ptr` in the lane slot; returns what was there.
///
/// # Safety
/// Whoever reads the slot trusts it: `ptr` is null, or what they expect, for as long as it is
/// stored.
pub unsafe fn set_lane(ptr: *const ()) -> *const () {
    SLOTS.with(|s| s.lane.replace(ptr))
}

/// The ambient slot of this thread; null where nothing was stored.
#[inline]
#[must_use]
pub fn ambient() -> *const () {
    SLOTS.with(|s| s.ambient.get())
}

/// Stores `ptr` in the ambient slot; returns what was there.
///
/// # Safety
/// As for [`set_lane`].
pub unsafe fn set_ambient(ptr: *const ()) -> *const () {
    SLOTS.with(|s| s.ambient.replace(ptr))
}

/// The task slot of this thread; null where nothing was stored.
#[inline]
#[must_use]
pub fn task() -> *const () {
    SLOTS.with(|s| s.task.get())
}

/// Stores `ptr` in the task slot; returns what was there.
///
/// # Safety
/// As for [`set_lane`].
pub unsafe fn set_task(ptr: *const ()) -> *const () {
    SLOTS.with(|s| s.task.replace(ptr))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_task_slot_is_apart_from_the_others() {
        let a = 1u8;
        // SAFETY: nobody but this test reads the slots of this thread.
        assert!(unsafe { super::set_task((&raw const a).cast()) }.is_null());
        assert!(super::lane().is_null() && super::ambient().is_null());
        assert_eq!(super::task(), (&raw const a).cast());
        let elsewhere = std::thread::spawn(|| super::task().is_null());
        assert!(elsewhere.join().unwrap());
        // SAFETY: as above.
        assert!(!unsafe { super::set_task(std::ptr::null()) }.is_null());
    }

    #[test]
    fn slots_are_apart_and_per_thread() {
        let (a, b) = (1u8, 2u8);
        let (pa, pb) = ((&raw const a).cast::<()>(), (&raw const b).cast::<()>());
        // SAFETY: nobody but this test reads the slots of this thread.
        let before = unsafe { (super::set_lane(pa), super::set_ambient(pb)) };
        assert!(before.0.is_null() && before.1.is_null());
        assert_eq!((super::lane(), super::ambient()), (pa, pb));
        let elsewhere =
            std::thread::spawn(|| super::lane().is_null() && super::ambient().is_null());
        assert!(elsewhere.join().unwrap());
        // SAFETY: as above.
        let after = unsafe {
            (
                super::set_lane(std::ptr::null()),
                super::set_ambient(std::ptr::null()),
            )
        };
        assert_eq!(after, (pa, pb));
    }
}
