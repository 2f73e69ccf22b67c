//! What went wrong in the kernel's tree after its merge, each as a test of its own. Those that need two threads are in
//! `loom.rs`, and every order of their steps in `steps.rs`.

use super::super::{Deactivated, Duty, Step, Tree};
use super::{of_two, on_nodes, sleep, wake, walk};
use doorbell_machine::{Host, Ordering};

#[test]
fn t1_a_deadline_that_has_passed_is_met_once() {
    let tree = of_two(8);
    wake(&tree, &[0, 1, 2]);
    tree.note(7, 5);
    assert_eq!(tree.report(7), Duty::Nothing);
    // The timer was cancelled: the walk finds nothing to fire, and tells so all the same.
    assert_eq!(walk(&tree, 0, 6), [7]);
    assert_eq!(walk(&tree, 0, 6), []);
    assert_eq!(tree.next_ns(0), u64::MAX);
}

#[test]
fn t1_a_wrong_slot_of_a_branch_is_repaired_by_the_walk_that_meets_it() {
    let tree = of_two(8);
    tree.activate(0);
    let root = tree.branches.last().unwrap();
    // A climb that was stopped has left it.
    // ORDER: Relaxed; one thread.
    root.slots[1].store(5, Ordering::Relaxed);
    assert_eq!(tree.next_ns(0), 5);
    assert_eq!(walk(&tree, 0, 6), []);
    assert_eq!(tree.next_ns(0), u64::MAX);
}

#[test]
fn t1_a_wheel_that_cannot_be_entered_is_named_once_in_a_walk() {
    let tree = of_two(8);
    tree.activate(0);
    for worker in [3, 6] {
        tree.note(worker, 5);
        assert_eq!(tree.report(worker), Duty::Nothing);
    }
    let mut walk = tree.walk(0, 6);
    let found: Vec<Step> = (0..4).map(|_| walk.step()).collect();
    assert_eq!(
        found,
        [Step::Expire(3), Step::Expire(6), Step::Done, Step::Done]
    );
    assert_eq!(tree.next_ns(0), 5, "it comes back");
}

#[test]
fn t3_workers_that_begin_later_have_their_places() {
    // All levels are there before the first worker begins.
    let tree = of_two(8);
    tree.activate(0);
    assert_eq!(sleep(&tree, 0, 9), Deactivated::SleepUntil(9));
    for worker in (1..8).rev() {
        tree.activate(worker);
        assert_eq!(tree.next_ns(worker), 9, "worker {worker}");
        assert_eq!(sleep(&tree, worker, 10), Deactivated::Nothing);
    }
}

#[test]
fn t3_a_worker_that_goes_off_leaves_its_timers_to_others() {
    let tree = of_two(8);
    wake(&tree, &[0, 5]);
    tree.note(5, 7);
    assert_eq!(tree.set_aside(5), Duty::Nothing);
    assert_eq!(walk(&tree, 0, 7), [5]);
    tree.note(0, 8);
    assert_eq!(
        tree.set_aside(0),
        Duty::WakeBy(8),
        "all are off: one must come"
    );
}

#[test]
fn t4_equal_deadlines_of_two_workers_both_expire() {
    for others in [[1, 2], [2, 3], [3, 7], [6, 7]] {
        let tree = of_two(8);
        tree.activate(0);
        for worker in others {
            tree.note(worker, 5);
            assert_eq!(tree.report(worker), Duty::Nothing);
        }
        assert_eq!(walk(&tree, 0, 5), others);
    }
}

#[test]
fn t4_the_first_of_two_equal_deadlines_goes_and_the_other_stays() {
    let tree = of_two(8);
    tree.activate(0);
    for worker in [4, 6] {
        tree.note(worker, 5);
        assert_eq!(tree.report(worker), Duty::Nothing);
    }
    tree.activate(4);
    assert_eq!(tree.next_ns(4), 5, "of its sister branch");
    assert_eq!(sleep(&tree, 4, u64::MAX), Deactivated::Nothing);
    assert_eq!(tree.next_ns(0), 5);
}

#[test]
fn a_look_takes_the_least_of_all_levels() {
    for worker in 1..8 {
        let tree = of_two(8);
        tree.activate(0);
        for other in 1..8 {
            tree.note(other, if other == worker { 3 } else { 9 });
            assert_eq!(tree.report(other), Duty::Nothing);
        }
        assert_eq!(tree.next_ns(0), 3, "worker {worker}");
    }
}

#[test]
fn a_walk_ends_although_what_it_expires_is_armed_again_at_once() {
    let tree = Tree::<Host>::new(&on_nodes(&[0, 0, 1, 1, 2]));
    tree.activate(0);
    for worker in 1..5 {
        tree.note(worker, 5);
        assert_eq!(tree.report(worker), Duty::Nothing);
    }
    let mut walk = tree.walk(0, 6);
    let mut steps = 0;
    while let Step::Expire(worker) = walk.step() {
        tree.note(worker, 6);
        assert_eq!(tree.report(worker), Duty::Nothing);
        steps += 1;
    }
    assert_eq!(steps, 4);
}

#[test]
fn a_walk_goes_on_where_its_worker_is_the_migrator_no_longer() {
    let tree = of_two(4);
    tree.activate(0);
    tree.note(1, 5);
    assert_eq!(tree.report(1), Duty::Nothing);
    tree.note(3, 5);
    assert_eq!(tree.report(3), Duty::Nothing);
    let mut walk = tree.walk(0, 5);
    assert_eq!(walk.step(), Step::Expire(1));
    assert_eq!(tree.set_aside(0), Duty::WakeBy(5));
    assert_eq!(walk.step(), Step::Done, "another one comes");
}
