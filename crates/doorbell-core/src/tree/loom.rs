//! The tree in the model checker: climbs of up to three threads, in every interleaving.

// The models' own threads and words.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::sentry::{Own, Sentry, Stood};
use super::{Deactivated, Duty, Step, Tree};
use crate::testing::model::{Shows, check, check_large, must_be_noticed_by, mutant};
use ::loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ::loom::thread;
use doorbell_machine::{Bug, Cpu, Loom};
use std::sync::Arc;

/// The sentry's word notes times in such units.
const UNIT_NS: u64 = 1 << 10;

/// A tree of one worker on each of these nodes.
fn tree(nodes: &[usize]) -> Arc<Tree<Loom>> {
    let cpu = |(worker, &node): (usize, &usize)| Cpu {
        node,
        llc: node,
        ..Cpu::flat(worker)
    };
    let cpus: Vec<Cpu> = nodes.iter().enumerate().map(cpu).collect();
    Arc::new(Tree::new(&cpus))
}

/// The worker falls asleep with a timer.
fn sleep(tree: &Tree<Loom>, worker: usize, next_wake_ns: u64) -> Deactivated {
    tree.note(worker, next_wake_ns);
    tree.deactivate(worker)
}

/// A visitor found that the first timer of a worker is due then.
fn tell(tree: &Tree<Loom>, worker: usize, next_wake_ns: u64) -> Duty {
    tree.note(worker, next_wake_ns);
    tree.report(worker)
}

/// The timers of two workers, and how many have fired. Of two that come for a timer one gets it.
struct Timers {
    due_ns: [AtomicU64; 2],
    fired: AtomicU64,
}

impl Timers {
    /// Stands for a visit of the wheel.
    fn expire(&self, worker: usize) {
        if self.due_ns[worker].swap(u64::MAX, Relaxed) != u64::MAX {
            self.fired.fetch_add(1, Relaxed);
        }
    }

    /// The third worker walks.
    fn walk(&self, tree: &Tree<Loom>) {
        let mut walk = tree.walk(2, 10);
        while let Step::Expire(worker) = walk.step() {
            self.expire(worker);
            assert_eq!(tell(tree, worker, u64::MAX), Duty::Nothing);
        }
    }
}

/// Two workers of one branch fall asleep, each with a timer, and one of them wakes again, while the migrator walks.
fn one_branch_and_a_walker() {
    let tree = tree(&[0, 0, 0]);
    for worker in [2, 0, 1] {
        tree.activate(worker);
    }
    let timers = Arc::new(Timers {
        due_ns: [AtomicU64::new(5), AtomicU64::new(7)],
        fired: AtomicU64::new(0),
    });
    let (its, theirs) = (Arc::clone(&tree), Arc::clone(&timers));
    let waker = thread::spawn(move || {
        assert_eq!(sleep(&its, 1, 7), Deactivated::Nothing);
        its.activate(1);
        theirs.expire(1);
        its.note(1, u64::MAX);
    });
    // The last thread, as in `a_look_against_a_sleeper`.
    let (its, theirs) = (Arc::clone(&tree), Arc::clone(&timers));
    let walker = thread::spawn(move || theirs.walk(&its));
    assert_eq!(sleep(&tree, 0, 5), Deactivated::Nothing);
    waker.join().unwrap();
    walker.join().unwrap();
    timers.walk(&tree);
    assert!(tree.is_active(1), "a report set a worker aside");
    assert_eq!(timers.fired.load(Relaxed), 2, "not each timer once");
    assert_eq!(tree.next_ns(2), u64::MAX, "met again without an end");
}

/// A migrator that sees a worker inactive sees its next wake.
fn a_look_against_a_sleeper() {
    let tree = tree(&[0, 0]);
    tree.activate(1);
    tree.activate(0);
    let its = Arc::clone(&tree);
    // The thread that looks is the second one: the checker forgets a look in front of a change by a later thread.
    let migrator = thread::spawn(move || {
        let sleeps = !its.is_active(0);
        let next_ns = its.next_ns(1);
        assert!(!sleeps || next_ns == 5, "the migrator does not see it");
    });
    assert_eq!(sleep(&tree, 0, 5), Deactivated::Nothing);
    migrator.join().unwrap();
    assert_eq!(tree.next_ns(1), 5);
}

/// The last workers of two branches fall asleep, each with a timer: one of them is a sentry for the earlier one.
fn two_branches_and_a_root() {
    let tree = tree(&[0, 1]);
    tree.activate(0);
    tree.activate(1);
    let its = Arc::clone(&tree);
    let other = thread::spawn(move || sleep(&its, 1, 7 * UNIT_NS));
    let mine = sleep(&tree, 0, 5 * UNIT_NS);
    let both = [mine, other.join().unwrap()];
    let sentries = both
        .iter()
        .filter(|end| **end == Deactivated::SleepUntil(5 * UNIT_NS));
    assert_eq!(sentries.count(), 1, "nobody wakes in time: {both:?}");
    assert!(both.contains(&Deactivated::Nothing), "two wake");
}

