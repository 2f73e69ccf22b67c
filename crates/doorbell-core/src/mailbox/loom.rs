//! Posters against a worker that idles, in every interleaving.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Posted, Pushed};
use crate::link::Node;
use crate::scheduler::RemoteRef;
use crate::switches::{CallCoalesce, IdleNotify, Switches};
use crate::testing::model::{check, check_large, join_all, mutant};
use crate::testing::{Idler, Inbox, Item, Log, post, remote, remote_with};
use crate::worker::Local;
use ::loom::thread::{self, JoinHandle};
use doorbell_machine::{Counter, Loom};
use std::ptr::NonNull;

type Machine = Loom;

/// Starts a poster of these entries; it asserts that the worker takes them.
fn poster(remote: &RemoteRef<Machine>, log: &Log, entries: &'static [u64]) -> JoinHandle<()> {
    let (remote, log) = (remote.clone(), log.clone());
    thread::spawn(move || {
        for entry in entries {
            assert_eq!(post(&remote, *entry, &log), Posted::Yes);
        }
    })
}

/// Posters of these entries against a worker that idles until it has them all.
fn posters_and_worker(
    switches: Switches,
    spins: bool,
    posters: &[&'static [u64]],
) -> RemoteRef<Machine> {
    let remote = remote_with::<Machine>(switches);
    let log = Log::default();
    let mut expected: Vec<u64> = posters.iter().flat_map(|p| p.to_vec()).collect();
    expected.sort_unstable();
    let local = Local::new(remote.clone());
    let idler = Idler::new(&local, spins);
    let threads: Vec<_> = posters.iter().map(|p| poster(&remote, &log, p)).collect();
    local.enter(|| idler.until(|| log.len() >= expected.len()));
    join_all(threads);
    log.assert_once_and_in_order(&expected);
    if switches == Switches::default() {
        idler.assert_rings_are_paid_for();
    }
    remote
}

fn one_poster() {
    posters_and_worker(Switches::default(), false, &[&[100, 101]]);
}

fn one_poster_and_a_spinning_worker() {
    posters_and_worker(Switches::default(), true, &[&[100, 101]]);
}

fn two_posters() {
    posters_and_worker(Switches::default(), false, &[&[100], &[200]]);
}

fn two_posters_and_a_spinning_worker() {
    posters_and_worker(Switches::default(), true, &[&[100], &[200]]);
}

fn two_posters_of_three() {
    posters_and_worker(Switches::default(), false, &[&[100, 101], &[200]]);
}

/// Each older behaviour loses nothing either.
fn switched(idle_notify: IdleNotify, call_coalesce: CallCoalesce) {
    let switches = Switches {
        idle_notify,
        call_coalesce,
        ..Switches::default()
    };
    let remote = posters_and_worker(switches, true, &[&[100], &[200]]);
    let rings = remote.counts().rings.get();
    assert!(rings <= 2, "{rings} rings for two posts");
}

fn idle_notify_off() {
    switched(IdleNotify::Off, CallCoalesce::On);
}

fn always_ring() {
    switched(IdleNotify::AlwaysRing, CallCoalesce::On);
}

fn ring_for_every_post() {
    switched(IdleNotify::On, CallCoalesce::Base);
}

/// One poster is stalled between push and bell, for ever. The other gets its post served all
/// the same, and the stalled one's with it if it was pushed before.
fn stalled_poster() {
    let remote = remote::<Machine>();
    let log = Log::default();
    let local = Local::new(remote.clone());
    let idler = Idler::new(&local, false);
    let (theirs, their_log) = (remote.clone(), log.clone());
    let stalled = thread::spawn(move || {
        let node = Item::<Machine>::boxed(100, &their_log);
        // SAFETY: as in `post`; the mailbox is open.
        let _: Pushed = unsafe { theirs.push_only(node) };
    });
    let other = poster(&remote, &log, &[200]);
    local.enter(|| {
        idler.until(|| log.has(200));
        join_all([stalled, other]);
        idler.until(|| log.has(100) || remote.mailbox_is_empty());
    });
    log.assert_once_and_in_order(&[100, 200]);
    idler.assert_rings_are_paid_for();
    let rings_for_stalled = remote.counts().rings_for_stalled.get();
    assert!(
        rings_for_stalled <= 1,
        "{rings_for_stalled} rings for a stalled poster by one post"
    );
}

/// A worker that closes while it is posted to: every node is delivered or comes back.
fn post_against_close() {
    let remote = remote::<Machine>();
    let log = Log::default();
    let threads = [&[100, 101][..], &[200]].map(|entries| {
        let (remote, log) = (remote.clone(), log.clone());
        thread::spawn(move || {
            let refused = entries.iter().filter(|entry| {
                let posted = post(&remote, **entry, &log);
                posted == Posted::Closed
            });
            let refused: Vec<u64> = refused.copied().collect();
            // Once closed, always closed.
            assert!(entries.ends_with(&refused));
            refused
        })
    });
    let inbox = Inbox::default();
    // SAFETY: this thread is the worker.
    let served = unsafe { remote.serve(&inbox) }.delivered;
    // SAFETY: as above.
    let last = unsafe { remote.close().deliver(&inbox) };
    assert_eq!(log.len() as u64, served + last);
    for thread in threads {
        for refused in thread.join().unwrap() {
            log.push(refused);
        }
    }
    log.assert_once_and_in_order(&[100, 101, 200]);
    assert!(remote.mailbox_is_empty());
}

/// Two threads push the same node at once: one succeeds, the other is told, and what was
/// pushed before is not lost with it.
fn twice_at_once() {
    let remote = remote::<Machine>();
    let log = Log::default();
    let inbox = Inbox::default();
    assert_eq!(post(&remote, 100, &log), Posted::Yes);
    let shared = Shared(Item::<Machine>::boxed(200, &log));
    let threads = [(); 2].map(|()| {
        let remote = remote.clone();
        thread::spawn(move || {
            let node = shared;
            // SAFETY: the item stays in place until this model ends; that it is pushed by two
            // is the point.
            unsafe { remote.push_only(node.0) }
        })
    });
    let found = threads.map(|thread| thread.join().unwrap());
    assert!(
        matches!(
            found,
            [Pushed::Behind, Pushed::Twice] | [Pushed::Twice, Pushed::Behind]
        ),
        "{found:?}"
    );
    // SAFETY: this thread is the worker.
    let _ = unsafe { remote.serve(&inbox) };
    assert_eq!(log.entries(), [100, 200]);
}

#[derive(Clone, Copy)]
struct Shared(NonNull<Node<Machine>>);

// SAFETY: the model that shares it delivers it after both threads have ended.
unsafe impl Send for Shared {}

#[test]
fn one_poster_is_served_in_order() {
    check(one_poster);
    check(one_poster_and_a_spinning_worker);
}

#[test]
fn w5_post_between_announce_and_park() {
    check_large(two_posters);
    check_large(two_posters_and_a_spinning_worker);
}

#[test]
fn two_posters_of_three_are_served_in_order() {
    check_large(two_posters_of_three);
}

#[test]
fn older_behaviours_lose_nothing() {
    check_large(idle_notify_off);
    check_large(always_ring);
    check_large(ring_for_every_post);
}

#[test]
fn w13_nobody_waits_behind_a_stalled_poster() {
    check(stalled_poster);
}

#[test]
fn d7_a_post_to_a_closing_worker_runs_or_comes_back() {
    check(post_against_close);
}

#[test]
fn q3_one_node_posted_by_two_threads() {
    check(twice_at_once);
}

#[test]
fn mutant_no_recheck() {
    mutant!(BellNoRecheck, two_posters);
}

#[test]
fn mutant_no_announce_fence() {
    mutant!(BellNoAnnounceFence, one_poster);
}

#[test]
fn mutant_no_recheck_fence() {
    mutant!(MailboxNoRecheckFence, one_poster);
}

#[test]
fn mutant_no_stalled_rule() {
    mutant!(MailboxNoStalledRule, stalled_poster);
}

#[test]
fn mutant_push_relaxed() {
    mutant!(MailboxPushRelaxed, two_posters);
}

#[test]
fn mutant_push_blind() {
    mutant!(MailboxPushBlind, two_posters);
}
