//! The idle set in every interleaving, and with it what it is for: a worker that falls asleep
//! against one that has work to share.

// What a model counts with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::tests::set_of;
use super::{Left, Search, Searching, Watchdog, Wish};
use crate::bell::Announced;
use crate::mailbox::{Post as _, Posted};
use crate::queue::{Greed, Share, is_shareable};
use crate::scheduler::{AnyWorker, Member, Placed, RemoteRef, Scheduler};
use crate::testing::model::{Shows, check, check_large, join_all, must_be_noticed_by, mutant};
use crate::testing::remote as alone;
use ::loom::thread;
use doorbell_machine::{Bug, Loom, Machine};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Two wakers and one idle worker: one of them gets it.
fn two_wakers() {
    let set = Arc::new(set_of::<Loom>(2));
    set.enter(1);
    let won = Arc::new(AtomicUsize::new(0));
    let wakers = [(); 2].map(|()| {
        let (set, won) = (Arc::clone(&set), Arc::clone(&won));
        thread::spawn(move || {
            if set.claim(Wish::of(0), |_| true).is_some() {
                assert_eq!(won.fetch_add(1, Relaxed), 0, "two wakers won");
            }
        })
    });
    join_all(wakers);
    assert_eq!(won.load(Relaxed), 1);
    assert!(set.anyone_searches() && !set.any());
}

/// A waker claims the worker while it leaves by itself: it knows whether it was claimed, and the
/// count of searching workers comes back to zero.
fn claim_against_leave() {
    let set = Arc::new(set_of::<Loom>(1));
    set.enter(0);
    let theirs = Arc::clone(&set);
    let waker = thread::spawn(move || theirs.claim_as_first(Wish::of(0), |_| true).is_some());
    let left = set.leave(0);
    if left == Left::Claimed {
        assert_eq!(set.end_search(0), Searching::None);
    }
    assert_eq!(waker.join().unwrap(), left == Left::Claimed);
    assert!(!set.any() && !set.anyone_searches());
}

/// A claim lapses while the worker gets its CPU after all, and a search of its own begins: whatever comes
/// first, the count comes back to zero, and one of the two sees to what is due at the end of the last search.
fn lapse_against_end() {
    let set = Arc::new(set_of::<Loom>(2));
    set.enter(1);
    assert_eq!(set.claim(Wish::of(0), |_| true), Some(1));
    let theirs = Arc::clone(&set);
    let watchdog = thread::spawn(move || theirs.lapse(1));
    let owes = set.leave(1) == Left::Claimed;
    let ended = owes && set.end_search(1) == Searching::None;
    let lapsed = watchdog.join().unwrap() == Some(Searching::None);
    assert!(ended != lapsed, "the last search ended {ended}, {lapsed}");
    assert!(!set.any() && !set.anyone_searches());
}

/// A worker comes to the end of its search, and idles anew, while a watchdog that has seen it search lets that
/// lapse: it is still in the set when it sleeps, or has seen that it is not.
fn lapse_against_the_next_idle_time() {
    let set = Arc::new(set_of::<Loom>(2));
    set.enter(1);
    assert_eq!(set.claim(Wish::of(0), |_| true), Some(1));
    let theirs = Arc::clone(&set);
    let watchdog = thread::spawn(move || theirs.lapse(1));
    if set.leave(1) == Left::Claimed {
        let _ = set.end_search(1);
    }
    set.enter(1);
    assert!(set.holds(1), "it is told of nothing");
    let _ = watchdog.join().unwrap();
    assert!(set.any(), "a worker that sleeps cannot be claimed");
    assert!(!set.anyone_searches());
}

/// Takes what the other worker can share; how many that were.
fn steal(own: &Member<Loom>, victim: &Member<Loom>) -> bool {
    // SAFETY: the caller's thread is the worker of `own`, and not the victim's.
    unsafe { victim.queue().steal_into(own.queue(), Greed::Half) }.is_some()
}

/// Whether a worker that looks by the work set finds something in the inject queue.
fn finds_injected(remote: &Member<Loom>) -> bool {
    remote.scheduler().work().holds(remote.worker()) && remote.has_injected()
}

/// Sleeps by the steps of a worker, but looks at no mailbox: the models of the bell do.
fn sleep_unless_there_is_work(own: &Member<Loom>, victim: &Member<Loom>) {
    let bell = own.bell();
    if bell.announce_spin() == Announced::Yes && bell.announce_park() == Announced::Yes {
        own.scheduler().idle().enter(own.worker());
        let listed = own.scheduler().work().holds(victim.worker());
        if !(listed && is_shareable(victim.queue().len())) {
            let _ = bell.park(own.parker(), None);
        }
        if own.scheduler().idle().leave(own.worker()) == Left::Claimed {
            let _ = own.scheduler().idle().end_search(own.worker());
        }
    }
    let _ = bell.end_idle();
}