/// The last worker of a branch falls asleep while another one of it wakes; the news of either may come first to the
/// root.
fn a_sleeper_against_a_waker() {
    let tree = tree(&[0, 0, 1]);
    tree.activate(0);
    let its = Arc::clone(&tree);
    let sleeper = thread::spawn(move || {
        let _ = sleep(&its, 0, 5);
    });
    tree.activate(1);
    sleeper.join().unwrap();
    assert_eq!(tree.next_ns(1), 5, "the branch is looked after");
    tree.activate(2);
    // The root's migrator is the branch of worker 1, not that of worker 2.
    assert_eq!(tree.next_ns(2), u64::MAX, "an active branch is not shown");
}

/// Visitors of the wheels of two workers of a branch find a timer each: a migrator elsewhere sees the earlier one.
fn two_new_timers() {
    let tree = tree(&[0, 0, 1]);
    tree.activate(2);
    let its = Arc::clone(&tree);
    let other = thread::spawn(move || assert_eq!(tell(&its, 1, 7), Duty::Nothing));
    assert_eq!(tell(&tree, 0, 5), Duty::Nothing);
    other.join().unwrap();
    assert_eq!(tree.next_ns(2), 5, "the migrator does not see it");
}

/// Three climbs at once: a worker falls asleep, another one of its branch wakes and sleeps again, and the worker
/// of another branch falls asleep.
fn three_at_once() {
    let tree = tree(&[0, 0, 1]);
    tree.activate(0);
    tree.activate(2);
    let its = Arc::clone(&tree);
    let sleeper = thread::spawn(move || sleep(&its, 0, 5 * UNIT_NS));
    let its = Arc::clone(&tree);
    let waker = thread::spawn(move || {
        its.activate(1);
        sleep(&its, 1, 7 * UNIT_NS)
    });
    let mine = sleep(&tree, 2, 9 * UNIT_NS);
    let both = [sleeper.join().unwrap(), waker.join().unwrap()];
    let all = [both[0], both[1], mine];
    let sentries = all
        .iter()
        .filter(|end| **end == Deactivated::SleepUntil(5 * UNIT_NS));
    assert_eq!(sentries.count(), 1, "nobody wakes in time: {all:?}");
    tree.activate(2);
    assert_eq!(tree.next_ns(2), 5 * UNIT_NS, "the migrator does not see it");
}

/// A visitor that was set aside finds an earlier timer while the last worker falls asleep. `branches` are those of the
/// visited worker and of that one.
fn a_new_timer_against_a_sleeper(branches: &[usize; 2]) {
    let tree = tree(branches);
    tree.activate(1);
    let its = Arc::clone(&tree);
    let stuck = thread::spawn(move || tell(&its, 0, 3 * UNIT_NS));
    let slept = sleep(&tree, 1, 9 * UNIT_NS);
    let told = stuck.join().unwrap();
    let is_sentry = slept == Deactivated::SleepUntil(3 * UNIT_NS);
    assert!(
        is_sentry || told == Duty::WakeBy(3 * UNIT_NS),
        "nobody wakes in time: {slept:?}, {told:?}"
    );
}

/// Both are in one branch.
fn a_new_timer_against_the_last_to_sleep() {
    a_new_timer_against_a_sleeper(&[0, 0]);
}

/// Each is in a branch of its own.
fn a_new_timer_elsewhere_against_the_last_to_sleep() {
    a_new_timer_against_a_sleeper(&[0, 1]);
}

/// A stuck worker's poll ends while it is set aside: it is active, or sees that it is not.
fn the_end_of_a_poll_against_the_report() {
    let tree = tree(&[0, 1]);
    tree.activate(0);
    tree.note(1, 5 * UNIT_NS);
    assert_eq!(tree.report(1), Duty::Nothing);
    let its = Arc::clone(&tree);
    let watchdog = thread::spawn(move || its.set_aside(0));
    tree.activate(0);
    let told = watchdog.join().unwrap();
    if tree.is_active(0) {
        assert_eq!(tree.next_ns(0), 5 * UNIT_NS, "it looks after nobody");
    } else {
        assert_eq!(told, Duty::WakeBy(5 * UNIT_NS), "nobody wakes in time");
    }
}

/// A sentry wakes and sleeps again while the last worker falls asleep: one of the two is a sentry then.
fn a_sentry_that_wakes_against_the_last_to_sleep() {
    let tree = tree(&[0, 1]);
    tree.activate(0);
    assert_eq!(
        sleep(&tree, 0, 5 * UNIT_NS),
        Deactivated::SleepUntil(5 * UNIT_NS)
    );
    tree.activate(1);
    let its = Arc::clone(&tree);
    let sentry = thread::spawn(move || {
        its.activate(0);
        its.deactivate(0)
    });
    let mine = sleep(&tree, 1, 9 * UNIT_NS);
    let both = [mine, sentry.join().unwrap()];
    let sentries = both
        .iter()
        .filter(|end| **end == Deactivated::SleepUntil(5 * UNIT_NS));
    assert_eq!(sentries.count(), 1, "nobody wakes in time: {both:?}");
}

