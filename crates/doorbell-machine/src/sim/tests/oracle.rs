//! Tests of what is said of a runtime that is at rest.

use super::exact;
use crate::sim::seeds::{keep, watch};
use crate::sim::{self, Failure, Outcome};
use crate::{Machine, Parker, Sim, Word};
use std::panic::Location;

/// Runs a thread that waits for ever if it is told to, with an oracle that says this.
fn at_rest(waits: bool, says: Result<(), String>) -> Outcome {
    let body = move || {
        watch(Box::new(move || says));
        let word = <Sim as Machine>::U32::new(0);
        if waits {
            let parker: <Sim as Machine>::Parker = Parker::<Sim>::new();
            let _ = Parker::<Sim>::park(&parker, &word, 0, None);
        }
    };
    sim::run(exact(1), body).unwrap()
}

#[test]
fn an_oracle_says_why_all_threads_wait_for_ever() {
    let broken = || Err("a wake was lost".to_owned());
    let failure = Failure::Runtime("a wake was lost".to_owned());
    assert_eq!(at_rest(true, broken()).failure, Some(failure));
    let program = at_rest(true, Ok(())).failure;
    assert!(matches!(program, Some(Failure::Deadlock(_))), "{program:?}");
    assert_eq!(at_rest(false, broken()).failure, None);
}

#[test]
fn a_task_that_has_not_ended_when_all_threads_have_is_a_failure_and_is_shown() {
    let outcome = |ends: bool| {
        let body = move || {
            let tasks = keep();
            tasks.add(1, Some("ledger"), Location::caller());
            if ends {
                tasks.remove(1);
            }
        };
        sim::run(exact(1), body).unwrap()
    };
    assert_eq!(outcome(true).failure, None);
    let left = outcome(false);
    assert!(
        matches!(left.failure, Some(Failure::Runtime(_))),
        "{left:?}"
    );
    assert!(left.tasks.contains("`ledger`"), "{left:?}");
}
