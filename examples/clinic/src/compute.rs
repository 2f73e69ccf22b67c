//! Work for the CPU of a known length.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// So many rounds are timed at once.
const SAMPLE: u64 = 200_000;

/// So many samples are taken. The fastest one counts: whatever disturbs one only makes it slower.
const SAMPLES: usize = 20;

/// Rounds in a second.
static RATE: LazyLock<f64> = LazyLock::new(|| {
    let times = (0..SAMPLES).map(|_| {
        let start = Instant::now();
        black_box(rounds(SAMPLE));
        start.elapsed()
    });
    let fastest = times.min().unwrap_or(Duration::from_millis(1));
    SAMPLE as f64 / fastest.as_secs_f64()
});

/// Finds out how fast this machine computes, which takes some milliseconds.
pub(crate) fn calibrate() {
    LazyLock::force(&RATE);
}

/// Computes for so long, on a CPU of its own; beside others it takes as much longer as it has less of it.
pub(crate) fn compute(time: Duration) -> u64 {
    rounds((*RATE * time.as_secs_f64()) as u64)
}

/// The logistic map in whole numbers, by which the compiler cannot jump ahead.
fn rounds(count: u64) -> u64 {
    (0..count).fold(1, |x: u64, round| {
        black_box(x.wrapping_mul(6_364_136_223_846_793_005) ^ (x >> 29) ^ round)
    })
}
