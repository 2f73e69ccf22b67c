//! Two workers of one scheduler, each in its real loop, and one poller: whoever sleeps in it, what comes is brought.

use super::pair::Pair;
use crate::io::{Direction, Registration};
use crate::task::{About, Kind};
use crate::testing::launch_about;
use crate::testing::model::{check_large, mutant};
use ::loom::thread;
use doorbell_machine::Readiness;
use doorbell_machine::loom::LoomFd;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// A waker that asks both workers to end.
struct Closes(Pair<4>);

impl Wake for Closes {
    fn wake(self: Arc<Self>) {
        self.0.close();
    }
}

/// A descriptor becomes ready while both workers fall asleep.
fn ready_while_both_fall_asleep() {
    let workers = Pair::<4>::new(0);
    let remote = workers.0[0].remote().clone();
    let registration = Registration::new(remote.clone(), LoomFd(0)).unwrap();
    let waker = Waker::from(Arc::new(Closes(workers.clone())));
    let polled = registration.poll_ready(&Context::from_waker(&waker), Direction::Read);
    assert!(polled.is_pending());
    let world = thread::spawn(move || {
        let poller = remote.driver().poller().unwrap();
        poller.set_ready(LoomFd(0), Readiness::READABLE);
    });
    let second = workers.run();
    second.join().unwrap();
    world.join().unwrap();
    drop(registration);
}

/// A pinned task waits for two descriptors, one after the other. The worker that brings the first event to it may leave the
/// poller to the task's own worker.
fn ready_twice_for_a_pinned_task() {
    let workers = Pair::<4>::new(0);
    let remote = workers.0[1].remote().clone();
    let [first, second] = [0, 1].map(|fd| Registration::new(remote.clone(), LoomFd(fd)).unwrap());
    let theirs = workers.clone();
    let waits = async move {
        for registration in [first, second] {
            poll_fn(|cx| registration.poll_ready(cx, Direction::Read)).await;
        }
        theirs.close();
    };
    drop(launch_about(&remote, Kind::Pinned, About::default(), waits));
    let world = thread::spawn(move || {
        let poller = remote.driver().poller().unwrap();
        for fd in [0, 1] {
            poller.set_ready(LoomFd(fd), Readiness::READABLE);
        }
    });
    let second = workers.run();
    second.join().unwrap();
    world.join().unwrap();
}

#[test]
fn what_becomes_ready_for_a_pinned_task_is_brought_twice() {
    check_large(ready_twice_for_a_pinned_task);
}

#[test]
fn what_becomes_ready_while_both_workers_fall_asleep_is_brought() {
    check_large(ready_while_both_fall_asleep);
}

#[test]
fn mutant_never_left_by_two() {
    mutant!(IoNeverLeft, ready_while_both_fall_asleep);
}
