//! Threads that wait for each other: round trips of a word, and how soon a woken thread runs.

use std::hint;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use crossbeam_utils::CachePadded;
use doorbell_machine::{Host, Machine, Policy};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec};

use super::stand::Stand;
use crate::measure::{Tick, median};
use crate::peers::{join, thread_on};
use crate::tools::End;

/// The number of wakes; their median counts.
const WAKES: u32 = 60;
/// How long a CPU is usually left alone before the wake. That is long enough for it to sleep, even if it polls for
/// 200 µs first.
pub(super) const IDLE: Duration = Duration::from_millis(1);
/// The value that ends the other thread.
const STOP: u32 = u32::MAX;

/// Wakes one thread that waits on `word`.
pub(super) fn wake(word: &AtomicU32) {
    // It fails only if the word is not mapped.
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}

/// Waits until woken, as long as the word is `seen`.
fn wait(word: &AtomicU32, seen: u32) {
    // Whatever the call returns, the caller looks at the word again.
    let _ = futex::wait(word, futex::Flags::PRIVATE, seen, None);
}

/// A word to the CPU `there` and back. Each side sleeps on a futex until its turn, or spins. So many chunks of as many
/// round trips are timed.
pub(super) fn round_trip_ns<const SLEEPS: bool>(
    stand: &Stand,
    there: usize,
    trips: [u32; 2],
) -> Result<f64> {
    let answer = |word: &CachePadded<AtomicU32>| {
        let mut seen = 0;
        loop {
            let asked = await_other::<SLEEPS>(word, seen);
            if asked == STOP {
                return Ok(());
            }
            seen = asked + 1;
            write::<SLEEPS>(word, seen);
        }
    };
    let stop = |word: &CachePadded<AtomicU32>| write::<SLEEPS>(word, STOP);
    stand.beside(there, CachePadded::default(), answer, stop, |word| {
        let mut asked = 1;
        stand.median_ns(trips, || {
            write::<SLEEPS>(word, asked);
            await_other::<SLEEPS>(word, asked);
            asked += 2;
        })
    })
}

fn write<const SLEEPS: bool>(word: &AtomicU32, value: u32) {
    // ORDER: relaxed; the value publishes nothing else, and the kernel looks for sleepers after its own fence.
    word.store(value, Ordering::Relaxed);
    if SLEEPS {
        wake(word);
    }
}

/// Waits for a value other than `seen`.
fn await_other<const SLEEPS: bool>(word: &AtomicU32, seen: u32) -> u32 {
    loop {
        // ORDER: as in `write`.
        let found = word.load(Ordering::Relaxed);
        if found != seen {
            return found;
        }
        if SLEEPS {
            wait(word, seen);
        } else {
            hint::spin_loop();
        }
    }
}

/// An eventfd, and the epoll set that watches it.
#[derive(Debug)]
pub(super) struct Event {
    descriptor: OwnedFd,
    poller: OwnedFd,
}

impl Event {
    pub(super) fn new() -> Result<Self> {
        let made = eventfd(0, EventfdFlags::CLOEXEC).and_then(|descriptor| {
            let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let data = epoll::EventData::new_u64(0);
            epoll::add(&poller, &descriptor, data, epoll::EventFlags::IN)?;
            Ok(Self { descriptor, poller })
        });
        made.context("eventfd and epoll")
    }

    /// Adds one, which wakes the reader.
    pub(super) fn ring(&self) {
        // It fails only if the sum overflows, which takes far more writes.
        let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }

    /// Waits until it was rung, and resets it.
    pub(super) fn wait(&self) {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }];
        // After an error the caller looks again, as after a spurious wake. The sum itself is not needed.
        if epoll::wait(&self.poller, &mut events, None).is_ok() {
            let _ = rustix::io::read(&self.descriptor, &mut [0_u8; 8]);
        }
    }
}

/// What the waker and the woken thread share.
struct Bell {
    /// How often it was rung.
    word: AtomicU32,
    /// The means of waking, instead of the word as a futex.
    event: Option<Event>,
    woken: Sender<Tick>,
}

