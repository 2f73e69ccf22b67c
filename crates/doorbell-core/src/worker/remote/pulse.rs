//! A worker's pulse: by it other workers see that it is inside a poll, and perhaps stuck.

use super::Remote;
use crate::bell::WorkerState;
use doorbell_machine::{Machine, Ordering, Word};

/// What other workers read to see whether a worker is stuck. Only the worker writes it.
pub(super) struct Pulse<M: Machine> {
    /// How often the worker has begun a poll, or to gather.
    polls: M::U64,
    /// 1 while it serves calls during its spin.
    serving: M::U32,
    /// How often the worker has slept.
    sleeps: M::U64,
    /// Goes up when the worker becomes a watchdog, and when it stops being one: odd while it is one.
    watchdog: M::U32,
    /// 1 while it polls a task whose last poll was long, or is throttled with timers.
    long: M::U32,
    /// The number of its thread, once it has one.
    thread: M::U32,
}

impl<M: Machine> Default for Pulse<M> {
    fn default() -> Self {
        Pulse {
            polls: M::U64::new(0),
            serving: M::U32::new(0),
            sleeps: M::U64::new(0),
            watchdog: M::U32::new(0),
            long: M::U32::new(0),
            thread: M::U32::new(0),
        }
    }
}

impl<M: Machine> Remote<M> {
    /// As [`Remote::pulse`]; what the worker did in the polls before is visible to the caller.
    #[inline]
    pub(crate) fn pulse_seen(&self) -> u64 {
        // ORDER: Acquire pairs with the Release of `beat`; unshown because what it orders are counts of
        // references, and an exchange of the model reads the newest value in any case.
        self.pulse.polls.load(Ordering::Acquire)
    }

    /// How often the worker has begun a poll, or to gather. While it does not change, the worker is inside one poll,
    /// or runs none.
    #[inline]
    pub fn pulse(&self) -> u64 {
        // ORDER: Relaxed; other workers only guess how long a poll has lasted.
        self.pulse.polls.load(Ordering::Relaxed)
    }

    /// Whether the worker spins and is inside calls that it took.
    #[inline]
    pub(crate) fn is_serving(&self) -> bool {
        // ORDER: Relaxed; as in `pulse`.
        self.pulse.serving.load(Ordering::Relaxed) != 0
    }

    /// Only the worker's own thread calls this.
    #[inline(always)]
    pub(crate) fn set_serving(&self, serving: bool) {
        // ORDER: Relaxed; as in `pulse`.
        self.pulse
            .serving
            .store(u32::from(serving), Ordering::Relaxed);
    }

    /// Whether the poll under way is expected to be long: the last poll of its task was.
    #[inline]
    pub(crate) fn expects_long(&self) -> bool {
        // ORDER: Relaxed; as in `pulse`. Where it matters, fences of both sides stand beside it.
        self.pulse.long.load(Ordering::Relaxed) != 0
    }

    /// Only the worker's own thread calls this.
    pub(crate) fn set_expects_long(&self, expects: bool) {
        // ORDER: Relaxed; as in `expects_long`.
        self.pulse.long.store(u32::from(expects), Ordering::Relaxed);
    }

    /// Whether the worker is a watchdog.
    #[inline]
    pub fn is_watchdog(&self) -> bool {
        self.watchdog_turns() % 2 == 1
    }

    /// How often the worker has become a watchdog or stopped being one.
    #[inline]
    pub fn watchdog_turns(&self) -> u32 {
        // ORDER: Relaxed; as in `pulse`.
        self.pulse.watchdog.load(Ordering::Relaxed)
    }

    /// Only the worker's own thread calls this.
    pub(crate) fn set_watchdog(&self, is_watchdog: bool) {
        let turns = self.watchdog_turns();
        let changes = u32::from((turns % 2 == 1) != is_watchdog);
        // ORDER: Relaxed; as in `pulse`, and only one thread writes it.
        self.pulse
            .watchdog
            .store(turns.wrapping_add(changes), Ordering::Relaxed);
    }

    /// How often the worker has slept. While it does not change, the worker has been awake all along, or asleep
    /// all along.
    #[inline]
    pub(crate) fn sleeps(&self) -> u64 {
        // ORDER: Relaxed; as in `pulse`.
        self.pulse.sleeps.load(Ordering::Relaxed)
    }

    /// The worker is about to sleep. Only its own thread calls this.
    #[inline]
    pub(crate) fn note_sleep(&self) {
        // ORDER: Relaxed; as in `pulse`, and only one thread writes it.
        let sleeps = self.pulse.sleeps.load(Ordering::Relaxed);
        // ORDER: Relaxed; as in `pulse`.
        self.pulse.sleeps.store(sleeps + 1, Ordering::Relaxed);
    }

    /// How much CPU time its thread has had; `None` if that is not known.
    #[must_use]
    pub fn cpu_time_ns(&self) -> Option<u64> {
        // ORDER: Relaxed; a number.
        M::cpu_time_ns(self.pulse.thread.load(Ordering::Relaxed))
    }

    /// The worker's thread has begun. Only that thread calls this.
    pub(crate) fn note_thread(&self) {
        let thread = M::thread_number();
        // ORDER: Relaxed; as in `cpu_time_ns`.
        self.pulse.thread.store(thread, Ordering::Relaxed);
    }

    /// Whether the worker seems to be inside a poll or a call: what is posted to it waits for the end of
    /// that.
    #[inline]
    pub fn is_inside(&self) -> bool {
        self.state() == WorkerState::Running || self.is_serving()
    }

    /// A poll begins, or the worker is about to gather. Only the worker's own thread calls this.
    #[inline(always)]
    pub(crate) fn beat(&self) {
        // ORDER: Relaxed; as in `pulse`, and only one thread writes it.
        let polls = self.pulse.polls.load(Ordering::Relaxed);
        // ORDER: Release pairs with the Acquire of `pulse_seen`: the polls before are settled; unshown
        // because of what is said there.
        self.pulse
            .polls
            .store(polls.wrapping_add(1), Ordering::Release);
    }
}
