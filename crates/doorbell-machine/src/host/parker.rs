//! Parking on a futex. The futex is the bell word itself, so the kernel's test of the word is the last test
//! before the sleep.

use super::Host;
use crate::{ParkEnd, Parker};
use std::io;
use std::ptr::null;
use std::sync::atomic::AtomicU32;

/// A futex needs no memory here, because it is the word.
#[derive(Debug, Default)]
pub struct HostParker;

impl HostParker {
    /// A parker in which no thread parks.
    #[must_use]
    pub const fn new() -> Self {
        HostParker
    }
}

impl Parker<Host> for HostParker {
    fn new() -> Self {
        HostParker
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
