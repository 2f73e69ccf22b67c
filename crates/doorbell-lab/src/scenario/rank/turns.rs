//! The three tasks, which take turns: one that blocks its worker, the urgent one behind it, and one that keeps the
//! other worker busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::super::ranked::{Ranked, Role};
use super::super::slot::Slot;
use super::super::steps::compute;
use super::super::timers::{gather, tell};
use crate::error::LabError;
use crate::measure::{Samples, current_cpu};

/// The time between two turns, in which everything is idle.
const PAUSE: Duration = Duration::from_micros(500);
/// How long the other worker is busy before the urgent task is woken.
const LEAD: Duration = Duration::from_micros(300);
/// The length of a poll of the task that keeps the other worker busy.
const SHORT: Duration = Duration::from_micros(5);

/// May run on both cores.
const URGENT: Role = Role {
    rank: 99,
    core: None,
};
/// Stays on core 0.
const BLOCKER: Role = Role {
    rank: 50,
    core: Some(0),
};
/// Stays on core 1.
const FILLER: Role = Role {
    rank: 1,
    core: Some(1),
};

/// The state of the other worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Other {
    /// It has nothing to do.
    Idle,
    /// It runs the task of rank 1.
    Busy,
}

/// A wake of the urgent task: when, and on which CPU.
#[derive(Debug, Clone, Copy)]
struct Woken {
    at: Instant,
    cpu: u32,
}

/// What the tasks share.
#[derive(Debug, Default)]
struct Scene {
    urgent: Slot<Woken>,
    answer: Slot<()>,
    filler: Slot<()>,
    /// Whether the filler goes on.
    fills: AtomicBool,
}

/// The results of a pass.
#[derive(Debug, Default)]
pub(super) struct Waited {
    /// How long the urgent task waited after each wake.
    pub(super) waits: Samples,
    /// How often it ran on another CPU than that of the blocking poll.
    pub(super) moved: u32,
}

impl Scene {
    /// The urgent task: notes how long it has waited, and answers.
    async fn be_urgent(&self) -> Waited {
        let mut waited = Waited::default();
        while let Some(woken) = self.urgent.take().await {
            waited.waits.record(woken.at.elapsed().as_nanos() as u64);
            waited.moved += u32::from(current_cpu() != woken.cpu);
            self.answer.put(());
        }
        waited
    }

    /// The blocker: wakes the urgent task at the beginning of a poll that goes on for `steps`.
    async fn block<H: Ranked>(&self, turns: u32, other: Other, steps: u64) {
        for _ in 0..turns {
            H::sleep_until(Instant::now() + PAUSE).await;
            if other == Other::Busy {
                // ORDER: Relaxed, here and below; a flag that publishes nothing and may be seen late.
                self.fills.store(true, Ordering::Relaxed);
                self.filler.put(());
                H::sleep_until(Instant::now() + LEAD).await;
            }
            // Nothing is awaited from here until the work is done, so all of it is one poll.
            self.urgent.put(Woken {
                at: Instant::now(),
                cpu: current_cpu(),
            });
            compute(steps);
            let _ = self.answer.take().await;
            self.fills.store(false, Ordering::Relaxed);
        }
        self.urgent.close();
        self.filler.close();
    }

    /// The filler: short polls from when it is woken until the turn is over.
    async fn fill<H: Ranked>(&self) {
        while self.filler.take().await.is_some() {
            while self.fills.load(Ordering::Relaxed) {
                let began = Instant::now();
                while began.elapsed() < SHORT {}
                H::yield_now().await;
            }
        }
    }
}

/// Has the tasks take this many turns.
///
/// # Errors
/// [`LabError::TaskLost`] if the urgent task did not run once in each turn.
pub(super) fn take<H: Ranked>(
    host: &mut H,
    turns: u32,
    other: Other,
    steps: u64,
) -> Result<Waited, LabError> {
    let scene = Arc::new(Scene::default());
    let (done, results) = mpsc::channel();
    let theirs = Arc::clone(&scene);
    host.spawn(URGENT, tell(done, async move { theirs.be_urgent().await }))?;
    let theirs = Arc::clone(&scene);
    host.spawn(FILLER, async move { theirs.fill::<H>().await })?;
    host.spawn(BLOCKER, async move {
        scene.block::<H>(turns, other, steps).await;
    })?;
    let waited: Waited = gather(&results, 1)?.remove(0);
    if waited.waits.len() != turns as usize {
        return Err(LabError::TaskLost);
    }
    Ok(waited)
}
