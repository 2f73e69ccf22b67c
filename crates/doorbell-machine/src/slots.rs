//! Slots: the two pointers that belong to the running lane or thread.
//!
//! * the *lane slot* is the core's own ([`Machine::lane_slot`](crate::Machine::lane_slot));
//! * the *ambient slot* is for the floor above: through it the public free functions find the
//!   runtime they are called in, whatever machine that runs on.
//!
//! Both are plain thread-locals here. A machine that runs many lanes on one thread swaps them
//! whenever it switches lanes.

use std::cell::Cell;

thread_local! {
    static SLOTS: Slots = const { Slots { lane: Cell::new(std::ptr::null()), ambient: Cell::new(std::ptr::null()) } };
}

struct Slots {
    lane: Cell<*const ()>,
    ambient: Cell<*const ()>,
}

/// The lane slot of this thread; null where nothing was stored.
#[inline]
#[must_use]
pub fn lane() -> *const () {
    SLOTS.with(|s| s.lane.get())
}

/// Stores `ptr` in the lane slot; returns what was there.
pub fn set_lane(ptr: *const ()) -> *const () {
    SLOTS.with(|s| s.lane.replace(ptr))
}

/// The ambient slot of this thread; null where nothing was stored.
#[inline]
#[must_use]
pub fn ambient() -> *const () {
    SLOTS.with(|s| s.ambient.get())
}

/// Stores `ptr` in the ambient slot; returns what was there.
pub fn set_ambient(ptr: *const ()) -> *const () {
    SLOTS.with(|s| s.ambient.replace(ptr))
}

#[cfg(test)]
mod tests {
    #[test]
    fn slots_are_apart_and_per_thread() {
        let (a, b) = (1u8, 2u8);
        let (pa, pb) = ((&raw const a).cast::<()>(), (&raw const b).cast::<()>());
        assert!(super::set_lane(pa).is_null());
        assert!(super::set_ambient(pb).is_null());
        assert_eq!((super::lane(), super::ambient()), (pa, pb));
        let elsewhere =
            std::thread::spawn(|| super::lane().is_null() && super::ambient().is_null());
        assert!(elsewhere.join().unwrap());
        assert_eq!(super::set_lane(std::ptr::null()), pa);
        assert_eq!(super::set_ambient(std::ptr::null()), pb);
    }
}
