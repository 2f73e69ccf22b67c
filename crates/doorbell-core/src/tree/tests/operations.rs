//! Single operations: what they return, and what they write.

use super::super::word::State;
use super::super::{Deactivated, Duty, Tree};
use super::{of_two, on_nodes, sleep, tell, wake, walk};
use doorbell_machine::{Host, Ordering};

/// How often each branch's word was exchanged.
fn exchanges(tree: &Tree<Host>) -> Vec<u64> {
    let words = tree.branches.iter();
    // ORDER: Relaxed; one thread.
    words
        .map(|of| of.word.load(Ordering::Relaxed) >> 16)
        .collect()
}

#[test]
fn every_next_state_of_every_state() {
    for active in 0..=0xff_u64 {
        let migrators = (0..8)
            .filter(|child| active >> child & 1 != 0)
            .map(|child| 1 << child);
        let migrators: Vec<u64> = migrators.collect();
        let none = [0];
        let migrators = if active == 0 { &none[..] } else { &migrators };
        for &migrator in migrators {
            let state = State(u64::MAX << 16 | migrator << 8 | active);
            for (child, is_active) in (0..8).flat_map(|child| [(child, false), (child, true)]) {
                let next = state.next(child, is_active);
                let bit = 1 << child;
                assert_eq!(
                    next.active(),
                    if is_active {
                        active | bit
                    } else {
                        active & !bit
                    }
                );
                assert_eq!(next.0 >> 16, 0, "the sequence wraps around");
                let kept = state.migrator().filter(|child| next.holds(*child));
                assert_eq!(next.migrator().is_none(), next.is_empty());
                assert!(next.migrator().is_none_or(|child| next.holds(child)));
                assert!(
                    kept.is_none() || kept == next.migrator(),
                    "it changed for nothing"
                );
            }
        }
    }
}

#[test]
fn a_park_without_timers_is_one_exchange_and_so_is_a_wake() {
    let tree = Tree::<Host>::new(&on_nodes(&[0, 0, 0, 1]));
    wake(&tree, &[0, 1, 2, 3]);
    let before = exchanges(&tree);
    assert_eq!(tree.deactivate(1), Deactivated::Nothing);
    tree.activate(1);
    let after = exchanges(&tree);
    let made: Vec<u64> = after
        .iter()
        .zip(&before)
        .map(|(after, before)| after - before)
        .collect();
    assert_eq!(made, [2, 0, 0]);
    assert_eq!(tree.next_ns(0), u64::MAX);
}

#[test]
fn only_the_migrator_looks_after_sleepers() {
    let tree = Tree::<Host>::new(&on_nodes(&[0, 0, 0]));
    wake(&tree, &[1, 0, 2]);
    assert_eq!(sleep(&tree, 0, 5), Deactivated::Nothing);
    assert_eq!([tree.next_ns(1), tree.next_ns(2)], [5, u64::MAX]);
    assert_eq!(sleep(&tree, 1, 7), Deactivated::Nothing);
    assert_eq!(tree.next_ns(2), 5, "the next one took over");
    assert_eq!(walk(&tree, 2, 4), []);
    assert_eq!(walk(&tree, 2, 5), [0]);
    assert_eq!(tree.next_ns(2), 7);
    tree.activate(1);
    assert_eq!(tree.next_ns(2), u64::MAX, "it is awake");
}

#[test]
fn the_last_to_sleep_is_a_sentry_for_the_earliest_timer() {
    let tree = of_two(5);
    wake(&tree, &[0, 1, 2, 3, 4]);
    for (worker, next_wake_ns) in [(3, 7), (0, 9), (4, u64::MAX), (1, 8)] {
        assert_eq!(sleep(&tree, worker, next_wake_ns), Deactivated::Nothing);
    }
    assert_eq!(tree.next_ns(2), 7);
    assert_eq!(sleep(&tree, 2, u64::MAX), Deactivated::SleepUntil(7));
    tree.activate(2);
    assert_eq!(walk(&tree, 2, 8), [1, 3]);
    assert_eq!(tree.deactivate(2), Deactivated::SleepUntil(9));
}

