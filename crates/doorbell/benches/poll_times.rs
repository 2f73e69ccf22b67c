//! The cost of `Builder::poll_times`: the same tasks in a runtime without it, in one with it, and in one
//! that counts every poll as long.
//!
//! `cargo bench -p doorbell --bench poll_times` runs interleaved rounds and prints median and spread.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a program of its own"
)]

use doorbell::{Builder, Runtime, yield_now};
use std::time::{Duration, Instant};

const ROUNDS: usize = 25;
const YIELDS: u32 = 200_000;
const SPAWNS: u32 = 50_000;

/// Nanoseconds per operation, on an otherwise idle worker.
struct Times {
    yields: Vec<f64>,
    spawns: Vec<f64>,
}

fn ns_each(start: Instant, count: u32) -> f64 {
    start.elapsed().as_nanos() as f64 / f64::from(count)
}

async fn yields() -> f64 {
    let start = Instant::now();
    for _ in 0..YIELDS {
        yield_now().await;
    }
    ns_each(start, YIELDS)
}

async fn spawns() -> f64 {
    let start = Instant::now();
    for _ in 0..SPAWNS {
        doorbell::spawn(async {}).await.expect("it ends");
    }
    ns_each(start, SPAWNS)
}

fn runtime(poll_times: bool, long_poll: Duration) -> Runtime {
    let builder = Builder::new().cores(1).poll_times(poll_times);
    let built = builder.long_poll(long_poll).build();
    built.expect("one core is always there")
}

fn show(name: &str, what: &str, rounds: &mut [f64], off: f64) -> f64 {
    rounds.sort_by(f64::total_cmp);
    let median = rounds[rounds.len() / 2];
    let (min, max) = (rounds[0], rounds[rounds.len() - 1]);
    println!(
        "{name:<24}  {what:<12}  {median:>7.1}  {min:>7.1}  {max:>7.1}  {:>+6.1}",
        median - off
    );
    median
}

fn main() {
    let contestants = [
        ("off", runtime(false, Duration::MAX)),
        ("poll_times", runtime(true, Duration::MAX)),
        ("every poll is long", runtime(true, Duration::ZERO)),
    ];
    let mut times = contestants.each_ref().map(|_| Times {
        yields: Vec::new(),
        spawns: Vec::new(),
    });
    for round in 0..ROUNDS {
        for step in 0..contestants.len() {
            // Each contestant is first equally often.
            let at = (round + step) % contestants.len();
            let rt = &contestants[at].1;
            let measured = rt.block_on(rt.spawn(async { (yields().await, spawns().await) }));
            let (yields, spawns) = measured.expect("the measuring task ends");
            times[at].yields.push(yields);
            times[at].spawns.push(spawns);
        }
    }
    println!(
        "{:<24}  {:<12}  {:>7}  {:>7}  {:>7}  {:>6}",
        "ns each", "of", "median", "min", "max", "more"
    );
    let mut off: Option<(f64, f64)> = None;
    for ((name, _), times) in contestants.iter().zip(&mut times) {
        let (base_yield, base_spawn) = off.unwrap_or_default();
        let yields = show(name, "yield", &mut times.yields, base_yield);
        let spawns = show(name, "spawn, join", &mut times.spawns, base_spawn);
        off.get_or_insert((yields, spawns));
    }
}
