//! Schbench's shape in short turns: messengers wake their workers every 4 ms, and each worker computes for 30 µs.
//!
//! Workers are tasks of one runtime, which has a worker of its own, on a CPU of its own, for each of them. So a machine
//! with enough CPUs has an idle one for every wake, and a wake that waits behind another one was placed badly.

use super::{
    Bench, BenchError, Measured, Ratio, counted, finish, gather, sleep_until, start, sum,
    worker_here,
};
use crate::scenario::{Sleep, Workers, spawn};
use doorbell_core::task::{Join, Kind};
use doorbell_core::worker::WorkerCounts;
use doorbell_machine::sim::{self, SimThread};
use doorbell_machine::{ThreadError, ThreadHandle};
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use serde::Deserialize;
use std::sync::Arc;

/// The time between two wakes of a worker.
pub const PERIOD_NS: u64 = 4_000_000;
/// How long a worker computes for a wake.
pub const WORK_NS: u64 = 30_000;
/// Rounds before the first that counts.
const WARM_UP: u64 = 5;
/// By when all tasks have been launched and wait.
const READY_NS: u64 = 4_000_000;
/// The messengers start within this time of each other, so that all are at rest when counting begins.
const PHASES_NS: u64 = PERIOD_NS - 1_000_000;
/// How long before the first round that counts the counters are read.
const BEFORE_NS: u64 = 200_000;

/// What messengers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Messengers {
    /// Threads that are no workers.
    Threads,
    /// Tasks of the same scheduler, each pinned to a worker of its own.
    Tasks,
}

/// When messengers wake their workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// At times that the seed draws, as schbench's messengers.
    Apart,
    /// All at one instant.
    Together,
}

/// The size of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How many messengers there are, each with a CPU of its own.
    pub messengers: usize,
    /// How many workers each of them wakes; as many CPUs have a worker of the runtime.
    pub workers_each: usize,
    /// What messengers are.
    pub by: Messengers,
    /// When they wake.
    pub phase: Phase,
    /// How often each worker is woken, beside some times first that do not count.
    pub rounds: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// For each wake, how long after it the worker ran.
    pub late_ns: Vec<u64>,
    /// Tasks taken from the worker that their wake had placed them at, and tasks that began behind another one which
    /// was not over when they were woken. 0 if every wake found a worker of its own. A task taken twice counts twice.
    pub stacked: u64,
    /// Of all wakes, those whose waker counted that it left the task behind another one.
    pub left: u64,
    /// Times that a waker chose an idle worker which another waker got, and looked for the next.
    pub claims_lost: u64,
    /// System calls that woke threads.
    pub rings: u64,
    /// CPU time of workers and messengers.
    pub cpu_ns: u64,
}

impl Measured for Figures {
    fn add(&mut self, other: Self) {
        self.late_ns.extend(other.late_ns);
        self.stacked += other.stacked;
        self.left += other.left;
        self.claims_lost += other.claims_lost;
        self.rings += other.rings;
        self.cpu_ns += other.cpu_ns;
    }

    fn times_ns(&self) -> Vec<(&'static str, &[u64])> {
        vec![("", &self.late_ns)]
    }

    fn ratios(&self, _: u64) -> Vec<Ratio> {
        let wakes = self.late_ns.len() as u64;
        vec![
            ("wakes_count", [wakes, 1]),
            ("stacked_count", [self.stacked, 1]),
            ("stacked_per_1k", [1_000 * self.stacked, wakes]),
            ("left_per_1k", [1_000 * self.left, wakes]),
            ("claims_lost_per_1k", [1_000 * self.claims_lost, wakes]),
            ("rings_per_op", [self.rings, wakes]),
            ("cpu_us_per_op", [self.cpu_ns, 1_000 * wakes]),
        ]
    }
}

/// A wake, by the number of its round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) round: u64,
    pub(super) at_ns: u64,
}

/// A worker ran for a wake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) sent: Sent,
    pub(super) worker: usize,
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
}

impl Ran {
    /// Computes for so long here, for a wake.
    pub(super) fn compute(sent: Sent, work_ns: u64) -> Self {
        let (worker, began_ns) = (worker_here(), sim::time_ns());
        sim::work(work_ns);
        Ran {
            sent,
            worker,
            began_ns,
            ended_ns: sim::time_ns(),
        }
    }
}

impl Shape {
    fn tasks(&self) -> usize {
        self.messengers * self.workers_each
    }

    /// The runtime's workers.
    fn workers(&self) -> usize {
        match self.by {
            Messengers::Threads => self.tasks(),
            Messengers::Tasks => self.cpus(),
        }
    }

    /// The CPUs of the tasks, and of the messengers behind them.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.tasks() + self.messengers
    }

    /// How long after the others this messenger wakes.
    fn draw_phase_ns(&self) -> u64 {
        match self.phase {
            Phase::Apart => sim::random() % PHASES_NS,
            Phase::Together => 0,
        }
    }
}

/// Runs it.
///
/// # Errors
/// [`BenchError`] if the machine cannot be simulated or an oracle fails.
pub fn run(bench: &Bench, shape: Shape) -> Result<Figures, BenchError> {
    bench.run(shape.cpus(), shape.cpus() - 1, move |bench| {
        play(bench, shape)
    })
}

/// A worker: computes whenever it is woken, until its messenger ends.
async fn work(mut wakes: UnboundedReceiver<Sent>) -> Vec<Ran> {
    let mut all = Vec::new();
    while let Ok(sent) = wakes.recv().await {
        all.push(Ran::compute(sent, WORK_NS));
    }
    all
}

