//! Mailbox and remote half on this computer: order, refusals, and the rings of every switch.

// Tests on real threads, outside of any model.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod rings;

use super::{Mailbox, Posted, Pushed};
use crate::link::{Delivered, Node};
use crate::scheduler::Member;
use crate::testing::{Inbox, Item, Log, post, remote};
use doorbell_machine::{Counter, Host, Spun};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// Takes and delivers, as the worker.
fn serve(remote: &Member<Host>, inbox: &Inbox<Host>) -> u64 {
    // SAFETY: in these tests the thread that serves is the worker.
    unsafe { remote.serve(inbox) }.delivered
}

#[test]
fn miri_a_mailbox_is_first_in_first_out() {
    let (mailbox, inbox, log) = (Mailbox::<Host>::default(), Inbox::default(), Log::default());
    for round in 0..3 {
        assert!(mailbox.is_empty());
        // SAFETY: items stay in place until delivered; so in all of this test.
        assert_eq!(unsafe { mailbox.take().deliver(&inbox) }, 0);
        for i in 0..4 {
            let expected = if i == 0 {
                Pushed::First
            } else {
                Pushed::Behind
            };
            // SAFETY: as above.
            let pushed = unsafe { mailbox.push(Item::boxed(round * 10 + i, &log)) };
            assert_eq!(pushed, expected);
            assert!(!mailbox.is_empty());
        }
        // SAFETY: as above.
        assert_eq!(unsafe { mailbox.take().deliver(&inbox) }, 4);
    }
    log.assert_once_and_in_order(&[0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]);
}

#[test]
fn miri_q6_a_mailbox_closes_with_any_number_inside() {
    for inside in 0..4_u64 {
        let (mailbox, inbox, log) = (Mailbox::<Host>::default(), Inbox::default(), Log::default());
        for entry in 0..inside {
            // SAFETY: items stay in place until delivered.
            let _ = unsafe { mailbox.push(Item::boxed(entry, &log)) };
        }
        // SAFETY: as above.
        assert_eq!(unsafe { mailbox.close().deliver(&inbox) }, inside);
        assert_eq!(log.entries(), (0..inside).collect::<Vec<_>>());
        assert!(mailbox.is_empty());
        // Closing, taking and posting again change nothing.
        for _ in 0..2 {
            assert!(mailbox.close().is_empty());
            assert!(mailbox.take().is_empty());
            let late = Item::<Host>::boxed(9, &log);
            // SAFETY: as above.
            assert_eq!(unsafe { mailbox.push(late) }, Pushed::Closed);
            // SAFETY: the node is ours again.
            assert_eq!(unsafe { Item::reclaim(late) }, 9);
        }
        assert_eq!(log.len() as u64, inside);
    }
}

/// Posts that node; whether it was refused as posted twice.
fn refused(remote: &Member<Host>, node: NonNull<Node<Host>>) -> bool {
    // SAFETY: the callers keep the item in place until it is delivered.
    let posted = catch_unwind(AssertUnwindSafe(|| unsafe { remote.post(node) }));
    match posted {
        Ok(posted) => {
            assert_eq!(posted, Posted::Yes);
            false
        }
        Err(payload) => {
            let text = payload.downcast_ref::<&str>();
            assert_eq!(text, Some(&"a call or a task was posted twice"));
            true
        }
    }
}

#[test]
fn q3_a_node_posted_twice_is_caught_and_loses_none() {
    let (remote, inbox, log) = (remote::<Host>(), Inbox::default(), Log::default());
    let nodes = [100, 101, 102].map(|entry| Item::boxed(entry, &log));
    assert_eq!(nodes.map(|node| refused(&remote, node)), [false; 3]);
    // The newest, the one in the middle, and the oldest.
    for node in nodes.into_iter().rev() {
        assert!(refused(&remote, node));
    }
    assert_eq!(serve(&remote, &inbox), 3);
    log.assert_once_and_in_order(&[100, 101, 102]);
}

#[test]
fn q3_a_node_posted_by_two_threads_at_once_is_caught() {
    #[derive(Clone, Copy)]
    struct Shared(NonNull<Node<Host>>);
    // SAFETY: the item is delivered after both threads have ended.
    unsafe impl Send for Shared {}

    let (remote, inbox) = (remote::<Host>(), Inbox::default());
    for _ in 0..2_000 {
        let log = Log::default();
        assert_eq!(post(&remote, 100, &log), Posted::Yes);
        let shared = Shared(Item::boxed(200, &log));
        let found = std::thread::scope(|scope| {
            let both = [(); 2].map(|()| {
                let remote = &remote;
                scope.spawn(move || {
                    let it = shared;
                    refused(remote, it.0)
                })
            });
            both.map(|thread| thread.join().unwrap())
        });
        assert_ne!(found[0], found[1], "one is refused, one is not");
        assert_eq!(serve(&remote, &inbox), 2);
        assert_eq!(log.entries(), [100, 200]);
    }
}

