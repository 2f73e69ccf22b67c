//! What a lane's own thread keeps, found through the machine's lane slot.

use super::cell::TaskRef;
use crate::mailbox::Front;
use crate::node::Ready;
use crate::wheel::{Base, Clock, Wheel};
use doorbell_machine::Machine;
use std::cell::Cell;
use std::sync::Arc;

/// A lane as its own thread sees it. Not `Sync`.
#[derive(Debug)]
pub struct Local<M: Machine> {
    front: Arc<Front<M>>,
    ready: Ready<M>,
    /// The tasks that live on this lane: the newest, linked through their headers.
    pub(super) newest: Cell<Option<TaskRef<M>>>,
    live: Cell<usize>,
    closed: Cell<bool>,
    wheel: Wheel<M>,
    clock: Arc<Clock<M>>,
    /// When the wheel has to be looked at, at the earliest; `u64::MAX` if never.
    due_ns: Cell<u64>,
    /// What the front says of the global base.
    published_ns: Cell<u64>,
    /// Which base the timers of the task that runs now belong to.
    base: Cell<Base>,
}

impl<M: Machine> Local<M> {
    /// A lane without tasks, that goes by the machine's clock.
    pub fn new(front: Arc<Front<M>>) -> Self {
        Self::with_clock(front, Arc::new(Clock::default()))
    }

    /// A lane without tasks.
    pub fn with_clock(front: Arc<Front<M>>, clock: Arc<Clock<M>>) -> Self {
        Local {
            front,
            ready: Ready::default(),
            newest: Cell::new(None),
            live: Cell::new(0),
            closed: Cell::new(false),
            wheel: Wheel::new(clock.now_ns()),
            clock,
            due_ns: Cell::new(u64::MAX),
            published_ns: Cell::new(u64::MAX),
            base: Cell::new(Base::Global),
        }
    }

    /// Calls `f` with the lane that the caller runs on; `None` on any other thread.
    #[inline]
    pub fn with_current<R>(f: impl FnOnce(Option<&Local<M>>) -> R) -> R {
        let here = M::lane_slot().cast::<Local<M>>();
        // SAFETY: the slot is set only by `enter`, for as long as it borrows the lane.
        f(unsafe { here.as_ref() })
    }

    /// Makes this the current lane of the thread while `f` runs.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave<M: Machine>(*const (), std::marker::PhantomData<M>);
        impl<M: Machine> Drop for Leave<M> {
            fn drop(&mut self) {
                // SAFETY: what was there before, for those outside.
                unsafe { M::set_lane_slot(self.0) };
            }
        }
        let _leave = Leave::<M>(M::lane_slot(), std::marker::PhantomData);
        // SAFETY: this lane is borrowed until `f` has returned and `_leave` is dropped.
        unsafe { M::set_lane_slot(std::ptr::from_ref(self).cast()) };
        f()
    }

    /// The side of this lane that others see.
    #[inline]
    pub fn front(&self) -> &Arc<Front<M>> {
        &self.front
    }

    /// Whether this is the lane with that front.
    #[inline]
    pub fn is(&self, front: &Front<M>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.front), front)
    }

    /// The tasks that are ready to run.
    #[inline]
    pub fn ready(&self) -> &Ready<M> {
        &self.ready
    }

    /// How many tasks live on this lane: those that ran at least once and are not complete.
    pub fn live(&self) -> usize {
        self.live.get()
    }

    pub(super) fn count_live(&self, change: isize) {
        self.live.set(self.live.get().wrapping_add_signed(change));
    }

    /// Its timers.
    #[inline]
    pub(crate) fn wheel(&self) -> &Wheel<M> {
        &self.wheel
    }

    /// The clock that its timers go by.
    #[inline]
    pub fn clock(&self) -> &Clock<M> {
        &self.clock
    }

    /// Which base a timer that is armed now belongs to.
    #[inline]
    pub(crate) fn base(&self) -> Base {
        self.base.get()
    }

    pub(super) fn set_base(&self, base: Base) {
        self.base.set(base);
    }

    /// Notes that a timer was armed for this time.
    #[inline]
    pub(crate) fn note_timer(&self, when_ns: u64, base: Base) {
        if when_ns < self.due_ns.get() {
            self.due_ns.set(when_ns);
        }
        if base == Base::Global && when_ns < self.published_ns.get() {
            self.publish(when_ns);
        }
    }

    fn publish(&self, when_ns: u64) {
        if self.published_ns.replace(when_ns) != when_ns {
            self.front.publish_next_global(when_ns);
        }
    }

    /// When the wheel has to be looked at, if ever.
    #[inline]
    pub fn due_ns(&self) -> Option<u64> {
        let due_ns = self.due_ns.get();
        (due_ns != u64::MAX).then_some(due_ns)
    }

    /// Whether a timer is due now.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.due_ns()
            .is_some_and(|due_ns| due_ns <= self.clock.now_ns())
    }

    /// Fires the timers that are due; returns how many.
    #[inline]
    pub fn expire(&self) -> u64 {
        let due_ns = self.due_ns.get();
        if due_ns == u64::MAX {
            return 0;
        }
        let now_ns = self.clock.now_ns();
        if now_ns < due_ns {
            0
        } else {
            self.expire_at(now_ns)
        }
    }

    #[cold]
    fn expire_at(&self, now_ns: u64) -> u64 {
        // Before the wakers run: what they arm is noted on top of it.
        self.due_ns.set(u64::MAX);
        let fired = self.wheel.expire(now_ns);
        let [local_ns, global_ns] = self.wheel.next_ns();
        self.due_ns.set(local_ns.min(global_ns));
        self.publish(global_ns);
        fired
    }

    /// Whether the lane takes no new task.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Runs the oldest ready task once. `false` if there is none.
    #[inline]
    pub fn run_one(&self) -> bool {
        let Some(node) = self.ready.pop() else {
            return false;
        };
        // SAFETY: only tasks are pushed to a ready queue, and only to that of their lane.
        unsafe { TaskRef::from_node(node) }.run(self);
        true
    }

    /// Ends the lane: closes its mailbox, runs the calls that were posted in time, cancels
    /// every task. What is posted, spawned or woken meanwhile finds the lane gone.
    pub fn close(&self) {
        self.closed.set(true);
        // SAFETY: this is the lane's own thread and its ready queue.
        unsafe { self.front.close().deliver(&self.ready) };
        loop {
            while let Some(node) = self.ready.pop() {
                // SAFETY: as in `run_one`.
                unsafe { TaskRef::from_node(node) }.adopt(self);
            }
            // A future's drop may wake another task of this lane, hence one by one.
            match self.newest.get() {
                Some(task) => task.cancel_at_close(self),
                None if self.ready.is_empty() => break,
                None => {}
            }
        }
        // Last, so that futures that were dropped above have taken their timers with them.
        self.wheel.close();
    }
}
