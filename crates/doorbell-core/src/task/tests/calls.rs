//! Calls that are awaited: they run when the mailbox is taken, without a queue.

use super::{Bench, Count, output};
use crate::task::{Kind, Once, Phase};
use crate::testing::launch_as;
use doorbell_machine::Counter;
use std::sync::Arc;

#[test]
fn miri_a_call_runs_when_it_is_taken_and_is_never_queued() {
    let bench = Bench::new();
    let (ran, dropped) = (Count::default(), Count::default());
    let (count, owned) = (ran.clone(), dropped.on_drop());
    let call = Once::new(move || {
        let _owned = &owned;
        count.add() + 7
    });
    let mut join = bench.on_worker(|| launch_as(&bench.remote, Kind::Call, call));
    assert_eq!((join.phase(), ran.get()), (Phase::Queued, 0));
    assert!(bench.local.is_empty(), "also not from its own worker");
    assert_eq!(bench.serve(), 1);
    assert_eq!(
        (join.phase(), ran.get(), dropped.get()),
        (Phase::Complete, 1, 1)
    );
    assert_eq!((bench.local.queued(), bench.local.live()), (0, 0));
    assert_eq!(output(&mut join).unwrap(), 7);
    drop(join);
    bench.end();
}

#[test]
fn a_cancelled_call_does_not_run() {
    let bench = Bench::new();
    let (ran, dropped) = (Count::default(), Count::default());
    let (count, owned) = (ran.clone(), dropped.on_drop());
    let call = Once::new(move || {
        let _owned = &owned;
        count.add()
    });
    let mut join = launch_as(&bench.remote, Kind::Call, call);
    join.cancel();
    assert_eq!(bench.serve(), 1);
    assert!(output(&mut join).unwrap_err().is_cancelled());
    assert_eq!((ran.get(), dropped.get()), (0, 1));
    join.cancel();
    drop(join);
    bench.end();
}

#[test]
fn a_call_that_panics_does_not_end_its_worker() {
    let bench = Bench::new();
    let call = Once::new(|| -> u8 { std::panic::resume_unwind(Box::new("on purpose")) });
    let mut join = launch_as(&bench.remote, Kind::Call, call);
    let other = Count::default();
    let count = other.clone();
    let next = launch_as(&bench.remote, Kind::Call, Once::new(move || count.add()));
    assert_eq!((bench.serve(), other.get()), (2, 1));
    let error = output(&mut join).unwrap_err();
    assert_eq!(error.to_string(), "the task panicked: on purpose");
    drop((join, next));
    bench.end();
}

#[test]
fn a_call_posted_before_the_close_runs_and_one_after_does_not() {
    let bench = Bench::new();
    let ran = Count::default();
    let call = |count: &Count| {
        let count = count.clone();
        launch_as(&bench.remote, Kind::Call, Once::new(move || count.add()))
    };
    let mut before = call(&ran);
    bench.on_worker(|| bench.local.close());
    let mut after = call(&ran);
    assert_eq!(output(&mut before).unwrap(), 0);
    assert!(output(&mut after).unwrap_err().is_cancelled());
    assert_eq!(ran.get(), 1);
    drop((before, after));
    bench.end();
}

#[test]
fn d11_a_call_owns_its_closure() {
    // The handle, and all that the caller had, is gone before the call runs.
    let bench = Bench::new();
    let value = Arc::new(5);
    let (seen, theirs) = (Count::default(), Arc::clone(&value));
    let count = seen.clone();
    let call = Once::new(move || (0..*theirs).for_each(|_| _ = count.add()));
    drop(launch_as(&bench.remote, Kind::Call, call));
    assert_eq!(bench.serve(), 1);
    assert_eq!((seen.get(), Arc::strong_count(&value)), (5, 1));
    assert_eq!(bench.remote.counts().rings.get(), 0);
    bench.end();
}
