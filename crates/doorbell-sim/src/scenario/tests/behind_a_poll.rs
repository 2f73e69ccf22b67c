//! How long a task waits for a poll of milliseconds to end, if another worker is idle, and if all others have work of
//! their own: the bounds of the watch (`worker/watch/README.md` of `doorbell-core`).

use super::{one_scheduler, with_workers};
use crate::scenario::scheduler::Workers;
use doorbell_core::task::Kind;
use doorbell_machine::Counter;
use doorbell_machine::sim::{self, SimCounter};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

const MS: u64 = 1_000_000;
/// The polls of each busy worker are longer by this than those of the one before: they do not all look at one moment.
const STEP_NS: u64 = 700;
/// The poll behind which the task waits.
const STUCK_NS: u64 = 20 * MS;
/// Longer than a watchdog with nothing to do stays one.
const RESTED_NS: u64 = 15 * MS;
/// One of the workers with work of their own looks this often.
const BUSY_EVERY_NS: u64 = 100_000;

/// Runs polls of that length until the task has begun.
async fn be_busy(begun: Arc<SimCounter>, poll_ns: u64) {
    poll_fn(|cx| {
        sim::work(poll_ns);
        if begun.get() > 0 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// How long after its push the task begins, which the poll pushes `after_ns` from its begin.
fn late_ns(workers: &Arc<Workers<0>>, busy: usize, short_ns: u64, after_ns: u64) -> u64 {
    let (begun, late) = (Arc::<SimCounter>::default(), Arc::<SimCounter>::default());
    let others: Vec<_> = (1..=busy)
        .map(|worker| {
            workers.launch(
                worker,
                Kind::Pinned,
                be_busy(Arc::clone(&begun), short_ns + STEP_NS * worker as u64),
            )
        })
        .collect();
    sim::sleep(RESTED_NS);
    let (theirs, measured) = (Arc::clone(workers), Arc::clone(&late));
    let stuck = workers.launch(0, Kind::Pinned, async move {
        sim::work(after_ns);
        let pushed_ns = sim::time_ns();
        let begins = async move {
            measured.set(sim::time_ns() - pushed_ns);
            begun.add_shared(1);
        };
        drop(theirs.launch(0, Kind::Task, begins));
        sim::work(STUCK_NS);
    });
    for task in others.into_iter().chain([stuck]) {
        workers.wait_for(task, 0).expect("it ends");
    }
    late.get()
}

/// The task begins within `bound_ns` beside so many workers that idle and so many that are busy, whenever the poll pushes
/// it.
fn check(idle: usize, busy: usize, short_ns: u64, bound_ns: u64) {
    for after_ns in (0..12).map(|step| step * 37_000) {
        with_workers(one_scheduler(1 + busy + idle), move |workers, close| {
            let late_ns = late_ns(workers, busy, short_ns, after_ns);
            close();
            if late_ns > bound_ns {
                sim::fail(format!(
                    "{busy} busy, {idle} idle, polls of {short_ns} ns, pushed at {after_ns}: {late_ns} ns"
                ));
            }
        });
    }
}

#[test]
fn a_task_behind_a_poll_begins_within_a_millisecond_if_a_worker_idles() {
    for (idle, busy) in [(1, 0), (1, 1), (7, 0), (1, 6), (1, 30)] {
        check(idle, busy, 20_000, MS);
    }
}

#[test]
fn a_task_behind_a_poll_begins_within_a_millisecond_if_up_to_three_others_are_busy() {
    for busy in [1, 2, 3] {
        for short_ns in [5_000, 20_000, 60_000, 95_000] {
            check(0, busy, short_ns, MS);
        }
    }
}

#[test]
fn a_task_behind_a_poll_waits_for_two_looks_of_one_worker_if_many_others_are_busy() {
    for busy in [4, 7, 15, 63] {
        for short_ns in [5_000, 90_000, 110_000] {
            let longest_ns = short_ns + STEP_NS * busy as u64;
            check(
                0,
                busy,
                short_ns,
                (busy as u64 + 2) * (BUSY_EVERY_NS + longest_ns),
            );
        }
    }
}
