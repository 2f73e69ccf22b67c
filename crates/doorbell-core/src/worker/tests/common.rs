//! What any worker of a scheduler may deliver: a parcel that finds no idle worker.

use super::all_by_hand;
use crate::class::Class;
use crate::scheduler::offline::TakenOff;
use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec, Turns};
use crate::task::Kind;
use crate::testing::launch_ranked;
use crate::worker::{IdlePolicy, Worker};
use doorbell_machine::Host;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Urgent workers that are not idle. The test's thread is of a lower class.
fn urgent<const N: usize>() -> [Worker<Host>; N] {
    let spec = SchedulerSpec {
        class: Class::Rt,
        turns: Turns::ByRank,
        ..SchedulerSpec::default()
    };
    let remotes = Scheduler::described(N, &Arc::default(), spec, |_, _| 0);
    all_by_hand(remotes, IdlePolicy::Park)
}

fn remote(worker: &Worker<Host>) -> &RemoteRef<Host> {
    worker.shared.remote()
}

/// What the tasks of a test did.
#[derive(Debug, Default)]
struct Did {
    wakers: Mutex<Vec<Waker>>,
    polls: AtomicUsize,
    drops: AtomicUsize,
}

impl Did {
    fn wake_all(&self) {
        let wakers = std::mem::take(&mut *self.wakers.lock().unwrap());
        wakers.into_iter().for_each(Waker::wake);
    }

    fn polls_and_drops(&self) -> [usize; 2] {
        [self.polls.load(Relaxed), self.drops.load(Relaxed)]
    }
}

/// A task that ran once on that worker and waits for a wake.
fn waits_on(worker: &Worker<Host>, kind: Kind, did: &Arc<Did>) {
    struct Drops(Arc<Did>);
    impl Drop for Drops {
        fn drop(&mut self) {
            self.0.drops.fetch_add(1, Relaxed);
        }
    }
    let its = Drops(Arc::clone(did));
    let waits = poll_fn(move |cx| {
        if its.0.polls.fetch_add(1, Relaxed) > 0 {
            return Poll::Ready(());
        }
        its.0.wakers.lock().unwrap().push(cx.waker().clone());
        Poll::Pending
    });
    worker.local.enter(|| {
        launch_ranked(remote(worker), kind, 50, waits);
        assert!(worker.local.run_one());
    });
}

fn end(worker: &Worker<Host>) {
    worker.local.enter(|| worker.local.close());
}

#[test]
fn a_parcel_that_finds_no_idle_worker_is_taken_by_the_first_that_looks() {
    let [last, other] = urgent();
    let did = Arc::default();
    waits_on(&last, Kind::Task, &did);
    did.wake_all();
    assert!(!remote(&last).has_mail() && !remote(&other).has_mail());
    assert!(last.local.is_empty() && other.local.is_empty());
    // It begins a poll of its own: before that it takes what any worker may take.
    other.local.enter(|| {
        launch_ranked(remote(&other), Kind::Pinned, 1, async {});
        other.run_ready();
    });
    assert_eq!(did.polls_and_drops(), [2, 1]);
    assert!(remote(&last).scheduler().common().is_empty());
    [last, other].iter().for_each(end);
}

#[test]
fn the_parcel_of_a_pinned_task_goes_to_its_worker() {
    let [last, other] = urgent();
    let did = Arc::default();
    waits_on(&last, Kind::Pinned, &did);
    did.wake_all();
    assert!(remote(&last).has_mail() && remote(&last).scheduler().common().is_empty());
    [last, other].iter().for_each(end);
}

#[test]
fn a_parcel_that_nobody_takes_is_delivered_once_when_the_first_worker_ends() {
    for first in 0..2 {
        let workers: [Worker<Host>; 2] = urgent();
        let did = Arc::default();
        waits_on(&workers[0], Kind::Task, &did);
        did.wake_all();
        end(&workers[first]);
        end(&workers[1 - first]);
        assert_eq!(did.polls_and_drops(), [1, 1], "worker {first} ends first");
    }
}

#[test]
fn after_the_first_worker_has_ended_a_waker_from_below_queues_the_task_itself() {
    let [last, other] = urgent();
    let did = Arc::default();
    waits_on(&last, Kind::Task, &did);
    end(&other);
    did.wake_all();
    assert!(remote(&last).scheduler().common().is_empty() && remote(&last).has_injected());
    last.local.enter(|| {
        let _ = last.pass();
        last.run_ready();
    });
    assert_eq!(did.polls_and_drops(), [2, 1]);
    end(&last);
}

#[test]
fn a_worker_that_is_off_hands_on_what_it_takes_for_any_worker() {
    let [off, on] = urgent();
    let did = Arc::default();
    waits_on(&off, Kind::Task, &did);
    did.wake_all();
    let scheduler = remote(&off).scheduler();
    assert_eq!(scheduler.take_off(0), TakenOff::Now);
    off.local.enter(|| {
        off.local.follow();
        let _ = off.pass();
    });
    assert!(off.local.is_empty() && remote(&on).has_injected());
    on.local.enter(|| {
        let _ = on.pass();
        on.run_ready();
    });
    assert_eq!(did.polls_and_drops(), [2, 1]);
    [off, on].iter().for_each(end);
}
