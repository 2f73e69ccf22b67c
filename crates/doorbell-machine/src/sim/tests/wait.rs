//! Tests of parkers, spins and sleeps.

use super::place::{U32, park, place, ring, ring_at, ring_moments_ns};
use super::{Diary, costs, exact, run, spawn};
use crate::sim::{self, Config, Costs, Failure, MachineSpec, Policy, Sim, sleep, work};
use crate::{Line, Machine, Ordering, ParkEnd, Spun, ThreadHandle, Word};
use std::sync::Arc;

type InLine<T> = <Sim as Machine>::Line<T>;

#[test]
fn a_ring_ends_a_park_after_what_a_wake_costs() {
    let diary = Diary::default();
    let (theirs, ours) = (diary.clone(), diary.clone());
    let outcome = run(exact(2), move || {
        let place = place();
        let sleeper = Arc::clone(&place);
        let thread = spawn(1, move || {
            assert_eq!(park(&sleeper, 0, None), ParkEnd::Rung);
            theirs.note("awake");
        });
        sleep(1_000_000);
        place.0.store(1, Ordering::Release);
        ring(&place);
        ours.note("rung");
        thread.join().unwrap();
    });
    let costs = costs();
    // The CPU has idled since the park, and this thread was its last one.
    let took = diary.when("awake") - diary.when("rung");
    assert_eq!(took, costs.ipi_latency_ns + costs.idle_exit_ns);
    assert_eq!((outcome.rings, outcome.rings_vain), (1, 0));
    assert_eq!((outcome.parks, outcome.parks_rung), (1, 1));
}

#[test]
fn a_sleep_ends_late_by_the_timer_and_by_the_way_out_of_so_long_an_idling() {
    let costs = Costs {
        idle_exit_20us_ns: 300,
        idle_exit_10ms_ns: 40_000,
        timer_late_ns: 7_000,
        ..costs()
    };
    let machine = MachineSpec {
        costs,
        ..exact(1).machine
    };
    let config = Config {
        machine,
        ..exact(1)
    };
    let diary = Diary::default();
    let notes = diary.clone();
    run(config, move || {
        notes.note("begun");
        sleep(10_000);
        notes.note("short");
        sleep(50_000_000);
        notes.note("long");
    });
    let late_ns = costs.syscall_ns + costs.timer_late_ns;
    // With the time by which the timer is late, the CPU has idled for less than 20 us.
    let short_ns = diary.when("short") - diary.when("begun") - 10_000 - late_ns;
    assert_eq!(short_ns, costs.idle_exit_20us_ns);
    let long_ns = diary.when("long") - diary.when("short") - 50_000_000 - late_ns;
    assert_eq!(long_ns, costs.idle_exit_10ms_ns);
}

#[test]
fn a_word_that_has_changed_is_never_slept_on() {
    let outcome = run(exact(1), || {
        let place = place();
        place.0.store(1, Ordering::Relaxed);
        assert_eq!(park(&place, 0, None), ParkEnd::Changed);
        // A ring is lost if no thread sleeps.
        ring(&place);
        let now_ns = Sim::<0>::now_ns();
        assert_eq!(park(&place, 1, Some(now_ns)), ParkEnd::Deadline);
        let until_ns = now_ns + 70_000;
        assert_eq!(park(&place, 1, Some(until_ns)), ParkEnd::Deadline);
        let late_ns = Sim::<0>::now_ns() - until_ns;
        assert!(late_ns < 5_000, "{late_ns}");
    });
    assert_eq!((outcome.rings, outcome.rings_vain), (1, 1));
    assert_eq!((outcome.parks, outcome.parks_rung), (1, 0));
}

#[test]
fn a_changed_word_and_a_ring_always_wake_whatever_the_moment() {
    for at_ns in ring_moments_ns() {
        let outcome = ring_at(exact(2), at_ns);
        assert!(outcome.parks <= 1);
        assert_eq!(outcome.parks_rung, outcome.parks, "each park by its ring");
    }
}

#[test]
fn threads_that_all_wait_are_a_deadlock() {
    let outcome = sim::run(exact(2), || {
        let place = place();
        let thread = spawn(1, move || assert_eq!(park(&place, 0, None), ParkEnd::Rung));
        thread.join().unwrap();
    });
    let Some(Failure::Deadlock(who)) = outcome.unwrap().failure else {
        panic!("it came to an end");
    };
    assert_eq!(who, "main joins, t1 parked");
}

