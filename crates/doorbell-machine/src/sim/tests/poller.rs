//! Tests of pollers: edges, what ends a wait, and costs.

use super::place::ring_moments_ns;
use super::{Diary, costs, exact, run, spawn};
use crate::sim::{Config, Edges, Sim, SimFd, SimPoller, sleep, time_ns, work};
use crate::{Machine, Ordering, PollEvents, Poller, Readiness, ThreadHandle, WaitEnd, Word};
use std::sync::{Arc, Mutex};

type U32 = <Sim as Machine>::U32;

fn poller() -> Arc<SimPoller> {
    Arc::new(<SimPoller as Poller<Sim>>::open().unwrap())
}

fn add(poller: &SimPoller, token: u64) -> SimFd {
    let fd = SimFd::open();
    Poller::<Sim>::add(poller, fd, token).unwrap();
    fd
}

fn poll(poller: &SimPoller) -> Vec<(u64, Readiness)> {
    let mut events = PollEvents::new();
    Poller::<Sim>::poll(poller, &mut events);
    events.iter().collect()
}

fn wait(poller: &SimPoller, until_ns: Option<u64>) -> (WaitEnd, Vec<u64>) {
    let mut events = PollEvents::new();
    let end = Poller::<Sim>::wait(poller, &U32::new(0), 0, until_ns, &mut events);
    (end, events.iter().map(|(token, _)| token).collect())
}

#[test]
fn an_edge_is_delivered_once_and_only_what_is_still_there() {
    let outcome = run(exact(1), || {
        let poller = poller();
        let fd = add(&poller, 5);
        assert_eq!(poll(&poller), []);
        fd.set_ready(Readiness::READABLE);
        fd.set_ready(Readiness::WRITABLE);
        let both = Readiness::READABLE.and(Readiness::WRITABLE);
        assert_eq!(poll(&poller), [(5, both)]);
        assert_eq!(poll(&poller), []);
        fd.set_ready(Readiness::READABLE);
        assert_eq!(poll(&poller), [(5, both)], "ready once more is an edge");
        fd.set_ready(Readiness::READABLE);
        assert_eq!(fd.take(Readiness::ALL), both);
        assert_eq!(poll(&poller), [], "taken away before it was polled");
        assert_eq!(fd.take(Readiness::ALL), Readiness::EMPTY);
        assert!(Poller::<Sim>::add(&*poller, fd, 6).is_err());
        Poller::<Sim>::remove(&*poller, fd).unwrap();
        assert!(Poller::<Sim>::remove(&*poller, fd).is_err());
        fd.set_ready(Readiness::READABLE);
        assert_eq!(poll(&poller), []);
        Poller::<Sim>::add(&*poller, fd, 6).unwrap();
        assert_eq!(poll(&poller), [(6, Readiness::READABLE)]);
    });
    assert_eq!(outcome.parks, 0);
}

#[test]
fn a_muted_descriptor_makes_no_edges_until_it_is_to_again() {
    for edges in [Edges::Strict, Edges::Generous] {
        let config = Config { edges, ..exact(1) };
        run(config, || {
            let poller = poller();
            let fd = add(&poller, 5);
            let mute = |muted| Poller::<Sim>::set_muted(&*poller, fd, 5, muted);
            mute(true).unwrap();
            fd.set_ready(Readiness::READABLE);
            for _ in 0..50 {
                assert_eq!(poll(&poller), []);
            }
            mute(false).unwrap();
            assert_eq!(poll(&poller), [(5, Readiness::READABLE)]);
            Poller::<Sim>::remove(&*poller, fd).unwrap();
            assert!(mute(true).is_err());
        });
    }
}

#[test]
fn generous_edges_repeat_as_the_seed_says() {
    let repeats = |edges, seed| {
        let config = Config {
            seed,
            edges,
            ..exact(1)
        };
        let found = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&found);
        run(config, move || {
            let poller = poller();
            add(&poller, 1).set_ready(Readiness::READABLE);
            let polls = (0..100).map(|_| poll(&poller).len());
            theirs.lock().unwrap().extend(polls);
        });
        let found = found.lock().unwrap();
        (found.iter().sum::<usize>(), found.clone())
    };
    assert_eq!(repeats(Edges::Strict, 1).0, 1);
    let (count, which) = repeats(Edges::Generous, 1);
    assert!((10..50).contains(&count), "{count}");
    assert_eq!(repeats(Edges::Generous, 1), (count, which.clone()));
    assert_ne!(repeats(Edges::Generous, 2).1, which);
}