/// Wakes all workers of a messenger, one right after another.
fn wake_all(round: u64, workers: &[UnboundedSender<Sent>]) {
    for worker in workers {
        wake_one(round, worker);
    }
}

/// Wakes a worker of a messenger.
pub(super) fn wake_one(round: u64, worker: &UnboundedSender<Sent>) {
    let at_ns = sim::time_ns();
    if worker.unbounded_send(Sent { round, at_ns }).is_err() {
        sim::fail("lost: a worker ended before its messenger");
    }
}

/// The messengers of a run, as what they are.
#[derive(Debug, Default)]
struct Running {
    threads: Vec<SimThread>,
    tasks: Vec<Join<()>>,
}

impl Running {
    /// Starts the messenger with this number, which ends its workers when it ends.
    fn start(
        &mut self,
        shape: Shape,
        number: usize,
        workers: &Arc<Workers<0>>,
        first_ns: u64,
        theirs: Vec<UnboundedSender<Sent>>,
    ) -> Result<(), ThreadError> {
        let rounds =
            (0..WARM_UP + shape.rounds).map(move |round| (round, first_ns + round * PERIOD_NS));
        let cpu = shape.tasks() + number;
        match shape.by {
            Messengers::Threads => {
                let messenger = move || {
                    for (round, at_ns) in rounds {
                        sleep_until(at_ns);
                        wake_all(round, &theirs);
                    }
                };
                self.threads.push(spawn::<0>("messenger", cpu, messenger)?);
            }
            Messengers::Tasks => {
                let all = Arc::clone(workers);
                let messenger = async move {
                    for (round, at_ns) in rounds {
                        Sleep::new(&all, cpu, at_ns.saturating_sub(sim::time_ns())).await;
                        wake_all(round, &theirs);
                    }
                };
                self.tasks
                    .push(workers.launch(cpu, Kind::Pinned, messenger));
            }
        }
        Ok(())
    }

    /// The numbers of those that are threads.
    fn numbers(&self) -> Vec<u32> {
        self.threads.iter().map(SimThread::number).collect()
    }

    fn join(self, workers: &Workers<0>) -> Result<(), ThreadError> {
        for task in self.tasks {
            drop(workers.wait_for(task, 0));
        }
        self.threads.into_iter().try_for_each(ThreadHandle::join)
    }
}

/// What was counted by now.
#[derive(Clone, Debug)]
pub(super) struct Did {
    counts: Vec<WorkerCounts>,
    cpu_ns: u64,
}

impl Did {
    /// The threads of messengers are given by their numbers.
    pub(super) fn by_now(workers: &Workers<0>, messengers: &[u32]) -> Self {
        let numbers = (0..workers.len()).map(|worker| workers.number(worker));
        let numbers = numbers.chain(messengers.iter().copied());
        Did {
            counts: workers.counts(),
            cpu_ns: numbers.map(sim::ran_ns).sum(),
        }
    }

    /// The figures of the wakes that count, and of what was done since `before`.
    pub(super) fn figures(&self, before: &Self, ran: &mut [Ran]) -> Figures {
        let did = counted(&before.counts, &self.counts);
        Figures {
            late_ns: ran.iter().map(|it| it.began_ns - it.sent.at_ns).collect(),
            stacked: sum(&did, |it| it.stolen) + behind(ran),
            left: sum(&did, |it| it.stacked),
            claims_lost: sum(&did, |it| it.claims_lost),
            rings: sum(&did, |it| it.rings),
            cpu_ns: self.cpu_ns - before.cpu_ns,
        }
    }
}

/// The first thread of a run.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let (workers, threads) = start(bench.one_scheduler(shape.workers()))?;
    let (says, hears): (Vec<_>, Vec<_>) = (0..shape.tasks()).map(|_| unbounded()).unzip();
    let tasks = hears.into_iter().enumerate();
    let tasks: Vec<_> = tasks
        .map(|(place, hears)| workers.launch(place, Kind::Task, work(hears)))
        .collect();
    let first_ns = sim::time_ns() + READY_NS;
    let mut messengers = Running::default();
    for (number, says) in says.chunks(shape.workers_each).enumerate() {
        let from_ns = first_ns + shape.draw_phase_ns();
        messengers.start(shape, number, &workers, from_ns, says.to_vec())?;
    }
    drop(says);
    sleep_until(first_ns + WARM_UP * PERIOD_NS - BEFORE_NS);
    let numbers = messengers.numbers();
    let before = Did::by_now(&workers, &numbers);
    // All phases of a round are over by then, and no one has begun the round after the last.
    sleep_until(first_ns + (WARM_UP + shape.rounds) * PERIOD_NS - BEFORE_NS);
    let after = Did::by_now(&workers, &numbers);
    messengers.join(&workers)?;
    let mut ran = gather(&workers, tasks);
    finish(workers, threads, bench.switches);
    ran.retain(|it| it.sent.round >= WARM_UP);
    if ran.len() as u64 != shape.rounds * shape.tasks() as u64 {
        sim::fail(format!("lost: {} runs of {shape:?}", ran.len()));
    }
    Ok(after.figures(&before, &mut ran))
}

/// How many began on a worker right behind another one that was not over when they were woken.
fn behind(ran: &mut [Ran]) -> u64 {
    ran.sort_unstable_by_key(|it| (it.worker, it.began_ns));
    let waited =
        |pair: &&[Ran]| pair[0].worker == pair[1].worker && pair[0].ended_ns > pair[1].sent.at_ns;
    ran.windows(2).filter(waited).count() as u64
}
