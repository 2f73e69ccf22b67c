//! Behind all faults, posts and timers are prompt: at idle workers, and at sleeping ones while another one is busy.

use super::class::BATCH;
use super::program::{below, run_until};
use super::rest;
use super::scheduler::Workers;
use super::timer::Sleep;
use doorbell_core::parcel;
use doorbell_core::scheduler::Turns;
use doorbell_core::task::Kind;
use doorbell_machine::sim;
use futures_channel::oneshot::channel;
use std::sync::Arc;

/// By when an idle worker has run a post or its own timer, without its look at the others.
const PROMPT_NS: u64 = 50_000;
/// How much longer a worker may look for work, for each worker: groups of eight have two words in the sets that it
/// reads, and a word of another socket takes 0.4 µs.
const LOOK_NS: u64 = 100;
/// As `PROMPT_NS`, for class Batch, whose worker first waits until the Fair worker of its core stops spinning.
const BATCH_PROMPT_NS: u64 = 150_000;
/// How much later a sleeping worker's timer may be beside one that makes short polls. That looks at each reading
/// of its clock, after at most 8 polls. Then the task may have to wait for another worker's
/// wake.
const POLLS_PROMPT_NS: u64 = 8 * POLL_NS;
/// By when a sleeping worker's timer has fired beside one that is stuck: a watchdog sees to it within 1 ms. The task has made
/// a poll of this length before, so that a watchdog is asked for.
const STUCK_PROMPT_NS: u64 = 1_000_000;
const LONG_NS: u64 = 1_200_000;

/// How many sleeping workers have timers beside one that is busy.
const SLEEPERS_MAX: usize = 3;
/// When the first of those timers is due, from when they are armed.
const DUE_NS: u64 = 300_000;
/// By then the workers sleep again.
const ASLEEP_NS: u64 = 200_000;
/// When the last of them is due, from the first one. The others are due together.
const LAST_NS: u64 = 30_000;
/// How long the busy worker goes on after that.
const BEYOND_NS: u64 = 60_000;
const POLL_NS: u64 = 2_000;

/// What the first worker does while timers of sleeping workers become due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Sleeps,
    /// It makes short polls.
    Polls,
    /// It is stuck in one poll, of a task that has made a long one before.
    IsStuck,
}

fn prompt_ns<const BUG: u8>(workers: &Workers<BUG>, worker: usize) -> u64 {
    let without_look_ns = if worker / workers.cores() < BATCH {
        PROMPT_NS
    } else {
        BATCH_PROMPT_NS
    };
    without_look_ns + LOOK_NS * workers.cores() as u64
}

/// Checks that posts and timers are prompt.
pub(super) fn check<const BUG: u8>(workers: &Arc<Workers<BUG>>) {
    for worker in 0..workers.len() {
        post_and_timer(workers, worker);
    }
    for at in 0..workers.len() / workers.cores() {
        let first = match [First::Sleeps, First::Polls, First::IsStuck][below(3) as usize] {
            // By rank nobody looks after a worker because its task made long polls before.
            First::IsStuck if workers.turns(at) == Turns::ByRank => First::Sleeps,
            first => first,
        };
        timers_of_sleepers(workers, at * workers.cores(), first);
    }
}

/// An idle worker runs a post and a timer promptly.
fn post_and_timer<const BUG: u8>(workers: &Arc<Workers<BUG>>, worker: usize) {
    let prompt_ns = prompt_ns(workers, worker);
    let once = Arc::new(workers.once("prompt post", worker));
    let theirs = Arc::clone(&once);
    let posted_ns = sim::time_ns();
    let run = move || {
        theirs.happens();
        let late_ns = sim::time_ns() - posted_ns;
        if late_ns > prompt_ns {
            sim::fail(format!(
                "prompt: worker {worker} ran a post after {late_ns} ns"
            ));
        }
    };
    if parcel::post(&**workers.remote(worker), run).is_err() {
        sim::fail("lost: a post was refused by a worker that runs");
    }
    let kinds = [(Kind::Pinned, 0), (Kind::Task, 0), (Kind::Task, 100_000)];
    let (kind, slack_ns) = kinds[below(3) as usize];
    let mine = Arc::clone(workers);
    let sleeps = workers.launch(worker, kind, async move {
        let sleep = Sleep::new(&mine, worker, 100_000).slack(slack_ns);
        let due_ns = sim::time_ns() + 100_000 + slack_ns;
        sleep.await;
        let late_ns = sim::time_ns().saturating_sub(due_ns);
        if late_ns > prompt_ns {
            sim::fail(format!(
                "lateness: a timer of a {kind:?} on worker {worker} fired {late_ns} ns late"
            ));
        }
    });
    let _: Option<()> = workers.result_of(sleeps);
    if once.times() != 1 {
        sim::fail("nothing lost: a post came after a timer that was armed after it");
    }
}

/// Timers of movable tasks of sleeping workers are prompt, whatever the first worker of the scheduler does.
fn timers_of_sleepers<const BUG: u8>(workers: &Arc<Workers<BUG>>, one: usize, first: First) {
    let late_max_ns = match first {
        First::Sleeps => prompt_ns(workers, one),
        First::Polls => prompt_ns(workers, one) + POLLS_PROMPT_NS,
        First::IsStuck => STUCK_PROMPT_NS,
    };
    let (tell, told) = channel();
    let stuck = (first == First::IsStuck).then(|| {
        let stuck = workers.launch(one, Kind::Pinned, async {
            sim::work(LONG_NS);
            let _ = told.await;
            sim::work(STUCK_PROMPT_NS + 2 * DUE_NS);
        });
        sim::sleep(2 * LONG_NS);
        stuck
    });
    let due_ns = workers.clock_ns() + DUE_NS;
    let end_ns = sim::time_ns() + DUE_NS + LAST_NS + BEYOND_NS;
    let sleepers = 1..workers.cores().min(1 + SLEEPERS_MAX);
    let last = sleepers.end - 1;
    let sleep = |sleeper| {
        let due_ns = due_ns + if sleeper == last { LAST_NS } else { 0 };
        let (mine, worker) = (Arc::clone(workers), one + sleeper);
        workers.launch(worker, Kind::Task, async move {
            Sleep::until(&mine, worker, due_ns).await;
            let late_ns = mine.clock_ns() - due_ns;
            if late_ns > late_max_ns {
                sim::fail(format!(
                    "lateness: a timer of worker {worker}, which slept, fired {late_ns} ns late, while worker {one} {first:?}"
                ));
            }
        })
    };
    let mut tasks: Vec<_> = sleepers.map(sleep).collect();
    sim::sleep(ASLEEP_NS);
    rest::check_trees(workers);
    match first {
        First::Sleeps => {}
        First::Polls => {
            tasks.push(workers.launch(one, Kind::Pinned, run_until(end_ns, POLL_NS)));
        }
        First::IsStuck => {
            // It waits for this.
            let _ = tell.send(());
            tasks.extend(stuck);
        }
    }
    for task in tasks {
        let _: Option<()> = workers.result_of(task);
    }
}
