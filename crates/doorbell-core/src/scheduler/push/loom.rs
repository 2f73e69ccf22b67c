//! The overloaded words and the priority map in every interleaving: a task that is posted behind a poll, against the
//! worker that has it, and against a worker that lowers.

// What a model remembers with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Change, Cleared, Overloaded, OwnRank, PriorityMap, Push};
use crate::scheduler::idle::loom::nodes;
use crate::scheduler::idle::tests::{cores_of, set_of};
use crate::scheduler::{Placed, RemoteRef};
use crate::switches::RtPush;
use crate::testing::by_rank;
use crate::testing::model::{check, check_large, mutant};
use ::loom::thread;
use doorbell_machine::{Loom, Machine, Ordering, Word};
use std::sync::Arc;

/// The rank of a task that waits, and those of polls below and above it.
const RANK: u8 = 50;
const BELOW: u8 = 10;
const ABOVE: u8 = 95;

/// Workers of one group, and whether a task waits at the first of them.
struct Group {
    overloaded: Overloaded<Loom>,
    map: PriorityMap<Loom>,
    waiting: <Loom as Machine>::U32,
}

impl Group {
    fn new(workers: usize) -> Arc<Self> {
        let cores = cores_of(workers);
        Arc::new(Group {
            overloaded: Overloaded::new(&cores),
            map: PriorityMap::new(&cores),
            waiting: Word::new(0),
        })
    }

    /// All of these workers are inside polls of that rank.
    fn run(&self, workers: usize, rank: u8) -> Vec<OwnRank> {
        let own = |worker| {
            let own = self.map.own(worker);
            assert_eq!(self.map.publish(&own, rank), Change::Higher);
            own
        };
        (0..workers).map(own).collect()
    }

    /// Pushes the task to the first worker.
    fn push(&self) {
        self.waiting.fetch_or(1, Ordering::Relaxed);
    }

    fn still_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 1
    }

    /// The rank that waits at the first worker.
    fn what_waits(&self) -> u8 {
        RANK * u8::from(self.still_waits())
    }

    /// Whether a poster finds a worker that runs below the task.
    fn sees_lower(&self) -> bool {
        self.map.lowest_below(RANK, 0, |_| true).is_some()
    }

    /// A worker begins to run lower. Returns whether it learns that a task of a higher rank waits.
    fn lower(&self, worker: usize, own: &OwnRank) -> bool {
        assert_eq!(self.map.publish(own, BELOW), Change::Lower);
        self.overloaded.waits_above(worker, BELOW)
    }
}

/// A worker that has nothing waiting clears its byte while a task is posted to it: the byte is set then.
fn set_against_clear() {
    let it = Group::new(1);
    it.overloaded.set(0, RANK);
    let theirs = Arc::clone(&it);
    let worker = thread::spawn(move || {
        let _ = theirs.overloaded.clear(0, |_| theirs.what_waits());
    });
    it.push();
    it.overloaded.set(0, RANK);
    worker.join().unwrap();
    assert_eq!(
        it.overloaded.rank(0),
        RANK,
        "nobody would look at the worker"
    );
    assert_eq!(it.overloaded.count(), 1);
}

/// A worker takes the task and parks while the poster sets the byte: none stays behind.
fn set_against_the_end_of_the_task() {
    let remotes = by_rank(2, RtPush::default());
    let theirs = remotes[0].clone();
    let worker = thread::spawn(move || {
        let took = theirs.take_injected();
        theirs.scheduler().idle().enter(0);
        if push_of(&theirs).overloaded.rank(0) != 0 {
            let _ = theirs.scheduler().clear_overloaded(push_of(&theirs), 0);
        }
        took.is_some()
    });
    let (node, scheduler) = (nodes::boxed(), remotes[0].scheduler());
    // SAFETY: the node lives until the end of the model.
    let placed = unsafe { scheduler.post_by_rank(push_of(&remotes[0]), &remotes[0], node, RANK) };
    assert!(matches!(placed, Placed::Yes));
    let is_taken = worker.join().unwrap();
    let said = push_of(&remotes[0]).overloaded.rank(0);
    assert_eq!(
        said,
        if is_taken { 0 } else { RANK },
        "a byte without a task"
    );
    if !is_taken {
        assert!(remotes[0].take_injected().is_some());
    }
    // SAFETY: taken out.
    unsafe { node.as_ref() }.leave();
    nodes::free(node);
}

