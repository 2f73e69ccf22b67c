//! A timer that a worker arms on another one, which seems awake (`timer_pull=base`), while that one ends.

use super::with_one_clock;
use crate::scheduler::Scheduler;
use crate::switches::TimerPull;
use crate::testing::model::{check_large, mutant};
use crate::testing::{Wakes, pulling};
use crate::worker::timer::RawTimer;
use crate::worker::{IdlePolicy, Worker, WorkerShared};
use ::loom::thread;
use doorbell_machine::Loom;
use std::sync::Arc;
use std::task::Waker;

/// The worker that arms the timer.
const ARMS: usize = 0;
/// The one that seems awake.
const ENDS: usize = 1;

/// A time that does not come.
const FAR_NS: u64 = u64::MAX - 1;

/// The timer is armed on the other worker, or here if that one has ended; then its handle is dropped.
fn arm_against_the_end_of_the_other() {
    let remotes = Scheduler::new(2, &pulling::<Loom>(TimerPull::Base), |_, _| 0);
    let workers: [Arc<WorkerShared<Loom>>; 2] = with_one_clock(remotes, IdlePolicy::Park);
    workers[ENDS].remote().scheduler().idle().start(ENDS);
    let wakes = Arc::new(Wakes::default());
    let shared = Arc::clone(&workers[ENDS]);
    let other = thread::spawn(move || {
        let worker = Worker::new(shared);
        worker.local.enter(|| {
            let _ = worker.take();
            worker.local.close();
        });
    });
    let worker = Worker::new(Arc::clone(&workers[ARMS]));
    worker.local.enter(|| {
        let waker = Waker::from(Arc::clone(&wakes));
        let timer = RawTimer::arm(worker.shared.remote(), FAR_NS, &waker);
        drop(waker);
        assert!(timer.is_ok(), "a timer was refused");
        drop(timer);
        worker.local.close();
    });
    other.join().unwrap();
    assert!(wakes.get() <= 1, "woken twice");
    drop((worker, workers));
    assert_eq!(Arc::strong_count(&wakes), 1, "a waker was leaked");
}

#[test]
fn a_timer_that_is_armed_on_a_worker_that_ends_is_armed_once() {
    check_large(arm_against_the_end_of_the_other);
}

#[test]
fn mutant_refused_by_other() {
    mutant!(TimerRefusedByOther, arm_against_the_end_of_the_other);
}
