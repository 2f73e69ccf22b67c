//! Shuffled turns.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{Builder, Class};
use std::sync::{Arc, Mutex};

const TASKS: usize = 60;

/// The order in which tasks run that one poll spawns on one core, in the class that `class` gives each. Every third
/// one is pinned.
fn order(seed: Option<u64>, class: fn(usize) -> Class) -> Vec<usize> {
    let builder = Builder::new().cores(1);
    let builder = match seed {
        Some(seed) => builder.shuffle(seed),
        None => builder,
    };
    let rt = builder.build().unwrap();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&ran);
    let spawns = rt.task().class(class(0)).spawn(async move {
        let spawn = |number| {
            let notes = Arc::clone(&notes);
            let task = doorbell::task().class(class(number));
            let task = if number % 3 == 0 { task.on(0) } else { task };
            task.spawn(async move { notes.lock().unwrap().push(number) })
        };
        (0..TASKS).map(spawn).collect::<Vec<_>>()
    });
    for task in rt.block_on(spawns).unwrap() {
        rt.block_on(task).unwrap();
    }
    let ran = ran.lock().unwrap();
    ran.clone()
}

/// Those that may run anywhere, of which a worker takes the oldest first.
fn movable(order: &[usize]) -> Vec<usize> {
    order
        .iter()
        .copied()
        .filter(|number| number % 3 != 0)
        .collect()
}

#[test]
fn a_seed_shuffles_the_tasks_of_a_worker_and_loses_none() {
    let plain = order(None, |_| Class::FAIR);
    assert!(movable(&plain).is_sorted(), "{plain:?}");
    for seed in 0..5 {
        let shuffled = order(Some(seed), |_| Class::FAIR);
        assert!(!movable(&shuffled).is_sorted(), "{shuffled:?}");
        let mut sorted = shuffled;
        sorted.sort_unstable();
        assert!(
            sorted.iter().copied().eq(0..TASKS),
            "seed {seed}: {sorted:?}"
        );
    }
}

#[test]
fn a_seed_gives_the_same_order_again() {
    let [one, again, other] = [1, 1, 2].map(|seed| order(Some(seed), |_| Class::FAIR));
    assert_eq!(one, again);
    assert_ne!(one, other);
}

#[test]
fn urgent_tasks_are_shuffled_within_their_rank() {
    let rank = |number| {
        if number % 2 == 0 {
            Class::rt(60)
        } else {
            Class::rt(40)
        }
    };
    for seed in 0..5 {
        let shuffled = order(Some(seed), rank);
        assert_eq!(shuffled.len(), TASKS);
        let (higher, lower) = shuffled.split_at(TASKS / 2);
        assert!(higher.iter().all(|number| number % 2 == 0), "{shuffled:?}");
        assert!(lower.iter().all(|number| number % 2 == 1), "{shuffled:?}");
        assert!(!higher.is_sorted() && !lower.is_sorted(), "{shuffled:?}");
    }
}
