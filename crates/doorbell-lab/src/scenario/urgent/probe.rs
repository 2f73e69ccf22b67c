//! Wakes the urgent task, and records how late it runs.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use futures::task::AtomicWaker;

use crate::error::LabError;
use crate::measure::{Samples, spawn_pinned};
use crate::peers::{Peer as _, Threads, Want, join};
use crate::tools::locked;

/// The time between two wakes of the urgent task.
pub(super) const PERIOD: Duration = Duration::from_millis(1);
const THREAD: &str = "urgent-waker";

/// How the urgent task is notified of a wake.
pub(super) type Way = Box<dyn Fn(&Arc<Probe>) + Send>;

/// What the waking side and the urgent task share.
#[derive(Debug)]
pub(super) struct Probe {
    began: Instant,
    /// When it was woken or is due, without having run since, in ns; else 0.
    woken_ns: AtomicU64,
    ends: AtomicBool,
    /// The task or thread that must run.
    task: AtomicWaker,
    late: Mutex<Samples>,
}

impl Probe {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            woken_ns: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            task: AtomicWaker::new(),
            late: Mutex::new(Samples::with_room_for(20_000)),
        })
    }

    fn now_ns(&self) -> u64 {
        // Never 0, which means "not woken".
        self.began.elapsed().as_nanos() as u64 + 1
    }

    fn record(&self, late_ns: u64) {
        locked(&self.late).record(late_ns);
    }

    /// Takes the records.
    pub(super) fn take(&self) -> Samples {
        std::mem::take(&mut *locked(&self.late))
    }

    fn ended(&self) -> bool {
        // ORDER: Acquire pairs with the Release of `end`; seen with the next wake, or one poll later.
        self.ends.load(Ordering::Acquire)
    }

    /// Records that it runs, if it was woken.
    pub(super) fn run(&self) {
        let _ = self.ran();
    }

    /// The same. Returns whether it was woken.
    fn ran(&self) -> bool {
        // ORDER: pairs with the Release of `wake`, which changes only a zero.
        let woken_ns = self.woken_ns.load(Ordering::Acquire);
        if woken_ns != 0 {
            self.record(self.now_ns() - woken_ns);
            // ORDER: Release pairs with the Acquire of `wait_for_last`, which reads the record after it.
            self.woken_ns.store(0, Ordering::Release);
        }
        woken_ns != 0
    }

    /// Wakes it, unless it has not run since the last wake: then that run is later.
    fn wake(self: &Arc<Self>, way: &dyn Fn(&Arc<Probe>)) {
        // ORDER: Relaxed; only the urgent task makes it zero. The Release below pairs with its Acquire.
        if self.woken_ns.load(Ordering::Relaxed) == 0 {
            self.woken_ns.store(self.now_ns(), Ordering::Release);
            way(self);
        }
    }

    /// Waits until the pending wake or sleep is recorded, which may be after the end of a pass.
    ///
    /// # Errors
    /// [`LabError::TaskLost`] if it is not recorded within `most`.
    pub(super) fn wait_for_last(&self, most: Duration) -> Result<(), LabError> {
        // ORDER: pairs with the Release after the record.
        let read = || self.woken_ns.load(Ordering::Acquire);
        let (began, last) = (Instant::now(), read());
        while last != 0 && read() == last {
            if began.elapsed() > most {
                return Err(LabError::TaskLost);
            }
            std::thread::sleep(PERIOD);
        }
        Ok(())
    }

    /// Records that a sleep begins. Returns its deadline.
    fn sleeps(&self) -> Instant {
        // ORDER: Release pairs with the Acquire of `wait_for_last`, which only compares it.
        let due = Instant::now() + PERIOD;
        let due_ns = (due - self.began).as_nanos() as u64;
        self.woken_ns.store(due_ns, Ordering::Release);
        due
    }

    /// Tells the urgent task to end.
    pub(super) fn end(&self) {
        // ORDER: Release pairs with the Acquire of `ended`.
        self.ends.store(true, Ordering::Release);
        self.task.wake();
    }

    /// The urgent task.
    pub(super) async fn answer(self: Arc<Self>) {
        while !self.ended() {
            poll_fn(|cx| {
                self.task.register(cx.waker());
                if self.ran() || self.ended() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        }
    }

    /// The urgent task, as one that sleeps by its runtime's timers.
    pub(super) async fn sleep<F: Future<Output = ()>>(
        self: Arc<Self>,
        sleep_until: impl Fn(Instant) -> F,
    ) {
        while !self.ended() {
            let due = self.sleeps();
            sleep_until(due).await;
            self.record(due.elapsed().as_nanos() as u64);
        }
        // ORDER: Release pairs with the Acquire of `wait_for_last`; nothing is pending any more.
        self.woken_ns.store(0, Ordering::Release);
    }

    /// A task or thread that wakes the urgent task.
    pub(super) async fn wake_by<F: Future<Output = ()>>(
        self: Arc<Self>,
        sleep: impl Fn() -> F,
        way: Way,
    ) {
        while !self.ended() {
            sleep().await;
            self.wake(&*way);
        }
    }
}

/// Wakes it as its runtime does.
pub(super) fn tell(probe: &Arc<Probe>) {
    probe.task.wake();
}

/// A waking thread, on a CPU of its choice.
#[derive(Debug)]
pub(super) struct Alarm {
    probe: Arc<Probe>,
    thread: JoinHandle<()>,
}

impl Alarm {
    pub(super) fn start(probe: &Arc<Probe>, cpu: usize, way: Way) -> Result<Self, LabError> {
        let theirs = Arc::clone(probe);
        let thread = spawn_pinned(THREAD, cpu, move || {
            Want::Waker.ask();
            let sleep = || Threads::sleep_until(Instant::now() + PERIOD);
            block_on(theirs.wake_by(sleep, way));
        })?;
        Ok(Self {
            probe: Arc::clone(probe),
            thread,
        })
    }

    pub(super) fn stop(self) -> Result<(), LabError> {
        self.probe.end();
        join(self.thread, THREAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Job;

    #[test]
    fn each_wake_is_recorded_once() {
        let probe = Probe::new();
        assert!(!probe.ran());
        let told = std::cell::Cell::new(0);
        let way = |_: &Arc<Probe>| told.set(told.get() + 1);
        probe.wake(&way);
        // It has not run yet, so this wake does not count.
        probe.wake(&way);
        assert!(probe.ran() && !probe.ran());
        assert_eq!((probe.take().len(), told.get()), (1, 1));
        assert!(probe.take().is_empty());
    }

    #[test]
    fn a_wake_that_leads_to_no_run_is_lost() {
        let probe = Probe::new();
        let none = Duration::ZERO;
        probe.wait_for_last(none).expect("nothing is under way");
        probe.wake(&|_| {});
        let lost = probe.wait_for_last(none);
        assert!(matches!(lost, Err(LabError::TaskLost)), "{lost:?}");
        probe.run();
        probe.wait_for_last(none).expect("it has run");
        assert_eq!(probe.take().len(), 1);
        probe.sleeps();
        assert!(probe.wait_for_last(none).is_err());
    }

    #[test]
    fn a_thread_ends_when_told() {
        let begin: [fn(Arc<Probe>) -> Job; 2] = [
            |probe| Box::pin(probe.answer()),
            |probe| Box::pin(probe.sleep(Threads::sleep_until)),
        ];
        for begin in begin {
            let probe = Probe::new();
            let task = begin(Arc::clone(&probe));
            let thread = std::thread::spawn(move || block_on(task));
            probe.wake(&tell);
            probe.end();
            thread.join().expect("it ends");
        }
    }
}
