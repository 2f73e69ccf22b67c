//! The bell in every interleaving: announce, notify, park and ring.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Announced, Bell, Kick, Look, Notified, Signals};
use crate::class::Standing;
use crate::testing::model::{check, join_all, mutant};
use crate::wait::Waiter;
use ::loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use ::loom::thread;
use doorbell_machine::loom::LoomPoller;
use doorbell_machine::{Loom, Machine, ParkEnd, Parker, PollEvents, Poller};
use std::sync::Arc;

/// A bell, its parker, and what notifiers publish by it alone: each sets a flag without any
/// ordering of its own before it notifies.
struct Post {
    bell: Bell<Loom>,
    parker: <Loom as Machine>::Parker,
    poller: LoomPoller,
    /// Whether the worker sleeps in the poller, or is about to.
    polls: AtomicU32,
    flags: [AtomicU32; 2],
    /// Rings made; a std atomic, so that counting orders nothing.
    rings: std::sync::atomic::AtomicU32,
    /// Those in place of somebody of a lower class.
    helps: std::sync::atomic::AtomicU32,
}

impl Post {
    fn new() -> Arc<Self> {
        Arc::new(Post {
            bell: Bell::default(),
            parker: Parker::<Loom>::new(),
            poller: LoomPoller::default(),
            polls: AtomicU32::new(0),
            flags: [AtomicU32::new(0), AtomicU32::new(0)],
            rings: std::sync::atomic::AtomicU32::new(0),
            helps: std::sync::atomic::AtomicU32::new(0),
        })
    }

    fn notify(&self, flag: usize, kick: Kick) {
        self.notify_from(flag, kick, Standing::Level);
    }

    fn notify_from(&self, flag: usize, kick: Kick, from: Standing) {
        self.flags[flag].store(1, Relaxed);
        let count = match self.bell.notify(kick, from) {
            Notified::MustRing => &self.rings,
            Notified::MustHelp => &self.helps,
            _ => return,
        };
        count.fetch_add(1, Relaxed);
        self.ring();
    }

    /// Rings the worker where it sleeps.
    fn ring(&self) {
        if self.polls.load(Relaxed) == 1 {
            Poller::<Loom>::ring(&self.poller);
        } else {
            self.bell.ring(&self.parker);
        }
    }

    /// A notifier of a lower class that is suspended before it rings, and comes back no more.
    fn promise_from_below(&self) {
        if self.bell.notify(Kick::Take, Standing::Below) == Notified::MustRing {
            self.rings.fetch_add(1, Relaxed);
        }
    }

    fn flags_up(&self) -> usize {
        self.flags.iter().map(|f| f.load(Relaxed) as usize).sum()
    }

    /// Idles until `done` of what was signalled in all; returns that, and how many parks were
    /// announced.
    fn idle_until(&self, done: impl Fn(Signals) -> bool) -> (Signals, u32) {
        let (mut seen, mut parks) = (Signals::default(), 0);
        while !done(seen) {
            if self.bell.announce_spin() == Announced::Yes
                && !self.bell.signalled()
                && self.bell.announce_park() == Announced::Yes
            {
                parks += 1;
                let end = self.bell.park(&self.parker, None);
                assert!(matches!(end, ParkEnd::Rung | ParkEnd::Changed), "{end:?}");
            }
            seen = seen.and(self.bell.end_idle());
        }
        (seen, parks)
    }

    /// Parks in the poller unless it was told. It says so where a worker does that: in front of the second
    /// announcement, without a fence between the two.
    fn park_polling(&self) {
        if self.bell.announce_spin() == Announced::Signalled {
            return;
        }
        self.polls.store(1, Relaxed);
        if self.bell.announce_park() == Announced::Yes {
            let mut events = PollEvents::new();
            let _ = self.bell.park_polling(&self.poller, None, &mut events);
        }
    }

    /// Each announced park ended, and only by being told, so each has its one ring.
    fn assert_one_ring_per_park(&self, parks: u32) {
        assert_eq!(self.rings.load(Relaxed), parks);
    }
}

/// One worker, one notifier that wants a pass.
fn one_notifier() {
    let post = Post::new();
    let theirs = Arc::clone(&post);
    let notifier = thread::spawn(move || theirs.notify(0, Kick::Pass));
    let (seen, parks) = post.idle_until(|_| post.flags_up() == 1);
    notifier.join().unwrap();
    let seen = seen.and(post.bell.acknowledge());
    assert_eq!((seen.notified, seen.pass), (true, true));
    post.assert_one_ring_per_park(parks);
}

