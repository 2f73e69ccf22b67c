//! Threads that sleep in the kernel: the OS's own timers.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::super::common::shortest_slack;
use super::super::contestant::Stage;
use super::super::timers::{Lateness, gather};
use super::super::trial::{Outcome, Trial};
use super::tasks::outcome;
use super::{SLEEPERS, lengths};
use crate::error::LabError;
use crate::measure::spawn_pinned;

const THREAD: &str = "sleeper";

/// The sleeps, and the channel for their lateness.
type Order = (Vec<Duration>, Sender<Lateness>);

/// The timer slack of the threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slack {
    /// The minimum, as for doorbell's workers.
    Shortest,
    /// The default of a thread.
    Default,
}

/// A thread for each sleeper, half of them on each CPU.
#[derive(Debug)]
pub(super) struct Threads {
    stage: Stage,
    slack: Slack,
    running: Vec<(Sender<Order>, JoinHandle<()>)>,
}

impl Threads {
    pub(super) fn new(stage: Stage, slack: Slack) -> Self {
        Self {
            stage,
            slack,
            running: Vec::new(),
        }
    }
}

impl Trial for Threads {
    fn name(&self) -> &'static str {
        "OS threads"
    }

    fn variant(&self) -> &'static str {
        match self.slack {
            Slack::Shortest => "400 threads, slack 1 ns",
            Slack::Default => "400 threads, default slack",
        }
    }

    fn is_baseline(&self) -> bool {
        self.slack == Slack::Shortest
    }

    fn group(&self) -> &'static str {
        super::GROUP
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let placement = self.stage.placement;
        let cpus = [placement.caller_cpu, placement.callee_cpu];
        let slack = self.slack;
        for index in 0..SLEEPERS {
            let (orders, inject) = mpsc::channel();
            let cpu = cpus[index % cpus.len()];
            let thread = spawn_pinned(THREAD, cpu, move || {
                if slack == Slack::Shortest {
                    shortest_slack();
                }
                follow(&inject);
            })?;
            self.running.push((orders, thread));
        }
        Ok(())
    }

    fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
        if self.running.is_empty() {
            return Err(LabError::NotSetUp);
        }
        let (done, results) = mpsc::channel();
        for ((orders, _), lengths) in self.running.iter().zip(lengths(amount)) {
            orders
                .send((lengths, done.clone()))
                .map_err(|_| LabError::ThreadPanicked { thread: THREAD })?;
        }
        drop(done);
        outcome(&gather(&results, SLEEPERS)?, amount)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        let mut result = Ok(());
        for (orders, thread) in self.running.drain(..) {
            drop(orders);
            if thread.join().is_err() {
                result = Err(LabError::ThreadPanicked { thread: THREAD });
            }
        }
        result
    }
}

fn follow(inject: &Receiver<Order>) {
    while let Ok((lengths, done)) = inject.recv() {
        let mut lateness = Lateness::default();
        for length in lengths {
            let due = Instant::now() + length;
            thread::sleep(length);
            lateness.note(due, Instant::now());
        }
        // The receiver is gone only if the waiting thread has panicked.
        let _ = done.send(lateness);
    }
}
