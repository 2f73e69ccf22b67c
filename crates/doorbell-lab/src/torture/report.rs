//! The report of a torture run.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::op::Op;
use super::round::Done;
use crate::error::LabError;

/// A run: what was done, and what failed.
#[derive(Clone, Debug)]
pub struct TortureReport {
    seed: u64,
    rounds: u64,
    took: Duration,
    done: Done,
    failed_seed: Option<u64>,
    failures: Vec<String>,
}

#[derive(Serialize)]
struct Json<'a> {
    program: &'a str,
    seed: u64,
    rounds: u64,
    seconds: f64,
    operations: Vec<JsonOperation>,
    operations_count: u64,
    closures_count: u64,
    runtimes_count: u64,
    core_turns_count: u64,
    rings_count: u64,
    parks_count: u64,
    failed_seed: Option<u64>,
    failures: &'a [String],
}

#[derive(Serialize)]
struct JsonOperation {
    operation: &'static str,
    count: u64,
}

impl TortureReport {
    pub(super) fn new(seed: u64) -> Self {
        TortureReport {
            seed,
            rounds: 0,
            took: Duration::ZERO,
            done: Done::default(),
            failed_seed: None,
            failures: Vec::new(),
        }
    }

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

    pub(super) fn took(&mut self, time: Duration) {
        self.took = time;
    }

    /// The number of rounds.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Whether anything failed.
    pub fn has_failed(&self) -> bool {
        self.failed_seed.is_some()
    }

    /// The failures, with the seed that repeats the round.
    ///
    /// # Errors
    /// [`LabError::Torture`].
    pub fn check(&self) -> Result<(), LabError> {
        match self.failed_seed {
            Some(seed) => Err(LabError::Torture {
                seed,
                failures: self.failures.clone(),
            }),
            None => Ok(()),
        }
    }

    /// How often each operation was done, in the order of the table.
    pub fn operations(&self) -> Vec<(&'static str, u64)> {
        let named = Op::ALL.iter().zip(self.done.operations);
        named.map(|(op, count)| (op.name(), count)).collect()
    }

    /// A table for people.
    pub fn to_table(&self) -> String {
        let mut text = format!("{:<38} {:>10}\n", "operation", "times");
        // Writing to a string does not fail.
        for (name, count) in self.operations() {
            let _ = writeln!(text, "{name:<38} {count:>10}");
        }
        let done = &self.done;
        let all: u64 = done.operations.iter().sum();
        let _ = writeln!(
            text,
            "{:<38} {all:>10}\n\n\
             seed {}, {} rounds in {:.1} s: {} closures, {} runtimes, cores turned {} times, \
             {} rings of {} parks",
            "all",
            self.seed,
            self.rounds,
            self.took.as_secs_f64(),
            done.closures,
            done.runtimes,
            done.turns,
            done.rings,
            done.parks,
        );
        match self.failed_seed {
            None => text.push_str("every closure ran on its core, once; every count adds up\n"),
            Some(seed) => {
                let _ = writeln!(text, "FAILED in the round of seed {seed}");
            }
        }
        text
    }

    /// One JSON object.
    ///
    /// # Errors
    /// [`LabError::Json`] if a figure has no JSON form.
    pub fn to_json(&self) -> Result<String, LabError> {
        let operations = self.operations().into_iter();
        let json = Json {
            program: "torture",
            seed: self.seed,
            rounds: self.rounds,
            seconds: self.took.as_secs_f64(),
            operations: operations
                .map(|(operation, count)| JsonOperation { operation, count })
                .collect(),
            operations_count: self.done.operations.iter().sum(),
            closures_count: self.done.closures,
            runtimes_count: self.done.runtimes,
            core_turns_count: self.done.turns,
            rings_count: self.done.rings,
            parks_count: self.done.parks,
            failed_seed: self.failed_seed,
            failures: &self.failures,
        };
        Ok(serde_json::to_string_pretty(&json)? + "\n")
    }
}
