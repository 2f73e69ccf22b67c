//! How soon a woken thread runs, on a CPU that sleeps and on one that is kept awake.

use std::hint;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use doorbell_machine::{Host, Machine, Policy};
use rustix::time::{ClockId, Timespec};

use super::calls::{await_ring, new_epoll, new_eventfd, ring, wait, wake};
use super::stand::Stand;
use crate::error::LabError;
use crate::measure::{Clock, Pin, Tick, median, spawn_pinned};
use crate::peers::{join, thread_on};

/// The number of wakes; their median counts.
const WAKES: u32 = 60;
/// How long a CPU is left alone before the wake. That is long enough for it to sleep, even if it polls for
/// 200 µs first.
const IDLE: Duration = Duration::from_millis(1);

/// The value that ends the woken thread.
const STOP: u32 = u32::MAX;

/// The means of waking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// A futex.
    Futex,
    /// An eventfd.
    Eventfd,
}

/// What the waker and the woken thread share.
#[derive(Debug)]
struct Bell {
    means: Means,
    /// How often it was rung.
    word: AtomicU32,
    descriptor: OwnedFd,
    /// The epoll set that watches the descriptor.
    poller: OwnedFd,
}

impl Bell {
    fn new(means: Means) -> Result<Self, LabError> {
        let descriptor = new_eventfd()?;
        Ok(Self {
            means,
            word: AtomicU32::new(0),
            poller: new_epoll(&descriptor)?,
            descriptor,
        })
    }

    fn ring(&self, word: u32) {
        // ORDER: SeqCst; only the value travels, and the system call orders the rest.
        self.word.store(word, Ordering::SeqCst);
        match self.means {
            Means::Futex => wake(&self.word),
            Means::Eventfd => ring(&self.descriptor),
        }
    }

    /// Blocks until it is rung again after `seen`. Returns the new value.
    fn wait(&self, seen: u32) -> u32 {
        loop {
            match self.means {
                Means::Futex => wait(&self.word, seen),
                Means::Eventfd => await_ring(&self.poller, &self.descriptor),
            }
            // ORDER: as in `ring`.
            let found = self.word.load(Ordering::SeqCst);
            if found != seen {
                return found;
            }
        }
    }
}

/// The cost of a wake.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wake {
    /// The waker's system call.
    pub(super) call_ns: f64,
    /// From just before the call until the woken thread runs.
    pub(super) to_run_ns: f64,
}

/// Wakes a thread on the CPU `there`.
///
/// # Errors
/// [`LabError::System`] if a thread or an eventfd cannot be created.
pub(super) fn wake_of(stand: &Stand, there: usize, means: Means) -> Result<Wake, LabError> {
    let bell = Arc::new(Bell::new(means)?);
    let (woken, wakes) = channel();
    let (shared, clock) = (Arc::clone(&bell), stand.clock);
    let thread = spawn_pinned("wake-partner", there, move || {
        answer(&shared, clock, &woken);
    })?;
    let here = Pin::to(stand.here);
    let (mut calls, mut runs) = (Vec::new(), Vec::new());
    if here.is_ok() {
        for turn in 1..=WAKES {
            // This CPU stays awake, so only the other one has to leave its idle state.
            let idle_since = Instant::now();
            while idle_since.elapsed() < IDLE {
                hint::spin_loop();
            }
            let start = clock.now();
            bell.ring(turn);
            let called = clock.now();
            let Ok(ran) = wakes.recv() else { break };
            calls.push(clock.ns_between(start, called) as f64);
            runs.push(clock.ns_between(start, ran) as f64);
        }
    }
    bell.ring(STOP);
    let ended = join(thread, "wake-partner");
    here?;
    ended?;
    Ok(Wake {
        call_ns: median(&calls).unwrap_or_default(),
        to_run_ns: median(&runs).unwrap_or_default(),
    })
}

/// Sends the time at which it was woken, each time.
fn answer(bell: &Bell, clock: Clock, woken: &Sender<Tick>) {
    let mut seen = 0;
    loop {
        seen = bell.wait(seen);
        let now = clock.now();
        if seen == STOP || woken.send(now).is_err() {
            return;
        }
    }
}

/// How late a sleep on this CPU ends: the timer interrupt, the idle exit and a switch.
///
/// # Errors
/// [`LabError::System`] if the thread cannot be pinned.
pub(super) fn lateness_ns(stand: &Stand) -> Result<f64, LabError> {
    const THREAD: &str = "sleeper";
    let thread = thread_on(THREAD, Some(stand.here), || {
        let late = |_| {
            let until_ns = Host::os_now_ns() + IDLE.as_nanos() as u64;
            sleep_until(until_ns);
            Host::os_now_ns().saturating_sub(until_ns) as f64
        };
        median(&(0..WAKES).map(late).collect::<Vec<_>>())
    })?;
    Ok(join(thread, THREAD)?.unwrap_or_default())
}

fn sleep_until(until_ns: u64) {
    let deadline = Timespec {
        tv_sec: (until_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (until_ns % 1_000_000_000).cast_signed(),
    };
    // A signal can end the sleep early; the median absorbs that.
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &deadline);
}

/// A thread that keeps a CPU awake and yields to every other thread at once.
#[derive(Debug)]
pub(super) struct Awake {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Awake {
    /// Keeps `cpu` awake until dropped.
    ///
    /// # Errors
    /// [`LabError::System`] if the thread cannot be started or cannot get the idle policy.
    pub(super) fn keep(cpu: usize) -> Result<Self, LabError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, tells) = channel();
        let shared = Arc::clone(&stop);
        let thread = spawn_pinned("keep-awake", cpu, move || {
            let asked = Host::set_policy(Policy::Idle);
            let fine = asked.is_ok();
            let _ = told.send(asked);
            // ORDER: relaxed; a request to end, which publishes nothing else.
            while fine && !shared.load(Ordering::Relaxed) {
                hint::spin_loop();
            }
        })?;
        let awake = Self {
            stop,
            thread: Some(thread),
        };
        let panicked = |_| LabError::ThreadPanicked {
            thread: "keep-awake",
        };
        let asked = tells.recv().map_err(panicked)?;
        asked.map_err(|error| LabError::system("SCHED_IDLE")(io::Error::other(error)))?;
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        // ORDER: relaxed; a request to end, which publishes nothing else.
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread does nothing that can panic.
            let _ = thread.join();
        }
    }
}
