//! Cores taken off and put back while they run.
//!
//! A worker that is off takes no task that may run elsewhere: what it has it hands to the nearest worker
//! that is on, and so with whatever still comes. Its thread goes on for what cannot leave it:
//! pinned tasks, the calls that were posted before, its timers, the tasks that it is home of. That
//! is how the kernel treats a core that goes off: it moves what it can and breaks the affinity of
//! the rest.

use crate::scheduler::Scheduler;
use crate::worker::Remote;
use doorbell_machine::{Machine, Ordering, Word};

/// What came of taking a worker off.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenOff {
    /// It is off: nothing is placed there any more. The worker itself is to be told, see
    /// [`Local::follow`](crate::task::Local::follow).
    Now,
    /// It was off already.
    Before,
    /// It is the last one that is on, and stays on.
    LastOne,
    /// Another caller asks for the same worker at this moment, and has no answer yet.
    Asked,
}

/// What came of putting a worker back.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutBack {
    /// It is on. The worker itself is to be told.
    Now,
    /// It was on already.
    Before,
}

/// What became of a task that a worker which is off has for others.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandedOn {
    /// Another worker has it.
    Yes,
    /// It is in this worker's own queue.
    Kept,
}

/// What an [`OffWord`] says. Somebody asks to take the worker off, which may be refused: until then
/// it is on.
const ON: u32 = 0;
const OFF: u32 = 1;
const ASKED: u32 = 2;

/// Whether a worker is off: a word of its remote half, which only those of [`Scheduler`] here change.
#[derive(Debug)]
pub(crate) struct OffWord<M: Machine>(M::U32);

impl<M: Machine> Default for OffWord<M> {
    fn default() -> Self {
        OffWord(M::U32::new(ON))
    }
}

impl<M: Machine> OffWord<M> {
    #[inline(always)]
    pub(crate) fn is_off(&self) -> bool {
        // ORDER: Relaxed; who places a task by an older value posts it to the worker, which hands
        // it on.
        self.0.load(Ordering::Relaxed) == OFF
    }

    /// Changes it, if it is as it was `seen`.
    ///
    /// # Errors
    /// What it is.
    fn change(&self, seen: u32, new: u32) -> Result<(), u32> {
        // ORDER: Acquire pairs with the Release of `answer`: the count is changed in that order;
        // unshown because an exchange of the model reads the newest count in any case. Relaxed on
        // failure: nothing is done then.
        self.0
            .compare_exchange(seen, new, Ordering::Acquire, Ordering::Relaxed)
            .map(drop)
    }

    /// The answer to the one that has asked.
    fn answer(&self, to: u32) {
        // ORDER: Release pairs with the Acquire of `change`, by the next one that asks; unshown because
        // of what is said there.
        self.0.store(to, Ordering::Release);
    }
}

impl<M: Machine> Scheduler<M> {
    /// Takes a worker off, unless it is the last that is on. Waits for nobody: a second caller that asks
    /// for the worker meanwhile is told so.
    pub fn take_off(&self, worker: usize) -> TakenOff {
        let off = self.remotes()[worker].off_word();
        match off.change(ON, ASKED) {
            Ok(()) => {}
            Err(OFF) => return TakenOff::Before,
            Err(_) => return TakenOff::Asked,
        }
        // Counted before it is said: nobody ever sees the last worker off.
        // ORDER: Relaxed; the exchange decides.
        let mut on = self.on().load(Ordering::Relaxed);
        while on > 1 {
            // ORDER: Acquire pairs with the Release of `put_back`: who counts on a worker sees it on. The
            // count has one order, so of two that take off the last two workers one is refused.
            match self
                .on()
                .compare_exchange(on, on - 1, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => {
                    off.answer(OFF);
                    return TakenOff::Now;
                }
                Err(now) => on = now,
            }
        }
        off.answer(ON);
        TakenOff::LastOne
    }

    /// Puts a worker back.
    pub fn put_back(&self, worker: usize) -> PutBack {
        // One that somebody asks for is on still.
        if self.remotes()[worker].off_word().change(OFF, ON).is_err() {
            return PutBack::Before;
        }
        // Said before it is counted, for the same reason.
        // ORDER: Release pairs with the Acquire of `take_off`: who counts on this worker sees it on.
        self.on().fetch_add(1, Ordering::Release);
        PutBack::Now
    }

    /// The nearest worker that is on, from `worker` on.
    pub(crate) fn nearest_on(&self, worker: usize) -> &Remote<M> {
        let own = &self.remotes()[worker];
        if !own.is_off() {
            return own;
        }
        // One is always on; if it has changed under the look, the worker itself hands on.
        self.others(worker)
            .find(|other| !other.is_off())
            .unwrap_or(own)
    }
}

#[cfg(test)]
#[path = "loom_offline.rs"]
mod loom;
