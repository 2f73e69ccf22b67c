//! The time of a computation on a CPU whose SMT sibling is idle, and on one whose sibling computes.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::stand::{Distance, Stand};
use crate::error::LabError;
use crate::measure::{Pin, median, spawn_pinned};
use crate::peers::join;

/// Rounds of the computation between two readings of the clock: about ten microseconds.
const TURNS: u32 = 8_192;
/// The number of chunks; their median counts.
const CHUNKS: u32 = 101;

/// Four independent sums, as in code that keeps a core busy by itself.
fn compute(turns: u32) -> u64 {
    let mut sums = [1_u64, 2, 3, 4];
    for turn in 0..turns {
        for sum in &mut sums {
            *sum = sum.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(turn);
        }
    }
    hint::black_box(sums).into_iter().fold(0, u64::wrapping_add)
}

/// One chunk of the computation on this CPU.
///
/// # Errors
/// [`LabError::System`] if the thread cannot be pinned.
pub(super) fn alone_ns(stand: &Stand) -> Result<f64, LabError> {
    let _here = Pin::to(stand.here)?;
    let mut chunks = Vec::with_capacity(CHUNKS as usize);
    for _ in 0..CHUNKS {
        let start = stand.clock.now();
        hint::black_box(compute(hint::black_box(TURNS)));
        let end = stand.clock.now();
        chunks.push(stand.clock.ns_between(start, end) as f64);
    }
    Ok(median(&chunks).unwrap_or_default())
}

/// The same while the sibling computes all the time; `None` if there is no sibling.
///
/// # Errors
/// [`LabError::System`] if a thread cannot be started or pinned.
pub(super) fn beside_ns(stand: &Stand) -> Result<Option<f64>, LabError> {
    stand
        .partner(Distance::Sibling)
        .map(|there| while_busy_ns(stand, there))
        .transpose()
}

/// The same while the CPU `there` computes.
fn while_busy_ns(stand: &Stand, there: usize) -> Result<f64, LabError> {
    let stop = Arc::new(AtomicBool::new(false));
    let shared = Arc::clone(&stop);
    let thread = spawn_pinned("work-partner", there, move || {
        // ORDER: relaxed; a request to end, which publishes nothing else.
        while !shared.load(Ordering::Relaxed) {
            hint::black_box(compute(hint::black_box(TURNS)));
        }
    })?;
    let taken_ns = alone_ns(stand);
    // ORDER: as above.
    stop.store(true, Ordering::Relaxed);
    join(thread, "work-partner")?;
    taken_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_machine::{Host, Machine as _};

    #[test]
    fn a_computation_takes_time_also_beside_another() {
        let stand = Stand::of_this_host().expect("there is a CPU");
        assert!(alone_ns(&stand).expect("it can be pinned") > 0.0);
        // Any other CPU serves to check that the partner starts and ends.
        let there = Host::topology()
            .cpus
            .last()
            .map_or(stand.here, |cpu| cpu.os_id);
        assert!(while_busy_ns(&stand, there).expect("it can be started") > 0.0);
    }
}
