//! Tests of accesses to cells that no ordering orders.

use super::{exact, spawn};
use crate::sim::{self, Config, Failure, Memory, Sim};
use crate::{Cell as _, Machine, Ordering, ThreadHandle, Word};
use Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::Arc;

/// A cell and a word that all threads of a test access.
struct Shared {
    cell: <Sim as Machine>::Cell<u64>,
    word: <Sim as Machine>::U32,
}

// SAFETY: all threads of a run are on one OS thread, and nothing reads the cell's value.
unsafe impl Send for Shared {}
// SAFETY: as for Send.
unsafe impl Sync for Shared {}

impl Shared {
    fn write(&self) {
        self.cell.with_mut(|_| ());
    }

    fn read(&self) {
        self.cell.with(|_| ());
    }

    fn await_at_least(&self, value: u32, order: Ordering) {
        while self.word.load(order) < value {
            Sim::<0>::relax(1);
        }
    }
}

type Step = fn(&Shared);

/// Whether there is a race if each step runs on its own thread. The first thread has made the cell.
fn races_under(memory: Memory, steps: &[Step]) -> bool {
    let config = Config {
        races: true,
        memory,
        ..exact(steps.len() + 1)
    };
    let steps = steps.to_vec();
    let outcome = sim::run(config, move || {
        let shared = Arc::new(Shared {
            cell: crate::Cell::new(0),
            word: Word::new(0),
        });
        let start = |(at, step): (usize, Step)| {
            let shared = Arc::clone(&shared);
            spawn(at + 1, move || step(&shared))
        };
        let threads: Vec<_> = steps.into_iter().enumerate().map(start).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // The joins order this after all steps.
        shared.write();
    });
    match outcome.unwrap().failure {
        None => false,
        Some(Failure::Race { .. }) => true,
        other => panic!("{other:?}"),
    }
}

fn races(steps: &[Step]) -> bool {
    races_under(Memory::Sc, steps)
}

const PUBLISH: Step = |it| {
    it.write();
    it.word.store(1, Release);
};

const PUBLISH_RELAXED: Step = |it| {
    it.write();
    it.word.store(1, Relaxed);
};

#[test]
fn a_release_that_is_acquired_orders() {
    let read: Step = |it| {
        it.await_at_least(1, Acquire);
        it.read();
    };
    let read_relaxed: Step = |it| {
        it.await_at_least(1, Relaxed);
        it.read();
    };
    assert!(!races(&[PUBLISH, read]));
    assert!(races(&[PUBLISH_RELAXED, read]));
    assert!(races(&[PUBLISH, read_relaxed]));
    assert!(!races_under(Memory::Tso, &[PUBLISH_RELAXED, read_relaxed]));
}

#[test]
fn what_comes_after_the_release_is_not_handed_on() {
    let early: Step = |it| {
        it.word.store(1, Release);
        it.write();
    };
    let read: Step = |it| {
        it.await_at_least(1, Acquire);
        sim::work(10_000);
        it.read();
    };
    assert!(races(&[early, read]));
}

#[test]
fn fences_stand_in_for_orders() {
    let publish: Step = |it| {
        it.write();
        it.word.swap(0, Relaxed);
        Sim::<0>::fence_recheck();
        it.word.store(1, Relaxed);
    };
    let read: Step = |it| {
        it.await_at_least(1, Relaxed);
        it.word.fetch_or(0, Relaxed);
        Sim::<0>::fence_announce();
        it.read();
    };
    assert!(!races(&[publish, read]));
    assert!(races(&[PUBLISH_RELAXED, read]));
}

#[test]
fn a_read_modify_write_hands_on_what_it_found_and_a_store_does_not() {
    let change: Step = |it| {
        it.await_at_least(1, Relaxed);
        it.word.fetch_add(1, Relaxed);
    };
    let overwrite: Step = |it| {
        it.await_at_least(1, Relaxed);
        it.word.store(2, Relaxed);
    };
    let read: Step = |it| {
        it.await_at_least(2, Acquire);
        it.read();
    };
    assert!(!races(&[PUBLISH, change, read]));
    assert!(races(&[PUBLISH, overwrite, read]));
}

#[test]
fn an_exchange_that_fails_is_a_load() {
    fn fails(it: &Shared, fail: Ordering) {
        while it.word.compare_exchange(7, 8, AcqRel, fail) != Err(1) {
            Sim::<0>::relax(1);
        }
        it.read();
    }
    let acquires: Step = |it| fails(it, Acquire);
    let relaxed: Step = |it| fails(it, Relaxed);
    assert!(!races(&[PUBLISH, acquires]));
    assert!(races(&[PUBLISH, relaxed]));
}

#[test]
fn reads_do_not_race_and_the_maker_is_known_to_those_it_starts() {
    let read: Step = |it| it.read();
    let write: Step = |it| {
        sim::work(10_000);
        it.write();
    };
    assert!(!races(&[read, read]));
    assert!(races(&[read, write]));
    assert!(races(&[write, write]));
    assert!(!races(&[write]));
}
