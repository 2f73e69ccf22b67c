//! A task that comes from outside to a worker inside a long poll. Another worker of the scheduler must run it, or the
//! model deadlocks: the poll ends when the task has run.

use super::with_one_clock;
use crate::scheduler::Scheduler;
use crate::testing::model::{check_largest, mutant};
use crate::testing::spawn;
use crate::worker::{IdlePolicy, Local, Worker, WorkerShared};
use ::loom::sync::Notify;
use ::loom::thread;
use doorbell_machine::Loom;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The first worker has no loop here, as it is inside that poll all along. The second one may be about to sleep.
fn posted_behind_a_poll() {
    let remotes = Scheduler::new(2, &Arc::default(), |_, _| 0);
    let [stuck, other]: [Arc<WorkerShared<Loom>>; 2] =
        with_one_clock(remotes, IdlePolicy::Spin { spin_ns: 0 });
    let local = Local::new(stuck.remote().clone());
    // The count is not part of the model.
    let ran = Arc::new((Notify::new(), AtomicUsize::new(0)));
    local.enter(|| {
        let (worker, remote) = (Arc::clone(&other), stuck.remote().clone());
        let runs = thread::spawn(move || Worker::new(worker).run());
        let theirs = Arc::clone(&ran);
        let task = async move {
            theirs.1.fetch_add(1, Relaxed);
            theirs.0.notify();
        };
        let posts = thread::spawn(move || drop(spawn(&remote, task)));
        // A wait may end for no reason.
        while ran.1.load(Relaxed) == 0 {
            ran.0.wait();
        }
        posts.join().unwrap();
        other.close();
        runs.join().unwrap();
        local.close();
    });
    drop(local);
    assert_eq!(ran.1.load(Relaxed), 1, "a task ran twice");
    assert_eq!(stuck.remote().shares(), 2, "a task was not freed");
}

#[test]
fn what_is_posted_behind_a_poll_is_kept_from_no_idle_worker() {
    check_largest(posted_behind_a_poll);
}

#[test]
fn mutant_post_unoffered() {
    mutant!(SchedulerPostUnoffered, posted_behind_a_poll);
}