/// Two posters set bytes of one word while a third byte of it is cleared: the count is not zero while one is set, and
/// is right at the end.
fn three_at_one_word() {
    let it = Group::new(3);
    it.overloaded.set(2, RANK);
    let threads = [0, 2].map(|worker| {
        let it = Arc::clone(&it);
        thread::spawn(move || match worker {
            2 => assert_eq!(it.overloaded.clear(2, |_| 0), Cleared::Yes),
            _ => it.overloaded.set(worker, RANK),
        })
    });
    it.overloaded.set(1, RANK);
    assert!(it.overloaded.any(), "a byte is set and not counted");
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(it.overloaded.count(), 1);
    for worker in [0, 1] {
        assert_eq!(it.overloaded.clear(worker, |_| 0), Cleared::Yes);
    }
    assert!(!it.overloaded.any());
}

/// Two tasks are posted to one worker at the same moment: the higher rank stays.
fn two_ranks_at_one_worker() {
    let it = Group::new(1);
    let theirs = Arc::clone(&it);
    let other = thread::spawn(move || theirs.overloaded.set(0, RANK));
    it.overloaded.set(0, BELOW);
    assert!(it.overloaded.rank(0) >= BELOW);
    other.join().unwrap();
    assert_eq!((it.overloaded.rank(0), it.overloaded.count()), (RANK, 1));
}

/// A task is posted behind a poll while another worker begins to run lower: that worker learns of it, or the poster
/// sees the worker.
fn post_against_lower() {
    let it = Group::new(2);
    let own = it.run(2, ABOVE).remove(1);
    let theirs = Arc::clone(&it);
    let lowers = thread::spawn(move || theirs.lower(1, &own));
    it.push();
    it.overloaded.set(0, RANK);
    let sees = it.sees_lower();
    let learns = lowers.join().unwrap();
    assert!(sees || learns, "the task waits for a poll");
}

/// The same, of a worker that parks.
fn post_against_park() {
    let it = Group::new(2);
    let _owns = it.run(2, ABOVE);
    let idle = Arc::new(set_of::<Loom>(2));
    let (theirs, its) = (Arc::clone(&it), Arc::clone(&idle));
    let parks = thread::spawn(move || {
        its.enter(1);
        theirs.overloaded.waits_above(1, 0)
    });
    it.push();
    it.overloaded.set(0, RANK);
    let sees = idle.any();
    let learns = parks.join().unwrap();
    assert!(sees || learns, "the task waits for a poll");
}

/// As `post_against_lower`, while another poster makes the word nonzero: no poster relies on a count that is still to
/// come.
fn two_posts_against_lower() {
    let it = Group::new(3);
    let own = it.run(3, ABOVE).remove(2);
    let theirs = Arc::clone(&it);
    let lowers = thread::spawn(move || theirs.lower(2, &own));
    let theirs = Arc::clone(&it);
    let other = thread::spawn(move || theirs.overloaded.set(1, RANK));
    it.push();
    it.overloaded.set(0, RANK);
    let sees = it.sees_lower();
    let learns = lowers.join().unwrap();
    other.join().unwrap();
    assert!(sees || learns, "the task waits for a poll");
}

/// As `post_against_lower`, while the worker with the task clears its byte and sets it again: it looks too.
fn post_against_clear_and_lower() {
    let it = Group::new(2);
    let own = it.run(2, ABOVE).remove(1);
    it.overloaded.set(0, RANK);
    let theirs = Arc::clone(&it);
    let lowers = thread::spawn(move || theirs.lower(1, &own));
    let theirs = Arc::clone(&it);
    let clears = thread::spawn(move || {
        let cleared = theirs.overloaded.clear(0, |_| theirs.what_waits());
        cleared == Cleared::SetAgain && theirs.sees_lower()
    });
    it.push();
    it.overloaded.set(0, RANK);
    let sees = it.sees_lower();
    let learns = lowers.join().unwrap();
    let sees = clears.join().unwrap() || sees;
    assert!(sees || learns, "the task waits for a poll");
}

fn push_of(remote: &RemoteRef<Loom>) -> &Push<Loom> {
    let push = remote.scheduler().push();
    push.expect("tasks run by rank")
}

