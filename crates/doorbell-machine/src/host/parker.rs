//! Parking on a futex. The futex is the bell word itself, so the kernel's test of the word is the last test
//! before the sleep. A thread with descriptors parks in its poller instead.

use super::{Host, HostPoller};
use crate::{ParkEnd, ParkIn, Parker, Poller, PollerError};
use std::io;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A futex needs no memory here, because it is the bell word. A poller is added once the thread has
/// descriptors.
#[derive(Debug)]
pub struct HostParker {
    /// From a box, and never replaced; null until it is opened. It is no `OnceLock`, because in one of those
    /// a thread may have to wait for a thread that it has preempted.
    poller: AtomicPtr<HostPoller>,
    /// Whether the thread parks in the poller.
    polls: AtomicU32,
}

impl HostParker {
    /// A parker without a poller, in which no thread parks.
    #[must_use]
    pub const fn new() -> Self {
        HostParker {
            poller: AtomicPtr::new(null_mut()),
            polls: AtomicU32::new(0),
        }
    }
}

impl Default for HostParker {
    fn default() -> Self {
        HostParker::new()
    }
}

impl Drop for HostParker {
    fn drop(&mut self) {
        let poller = *self.poller.get_mut();
        if !poller.is_null() {
            // SAFETY: from the box that `open_poller` leaked, and the parker is dropped.
            drop(unsafe { Box::from_raw(poller) });
        }
    }
}

impl Parker<Host> for HostParker {
    fn new() -> Self {
        HostParker::new()
    }

    fn poller(&self) -> Option<&HostPoller> {
        // ORDER: Acquire pairs with the Release of `open_poller`: the poller's contents.
        let poller = self.poller.load(Ordering::Acquire);
        // SAFETY: null, or leaked for the life of the parker.
        unsafe { poller.as_ref() }
    }

    fn open_poller(&self) -> Result<&HostPoller, PollerError> {
        if let Some(poller) = self.poller() {
            return Ok(poller);
        }
        let mine = Box::into_raw(Box::new(HostPoller::open()?));
        // ORDER: Release pairs with the Acquire of `poller`. Acquire on failure pairs with the Release of the
        // thread that was faster.
        let placed =
            self.poller
                .compare_exchange(null_mut(), mine, Ordering::Release, Ordering::Acquire);
        match placed {
            // SAFETY: leaked above, for the life of the parker.
            Ok(_) => Ok(unsafe { &*mine }),
            Err(theirs) => {
                // SAFETY: leaked above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(mine) });
                // SAFETY: as in `poller`; it is not null.
                Ok(unsafe { &*theirs })
            }
        }
    }

    fn choose(&self, form: ParkIn) {
        // ORDER: Relaxed; the owner's announcement, a read-modify-write with Release, publishes it.
        self.polls
            .store(u32::from(form == ParkIn::Poller), Ordering::Relaxed);
    }

    fn chosen(&self) -> ParkIn {
        // ORDER: Relaxed; a notifier that must ring has acquired the announcement after the store in
        // `choose`, by the read-modify-write that told it to ring.
        if self.polls.load(Ordering::Relaxed) == 0 {
            ParkIn::Word
        } else {
            ParkIn::Poller
        }
    }

    fn park(&self, word: &AtomicU32, seen: u32, until_ns: Option<u64>) -> ParkEnd {
        // FUTEX_WAIT_BITSET takes an absolute deadline on CLOCK_MONOTONIC.
        let deadline = until_ns.map(timespec);
        // SAFETY: the kernel reads the word and the deadline, which outlive the call.
        let ended = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
                seen,
                deadline.as_ref().map_or(null(), std::ptr::from_ref),
                null::<u32>(),
                libc::FUTEX_BITSET_MATCH_ANY,
            )
        };
        if ended == 0 {
            return ParkEnd::Rung;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN) => ParkEnd::Changed,
            Some(libc::ETIMEDOUT) => ParkEnd::Deadline,
            // EINTR. After any other error too, the caller looks at the word again.
            _ => ParkEnd::Spurious,
        }
    }

    fn ring(&self, word: &AtomicU32) {
        if self.chosen() == ParkIn::Poller
            && let Some(poller) = self.poller()
        {
            return poller.ring();
        }
        // An error would mean that the word is not mapped; then no thread is parked on it.
        // SAFETY: FUTEX_WAKE only uses the word's address.
        let _ = unsafe {
            let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1)
        };
    }
}

/// Saturates at the latest deadline that the kernel can wait for, about 292 years.
fn timespec(ns: u64) -> libc::timespec {
    let ns = ns.min(i64::MAX as u64);
    libc::timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}
