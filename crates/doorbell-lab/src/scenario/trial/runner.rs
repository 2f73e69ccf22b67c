//! The rounds: every contestant runs once in each, and the use of resources is recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::common::order;
use super::super::late::percentiles;
use crate::error::LabError;
use crate::measure::{IdleMachine, Interrupts, Samples, SyscallSource, TimeLimit, Usage, timed};
use crate::progress::Progress;

/// The work of a contestant in a pass, in the scenario's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    /// In the measured pass.
    pub(crate) amount: u32,
    /// Before it, not measured.
    pub(crate) warm_up: u32,
    /// In the pass that counts system calls; 0 for none.
    pub(crate) counted: u32,
    /// A pass that takes longer counts as hung.
    pub(crate) pass_max: Duration,
}

/// The result of a pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The number of operations; counts are given per operation.
    pub(crate) operations: u64,
    /// Figures, named with the unit last.
    pub(crate) figures: BTreeMap<&'static str, f64>,
    /// Latenesses or durations, for percentiles.
    pub(crate) late: Samples,
    /// Times of several kinds, instead of `late`: each is a row of its own, with this name after the variant.
    pub(crate) parts: Vec<(&'static str, Samples)>,
}

/// A contestant of a scenario without a limit.
///
/// Every pass is `setup`, `run` with little work, `run`, `teardown`. All threads start in `setup` or later,
/// and must have ended when `teardown` returns.
pub(crate) trait Trial {
    /// Its name, such as `tokio`.
    fn name(&self) -> &str;

    /// Its variant, such as `one by one`.
    fn variant(&self) -> &str;

    /// Its group, whose members are compared with the group's baseline.
    fn group(&self) -> &str;

    /// Whether it is its group's baseline. A baseline takes part whenever a member of its group does.
    fn is_baseline(&self) -> bool {
        false
    }

    /// Starts threads and runtimes.
    ///
    /// # Errors
    /// If a thread or a runtime cannot be started.
    fn setup(&mut self) -> Result<(), LabError>;

    /// Does this much work.
    ///
    /// # Errors
    /// If something was lost, or without `setup`.
    fn run(&mut self, amount: u32) -> Result<Outcome, LabError>;

    /// Ends all threads. Also called after a failed `setup` or `run`.
    ///
    /// # Errors
    /// If a thread panicked.
    fn teardown(&mut self) -> Result<(), LabError>;
}

/// The figures of one contestant in one round: those of [`Outcome`] and those of the process.
pub(super) type Figures = BTreeMap<&'static str, f64>;

/// The results of one row.
#[derive(Debug, Default)]
pub(super) struct Tape {
    /// The name of its kind of times, if its contestant has several.
    pub(super) part: &'static str,
    /// The figures of each round.
    pub(super) rounds: Vec<Figures>,
    /// The samples of all rounds.
    pub(super) late: Samples,
}

/// A run of all contestants.
pub(super) struct Runner<'a> {
    pub(super) rounds: u32,
    pub(super) work: Work,
    pub(super) rest: IdleMachine,
    pub(super) syscalls: Option<SyscallSource>,
    pub(super) time_limit: &'a TimeLimit,
    pub(super) progress: &'a Progress,
}

impl Runner<'_> {
    /// Runs every contestant in every round. The tapes are in the order of the contestants, for each one or
    /// as many as it has kinds of times.
    pub(super) fn run(&self, trials: &mut [Box<dyn Trial>]) -> Result<Vec<Vec<Tape>>, LabError> {
        let mut tapes: Vec<Vec<Tape>> = trials.iter().map(|_| Vec::new()).collect();
        for round in 0..self.rounds {
            for index in order(round, trials.len()) {
                let trial = trials[index].as_mut();
                self.progress.show(round, trial.name(), trial.variant());
                let outcome = self
                    .round_of(trial, round)
                    .map_err(|error| error.in_contestant(trial.name(), trial.variant()))?;
                keep(&mut tapes[index], outcome);
                self.progress.advance();
            }
        }
        Ok(tapes)
    }

    fn round_of(&self, trial: &mut dyn Trial, round: u32) -> Result<Outcome, LabError> {
        let mut outcome = self.timed_pass(trial)?;
        // It varies little between rounds and needs a separate pass.
        if round == 0
            && let Some(syscalls) = self.counted_pass(trial)?
        {
            outcome.figures.insert("syscalls_per_1k", syscalls);
            outcome
                .figures
                .insert("syscalls_per_1m", 1_000.0 * syscalls);
        }
        Ok(outcome)
    }

    fn timed_pass(&self, trial: &mut dyn Trial) -> Result<Outcome, LabError> {
        self.pass(trial, |trial| {
            let interrupts_before = Interrupts::read()?;
            let usage_before = Usage::now()?;
            let (outcome, span) = timed(|| trial.run(self.work.amount));
            let used = Usage::now()?.since(usage_before);
            let interrupts_after = Interrupts::read()?;

            let mut outcome = outcome?;
            let operations = outcome.operations.max(1) as f64;
            let switches = used.voluntary_switches + used.involuntary_switches;
            outcome.figures.extend([
                ("operations_count", outcome.operations as f64),
                (
                    "cpu_percent",
                    100.0 * used.cpu.as_secs_f64() / span.as_secs_f64(),
                ),
                (
                    "wakeups_per_op",
                    used.voluntary_switches as f64 / operations,
                ),
                ("switches_per_1k", 1_000.0 * switches as f64 / operations),
            ]);
            if let (Some(before), Some(after)) = (interrupts_before, interrupts_after) {
                let count = self.rest.excess_interrupts(after.since(before), span);
                let per_1k = 1_000.0 * count / operations;
                let both = [
                    ("interrupts_per_1k", per_1k),
                    ("interrupts_per_1m", 1_000.0 * per_1k),
                ];
                outcome.figures.extend(both);
            }
            Ok(outcome)
        })
    }

    /// System calls per 1,000 operations. Counting slows each of them down, so nothing is timed meanwhile.
    fn counted_pass(&self, trial: &mut dyn Trial) -> Result<Option<f64>, LabError> {
        if self.work.counted == 0 {
            return Ok(None);
        }
        // Opened before `setup`, so that the threads started there are counted.
        let Some(Ok(counter)) = self.syscalls.map(SyscallSource::open) else {
            return Ok(None);
        };
        self.pass(trial, |trial| {
            let before = counter.read()?;
            let outcome = trial.run(self.work.counted)?;
            let count = counter.read()? - before;
            let operations = outcome.operations.max(1) as f64;
            Ok(Some(1_000.0 * count as f64 / operations))
        })
    }

    /// Sets up, warms up, measures and tears down. Returns the first error.
    fn pass<T>(
        &self,
        trial: &mut dyn Trial,
        measure: impl FnOnce(&mut dyn Trial) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let label = format!("{} ({})", trial.name(), trial.variant());
        let _armed = self.time_limit.arm(label, self.work.pass_max);
        let result = trial.setup().and_then(|()| {
            trial.run(self.work.warm_up)?;
            measure(trial)
        });
        let ended = trial.teardown();
        let value = result?;
        ended?;
        Ok(value)
    }
}

