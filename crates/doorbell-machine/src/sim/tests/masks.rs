//! Tests of CPUs that take no interrupts for a time.

use super::place::{Place, place};
use super::{Diary, costs, exact, run, spawn};
use crate::sim::{
    self, Config, EventKind, Fault, Outcome, Planned, Policy, Range, Sim, SimThread, work,
};
use crate::{Machine, Ordering, ParkEnd, Parker, ThreadHandle, Word};
use std::sync::Arc;

/// How long CPU 1 is masked.
const MASK_NS: u64 = 2_000_000;
/// The event of the mask. By then all threads of the tests sleep, and `until_masked` runs.
const MASK_EVENT: u64 = 200;

/// A thread on CPU 1 with that policy, which parks at once and makes a note when it is awake.
fn sleeper(diary: &Diary, policy: Policy, what: &'static str) -> (Arc<Place>, SimThread) {
    let place = place();
    let (theirs, diary) = (Arc::clone(&place), diary.clone());
    let thread = spawn(1, move || {
        sim::set_policy(policy);
        let ended = Parker::<Sim>::park(&theirs.1, &theirs.0, 0, None);
        assert_eq!(ended, ParkEnd::Rung);
        diary.note(what);
        work(10_000);
    });
    (place, thread)
}

fn ring(place: &Place) {
    place.0.store(1, Ordering::Relaxed);
    Parker::<Sim>::ring(&place.1, &place.0);
}

/// Masks CPU 1 at the event, for `for_ns`.
fn masked(for_ns: u64) -> Config {
    let mut config = exact(2);
    let fault = Fault::Mask { cpu: 1, ns: for_ns };
    config.faults.planned = vec![Planned {
        event: MASK_EVENT,
        fault,
    }];
    config
}

/// Works until CPU 1 is certainly masked.
fn until_masked(diary: &Diary) {
    work(100_000);
    diary.note("before the mask");
    (0..MASK_EVENT).for_each(|_| work(100));
    diary.note("masked");
}

/// Asserts that the note was made when the mask ended and a thread got the idle CPU.
#[track_caller]
fn assert_at_the_end(diary: &Diary, what: &str) {
    let starts_ns = diary.when("before the mask")..=diary.when("masked");
    let got_up_ns = costs().idle_exit_ns + costs().context_switch_ns;
    let at_ns = diary.when(what);
    let ended_ns = starts_ns.start() + MASK_NS..=starts_ns.end() + MASK_NS + got_up_ns;
    assert!(ended_ns.contains(&at_ns), "{what} at {at_ns}: {diary:?}");
}

#[test]
fn a_wake_waits_for_the_end_of_the_mask() {
    let diary = Diary::default();
    let notes = diary.clone();
    let outcome = run(masked(MASK_NS), move || {
        let (place, thread) = sleeper(&notes, Policy::default(), "awake");
        until_masked(&notes);
        ring(&place);
        thread.join().unwrap();
    });
    assert_at_the_end(&diary, "awake");
    assert_eq!((outcome.parks, outcome.parks_rung), (1, 1));
    let held = (outcome.interrupts_held, outcome.interrupts_merged);
    assert_eq!((held, outcome.faults), ((1, 0), 1));
}

/// Rings three threads, the least important first. The diary has the order in which they then run.
fn ring_three(config: Config) -> (Diary, Outcome) {
    let diary = Diary::default();
    let notes = diary.clone();
    let outcome = run(config, move || {
        let sleepers = [
            sleeper(&notes, Policy::Idle, "idle"),
            sleeper(&notes, Policy::default(), "other"),
            sleeper(&notes, Policy::Fifo { priority: 1 }, "fifo"),
        ];
        until_masked(&notes);
        for (place, _) in &sleepers {
            ring(place);
            work(20_000);
        }
        for (_, thread) in sleepers {
            thread.join().unwrap();
        }
    });
    (diary, outcome)
}

#[test]
fn several_merge_into_one_and_none_is_lost() {
    let order = |diary: &Diary| diary.order()[2..].to_vec();
    let (diary, outcome) = ring_three(exact(2));
    assert_eq!(order(&diary), ["idle", "other", "fifo"], "each by itself");
    assert_eq!(outcome.interrupts_held, 0);
    let (diary, outcome) = ring_three(masked(MASK_NS));
    assert_eq!(order(&diary), ["fifo", "other", "idle"]);
    assert_at_the_end(&diary, "fifo");
    let held = (outcome.interrupts_held, outcome.interrupts_merged);
    assert_eq!((held, outcome.parks_rung), ((3, 2), 3));
    // The wakes came as one: no thread had the CPU before the most important one.
    let events = outcome.threads.iter().flat_map(|thread| &thread.last);
    let preempted = events.filter(|event| event.kind == EventKind::Preempt);
    assert_eq!(preempted.count(), 0);
}

