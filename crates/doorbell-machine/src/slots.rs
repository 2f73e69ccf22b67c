//! Slots: the pointers that belong to the running worker or thread.
//!
//! * `doorbell-core` uses the *worker slot* ([`Machine::worker_slot`](crate::Machine::worker_slot)). The workers of
//!   a simulated machine have one of their own, so that code of one machine never finds the worker of another;
//! * the crate `doorbell` uses the *ambient slot*: its free functions find their runtime by it, on any
//!   machine;
//! * that crate uses the *task slot* too: it points to what the task under poll has bound;
//! * `doorbell-core` uses the *pool slot* ([`Machine::pool_slot`](crate::Machine::pool_slot)), whose content
//!   ends with its thread.
//!
//! All are plain thread-locals here. A machine that runs many workers on one thread swaps them whenever it
//! switches workers.

use std::cell::Cell;

thread_local! {
    static SLOTS: Slots = const { Slots::new() };
    /// Separate from the slots, so that those have no destructor and are cheap to read.
    static AT_END: AtEnd = const { AtEnd(Cell::new(None)) };
}

/// All slots of a thread.
#[derive(Debug)]
pub(crate) struct Slots {
    worker: Cell<*const ()>,
    ambient: Cell<*const ()>,
    task: Cell<*const ()>,
    pool: Cell<*const ()>,
    /// The worker slot of a simulated thread.
    #[cfg(feature = "sim")]
    simulated: Cell<*const ()>,
}

impl Slots {
    /// Empty slots.
    pub(crate) const fn new() -> Self {
        Slots {
            worker: Cell::new(std::ptr::null()),
            ambient: Cell::new(std::ptr::null()),
            task: Cell::new(std::ptr::null()),
            pool: Cell::new(std::ptr::null()),
            #[cfg(feature = "sim")]
            simulated: Cell::new(std::ptr::null()),
        }
    }
}

/// Ends the pool when its thread ends.
struct AtEnd(Cell<Option<unsafe fn(*const ())>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let pool = SLOTS.with(|s| s.pool.replace(std::ptr::null()));
        if let Some(end) = self.0.take() {
            // SAFETY: the caller of `set_pool` allows this call, with the pointer that it stored.
            unsafe { end(pool) };
        }
    }
}

/// The worker slot of this thread; null if nothing is stored.
#[inline]
#[must_use]
pub fn worker() -> *const () {
    SLOTS.with(|s| s.worker.get())
}

/// Stores `ptr` in the worker slot; returns the pointer before.
///
/// # Safety
/// Readers dereference the slot: as long as `ptr` is stored, it is null or points to what they expect.
pub unsafe fn set_worker(ptr: *const ()) -> *const () {
    SLOTS.with(|s| s.worker.replace(ptr))
}

/// Whether the caller is a worker, of whichever machine.
#[inline]
#[must_use]
pub fn is_worker() -> bool {
    #[cfg(feature = "sim")]
    if !simulated_worker().is_null() {
        return true;
    }
    !worker().is_null()
}

/// The worker slot of this simulated thread; null if nothing is stored.
#[cfg(feature = "sim")]
#[inline]
pub(crate) fn simulated_worker() -> *const () {
    SLOTS.with(|s| s.simulated.get())
}

/// Stores `ptr` in the worker slot of this simulated thread.
///
/// # Safety
/// As for [`set_worker`].
#[cfg(feature = "sim")]
pub(crate) unsafe fn set_simulated_worker(ptr: *const ()) {
    SLOTS.with(|s| s.simulated.set(ptr));
}

/// The ambient slot of this thread; null if nothing is stored.
#[inline]
#[must_use]
pub fn ambient() -> *const () {
    SLOTS.with(|s| s.ambient.get())
}

/// Stores `ptr` in the ambient slot; returns the pointer before.
///
/// # Safety
/// As for [`set_worker`].
pub unsafe fn set_ambient(ptr: *const ()) -> *const () {
    SLOTS.with(|s| s.ambient.replace(ptr))
}

/// The task slot of this thread; null if nothing is stored.
#[inline]
#[must_use]
pub fn task() -> *const () {
    SLOTS.with(|s| s.task.get())
}

