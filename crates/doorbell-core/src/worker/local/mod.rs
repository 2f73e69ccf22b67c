//! The state that only a worker's own thread touches. A thread finds its worker through the machine's worker slot.

mod away;
mod bring;
mod current;
mod deferred;
mod listing;
mod poll_budget;
mod steal;
pub mod timer;
mod timers;

pub use poll_budget::{Lifted, PollBudget};
pub(super) use timers::VISITED_RETRY_NS;

use super::tasks::run;
use super::turns::OwnTurns;
use crate::class::Class;
use crate::group;
use crate::link::{Delivered, Node, Taker};
use crate::mailbox::Posted;
use crate::parcel::Returns;
use crate::queue::{Ready, Share, is_shareable};
use crate::scheduler::{Member, RemoteRef, Scheduler, Stock};
use crate::task::SchedulerId;
use crate::task::home::Listed;
use crate::task::queue_node::group_of;
use crate::wheel::Clock;
use crate::worker::pace::{POLLS_PER_READING, Pace};
use bring::Pushing;
use current::Current;
use deferred::Deferred;
use doorbell_machine::{Bug, Counter, Machine};
use listing::Listing;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use timers::OwnTimers;

/// A worker notifies the home worker of one in this many complete tasks that it sends. Otherwise a home worker
/// that sleeps for long would hold the memory of ever more of them.
const SENT_HOME_QUIETLY: u32 = 256;

/// What a worker did when it was to run a task.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// It ran one.
    One,
    /// There is none.
    Nothing,
    /// None is ready. Before a deferred one the worker makes a pass.
    PassFirst,
}

/// A worker as its own thread sees it. Not `Sync`.
#[derive(Debug)]
pub struct Local<M: Machine> {
    class: Class,
    stock: Stock<M>,
    /// Pinned tasks. Tasks that may run anywhere are in the remote half's queue.
    ready: Ready<M>,
    /// Parcels that the worker has emptied and not yet given back.
    returns: Returns<M>,
    pub(in crate::worker) turns: OwnTurns<M>,
    deferred: Deferred<M>,
    pace: Pace,
    /// Whether the worker has noticed that it is off. It then hands on the tasks that may run elsewhere.
    off: Cell<bool>,
    listing: Listing,
    pushing: Pushing,
    current: Current<M>,
    /// How many complete tasks this worker has sent to their home workers.
    sent_home: Cell<u32>,
    closed: Cell<bool>,
    timers: OwnTimers<M>,
    /// The last field, because the drop of the wheel enters the gate once more. The wheel also owns the gate, but in
    /// a model only the release of this share orders this thread before the one that later frees the scheduler.
    remote: RemoteRef<M>,
}

impl<M: Machine> Local<M> {
    /// A worker without tasks. Its clock runs with the machine's.
    pub fn new(remote: RemoteRef<M>) -> Self {
        Self::with_clock(remote, Arc::new(Clock::default()))
    }

    /// A worker without tasks that uses this clock.
    pub fn with_clock(remote: RemoteRef<M>, clock: Arc<Clock<M>>) -> Self {
        let is_exact = remote.scheduler().turns().is_exact();
        Local {
            class: remote.scheduler().class(),
            turns: OwnTurns::of(&remote),
            stock: Stock::new(&remote),
            timers: OwnTimers::new(clock, Arc::clone(remote.gate())),
            ready: Ready::beside(remote.queue()),
            returns: Returns::default(),
            remote,
            deferred: Deferred::default(),
            pace: Pace::new(if is_exact { 1 } else { POLLS_PER_READING }),
            off: Cell::new(false),
            listing: Listing::new(),
            pushing: Pushing::default(),
            current: Current::new(),
            sent_home: Cell::new(0),
            closed: Cell::new(false),
        }
    }

    /// Calls `f` with the worker whose thread calls this, or with `None` on any other thread.
    #[inline]
    pub fn with_current<R>(f: impl FnOnce(Option<&Local<M>>) -> R) -> R {
        let here = M::worker_slot().cast::<Local<M>>();
        // SAFETY: the slot is set only by `enter`, for as long as it borrows the worker.
        f(unsafe { here.as_ref() })
    }

