//! Tests of what things cost.

use super::{Diary, costs, exact, run, spawn};
use crate::sim::{self, MachineSpec, RunError, Sim, SpecError};
use crate::{Cell, Line, Machine, Ordering, ThreadHandle, Word};
use std::sync::{Arc, Mutex};

type U32 = <Sim as Machine>::U32;

/// How long `f` takes on an exact machine.
fn takes(f: impl FnOnce() + 'static) -> u64 {
    let took = Arc::new(Mutex::new(0));
    let result = Arc::clone(&took);
    run(exact(2), move || {
        let from_ns = sim::time_ns();
        f();
        *took.lock().unwrap() = sim::time_ns() - from_ns;
    });
    *result.lock().unwrap()
}

#[test]
fn every_step_costs_what_the_machine_says() {
    let costs = costs();
    assert_eq!(takes(|| sim::work(777)), 777);
    assert_eq!(takes(|| assert!(Sim::<0>::now_ns() > 0)), costs.clock_ns);
    assert_eq!(takes(|| Sim::<0>::relax(1)), costs.relax_ns);
    let word = || U32::new(0);
    let (cold, hot) = (costs.memory_ns, costs.own_hit_ns);
    let load = move || assert_eq!(word().load(Ordering::Relaxed), 0);
    assert_eq!(takes(load), cold);
    let twice = move || {
        let word = word();
        word.store(1, Ordering::Relaxed);
        let _ = word.load(Ordering::Relaxed);
    };
    assert_eq!(takes(twice), cold + hot);
    let rmw = move || assert_eq!(word().fetch_add(1, Ordering::Relaxed), 0);
    assert_eq!(takes(rmw), cold + costs.rmw_extra_ns);
    let cell = || {
        let cell = <Sim as Machine>::Cell::new(1);
        cell.with_mut(|_| ());
        cell.with(|_| ());
    };
    assert_eq!(takes(cell), cold + hot);
}

#[test]
fn what_lies_in_one_line_travels_together() {
    let pair = |line: &(U32, U32)| {
        line.0.store(1, Ordering::Relaxed);
        line.1.store(1, Ordering::Relaxed);
    };
    let (cold, hot) = (costs().memory_ns, costs().own_hit_ns);
    let together = move || {
        let make = || (U32::new(0), U32::new(0));
        pair(&<Sim as Machine>::Line::<(U32, U32)>::new(make));
    };
    assert_eq!(takes(together), cold + hot);
    let apart = move || pair(&(U32::new(0), U32::new(0)));
    assert_eq!(takes(apart), 2 * cold);
}

#[test]
fn a_line_within_a_line_is_its_own() {
    type InLine<T> = <Sim as Machine>::Line<T>;
    let took = takes(|| {
        let outer = InLine::new(|| {
            let first = U32::new(0);
            let inner = InLine::new(|| U32::new(0));
            (first, inner, U32::new(0))
        });
        outer.0.store(1, Ordering::Relaxed);
        outer.1.store(1, Ordering::Relaxed);
        outer.2.store(1, Ordering::Relaxed);
    });
    assert_eq!(took, 2 * costs().memory_ns + costs().own_hit_ns);
}

#[test]
fn outside_of_any_run_atomics_are_plain_values() {
    let word = U32::new(3);
    assert_eq!(word.fetch_add(4, Ordering::Relaxed), 3);
    assert_eq!(
        word.compare_exchange(7, 1, Ordering::AcqRel, Ordering::Relaxed),
        Ok(7)
    );
    let word = Arc::new(word);
    let inside = Arc::clone(&word);
    run(exact(1), move || {
        assert_eq!(inside.swap(9, Ordering::Relaxed), 1);
    });
    assert_eq!(word.load(Ordering::Relaxed), 9);
    assert_eq!((sim::time_ns(), sim::thread(), sim::cpu()), (0, None, None));
    let error = Sim::<0>::spawn(
        crate::ThreadSpec {
            name: "lost".into(),
            cpu: None,
            stack_size: None,
        },
        Box::new(|| unreachable!("nobody runs it")),
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("no thread of a simulated machine")
    );
}

#[test]
fn a_run_that_cannot_begin_says_why() {
    let mut config = exact(1);
    config.machine = MachineSpec::flat(0);
    let error = sim::run(config, || ()).unwrap_err();
    assert!(matches!(
        error,
        RunError::Spec(SpecError::Zero("cores_per_llc"))
    ));
    run(exact(1), || {
        let error = sim::run(exact(1), || ()).unwrap_err();
        assert!(matches!(error, RunError::Inside));
    });
}

#[test]
fn each_cpu_has_its_own_time() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let outcome = run(exact(3), move || {
        let threads = [1, 2].map(|cpu| {
            let diary = theirs.clone();
            spawn(cpu, move || {
                sim::work(1_000_000);
                diary.note(if cpu == 1 { "one" } else { "two" });
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
    });
    // They work at the same time. The second begins later by the time that starting it takes.
    let apart_ns = diary.when("two") - diary.when("one");
    assert_eq!(apart_ns, costs().spawn_ns);
    assert!(outcome.time_ns < 1_100_000, "{}", outcome.time_ns);
}
