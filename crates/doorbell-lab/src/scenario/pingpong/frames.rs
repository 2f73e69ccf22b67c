//! Frames: every 1/60 s a thread outside wakes short tasks, as a display does that asks for the next picture.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::super::common::sleep_until;
use super::super::hosts::Host;
use super::super::slot::Slot;
use super::super::steps::compute;
use super::super::timers::{gather, tell};
use crate::error::LabError;
use crate::measure::Samples;

/// The time between two frames.
const PERIOD: Duration = Duration::from_nanos(1_000_000_000 / 60);
/// From the creation of the tasks to the first frame.
const BEGINS_IN: Duration = Duration::from_millis(10);
/// A frame that is not over for this long after the last one began has lost a wake.
const LOST: Duration = Duration::from_secs(5);
/// The tasks of a frame.
pub(super) const TASKS: usize = 8;

/// How the tasks of a frame follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The thread wakes the first task, and each task wakes the next one when it has computed.
    Chain,
    /// The thread wakes all of them, one right after another.
    Burst,
}

/// One pass: the tasks' slots, and the frame under way.
#[derive(Debug)]
struct Frames {
    order: Order,
    /// The work of a task.
    steps: u64,
    /// The reference for `began_ns`.
    reference: Instant,
    began_ns: AtomicU64,
    /// The tasks of the frame that have not computed yet.
    left: AtomicU32,
    slots: [Slot<()>; TASKS],
    took: Mutex<Samples>,
}

/// The results of a pass.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// How long each frame took, from its first wake to the end of its last task.
    pub(super) took: Samples,
    /// The mean of that, in nanoseconds.
    pub(super) mean_ns: f64,
    /// Frames that were left out because the last one was not over.
    pub(super) skipped: u32,
}

impl Frames {
    fn new(order: Order, steps: u64) -> Self {
        Self {
            order,
            steps,
            reference: Instant::now(),
            began_ns: AtomicU64::new(0),
            left: AtomicU32::new(0),
            slots: Default::default(),
            took: Mutex::new(Samples::default()),
        }
    }

    /// A panic elsewhere leaves the value complete.
    fn took(&self) -> MutexGuard<'_, Samples> {
        self.took.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        self.reference.elapsed().as_nanos() as u64
    }

    fn is_over(&self) -> bool {
        // ORDER: Acquire pairs with the AcqRel of `one_computed`: the tasks of the last frame are done.
        self.left.load(Ordering::Acquire) == 0
    }

    /// Begins a frame. The last one is over.
    fn begin(&self) {
        // ORDER: Relaxed, here and below; the tasks are woken through their slots, which publish both.
        self.left.store(TASKS as u32, Ordering::Relaxed);
        self.began_ns.store(self.now_ns(), Ordering::Relaxed);
        let woken = match self.order {
            Order::Chain => 1,
            Order::Burst => TASKS,
        };
        for slot in &self.slots[..woken] {
            slot.put(());
        }
    }

    /// A task has computed. The last one of the frame records how long the frame took.
    fn one_computed(&self) {
        let mut took = self.took();
        let took_ns = self.now_ns() - self.began_ns.load(Ordering::Relaxed);
        // ORDER: AcqRel pairs with the Acquire of `is_over`.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            took.record(took_ns);
        }
    }

    /// A task. Returns how often it ran.
    async fn run(&self, place: usize) -> u32 {
        let mut runs = 0;
        while self.slots[place].take().await.is_some() {
            compute(self.steps);
            runs += 1;
            let next = self.slots.get(place + 1);
            if let Some(next) = next.filter(|_| self.order == Order::Chain) {
                next.put(());
            }
            self.one_computed();
        }
        runs
    }

    /// Begins this many frames, each when it is due; called by a thread outside. Returns how many were begun.
    fn begin_all(&self, frames: u32) -> Result<u32, LabError> {
        let (first, mut begun) = (Instant::now() + BEGINS_IN, 0);
        for frame in 0..frames {
            sleep_until(first + PERIOD * frame);
            if self.is_over() {
                self.begin();
                begun += 1;
            }
        }
        let last = Instant::now();
        while !self.is_over() {
            if last.elapsed() > LOST {
                return Err(LabError::TaskLost);
            }
            sleep_until(Instant::now() + PERIOD / 16);
        }
        Ok(begun)
    }
}

/// Shows this many frames.
///
/// # Errors
/// [`LabError::TaskLost`] if a task did not run once in each frame.
pub(super) fn show<H: Host>(
    host: &mut H,
    order: Order,
    frames: u32,
    steps: u64,
) -> Result<Shown, LabError> {
    let all = Arc::new(Frames::new(order, steps));
    let (done, results) = mpsc::channel();
    for place in 0..TASKS {
        let theirs = Arc::clone(&all);
        host.spawn(tell(done.clone(), async move { theirs.run(place).await }))?;
    }
    drop(done);
    let begun = all.begin_all(frames);
    all.slots.iter().for_each(Slot::close);
    let runs = gather(&results, TASKS)?;
    let begun = begun?;
    let took = std::mem::take(&mut *all.took());
    let each_ran = runs.iter().all(|runs| *runs == begun);
    if !each_ran || took.len() != begun as usize {
        return Err(LabError::TaskLost);
    }
    Ok(Shown {
        mean_ns: took.mean_ns().unwrap_or_default(),
        took,
        skipped: frames - begun,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use futures::executor::block_on;

    /// Ends the tasks that have nothing left. Returns how often each ran.
    fn end(frames: &Frames) -> Vec<u32> {
        frames.slots.iter().for_each(Slot::close);
        (0..TASKS)
            .map(|place| block_on(frames.run(place)))
            .collect()
    }

    #[test]
    fn a_chain_goes_from_task_to_task() {
        let frames = Frames::new(Order::Chain, 1);
        frames.begin();
        // The second one is not woken before the first one has run.
        assert_eq!(frames.slots[1].take().now_or_never(), None);
        assert!(!frames.is_over());
        assert_eq!(end(&frames), [1; TASKS]);
        assert!(frames.is_over());
        assert_eq!(frames.took().len(), 1);
    }

    #[test]
    fn a_burst_is_over_when_all_have_run() {
        let frames = Frames::new(Order::Burst, 1);
        frames.begin();
        let mut others = (1..TASKS).map(|place| frames.run(place).now_or_never());
        // None of them ends.
        assert!(others.all(|ended| ended.is_none()));
        assert!(!frames.is_over() && frames.took().is_empty());
        assert_eq!(end(&frames)[0], 1);
        assert!(frames.is_over());
        assert_eq!(frames.took().len(), 1);
    }
}
