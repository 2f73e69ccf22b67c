//! The report of a run.

use std::fmt::Write as _;
use std::time::Duration;

use super::op::Op;
use super::round::Done;

/// The sums of all rounds.
#[derive(Clone, Debug)]
pub(super) struct Report {
    seed: u64,
    pub(super) rounds: u64,
    pub(super) took: Duration,
    done: Done,
    failed_seed: Option<u64>,
    failures: Vec<String>,
}

impl Report {
    /// Of a run whose first round has this seed.
    pub(super) fn new(seed: u64) -> Self {
        Report {
            seed,
            rounds: 0,
            took: Duration::ZERO,
            done: Done::default(),
            failed_seed: None,
            failures: Vec::new(),
        }
    }

    /// Adds a round.
    pub(super) fn add(&mut self, seed: u64, done: &Done, failures: Vec<String>) {
        self.rounds += 1;
        let sum = &mut self.done;
        for (sum, count) in sum.operations.iter_mut().zip(done.operations) {
            *sum += count;
        }
        sum.closures += done.closures;
        sum.runtimes += done.runtimes;
        sum.turns += done.turns;
        sum.rings += done.rings;
        sum.parks += done.parks;
        if !failures.is_empty() {
            self.failed_seed = Some(seed);
            self.failures.extend(failures);
        }
    }

    /// Whether a round failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed_seed.is_some()
    }

    /// How often each operation was done.
    pub(super) fn operations(&self) -> Vec<(&'static str, u64)> {
        let named = Op::ALL.iter().zip(self.done.operations);
        named.map(|(op, count)| (op.name(), count)).collect()
    }

    /// A table, and what was found.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{:<38} {:>10}\n", "operation", "times");
        // Writing to a string does not fail.
        for (name, count) in self.operations() {
            let _ = writeln!(text, "{name:<38} {count:>10}");
        }
        let (done, seconds) = (&self.done, self.took.as_secs_f64());
        let all: u64 = done.operations.iter().sum();
        let _ = writeln!(
            text,
            "{:<38} {all:>10}\n\n\
             seed {}, {} rounds in {seconds:.1} s: {} closures, {} runtimes, cores turned {} times, \
             {} rings of {} parks",
            "all",
            self.seed,
            self.rounds,
            done.closures,
            done.runtimes,
            done.turns,
            done.rings,
            done.parks,
        );
        let Some(seed) = self.failed_seed else {
            return text + "every closure ran on its core, once; every count adds up\n";
        };
        let _ = writeln!(
            text,
            "FAILED in the round of seed {seed}:\n{}",
            self.failures.join("\n")
        );
        let _ = writeln!(text, "`--seed {seed} --seconds 1` begins with that round");
        text
    }
}
