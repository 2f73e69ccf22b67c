//! Every contestant answers every call. No test here asserts a time.

use super::*;
use crate::measure::Samples;
use crate::report::fits;

/// Calls of a pass: enough for some to report their CPU.
const CALLS: u32 = 200;

#[test]
fn every_contestant_answers_every_call() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    for mut contestant in contestants(stage) {
        let name = format!("{} ({})", contestant.name(), contestant.variant());
        // Twice, as a contestant is set up anew in every round.
        for _ in 0..2 {
            contestant.setup().expect(&name);
            for _ in 0..2 {
                let mut samples = Samples::with_room_for(CALLS);
                let observed = contestant.run(CALLS, &mut samples).expect(&name);
                assert_eq!(
                    samples.len() as u32 + observed.reported_count,
                    CALLS,
                    "{name}"
                );
                assert!(
                    (3..=4).contains(&observed.reported_count),
                    "{name}: {observed:?}"
                );
            }
            contestant.teardown().expect(&name);
        }
    }
}

#[test]
fn pinned_contestants_cross_every_time() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    let pinned: [Box<dyn Contestant>; 5] = [
        Box::new(Line::new(stage)),
        Box::new(Futex::new(stage, Caller::Spins)),
        Box::new(Futex::new(stage, Caller::Parks)),
        Box::new(Crossbeam::new(stage)),
        Box::new(TokioTwo::new(stage)),
    ];
    for mut contestant in pinned {
        contestant.setup().expect("it can be set up");
        let observed = contestant
            .run(CALLS, &mut Samples::default())
            .expect("every call is answered");
        contestant.teardown().expect("it can be torn down");
        assert_eq!(
            observed.crossed_percent(),
            Some(100.0),
            "{}",
            contestant.name()
        );
    }
}

#[test]
fn where_both_park_each_call_wakes_both() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    let own = Doorbell::all(stage);
    let mut both = own.filter(|one| one.variant() == "await, both parked");
    let mut contestant = both.next().expect("there is such a row");
    contestant.setup().expect("it can be set up");
    let observed = contestant.run(CALLS, &mut Samples::default());
    let counters = observed.expect("every call is answered").counters;
    contestant.teardown().expect("it can be torn down");
    for name in ["parks_per_call", "caller_parks_per_call"] {
        // A worker that wakes late may park again before it is notified.
        assert!((0.9..=3.0).contains(&counters[name]), "{counters:?}");
    }
}

#[test]
fn nobody_runs_without_setup_and_teardown_is_always_possible() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    for mut contestant in contestants(stage) {
        contestant
            .teardown()
            .expect("there is nothing to tear down");
        let run = contestant.run(1, &mut Samples::default());
        assert!(
            matches!(run, Err(LabError::NotSetUp)),
            "{}",
            contestant.name()
        );
    }
}

#[test]
fn a_filter_leaves_those_that_contain_it() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    let left = chosen(contestants(stage), Some("TOKIO")).expect("tokio takes part");
    assert_eq!(left.len(), 2);
    let left = chosen(contestants(stage), Some("park")).expect("somebody parks");
    assert!(left.iter().all(|one| one.variant().contains("park")));
    let error = chosen(contestants(stage), Some("nobody"))
        .err()
        .expect("nobody is called nobody");
    assert!(
        error
            .to_string()
            .contains("crossbeam (bounded(1) each way)"),
        "{error}"
    );
}

#[test]
fn names_are_unique() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    let mut names: Vec<String> = contestants(stage)
        .iter()
        .map(|one| format!("{} ({})", one.name(), one.variant()))
        .collect();
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn the_table_fits() {
    if let Some(stage) = Stage::for_tests() {
        let all = contestants(stage);
        let names = all.iter().map(|one| (one.name(), one.variant()));
        let kept = [
            "p50 ns",
            "p99 ns",
            "x limit",
            "crossed %",
            "rounds",
            "syscalls/1k",
        ];
        fits::assert_table(names, &columns::columns(), &kept);
    }
}
