//! An idle worker that is told of something all the time, or at the wrong moment, step by step.

use super::{Eternal, again, by_hand, scheduler_that_idles_by};
use crate::bell::{Announced, WorkerState};
use crate::link::Node;
use crate::mailbox::Posted;
use crate::scheduler::{Scheduler, SchedulerSpec};
use crate::switches::Switches;
use crate::task::{Kind, Once};
use crate::testing::{launch_as, spawn};
use crate::worker::pace::POLLS_PER_READING;
use crate::worker::remote::core_use::{CoreUse, Occupant};
use crate::worker::spin::SpinEnd;
use crate::worker::timer::RawTimer;
use crate::worker::{IdlePolicy, Pass, Worker, WorkerConfig, WorkerShared};
use doorbell_machine::{Counter, Host, Machine};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

/// A worker with two tasks in its queue that runs none of them, and one that spins for ever.
fn one_busy_one_idle() -> [Worker<Host>; 2] {
    let workers = scheduler_that_idles_by(IdlePolicy::Spin { spin_ns: u64::MAX });
    workers[0].local.enter(|| {
        for _ in 0..2 {
            drop(spawn(workers[0].shared.remote(), async {}));
        }
    });
    workers
}

fn end(workers: &[Worker<Host>; 2]) {
    for worker in workers {
        worker.leave_idle_set();
        worker.end_search();
        worker.local.enter(|| worker.local.close());
    }
}

/// A node that posts itself so often, to the worker with that remote half.
fn eternal(worker: &Worker<Host>, rounds: u64) -> Eternal {
    Eternal {
        node: Node::new(again),
        remote: worker.shared.remote().clone(),
        rounds_left: Cell::new(rounds),
    }
}

#[test]
fn b17_calls_without_end_do_not_keep_a_worker_from_looking_at_the_others() {
    let workers = one_busy_one_idle();
    let idle = &workers[1];
    let it = eternal(idle, u64::MAX);
    let remote = idle.shared.remote();
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    // SAFETY: `it` stays in place until its last delivery below.
    let posted = unsafe { remote.post(NonNull::from(&it).cast()) };
    assert_eq!(posted, Posted::Yes);
    assert_eq!(idle.spin(), SpinEnd::Busy);
    let counts = idle.shared.counts();
    assert_eq!((counts.thefts, counts.stolen), (1, 1), "{counts:?}");
    assert!(counts.takes > POLLS_PER_READING);
    it.rounds_left.set(0);
    assert_eq!(idle.take().delivered, 1);
    end(&workers);
}

#[test]
fn b11_requests_for_nothing_do_not_keep_a_worker_from_looking_at_the_others() {
    let workers = one_busy_one_idle();
    let idle = &workers[1];
    let remote = idle.shared.remote();
    // Far more than there is time for before a look is due.
    for _ in 0..20_000_000 {
        assert_eq!(remote.bell().announce_spin(), Announced::Yes);
        remote.request_pass();
        assert_eq!(idle.spin(), SpinEnd::Busy);
        let _ = remote.bell().end_idle();
        if matches!(idle.pass(), Pass::Work) {
            break;
        }
    }
    let counts = idle.shared.counts();
    assert_eq!((counts.thefts, counts.stolen), (1, 1), "{counts:?}");
    end(&workers);
}

#[test]
fn b12_calls_that_come_from_calls_leave_the_worker_spinning() {
    let worker = by_hand(1_000, Switches::default());
    let it = eternal(&worker, 3);
    let remote = worker.shared.remote();
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    // SAFETY: `it` stays in place until its last delivery, in the spin.
    let posted = unsafe { remote.post(NonNull::from(&it).cast()) };
    assert_eq!(posted, Posted::Yes);
    assert_eq!(worker.spin(), SpinEnd::Quiet);
    assert_eq!(worker.shared.state(), WorkerState::Spinning);
    assert!(!remote.is_inside(), "it looks busy");
    let counts = worker.shared.counts();
    assert_eq!((counts.delivered, counts.passes, counts.rings), (4, 0, 0));
}

