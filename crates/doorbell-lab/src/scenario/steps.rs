//! A fixed amount of work, not of time: when it is interrupted it takes longer.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How many steps are timed at once.
const SAMPLE: u64 = 1_000_000;
/// The number of samples; the fastest counts.
const TRIES: usize = 5;

/// How many steps an otherwise idle core makes in `span`.
pub(super) fn steps_for(span: Duration) -> u64 {
    let took = |_| {
        let start = Instant::now();
        compute(SAMPLE);
        start.elapsed()
    };
    let least = (0..TRIES).map(took).min().unwrap_or(span);
    let share = span.as_secs_f64() / least.as_secs_f64().max(1e-9);
    (share * SAMPLE as f64) as u64 + 1
}

/// Makes this many steps.
pub(super) fn compute(steps: u64) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_span_has_more_steps() {
        let [short, long] = [Duration::from_micros(100), Duration::from_secs(1)].map(steps_for);
        assert!(short > 1 && long > short, "{short}, {long}");
    }
}
