//! The idle set in every interleaving, and with it what it is for: a lane that falls asleep
//! against one that has work to share.

// What a model counts with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{IdleSet, Left, Searching};
use crate::bell::Announced;
use crate::crew::{Crew, FrontRef};
use crate::mailbox::Front;
use crate::queue::{Greed, Share, is_shareable};
use crate::testing::front as alone;
use crate::testing::model::{check, join_all, mutant};
use ::loom::thread;
use doorbell_machine::{Loom, Machine};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Two wakers and one idle lane: one of them gets it.
fn two_wakers<const BUG: u8>() {
    let set = Arc::new(IdleSet::<Loom<BUG>>::new(2));
    set.enter(1);
    let won = Arc::new(AtomicUsize::new(0));
    let wakers = [(); 2].map(|()| {
        let (set, won) = (Arc::clone(&set), Arc::clone(&won));
        thread::spawn(move || {
            if set.claim(0, |_| true).is_some() {
                assert_eq!(won.fetch_add(1, Relaxed), 0, "two wakers won");
            }
        })
    });
    join_all(wakers);
    assert_eq!(won.load(Relaxed), 1);
    assert!(set.anyone_searches() && !set.any());
}

/// A waker claims the lane while it leaves by itself: it knows whether it was claimed, and the
/// count of searching lanes comes back to zero.
fn claim_against_leave<const BUG: u8>() {
    let set = Arc::new(IdleSet::<Loom<BUG>>::new(1));
    set.enter(0);
    let theirs = Arc::clone(&set);
    let waker = thread::spawn(move || theirs.claim_as_first(0, |_| true).is_some());
    let left = set.leave(0);
    if left == Left::Claimed {
        assert_eq!(set.end_search(), Searching::None);
    }
    assert_eq!(waker.join().unwrap(), left == Left::Claimed);
    assert!(!set.any() && !set.anyone_searches());
}

/// Takes what the other lane can share; how many that were.
fn steal<const BUG: u8>(own: &Front<Loom<BUG>>, victim: &Front<Loom<BUG>>) -> bool {
    // SAFETY: the caller's thread is the lane of `own`, and not the victim's.
    unsafe { victim.queue().steal_into(own.queue(), Greed::Half) }.is_some()
}

/// Sleeps by the steps of a lane, but looks at no mailbox: the models of the bell do.
fn sleep_unless_there_is_work<const BUG: u8>(own: &Front<Loom<BUG>>, victim: &Front<Loom<BUG>>) {
    let bell = own.bell();
    if bell.announce_watch() == Announced::Yes && bell.announce_park() == Announced::Yes {
        own.crew().idle().enter(own.lane());
        if !is_shareable(victim.queue().len()) {
            let _ = bell.park(own.seat(), None);
        }
        if own.crew().idle().leave(own.lane()) == Left::Claimed {
            let _ = own.crew().idle().end_search();
        }
    }
    let _ = bell.end_idle();
}

/// One lane pushes two tasks and offers the second, another one falls asleep: it does not sleep
/// on, and gets one.
fn offer_against_sleep<const BUG: u8>() {
    let switches = Arc::default();
    let mut fronts: Vec<FrontRef<Loom<BUG>>> = Crew::new(2, &switches, |_, _| 0);
    let (sleeper, busy) = (fronts.pop().unwrap(), fronts.pop().unwrap());
    let victim = busy.clone();
    let thread = thread::spawn(move || {
        while !steal(&sleeper, &victim) {
            sleep_unless_there_is_work(&sleeper, &victim);
        }
    });
    let nodes = [(); 2].map(|()| nodes::boxed());
    for node in nodes {
        // SAFETY: this thread is the owner; the nodes live until the end of the model.
        let len = unsafe { busy.queue().push(node, Share::Surplus) };
        if is_shareable(len) {
            <Loom<BUG> as Machine>::fence_recheck();
            busy.crew().offer(busy.lane());
        }
    }
    thread.join().unwrap();
    // SAFETY: this thread is the owner.
    assert!(unsafe { busy.queue().pop() }.is_some());
    nodes.into_iter().for_each(nodes::free);
}

mod nodes {
    use crate::node::{Node, Ready};
    use doorbell_machine::Machine;
    use std::ptr::NonNull;

    unsafe fn nothing<M: Machine>(_: NonNull<Node<M>>, _: &Ready<M>) {}

    pub(super) fn boxed<M: Machine>() -> NonNull<Node<M>> {
        NonNull::from(Box::leak(Box::new(Node::new(nothing))))
    }

    pub(super) fn free<M: Machine>(node: NonNull<Node<M>>) {
        // SAFETY: made by `boxed`, and in no queue any more.
        drop(unsafe { Box::from_raw(node.as_ptr()) });
    }
}

/// The last share of a crew is dropped by one of two threads: it is freed once, after both.
fn last_share<const BUG: u8>() {
    let front = alone::<Loom<BUG>>();
    let theirs = front.clone();
    let thread = thread::spawn(move || {
        theirs.publish_next_global(7);
        drop(theirs);
    });
    drop(front);
    thread.join().unwrap();
}

#[test]
fn b25_two_wakers_never_get_the_same_lane() {
    check(two_wakers::<0>);
}

#[test]
fn b24_a_claim_is_consumed_or_released() {
    check(claim_against_leave::<0>);
}

#[test]
fn w17_a_lane_does_not_sleep_while_another_has_two() {
    check(offer_against_sleep::<0>);
}

#[test]
fn d7_the_last_share_frees_the_crew() {
    check(last_share::<0>);
}

#[test]
fn mutant_claim_blind() {
    mutant!(IdleClaimBlind, two_wakers);
}

#[test]
fn mutant_no_announce_fence() {
    mutant!(IdleNoAnnounceFence, offer_against_sleep);
}
