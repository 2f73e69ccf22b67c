//! Searches that are counted and that end, in every interleaving.

// The models' own threads and words.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::tests::set_of;
use super::{IdleSet, Left, Search, Searching, Wish};
use crate::testing::model::check;
use ::loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use ::loom::thread;
use doorbell_machine::{Loom, Machine, Word};
use std::sync::Arc;

/// An idle set of two workers, and a word that is written before a search is counted. In a model a
/// read-modify-write never reads an old count, but a load may read an old word: it stands for the count.
struct Counted {
    set: IdleSet<Loom>,
    counts: AtomicU32,
}

impl Counted {
    /// The second worker is idle.
    fn new() -> Arc<Self> {
        let it = Counted {
            set: set_of(2),
            counts: AtomicU32::new(0),
        };
        it.set.enter(1);
        Arc::new(it)
    }

    fn claim(&self) {
        self.counts.store(1, Relaxed);
        let _ = self.set.claim(Wish::of(0), |_| true);
    }

    /// By who ends a search.
    #[track_caller]
    fn assert_counted(&self) {
        assert_eq!(self.counts.load(Relaxed), 1, "over before it was counted");
    }

    /// A watchdog lets the search of the second worker lapse, if there is one.
    fn lapse(&self) {
        if self.set.lapse(1).is_some() {
            self.assert_counted();
        }
    }
}

/// A worker that is claimed ends its search.
fn claim_against_end() {
    let it = Counted::new();
    let theirs = Arc::clone(&it);
    let waker = thread::spawn(move || theirs.claim());
    if it.set.leave(1) == Left::Claimed {
        let _ = it.set.end_search(1);
        it.assert_counted();
    }
    waker.join().unwrap();
}

/// A claim lapses.
fn claim_against_lapse() {
    let it = Counted::new();
    let theirs = Arc::clone(&it);
    // Who looks comes second, here and below: the checker forgets a look that comes before that of who
    // changes the word.
    let watchdog = thread::spawn(move || theirs.lapse());
    it.claim();
    watchdog.join().unwrap();
}

/// A search lapses that a worker has begun by itself.
fn begin_against_lapse() {
    let it = Counted::new();
    let theirs = Arc::clone(&it);
    let watchdog = thread::spawn(move || theirs.lapse());
    it.counts.store(1, Relaxed);
    assert_eq!(it.set.begin_search(1), Search::Begun);
    watchdog.join().unwrap();
}

/// A worker that was claimed begins to search by itself while the claim lapses: who relied on either is seen to.
fn begin_against_lapse_of_a_claim() {
    let set = Arc::new(set_of::<Loom>(3));
    set.enter(1);
    assert_eq!(set.claim(Wish::of(0), |_| true), Some(1));
    let theirs = Arc::clone(&set);
    let watchdog = thread::spawn(move || theirs.lapse(1));
    assert_eq!(set.begin_search(1), Search::Begun);
    let ended = set.end_search(1) == Searching::None;
    let lapsed = watchdog.join().unwrap() == Some(Searching::None);
    assert!(ended || lapsed, "nobody ended the last search");
    assert!(!set.anyone_searches());
}

/// A waker claims nobody: the idle worker that it has seen leaves by itself. Meanwhile a busy worker has work
/// and wakes nobody, since that waker is counted as searching, and a third worker falls asleep.
fn vain_claim() {
    let set = Arc::new(set_of::<Loom>(3));
    let work = Arc::new(<Loom as Machine>::U32::new(0));
    set.enter(1);
    let (theirs, its) = (Arc::clone(&set), Arc::clone(&work));
    let sleeper = thread::spawn(move || {
        theirs.enter(2);
        // ORDER: Relaxed; after the fence of `enter`.
        doorbell_machine::Word::load(&*its, Relaxed) == 1
    });
    let (theirs, its) = (Arc::clone(&set), Arc::clone(&work));
    let busy = thread::spawn(move || {
        // ORDER: Relaxed; the fence after it orders it.
        doorbell_machine::Word::swap(&*its, 1, Relaxed);
        <Loom as Machine>::fence_recheck();
        // It would claim one.
        theirs.any() && !theirs.anyone_searches()
    });
    let leaves = |worker| {
        if worker == 1 {
            let _ = set.leave(1);
        }
        true
    };
    let claimed = set.claim_as_first(Wish::of(0), leaves);
    let sees = sleeper.join().unwrap();
    let asks = busy.join().unwrap();
    let is_told = claimed == Some(2) || asks;
    assert!(sees || is_told, "a worker sleeps while another has work");
}

#[test]
fn a_claimed_worker_that_ends_its_search_was_counted() {
    check(claim_against_end);
}

#[test]
fn a_search_that_lapses_was_counted() {
    check(claim_against_lapse);
    check(begin_against_lapse);
}

#[test]
fn a_search_that_begins_while_a_claim_lapses_is_counted_anew() {
    check(begin_against_lapse_of_a_claim);
}

#[test]
fn a_claim_in_vain_looks_again_for_those_who_relied_on_it() {
    check(vain_claim);
}
