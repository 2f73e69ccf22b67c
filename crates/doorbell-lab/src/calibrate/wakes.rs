//! How soon a woken thread runs, on a CPU that sleeps and on one that is kept awake.

use std::hint;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use doorbell_machine::{Host, Machine};
use rustix::time::{ClockId, Timespec};

use super::calls::{await_ring, new_epoll, new_eventfd, ring, wait, wake};
use super::stand::Stand;
use crate::error::{LabError, last_system_error};
use crate::measure::{Clock, Pin, Tick, median, spawn_pinned};

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
    let ended = thread.join();
    here?;
    ended.map_err(|_| LabError::ThreadPanicked {
        thread: "wake-partner",
    })?;
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
    let _here = Pin::to(stand.here)?;
    let slack = TimerSlack::least()?;
    let mut late = Vec::with_capacity(WAKES as usize);
    for _ in 0..WAKES {
        let until_ns = Host::os_now_ns() + IDLE.as_nanos() as u64;
        sleep_until(until_ns);
        late.push(Host::os_now_ns().saturating_sub(until_ns) as f64);
    }
    drop(slack);
    Ok(median(&late).unwrap_or_default())
}

fn sleep_until(until_ns: u64) {
    let deadline = Timespec {
        tv_sec: (until_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (until_ns % 1_000_000_000).cast_signed(),
    };
    // A signal can end the sleep early; the median absorbs that.
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &deadline);
}

/// Sets the calling thread's timer slack to the minimum, and restores it when dropped.
#[derive(Debug)]
struct TimerSlack {
    before_ns: libc::c_ulong,
}

impl TimerSlack {
    fn least() -> Result<Self, LabError> {
        // SAFETY: reads one number of the calling thread.
        let before = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
        let before_ns =
            libc::c_ulong::try_from(before).map_err(|_| last_system_error("PR_GET_TIMERSLACK"))?;
        set_timer_slack(1);
        Ok(Self { before_ns })
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        set_timer_slack(self.before_ns);
    }
}

fn set_timer_slack(ns: libc::c_ulong) {
    // SAFETY: takes one integer and changes only the calling thread's timer slack.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns) };
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
            let policy = below_all_others();
            let fine = policy.is_ok();
            let _ = told.send(policy);
            // ORDER: relaxed; a request to end, which publishes nothing else.
            while fine && !shared.load(Ordering::Relaxed) {
                hint::spin_loop();
            }
        })?;
        let awake = Self {
            stop,
            thread: Some(thread),
        };
        match tells.recv() {
            Ok(policy) => policy.map(|()| awake),
            Err(_) => Err(LabError::ThreadPanicked {
                thread: "keep-awake",
            }),
        }
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

fn below_all_others() -> Result<(), LabError> {
    // SAFETY: all fields are integers, and zero is valid for each.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value, and 0 means the calling thread.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    if done == 0 {
        Ok(())
    } else {
        Err(last_system_error("sched_setscheduler(SCHED_IDLE)"))
    }
}
