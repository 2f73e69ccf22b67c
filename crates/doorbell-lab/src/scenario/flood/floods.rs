//! A contestant: a target, and a number of threads that post to it.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::super::contestant::Stage;
use super::super::trial::{Outcome, Trial};
use super::counts::{AHEAD_MAX, Counts, LOOK_EVERY};
use super::targets::{Gone, Poster, Target};
use crate::error::LabError;
use crate::measure::{Pin, allowed_cpus, spawn_pinned};

const THREAD: &str = "flood-producer";

/// How many posts to make, and where to report the end.
type Order = (u64, Sender<Result<(), Gone>>);

/// One target with one number of producers.
#[derive(Debug)]
pub(super) struct Floods<T: Target> {
    stage: Stage,
    producers: usize,
    group: String,
    variant: String,
    baseline: bool,
    running: Option<Running<T>>,
}

#[derive(Debug)]
struct Running<T> {
    target: T,
    counts: &'static Counts,
    threads: Vec<(Sender<Order>, JoinHandle<()>)>,
}

impl<T: Target> Floods<T> {
    pub(super) fn new(stage: Stage, producers: usize) -> Self {
        let group = super::columns::group(producers);
        Self {
            stage,
            producers,
            variant: format!("{}, {group}", T::WHAT),
            group,
            baseline: false,
            running: None,
        }
    }

    /// Makes it the limit.
    pub(super) fn baseline(self) -> Self {
        Self {
            baseline: true,
            ..self
        }
    }
}

impl<T: Target> Trial for Floods<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn variant(&self) -> &str {
        &self.variant
    }

    fn group(&self) -> &str {
        &self.group
    }

    fn is_baseline(&self) -> bool {
        self.baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let counts = Counts::leaked();
        let placement = self.stage.placement;
        let running = self.running.insert(Running {
            target: T::start(placement.callee_cpu, counts)?,
            counts,
            threads: Vec::new(),
        });
        let cpus = producer_cpus(&allowed_cpus()?, placement.callee_cpu);
        for producer in 0..self.producers {
            let (orders, inject) = mpsc::channel();
            let mut poster = running.target.poster(producer);
            let cpu = cpus[producer % cpus.len()];
            let thread = spawn_pinned(THREAD, cpu, move || {
                follow(&inject, &mut poster, counts, producer);
            })?;
            running.threads.push((orders, thread));
        }
        Ok(())
    }

    fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
        let running = self.running.as_ref().ok_or(LabError::NotSetUp)?;
        // On the producers' side: no CPU has to be interrupted for a wake between this thread and them.
        let _here = Pin::to(self.stage.placement.caller_cpu)?;
        let before = running.counts.done_by_all();
        let (done, results) = mpsc::channel();
        let begin = Instant::now();
        for (producer, (orders, _)) in running.threads.iter().enumerate() {
            let share = share(u64::from(amount), self.producers, producer);
            orders
                .send((share, done.clone()))
                .map_err(|_| LabError::ThreadPanicked { thread: THREAD })?;
        }
        drop(done);
        for _ in 0..self.producers {
            let result = results.recv().map_err(|_| LabError::TaskLost)?;
            result.map_err(|Gone| LabError::TaskLost)?;
        }
        let span = begin.elapsed();
        outcome(
            u64::from(amount),
            running.counts.done_by_all() - before,
            span,
        )
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.running.take().map_or(Ok(()), Running::end)
    }
}

impl<T: Target> Running<T> {
    fn end(self) -> Result<(), LabError> {
        let mut joined = Ok(());
        for (orders, thread) in self.threads {
            drop(orders);
            if thread.join().is_err() {
                joined = Err(LabError::ThreadPanicked { thread: THREAD });
            }
        }
        self.target.stop()?;
        joined
    }
}

/// All CPUs except the consumer's. There are at least two CPUs.
pub(super) fn producer_cpus(allowed: &[usize], consumer_cpu: usize) -> Vec<usize> {
    let others = allowed.iter().filter(|cpu| **cpu != consumer_cpu);
    others.copied().collect()
}

/// One producer's share of `amount` posts.
pub(super) fn share(amount: u64, producers: usize, producer: usize) -> u64 {
    let (all, one) = (producers as u64, producer as u64);
    amount / all + u64::from(one < amount % all)
}

fn follow(
    inject: &Receiver<Order>,
    poster: &mut impl Poster,
    counts: &'static Counts,
    producer: usize,
) {
    let mut posted = counts.done(producer);
    while let Ok((count, done)) = inject.recv() {
        let result = post_all(poster, counts, producer, posted, count);
        posted += count;
        // The receiver is gone only if the waiting thread has panicked.
        let _ = done.send(result);
    }
}

/// Makes the posts, never too far ahead, and waits until all are done.
fn post_all(
    poster: &mut impl Poster,
    counts: &Counts,
    producer: usize,
    posted: u64,
    count: u64,
) -> Result<(), Gone> {
    let end = posted + count;
    let mut posted = posted;
    while posted < end {
        counts.wait(producer, posted, AHEAD_MAX - LOOK_EVERY);
        let stretch = LOOK_EVERY.min(end - posted);
        for _ in 0..stretch {
            poster.post()?;
        }
        posted += stretch;
    }
    counts.wait(producer, end, 0);
    Ok(())
}

/// The figures, if every post was done once.
pub(super) fn outcome(expected: u64, found: u64, span: Duration) -> Result<Outcome, LabError> {
    if found != expected {
        return Err(LabError::PostsMiscounted { expected, found });
    }
    let mops_per_s = expected as f64 / span.as_secs_f64() / 1e6;
    Ok(Outcome {
        operations: expected,
        figures: BTreeMap::from([("mops_per_s", mops_per_s)]),
        ..Outcome::default()
    })
}