/// One worker pushes two tasks and offers the second, another one falls asleep: it does not sleep
/// on, and gets one.
fn offer_against_sleep() {
    let switches = Arc::default();
    let mut remotes: Vec<RemoteRef<Loom>> = Scheduler::new(2, &switches, |_, _| 0);
    let (sleeper, busy) = (remotes.pop().unwrap(), remotes.pop().unwrap());
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
        busy.scheduler().work().add(busy.worker());
        if is_shareable(len) {
            <Loom as Machine>::fence_recheck();
            busy.scheduler().offer(busy.worker());
        }
    }
    thread.join().unwrap();
    // SAFETY: this thread is the owner.
    assert!(unsafe { busy.queue().pop() }.is_some());
    nodes.into_iter().for_each(nodes::free);
}

/// Takes the task out of a worker's inject queue, if it is there. Whether it was.
fn take_one(from: &Member<Loom>, taken: &AtomicUsize) -> bool {
    let Some((chain, _)) = from.take_injected() else {
        return false;
    };
    let (node, others) = chain.pop();
    assert!(others.is_none());
    // SAFETY: taken out just now, and it lives until the end of the model.
    unsafe { node.as_ref() }.leave();
    assert_eq!(taken.fetch_add(1, Relaxed), 0, "taken twice");
    true
}

/// Sleeps by the steps of a worker, unless there is a task for it or for one that is stuck.
fn sleep_unless_there_is_a_task(own: &Member<Loom>, stuck: &Member<Loom>, taken: &AtomicUsize) {
    let (bell, idle) = (own.bell(), own.scheduler().idle());
    if bell.announce_spin() == Announced::Yes && bell.announce_park() == Announced::Yes {
        idle.enter(own.worker());
        let nothing = !own.has_injected() && !finds_injected(stuck);
        if nothing && idle.holds(own.worker()) && taken.load(Relaxed) == 0 {
            let _ = bell.park(own.parker(), None);
        }
        if idle.leave(own.worker()) == Left::Claimed {
            // It looks again in any case.
            let _ = idle.end_search(own.worker());
        }
    }
    let _ = bell.end_idle();
}

/// A task is placed from outside for a worker that is inside a poll without an end, while another one
/// falls asleep and a third one searches: one of the two gets it.
fn place_between_three() {
    let remotes: Vec<RemoteRef<Loom>> = Scheduler::new(3, &Arc::default(), |_, _| 0);
    let taken = Arc::new(AtomicUsize::new(0));
    let (stuck, own, count) = (remotes[0].clone(), remotes[1].clone(), Arc::clone(&taken));
    let sleeper = thread::spawn(move || {
        while count.load(Relaxed) == 0 && !take_one(&own, &count) && !take_one(&stuck, &count) {
            sleep_unless_there_is_a_task(&own, &stuck, &count);
        }
    });
    let (stuck, other, count) = (remotes[0].clone(), remotes[1].clone(), Arc::clone(&taken));
    let thief = thread::spawn(move || {
        let scheduler = stuck.scheduler();
        assert_eq!(scheduler.idle().begin_search(2), Search::Begun);
        let took = take_one(&stuck, &count) || take_one(&other, &count);
        if scheduler.idle().end_search(2) == Searching::None {
            <Loom as Machine>::fence_announce();
            if finds_injected(&stuck) || finds_injected(&other) {
                scheduler.offer(2);
            }
        }
        if took {
            // The end of the model for who sleeps.
            other.request_pass();
        }
    });
    let node = nodes::boxed();
    // SAFETY: the node lives until the end of the model.
    let posted = unsafe {
        remotes[0]
            .scheduler()
            .find_idle(&remotes[0])
            .post_task(node)
    };
    assert_eq!(posted, Posted::Yes);
    join_all([sleeper, thief]);
    assert_eq!(taken.load(Relaxed), 1);
    assert!(
        !remotes[0].scheduler().idle().anyone_searches(),
        "a count is left"
    );
    nodes::free(node);
}

