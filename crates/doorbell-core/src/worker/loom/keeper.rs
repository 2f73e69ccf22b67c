//! Two workers of one scheduler, each in its real loop, and one poller: whoever sleeps in it, what comes is brought.

use super::pair::Pair;
use crate::io::{Direction, Registration};
use crate::testing::model::{check_large, mutant};
use ::loom::thread;
use doorbell_machine::Readiness;
use doorbell_machine::loom::LoomFd;
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

/// The first descriptor comes from outside while one worker falls asleep. The other one looks at nothing, as if it were inside
/// a poll.
fn first_while_one_falls_asleep() {
    let workers = Pair::<4>::new(0);
    let remote = workers.0[0].remote().clone();
    let second = workers.start(1);
    let registration = Registration::new(remote.clone(), LoomFd(0)).unwrap();
    let waker = Waker::from(Arc::new(Closes(workers)));
    let polled = registration.poll_ready(&Context::from_waker(&waker), Direction::Read);
    assert!(polled.is_pending());
    let poller = remote.driver().poller().unwrap();
    poller.set_ready(LoomFd(0), Readiness::READABLE);
    second.join().unwrap();
    drop(registration);
}

#[test]
fn the_first_descriptor_reaches_a_worker_that_falls_asleep_beside_a_stuck_one() {
    check_large(first_while_one_falls_asleep);
}

#[test]
fn what_becomes_ready_while_both_workers_fall_asleep_is_brought() {
    check_large(ready_while_both_fall_asleep);
}

#[test]
fn mutant_never_left_by_two() {
    mutant!(IoNeverLeft, ready_while_both_fall_asleep);
}

#[test]
fn mutant_sleeps_unkept() {
    mutant!(IoSleepsUnkept, first_while_one_falls_asleep);
}
