//! Wakes that a worker does between two polls, because of its descriptors, its timers, or the mail of a lower
//! class. If nothing else waits on the worker, it runs the woken task next, so it asks for no watchdog.

use super::Local;
use crate::queue::{Queue, is_shareable};
use doorbell_machine::Machine;
use std::cell::Cell;

/// What the worker does that pushes tasks.
#[derive(Debug, Default)]
pub(super) struct Pushing {
    /// A task was pushed since the last poll began.
    has_pushed: Cell<bool>,
    /// The worker is inside [`Local::bring`].
    brings: Cell<bool>,
    /// It is so to fire the timers of a worker that sleeps.
    for_sleeper: Cell<bool>,
}

impl Pushing {
    #[inline(always)]
    pub(super) fn begin_poll(&self) {
        self.has_pushed.set(false);
    }

    /// A task was pushed. Returns whether it is not the first one since the last poll began.
    #[inline(always)]
    pub(super) fn again(&self) -> bool {
        self.has_pushed.replace(true)
    }
}

/// Sets a flag as long as it lives, because a waker may panic.
struct During<'a>(&'a Cell<bool>);

impl<'a> During<'a> {
    fn set(flag: &'a Cell<bool>, to: bool) -> Self {
        flag.set(to);
        During(flag)
    }
}

impl Drop for During<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<M: Machine> Local<M> {
    /// Whether the poll under way has pushed a task.
    pub(in crate::worker) fn has_pushed(&self) -> bool {
        self.pushing.has_pushed.get()
    }

    /// Whether what is pushed now comes between two polls, by [`Local::bring`].
    pub(in crate::worker) fn brings(&self) -> bool {
        self.pushing.brings.get()
    }

    /// Calls `f`, which only wakes tasks: it polls nothing and runs no call, because those may take long.
    pub(crate) fn bring<R>(&self, f: impl FnOnce() -> R) -> R {
        let _brings = During::set(&self.pushing.brings, true);
        f()
    }

    /// As [`Local::bring`], for the timers of a worker that sleeps or is set aside. `places`: what would wait here goes
    /// to an idle worker.
    pub(crate) fn bring_for_sleeper<R>(&self, places: bool, f: impl FnOnce() -> R) -> R {
        let _for_sleeper = During::set(&self.pushing.for_sleeper, places);
        self.bring(f)
    }

    /// Whether a task that is woken now goes to an idle worker, if there is one. So it is while this worker fires
    /// timers of another one, and another movable task waits here. An idle worker would be rung for that surplus
    /// anyway, and a thief that finds a single queued task takes nothing.
    pub(in crate::worker) fn places_what_it_fires(&self) -> bool {
        self.pushing.for_sleeper.get() && (self.has_stolen() || self.movable_len() > 0)
    }

    /// As [`Local::bring`], on the current worker. On any other thread, only calls `f`. Calls that the worker took
    /// together with the parcel may run before the woken task, so they must be short.
    pub(crate) fn bring_mail<R>(f: impl FnOnce() -> R) -> R {
        Local::<M>::with_current(|local| match local {
            Some(local) => local.bring(f),
            None => f(),
        })
    }

    /// Call it after the push of one task, and its fence. Offers the task to other workers if something long may run
    /// before it: the poll or call that pushed it, or what waits on this worker already.
    pub(in crate::worker) fn leave_to_itself(&self) {
        if !self.brings() || self.runs_another_first() {
            self.remote.scheduler().offer_one(self.remote.worker());
        }
    }

    /// Call it after the push of one movable task to `queue` between two polls, which said that `len` are there. Offers
    /// what waits here if that is more than one. If only tasks that no other worker can take may run before it, asks for a
    /// watchdog.
    #[inline]
    pub(in crate::worker) fn leave_between_polls(&self, queue: &Queue<M>, len: u64) {
        let is_more = is_shareable(len) || is_shareable(self.movable_len());
        if !is_more && !self.has_stolen_or_pinned() {
            return;
        }
        if is_shareable(len) {
            // Then the push was a read-modify-write.
            M::fence_recheck();
        } else {
            queue.show_stored();
        }
        let (scheduler, worker) = (self.remote.scheduler(), self.remote.worker());
        if is_more {
            scheduler.offer(worker);
        } else {
            scheduler.offer_one(worker);
        }
    }

    /// Whether something else on this worker may run before its one movable task.
    pub(in crate::worker) fn runs_another_first(&self) -> bool {
        let pinned = || !self.ready().is_empty() || self.has_pinned_of_groups();
        self.has_stolen() || pinned() || self.remote.pending() || self.has_slice()
    }
}
