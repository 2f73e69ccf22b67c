//! Tests of parkers that are futexes or eventfds: what they cost, and what becomes of a ring while no thread
//! sleeps.

use super::place::{park, place, ring, ring_at, ring_moments_ns};
use super::{Diary, costs, exact, run, spawn};
use crate::sim::{Config, EventKind, Outcome, Parkers, Sim, sleep};
use crate::{Machine, Ordering, ParkEnd, ThreadHandle, Word};
use std::sync::Arc;

fn with(parkers: Parkers) -> Config {
    Config {
        parkers,
        ..exact(2)
    }
}

/// How long the waker's ring takes, and how long the waiter takes from the ring to its next step.
fn wake_of(parkers: Parkers) -> (u64, u64) {
    let diary = Diary::default();
    let (theirs, ours) = (diary.clone(), diary.clone());
    let outcome = run(with(parkers), move || {
        let place = place();
        let sleeper = Arc::clone(&place);
        let thread = spawn(1, move || {
            assert_eq!(park(&sleeper, 0, None), ParkEnd::Rung);
            theirs.note("awake");
        });
        sleep(1_000_000);
        place.0.store(1, Ordering::Release);
        ours.note("rings");
        ring(&place);
        ours.note("rung");
        thread.join().unwrap();
    });
    assert_eq!((outcome.parks, outcome.parks_rung), (1, 1));
    assert_eq!((outcome.rings, outcome.rings_vain), (1, 0));
    let rang_ns = diary.when("rung");
    (rang_ns - diary.when("rings"), diary.when("awake") - rang_ns)
}

#[test]
fn each_kind_costs_what_the_machine_says() {
    let costs = costs();
    let woken_ns = costs.ipi_latency_ns + costs.idle_exit_ns;
    let futex = (costs.syscall_ns + costs.futex_wake_ns, woken_ns);
    assert_eq!(wake_of(Parkers::Futex), futex);
    let read_ns = costs.syscall_ns + costs.eventfd_wait_ns;
    let eventfd = (costs.syscall_ns + costs.eventfd_wake_ns, woken_ns + read_ns);
    assert_eq!(wake_of(Parkers::Eventfd), eventfd);
}

#[test]
fn a_ring_that_finds_nobody_is_lost_or_ends_the_next_wait() {
    let go = |parkers, changes: bool| {
        let diary = Diary::default();
        let notes = diary.clone();
        let outcome = run(with(parkers), move || {
            let place = place();
            ring(&place);
            ring(&place);
            let until_ns = Some(Sim::<0>::now_ns() + 50_000);
            if changes {
                // The word has changed, and the thread sees that before it waits.
                place.0.store(1, Ordering::Relaxed);
                assert_eq!(park(&place, 0, until_ns), ParkEnd::Changed);
                return;
            }
            notes.note("first");
            let first = park(&place, 0, until_ns);
            notes.note("second");
            assert_eq!(park(&place, 0, until_ns), ParkEnd::Deadline);
            let wanted = [ParkEnd::Deadline, ParkEnd::Spurious];
            assert_eq!(first, wanted[usize::from(parkers == Parkers::Eventfd)]);
        });
        assert_eq!((outcome.rings, outcome.rings_vain), (2, 2));
        (diary, outcome.parks)
    };
    let (diary, parks) = go(Parkers::Eventfd, false);
    assert_eq!(parks, 1, "two rings end one wait, which did not block");
    let took_ns = diary.when("second") - diary.when("first");
    let look_ns = costs().own_hit_ns.max(costs().memory_ns);
    let waits_ns = 2 * costs().syscall_ns + costs().eventfd_wait_ns;
    assert!(
        (waits_ns..=waits_ns + look_ns).contains(&took_ns),
        "{took_ns}"
    );
    let (diary, parks) = go(Parkers::Futex, false);
    assert_eq!(parks, 1, "the deadline of the second has passed");
    assert!(diary.when("second") - diary.when("first") > 40_000);
    let _ = go(Parkers::Eventfd, true);
}

#[test]
fn a_changed_word_and_a_ring_always_wake_whatever_the_moment() {
    for at_ns in ring_moments_ns() {
        let outcome = ring_at(with(Parkers::Eventfd), at_ns);
        assert_eq!(outcome.parks_rung, outcome.parks, "each park by its ring");
    }
}

/// How many parks of each kind there were.
fn kinds(outcome: &Outcome) -> [usize; 2] {
    let events = outcome.threads.iter().flat_map(|thread| &thread.last);
    let parks = events.filter(|event| event.kind == EventKind::Park);
    let eventfds = parks.clone().filter(|event| event.line == 1).count();
    [parks.count() - eventfds, eventfds]
}

#[test]
fn the_seed_draws_the_kinds_of_mixed_parkers() {
    let go = |seed, parkers| {
        let config = Config {
            seed,
            ..with(parkers)
        };
        run(config, || {
            for _ in 0..4 {
                let until_ns = Some(Sim::<0>::now_ns() + 1_000);
                assert_eq!(park(&place(), 0, until_ns), ParkEnd::Deadline);
            }
        })
    };
    let mut drawn = [0, 0];
    for seed in 0..20 {
        let (first, again) = (go(seed, Parkers::Mixed), go(seed, Parkers::Mixed));
        assert_eq!(first.hash, again.hash);
        let [futexes, eventfds] = kinds(&first);
        drawn = [drawn[0] + futexes, drawn[1] + eventfds];
        assert_eq!(kinds(&go(seed, Parkers::Futex))[1], 0);
        assert_eq!(kinds(&go(seed, Parkers::Eventfd))[0], 0);
    }
    assert!(drawn.iter().all(|kind| *kind > 10), "{drawn:?}");
}
