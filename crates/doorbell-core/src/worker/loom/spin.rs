//! A worker that spins gets tasks of its own, and then looks at another that has more than it can run at
//! once: the second half of a spin that calls keep from ending. A model has no time that would bring a
//! worker there, so the two looks are made by hand.

use super::pair::{Pair, Work};
use crate::io::{Direction, Registration};
use crate::testing::model::check_largest;
use crate::worker::Worker;
use ::loom::thread;
use doorbell_machine::loom::LoomFd;
use doorbell_machine::{Loom, Readiness};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// How many tasks fill a ring.
const RING: usize = 4;

/// Of these, the first ones lie at the worker that is robbed; the others come by the descriptor.
const TASKS: usize = 2 * RING;

type Tasks = Work<RING, TASKS>;

/// A waker that brings tasks.
struct Brings(Arc<Tasks>);

impl Wake for Brings {
    fn wake(self: Arc<Self>) {
        (RING..TASKS).for_each(|task| self.0.spawn(task, |_, _| {}));
    }
}

/// Runs what there is, and ends as a worker does that idles.
fn run_out(worker: &Worker<Loom<RING>>) {
    while worker.local.run_one() {}
    worker.leave_idle_set();
    worker.end_search();
    while worker.local.run_one() {}
}

/// The second worker's descriptor is ready and brings as many tasks as its ring holds; the first worker has
/// as many.
fn two_looks() {
    let workers = Pair::<RING>::new(1);
    let work = Tasks::new(&workers);
    let first = Worker::new(Arc::clone(&workers.0[0]));
    first.local.enter(|| {
        (0..RING).for_each(|task| work.spawn(task, |_, _| {}));
    });
    let (shared, theirs) = (Arc::clone(&workers.0[1]), Arc::clone(&work));
    let spinning = thread::spawn(move || {
        let remote = shared.remote().clone();
        let registration = Registration::new(remote.clone(), LoomFd(0)).unwrap();
        let waker = Waker::from(Arc::new(Brings(theirs)));
        let polled = registration.poll_ready(&Context::from_waker(&waker), Direction::Read);
        assert!(polled.is_pending());
        let poller = remote.driver().poller().unwrap();
        poller.set_ready(LoomFd(0), Readiness::READABLE);
        let second = Worker::new(shared);
        second.local.enter(|| {
            assert!(second.look_at_descriptors());
            let _ = second.look_around();
            run_out(&second);
            drop(registration);
            second.local.close();
        });
    });
    first.local.enter(|| {
        run_out(&first);
        first.local.close();
    });
    spinning.join().unwrap();
    work.assert_all_ran();
}

#[test]
fn a_worker_that_got_tasks_while_it_spins_loses_none_by_a_theft() {
    check_largest(two_looks);
}
