//! Schbench with its own times: workers compute for 30 ms, answer their messenger, and sleep until it wakes them.
//!
//! A messenger sleeps for a pause from the first answer on, and then wakes all that have answered, one right after
//! another. A wake that waits behind another one waits for milliseconds. Messengers are threads that are no workers, each
//! with a CPU of its own. The runtime has a worker for each task that can be awake, so there is an idle one for every wake.
//!
//! A task goes to the worker that ran it last, if that one is idle. Where there are no more tasks than workers it always
//! is. Where there are more, some tasks find it busy, and their wakers choose among the other idle workers.

use super::wake::{Did, Figures, Phase, Ran, Sent, wake_one};
use super::{Bench, BenchError, finish, gather, sleep_until, start};
use crate::scenario::{Workers, spawn};
use doorbell_core::task::{Join, Kind};
use doorbell_machine::sim::{self, SimThread};
use doorbell_machine::{ThreadError, ThreadHandle};
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use serde::Deserialize;
use std::sync::Arc;

/// How long a worker computes for a wake (schbench's `cputime`).
pub const WORK_NS: u64 = 30_000_000;
/// How long a messenger waits, at least, before it wakes those that have answered (schbench's `sleeptime`).
pub const PAUSE_NS: u64 = 30_000_000;
/// It waits longer than that by less than this.
const JITTER_NS: u64 = PAUSE_NS / 4;
/// A messenger looks this often for the first answer.
const LOOK_NS: u64 = 100_000;
/// Messengers that wake together do so at multiples of this time.
const STEP_NS: u64 = 5_000_000;
/// Rounds before the first that counts.
const WARM_UP: u64 = 3;

/// The size of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How many messengers there are.
    pub messengers: usize,
    /// How many workers each of them wakes at most at a time; as many CPUs have a worker of the runtime.
    pub woken_each: usize,
    /// How many workers each of them has. If these are more, it draws whom it wakes.
    pub workers_each: usize,
    /// When they wake: each for itself, or at common instants.
    pub phase: Phase,
    /// How often a messenger wakes those that have answered, beside some times first that do not count.
    pub rounds: u64,
}

/// Runs it.
///
/// # Errors
/// [`BenchError`] if the machine cannot be simulated or an oracle fails.
pub fn run(bench: &Bench, shape: Shape) -> Result<Figures, BenchError> {
    let cpus = shape.messengers * (shape.woken_each + 1);
    bench.run(cpus, cpus - 1, move |bench| play(bench, shape))
}

/// A worker: computes and answers whenever it is woken, until its messenger ends.
async fn work(
    number: usize,
    mut wakes: UnboundedReceiver<Sent>,
    answers: UnboundedSender<usize>,
) -> Vec<Ran> {
    let mut all = Vec::new();
    while let Ok(sent) = wakes.recv().await {
        all.push(Ran::compute(sent, WORK_NS));
        // The messenger's last wake has no listener.
        let _ = answers.unbounded_send(number);
    }
    all
}

/// What a messenger has of its workers.
struct Messenger {
    wakes: Vec<UnboundedSender<Sent>>,
    answers: UnboundedReceiver<usize>,
    shape: Shape,
}

impl Messenger {
    /// Wakes workers, then again and again some of those that have answered.
    fn play(mut self) {
        let mut ready: Vec<_> = (0..self.wakes.len()).collect();
        for round in 0..WARM_UP + self.shape.rounds {
            for _ in 0..ready.len().min(self.shape.woken_each) {
                let number = ready.swap_remove(sim::random() as usize % ready.len());
                wake_one(round, &self.wakes[number]);
            }
            let first = loop {
                sim::sleep(LOOK_NS);
                if let Ok(number) = self.answers.try_recv() {
                    break number;
                }
            };
            ready.push(first);
            self.pause();
            while let Ok(number) = self.answers.try_recv() {
                ready.push(number);
            }
        }
    }

    fn pause(&self) {
        let until_ns = sim::time_ns() + PAUSE_NS;
        sleep_until(match self.shape.phase {
            Phase::Apart => until_ns + sim::random() % JITTER_NS,
            Phase::Together => until_ns.next_multiple_of(STEP_NS),
        });
    }
}

/// Messengers, and the tasks of their workers.
type Launched = (Vec<SimThread>, Vec<Join<Vec<Ran>>>);

/// Starts the messengers, and returns them and the tasks of their workers.
fn launch(shape: Shape, workers: &Arc<Workers<0>>) -> Result<Launched, ThreadError> {
    let (mut threads, mut tasks) = (Vec::new(), Vec::new());
    for messenger in 0..shape.messengers {
        let (answer, answers) = unbounded();
        let mut wakes = Vec::new();
        for number in 0..shape.workers_each {
            let (wake, woken) = unbounded();
            wakes.push(wake);
            let place = tasks.len() % workers.len();
            tasks.push(workers.launch(place, Kind::Task, work(number, woken, answer.clone())));
        }
        let it = Messenger {
            wakes,
            answers,
            shape,
        };
        let cpu = shape.messengers * shape.woken_each + messenger;
        threads.push(spawn::<0>("messenger", cpu, move || it.play())?);
    }
    Ok((threads, tasks))
}

/// The first thread of a run.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let (workers, threads) = start(bench.one_scheduler(shape.messengers * shape.woken_each))?;
    let (messengers, tasks) = launch(shape, &workers)?;
    sim::sleep(WARM_UP * (WORK_NS + PAUSE_NS));
    let numbers: Vec<_> = messengers.iter().map(SimThread::number).collect();
    let before = Did::by_now(&workers, &numbers);
    messengers.into_iter().try_for_each(ThreadHandle::join)?;
    let after = Did::by_now(&workers, &numbers);
    let mut ran = gather(&workers, tasks);
    finish(workers, threads, bench.switches);
    ran.retain(|it| it.sent.round >= WARM_UP);
    Ok(after.figures(&before, &mut ran))
}