/// One worker, two notifiers: both are noticed, with what each published.
fn two_notifiers() {
    let post = Post::new();
    let threads = [0, 1].map(|flag| {
        let theirs = Arc::clone(&post);
        thread::spawn(move || theirs.notify(flag, Kick::Take))
    });
    let (_, parks) = post.idle_until(|_| post.flags_up() == 2);
    join_all(threads);
    post.assert_one_ring_per_park(parks);
}

/// A request for a pass is not lost among others that want none, whoever comes first.
fn pass_among_takes() {
    let post = Post::new();
    let threads = [Kick::Take, Kick::Pass].map(|kick| {
        let theirs = Arc::clone(&post);
        thread::spawn(move || theirs.notify((kick == Kick::Pass).into(), kick))
    });
    let (_, parks) = post.idle_until(|seen| seen.pass);
    join_all(threads);
    post.assert_one_ring_per_park(parks);
}

/// Of a worker's notifiers one is of a lower class and never comes to ring: the other one does, of
/// whichever class it is.
fn nobody_waits_for_one_below(other: Standing) {
    let post = Post::new();
    let (theirs, others) = (Arc::clone(&post), Arc::clone(&post));
    let threads = [
        thread::spawn(move || theirs.promise_from_below()),
        thread::spawn(move || others.notify_from(0, Kick::Pass, other)),
    ];
    let (_, parks) = post.idle_until(|_| post.flags_up() == 1);
    join_all(threads);
    let (rings, helps) = (post.rings.load(Relaxed), post.helps.load(Relaxed));
    assert!(rings <= parks && helps <= rings, "{rings}, {helps}");
}

fn not_below() {
    nobody_waits_for_one_below(Standing::Level);
}

fn also_below() {
    nobody_waits_for_one_below(Standing::Below);
}

/// The worker is parked, and one of a lower class has told it. Two others come: one of them rings.
fn two_above() {
    let post = Post::new();
    assert_eq!(post.bell.announce_spin(), Announced::Yes);
    assert_eq!(post.bell.announce_park(), Announced::Yes);
    post.promise_from_below();
    let threads = [0, 1].map(|flag| {
        let theirs = Arc::clone(&post);
        thread::spawn(move || theirs.notify(flag, Kick::Take))
    });
    let _ = post.bell.park(&post.parker, None);
    let _ = post.bell.end_idle();
    join_all(threads);
    let _ = post.bell.end_idle();
    assert_eq!(post.flags_up(), 2);
    assert!(post.helps.load(Relaxed) <= 1, "two rang in place of one");
}

/// One of a lower class and one that is not, and both ring if they must.
fn from_below_and_not() {
    let post = Post::new();
    let threads = [Standing::Below, Standing::Level].map(|from| {
        let theirs = Arc::clone(&post);
        thread::spawn(move || {
            theirs.notify_from((from == Standing::Below).into(), Kick::Take, from);
        })
    });
    let (_, parks) = post.idle_until(|_| post.flags_up() == 2);
    join_all(threads);
    post.assert_one_ring_per_park(parks);
    assert!(post.helps.load(Relaxed) <= parks);
}

/// The worker parks in a poller, for the first time, and is told by one of a lower class.
fn rung_in_its_poller() {
    let post = Post::new();
    let theirs = Arc::clone(&post);
    let notifier = thread::spawn(move || theirs.notify_from(0, Kick::Take, Standing::Below));
    while post.flags_up() == 0 {
        post.park_polling();
        let _ = post.bell.end_idle();
    }
    notifier.join().unwrap();
}

/// The same, and that one never comes to ring: another one helps, which has only looked.
fn helped_in_its_poller() {
    let post = Post::new();
    let theirs = Arc::clone(&post);
    let helper = thread::spawn(move || {
        let found = match theirs.bell.look() {
            Look::NotifiedFromBelow => theirs.bell.help(Standing::Level),
            _ => theirs.bell.notify(Kick::Take, Standing::Level),
        };
        if matches!(found, Notified::MustRing | Notified::MustHelp) {
            theirs.ring();
        }
    });
    let below = Arc::clone(&post);
    let promises = thread::spawn(move || below.promise_from_below());
    post.park_polling();
    let _ = post.bell.end_idle();
    join_all([helper, promises]);
}

