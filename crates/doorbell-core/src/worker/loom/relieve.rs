//! The thread that ends a runtime ends the tasks of a worker, which goes on meanwhile.

use super::with_one_clock;
use crate::scheduler::Scheduler;
use crate::task::Kind;
use crate::testing::launch_as;
use crate::testing::model::{check_large, mutant};
use crate::worker::{IdlePolicy, Worker, WorkerShared};
use ::loom::thread;
use doorbell_machine::Loom;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// A worker takes a task in, polls it, and ends. Another thread ends its tasks at any moment. The task is dropped once.
fn relieved(kind: Kind, waits: bool) {
    let remotes = Scheduler::new(1, &Arc::default(), |_, _| 0);
    let [shared]: [Arc<WorkerShared<Loom>>; 1] = with_one_clock(remotes, IdlePolicy::Park);
    let kept = Arc::new(());
    let its = Arc::clone(&kept);
    let body = poll_fn(move |_| {
        // It goes with the future.
        assert!(Arc::strong_count(&its) > 0);
        if waits {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    });
    let join = launch_as(shared.remote(), kind, body);
    let theirs = Arc::clone(&shared);
    let worker = thread::spawn(move || {
        let worker = Worker::new(theirs);
        worker.local.enter(|| {
            let _ = worker.take();
            worker.gather();
            let _ = worker.local.run_one();
            worker.local.close();
        });
    });
    shared.relieve();
    worker.join().unwrap();
    assert_eq!(join.phase(), crate::task::Phase::Complete);
    drop(join);
    assert_eq!(Arc::strong_count(&kept), 1, "the future was not dropped");
    assert_eq!(shared.remote().shares(), 1, "a task was not freed");
}

fn movable_that_waits() {
    relieved(Kind::Task, true);
}

#[test]
fn d25_a_task_that_waits_is_ended_by_its_worker_or_by_another_thread() {
    check_large(movable_that_waits);
}

#[test]
fn d25_a_pinned_task_is_ended_by_its_worker_or_by_another_thread() {
    check_large(|| relieved(Kind::Pinned, true));
}

#[test]
fn d25_a_task_that_ends_is_taken_from_the_list_or_left() {
    check_large(|| relieved(Kind::Task, false));
    check_large(|| relieved(Kind::Pinned, false));
}

#[test]
fn mutant_list_no_fence() {
    mutant!(TaskListNoFence, movable_that_waits);
}
