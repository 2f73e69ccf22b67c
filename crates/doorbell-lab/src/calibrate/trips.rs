//! Round trips between two threads, over one word.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::calls::{wait, wake};
use super::stand::Stand;
use crate::error::LabError;
use crate::measure::{Pin, median, spawn_pinned};
use crate::peers::join;

/// The value that ends the partner.
const STOP: u32 = u32::MAX;

/// A word on two cache lines of its own, since CPUs fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Apart<T>(pub(super) T);

/// The size of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trips {
    /// Round trips before the clock is read again.
    pub(super) per_chunk: u32,
    /// The number of chunks. The median over them ignores disturbed ones.
    pub(super) chunks: u32,
}

/// A word to the CPU `there` and back. Each side sleeps on a futex until its turn, or spins.
///
/// # Errors
/// [`LabError::System`] if a thread cannot be started or pinned.
pub(super) fn round_trip_ns<const SLEEPS: bool>(
    stand: &Stand,
    there: usize,
    trips: Trips,
) -> Result<f64, LabError> {
    let word = Arc::new(Apart(AtomicU32::new(0)));
    let shared = Arc::clone(&word);
    let thread = spawn_pinned("trip-partner", there, move || answer::<SLEEPS>(&shared.0))?;
    let here = Pin::to(stand.here);
    let mut chunks = Vec::with_capacity(trips.chunks as usize);
    if here.is_ok() {
        let mut asked = 1;
        for _ in 0..trips.chunks {
            let start = stand.clock.now();
            for _ in 0..trips.per_chunk {
                write::<SLEEPS>(&word.0, asked);
                await_other::<SLEEPS>(&word.0, asked);
                asked += 2;
            }
            let end = stand.clock.now();
            let taken_ns = stand.clock.ns_between(start, end) as f64;
            chunks.push(taken_ns / f64::from(trips.per_chunk));
        }
    }
    write::<SLEEPS>(&word.0, STOP);
    let ended = join(thread, "trip-partner");
    here?;
    ended?;
    Ok(median(&chunks).unwrap_or_default())
}

/// Answers each odd number with the next even one.
fn answer<const SLEEPS: bool>(word: &AtomicU32) {
    let mut seen = 0;
    loop {
        let asked = await_other::<SLEEPS>(word, seen);
        if asked == STOP {
            return;
        }
        seen = asked + 1;
        write::<SLEEPS>(word, seen);
    }
}

fn write<const SLEEPS: bool>(word: &AtomicU32, value: u32) {
    // ORDER: relaxed; the value publishes nothing else, and the kernel looks for sleepers behind its own
    // fence.
    word.store(value, Ordering::Relaxed);
    if SLEEPS {
        wake(word);
    }
}

/// Waits for a value other than `seen`.
fn await_other<const SLEEPS: bool>(word: &AtomicU32, seen: u32) -> u32 {
    loop {
        // ORDER: as in `write`.
        let found = word.load(Ordering::Relaxed);
        if found != seen {
            return found;
        }
        if SLEEPS {
            wait(word, seen);
        } else {
            hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_come_back() {
        let stand = Stand::of_this_host().expect("there is a CPU");
        let trips = Trips {
            per_chunk: 2,
            chunks: 3,
        };
        let slept = round_trip_ns::<true>(&stand, stand.here, trips);
        assert!(slept.expect("it can be started") > 0.0);
        // On one CPU each of two spinning threads would wait for the end of the other's slice.
        if let Some(there) = stand.other() {
            let spun = round_trip_ns::<false>(&stand, there, trips);
            assert!(spun.expect("it can be started") > 0.0);
        }
    }
}