#[test]
fn a_wait_ends_by_readiness_a_ring_or_its_deadline_and_each_costs_what_the_machine_says() {
    let diary = Diary::default();
    let notes = diary.clone();
    let outcome = run(exact(2), move || {
        let poller = poller();
        let fd = add(&poller, 1);
        let (theirs, sleeper) = (notes.clone(), Arc::clone(&poller));
        let thread = spawn(1, move || {
            assert_eq!(wait(&sleeper, None), (WaitEnd::Ready, vec![1]));
            theirs.note("ready");
            assert_eq!(wait(&sleeper, None), (WaitEnd::Rung, vec![]));
            theirs.note("rung");
            let until_ns = Sim::<0>::now_ns() + 50_000;
            assert_eq!(wait(&sleeper, Some(until_ns)), (WaitEnd::Deadline, vec![]));
            assert!(Sim::<0>::now_ns() >= until_ns);
            assert_eq!(wait(&sleeper, Some(0)), (WaitEnd::Deadline, vec![]));
        });
        sleep(1_000_000);
        notes.note("makes ready");
        fd.set_ready(Readiness::READABLE);
        sleep(1_000_000);
        Poller::<Sim>::ring(&*poller);
        notes.note("rang");
        thread.join().unwrap();
    });
    assert_eq!((outcome.parks, outcome.parks_rung), (3, 1));
    assert_eq!((outcome.rings, outcome.rings_vain), (1, 0));
    let costs = costs();
    let woken_ns = costs.ipi_latency_ns + costs.idle_exit_ns;
    let took_ns = |from, to| diary.when(to) - diary.when(from);
    assert_eq!(took_ns("makes ready", "ready"), woken_ns);
    let read_ns = costs.syscall_ns + costs.eventfd_wait_ns;
    assert_eq!(took_ns("rang", "rung"), woken_ns + read_ns);
}

#[test]
fn who_polls_while_the_owner_waits_takes_the_events_and_leaves_the_ring() {
    run(exact(2), || {
        let poller = poller();
        let fd = add(&poller, 1);
        let sleeper = Arc::clone(&poller);
        let thread = spawn(1, move || {
            assert_eq!(wait(&sleeper, None), (WaitEnd::Spurious, vec![]));
            assert_eq!(wait(&sleeper, None), (WaitEnd::Rung, vec![]));
        });
        sleep(1_000_000);
        fd.set_ready(Readiness::READABLE);
        assert_eq!(poll(&poller).len(), 1, "before the owner is on its CPU");
        sleep(1_000_000);
        Poller::<Sim>::ring(&*poller);
        assert_eq!(poll(&poller), []);
        thread.join().unwrap();
    });
}

/// A thread announces that it parks, and parks in a poller until the word changes.
fn ring_in_poller_at(at_ns: u64) -> crate::sim::Outcome {
    run(exact(2), move || {
        let place = Arc::new((U32::new(0), <SimPoller as Poller<Sim>>::open().unwrap()));
        let sleeper = Arc::clone(&place);
        let thread = spawn(1, move || {
            let (word, poller) = &*sleeper;
            let mut events = PollEvents::new();
            word.fetch_or(2, Ordering::AcqRel);
            while word.load(Ordering::Acquire) == 2 {
                let _ = Poller::<Sim>::wait(poller, word, 2, None, &mut events);
            }
        });
        work(at_ns - time_ns());
        let (word, poller) = &*place;
        if word.fetch_or(1, Ordering::AcqRel) == 2 {
            Poller::<Sim>::ring(poller);
        }
        thread.join().unwrap();
    })
}

#[test]
fn a_ring_reaches_the_poller_whatever_the_moment() {
    let mut parks = 0;
    for at_ns in ring_moments_ns() {
        let outcome = ring_in_poller_at(at_ns);
        assert_eq!(outcome.parks_rung, outcome.parks, "each park by its ring");
        parks += outcome.parks;
    }
    let moments = ring_moments_ns().count() as u64;
    assert!((1..=moments).contains(&parks), "{parks}");
}
