//! Parking on a futex. The word parked on is the bell itself, so the kernel's own test of the
//! word is the last test before the sleep.

use super::Host;
use crate::{ParkEnd, Seat};
use rustix::io::Errno;
use rustix::thread::futex;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;

/// A futex needs no place of its own: its address is the word.
#[derive(Debug)]
pub struct FutexSeat;

impl Seat<Host> for FutexSeat {
    fn new() -> Self {
        FutexSeat
    }

    fn park(&self, word: &AtomicU32, seen: u32, until_ns: Option<u64>) -> ParkEnd {
        // FUTEX_WAIT_BITSET takes an absolute deadline on CLOCK_MONOTONIC.
        let deadline = until_ns.map(timespec);
        let ended = futex::wait_bitset(
            word,
            futex::Flags::PRIVATE,
            seen,
            deadline.as_ref(),
            NonZeroU32::MAX,
        );
        match ended {
            Ok(()) => ParkEnd::Rung,
            Err(Errno::AGAIN) => ParkEnd::Changed,
            Err(Errno::TIMEDOUT) => ParkEnd::Deadline,
            // EINTR; and whatever else a kernel may say, the caller looks at the word again.
            Err(_) => ParkEnd::Spurious,
        }
    }

    fn ring(&self, word: &AtomicU32) {
        // An error would mean that the word is not mapped; nobody is parked on it then.
        #[cfg(not(miri))]
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
        // The same call. rustix makes a pointer of an integer on its way, at which Miri with
        // strict provenance ends.
        #[cfg(miri)]
        // SAFETY: FUTEX_WAKE only uses the word's address.
        let _ = unsafe {
            let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1)
        };
    }
}

/// Saturates at the largest deadline the kernel can wait for, some 292 years.
fn timespec(ns: u64) -> rustix::fs::Timespec {
    let ns = ns.min(i64::MAX as u64);
    rustix::fs::Timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}