impl Bell {
    fn ring(&self, word: u32) {
        // ORDER: SeqCst; only the value travels, and the system call orders the rest.
        self.word.store(word, Ordering::SeqCst);
        self.event
            .as_ref()
            .map_or_else(|| wake(&self.word), Event::ring);
    }

    /// Sends the time at which it was woken, each time.
    fn answer(&self, stand: &Stand) {
        let mut seen = 0;
        loop {
            match &self.event {
                None => wait(&self.word, seen),
                Some(event) => event.wait(),
            }
            let now = stand.clock.now();
            // ORDER: as in `ring`.
            let found = self.word.load(Ordering::SeqCst);
            if found == STOP || (found != seen && self.woken.send(now).is_err()) {
                return;
            }
            seen = found;
        }
    }
}

/// Wakes a thread on the CPU `there`, which was `idle` for so long: the time of the waker's system call, and that from just before the call until the
/// woken thread runs.
pub(super) fn wake_ns(
    stand: &Stand,
    there: usize,
    event: Option<Event>,
    idle: Duration,
) -> Result<[f64; 2]> {
    let (woken, wakes) = channel();
    let bell = Bell {
        word: AtomicU32::new(0),
        event,
        woken,
    };
    let theirs = stand.clone();
    let answer = move |bell: &Bell| {
        bell.answer(&theirs);
        Ok(())
    };
    stand.beside(
        there,
        bell,
        answer,
        |bell| bell.ring(STOP),
        |bell| {
            let mut times: [Vec<f64>; 2] = Default::default();
            for turn in 1..=WAKES {
                // This CPU stays awake, so only the other one has to leave its idle state.
                let idle_since = Instant::now();
                while idle_since.elapsed() < idle {
                    hint::spin_loop();
                }
                let start = stand.clock.now();
                bell.ring(turn);
                let called = stand.clock.now();
                let Ok(ran) = wakes.recv() else { break };
                for (times, end) in times.iter_mut().zip([called, ran]) {
                    times.push(stand.clock.ns_between(start, end) as f64);
                }
            }
            times.map(|times| median(&times).unwrap_or_default())
        },
    )
}

/// How late a sleep on this CPU ends: the timer interrupt, the idle exit and a switch.
pub(super) fn lateness_ns(stand: &Stand) -> Result<f64> {
    let late = |_| {
        let until_ns = Host::os_now_ns() + IDLE.as_nanos() as u64;
        let deadline = Timespec {
            tv_sec: (until_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (until_ns % 1_000_000_000).cast_signed(),
        };
        // A signal can end the sleep early; the median absorbs that.
        let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &deadline);
        Host::os_now_ns().saturating_sub(until_ns) as f64
    };
    let thread = thread_on("sleeper", Some(stand.here), move || {
        // As in a worker's thread. It fails only on a kernel without the call, where sleeps end later.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        median(&(0..WAKES).map(late).collect::<Vec<_>>())
    })?;
    Ok(join(thread)?.unwrap_or_default())
}

/// The same on a CPU that another thread keeps awake, which yields to every other one at once.
pub(super) fn while_awake<T>(
    stand: &Stand,
    cpu: usize,
    own: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let awake = |end: &End| {
        let asked = Host::set_policy(Policy::Idle);
        asked.context("SCHED_IDLE")?;
        while !end.is_asked() {
            hint::spin_loop();
        }
        Ok(())
    };
    stand.beside(cpu, End::default(), awake, End::ask, |_| own())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_come_back() {
        let stand = Stand::of_this_host().expect("there is a CPU");
        let slept = round_trip_ns::<true>(&stand, stand.here, [3, 2]);
        assert!(slept.expect("it can be started") > 0.0);
        // On one CPU each of two spinning threads would wait for the end of the other's slice.
        if let Some(there) = stand.other() {
            let spun = round_trip_ns::<false>(&stand, there, [3, 2]);
            assert!(spun.expect("it can be started") > 0.0);
        }
    }
}
