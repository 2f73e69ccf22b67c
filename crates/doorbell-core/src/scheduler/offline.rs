//! Cores that are taken off and put back while the runtime runs.
//!
//! A worker that is off runs no task that may run elsewhere: it hands those that it has, and those that
//! still come, to the nearest worker that is on. Its thread goes on for what cannot leave it:
//! pinned tasks, the calls that were posted before, its timers, the tasks that it is home of. (The kernel
//! moves what it can from a core that goes off, too, but breaks the affinity of the rest.)

use crate::scheduler::Member;
use crate::scheduler::Scheduler;
use doorbell_machine::{Machine, Ordering, Word};

/// The result of [`Scheduler::take_off`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenOff {
    /// It is off: no task is placed there any more. The caller must tell the worker itself; see
    /// [`Local::follow`](crate::worker::Local::follow).
    Now,
    /// It was off already.
    Before,
    /// It is the last one that is on, and stays on.
    LastOne,
    /// Another caller is taking the same worker off, and has no answer yet.
    Asked,
}

/// The result of [`Scheduler::put_back`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutBack {
    /// It is on. The caller must tell the worker itself.
    Now,
    /// It was on already.
    Before,
}

/// The values of an [`OffWord`]. `ASKED`: a caller is taking the worker off, which may be refused; until
/// then the worker is on.
const ON: u32 = 0;
const OFF: u32 = 1;
const ASKED: u32 = 2;

/// Whether a worker is off: a word of its remote half, which only the functions of [`Scheduler`] here change.
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
        // ORDER: Relaxed; a task that is placed by an older value is posted to the worker, which hands
        // it on.
        self.0.load(Ordering::Relaxed) == OFF
    }

    /// Changes it from `seen` to `new`.
    ///
    /// # Errors
    /// The present value, if that is not `seen`.
    fn change(&self, seen: u32, new: u32) -> Result<(), u32> {
        // ORDER: Acquire pairs with the Release of `answer`: the count is changed in that order;
        // unshown because an exchange of the model reads the newest count in any case. Relaxed on
        // failure: nothing is done then.
        self.0
            .compare_exchange(seen, new, Ordering::Acquire, Ordering::Relaxed)
            .map(drop)
    }

    /// Ends `ASKED`, by the caller that has set it.
    fn answer(&self, to: u32) {
        // ORDER: Release pairs with the Acquire of `change`, by the next caller that asks; unshown because
        // of what is said there.
        self.0.store(to, Ordering::Release);
    }
}

impl<M: Machine> Scheduler<M> {
    /// Takes a worker off, unless it is the last one that is on. Does not wait: a second caller that asks
    /// for the same worker meanwhile gets [`TakenOff::Asked`].
    pub fn take_off(&self, worker: usize) -> TakenOff {
        let off = self.remotes()[worker].off_word();
        match off.change(ON, ASKED) {
            Ok(()) => {}
            Err(OFF) => return TakenOff::Before,
            Err(_) => return TakenOff::Asked,
        }
        // Counted before the word says off, so that no thread ever sees the last worker off.
        // ORDER: Relaxed; the exchange decides.
        let mut on = self.on().load(Ordering::Relaxed);
        while on > 1 {
            // ORDER: Acquire pairs with the Release of `put_back`: a caller that relies on another worker sees it
            // on. The count has one order, so of two callers that take off the last two workers one is refused.
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
        // A worker whose word is `ASKED` is still on.
        if self.remotes()[worker].off_word().change(OFF, ON).is_err() {
            return PutBack::Before;
        }
        // The word says on before it is counted, for the same reason.
        // ORDER: Release pairs with the Acquire of `take_off`: a caller that relies on this worker sees it on.
        self.on().fetch_add(1, Ordering::Release);
        PutBack::Now
    }

    /// `worker` itself if it is on, else the nearest worker that is.
    pub(crate) fn nearest_on(&self, worker: usize) -> &Member<M> {
        let own = &self.remotes()[worker];
        if !own.is_off() {
            return own;
        }
        // One worker is always on. If that changed during the look, the worker itself hands the task on.
        self.others(worker)
            .find(|other| !other.is_off())
            .unwrap_or(own)
    }
}

#[cfg(test)]
#[path = "loom_offline.rs"]
mod loom;
