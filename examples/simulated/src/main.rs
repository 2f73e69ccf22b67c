//! The figures of `docs/guide/simulation.md`: which seed finds each planted fault, and how long whole programs take. With
//! the name or the file of a profile instead, what operations cost on this computer and on that machine.
//!
//! `cargo run --release -p doorbell-simulated`, and `… -- host.toml`

use doorbell::sim::{self, Config, Failed, Report};
use doorbell_simulated::{Planted, day, many_parts, page};
use std::time::{Duration, Instant};

/// Requests of a day on which a fault is looked for.
const REQUESTS: u64 = 100;

fn main() {
    if let Some(profile) = std::env::args().nth(1) {
        return match page(&profile) {
            Ok(page) => print!("{page}"),
            Err(error) => eprintln!("{error}"),
        };
    }
    println!("| fault | cores | first seed | found after | smallest run |");
    println!("|---|---|---|---|---|");
    let faults = [
        Planted::LostUpdate,
        Planted::TwoOrders,
        Planted::LateWaker,
        Planted::HalfDone,
    ];
    for planted in faults {
        for cores in [1, 2, 8, 64] {
            println!("{}", row(planted, cores));
        }
    }
    let parts = Config::new().cores(64).seeds(0..20);
    whole("many parts, 64 cores, 20 seeds twice", || {
        sim::run(parts, many_parts)
    });
    let days = Config::new().cores(64).seeds(0..100);
    whole(
        "a service of 1,000 requests, 64 cores, 100 seeds twice",
        || sim::run(days, || day(Planted::Nothing, 1_000)),
    );
}

/// A row of the table: the seed that finds a fault on so many cores, and what it is made smaller to.
fn row(planted: Planted, cores: usize) -> String {
    let config = Config::new().cores(cores).seeds(0..200);
    let of_first = config.clone().shrink_within(Duration::ZERO);
    let begun = Instant::now();
    let found = sim::run(of_first, move || day(planted, REQUESTS));
    let after = begun.elapsed();
    let Err(first) = found else {
        return format!("| {planted:?} | {cores} | none of 200 | {after:.2?} | |");
    };
    let from_there = config.seeds(first.seed..first.seed + 1);
    let begun = Instant::now();
    let smallest = sim::run(from_there, move || day(planted, REQUESTS));
    let shrunk_after = begun.elapsed();
    let place = |failed: Failed| format!("{} cores, after {shrunk_after:.2?}", failed.cores);
    let smallest = smallest.err().map(place).unwrap_or_default();
    let seed = first.seed;
    format!("| {planted:?} | {cores} | {seed} | {after:.2?} | {smallest} |")
}

/// Says how long a program took.
fn whole(name: &str, run: impl FnOnce() -> Result<Report, Failed>) {
    let begun = Instant::now();
    match run() {
        Ok(report) => println!("{name}: {:.2?}, {} events", begun.elapsed(), report.events),
        Err(failed) => println!("{name}: {failed}"),
    }
}
