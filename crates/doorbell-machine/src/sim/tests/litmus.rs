//! Tests of what threads may see of each other's stores.

use super::spawn;
use crate::sim::{self, Config, Failure, Memory, Outcome, Sim};
use crate::{Line, Machine, Ordering, PtrWord, ThreadHandle, Word};
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

/// Store buffering: each of two threads stores to one word and then reads the other's. Returns what both have
/// read.
fn store_buffering(seed: u64, memory: Memory, by_rmw: bool) -> ((u32, u32), Outcome) {
    let seen = Arc::new(Mutex::new((9, 9)));
    let result = Arc::clone(&seen);
    let outcome = sim::run(config(seed, memory), move || {
        let words: Arc<[InLine; 2]> = Arc::new(std::array::from_fn(|_| Line::new(|| U32::new(0))));
        let side = |own: usize| {
            let (words, seen) = (Arc::clone(&words), Arc::clone(&seen));
            move || {
                // Both threads fetch the lines first, so that they begin at about the same time.
                let _ = words[0].load(Ordering::Relaxed) + words[1].load(Ordering::Relaxed);
                sim::work(40_000 - sim::time_ns() + sim::random() % 200);
                if by_rmw {
                    words[own].swap(1, Ordering::SeqCst);
                } else {
                    words[own].store(1, Ordering::Relaxed);
                }
                let other = words[1 - own].load(Ordering::Relaxed);
                // Work on, because the end of the thread would drain its buffer.
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
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(words[0].load(Ordering::Relaxed), 1);
    })
    .unwrap();
    assert_eq!(outcome.failure, None);
    let seen = *result.lock().unwrap();
    (seen, outcome)
}

/// The number of seeds, of 400, with which both threads miss the other's store.
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

/// Runs `body` on CPU 0 under [`Memory::Tso`], with stores that take long to drain.
fn buffered(body: impl FnOnce() + 'static) -> Outcome {
    let mut config = config(1, Memory::Tso);
    config.machine.drain_ns.min_ns = 50_000;
    config.machine.drain_ns.max_ns = 50_000;
    sim::run(config, body).unwrap()
}

/// What another thread reads after this one has called `store`.
fn seen_after(store: fn(&U32)) -> u32 {
    let seen = Arc::new(Mutex::new(9));
    let result = Arc::clone(&seen);
    let outcome = buffered(move || {
        let word = Arc::new(<InLine as Line<U32>>::new(|| U32::new(0)));
        let theirs = Arc::clone(&word);
        let thread = spawn(1, move || {
            // Now two threads have touched the word.
            let _ = theirs.load(Ordering::Relaxed);
            sim::work(100_000 - sim::time_ns());
            *seen.lock().unwrap() = theirs.load(Ordering::Relaxed);
        });
        sim::work(99_000 - sim::time_ns());
        store(&word);
        assert_eq!(
            word.load(Ordering::Relaxed),
            1,
            "a thread sees its own stores"
        );
        sim::work(10_000);
        thread.join().unwrap();
    });
    assert_eq!(outcome.failure, None);
    *result.lock().unwrap()
}

#[test]
fn a_store_waits_in_its_buffer_until_something_drains_it() {
    assert_eq!(seen_after(|word| word.store(1, Ordering::Release)), 0);
    assert_eq!(
        seen_after(|word| assert_eq!(word.swap(1, Ordering::Relaxed), 0)),
        1
    );
    let then_rmw = |word: &U32| {
        word.store(1, Ordering::Release);
        U32::new(0).fetch_or(1, Ordering::Relaxed);
    };
    assert_eq!(seen_after(then_rmw), 1);
    let then_syscall = |word: &U32| {
        word.store(1, Ordering::Release);
        sim::sleep(1);
    };
    assert_eq!(seen_after(then_syscall), 1);
}

#[test]
fn stores_drain_in_order() {
    let outcome = buffered(|| {
        let words: Arc<[InLine; 2]> = Arc::new(std::array::from_fn(|_| Line::new(|| U32::new(0))));
        let theirs = Arc::clone(&words);
        let thread = spawn(1, move || {
            while theirs[1].load(Ordering::Acquire) == 0 {
                Sim::<0>::relax(1);
            }
            assert_eq!(theirs[0].load(Ordering::Relaxed), 1, "message passing");
        });
        sim::work(60_000);
        words[0].store(1, Ordering::Relaxed);
        words[1].store(1, Ordering::Release);
        sim::work(200_000);
        thread.join().unwrap();
    });
    assert_eq!(outcome.failure, None);
}

#[test]
fn a_store_to_an_atomic_that_another_thread_drops_is_an_error() {
    let outcome = buffered(|| {
        let word = Box::new(<InLine as Line<U32>>::new(|| U32::new(0)));
        let place = &raw const *word as usize;
        let thread = spawn(1, move || {
            // SAFETY: the word is dropped 20 us later.
            let word = unsafe { &*(place as *const InLine) };
            sim::work(90_000 - sim::time_ns());
            word.store(1, Ordering::Relaxed);
            sim::work(40_000);
        });
        let _ = word.load(Ordering::Relaxed);
        sim::work(110_000 - sim::time_ns());
        drop(word);
        thread.join().unwrap();
    });
    let failure = outcome.failure.unwrap();
    assert!(
        matches!(&failure, Failure::StoreToDropped { thread, .. } if thread == "t1"),
        "{failure}"
    );
}

#[test]
fn a_fence_without_a_read_modify_write_in_front_of_it_is_an_error() {
    for memory in [Memory::Sc, Memory::Tso] {
        let outcome = sim::run(config(0, memory), || {
            let word = U32::new(0);
            word.swap(1, Ordering::AcqRel);
            Sim::<0>::fence_announce();
            word.store(2, Ordering::Release);
            Sim::<0>::fence_recheck();
        });
        let failure = outcome.unwrap().failure.unwrap();
        assert!(matches!(failure, Failure::BareFence { .. }), "{failure}");
    }
}

/// A pointer that went away and came back counts as changed, or the run would depend on whether the allocator
/// reuses an address. For a thread that looks again it is unchanged.
#[test]
fn an_exchange_of_a_pointer_that_came_back_fails_once() {
    type Ptr = <Sim as Machine>::Ptr<u8>;
    let here: *mut u8 = std::ptr::without_provenance_mut(0x10_0000);
    let outcome = sim::run(config(1, Memory::Sc), move || {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let at = here.addr();
        let ptr: Arc<<Sim as Machine>::Line<Ptr>> = Arc::new(Line::new(|| Ptr::new(here)));
        let seen = ptr.load(Ordering::Acquire);
        let theirs = Arc::clone(&ptr);
        let there_and_back = spawn(0, move || {
            let here = theirs.swap(std::ptr::null_mut(), Ordering::AcqRel);
            assert_eq!(here.addr(), at);
            theirs.store(here, Ordering::Release);
        });
        there_and_back.join().unwrap();
        let null = std::ptr::null_mut();
        let first = ptr.compare_exchange_weak(seen, null, order.0, order.1);
        assert_eq!(first, Err(seen), "it was changed");
        let second = ptr.compare_exchange_weak(seen, null, order.0, order.1);
        assert_eq!(second, Ok(seen), "nobody has changed it since");
    });
    assert_eq!(outcome.unwrap().failure, None);
}