#[test]
fn w13_a_post_behind_a_stalled_one_tells_the_worker() {
    let (remote, inbox, log) = (remote::<Host>(), Inbox::default(), Log::default());
    let _ = remote.bell().announce_spin();
    let _ = remote.bell().announce_park();
    // SAFETY: items stay in place until delivered.
    let pushed = unsafe { remote.push_only(Item::boxed(100, &log)) };
    assert_eq!((pushed, remote.bell().signalled()), (Pushed::First, false));
    for entry in 200..203 {
        assert_eq!(post(&remote, entry, &log), Posted::Yes);
        assert!(remote.bell().signalled());
    }
    let counts = remote.counts();
    assert_eq!((counts.rings.get(), counts.rings_for_stalled.get()), (1, 1));
    assert_eq!(counts.rings_awake.get(), 0);
    assert_eq!(serve(&remote, &inbox), 4);
    log.assert_once_and_in_order(&[100, 200, 201, 202]);
}

#[test]
fn a_spin_sees_posts_and_requests() {
    let (remote, inbox, log) = (remote::<Host>(), Inbox::default(), Log::default());
    assert_eq!(remote.spin(0), Spun::Deadline);
    assert!(!remote.pending() && remote.mailbox_is_empty());
    assert_eq!(post(&remote, 100, &log), Posted::Yes);
    assert_eq!(remote.spin(u64::MAX), Spun::Changed);
    assert!(remote.pending() && !remote.mailbox_is_empty());
    assert_eq!(serve(&remote, &inbox), 1);
    assert_eq!(remote.spin(0), Spun::Deadline);
    remote.request_pass();
    assert_eq!(remote.spin(u64::MAX), Spun::Changed);
    assert!(remote.pending() && remote.mailbox_is_empty());
    // SAFETY: this thread is the worker.
    let served = unsafe { remote.serve(&inbox) };
    assert_eq!((served.signals.pass, served.delivered), (true, 0));
    assert!(!remote.pending());
    // A closed mailbox is nothing to look at.
    assert!(remote.close().is_empty());
    assert_eq!(remote.spin(0), Spun::Deadline);
    assert!(!remote.pending());
}

/// Posters on threads against a worker that takes without pause; returns how often it took.
fn threads_and_worker(posters: u64, each: u64) {
    let (remote, inbox, log) = (remote::<Host>(), Inbox::default(), Log::default());
    std::thread::scope(|scope| {
        for poster in 1..=posters {
            let (remote, log) = (&remote, log.clone());
            scope.spawn(move || {
                for entry in 0..each {
                    assert_eq!(post(remote, poster * 100 + entry, &log), Posted::Yes);
                }
            });
        }
        let mut delivered = 0;
        while delivered < posters * each {
            delivered += serve(&remote, &inbox);
            std::thread::yield_now();
        }
    });
    let expected = (1..=posters).flat_map(|p| (0..each).map(move |e| p * 100 + e));
    log.assert_once_and_in_order(&expected.collect::<Vec<_>>());
    // S6: a worker that is awake is not rung.
    assert_eq!(remote.counts().rings.get(), 0);
}

#[test]
fn threads_post_and_nothing_is_lost() {
    for _ in 0..200 {
        threads_and_worker(3, 99);
    }
}

#[test]
fn miri_two_threads_post_and_nothing_is_lost() {
    threads_and_worker(2, 5);
}

#[derive(Clone, Debug)]
enum Step {
    Post,
    Serve,
    Requeue(u8),
    Pop,
}

/// A node that lies in one place and knows its number: what is queued by the tests below.
#[repr(C)]
struct Numbered {
    node: Node<Host>,
    number: u64,
}

/// # Safety
/// As for `Deliver`, for the node of a `Numbered`.
unsafe fn to_ready(_: NonNull<Node<Host>>) -> Delivered {
    Delivered::Task
}

proptest! {
    /// Mailbox and ready queue together are two queues, one behind the other.
    #[test]
    fn mailbox_and_ready_are_queues(
        steps in prop::collection::vec(
            prop_oneof![
                Just(Step::Post),
                Just(Step::Serve),
                any::<u8>().prop_map(Step::Requeue),
                Just(Step::Pop),
            ],
            1..200,
        )
    ) {
        let nodes: Vec<Numbered> = (0..steps.len() as u64)
            .map(|number| Numbered { node: Node::new(to_ready), number })
            .collect();
        let (remote, inbox) = (remote::<Host>(), Inbox::default());
        let (mut posted, mut queued, mut idle) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let mut fresh = nodes.iter();
        for step in steps {
            match step {
                Step::Post => {
                    let it = fresh.next().expect("one for each step");
                    // SAFETY: `nodes` outlives the queues.
                    let result = unsafe { remote.post(NonNull::from(it).cast()) };
                    prop_assert_eq!(result, Posted::Yes);
                    posted.push_back(it.number);
                }
                Step::Requeue(which) if !idle.is_empty() => {
                    let number: u64 = idle.swap_remove(usize::from(which) % idle.len());
                    // SAFETY: as above.
                    let result = unsafe { remote.post(NonNull::from(&nodes[number as usize]).cast()) };
                    prop_assert_eq!(result, Posted::Yes);
                    posted.push_back(number);
                }
                Step::Serve => {
                    prop_assert_eq!(serve(&remote, &inbox), posted.len() as u64);
                    queued.append(&mut posted);
                }
                Step::Requeue(_) | Step::Pop => {
                    // SAFETY: as above.
                    let popped = inbox.ready.pop().map(|it| unsafe { it.cast::<Numbered>().as_ref() }.number);
                    prop_assert_eq!(popped, queued.pop_front());
                    idle.extend(popped);
                }
            }
            prop_assert_eq!(inbox.ready.len(), queued.len());
            prop_assert_eq!(remote.mailbox_is_empty(), posted.is_empty());
        }
    }
}
