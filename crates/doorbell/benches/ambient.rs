//! The cost of hiding the machine from public names: finding the current runtime, and the indirect call
//! through its object-safe trait, beside the same call on the type itself.
//!
//! `cargo bench -p doorbell --bench ambient` runs interleaved rounds and prints median and spread.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a program of its own"
)]

use doorbell::{Builder, Handle, current_core};
use doorbell_core::switches::{SwitchWord, Switches};
use doorbell_core::worker::{IdlePolicy, WorkerConfig, WorkerShared};
use doorbell_machine::Host;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 15;
const REPEATS: u32 = 1_000_000;

/// Nanoseconds per repetition.
fn time<T>(mut step: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..REPEATS {
        black_box(step());
    }
    start.elapsed().as_nanos() as f64 / f64::from(REPEATS)
}

fn main() {
    let runtime = Builder::new()
        .cores(1)
        .build()
        .expect("one core is always there");
    let direct = WorkerShared::<Host>::new(
        WorkerConfig {
            idle: IdlePolicy::Park,
        },
        &Arc::new(SwitchWord::new(Switches::default())),
    );
    let handle: Handle = runtime.handle().clone();
    let names = [
        "loop alone",
        "current_core()",
        "direct call",
        "through the trait",
    ];
    let task = runtime.spawn(async move {
        let mut rounds = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            rounds[0].push(time(|| ()));
            rounds[1].push(time(current_core));
            rounds[2].push(time(|| black_box(&direct).state()));
            // Two indirect calls: one checks that the core exists, one reads its worker's state.
            rounds[3].push(time(|| black_box(&handle).worker_state(0)) / 2.0);
        }
        rounds
    });
    let mut rounds = runtime.block_on(task).expect("the measuring task ends");
    println!(
        "{:<18}  {:>6}  {:>6}  {:>6}",
        "ns each", "median", "min", "max"
    );
    for (name, round) in names.iter().zip(&mut rounds) {
        round.sort_by(f64::total_cmp);
        let (min, max) = (round[0], round[ROUNDS - 1]);
        println!(
            "{name:<18}  {:>6.2}  {min:>6.2}  {max:>6.2}",
            round[ROUNDS / 2]
        );
    }
}