/// Stores `ptr` in the task slot; returns the pointer before.
///
/// # Safety
/// As for [`set_worker`].
pub unsafe fn set_task(ptr: *const ()) -> *const () {
    SLOTS.with(|s| s.task.replace(ptr))
}

/// Swaps the slots of this thread with the `kept` ones, of another simulated thread.
///
/// # Safety
/// From here on, the code that runs on this thread is that of the simulated thread whose slots were kept.
#[cfg(feature = "sim")]
#[inline]
pub(crate) unsafe fn swap(kept: &Slots) {
    SLOTS.with(|slots| {
        slots.worker.swap(&kept.worker);
        slots.simulated.swap(&kept.simulated);
        slots.ambient.swap(&kept.ambient);
        slots.task.swap(&kept.task);
        slots.pool.swap(&kept.pool);
    });
}

/// Stores a pointer in the pool slot of a thread whose machine ends the pool itself; returns the pointer
/// before.
///
/// # Safety
/// As for [`set_worker`].
#[cfg(feature = "sim")]
pub(crate) unsafe fn replace_pool(ptr: *const ()) -> *const () {
    SLOTS.with(|slots| slots.pool.replace(ptr))
}

/// The pool slot of this thread; null if nothing is stored, and once the thread ends.
#[inline]
#[must_use]
pub fn pool() -> *const () {
    SLOTS.with(|s| s.pool.get())
}

/// Stores `ptr` in the pool slot; when the thread ends, `end` is called with it. If the thread is ending
/// already, returns `false` and stores nothing.
///
/// # Safety
/// As for [`set_worker`], until `end` was called; the slot is empty.
#[must_use]
pub unsafe fn set_pool(ptr: *const (), end: unsafe fn(*const ())) -> bool {
    let kept = AT_END.try_with(|at_end| at_end.0.set(Some(end))).is_ok();
    if kept {
        SLOTS.with(|s| s.pool.set(ptr));
    }
    kept
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_task_slot_is_apart_from_the_others() {
        let a = 1u8;
        // SAFETY: only this test reads the slots of this thread.
        assert!(unsafe { super::set_task((&raw const a).cast()) }.is_null());
        assert!(super::worker().is_null() && super::ambient().is_null());
        assert_eq!(super::task(), (&raw const a).cast());
        let elsewhere = std::thread::spawn(|| super::task().is_null());
        assert!(elsewhere.join().unwrap());
        // SAFETY: as above.
        assert!(!unsafe { super::set_task(std::ptr::null()) }.is_null());
    }

    #[test]
    fn miri_a_pool_is_ended_with_its_thread() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        /// # Safety
        /// `ptr` came from a box of a `usize`.
        unsafe fn end(ptr: *const ()) {
            // SAFETY: the caller's promise.
            let number = unsafe { Box::from_raw(ptr.cast::<usize>().cast_mut()) };
            // ORDER: Relaxed; the join of the thread orders it.
            ENDED.fetch_add(*number, Ordering::Relaxed);
            assert!(super::pool().is_null(), "nobody finds it from here on");
        }
        std::thread::spawn(|| {
            assert!(super::pool().is_null());
            let kept = Box::into_raw(Box::new(7_usize)).cast_const().cast();
            // SAFETY: `end` takes what is stored, and only this test reads the slot.
            assert!(unsafe { super::set_pool(kept, end) });
            assert_eq!(super::pool(), kept);
        })
        .join()
        .unwrap();
        // ORDER: Relaxed; the join above orders it.
        assert_eq!(ENDED.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn slots_are_apart_and_per_thread() {
        let (a, b) = (1u8, 2u8);
        let (pa, pb) = ((&raw const a).cast::<()>(), (&raw const b).cast::<()>());
        // SAFETY: only this test reads the slots of this thread.
        let before = unsafe { (super::set_worker(pa), super::set_ambient(pb)) };
        assert!(before.0.is_null() && before.1.is_null());
        assert_eq!((super::worker(), super::ambient()), (pa, pb));
        let elsewhere =
            std::thread::spawn(|| super::worker().is_null() && super::ambient().is_null());
        assert!(elsewhere.join().unwrap());
        // SAFETY: as above.
        let after = unsafe {
            (
                super::set_worker(std::ptr::null()),
                super::set_ambient(std::ptr::null()),
            )
        };
        assert_eq!(after, (pa, pb));
    }
}
