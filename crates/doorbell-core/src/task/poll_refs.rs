//! References of the task under poll that its worker counts apart from the state word. When the poll ends, the worker
//! adds them to the word in one step.
//!
//! A timer keeps a waker of its task. Often a timer is armed and dropped in one poll, for example a timeout around a
//! future that is ready. Counted in the word, that would cost two read-modify-writes.
//!
//! Contract: *until the poll ends, only this worker's thread wakes and drops such a waker ⇒ the word counts every
//! reference that is dropped outside of the poll.* So another worker that expires this one's timers skips those that
//! got a waker in the poll under way. The word counts the worker's own reference through the whole poll, so the task
//! stays even while other references are missing in the word.

use super::cell::TaskRef;
use super::schedule::Schedule;
use super::waker;
use crate::quiet::drop_quietly;
use std::cell::Cell;
use std::marker::PhantomData;
use std::task::Waker;

/// The references that a worker has still to count in the word of the task under poll.
#[derive(Debug)]
pub(crate) struct PollRefs<M: Schedule> {
    /// The waker of the poll; null between polls.
    waker: Cell<*const Waker>,
    /// References given out, less those taken back.
    count: Cell<isize>,
    /// Whether the poll has woken its own task on this thread.
    yields: Cell<bool>,
    machine: PhantomData<fn(M)>,
}

impl<M: Schedule> PollRefs<M> {
    pub(crate) fn new() -> Self {
        PollRefs {
            waker: Cell::new(std::ptr::null()),
            count: Cell::new(0),
            yields: Cell::new(false),
            machine: PhantomData,
        }
    }

    /// Calls `poll` with the waker of `task`. Then adds the references to the task's word.
    #[inline]
    pub(crate) fn during<R>(&self, task: TaskRef<M>, poll: impl FnOnce(&Waker) -> R) -> R {
        // SAFETY: the worker's reference outlives this borrowed waker.
        let waker = unsafe { waker::borrowed(task) };
        self.waker.set(&raw const *waker);
        self.yields.set(false);
        // Does not unwind: a task's panics are caught where its future is polled.
        let polled = poll(&waker);
        self.waker.set(std::ptr::null());
        let count = self.count.replace(0);
        if count != 0 {
            task.header().state.add_refs(count);
        }
        polled
    }

    /// Whether a poll is under way. Until it ends, references may be missing in the word.
    #[inline]
    pub(crate) fn is_in_poll(&self) -> bool {
        !self.waker.get().is_null()
    }

    /// `task` is woken on this thread, whether it is under poll or not.
    #[inline]
    pub(crate) fn note_wake(&self, task: TaskRef<M>) {
        if self.task().is_some_and(|own| own.as_raw() == task.as_raw()) {
            self.yields.set(true);
        }
    }

    /// Whether the poll that ended last has woken its own task. A wake by another thread during the poll does not
    /// count: something has come for the task.
    #[inline]
    pub(crate) fn yields(&self) -> bool {
        self.yields.get()
    }

    /// The task under poll.
    #[inline]
    pub(crate) fn task(&self) -> Option<TaskRef<M>> {
        // SAFETY: as in `is_of_the_poll`.
        let waker = unsafe { self.waker.get().as_ref() }?;
        // SAFETY: made by `waker::borrowed`, so its data is a task. The task is alive during its poll.
        Some(unsafe { TaskRef::from_raw(waker.data()) })
    }

    /// Whether this is the waker of the task under poll.
    #[inline]
    fn is_of_the_poll(&self, waker: &Waker) -> bool {
        // SAFETY: while this is not null, it points to the borrowed waker on the stack of `during`.
        let own = unsafe { self.waker.get().as_ref() };
        own.is_some_and(|own| own.will_wake(waker))
    }

    /// A clone of `waker`. If that is of the task under poll, the reference is counted here, not in the word.
    ///
    /// # Safety
    /// Until the poll ends, only this worker's thread wakes and drops the result. During a poll, it drops it only by
    /// [`PollRefs::take_back`].
    #[inline]
    pub(crate) unsafe fn give(&self, waker: &Waker) -> Waker {
        if self.is_of_the_poll(waker) {
            self.count.set(self.count.get() + 1);
            // SAFETY: a waker of this task. Its reference is counted here, and in the word when the poll ends.
            return unsafe { Waker::new(waker.data(), waker.vtable()) };
        }
        waker.clone()
    }

    /// Drops a waker. If it is of the task under poll, the reference is counted off here, not in the word.
    #[inline]
    pub(crate) fn take_back(&self, waker: Waker) {
        if self.is_of_the_poll(&waker) {
            self.count.set(self.count.get() - 1);
            std::mem::forget(waker);
        } else {
            drop_quietly(waker);
        }
    }
}
