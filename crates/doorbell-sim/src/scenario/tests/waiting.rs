//! Several tasks wait behind a long poll while another worker runs short ones: that worker takes all of
//! them.

use super::{one_scheduler, with_workers};
use crate::scenario::scheduler::Workers;
use doorbell_core::task::Kind;
use doorbell_machine::Counter;
use doorbell_machine::sim::{self, SimCounter};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

const MS: u64 = 1_000_000;
const SHORT_NS: u64 = 20_000;
const STUCK_NS: u64 = 10 * MS;
/// How long the worker is busy before: by then it looks at others as rarely as it does with short polls.
const BEFORE_NS: u64 = 5 * MS;
const TASKS: u64 = 4;
/// How late the last task may begin: the first is found at the second look (one every 100 µs), and the
/// others follow one by one, each behind a short poll of the worker's own.
const LATE_NS: u64 = 600_000 + TASKS * 2 * SHORT_NS;

/// Runs short polls until all tasks have begun.
async fn be_busy(begun: Arc<SimCounter>) {
    poll_fn(|cx| {
        sim::work(SHORT_NS);
        if begun.get() == TASKS {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The lateness of the last task.
fn program(workers: &Arc<Workers<0>>) -> u64 {
    let (begun, late_ns) = (Arc::<SimCounter>::default(), Arc::<SimCounter>::default());
    let busy = workers.launch(1, Kind::Pinned, be_busy(Arc::clone(&begun)));
    sim::sleep(BEFORE_NS);
    let (theirs, late) = (Arc::clone(workers), Arc::clone(&late_ns));
    let stuck = workers.launch(0, Kind::Pinned, async move {
        for _ in 0..TASKS {
            let (begun, late, from_ns) = (Arc::clone(&begun), Arc::clone(&late), sim::time_ns());
            let begins = async move {
                begun.add_shared(1);
                late.set(late.get().max(sim::time_ns() - from_ns));
            };
            drop(theirs.launch(0, Kind::Task, begins));
        }
        sim::work(STUCK_NS);
    });
    for task in [stuck, busy] {
        workers.wait_for(task, 0).expect("it ends");
    }
    late_ns.get()
}

#[test]
fn a_busy_worker_takes_all_that_waits_behind_a_long_poll() {
    with_workers(one_scheduler(2), |workers, close| {
        let late_ns = program(workers);
        close();
        let stolen = workers.counts()[1].stolen;
        if stolen != TASKS || late_ns > LATE_NS {
            sim::fail(format!("{stolen} taken, the last {late_ns} ns late"));
        }
    });
}
