//! std atomics as implementations of the traits, without overhead.

use crate::{Cell, Counter, Line, Ordering, PtrWord, Word};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for $atomic {
            #[inline(always)]
            fn new(value: $value) -> Self {
                <$atomic>::new(value)
            }
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                <$atomic>::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                <$atomic>::store(self, value, order);
            }
            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::swap(self, value, order)
            }
            #[inline(always)]
            fn fetch_or(&self, bits: $value, order: Ordering) -> $value {
                <$atomic>::fetch_or(self, bits, order)
            }
            #[inline(always)]
            fn fetch_and(&self, bits: $value, order: Ordering) -> $value {
                <$atomic>::fetch_and(self, bits, order)
            }
            #[inline(always)]
            fn fetch_xor(&self, bits: $value, order: Ordering) -> $value {
                <$atomic>::fetch_xor(self, bits, order)
            }
            #[inline(always)]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_add(self, value, order)
            }
            #[inline(always)]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_sub(self, value, order)
            }
            #[inline(always)]
            fn compare_exchange(
                &self,
                seen: $value,
                new: $value,
                ok: Ordering,
                fail: Ordering,
            ) -> Result<$value, $value> {
                <$atomic>::compare_exchange(self, seen, new, ok, fail)
            }
        }
    };
}

word!(AtomicU32, u32);
word!(AtomicU64, u64);

impl<T> PtrWord<T> for AtomicPtr<T> {
    #[inline(always)]
    fn new(ptr: *mut T) -> Self {
        AtomicPtr::new(ptr)
    }
    #[inline(always)]
    fn load(&self, order: Ordering) -> *mut T {
        AtomicPtr::load(self, order)
    }
    #[inline(always)]
    fn store(&self, ptr: *mut T, order: Ordering) {
        AtomicPtr::store(self, ptr, order);
    }
    #[inline(always)]
    fn swap(&self, ptr: *mut T, order: Ordering) -> *mut T {
        AtomicPtr::swap(self, ptr, order)
    }
    #[inline(always)]
    fn compare_exchange_weak(
        &self,
        seen: *mut T,
        new: *mut T,
        ok: Ordering,
        fail: Ordering,
    ) -> Result<*mut T, *mut T> {
        AtomicPtr::compare_exchange_weak(self, seen, new, ok, fail)
    }
}

/// An `UnsafeCell` as an implementation of the trait.
#[repr(transparent)]
pub struct HostCell<T>(UnsafeCell<T>);

impl<T> std::fmt::Debug for HostCell<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostCell")
    }
}

impl<T> Cell<T> for HostCell<T> {
    #[inline(always)]
    fn new(value: T) -> Self {
        HostCell(UnsafeCell::new(value))
    }
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }
    #[inline(always)]
    fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// A value in cache lines of its own. It is aligned to 128 bytes, because current x86 processors fetch
/// neighbouring 64-byte lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub struct CacheLine<T>(T);

impl<T> std::ops::Deref for CacheLine<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Line<T> for CacheLine<T> {
    #[inline]
    fn new(make: impl FnOnce() -> T) -> Self {
        CacheLine(make())
    }
}

/// A 64-bit number with Relaxed accesses.
#[derive(Debug, Default)]
pub struct HostCounter(AtomicU64);

impl Counter for HostCounter {
    #[inline(always)]
    fn get(&self) -> u64 {
        // ORDER: Relaxed; a counter publishes nothing.
        self.0.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn set(&self, value: u64) {
        // ORDER: Relaxed; a counter publishes nothing.
        self.0.store(value, Ordering::Relaxed);
    }
    #[inline(always)]
    fn add_shared(&self, n: u64) -> u64 {
        // ORDER: Relaxed; a counter publishes nothing.
        self.0.fetch_add(n, Ordering::Relaxed)
    }
}
