//! CPU work of a known length.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The number of rounds in one sample.
const SAMPLE: u64 = 200_000;

/// The number of samples. The fastest counts, since disturbances only make a sample slower.
const SAMPLES: usize = 20;

/// Rounds per second.
static RATE: LazyLock<f64> = LazyLock::new(|| {
    let times = (0..SAMPLES).map(|_| {
        let start = Instant::now();
        black_box(rounds(SAMPLE));
        start.elapsed()
    });
    let fastest = times.min().unwrap_or(Duration::from_millis(1));
    SAMPLE as f64 / fastest.as_secs_f64()
});

/// Measures how fast this machine computes; takes some milliseconds.
pub(crate) fn calibrate() {
    LazyLock::force(&RATE);
}

/// Computes for `time` on an otherwise idle CPU, and longer on a shared one.
pub(crate) fn compute(time: Duration) -> u64 {
    rounds((*RATE * time.as_secs_f64()) as u64)
}

/// The logistic map in integers, which the compiler cannot shorten.
fn rounds(count: u64) -> u64 {
    (0..count).fold(1, |x: u64, round| {
        black_box(x.wrapping_mul(6_364_136_223_846_793_005) ^ (x >> 29) ^ round)
    })
}
