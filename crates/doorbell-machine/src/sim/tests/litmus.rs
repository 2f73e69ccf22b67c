//! What threads may see of each other's stores.

use crate::sim::{self, Config, Memory, Outcome, Sim};
use crate::{Line, Machine, Ordering, ThreadHandle, ThreadSpec, Word};
use std::sync::{Arc, Mutex};

type U32 = <Sim as Machine>::U32;
type InLine = <Sim as Machine>::Line<U32>;

fn config(seed: u64, memory: Memory) -> Config {
    Config {
        seed,
        memory,
        ..Config::default()
    }
}

pub(super) fn spawn(cpu: usize, body: impl FnOnce() + Send + 'static) -> sim::SimThread {
    let spec = ThreadSpec {
        name: format!("t{cpu}"),
        cpu: Some(cpu),
    };
    Sim::<0>::spawn(spec, Box::new(body)).unwrap()
}

/// Store buffering: each stores to one and then reads the other. What both have read.
fn store_buffering(seed: u64, memory: Memory, by_rmw: bool) -> ((u32, u32), Outcome) {
    let seen = Arc::new(Mutex::new((9, 9)));
    let result = Arc::clone(&seen);
    let outcome = sim::run(config(seed, memory), move || {
        let words: Arc<[InLine; 2]> = Arc::new(std::array::from_fn(|_| Line::new(|| U32::new(0))));
        let side = |own: usize| {
            let (words, seen) = (Arc::clone(&words), Arc::clone(&seen));
            move || {
                // Both have the lines, so that they go about it at about the same time.
                let _ = words[0].load(Ordering::Relaxed) + words[1].load(Ordering::Relaxed);
                sim::work(40_000 - sim::time_ns() + sim::random() % 200);
                if by_rmw {
                    words[own].swap(1, Ordering::SeqCst);
                } else {
                    words[own].store(1, Ordering::Relaxed);
                }
                let other = words[1 - own].load(Ordering::Relaxed);
                // The end of a thread would drain its buffer.
                sim::work(1_000);
                let mut seen = seen.lock().unwrap();
                if own == 0 {
                    seen.0 = other;
                } else {
                    seen.1 = other;
                }
            }
        };
        let threads = [spawn(0, side(0)), spawn(1, side(1))];
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(words[0].load(Ordering::Relaxed), 1);
    })
    .unwrap();
    assert_eq!(outcome.failure, None);
    let seen = *result.lock().unwrap();
    (seen, outcome)
}

/// How many of 400 seeds show that both miss the other's store.
fn both_missed(memory: Memory, by_rmw: bool) -> usize {
    let missed = |seed: &u64| store_buffering(*seed, memory, by_rmw).0 == (0, 0);
    (0..400).filter(missed).count()
}

#[test]
fn store_buffering_shows_under_tso_alone() {
    assert_eq!(both_missed(Memory::Sc, false), 0);
    assert_eq!(both_missed(Memory::Tso, true), 0);
    let missed = both_missed(Memory::Tso, false);
    assert!((40..400).contains(&missed), "{missed} of 400");
}

#[test]
fn a_seed_is_one_run() {
    for memory in [Memory::Sc, Memory::Tso] {
        let mut hashes = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let (seen, first) = store_buffering(seed, memory, false);
            let (again, second) = store_buffering(seed, memory, false);
            assert_eq!((seen, first.hash), (again, second.hash), "seed {seed}");
            assert_eq!(
                (first.events, first.time_ns),
                (second.events, second.time_ns)
            );
            hashes.insert(first.hash);
        }
        assert_eq!(hashes.len(), 50, "seeds make no difference");
    }
}
