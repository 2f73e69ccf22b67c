//! Wakes the urgent task, and records how late it runs.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::executor::block_on;

use crate::error::TASK_LOST;
use crate::measure::Samples;
use crate::peers::{Peer as _, Threads, Want, join, thread_on};
use crate::tools::{End, Slot, locked};

/// The time between two wakes of the urgent task.
pub(super) const PERIOD: Duration = Duration::from_millis(1);

/// What a wake does beside filling the place: it makes the call that runs instead of an urgent task, or nothing.
pub(super) type Way = Box<dyn Fn(&Arc<Probe>) + Send>;

/// What the waking side and the urgent task share.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// When it was woken or is due, without having run since.
    woken: Slot<Instant>,
    end: End,
    late: Mutex<Samples>,
}

impl Probe {
    fn record(&self, woken: Instant) {
        locked(&self.late).record(woken.elapsed().as_nanos() as u64);
    }

    /// Takes the records.
    pub(super) fn take(&self) -> Samples {
        std::mem::take(&mut *locked(&self.late))
    }

    /// Records that it runs, if it was woken.
    pub(super) fn run(&self) {
        if let Some(woken) = self.woken.peek() {
            self.record(woken);
            // Afterwards, as `wait_for_last` looks for the record then.
            self.woken.empty();
        }
    }

    /// Wakes it, unless it has not run since the last wake: then that run is later.
    fn wake(self: &Arc<Self>, way: &dyn Fn(&Arc<Probe>)) {
        if self.woken.put(Instant::now()) {
            way(self);
        }
    }

    /// Waits until the pending wake or sleep is recorded, which may be after the end of a pass.
    pub(super) fn wait_for_last(&self, most: Duration) -> Result<()> {
        let (began, last) = (Instant::now(), self.woken.peek());
        while last.is_some() && self.woken.peek() == last {
            if began.elapsed() > most {
                bail!(TASK_LOST);
            }
            std::thread::sleep(PERIOD);
        }
        Ok(())
    }

    /// Tells the urgent task to end.
    pub(super) fn end(&self) {
        self.end.ask();
        self.woken.close();
    }

    /// The urgent task.
    pub(super) async fn answer(self: Arc<Self>) {
        while self.woken.look().await.is_some() && !self.end.is_asked() {
            self.run();
        }
    }

    /// The urgent task, as one that sleeps by its runtime's timers.
    pub(super) async fn sleep<F: Future<Output = ()>>(
        self: Arc<Self>,
        sleep_until: impl Fn(Instant) -> F,
    ) {
        while !self.end.is_asked() {
            let due = Instant::now() + PERIOD;
            self.woken.put(due);
            sleep_until(due).await;
            self.run();
        }
    }

    /// A task or thread that wakes the urgent task.
    pub(super) async fn wake_by<F: Future<Output = ()>>(
        self: Arc<Self>,
        sleep: impl Fn() -> F,
        way: Way,
    ) {
        while !self.end.is_asked() {
            sleep().await;
            self.wake(&*way);
        }
    }
}

/// A waking thread, on a CPU of its choice.
#[derive(Debug)]
pub(super) struct Alarm {
    probe: Arc<Probe>,
    thread: JoinHandle<()>,
}

impl Alarm {
    pub(super) fn start(probe: &Arc<Probe>, cpu: usize, way: Way) -> Result<Self> {
        let probe = Arc::clone(probe);
        let theirs = Arc::clone(&probe);
        let thread = thread_on("urgent-waker", Some(cpu), move || {
            Want::Waker.ask();
            let sleep = || Threads::sleep_until(Instant::now() + PERIOD);
            block_on(theirs.wake_by(sleep, way));
        })?;
        Ok(Self { probe, thread })
    }

    pub(super) fn stop(self) -> Result<()> {
        self.probe.end();
        join(self.thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Job;

    #[test]
    fn each_wake_is_recorded_once() {
        let probe = Arc::new(Probe::default());
        probe.run();
        let told = std::cell::Cell::new(0);
        let way = |_: &Arc<Probe>| told.set(told.get() + 1);
        probe.wake(&way);
        // It has not run yet, so this wake does not count.
        probe.wake(&way);
        probe.run();
        probe.run();
        assert_eq!((probe.take().len(), told.get()), (1, 1));
        assert!(probe.take().is_empty());
    }

    #[test]
    fn a_wake_that_leads_to_no_run_is_lost() {
        let probe = Arc::new(Probe::default());
        let none = Duration::ZERO;
        probe.wait_for_last(none).expect("nothing is under way");
        probe.wake(&|_| {});
        let lost = probe.wait_for_last(none).expect_err("nothing ran");
        assert_eq!(lost.to_string(), TASK_LOST);
        probe.run();
        probe.wait_for_last(none).expect("it has run");
        assert_eq!(probe.take().len(), 1);
        probe.woken.put(Instant::now() + PERIOD);
        assert!(probe.wait_for_last(none).is_err());
    }

    #[test]
    fn a_thread_ends_when_told() {
        let begin: [fn(Arc<Probe>) -> Job; 2] = [
            |probe| Box::pin(probe.answer()),
            |probe| Box::pin(probe.sleep(Threads::sleep_until)),
        ];
        for begin in begin {
            let probe = Arc::new(Probe::default());
            let task = begin(Arc::clone(&probe));
            let thread = std::thread::spawn(move || block_on(task));
            probe.wake(&|_| {});
            probe.end();
            thread.join().expect("it ends");
        }
    }
}