/// One notifier that notifies twice, around a worker that idles twice: a late ring of the first
/// park does not end the second one without a word.
fn notified_twice() {
    let post = Post::new();
    let theirs = Arc::clone(&post);
    let notifier = thread::spawn(move || {
        theirs.notify(0, Kick::Take);
        theirs.notify(1, Kick::Pass);
    });
    let (_, first) = post.idle_until(|seen| seen.notified);
    let (_, second) = post.idle_until(|_| post.flags_up() == 2);
    notifier.join().unwrap();
    post.assert_one_ring_per_park(first + second);
}

/// A worker that goes on spinning clears what it saw and misses nothing that comes after.
fn acknowledge_while_spinning() {
    let post = Post::new();
    let theirs = Arc::clone(&post);
    let notifier = thread::spawn(move || {
        theirs.notify(0, Kick::Take);
        theirs.notify(1, Kick::Pass);
    });
    let mut seen = match post.bell.announce_spin() {
        Announced::Yes => post.bell.acknowledge(),
        Announced::Signalled => post.bell.end_idle(),
    };
    seen = seen.and(post.bell.end_idle());
    let (more, parks) = post.idle_until(|more| post.flags_up() == 2 && seen.and(more).pass);
    notifier.join().unwrap();
    let seen = seen.and(more).and(post.bell.acknowledge());
    assert_eq!((seen.notified, seen.pass), (true, true));
    post.assert_one_ring_per_park(parks);
}

/// A park that ends by its deadline while somebody notifies: what was signalled stays.
fn deadline_against_notify() {
    let post = Post::new();
    let theirs = Arc::clone(&post);
    let notifier = thread::spawn(move || theirs.notify(0, Kick::Pass));
    let (mut seen, mut parks) = (Signals::default(), 0);
    if post.bell.announce_spin() == Announced::Yes && post.bell.announce_park() == Announced::Yes {
        parks = 1;
        let end = post.bell.park(&post.parker, Some(1));
        assert!(
            matches!(end, ParkEnd::Deadline | ParkEnd::Changed),
            "{end:?}"
        );
    }
    seen = seen.and(post.bell.end_idle());
    notifier.join().unwrap();
    let seen = seen.and(post.bell.acknowledge());
    assert_eq!((seen.notified, seen.pass), (true, true));
    assert_eq!(post.flags_up(), 1);
    assert!(post.rings.load(Relaxed) <= parks);
}

/// The waiter of a thread that is no worker: a wake before, while or after it falls asleep.
fn waiter() {
    let waiter = Arc::new(Waiter::<Loom>::default());
    let flag = Arc::new(AtomicU32::new(0));
    let theirs = (Arc::clone(&waiter), Arc::clone(&flag));
    let notifier = thread::spawn(move || {
        theirs.1.store(1, Relaxed);
        theirs.0.notify();
    });
    while flag.load(Relaxed) == 0 {
        waiter.wait(1);
    }
    notifier.join().unwrap();
}

#[test]
fn one_notifier_is_never_missed() {
    check(one_notifier);
}

#[test]
fn two_notifiers_are_never_missed() {
    check(two_notifiers);
}

#[test]
fn a_pass_is_latched_among_takes() {
    check(pass_among_takes);
}

#[test]
fn w3_the_second_notification_publishes_too() {
    check(notified_twice);
}

#[test]
fn a_spinning_worker_misses_nothing() {
    check(acknowledge_while_spinning);
}

#[test]
fn w20_a_park_with_a_deadline_misses_nothing() {
    check(deadline_against_notify);
}

#[test]
fn w4_a_waiter_is_never_missed() {
    check(waiter);
}

#[test]
fn nobody_waits_for_the_ring_of_one_below() {
    check(not_below);
    check(also_below);
}

#[test]
fn one_of_two_rings_in_place_of_one_below() {
    check(two_above);
}

#[test]
fn one_from_below_and_one_that_is_not_are_never_missed() {
    check(from_below_and_not);
}

#[test]
fn who_rings_sees_where_the_worker_sleeps() {
    check(rung_in_its_poller);
    check(helped_in_its_poller);
}

#[test]
fn mutant_trusts_below() {
    mutant!(BellTrustsBelow, not_below);
}

#[test]
fn mutant_help_blind() {
    mutant!(BellHelpBlind, two_above);
}

#[test]
fn mutant_no_ring() {
    mutant!(BellNoRing, one_notifier);
}

#[test]
fn mutant_announce_blind() {
    mutant!(BellAnnounceBlind, pass_among_takes);
}
