//! Of what a worker pushes between two polls it runs one task next. What waits behind that is offered, or looked after.

use super::hand_on::{end, is_told};
use super::scheduler_by_hand;
use crate::scheduler::RemoteRef;
use crate::task::{About, Kind};
use crate::testing::{launch_about, launch_as, spawn};
use crate::worker::Worker;
use crate::worker::timer::RawTimer;
use doorbell_machine::Host;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};

/// The number of the second worker.
const ASLEEP: usize = 1;

/// How a task is woken in its own poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    /// It yields.
    Here,
    ByThread,
}

impl Woken {
    fn wake(self, cx: &Context<'_>) {
        let waker = cx.waker().clone();
        match self {
            Woken::Here => waker.wake(),
            Woken::ByThread => std::thread::spawn(|| waker.wake()).join().unwrap(),
        }
    }
}

/// The waker of a task that has been polled, and waits.
fn waits(worker: &Worker<Host>, kind: Kind) -> Waker {
    let (give, waker) = channel();
    let gives = poll_fn(move |cx| {
        let _ = give.send(cx.waker().clone());
        Poll::<()>::Pending
    });
    drop(launch_as(worker.shared.remote(), kind, gives));
    assert!(worker.local.run_one());
    waker.recv().expect("it was polled")
}

/// A task that is woken in its poll, behind `f`. The second worker falls asleep meanwhile.
fn woken_beside_a_sleeper(
    remote: &RemoteRef<Host>,
    woken: Woken,
    f: impl Fn() + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let remote = remote.clone();
    poll_fn(move |cx| {
        remote.scheduler().idle().enter(ASLEEP);
        f();
        woken.wake(cx);
        Poll::Pending
    })
}

#[test]
fn w33_what_another_thread_wakes_in_its_poll_is_offered_beside_a_deferred_task() {
    let workers = scheduler_by_hand();
    let [busy, asleep] = &workers;
    let remote = busy.shared.remote();
    busy.local.enter(|| {
        drop(spawn(
            remote,
            poll_fn(|cx| {
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            }),
        ));
        assert!(busy.local.run_one());
        let woken = woken_beside_a_sleeper(remote, Woken::ByThread, || ());
        drop(spawn(remote, woken));
        assert!(busy.local.run_one());
    });
    assert!(is_told(asleep));
    assert!(!remote.scheduler().idle().wants_watchdog(), "to take one");
    end(workers);
}

#[test]
fn w33_what_is_woken_in_its_poll_is_looked_after_behind_a_pinned_task() {
    for woken in [Woken::Here, Woken::ByThread] {
        for group in [None, Some(1)] {
            let workers = scheduler_by_hand();
            let [busy, asleep] = &workers;
            let remote = busy.shared.remote();
            let groups = remote.scheduler().groups();
            if group.is_some() {
                // SAFETY: no other thread opens one, and there are no tasks.
                unsafe { groups.open(2, 1, 100) };
                groups.reserve(1);
            }
            let about = About {
                group,
                ..About::default()
            };
            busy.local.enter(|| {
                let pinned = waits(busy, Kind::Pinned);
                let woken = woken_beside_a_sleeper(remote, woken, move || pinned.wake_by_ref());
                drop(launch_about(remote, Kind::Task, about, woken));
                assert!(busy.local.run_one());
            });
            let is_looked_after = is_told(asleep) && remote.scheduler().idle().wants_watchdog();
            assert!(is_looked_after, "{woken:?} {group:?}");
            end(workers);
        }
    }
}

#[test]
fn what_is_woken_in_its_poll_and_waits_behind_nothing_wakes_no_worker() {
    for woken in [Woken::Here, Woken::ByThread] {
        let workers = scheduler_by_hand();
        let [busy, asleep] = &workers;
        let remote = busy.shared.remote();
        busy.local.enter(|| {
            drop(spawn(remote, woken_beside_a_sleeper(remote, woken, || ())));
            assert!(busy.local.run_one());
        });
        assert!(!is_told(asleep), "{woken:?}");
        end(workers);
    }
}

/// The movable task would be next.
#[test]
fn w33_what_a_timer_wakes_between_polls_is_looked_after_behind_a_pinned_task() {
    struct Both([Waker; 2]);
    impl Wake for Both {
        fn wake(self: Arc<Self>) {
            self.0.iter().for_each(Waker::wake_by_ref);
        }
    }
    let workers = scheduler_by_hand();
    let [busy, asleep] = &workers;
    let remote = busy.shared.remote();
    busy.local.enter(|| {
        let both = [Kind::Task, Kind::Pinned].map(|kind| waits(busy, kind));
        let both = Waker::from(Arc::new(Both(both)));
        let timer = RawTimer::arm(remote, 1, &both).unwrap();
        remote.scheduler().idle().enter(ASLEEP);
        let _ = busy.keep_time();
        assert_eq!(busy.local.queued(), 2);
        assert!(is_told(asleep));
        drop((timer, both));
    });
    end(workers);
}
