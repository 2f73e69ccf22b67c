//! A flood of requests that are urgent on servers with classes, and what it leaves to other work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::super::steps::compute;
use super::super::trial::Outcome;
use super::acts::{COMPUTING, GREETED, Site};
use super::wrk;
use crate::error::LabError;

/// Threads that compute beside the server, one for each thread that serves.
const PLAIN: usize = 2;
/// A thread counts after each fiftieth of a computation.
const COUNTED: u64 = 50;

/// Measures computations without a flood and beside one, then plain threads of this process beside another
/// flood. Each takes a third of the time, at least a second.
///
/// # Errors
/// Any error of `wrk`.
pub(super) fn run(site: &Site, steps: u64, seconds: u32) -> Result<Outcome, LabError> {
    let seconds = (seconds / 3).max(1);
    let alone = wrk::start(site.address, "/compute", COMPUTING, seconds)?.finish()?;
    let flood = wrk::start(site.address, "/healthz", GREETED, seconds)?;
    let beside = wrk::start(site.address, "/compute", COMPUTING, seconds)?.finish()?;
    let flooded = flood.finish()?;
    let other = wrk::start(site.address, "/healthz", GREETED, seconds)?;
    let (plain_per_s, other) = beside_plain(steps, || other.finish());
    let other = other?;
    let errors = alone.errors + beside.errors + flooded.errors + other.errors;
    let mut figures = BTreeMap::from([
        ("rate_per_s", beside.per_s),
        ("alone_per_s", alone.per_s),
        ("flood_per_s", flooded.per_s),
        ("plain_per_s", plain_per_s),
        ("flood_beside_plain_per_s", other.per_s),
        ("errors_count", errors as f64),
    ]);
    if alone.per_s > 0.0 {
        figures.insert("kept_x", beside.per_s / alone.per_s);
    }
    Ok(Outcome {
        operations: beside.requests,
        figures,
        ..Outcome::default()
    })
}

/// Runs `during` while plain threads compute. Returns how many computations of `steps` they make in a
/// second.
fn beside_plain<R>(steps: u64, during: impl FnOnce() -> R) -> (f64, R) {
    let ends = AtomicBool::new(false);
    let counts = || {
        let mut count = 0_u64;
        // ORDER: Relaxed; a flag that publishes nothing.
        while !ends.load(Ordering::Relaxed) {
            compute(steps / COUNTED);
            count += 1;
        }
        count
    };
    thread::scope(|scope| {
        let began = Instant::now();
        let threads: Vec<_> = (0..PLAIN).map(|_| scope.spawn(counts)).collect();
        let found = during();
        // ORDER: Relaxed; a flag that publishes nothing.
        ends.store(true, Ordering::Relaxed);
        let parts = threads.into_iter().map(|thread| thread.join().unwrap_or(0));
        let parts: u64 = parts.sum();
        let span_s = began.elapsed().as_secs_f64();
        (parts as f64 / COUNTED as f64 / span_s, found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn plain_threads_count_while_the_caller_does_something() {
        let (per_s, found) = beside_plain(COUNTED, || {
            thread::sleep(Duration::from_millis(20));
            7
        });
        assert_eq!(found, 7);
        assert!(per_s > 0.0);
    }
}
