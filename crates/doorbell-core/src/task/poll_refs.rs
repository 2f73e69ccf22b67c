//! References of the task under poll that its worker gives out and takes back without touching the
//! task's word, and settles once when the poll ends.
//!
//! A timer keeps a waker of its task. Armed and dropped in one poll, as a timeout is around what
//! turns out to be ready, it would cost two read-modify-writes for nothing.
//!
//! Contract: *such a waker is woken and dropped by this worker's thread alone until the poll ends ⇒ the word counts
//! every reference that is dropped outside of the poll.* Another worker that expires this one's timers leaves those
//! alone that were given a waker in the poll that is under way. The worker's own reference is counted through the whole
//! poll, so the task does not go away while its count is behind.

use super::cell::TaskRef;
use super::schedule::Schedule;
use super::waker;
use crate::quiet::drop_quietly;
use std::cell::Cell;
use std::marker::PhantomData;
use std::task::Waker;

/// What a worker owes to the word of the task that it polls.
#[derive(Debug)]
pub(crate) struct PollRefs<M: Schedule> {
    /// The waker of the poll; null between polls.
    waker: Cell<*const Waker>,
    /// References given out, less those taken back.
    count: Cell<isize>,
    machine: PhantomData<fn(M)>,
}

impl<M: Schedule> PollRefs<M> {
    pub(crate) fn new() -> Self {
        PollRefs {
            waker: Cell::new(std::ptr::null()),
            count: Cell::new(0),
            machine: PhantomData,
        }
    }

    /// Polls `task` by `poll`, with its waker, and settles.
    #[inline]
    pub(crate) fn during<R>(&self, task: TaskRef<M>, poll: impl FnOnce(&Waker) -> R) -> R {
        // SAFETY: the worker's reference outlives this borrowed waker.
        let waker = unsafe { waker::borrowed(task) };
        self.waker.set(&raw const *waker);
        // Does not unwind: a task's panics are caught where its future is polled.
        let polled = poll(&waker);
        self.waker.set(std::ptr::null());
        let count = self.count.replace(0);
        if count != 0 {
            task.header().state.settle(count);
        }
        polled
    }

    /// Whether a poll is under way: references may be owed until it ends.
    #[inline]
    pub(crate) fn is_in_poll(&self) -> bool {
        !self.waker.get().is_null()
    }

    /// The task under poll.
    pub(crate) fn task(&self) -> Option<TaskRef<M>> {
        // SAFETY: as in `is_of_the_poll`.
        let waker = unsafe { self.waker.get().as_ref() }?;
        // SAFETY: made by `waker::borrowed`, so its data is a task, which is alive during its poll.
        Some(unsafe { TaskRef::from_raw(waker.data()) })
    }

    /// Whether this is the waker of the task under poll.
    #[inline]
    fn is_of_the_poll(&self, waker: &Waker) -> bool {
        // SAFETY: the borrowed waker is on the stack of `during` while this is not null.
        let own = unsafe { self.waker.get().as_ref() };
        own.is_some_and(|own| own.will_wake(waker))
    }

    /// A waker as by `clone`.
    ///
    /// # Safety
    /// Only this worker's thread wakes and drops it until the poll ends, and drops it in a poll only by
    /// [`PollRefs::take_back`].
    #[inline]
    pub(crate) unsafe fn give(&self, waker: &Waker) -> Waker {
        if self.is_of_the_poll(waker) {
            self.count.set(self.count.get() + 1);
            // SAFETY: a waker of this task, whose reference is owed to its word until then.
            return unsafe { Waker::new(waker.data(), waker.vtable()) };
        }
        waker.clone()
    }

    /// Drops a waker.
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
