//! What a worker wakes between two polls (its task, by descriptor, timer or mail) leaves the other workers
//! asleep if polls are short, also directly after a long poll. What a long poll pushes does not wait for the end of that
//! poll.

use super::{one_scheduler, with_workers, work_long_again};
use crate::scenario::class::{Classes, RT, Urgent};
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use crate::scenario::timer::Sleep;
use doorbell_core::io::{Direction, Registration};
use doorbell_core::scheduler::RemoteRef;
use doorbell_core::task::Kind;
use doorbell_core::worker::WorkerCounts;
use doorbell_machine::sim::{self, SimCounter, SimFd};
use doorbell_machine::{Counter, Readiness, Sim};
use futures_channel::oneshot::{Receiver, channel};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;

const MS: u64 = 1_000_000;

const CORES: usize = 2;

type Registered = Registration<Sim, RemoteRef<Sim>>;

/// Longer than a watchdog stays one: a watchdog requested in one round sleeps before the next.
const ROUND_NS: u64 = 20 * MS;
/// The worker makes a long poll, and the task waits for the first time.
const FIRST_ROUNDS: u64 = 1;
const ROUNDS: u64 = 20;
/// How long the last poll goes on.
const LONG_NS: u64 = 5 * MS;
/// By when other workers take what it pushed: two looks of a watchdog, and a wake.
const TAKEN_NS: u64 = MS;

/// What gives the task something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A descriptor in whose poller the worker sleeps.
    Descriptor,
    Timer,
    /// A wake from a lower class.
    Below,
}

impl By {
    /// The first worker of the scheduler.
    fn worker(self) -> usize {
        if self == By::Below { RT * CORES } else { 0 }
    }

    fn scheduler(self) -> SchedulerConfig {
        let one = one_scheduler(CORES);
        match self {
            By::Descriptor | By::Timer => one,
            By::Below => SchedulerConfig {
                classes: Classes::Each(Urgent::Fifo),
                ..one
            },
        }
    }
}

/// What the task has done.
#[derive(Debug, Default)]
struct Done {
    rounds: SimCounter,
    /// When it pushed another task, and when that task began.
    left_ns: SimCounter,
    taken_ns: SimCounter,
}

/// One round in each poll.
fn poll(workers: &Arc<Workers<0>>, by: By, done: &Arc<Done>) {
    done.rounds.add_shared(1);
    if done.rounds.get() <= FIRST_ROUNDS + ROUNDS {
        return;
    }
    let theirs = Arc::clone(done);
    done.left_ns.set(sim::time_ns());
    let left = async move { theirs.taken_ns.set(sim::time_ns()) };
    drop(workers.launch(by.worker(), Kind::Task, left));
    sim::work(LONG_NS);
}

/// Where the task waits for its next round.
enum Source {
    Fd(Registered, SimFd),
    Timer(Arc<Workers<0>>),
    /// One receiver for each round.
    Told(Vec<Receiver<()>>),
}

impl Source {
    async fn next(&mut self) {
        match self {
            Source::Fd(registered, fd) => {
                let take = || match fd.take(Readiness::READABLE) {
                    Readiness::EMPTY => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok(()),
                };
                let taken = poll_fn(|cx| registered.poll_io(cx, Direction::Read, take));
                taken.await.expect("the worker has not ended");
            }
            Source::Timer(workers) => drop(Sleep::new(workers, 0, ROUND_NS).await),
            Source::Told(told) => drop(told.pop().expect("one for each round").await),
        }
    }
}

/// The counts of the scheduler's workers for the rounds with short polls.
fn program(workers: &Arc<Workers<0>>, by: By, done: &Arc<Done>) -> [WorkerCounts; CORES] {
    let fd = SimFd::open();
    let (mut tell, told): (Vec<_>, Vec<_>) = (0..=FIRST_ROUNDS + ROUNDS).map(|_| channel()).unzip();
    let mut source = match by {
        By::Descriptor => {
            let registered = Registration::new(workers.remote(by.worker()).clone(), fd);
            Source::Fd(registered.expect("the worker has not ended"), fd)
        }
        By::Timer => Source::Timer(Arc::clone(workers)),
        By::Below => Source::Told(told),
    };
    let (theirs, did) = (Arc::clone(workers), Arc::clone(done));
    let task = workers.launch(by.worker(), Kind::Task, async move {
        while did.left_ns.get() == 0 {
            source.next().await;
            poll(&theirs, by, &did);
        }
    });
    let mut round = || {
        match by {
            By::Descriptor => fd.set_ready(Readiness::READABLE),
            By::Timer => {}
            By::Below => tell
                .pop()
                .expect("one for each round")
                .send(())
                .expect("the task waits"),
        }
        sim::sleep(ROUND_NS);
    };
    let scheduler = || {
        let counts = workers.counts();
        [counts[by.worker()], counts[by.worker() + 1]]
    };
    drop(workers.launch(by.worker(), Kind::Pinned, work_long_again(LONG_NS)));
    (0..FIRST_ROUNDS).for_each(|_| round());
    let before = scheduler();
    (0..ROUNDS).for_each(|_| round());
    let after = scheduler();
    round();
    workers.wait_for(task, 0).expect("it ends");
    [0, 1].map(|worker| after[worker].since(&before[worker]))
}

fn check(by: By) {
    with_workers(by.scheduler(), move |workers, close| {
        let done = Arc::<Done>::default();
        let mut counts = program(workers, by, &done);
        if by == By::Descriptor {
            // Whoever sleeps in the poller runs the task.
            counts.sort_by_key(|it| std::cmp::Reverse(it.polls));
        }
        let [own, other] = counts;
        close();
        let why = |what: &str| sim::fail(format!("{by:?}: {what}: {own:?}, {other:?}"));
        if own.polls < ROUNDS || own.parks < ROUNDS {
            why("too little was done");
        }
        if (by == By::Descriptor) != (own.unparks_ready >= ROUNDS) {
            why("it came in another way");
        }
        // One wake-up for each round, and none elsewhere.
        if own.parks > ROUNDS + ROUNDS / 10 || other.parks > 0 {
            why("the other worker was woken");
        }
        let late_ns = done.taken_ns.get().saturating_sub(done.left_ns.get());
        if done.taken_ns.get() == 0 || late_ns > TAKEN_NS {
            why(&format!(
                "what a long poll left was not taken for {late_ns} ns"
            ));
        }
    });
}

#[test]
fn what_comes_to_a_task_whose_polls_are_short_wakes_one_worker_once_also_behind_a_long_poll() {
    for by in [By::Descriptor, By::Timer, By::Below] {
        check(by);
    }
}
