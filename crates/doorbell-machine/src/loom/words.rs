//! The atomics and cells of a model: loom's types, with accesses at the beginning and at the end.
//!
//! Memory may be freed only if every access to it happens before that. A thread may use memory only if its
//! beginning happens before that. Loom itself checks neither. Here the drop of a word is a mutable access,
//! which loom reports unless all other accesses are ordered before it. So a model shows that the orderings
//! are needed that make freeing safe, such as those of a reference count.

use super::weaken::{Which, ordering};
use crate::{Cell, Ordering, PtrWord, Word};
use ::loom::cell::UnsafeCell;
use ::loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// An access of this thread that no other thread sees.
///
/// Loom counts a thread's steps only at its accesses. Without a step of their own, the beginning and the end
/// of a word would belong to the access before them, and be ordered with it.
fn step() {
    UnsafeCell::new(()).with(|_| ());
}

std::thread_local! {
    /// Whether the end of what is made now is an access. All threads of a model run on one OS thread.
    static HAS_END: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

/// Makes a value whose end is no access, because loom could not order it.
pub(super) fn without_end<T>(make: impl FnOnce() -> T) -> T {
    let before = HAS_END.replace(false);
    let made = make();
    HAS_END.set(before);
    made
}

/// Begins a word. Returns whether its end is an access.
fn begin() -> bool {
    step();
    HAS_END.get()
}

/// Ends a word. Nothing is checked while a thread unwinds: the model has failed already.
fn end(has_end: bool, access: impl FnOnce()) {
    if has_end && !std::thread::panicking() {
        step();
        access();
    }
}

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $atomic:ty, $value:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name($atomic, bool);

        impl Drop for $name {
            fn drop(&mut self) {
                end(self.1, || self.0.with_mut(|_| ()));
            }
        }

        impl Word<$value> for $name {
            fn new(value: $value) -> Self {
                let has_end = begin();
                $name(<$atomic>::new(value), has_end)
            }
            #[track_caller]
            fn load(&self, order: Ordering) -> $value {
                self.0.load(ordering(order, Which::First))
            }
            #[track_caller]
            fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, ordering(order, Which::First));
            }
            #[track_caller]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, ordering(order, Which::First))
            }
            #[track_caller]
            fn fetch_or(&self, bits: $value, order: Ordering) -> $value {
                self.0.fetch_or(bits, ordering(order, Which::First))
            }
            #[track_caller]
            fn fetch_and(&self, bits: $value, order: Ordering) -> $value {
                self.0.fetch_and(bits, ordering(order, Which::First))
            }
            #[track_caller]
            fn fetch_xor(&self, bits: $value, order: Ordering) -> $value {
                self.0.fetch_xor(bits, ordering(order, Which::First))
            }
            #[track_caller]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value, ordering(order, Which::First))
            }
            #[track_caller]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_sub(value, ordering(order, Which::First))
            }
            #[track_caller]
            fn compare_exchange(
                &self,
                seen: $value,
                new: $value,
                ok: Ordering,
                fail: Ordering,
            ) -> Result<$value, $value> {
                let ok = ordering(ok, Which::First);
                let fail = ordering(fail, Which::Second);
                self.0.compare_exchange(seen, new, ok, fail)
            }
        }
    };
}

word!(
    /// An atomic of 32 bits.
    LoomU32,
    AtomicU32,
    u32
);
word!(
    /// An atomic of 64 bits.
    LoomU64,
    AtomicU64,
    u64
);

/// An atomic pointer.
#[derive(Debug)]
pub struct LoomPtr<T>(AtomicPtr<T>, bool);

impl<T> Drop for LoomPtr<T> {
    fn drop(&mut self) {
        end(self.1, || self.0.with_mut(|_| ()));
    }
}

impl<T> PtrWord<T> for LoomPtr<T> {
    fn new(ptr: *mut T) -> Self {
        let has_end = begin();
        LoomPtr(AtomicPtr::new(ptr), has_end)
    }
    #[track_caller]
    fn load(&self, order: Ordering) -> *mut T {
        self.0.load(ordering(order, Which::First))
    }
    #[track_caller]
    fn store(&self, ptr: *mut T, order: Ordering) {
        self.0.store(ptr, ordering(order, Which::First));
    }
    #[track_caller]
    fn swap(&self, ptr: *mut T, order: Ordering) -> *mut T {
        self.0.swap(ptr, ordering(order, Which::First))
    }
    #[track_caller]
    fn compare_exchange_weak(
        &self,
        seen: *mut T,
        new: *mut T,
        ok: Ordering,
        fail: Ordering,
    ) -> Result<*mut T, *mut T> {
        let ok = ordering(ok, Which::First);
        let fail = ordering(fail, Which::Second);
        self.0.compare_exchange(seen, new, ok, fail)
    }
}