#[test]
fn what_runs_goes_on_until_the_mask_ends() {
    let diary = Diary::default();
    let notes = diary.clone();
    run(masked(MASK_NS), move || {
        let (place, thread) = sleeper(&notes, Policy::Fifo { priority: 1 }, "fifo");
        let theirs = notes.clone();
        let busy = spawn(1, move || {
            work(MASK_NS / 2);
            theirs.note("worked");
            work(4 * MASK_NS);
            theirs.note("worked long");
        });
        until_masked(&notes);
        ring(&place);
        thread.join().unwrap();
        busy.join().unwrap();
    });
    assert_eq!(
        diary.order()[2..],
        ["worked", "fifo", "worked long"],
        "{diary:?}"
    );
    assert_at_the_end(&diary, "fifo");
}

#[test]
fn a_deadline_waits_too_and_a_ring_behind_it_counts_once() {
    for rings in [false, true] {
        let diary = Diary::default();
        let notes = diary.clone();
        let outcome = run(masked(MASK_NS), move || {
            let (place, theirs) = (place(), notes.clone());
            let sleeps = Arc::clone(&place);
            let thread = spawn(1, move || {
                let until_ns = Sim::<0>::now_ns() + MASK_NS / 2;
                let ended = Parker::<Sim>::park(&sleeps.1, &sleeps.0, 0, Some(until_ns));
                let wanted = [ParkEnd::Deadline, ParkEnd::Rung][usize::from(rings)];
                assert_eq!(ended, wanted);
                theirs.note("awake");
            });
            until_masked(&notes);
            if rings {
                // The deadline has passed, and its interrupt waits.
                work(MASK_NS / 2 + 200_000);
                ring(&place);
            }
            thread.join().unwrap();
        });
        assert_at_the_end(&diary, "awake");
        let held = (outcome.interrupts_held, outcome.interrupts_merged);
        assert_eq!((held, outcome.parks_rung), ((1, 0), u64::from(rings)));
    }
}

#[test]
fn masks_end_with_the_faults() {
    let diary = Diary::default();
    let notes = diary.clone();
    run(masked(u64::MAX), move || {
        let (place, thread) = sleeper(&notes, Policy::default(), "awake");
        until_masked(&notes);
        ring(&place);
        work(500_000);
        notes.note("ends");
        sim::end_faults();
        thread.join().unwrap();
    });
    let took_ns = diary.when("awake") - diary.when("ends");
    assert!(took_ns < 10_000, "{diary:?}");
}

#[test]
fn a_cpu_that_is_not_there_is_not_masked() {
    let mut config = exact(2);
    config.faults.planned = vec![Planned {
        event: 1,
        fault: Fault::Mask { cpu: 2, ns: 1_000 },
    }];
    assert_eq!(run(config, || work(10)).faults, 0);
}

#[test]
fn masks_by_the_seed_hold_wakes_back_and_lose_none() {
    let go = |seed| {
        let mut config = exact(4);
        config.seed = seed;
        config.faults.mask_chance = 10_000;
        config.faults.mask_ns = Range {
            min_ns: 1,
            max_ns: 100_000,
        };
        run(config, || {
            let places = [1, 2, 3].map(|cpu| (cpu, place()));
            let threads = places.clone().map(|(cpu, place)| {
                spawn(cpu, move || {
                    for turn in 0..50 {
                        while place.0.load(Ordering::Relaxed) <= turn {
                            let _ = Parker::<Sim>::park(&place.1, &place.0, turn, None);
                        }
                    }
                })
            });
            for _ in 0..50 {
                for (_, place) in &places {
                    work(sim::random() % 10_000);
                    place.0.fetch_add(1, Ordering::Relaxed);
                    Parker::<Sim>::ring(&place.1, &place.0);
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
        })
    };
    let mut held = 0;
    for seed in 0..20 {
        let (first, again) = (go(seed), go(seed));
        assert_eq!((first.hash, first.events), (again.hash, again.events));
        assert!(first.faults > 0);
        held += first.interrupts_held;
    }
    assert!(held > 20, "{held}");
}