#[test]
fn a_spin_ends_when_the_line_is_taken_and_costs_nothing_before() {
    let diary = Diary::default();
    let (theirs, ours) = (diary.clone(), diary.clone());
    let outcome = run(exact(2), move || {
        let line = Arc::new(InLine::new(|| (U32::new(0), U32::new(0))));
        let spun = Arc::clone(&line);
        let thread = spawn(1, move || {
            let is_two = |it: &(U32, U32)| it.0.load(Ordering::Acquire) == 2;
            assert_eq!(Sim::<0>::spin(&spun, 100, is_two), Spun::Deadline);
            assert_eq!(Sim::<0>::spin(&spun, u64::MAX, is_two), Spun::Changed);
            theirs.note("seen");
            assert_eq!(Sim::<0>::spin(&spun, 0, is_two), Spun::Changed);
        });
        sleep(30_000_000);
        // First the other word of the line, then the wrong value, then the right one.
        line.1.store(1, Ordering::Relaxed);
        line.0.store(1, Ordering::Relaxed);
        line.0.store(2, Ordering::Release);
        ours.note("written");
        thread.join().unwrap();
    });
    let took = diary.when("seen").abs_diff(diary.when("written"));
    assert!(took <= 2 * costs().llc_ns, "{took}");
    assert!(outcome.events < 60, "{} events in 30 ms", outcome.events);
    assert_eq!(outcome.rings, 0);
}

#[test]
fn who_spins_gives_its_cpu_to_who_has_a_better_right() {
    let diary = Diary::default();
    let (theirs, other) = (diary.clone(), diary.clone());
    run(exact(2), move || {
        let line = Arc::new(InLine::new(|| U32::new(0)));
        let spun = Arc::clone(&line);
        let spinner = spawn(1, move || {
            let set = |it: &U32| it.load(Ordering::Acquire) == 1;
            assert_eq!(Sim::<0>::spin(&spun, u64::MAX, set), Spun::Changed);
            theirs.note("seen");
        });
        sleep(100_000);
        let busy = spawn(1, move || {
            sim::set_policy(Policy::Fifo { priority: 1 });
            work(20_000_000);
            other.note("worked");
        });
        // Meanwhile the spinner's slice ends, and the other thread gets the CPU and sets its policy.
        sleep(10_000_000);
        line.store(1, Ordering::Release);
        spinner.join().unwrap();
        busy.join().unwrap();
    });
    assert_eq!(diary.order(), ["worked", "seen"]);
}

#[test]
fn a_panic_ends_the_run_and_nothing_is_switched_while_it_unwinds() {
    /// Touches an atomic when it is dropped.
    struct AtDrop(Arc<U32>);
    impl Drop for AtDrop {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            for _ in 0..100 {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    let word = Arc::new(U32::new(0));
    let theirs = Arc::clone(&word);
    let outcome = sim::run(exact(2), move || {
        let held = Arc::clone(&theirs);
        let thread = spawn(1, move || {
            let _at_drop = AtDrop(held);
            panic!("on purpose");
        });
        while theirs.load(Ordering::Relaxed) < 1_000 {
            assert!(!std::thread::panicking());
            Sim::<0>::relax(1);
        }
        thread.join().unwrap();
    });
    let Some(Failure::Panic { thread, message }) = outcome.unwrap().failure else {
        panic!("it went on");
    };
    assert_eq!((&*thread, &*message), ("t1", "on purpose"));
    assert_eq!(word.load(Ordering::Relaxed), 100);
}

#[test]
fn what_has_no_end_is_ended() {
    let mut config = exact(1);
    config.events_max = 5_000;
    let outcome = sim::run(config.clone(), || {
        loop {
            Sim::<0>::relax(1);
        }
    });
    assert_eq!(outcome.unwrap().failure, Some(Failure::Events(5_000)));
    config.time_max_ns = 1_000;
    let outcome = sim::run(config, || {
        loop {
            sleep(10_000);
        }
    });
    assert_eq!(outcome.unwrap().failure, Some(Failure::Time(1_000)));
}