/// Loom's `UnsafeCell`, which reports accesses that race.
pub struct LoomCell<T>(UnsafeCell<T>, bool);

impl<T> std::fmt::Debug for LoomCell<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LoomCell")
    }
}

impl<T> Drop for LoomCell<T> {
    fn drop(&mut self) {
        end(self.1, || self.0.with_mut(|_| ()));
    }
}

impl<T> Cell<T> for LoomCell<T> {
    fn new(value: T) -> Self {
        let has_end = begin();
        LoomCell(UnsafeCell::new(value), has_end)
    }
    fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        self.0.with(f)
    }
    fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::loom::thread;

    /// Shared by two threads until the count is 0. The last thread frees it, so neither holds a `Box`.
    struct Shared {
        word: LoomU32,
        pointer: LoomPtr<()>,
        cell: LoomCell<u32>,
        count: LoomU64,
    }

    impl Shared {
        fn new() -> Self {
            Shared {
                word: Word::new(0),
                pointer: PtrWord::new(std::ptr::null_mut()),
                cell: Cell::new(0),
                count: Word::new(2),
            }
        }
    }

    /// Two threads use a `Shared` by `access` and leave it with this ordering. The last one frees it.
    fn two_leave(order: Ordering, access: fn(&Shared)) {
        two_leave_what(Shared::new, order, access);
    }

    fn two_leave_what(make: fn() -> Shared, order: Ordering, access: fn(&Shared)) {
        ::loom::model(move || {
            let shared = Box::leak(Box::new(make()));
            let address = std::ptr::from_mut(shared).expose_provenance();
            let leave = move || {
                let shared = std::ptr::with_exposed_provenance_mut::<Shared>(address);
                // SAFETY: this thread still counts, so it is not freed.
                access(unsafe { &*shared });
                // SAFETY: as above.
                if unsafe { &*shared }.count.fetch_sub(1, order) == 1 {
                    // SAFETY: it came from a box, and the other thread is done with it.
                    drop(unsafe { Box::from_raw(shared) });
                }
            };
            let other = thread::spawn(leave);
            leave();
            other.join().expect("no panic");
        });
    }

    #[test]
    fn the_end_of_what_others_have_left_is_ordered() {
        two_leave(Ordering::AcqRel, |shared| {
            let _ = shared.word.load(Ordering::Relaxed);
            let _ = PtrWord::load(&shared.pointer, Ordering::Relaxed);
            shared.cell.with(|_| ());
        });
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_end_of_a_word_races_with_a_load() {
        two_leave(Ordering::Release, |shared| {
            let _ = shared.word.load(Ordering::Relaxed);
        });
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_end_of_a_pointer_races_with_a_store() {
        two_leave(Ordering::Acquire, |shared| {
            shared
                .pointer
                .store(std::ptr::null_mut(), Ordering::Relaxed);
        });
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_end_of_a_cell_races_with_a_look() {
        two_leave(Ordering::Relaxed, |shared| shared.cell.with(|_| ()));
    }

    #[test]
    fn what_std_counts_has_no_end() {
        let make = || without_end(Shared::new);
        two_leave_what(make, Ordering::Relaxed, |shared| {
            let _ = shared.word.load(Ordering::Relaxed);
            shared.cell.with(|_| ());
        });
        assert!(HAS_END.get(), "only what is made meanwhile");
    }

    /// A thread finds a word that was made after the thread began.
    fn one_is_found(publish: Ordering) {
        ::loom::model(move || {
            let found = ::loom::sync::Arc::new(LoomPtr::<LoomU32>::new(std::ptr::null_mut()));
            let theirs = ::loom::sync::Arc::clone(&found);
            let reader = thread::spawn(move || {
                let word = PtrWord::load(&*theirs, Ordering::Acquire);
                if !word.is_null() {
                    // SAFETY: the thread that stored it frees it after this thread has ended.
                    let _ = unsafe { &*word }.load(Ordering::Relaxed);
                }
            });
            let word = Box::into_raw(Box::new(LoomU32::new(0)));
            found.store(word, publish);
            reader.join().expect("no panic");
            // SAFETY: it came from a box, and the reader has ended.
            drop(unsafe { Box::from_raw(word) });
        });
    }

    #[test]
    fn the_beginning_of_a_word_that_is_published_is_ordered() {
        one_is_found(Ordering::Release);
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_beginning_of_a_word_races_with_who_finds_it_too_early() {
        one_is_found(Ordering::Relaxed);
    }
}