    /// Makes this the current worker of the thread while `f` runs.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave<M: Machine>(*const (), std::marker::PhantomData<M>);
        impl<M: Machine> Drop for Leave<M> {
            fn drop(&mut self) {
                // SAFETY: the previous value: null, or set by an enclosing `enter` that still borrows its worker.
                unsafe { M::set_worker_slot(self.0) };
            }
        }
        let _leave = Leave::<M>(M::worker_slot(), std::marker::PhantomData);
        // SAFETY: this worker is borrowed until `f` has returned and `_leave` is dropped.
        unsafe { M::set_worker_slot(std::ptr::from_ref(self).cast()) };
        f()
    }

    /// As [`Local::enter`], and other workers may expire this worker's timers while it is stuck.
    pub fn enter_gated<R>(&self, f: impl FnOnce() -> R) -> R {
        struct End<'a, M: Machine>(&'a Member<M>);
        impl<M: Machine> Drop for End<'_, M> {
            fn drop(&mut self) {
                self.0.gate().end(self.0.parker());
            }
        }
        self.enter(|| {
            let _end = End(&self.remote);
            // SAFETY: this worker is borrowed until `f` has returned and `_end` is dropped.
            unsafe { self.wheel().begin() };
            f()
        })
    }

    /// The side of this worker that others see.
    #[inline]
    pub fn remote(&self) -> &RemoteRef<M> {
        &self.remote
    }

    /// The class of its scheduler.
    #[inline]
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// Whether `remote` is this worker's remote half.
    #[inline]
    pub fn is(&self, remote: &Member<M>) -> bool {
        std::ptr::eq(&raw const *self.remote, remote)
    }

    /// Whether this worker belongs to `scheduler`.
    #[inline]
    pub fn is_of(&self, scheduler: &Scheduler<M>) -> bool {
        self.is_in(scheduler.id())
    }

    /// As [`Local::is_of`], by the scheduler's identity.
    #[inline]
    pub(in crate::worker) fn is_in(&self, scheduler: SchedulerId) -> bool {
        self.remote.scheduler().id() == scheduler
    }

    /// The shares of the scheduler that this thread gives out.
    #[inline]
    pub(crate) fn stock(&self) -> &Stock<M> {
        &self.stock
    }

    /// The pinned tasks that are ready to run.
    #[inline]
    pub fn ready(&self) -> &Ready<M> {
        &self.ready
    }

    /// The emptied parcels that go back to their owners.
    #[inline]
    pub(crate) fn returns(&self) -> &Returns<M> {
        &self.returns
    }

    /// How many tasks are in this worker's list: they ran here first.
    pub fn live(&self) -> usize {
        self.remote.task_list().len()
    }

    /// Whether the worker accepts no new tasks.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Appends a task that may run anywhere. If there is work for one more worker, or this poll has pushed a task
    /// before, offers it to an idle worker. Else, if the task may wait behind something long, asks for a watchdog, or
    /// by rank has an idle worker take it.
    ///
    /// # Safety
    /// As for [`Queue::push`](crate::queue::Queue::push), on this worker's thread.
    #[inline]
    pub(in crate::worker) unsafe fn push(&self, node: NonNull<Node<M>>) {
        if self.off.get() {
            let _ = self.hand_on(node);
            return;
        }
        // SAFETY: passed on; this worker owns its queues.
        let len = unsafe { self.queue_for(node).push(node, Share::Always) };
        self.list();
        M::fence_recheck();
        self.note_waiting();
        // A poll that wakes or spawns more than one task may take long.
        if is_shareable(len) || self.pushing.again() || is_shareable(self.movable_len()) {
            self.remote.scheduler().offer(self.remote.worker());
        } else {
            self.leave_to_itself();
        }
    }

    /// Appends a task that was woken during its own poll, which is over. If it `yields`, it goes into the deferred queue.
    /// Exceptions: by rank it goes behind its equals, and a task of a group goes to the end of its group's queue.
    ///
    /// # Safety
    /// As for [`Local::push`].
    #[inline]
    pub(in crate::worker) unsafe fn push_again(&self, node: NonNull<Node<M>>, yields: bool) {
        // SAFETY: the node of a task that is alive.
        if self.off.get() || !yields || unsafe { self.is_in_line(node) } {
            // SAFETY: passed on.
            unsafe { self.push_between_polls(node) };
        } else {
            // SAFETY: passed on.
            unsafe { self.defer(node, false) };
        }
    }

    /// Whether a task that yields goes behind its equals, and is not deferred.
    ///
    /// # Safety
    /// The node is that of a task that is alive.
    #[inline]
    unsafe fn is_in_line(&self, node: NonNull<Node<M>>) -> bool {
        // SAFETY: passed on.
        let is_grouped = unsafe { group_of(node) } != group::DEFAULT;
        is_grouped || !self.turns().defers() || M::breaks(Bug::DeferredInLine)
    }

    /// As [`Local::push`], but without a watchdog: no poll is under way that the task waits for.
    ///
    /// # Safety
    /// As for [`Local::push`].
    #[inline]
    pub(in crate::worker) unsafe fn push_between_polls(&self, node: NonNull<Node<M>>) {
        if self.off.get() {
            let _ = self.hand_on(node);
            return;
        }
        // SAFETY: the node of a task that is alive.
        let queue = unsafe { self.queue_for(node) };
        // SAFETY: passed on; this worker owns its queues.
        let len = unsafe { queue.push(node, Share::Surplus) };
        self.list();
        self.leave_between_polls(queue, len);
    }

    /// As [`Local::push_again`], for a pinned task.
    ///
    /// # Safety
    /// As for [`Ready::push`].
    pub(in crate::worker) unsafe fn push_pinned_again(&self, node: NonNull<Node<M>>, yields: bool) {
        // SAFETY: the node of a task that is alive, says the caller.
        if !yields || unsafe { self.is_in_line(node) } {
            // SAFETY: passed on.
            unsafe { self.push_pinned(node) };
        } else {
            // SAFETY: passed on.
            unsafe { self.defer(node, true) };
        }
    }

    /// Moves the tasks of this worker's inject queue into its run queue. Returns how many.
    #[inline]
    pub fn gather(&self) -> u64 {
        if !self.remote.has_injected() {
            return 0;
        }
        // Before the take: a thread that pushes after it sees that this worker has something else to run.
        self.remote.beat();
        let Some((chain, len)) = self.remote.take_injected() else {
            return 0;
        };
        if self.off.get() {
            self.hand_on_chain(chain);
        } else {
            self.push_chain(chain);
        }
        len
    }

    /// Delivers what was posted for any worker of the scheduler. Returns how many nodes it took.
    #[inline]
    pub fn take_common(&self) -> u64 {
        let common = self.remote.scheduler().common();
        if common.is_empty() {
            return 0;
        }
        // SAFETY: this is the worker's thread.
        unsafe { common.take_shared().deliver(self) }
    }

    /// Sends a complete task to its home worker. Mostly without a notification: the home worker frees the memory when
    /// it takes its mailbox anyway.
    ///
    /// # Safety
    /// As for [`Remote::post`].
    pub(in crate::worker) unsafe fn send_home(
        &self,
        home: &Member<M>,
        node: NonNull<Node<M>>,
    ) -> Posted {
        let sent = self.sent_home.get().wrapping_add(1);
        self.sent_home.set(sent);
        if sent.is_multiple_of(SENT_HOME_QUIETLY) {
            // SAFETY: passed on.
            unsafe { home.post(node) }
        } else {
            // SAFETY: passed on.
            unsafe { home.post_quietly(node) }
        }
    }

    /// Whether this worker's queues are empty, and it holds no stolen task.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
            && self.remote.queue().is_empty()
            && !self.has_stolen()
            && self.is_deferred_empty()
            && self.grouped_len() == 0
    }

    /// About how many tasks are queued on this worker.
    pub fn queued(&self) -> usize {
        let stolen = usize::from(self.has_stolen());
        let pinned = self.ready.len() + self.pinned_deferred();
        let movable = self.remote.queue().len() + self.remote.deferred().len();
        pinned + movable as usize + stolen + self.grouped_len()
    }

    /// Whether there is a task for another worker: one that this worker does not run next.
    #[inline]
    pub fn has_surplus(&self) -> bool {
        let len = self.movable_len();
        is_shareable(len) || (len > 0 && self.has_stolen_or_pinned())
    }

    /// Whether there is a task that no other worker can take.
    pub(in crate::worker) fn has_stolen_or_pinned(&self) -> bool {
        let pinned =
            || !self.ready.is_empty() || self.pinned_deferred() > 0 || self.has_pinned_of_groups();
        self.has_stolen() || pinned()
    }

    /// Runs the next task once. `false` if there is none.
    #[inline]
    pub fn run_one(&self) -> bool {
        match self.run_next() {
            Ran::One => true,
            Ran::Nothing => false,
            Ran::PassFirst => {
                let next = self.next_deferred();
                next.inspect(|node| self.run_task(*node)).is_some()
            }
        }
    }

    /// Runs a task that was taken from a queue.
    #[inline(always)]
    pub(in crate::worker) fn run_task(&self, node: NonNull<Node<M>>) {
        self.remote.beat();
        self.pushing.begin_poll();
        self.current.begin();
        // SAFETY: only nodes of tasks are pushed to these queues.
        unsafe { run::run(node, self) };
    }

    /// Ends the worker. It closes its mailbox, runs the calls that were posted before, and cancels every task that is
    /// in its queues or its list. A post, spawn or wake from then on finds the worker gone.
    pub fn close(&self) {
        self.closed.set(true);
        // First, so that no visitor holds the wheel when timers come by mail below.
        self.remote.gate().end(self.remote.parker());
        let mail = self.remote.close();
        let (list, parker) = (self.remote.task_list(), self.remote.parker());
        self.deliver_left();
        // SAFETY: this is the worker's own thread.
        unsafe { mail.deliver(self) };
        // The first worker that ends closes this mailbox for all workers, because the runtime ends.
        // SAFETY: as above.
        unsafe { self.remote.scheduler().common().close().deliver(self) };
        if let Some((chain, _)) = self.remote.close_injected() {
            self.push_chain(chain);
        }
        loop {
            self.end_queued();
            // One by one, because the drop of a future may wake another task.
            let Some(task) = list.with_waiting(parker, Listed::pop_newest) else {
                break;
            };
            // Who ends the runtime sees that this worker gets on.
            self.remote.beat();
            task.end_at_close();
        }
        // After the futures, whose drops remove their timers from the wheel.
        self.wheel().close(self.remote.parker());
        // Tasks of other workers, woken because the timers that they waited for ended with the wheel.
        self.end_queued();
        self.unlist();
    }

    /// Delivers what visitors took out of the mailbox and left to the worker, while the runtime ends. It is older than
    /// what the mailbox has now.
    #[cold]
    pub(in crate::worker) fn deliver_left(&self) {
        let (list, parker) = (self.remote.task_list(), self.remote.parker());
        for left in list.with_waiting(parker, |list| std::mem::take(&mut list.mail)) {
            // SAFETY: this is the worker's own thread.
            unsafe { left.deliver(self) };
        }
    }

    /// Ends every task in the queues of a worker that closes.
    pub(crate) fn end_queued(&self) {
        while let Some(node) = self.next() {
            self.remote.beat();
            // SAFETY: as in `run_one`.
            unsafe { run::end_queued(node, self) };
        }
    }
}

impl<M: Machine> Taker<M> for Local<M> {
    #[inline(always)]
    unsafe fn take(&self, node: NonNull<Node<M>>, delivered: Delivered) {
        match delivered {
            Delivered::Done => {}
            Delivered::Parcel { room, panicked } => {
                if panicked {
                    self.remote.counts().posts_panicked.add_shared(1);
                }
                // SAFETY: that parcel's delivery has emptied it.
                unsafe { self.returns.put(node, room) };
            }
            // SAFETY: passed on.
            Delivered::Task => unsafe { run::take_delivered(node, self) },
            // SAFETY: passed on.
            Delivered::Timer => unsafe { self.take_timer(node) },
        }
    }
}

impl<M: Machine> Drop for Local<M> {
    fn drop(&mut self) {
        self.stock.close();
    }
}
