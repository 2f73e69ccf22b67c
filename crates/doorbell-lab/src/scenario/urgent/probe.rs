//! Who wakes the urgent one, and how late it runs.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use doorbell_machine::{Host, Machine, Policy};
use futures::task::AtomicWaker;

use crate::error::LabError;
use crate::measure::{Samples, spawn_pinned};

/// How often the urgent one is woken.
pub(super) const PERIOD: Duration = Duration::from_millis(1);
/// Above every contestant's: who wakes is not what is measured.
const WAKER_PRIORITY: u8 = 20;
/// Where that is not allowed.
const WAKER_SLICE_NS: u64 = 100_000;
const THREAD: &str = "urgent-waker";

/// What is in there is whole also where somebody has panicked.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What wakes the urgent one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A thread that is none of the contestant's.
    Thread,
    /// Its own timer.
    Timer,
}

impl Source {
    /// As the table names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Source::Thread => "from a thread",
            Source::Timer => "by a timer",
        }
    }
}

/// What the one who wakes and the urgent one share.
#[derive(Debug)]
pub(super) struct Probe {
    began: Instant,
    /// When it was woken and has not run since, in ns; 0 for not.
    woken_ns: AtomicU64,
    ends: AtomicBool,
    /// The task, or else the thread, that is to run.
    task: AtomicWaker,
    thread: Mutex<Option<Thread>>,
    late: Mutex<Samples>,
}

impl Probe {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            woken_ns: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            task: AtomicWaker::new(),
            thread: Mutex::new(None),
            late: Mutex::new(Samples::with_room_for(20_000)),
        })
    }

    fn now_ns(&self) -> u64 {
        // Never 0, which means not woken.
        self.began.elapsed().as_nanos() as u64 + 1
    }

    fn record(&self, late_ns: u64) {
        locked(&self.late).record(late_ns);
    }

    /// What was recorded; nothing is left.
    pub(super) fn take(&self) -> Samples {
        std::mem::take(
            &mut *self
                .late
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        )
    }

    fn ended(&self) -> bool {
        // ORDER: seen with the wake that follows it, or one poll later.
        self.ends.load(Ordering::Acquire)
    }

    /// Notes that it runs, if it was woken.
    fn run(&self) -> bool {
        // ORDER: pairs with the Release of `wake`.
        let woken_ns = self.woken_ns.swap(0, Ordering::Acquire);
        if woken_ns != 0 {
            self.record(self.now_ns() - woken_ns);
        }
        woken_ns != 0
    }

    /// Wakes it, unless it has not run since the last time: then it is late by more.
    fn wake(&self) {
        // ORDER: the urgent one alone makes it zero; Release pairs with its Acquire.
        if self.woken_ns.load(Ordering::Relaxed) == 0 {
            self.woken_ns.store(self.now_ns(), Ordering::Release);
            self.tell();
        }
    }

    fn tell(&self) {
        self.task.wake();
        let thread = locked(&self.thread);
        thread.iter().for_each(Thread::unpark);
    }

    /// Has the urgent one end.
    pub(super) fn end(&self) {
        // ORDER: Release pairs with the Acquire of `ended`.
        self.ends.store(true, Ordering::Release);
        self.tell();
    }

    /// The urgent one as a task.
    pub(super) async fn answer(self: Arc<Self>) {
        while !self.ended() {
            poll_fn(|cx| {
                self.task.register(cx.waker());
                if self.run() || self.ended() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        }
    }

    /// The urgent one as a task that sleeps, by the timers of its runtime.
    pub(super) async fn sleep<F: Future<Output = ()>>(
        self: Arc<Self>,
        sleep_until: impl Fn(Instant) -> F,
    ) {
        while !self.ended() {
            let due = Instant::now() + PERIOD;
            sleep_until(due).await;
            self.record(due.elapsed().as_nanos() as u64);
        }
    }

    /// The urgent one as a thread.
    pub(super) fn answer_as_thread(&self, source: Source) {
        *locked(&self.thread) = Some(std::thread::current());
        while !self.ended() {
            match source {
                // First: it may have been woken before it could be told.
                Source::Thread => {
                    if !self.run() {
                        std::thread::park();
                    }
                }
                Source::Timer => {
                    let due = Instant::now() + PERIOD;
                    std::thread::sleep(PERIOD);
                    self.record(due.elapsed().as_nanos() as u64);
                }
            }
        }
    }
}

/// Has the OS schedule the calling thread before others, as well as it lets.
pub(super) fn go_first(priority: u8) {
    if Host::set_policy(Policy::Fifo { priority }).is_err() {
        go_sooner();
    }
}

/// The same without privileges: by the shortest slice there is.
pub(super) fn go_sooner() {
    let nice = match Host::policy() {
        Ok(Policy::Other { nice, .. }) => nice,
        _ => 0,
    };
    let slice_ns = Some(WAKER_SLICE_NS);
    // An older kernel knows no slices: then it runs as everybody else.
    let _ = Host::set_policy(Policy::Other { nice, slice_ns });
}

/// A thread that wakes, on a CPU of its choice.
#[derive(Debug)]
pub(super) struct Alarm {
    probe: Arc<Probe>,
    thread: JoinHandle<()>,
}

impl Alarm {
    pub(super) fn start(probe: &Arc<Probe>, cpu: usize) -> Result<Self, LabError> {
        let theirs = Arc::clone(probe);
        let thread = spawn_pinned(THREAD, cpu, move || {
            go_first(WAKER_PRIORITY);
            while !theirs.ended() {
                std::thread::sleep(PERIOD);
                theirs.wake();
            }
        })?;
        Ok(Self {
            probe: Arc::clone(probe),
            thread,
        })
    }

    pub(super) fn stop(self) -> Result<(), LabError> {
        self.probe.end();
        let joined = self.thread.join();
        joined.map_err(|_| LabError::ThreadPanicked { thread: THREAD })
    }
}

#[cfg(test)]
mod tests {
    use super::{Probe, Source};
    use std::sync::Arc;

    #[test]
    fn each_wake_is_recorded_once() {
        let probe = Probe::new();
        assert!(!probe.run());
        probe.wake();
        // It has not run yet: this one is none.
        probe.wake();
        assert!(probe.run() && !probe.run());
        assert_eq!(probe.take().len(), 1);
        assert!(probe.take().is_empty());
    }

    #[test]
    fn a_thread_ends_when_told() {
        let probe = Probe::new();
        for source in [Source::Thread, Source::Timer] {
            let theirs = Arc::clone(&probe);
            let thread = std::thread::spawn(move || theirs.answer_as_thread(source));
            probe.wake();
            probe.end();
            thread.join().expect("it ends");
        }
    }
}
