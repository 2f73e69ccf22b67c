//! Tests of the rounds, with made-up contestants and limits.

use std::cell::RefCell;
use std::rc::Rc;

use super::super::contestant::Speed;
use super::*;

/// The time that an actor reports for every call.
const CALL_NS: u64 = 300;

/// The events, in order.
type Log = Rc<RefCell<Vec<String>>>;

struct Actor {
    name: &'static str,
    fails: bool,
    log: Log,
}

impl Actor {
    fn note(&self, what: &str) {
        self.log.borrow_mut().push(format!("{} {what}", self.name));
    }
}

impl Contestant for Actor {
    fn name(&self) -> &str {
        self.name
    }

    fn variant(&self) -> &'static str {
        "acting"
    }

    fn speed(&self) -> Speed {
        Speed::Fast
    }

    fn setup(&mut self) -> Result<(), LabError> {
        self.note("setup");
        Ok(())
    }

    fn run(&mut self, calls: u32, samples: &mut Samples) -> Result<Observed, LabError> {
        self.note(&format!("run {calls}"));
        if self.fails {
            return Err(LabError::CallMiscounted {
                expected: 1,
                found: 2,
            });
        }
        (0..calls).for_each(|_| samples.record(CALL_NS));
        Ok(Observed {
            reported_count: 4,
            crossed_count: 4,
            ..Observed::default()
        })
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.note("teardown");
        Ok(())
    }
}

fn actors(names: &[&'static str], log: &Log) -> Vec<Box<dyn Contestant>> {
    let actor = |name: &&'static str| -> Box<dyn Contestant> {
        Box::new(Actor {
            name,
            fails: *name == "bad",
            log: Rc::clone(log),
        })
    };
    names.iter().map(actor).collect()
}

/// Runs actors against limits from a list; the last one is repeated.
fn play(names: &[&'static str], rounds: u32, limits: &[f64]) -> (Result<Vec<Tape>, LabError>, Log) {
    let log = Log::default();
    let mut limits_left = limits.iter();
    let mut last = 0.0;
    let limit_log = Rc::clone(&log);
    let mut limit = || {
        last = limits_left.next().copied().unwrap_or(last);
        limit_log.borrow_mut().push("limit".to_owned());
        Ok(last)
    };
    let time_limit = TimeLimit::start().expect("a thread can be started");
    let mut contest = Contest {
        effort: Effort {
            rounds,
            calls: 20,
            idle_span: Duration::ZERO,
        },
        limit: &mut limit,
        clock: Clock::calibrated(),
        rest: IdleMachine::default(),
        syscalls: None,
        time_limit: &time_limit,
        progress: &Progress::hidden(),
    };
    let tapes = contest.run(&mut actors(names, &log));
    (tapes, log)
}

#[test]
fn limits_that_agree_are_averaged_and_others_refused() {
    assert_eq!(trusted_limit_ns(100.0, 140.0), Some(120.0));
    assert_eq!(trusted_limit_ns(150.0, 100.0), Some(125.0));
    assert_eq!(trusted_limit_ns(100.0, 150.1), None);
    assert_eq!(trusted_limit_ns(480.0, 140.0), None);
    assert_eq!(trusted_limit_ns(0.0, 0.0), None);
}

#[test]
fn each_round_begins_with_the_next_contestant() {
    let orders: Vec<Vec<usize>> = (0..4).map(|round| order(round, 3).collect()).collect();
    assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
}

#[test]
fn a_pass_stands_between_two_limits() {
    let (tapes, log) = play(&["one"], 1, &[100.0]);
    assert_eq!(
        *log.borrow(),
        [
            "limit",
            "one setup",
            "one run 2",
            "one run 20",
            "one teardown",
            "limit"
        ]
    );
    let tapes = tapes.expect("nothing fails");
    assert_eq!(tapes[0].kept.len(), 1);
    let figures = &tapes[0].kept[0];
    // The median of equal timings is that timing, whatever the clock's step.
    let p50_ns = figures.p50_ns.expect("20 calls are enough");
    assert!((p50_ns - CALL_NS as f64).abs() < 1e-9, "{figures:?}");
    assert_eq!(figures.p99_ns, None, "20 calls are too few");
    assert!((figures.limit_ns - 100.0).abs() < 1e-9);
    assert_eq!(figures.syscalls_per_1k, None);
    assert_eq!(figures.observed.crossed_percent(), Some(100.0));
}

#[test]
fn contestants_alternate() {
    let (tapes, log) = play(&["one", "two"], 2, &[100.0]);
    let setups: Vec<String> = log
        .borrow()
        .iter()
        .filter(|line| line.ends_with("setup"))
        .cloned()
        .collect();
    assert_eq!(setups, ["one setup", "two setup", "two setup", "one setup"]);
    assert!(
        tapes
            .expect("nothing fails")
            .iter()
            .all(|tape| tape.kept.len() == 2)
    );
}

#[test]
fn a_pass_between_unequal_limits_is_repeated() {
    let (tapes, _) = play(&["one"], 1, &[100.0, 400.0, 400.0, 410.0]);
    let tapes = tapes.expect("nothing fails");
    assert_eq!(
        (
            tapes[0].kept.len(),
            tapes[0].passes_dropped,
            tapes[0].rounds_dropped
        ),
        (1, 1, 0)
    );
    assert!((tapes[0].kept[0].limit_ns - 405.0).abs() < 1e-9);
}

#[test]
fn a_round_is_given_up_after_two_repetitions() {
    let unsteady = [100.0, 400.0].repeat(3);
    let (tapes, log) = play(&["one"], 1, &unsteady);
    let tapes = tapes.expect("nothing fails");
    assert_eq!(
        (
            tapes[0].kept.len(),
            tapes[0].passes_dropped,
            tapes[0].rounds_dropped
        ),
        (0, 3, 1)
    );
    assert_eq!(
        log.borrow().iter().filter(|line| *line == "limit").count(),
        6
    );
}

#[test]
fn a_failure_names_the_contestant_and_still_tears_down() {
    let (tapes, log) = play(&["bad"], 1, &[100.0]);
    let error = tapes.expect_err("the contestant fails");
    assert!(
        error
            .to_string()
            .starts_with("bad (acting): a call was lost or ran twice"),
        "{error}"
    );
    assert_eq!(
        log.borrow().last().map(String::as_str),
        Some("bad teardown")
    );
}