/// The sentry of two workers.
fn sentry() -> Arc<(Sentry<Loom>, [Own<Loom>; 2])> {
    Arc::new((Sentry::new(), [Own::new(), Own::new()]))
}

/// Two workers find at once that the tree is empty.
fn two_sentries_at_once() {
    let it = sentry();
    let theirs = Arc::clone(&it);
    let other = thread::spawn(move || theirs.0.stand(&theirs.1[1], 1, 5));
    let mine = it.0.stand(&it.1[0], 0, 5);
    let both = [mine, other.join().unwrap()];
    assert!(both.contains(&Stood::Yes));
    assert_ne!(both, [Stood::Yes; 2], "two sentries for one time");
    assert!(it.0.covers(5));
    let sentry = usize::from(mine != Stood::Yes);
    it.0.leave(&it.1[sentry], sentry);
    assert!(!it.0.covers(u64::MAX - 1));
}

/// A sentry wakes while another worker relieves it, for an earlier time: that one stays.
fn a_sentry_leaves_while_another_relieves_it() {
    let it = sentry();
    assert_eq!(it.0.stand(&it.1[1], 1, 7 * UNIT_NS), Stood::Yes);
    let theirs = Arc::clone(&it);
    let other = thread::spawn(move || theirs.0.leave(&theirs.1[1], 1));
    assert_eq!(it.0.stand(&it.1[0], 0, 5 * UNIT_NS), Stood::Yes);
    other.join().unwrap();
    assert!(it.0.covers(5 * UNIT_NS), "a sentry was lost");
    it.0.leave(&it.1[0], 0);
    assert!(!it.0.covers(u64::MAX - 1), "one stays that is awake");
}

/// A sentry wakes and is one again while another worker would be one.
fn a_sentry_stands_again_while_another_would() {
    let it = sentry();
    assert_eq!(it.0.stand(&it.1[1], 1, 5), Stood::Yes);
    let theirs = Arc::clone(&it);
    let other = thread::spawn(move || theirs.0.stand(&theirs.1[0], 0, 5));
    it.0.leave(&it.1[1], 1);
    let again = it.0.stand(&it.1[1], 1, 5);
    let both = [again, other.join().unwrap()];
    assert_ne!(both, [Stood::Yes; 2], "two sentries for one time");
    assert!(it.0.covers(5));
}

#[test]
fn each_timer_of_two_sleepers_fires_once_beside_a_walker() {
    check(one_branch_and_a_walker);
}

#[test]
fn who_sees_a_worker_inactive_sees_its_next_wake() {
    check(a_look_against_a_sleeper);
}

#[test]
fn of_two_branches_that_fall_asleep_one_worker_is_a_sentry() {
    check(two_branches_and_a_root);
}

#[test]
fn of_three_that_sleep_and_wake_one_is_a_sentry() {
    check_large(three_at_once);
}

#[test]
fn news_of_a_sleeper_and_a_waker_reach_the_root_in_any_order() {
    check(a_sleeper_against_a_waker);
}

#[test]
fn of_two_new_timers_the_earlier_one_reaches_the_root() {
    check(two_new_timers);
}

#[test]
fn a_new_timer_is_seen_by_the_last_to_sleep_or_wakes_one() {
    check(a_new_timer_against_the_last_to_sleep);
    check(a_new_timer_elsewhere_against_the_last_to_sleep);
}

#[test]
fn a_worker_that_is_set_aside_at_the_end_of_its_poll_knows_it() {
    check(the_end_of_a_poll_against_the_report);
}

#[test]
fn a_worker_whose_poll_ends_while_it_is_set_aside_needs_the_sequence() {
    let test = "tree::loom::a_worker_whose_poll_ends_while_it_is_set_aside_needs_the_sequence";
    must_be_noticed_by(
        test,
        Shows::Assertion("it looks after nobody"),
        Bug::TreeNoSequence,
        the_end_of_a_poll_against_the_report,
    );
}

#[test]
fn a_sentry_that_wakes_leaves_nobody_behind() {
    check(a_sentry_that_wakes_against_the_last_to_sleep);
}

#[test]
fn of_two_sentries_one_stands() {
    check(two_sentries_at_once);
    check(a_sentry_leaves_while_another_relieves_it);
    check(a_sentry_stands_again_while_another_would);
}

#[test]
fn mutant_no_sequence() {
    mutant!(TreeNoSequence, a_sleeper_against_a_waker);
}

#[test]
fn mutant_climb_blind() {
    mutant!(TreeClimbBlind, a_sleeper_against_a_waker);
}

#[test]
fn mutant_stops_early() {
    mutant!(TreeStopsEarly, a_new_timer_against_the_last_to_sleep);
}

#[test]
fn mutant_report_blind() {
    mutant!(TreeReportBlind, one_branch_and_a_walker);
}

#[test]
fn mutant_sentry_blind() {
    mutant!(TreeSentryBlind, two_sentries_at_once);
}

#[test]
fn mutant_sentry_stays() {
    mutant!(
        TreeSentryStays,
        a_sentry_that_wakes_against_the_last_to_sleep
    );
}