#[test]
fn b13_a_timer_that_comes_on_the_way_to_sleep_ends_the_sleep() {
    // Before the announcement to spin, and between that and the park.
    for when in 0..2 {
        let worker = by_hand(0, Switches::default());
        let remote = worker.shared.remote();
        let due_ns = Host::now_ns() + 2_000_000;
        let arm = || {
            let remote = remote.clone();
            let arm = move || RawTimer::arm(&remote, due_ns, Waker::noop());
            std::thread::spawn(arm).join().unwrap().unwrap()
        };
        let early = (when == 0).then(arm);
        if when == 0 {
            assert_eq!(remote.bell().announce_spin(), Announced::Signalled);
        } else {
            assert_eq!(remote.bell().announce_spin(), Announced::Yes);
        }
        let late = (when == 1).then(arm);
        if when == 1 {
            worker.park();
        }
        assert_eq!(worker.shared.counts().parks, 0);
        let _ = remote.bell().end_idle();
        assert!(matches!(
            worker.local.enter(|| worker.pass()),
            Pass::Nothing(_)
        ));
        while worker.shared.counts().timers_fired == 0 {
            assert_eq!(remote.bell().announce_spin(), Announced::Yes);
            worker.park();
            let _ = remote.bell().end_idle();
            worker.local.enter(|| worker.expire());
        }
        assert!(Host::now_ns() >= due_ns, "early");
        assert_eq!(remote.counts().rings.get(), 0);
        worker.local.enter(|| drop((early, late)));
        worker.local.enter(|| worker.local.close());
    }
}

#[test]
fn b13_a_call_that_arms_a_timer_ends_the_spin() {
    let worker = by_hand(u64::MAX, Switches::default());
    let remote = worker.shared.remote();
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    let theirs = remote.clone();
    let due_ns = Host::now_ns() + 60_000_000_000;
    let arms = Once::new(move || RawTimer::arm(&theirs, due_ns, Waker::noop()).is_ok());
    let join = launch_as(remote, Kind::Call, arms);
    assert_eq!(worker.local.enter(|| worker.spin()), SpinEnd::Busy);
    assert!(worker.local.due_ns().is_some(), "it is known");
    drop(join);
    worker.local.enter(|| worker.local.close());
}

/// While a worker of its core that never spins can run, a worker does not spin, whatever its policy,
/// and stops if one begins to.
#[test]
fn a_worker_leaves_the_cpu_to_others_of_its_core() {
    for idle in [IdlePolicy::Spin { spin_ns: 1 << 40 }, IdlePolicy::NeverPark] {
        let words = CoreUse::<Host>::new(1);
        let batch = Occupant::working(&words, 1);
        let spec = SchedulerSpec {
            core_use: Some(Occupant::spinning(&words)),
            ..SchedulerSpec::default()
        };
        let remote = Scheduler::<Host>::described(1, &Arc::default(), spec, |_, _| 0).remove(0);
        let shared = WorkerShared::with(WorkerConfig { idle }, remote, Arc::default());
        let worker = Worker::new(Arc::new(shared));
        batch.begin(0);
        worker
            .local
            .enter(|| assert_eq!(worker.spin(), SpinEnd::Quiet));
        assert_eq!(worker.shared.counts().spins, 0, "{idle:?}");
        batch.end(0);
        let remote = worker.shared.remote().clone();
        let spun = std::thread::scope(|scope| {
            // Begins while the other spins, or before it does.
            scope.spawn(|| batch.begin(0));
            assert_eq!(remote.bell().announce_spin(), Announced::Yes);
            worker.local.enter(|| worker.spin())
        });
        assert_eq!(spun, SpinEnd::Quiet, "{idle:?}");
        worker.local.enter(|| worker.local.close());
    }
}