/// A task comes to the inject queue of a worker that takes itself out of the work set, and which is then
/// inside a call for long: the others can find it.
fn post_against_unlist() {
    let remotes: Vec<RemoteRef<Loom>> = Scheduler::new(2, &Arc::default(), |_, _| 0);
    let own = remotes[1].clone();
    own.scheduler().work().add(1);
    let worker = thread::spawn(move || own.scheduler().work().remove(1, || own.has_work()));
    let node = nodes::boxed();
    // SAFETY: the node lives until the end of the model.
    let posted = unsafe { remotes[1].post_task(node) };
    assert_eq!(posted, Posted::Yes);
    worker.join().unwrap();
    assert!(finds_injected(&remotes[1]), "nobody would find the task");
    assert!(take_one(&remotes[1], &AtomicUsize::new(0)));
    nodes::free(node);
}

/// A task comes from the scheduler to a worker that spins, while that worker begins to run: it sees the task, or the
/// poster sees that it may be inside a poll, and wakes a third one.
fn post_against_the_end_of_a_spin() {
    let remotes: Vec<RemoteRef<Loom>> = Scheduler::new(3, &Arc::default(), |_, _| 0);
    let (own, idle) = (remotes[1].clone(), remotes[0].scheduler().idle());
    idle.enter(2);
    assert_eq!(own.bell().announce_spin(), Announced::Yes);
    let worker = thread::spawn(move || {
        let _ = own.bell().end_idle();
        own.has_injected()
    });
    let node = nodes::boxed();
    let pulse = remotes[1].pulse();
    // SAFETY: the node lives until the end of the model.
    let posted = unsafe { remotes[1].post_first(node) }.expect("no other task lies there");
    let placed = remotes[0]
        .scheduler()
        .look_after(&remotes[1], pulse, posted);
    assert!(matches!(placed, Placed::Yes));
    let told = !idle.holds(2);
    assert!(worker.join().unwrap() || told, "the task waits for a poll");
    assert!(take_one(&remotes[1], &AtomicUsize::new(0)));
    nodes::free(node);
}

/// Takes the timer that was posted for any worker, if it is there. Whether it was.
fn take_timer(own: &Member<Loom>) -> bool {
    // SAFETY: what is delivered does nothing.
    unsafe {
        own.scheduler()
            .common()
            .take_shared()
            .deliver(&crate::testing::Inbox::default())
            > 0
    }
}

/// A timer is posted from outside while one worker is inside a poll without an end, and the other falls
/// asleep: that one takes it.
fn timer_against_sleep() {
    let remotes: Vec<RemoteRef<Loom>> = Scheduler::new(2, &Arc::default(), |_, _| 0);
    let own = remotes[1].clone();
    let sleeper = thread::spawn(move || {
        let (bell, idle) = (own.bell(), own.scheduler().idle());
        while !take_timer(&own) {
            if bell.announce_spin() == Announced::Yes && bell.announce_park() == Announced::Yes {
                idle.enter(own.worker());
                if idle.holds(own.worker()) && own.scheduler().common().is_empty() {
                    let _ = bell.park(own.parker(), None);
                }
                if idle.leave(own.worker()) == Left::Claimed {
                    let _ = idle.end_search(own.worker());
                }
            }
            let _ = bell.end_idle();
        }
    });
    let node = nodes::boxed();
    // SAFETY: the node lives until the end of the model.
    let posted = unsafe { AnyWorker(&remotes[0]).post(node) };
    assert_eq!(posted, Posted::Yes);
    sleeper.join().unwrap();
    nodes::free(node);
}

/// Two workers that park would both be the watchdog: one of them is.
fn two_would_be_watchdogs() {
    let set = Arc::new(set_of::<Loom>(2));
    let begun = Arc::new(AtomicUsize::new(0));
    let workers = [(); 2].map(|()| {
        let (set, begun) = (Arc::clone(&set), Arc::clone(&begun));
        thread::spawn(move || {
            if set.begin_watchdog() == Watchdog::Begun {
                assert_eq!(begun.fetch_add(1, Relaxed), 0, "two watchdogs");
            }
        })
    });
    join_all(workers);
    assert_eq!(begun.load(Relaxed), 1);
    set.enter(0);
    assert!(!set.lacks_watchdog() && !set.wants_watchdog());
    set.end_watchdog();
    assert!(set.lacks_watchdog());
}