/// Adds a round to the tapes of a contestant.
fn keep(tapes: &mut Vec<Tape>, outcome: Outcome) {
    let mut parts = outcome.parts;
    if parts.is_empty() {
        parts.push(("", outcome.late));
    }
    for (place, (part, late)) in parts.into_iter().enumerate() {
        if place == tapes.len() {
            tapes.push(Tape {
                part,
                ..Tape::default()
            });
        }
        let mut figures = outcome.figures.clone();
        figures.extend(percentiles(&late));
        tapes[place].late.add(&late);
        tapes[place].rounds.push(figures);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    struct Actor {
        fails: bool,
        log: Rc<RefCell<Vec<String>>>,
    }

    impl Trial for Actor {
        fn name(&self) -> &'static str {
            "actor"
        }

        fn variant(&self) -> &'static str {
            "acting"
        }

        fn group(&self) -> &'static str {
            "all"
        }

        fn setup(&mut self) -> Result<(), LabError> {
            self.log.borrow_mut().push("setup".to_owned());
            Ok(())
        }

        fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
            self.log.borrow_mut().push(format!("run {amount}"));
            if self.fails {
                return Err(LabError::TaskLost);
            }
            Ok(Outcome {
                operations: u64::from(amount),
                figures: BTreeMap::from([("op_ns", 5.0)]),
                ..Outcome::default()
            })
        }

        fn teardown(&mut self) -> Result<(), LabError> {
            self.log.borrow_mut().push("teardown".to_owned());
            Ok(())
        }
    }

    fn act(rounds: u32, fails: bool) -> (Result<Vec<Vec<Tape>>, LabError>, Vec<String>) {
        let log = Rc::new(RefCell::new(Vec::new()));
        let time_limit = TimeLimit::start().expect("a thread can be started");
        let runner = Runner {
            rounds,
            work: Work {
                amount: 10,
                warm_up: 2,
                counted: 3,
                pass_max: Duration::from_mins(1),
            },
            rest: IdleMachine::default(),
            syscalls: None,
            time_limit: &time_limit,
            progress: &Progress::hidden(),
        };
        let actor: Box<dyn Trial> = Box::new(Actor {
            fails,
            log: Rc::clone(&log),
        });
        let tapes = runner.run(&mut [actor]);
        let said = log.borrow().clone();
        (tapes, said)
    }

    #[test]
    fn a_pass_is_set_up_warmed_measured_and_torn_down() {
        let (tapes, log) = act(2, false);
        let pass = ["setup", "run 2", "run 10", "teardown"];
        assert_eq!(log, [pass, pass].concat());
        let tapes = tapes.expect("nothing fails");
        assert_eq!((tapes.len(), tapes[0].len()), (1, 1));
        assert_eq!((tapes[0][0].part, tapes[0][0].rounds.len()), ("", 2));
        let figures = &tapes[0][0].rounds[0];
        assert!((figures["op_ns"] - 5.0).abs() < 1e-9);
        assert!((figures["operations_count"] - 10.0).abs() < 1e-9);
        assert!(figures.contains_key("wakeups_per_op"));
        assert!(!figures.contains_key("syscalls_per_1k"), "nobody counted");
    }

    #[test]
    fn each_kind_of_times_is_kept_by_itself() {
        let mut tapes = Vec::new();
        for us in [3, 5] {
            let [mut first, second] = [Samples::default(), Samples::default()];
            first.record(us * 1_000);
            keep(
                &mut tapes,
                Outcome {
                    figures: BTreeMap::from([("polls_per_s", 7.0)]),
                    parts: vec![("read", first), ("sleep", second)],
                    ..Outcome::default()
                },
            );
        }
        let found: Vec<_> = tapes
            .iter()
            .map(|tape| (tape.part, tape.late.len(), tape.rounds[1].get("max_us")))
            .collect();
        assert_eq!(found, [("read", 2, Some(&5.0)), ("sleep", 0, None)]);
        assert!(tapes.iter().all(|tape| tape.rounds[0]["polls_per_s"] > 6.0));
    }

    #[test]
    fn one_that_fails_is_named_and_torn_down() {
        let (tapes, log) = act(2, true);
        assert_eq!(log, ["setup", "run 2", "teardown"]);
        let error = tapes.expect_err("it fails").to_string();
        assert!(error.starts_with("actor (acting):"), "{error}");
    }
}
