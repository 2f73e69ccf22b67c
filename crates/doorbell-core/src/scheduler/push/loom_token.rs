//! The push token in every interleaving: no tell is lost.

// What a model remembers with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{End, PushToken, Told};
use crate::testing::model::{check, check_large, mutant};
use ::loom::thread;
use doorbell_machine::{Loom, Machine, Ordering, Word};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A token, which of two workers park, and whose parking a look has seen since it told.
struct Workers {
    token: PushToken<Loom>,
    parks: [<Loom as Machine>::U32; 2],
    seen: [AtomicBool; 2],
}

impl Workers {
    /// The caller holds the token.
    fn new() -> Arc<Self> {
        let it = Workers {
            token: PushToken::default(),
            parks: [0; 2].map(Word::new),
            seen: [false; 2].map(AtomicBool::new),
        };
        assert_eq!(it.token.tell(), Told::Holder, "it was free");
        Arc::new(it)
    }

    /// A worker announces that it parks, tells, and does what follows.
    fn park(&self, worker: usize) {
        self.parks[worker].fetch_or(1, Ordering::Relaxed);
        <Loom as Machine>::fence_announce();
        if self.token.tell() == Told::Holder {
            self.hold();
        }
    }

    /// Makes rounds until the token is free.
    fn hold(&self) {
        loop {
            self.token.begin_round();
            self.look();
            if self.token.end() == End::Ended {
                return;
            }
        }
    }

    /// Makes one round, gives up, and looks once more.
    fn hold_once(&self) {
        self.token.begin_round();
        self.token.give_up();
        self.look();
    }

    fn look(&self) {
        for (parks, seen) in self.parks.iter().zip(&self.seen) {
            if parks.load(Ordering::Relaxed) == 1 {
                seen.store(true, Ordering::Relaxed);
            }
        }
    }

    /// All threads are done: a look has seen what this worker told.
    #[track_caller]
    fn assert_seen(&self, worker: usize) {
        let seen = self.seen[worker].load(Ordering::Relaxed);
        assert!(seen, "a tell was lost");
        assert!(!self.token.is_held(), "a hold has no end");
    }
}

/// A worker tells while the holder does that.
fn tell_against(holds: fn(&Workers)) {
    let it = Workers::new();
    let theirs = Arc::clone(&it);
    let holder = thread::spawn(move || holds(&theirs));
    it.park(0);
    holder.join().unwrap();
    it.assert_seen(0);
}

/// Two workers tell while the holder does that.
fn two_tell_against(holds: fn(&Workers)) {
    let it = Workers::new();
    let theirs = Arc::clone(&it);
    let holder = thread::spawn(move || holds(&theirs));
    let theirs = Arc::clone(&it);
    let other = thread::spawn(move || theirs.park(1));
    it.park(0);
    holder.join().unwrap();
    other.join().unwrap();
    it.assert_seen(0);
    it.assert_seen(1);
}

fn tell_against_end() {
    tell_against(Workers::hold);
}

fn tell_against_give_up() {
    tell_against(Workers::hold_once);
}

#[test]
fn no_tell_is_lost_at_the_end_of_a_hold() {
    check(tell_against_end);
}

#[test]
fn no_tell_of_two_is_lost_at_the_end_of_a_hold() {
    check_large(|| two_tell_against(Workers::hold));
}

#[test]
fn no_tell_is_lost_where_the_holder_gives_up() {
    check(tell_against_give_up);
}

#[test]
fn no_tell_of_two_is_lost_where_the_holder_gives_up() {
    check_large(|| two_tell_against(Workers::hold_once));
}

#[test]
fn mutant_end_blind() {
    mutant!(PushEndBlind, tell_against_end);
}

#[test]
fn mutant_gives_up_blind() {
    mutant!(PushGivesUpBlind, tell_against_give_up);
}