/// A worker pushes the one task that it has while the watchdog ends and a third one sleeps: that one
/// is woken to look after it.
fn push_against_the_end_of_a_watchdog() {
    let remotes: Vec<RemoteRef<Loom>> = Scheduler::new(3, &Arc::default(), |_, _| 0);
    let (busy, scheduler) = (&remotes[0], remotes[0].scheduler());
    scheduler.idle().enter(2);
    // Two are enough.
    for _ in 0..2 {
        assert_eq!(scheduler.idle().begin_watchdog(), Watchdog::Begun);
    }
    let (theirs, victim) = (remotes[1].clone(), remotes[0].clone());
    let watchdog = thread::spawn(move || {
        let scheduler = theirs.scheduler();
        scheduler.idle().end_watchdog();
        <Loom as Machine>::fence_announce();
        if !victim.queue().is_empty() {
            scheduler.arm_watchdog(theirs.worker());
        }
    });
    let node = nodes::boxed();
    // SAFETY: this thread is the owner; the node lives until the end of the model.
    let _ = unsafe { busy.queue().push(node, Share::Always) };
    <Loom as Machine>::fence_recheck();
    scheduler.arm_watchdog(busy.worker());
    watchdog.join().unwrap();
    assert!(scheduler.idle().wants_watchdog(), "nobody looks after it");
    assert_eq!(scheduler.idle().leave(2), Left::Claimed);
    // SAFETY: this thread is the owner.
    assert!(unsafe { busy.queue().pop() }.is_some());
    nodes::free(node);
}

pub(in crate::scheduler) mod nodes {
    use crate::link::{Delivered, Node};
    use doorbell_machine::Machine;
    use std::ptr::NonNull;

    unsafe fn nothing<M: Machine>(_: NonNull<Node<M>>) -> Delivered {
        Delivered::Done
    }

    pub(in crate::scheduler) fn boxed<M: Machine>() -> NonNull<Node<M>> {
        NonNull::from(Box::leak(Box::new(Node::new(nothing))))
    }

    pub(in crate::scheduler) fn free<M: Machine>(node: NonNull<Node<M>>) {
        // SAFETY: made by `boxed`, and in no queue any more.
        drop(unsafe { Box::from_raw(node.as_ptr()) });
    }
}

/// The last share of a scheduler is dropped by one of two threads: it is freed once, after both.
fn last_share() {
    let remote = alone::<Loom>();
    let theirs = remote.clone();
    let thread = thread::spawn(move || {
        theirs.publish_next_global(7);
        drop(theirs);
    });
    drop(remote);
    thread.join().unwrap();
}

#[test]
fn b25_two_wakers_never_get_the_same_worker() {
    check(two_wakers);
}

#[test]
fn b24_a_claim_is_consumed_or_released() {
    check(claim_against_leave);
}

#[test]
fn a_search_that_lapses_ends_once() {
    check(lapse_against_end);
}

#[test]
fn a_search_that_lapses_late_leaves_its_worker_in_the_set() {
    check(lapse_against_the_next_idle_time);
}

#[test]
fn w17_a_worker_does_not_sleep_while_another_has_two() {
    check(offer_against_sleep);
}

#[test]
fn d7_the_last_share_frees_the_scheduler() {
    check(last_share);
}

#[test]
fn w17_a_task_placed_at_a_stuck_worker_is_taken_by_a_sleeper_or_a_thief() {
    check_large(place_between_three);
}

#[test]
fn w17_a_task_posted_to_a_spin_that_ends_is_seen_or_looked_after() {
    check(post_against_the_end_of_a_spin);
}

#[test]
fn mutant_scheduler_push_unoffered() {
    mutant!(SchedulerPushUnoffered, post_against_the_end_of_a_spin);
}

#[test]
fn t2_a_timer_from_outside_reaches_the_worker_that_is_not_stuck() {
    check(timer_against_sleep);
}

#[test]
fn mutant_no_announce_fence_for_a_timer() {
    must_be_noticed_by(
        "scheduler::idle::loom::mutant_no_announce_fence_for_a_timer",
        Shows::Deadlock,
        Bug::IdleNoAnnounceFence,
        timer_against_sleep,
    );
}

#[test]
fn one_worker_at_a_time_is_the_watchdog() {
    check(two_would_be_watchdogs);
}

#[test]
fn s2_a_task_pushed_while_the_watchdog_ends_is_looked_after() {
    check(push_against_the_end_of_a_watchdog);
}

#[test]
fn w17_a_task_posted_while_its_worker_leaves_the_work_set_is_found() {
    check(post_against_unlist);
}

#[test]
fn mutant_unlist_blind() {
    mutant!(IdleUnlistBlind, post_against_unlist);
}

#[test]
fn mutant_no_unlist_fence() {
    mutant!(IdleNoUnlistFence, post_against_unlist);
}

#[test]
fn mutant_watchdog_blind() {
    mutant!(IdleWatchdogBlind, two_would_be_watchdogs);
}

#[test]
fn mutant_claim_blind() {
    mutant!(IdleClaimBlind, two_wakers);
}

#[test]
fn mutant_no_announce_fence() {
    mutant!(IdleNoAnnounceFence, offer_against_sleep);
}