#[test]
fn without_timers_everyone_sleeps() {
    let tree = of_two(5);
    wake(&tree, &[0, 1, 2, 3, 4]);
    let ends = (0..5).map(|worker| tree.deactivate(worker));
    assert_eq!(ends.collect::<Vec<_>>(), [Deactivated::Nothing; 5]);
}

/// Times of the sentry's word: it notes them in such units.
const UNIT_NS: u64 = 1 << 10;

#[test]
fn a_sentry_is_one_for_all_that_sleep_after_it() {
    let tree = of_two(8);
    tree.activate(0);
    let (early_ns, late_ns) = (4 * UNIT_NS, 9 * UNIT_NS);
    assert_eq!(sleep(&tree, 0, late_ns), Deactivated::SleepUntil(late_ns));
    for worker in 1..8 {
        tree.activate(worker);
        assert_eq!(
            sleep(&tree, worker, late_ns),
            Deactivated::Nothing,
            "worker {worker}"
        );
    }
    // One with an earlier timer relieves the first, and when it has woken nobody is known to wake for the first's.
    tree.activate(5);
    assert_eq!(sleep(&tree, 5, early_ns), Deactivated::SleepUntil(early_ns));
    tree.activate(5);
    assert_eq!(sleep(&tree, 5, late_ns), Deactivated::SleepUntil(late_ns));
    // The first one wakes for nothing, and leaves the other alone.
    tree.activate(0);
    assert_eq!(sleep(&tree, 0, late_ns), Deactivated::Nothing);
    tree.activate(5);
    assert_eq!(
        tree.deactivate(5),
        Deactivated::SleepUntil(late_ns),
        "it was awake itself"
    );
}

#[test]
fn a_time_too_far_for_the_word_covers_nothing() {
    // The word has 48 bits for the time.
    let last_ns = (1 << 58) - UNIT_NS - 1;
    for (at_ns, is_covered) in [
        (last_ns, true),
        (last_ns + UNIT_NS, false),
        (u64::MAX - 1, false),
    ] {
        let tree = of_two(3);
        tree.activate(0);
        assert_eq!(sleep(&tree, 0, at_ns), Deactivated::SleepUntil(at_ns));
        tree.activate(1);
        let slept = sleep(&tree, 1, at_ns);
        assert_eq!(slept == Deactivated::Nothing, is_covered, "{at_ns}");
    }
}

#[test]
fn a_timer_that_a_sentry_covers_wakes_nobody_else() {
    let tree = of_two(3);
    tree.activate(0);
    let at_ns = 5 * UNIT_NS;
    assert_eq!(sleep(&tree, 0, at_ns), Deactivated::SleepUntil(at_ns));
    assert_eq!(tell(&tree, 1, at_ns), Duty::Nothing);
    let earlier_ns = at_ns - 1;
    assert_eq!(tell(&tree, 1, earlier_ns), Duty::WakeBy(earlier_ns));
    assert_eq!(tree.set_aside(2), Duty::WakeBy(earlier_ns));
    assert_eq!(tell(&tree, 1, 7 * UNIT_NS), Duty::Nothing);
}

#[test]
fn everyone_aside_asks_for_one_that_is_awake() {
    let tree = of_two(3);
    tree.activate(0);
    tree.note(0, 6);
    assert_eq!(tree.set_aside(0), Duty::WakeBy(6));
    assert!(!tree.is_active(0));
    assert_eq!(tell(&tree, 0, 4), Duty::WakeBy(4));
    tree.activate(2);
    assert_eq!(tree.next_ns(2), 4);
    assert_eq!(tell(&tree, 0, 3), Duty::Nothing);
    assert_eq!(tree.next_ns(2), 3);
    tree.activate(0);
    assert_eq!(tree.next_ns(2), u64::MAX, "the stuck one is back");
}

#[test]
#[should_panic(expected = "a fan-out of 9")]
fn a_branch_has_eight_children_at_most() {
    let _ = Tree::<Host>::with_fanout(&on_nodes(&[0]), 9);
}

#[test]
#[should_panic(expected = "0 workers")]
fn a_tree_has_a_worker() {
    let _ = Tree::<Host>::new(&[]);
}
