//! The push token in every interleaving: no tell is lost, and a holder that was late does no harm.

// What a model remembers with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{End, Generation, PushToken, Round, Told};
use crate::testing::model::{check, check_large, mutant};
use ::loom::thread;
use doorbell_machine::{Loom, Machine, Ordering, Word};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A token, which of two workers have lowered, and whose lowering some round has seen.
struct Workers {
    token: PushToken<Loom>,
    lowered: [<Loom as Machine>::U32; 2],
    seen: [AtomicBool; 2],
}

impl Workers {
    /// The caller holds the token.
    fn new() -> (Arc<Self>, Generation) {
        let it = Workers {
            token: PushToken::default(),
            lowered: [0; 2].map(Word::new),
            seen: [false; 2].map(AtomicBool::new),
        };
        let Told::Holder(own) = it.token.tell() else {
            unreachable!("it was free");
        };
        (Arc::new(it), own)
    }

    /// A worker lowers, tells, and does what follows.
    fn lower(&self, worker: usize) {
        self.lowered[worker].fetch_or(1, Ordering::Relaxed);
        <Loom as Machine>::fence_announce();
        if let Told::Holder(own) = self.token.tell() {
            self.hold(own);
        }
    }

    /// Makes rounds until the token is free, or lost. Returns whether it ended by itself.
    fn hold(&self, own: Generation) -> bool {
        while self.token.begin_round(own) == Round::Begun {
            self.look();
            match self.token.end(own) {
                End::Ended => return true,
                End::Again => {}
                End::Lost => return false,
            }
        }
        false
    }

    fn look(&self) {
        for (lowered, seen) in self.lowered.iter().zip(&self.seen) {
            if lowered.load(Ordering::Relaxed) == 1 {
                seen.store(true, Ordering::Relaxed);
            }
        }
    }

    /// All threads are done: a round has seen what this worker told.
    #[track_caller]
    fn assert_seen(&self, worker: usize) {
        let seen = self.seen[worker].load(Ordering::Relaxed);
        assert!(seen, "a tell was lost");
        assert_eq!(self.token.holder(), None, "a hold has no end");
    }
}

/// A worker tells while the holder ends.
fn tell_against_end() {
    let (it, own) = Workers::new();
    let theirs = Arc::clone(&it);
    let holder = thread::spawn(move || theirs.hold(own));
    it.lower(0);
    assert!(holder.join().unwrap(), "nobody took it over");
    it.assert_seen(0);
}

/// Two workers tell while the holder ends.
fn two_tell_against_end() {
    let (it, own) = Workers::new();
    let theirs = Arc::clone(&it);
    let holder = thread::spawn(move || theirs.hold(own));
    let theirs = Arc::clone(&it);
    let other = thread::spawn(move || theirs.lower(1));
    it.lower(0);
    assert!(holder.join().unwrap(), "nobody took it over");
    other.join().unwrap();
    it.assert_seen(0);
    it.assert_seen(1);
}

/// The token is taken over from a holder that was late, and goes on: that one learns of it at its next step, and the
/// new holder keeps the token until it ends.
fn take_over_against_a_late_holder() {
    let (it, late) = Workers::new();
    assert_eq!(it.token.begin_round(late), Round::Begun);
    let theirs = Arc::clone(&it);
    let holder = thread::spawn(move || {
        let ended = theirs.token.end(late);
        assert_ne!(ended, End::Again, "nobody told it");
        assert_eq!(theirs.token.begin_round(late), Round::Lost);
    });
    let Told::Holder(own) = it.token.take_over(late) else {
        unreachable!("nobody else tells");
    };
    assert!(it.hold(own), "a late holder took the token away");
    holder.join().unwrap();
    assert_eq!(it.token.holder(), None, "a hold has no end");
}

/// The same, while another worker tells: the late holder does not take that tell.
fn take_over_and_a_tell_against_a_late_holder() {
    let (it, late) = Workers::new();
    let theirs = Arc::clone(&it);
    let holder = thread::spawn(move || {
        // Its round goes on for long: a next one does not come.
        let _ = theirs.token.begin_round(late);
    });
    let theirs = Arc::clone(&it);
    let teller = thread::spawn(move || theirs.lower(1));
    let Told::Holder(own) = it.token.take_over(late) else {
        unreachable!("the late holder does not end");
    };
    assert!(it.hold(own), "a late holder took the token away");
    holder.join().unwrap();
    teller.join().unwrap();
    it.assert_seen(1);
}

#[test]
fn no_tell_is_lost_at_the_end_of_a_hold() {
    check(tell_against_end);
}

#[test]
fn no_tell_of_two_is_lost_at_the_end_of_a_hold() {
    check_large(two_tell_against_end);
}

#[test]
fn a_late_holder_learns_that_the_token_was_taken_over() {
    check(take_over_against_a_late_holder);
}

#[test]
fn a_late_holder_takes_no_tell_of_the_next_one() {
    check_large(take_over_and_a_tell_against_a_late_holder);
}

#[test]
fn mutant_end_blind() {
    mutant!(PushEndBlind, tell_against_end);
}

#[test]
fn mutant_late_ends() {
    mutant!(PushLateEnds, take_over_against_a_late_holder);
}

#[test]
fn mutant_late_begins() {
    mutant!(PushLateBegins, take_over_and_a_tell_against_a_late_holder);
}
