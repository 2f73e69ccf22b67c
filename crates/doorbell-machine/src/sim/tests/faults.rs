//! Tests of faults, planned and random.

use super::{exact, run};
use crate::sim::{self, Fault, Memory, Planned, Range, Sim, work};
use crate::{Machine, ParkEnd, Parker, Word};
use std::sync::{Arc, Mutex};

fn range(ns: u64) -> Range {
    Range {
        min_ns: ns,
        max_ns: ns,
    }
}

#[test]
fn a_thread_is_taken_off_its_cpu_at_the_event_that_was_planned() {
    let took = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&took);
    let mut config = exact(1);
    // The first two events are part of the thread's start.
    config.faults.planned = vec![Planned {
        event: 4,
        fault: Fault::Deschedule { ns: 50_000 },
    }];
    let outcome = run(config, move || {
        for _ in 0..6 {
            let from_ns = sim::time_ns();
            work(100);
            notes.lock().unwrap().push(sim::time_ns() - from_ns);
        }
    });
    let took = took.lock().unwrap();
    let away: Vec<_> = (0..6).filter(|at| took[*at] > 100).collect();
    assert_eq!((away.len(), outcome.faults), (1, 1), "{took:?}");
    assert!(took[away[0]] >= 50_100, "{took:?}");
}

#[test]
fn faults_come_as_often_as_told_and_end_when_told() {
    let mut config = exact(1);
    config.faults.deschedule_chance = 10_000;
    config.faults.deschedule_ns = range(1_000);
    let outcome = run(config, || {
        (0..20_000).for_each(|_| work(10));
        sim::end_faults();
        (0..20_000).for_each(|_| work(10));
    });
    assert!((120..300).contains(&outcome.faults), "{}", outcome.faults);
}

#[test]
fn a_slow_cpu_takes_longer() {
    let mut config = exact(1);
    config.faults.slow_cpus = vec![(0, 300), (7, 200)];
    let outcome = run(config, || work(100_000));
    // The exit from idle and the context switch are slow too.
    assert!((300_000..315_000).contains(&outcome.time_ns));
}

/// How a park on CPU 0 with a deadline after `for_ns` ends, and how long it takes.
fn park(config: sim::Config, for_ns: u64) -> (ParkEnd, u64) {
    let end = Arc::new(Mutex::new((ParkEnd::Changed, 0)));
    let result = Arc::clone(&end);
    run(config, move || {
        let (word, parker) = (
            <Sim as Machine>::U32::new(0),
            <sim::SimParker as Parker<Sim>>::new(),
        );
        let from_ns = sim::time_ns();
        let until_ns = Sim::<0>::now_ns().saturating_add(for_ns);
        let ended = Parker::<Sim>::park(&parker, &word, 0, Some(until_ns));
        *end.lock().unwrap() = (ended, sim::time_ns() - from_ns);
    });
    *result.lock().unwrap()
}

#[test]
fn parks_end_for_no_reason_or_late() {
    let mut config = exact(1);
    config.faults.spurious_chance = 1_000_000;
    config.faults.spurious_ns = range(2_000);
    let (end, took) = park(config, 1_000_000);
    assert!(end == ParkEnd::Spurious && took < 20_000, "{took}");
    let mut config = exact(1);
    config.faults.late_chance = 1_000_000;
    config.faults.late_ns = range(400_000);
    let (end, took) = park(config, 1_000_000);
    assert!(
        end == ParkEnd::Deadline && (1_400_000..1_410_000).contains(&took),
        "{took}"
    );
}

#[test]
fn a_clock_that_jumps_takes_deadlines_with_it() {
    const YEARS_NS: u64 = 100 * 365 * 24 * 3_600_000_000_000;
    for jump_ns in [500_000, YEARS_NS, u64::MAX] {
        let mut config = exact(2);
        config.faults.planned = vec![Planned {
            event: 40,
            fault: Fault::ClockJump { ns: jump_ns },
        }];
        run(config, move || {
            let other = super::spawn(1, || (0..60).for_each(|_| work(2_000)));
            let (word, parker) = (
                <Sim as Machine>::U32::new(0),
                <sim::SimParker as Parker<Sim>>::new(),
            );
            let from_ns = Sim::<0>::now_ns();
            let until_ns = from_ns + 600_000;
            let ended = Parker::<Sim>::park(&parker, &word, 0, Some(until_ns));
            assert_eq!(ended, ParkEnd::Deadline);
            let now_ns = Sim::<0>::now_ns();
            assert!(now_ns >= until_ns && now_ns - from_ns >= jump_ns.min(u64::MAX - from_ns));
            assert!(sim::time_ns() < 400_000, "{}", sim::time_ns());
            crate::ThreadHandle::join(other).unwrap();
        });
    }
}

#[test]
fn the_clock_jumps_as_often_as_told_until_the_faults_end() {
    let mut config = exact(1);
    config.faults.clock_jump_chance = 10_000;
    config.faults.clock_jump_ns = range(1_000_000);
    run(config, || {
        // By how many jumps the program's clock is ahead.
        let jumps = || (Sim::<0>::now_ns() - sim::time_ns()) / 1_000_000;
        let before = jumps();
        (0..20_000).for_each(|_| work(10));
        sim::end_faults();
        let after = jumps();
        assert!((120..300).contains(&(after - before)), "{}", after - before);
        (0..20_000).for_each(|_| work(10));
        assert_eq!(jumps(), after);
    });
}

#[test]
fn the_clock_stops_at_its_end() {
    let mut config = exact(1);
    config.clock_start_ns = u64::MAX - 10_000;
    let (end, took) = park(config.clone(), 5_000);
    assert!(end == ParkEnd::Deadline && took >= 5_000);
    let (end, _) = park(config, u64::MAX);
    assert_eq!(end, ParkEnd::Deadline, "the end of time comes too");
}

#[test]
fn all_of_it_is_fixed_by_the_seed() {
    let go = |seed| {
        let mut config = exact(3);
        (config.seed, config.memory) = (seed, Memory::Tso);
        config.machine.jitter_percent = 30;
        config.faults.deschedule_chance = 20_000;
        config.faults.deschedule_ns = range(5_000);
        config.faults.late_chance = 300_000;
        config.faults.late_ns = range(5_000);
        run(config, || {
            let word = Arc::new(<Sim as Machine>::U64::new(0));
            let add = |word: &Arc<<Sim as Machine>::U64>| {
                let word = Arc::clone(word);
                move || {
                    for _ in 0..200 {
                        word.fetch_add(sim::random() % 3, crate::Ordering::Relaxed);
                        word.store(1, crate::Ordering::Relaxed);
                        sim::sleep(sim::random() % 2_000);
                    }
                }
            };
            let threads = [1, 2].map(|cpu| super::spawn(cpu, add(&word)));
            for thread in threads {
                crate::ThreadHandle::join(thread).unwrap();
            }
        })
    };
    for seed in 0..20 {
        let (first, again) = (go(seed), go(seed));
        assert_eq!((first.hash, first.events), (again.hash, again.events));
        assert_ne!(first.hash, go(seed + 100).hash);
    }
}