/// As `post_against_lower`, by the steps of a poster: it places the task at a worker that runs lower, or places it
/// anew.
fn place_against_lower() {
    let remotes = by_rank(2, RtPush::default());
    let its = push_of(&remotes[0]);
    let owns = [0, 1].map(|worker| its.map.own(worker));
    for own in &owns {
        assert_eq!(its.map.publish(own, ABOVE), Change::Higher);
    }
    let [_, own] = owns;
    let theirs = remotes[1].clone();
    let lowers = thread::spawn(move || {
        let push = push_of(&theirs);
        assert_eq!(push.map.publish(&own, BELOW), Change::Lower);
        push.overloaded.waits_above(1, BELOW)
    });
    let node = nodes::boxed();
    let scheduler = remotes[0].scheduler();
    // SAFETY: the node lives until the end of the model.
    let placed = unsafe { scheduler.post_by_rank(its, &remotes[0], node, RANK) };
    let learns = lowers.join().unwrap();
    let is_lower = remotes[1].has_injected() || matches!(placed, Placed::Behind(_));
    assert!(is_lower || learns, "the task waits for a poll");
    for remote in &remotes {
        if let Some((chain, _)) = remote.take_injected() {
            // SAFETY: taken out.
            unsafe { chain.pop().0.as_ref() }.leave();
        }
    }
    nodes::free(node);
}

/// A task is posted to a worker that runs lower, and that begins a poll of a higher rank: the worker sees the task, or
/// the poster sees that rank, and takes the task elsewhere.
fn post_against_higher() {
    let it = Group::new(1);
    let own = it.run(1, BELOW).remove(0);
    let theirs = Arc::clone(&it);
    let goes_up = thread::spawn(move || {
        assert_eq!(theirs.map.publish(&own, ABOVE), Change::Higher);
        theirs.still_waits()
    });
    it.push();
    it.overloaded.set(0, RANK);
    let sees = it.map.rank(0) >= RANK;
    assert!(goes_up.join().unwrap() || sees, "the task waits for a poll");
}

/// Two workers whose bytes are in one word change them at the same moment.
fn two_change_one_word() {
    let it = Group::new(2);
    let mut owns = it.run(2, ABOVE);
    let (second, first) = (owns.remove(1), owns.remove(0));
    let theirs = Arc::clone(&it);
    let other = thread::spawn(move || {
        let _ = theirs.map.publish(&second, BELOW);
        let _ = theirs.map.publish(&second, RANK);
    });
    let _ = it.map.publish(&first, BELOW);
    assert_eq!(it.map.rank(0), BELOW);
    other.join().unwrap();
    assert_eq!((it.map.rank(0), it.map.rank(1)), (BELOW, RANK));
}

#[test]
fn a_worker_with_a_task_waiting_is_in_the_set() {
    check(set_against_clear);
}

#[test]
fn a_byte_that_is_set_late_is_taken_back() {
    check(set_against_the_end_of_the_task);
}

#[test]
fn the_count_is_not_zero_while_a_byte_is_set() {
    check_large(three_at_one_word);
}

#[test]
fn of_two_ranks_at_one_worker_the_higher_stays() {
    check(two_ranks_at_one_worker);
}

#[test]
fn a_task_posted_while_a_worker_lowers_or_parks_is_seen() {
    check(post_against_lower);
    check(post_against_park);
}

#[test]
fn a_task_posted_beside_another_while_a_worker_lowers_is_seen() {
    check_large(two_posts_against_lower);
}

#[test]
fn a_task_posted_while_its_worker_clears_and_another_lowers_is_seen() {
    check_large(post_against_clear_and_lower);
}

#[test]
fn a_task_posted_while_its_worker_begins_to_run_higher_is_seen() {
    check(post_against_higher);
}

#[test]
fn a_task_placed_while_a_worker_lowers_goes_there_or_is_seen() {
    check(place_against_lower);
}

#[test]
fn two_workers_change_their_ranks_in_one_word() {
    check(two_change_one_word);
}

#[test]
fn mutant_clear_blind() {
    mutant!(PushClearBlind, set_against_clear);
}

#[test]
fn mutant_counts_late() {
    mutant!(PushCountsLate, two_posts_against_lower);
}

#[test]
fn mutant_no_post_fence() {
    mutant!(PushNoPostFence, post_against_lower);
}

#[test]
fn mutant_no_lower_fence() {
    mutant!(PushNoLowerFence, post_against_lower);
}

#[test]
fn mutant_no_second_look() {
    mutant!(PushNoSecondLook, place_against_lower);
}
