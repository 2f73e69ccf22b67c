//! What a worker's own thread keeps, found through the machine's worker slot.

use crate::call::Returns;
mod away;
mod bring;
mod by_rank;
mod by_share;
mod poll_budget;
mod steal;
pub mod timer;
mod timers;

pub use poll_budget::PollBudget;

use super::tasks::{Raised, run};
use crate::class::Class;
use crate::group::{self, WorkerGroups};
use crate::link::{Delivered, Node, Taker};
use crate::mailbox::Posted;
use crate::queue::{Chain, Ready, Share, is_shareable};
use crate::scheduler::Member;
use crate::scheduler::{RemoteRef, Scheduler, Stock};
use crate::task::home::TaskList;
use crate::task::poll_refs::PollRefs;
use crate::task::queue_node::group_of;
use crate::wheel::{Base, Clock, Wheel};
use by_share::Tell;
use doorbell_machine::{Counter, Machine};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

/// Of so many complete tasks that a worker sends home, one is announced, so that a worker that sleeps
/// for long does not keep the memory of ever more.
const SENT_HOME_QUIETLY: u32 = 256;

/// A worker as its own thread sees it. Not `Sync`.
#[derive(Debug)]
pub struct Local<M: Machine> {
    class: Class,
    stock: Stock<M>,
    /// Pinned tasks; those that may run anywhere are in the remote half's queue.
    ready: Ready<M>,
    /// Parcels that it has emptied and not yet given back.
    returns: Returns<M>,
    /// A task that was taken from another worker, to be run next.
    pub(in crate::worker) stolen: Cell<Option<NonNull<Node<M>>>>,
    /// Whose turn it is when both queues have tasks.
    pub(in crate::worker) pinned_next: Cell<bool>,
    /// What its remote half said when the worker last looked: tasks that may run elsewhere do.
    pub(in crate::worker) off: Cell<bool>,
    /// It has put itself into the work set, and not taken itself out since.
    listed: Cell<bool>,
    /// Whether a task was pushed since the last poll began.
    pub(in crate::worker) pushed: Cell<bool>,
    /// It is between two polls, and wakes tasks for what came by descriptor, timer or mail.
    pub(in crate::worker) brings: Cell<bool>,
    /// How many ready operations the current poll may still complete.
    budget: PollBudget,
    /// How many complete tasks were sent to the workers whose lists they are in.
    sent_home: Cell<u32>,
    /// The tasks that live on this worker.
    pub(in crate::worker) tasks: TaskList<M>,
    closed: Cell<bool>,
    pub(in crate::worker) wheel: Wheel<M, RemoteRef<M>>,
    pub(in crate::worker) clock: Arc<Clock<M>>,
    /// When the wheel has to be looked at, at the earliest; `u64::MAX` if never.
    pub(in crate::worker) due_ns: Cell<u64>,
    /// Since it idled, or since a timer was armed that is the first to be due, nobody was asked to look after
    /// its timers and descriptors.
    pub(in crate::worker) unattended: Cell<bool>,
    /// Which base the timers of the task that runs now belong to.
    pub(in crate::worker) base: Cell<Base>,
    /// The rank of the task that runs now, or ran last.
    rank: Cell<u8>,
    /// Whether that one is of a scheduler below, which raised it.
    pub(in crate::worker) raised: Raised,
    poll_refs: PollRefs<M>,
    /// Tasks of groups.
    pub(in crate::worker) groups: WorkerGroups,
    /// Last: the wheel enters its gate once more when it is dropped. The gate is the wheel's too, but a model knows of
    /// no order between this thread and one that frees the scheduler later but for this share.
    pub(in crate::worker) remote: RemoteRef<M>,
}

impl<M: Machine> Local<M> {
    /// A worker without tasks, that goes by the machine's clock.
    pub fn new(remote: RemoteRef<M>) -> Self {
        Self::with_clock(remote, Arc::new(Clock::default()))
    }

    /// A worker without tasks.
    pub fn with_clock(remote: RemoteRef<M>, clock: Arc<Clock<M>>) -> Self {
        Local {
            class: remote.scheduler().class(),
            stock: Stock::new(&remote),
            wheel: Wheel::new(clock.now_ns(), Arc::clone(remote.gate())),
            ready: Ready::beside(remote.queue()),
            returns: Returns::default(),
            remote,
            stolen: Cell::new(None),
            pinned_next: Cell::new(false),
            off: Cell::new(false),
            listed: Cell::new(false),
            pushed: Cell::new(false),
            brings: Cell::new(false),
            budget: PollBudget::default(),
            sent_home: Cell::new(0),
            tasks: TaskList::default(),
            closed: Cell::new(false),
            clock,
            due_ns: Cell::new(u64::MAX),
            unattended: Cell::new(true),
            base: Cell::new(Base::Global),
            rank: Cell::new(0),
            raised: Raised::default(),
            poll_refs: PollRefs::new(),
            groups: WorkerGroups::default(),
        }
    }

    /// Calls `f` with the worker that the caller runs on; `None` on any other thread.
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
                // SAFETY: what was there before, for those outside.
                unsafe { M::set_worker_slot(self.0) };
            }
        }
        let _leave = Leave::<M>(M::worker_slot(), std::marker::PhantomData);
        // SAFETY: this worker is borrowed until `f` has returned and `_leave` is dropped.
        unsafe { M::set_worker_slot(std::ptr::from_ref(self).cast()) };
        f()
    }

    /// As [`Local::enter`], and others may expire timers of this worker while it is stuck.
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
            unsafe { self.wheel.begin() };
            f()
        })
    }

    /// The side of this worker that others see.
    #[inline]
    pub fn remote(&self) -> &RemoteRef<M> {
        &self.remote
    }

    /// That of its scheduler.
    #[inline]
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// Whether this is the worker with that remote half.
    #[inline]
    pub fn is(&self, remote: &Member<M>) -> bool {
        std::ptr::eq(&raw const *self.remote, remote)
    }

    /// Whether this is a worker of that scheduler.
    #[inline]
    pub fn is_of(&self, scheduler: &Scheduler<M>) -> bool {
        std::ptr::eq(self.remote.scheduler(), scheduler)
    }

    /// Shares of the scheduler that are to be given out.
    #[inline]
    pub(crate) fn stock(&self) -> &Stock<M> {
        &self.stock
    }

    /// The pinned tasks that are ready to run.
    #[inline]
    pub fn ready(&self) -> &Ready<M> {
        &self.ready
    }

    /// The parcels that go back to their owners.
    #[inline]
    pub(crate) fn returns(&self) -> &Returns<M> {
        &self.returns
    }

    /// How many tasks live on this worker: those that ran at least once and are not complete.
    pub fn live(&self) -> usize {
        self.tasks.len()
    }

    /// Those tasks.
    #[inline]
    pub(crate) fn task_list(&self) -> &TaskList<M> {
        &self.tasks
    }

    /// The rank that the task under poll was launched with, or that a call has
    /// [set](Local::set_rank) since: a number of the launcher's.
    #[inline]
    pub fn rank(&self) -> u8 {
        self.rank.get()
    }

    /// Says which rank a call has that runs now.
    pub fn set_rank(&self, rank: u8) {
        self.rank.set(rank);
    }

    /// What it owes to the word of the task that it polls.
    #[inline]
    pub(crate) fn poll_refs(&self) -> &PollRefs<M> {
        &self.poll_refs
    }

    /// Whether the worker takes no new task.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Appends a task that may run anywhere, and tells an idle worker if there is work for one, or if
    /// nobody would notice that this worker is stuck with it.
    ///
    /// # Safety
    /// As for [`Queue::push`](crate::queue::Queue::push), on this worker's thread.
    #[inline]
    pub(in crate::worker) unsafe fn push(&self, node: NonNull<Node<M>>) {
        if self.off.get() {
            let _ = self.hand_on(node);
            return;
        }
        // SAFETY: the node of a task that is alive.
        let group = unsafe { group_of(node) };
        if group != group::DEFAULT {
            // SAFETY: passed on.
            return unsafe { self.push_of_group(node, group, Tell::Always) };
        }
        // SAFETY: passed on; this worker owns its remote half's queue.
        let len = unsafe { self.remote.queue().push(node, Share::Always) };
        self.list();
        M::fence_recheck();
        let scheduler = self.remote.scheduler();
        // One that wakes or spawns more than one task in a poll may go on for long.
        if is_shareable(len) || self.pushed.replace(true) || self.groups.any() {
            scheduler.offer(self.remote.worker());
        } else {
            self.leave_to_itself();
        }
    }

    /// Appends a task whose poll is over and which was woken in it: this worker comes to it next.
    ///
    /// # Safety
    /// As for [`Local::push`].
    #[inline]
    pub(in crate::worker) unsafe fn push_again(&self, node: NonNull<Node<M>>) {
        if self.off.get() {
            let _ = self.hand_on(node);
            return;
        }
        // SAFETY: the node of a task that is alive.
        let group = unsafe { group_of(node) };
        if group != group::DEFAULT {
            // SAFETY: passed on.
            return unsafe { self.push_of_group(node, group, Tell::Surplus) };
        }
        let has_groups = self.groups.any();
        let share = if has_groups {
            Share::Always
        } else {
            Share::Surplus
        };
        // SAFETY: passed on; this worker owns its remote half's queue.
        let len = unsafe { self.remote.queue().push(node, share) };
        self.list();
        if is_shareable(len) || has_groups {
            M::fence_recheck();
            self.remote.scheduler().offer(self.remote.worker());
        }
    }

    /// Makes the tasks of the inject queue this worker's. Returns how many.
    #[inline]
    pub fn gather(&self) -> u64 {
        if !self.remote.has_injected() {
            return 0;
        }
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

    pub(in crate::worker) fn push_chain(&self, chain: Chain<M>) {
        if self.remote.scheduler().groups().table().is_some() {
            return self.push_chain_by_group(chain);
        }
        // SAFETY: this worker owns its remote half's queue, and the chain is of tasks for it.
        unsafe { self.remote.queue().push_chain(chain) };
        self.list();
    }

    /// Something is in the worker's run queue now: who looks for work may see that.
    #[inline]
    pub(in crate::worker) fn list(&self) {
        if !self.listed.get() {
            self.list_now();
        }
    }

    /// As if something were pushed, also where something was before: a read-modify-write, behind
    /// which a fence of the machine may stand.
    pub(crate) fn list_anew(&self) {
        self.listed.set(true);
        self.remote
            .scheduler()
            .work()
            .add_anew(self.remote.worker());
    }

    #[cold]
    fn list_now(&self) {
        self.listed.set(true);
        self.remote.scheduler().work().add(self.remote.worker());
    }

    /// The worker idles and has nothing for others.
    pub(crate) fn unlist(&self) {
        self.listed.set(false);
        let remote = &self.remote;
        remote
            .scheduler()
            .work()
            .remove(remote.worker(), || remote.has_work());
    }

    /// As [`PollBudget::begin`], for the poll that is under way. Between polls, as in calls and hooks,
    /// nothing is refused.
    #[inline]
    pub fn begin_operation(&self) -> Option<i32> {
        let between_polls = || (!self.poll_refs.is_in_poll()).then_some(i32::MAX);
        self.budget.begin().or_else(between_polls)
    }

    /// As [`PollBudget::end`].
    #[inline]
    pub fn end_operation(&self, before: i32) {
        self.budget.end(before);
    }

    /// Sends a complete task to the worker whose list it is in. Mostly nobody is told: the memory
    /// is given back when that worker takes its mailbox anyway.
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

    /// Whether there is nothing to run.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
            && self.remote.queue().is_empty()
            && self.stolen.get().is_none()
            && (!self.groups.any() || self.grouped_len() == 0)
    }

    /// How many tasks are in its queues, about.
    pub fn queued(&self) -> usize {
        let stolen = usize::from(self.stolen.get().is_some());
        self.ready.len() + self.remote.queue().len() as usize + stolen + self.grouped_len()
    }

    /// Whether there is a task for another worker: one that this worker does not run next.
    #[inline]
    pub fn has_surplus(&self) -> bool {
        let len = if self.groups.any() {
            self.movable_len()
        } else {
            self.remote.queue().len()
        };
        let pinned = || !self.ready.is_empty() || self.has_pinned_of_groups();
        let runs_another = || self.stolen.get().is_some() || pinned();
        is_shareable(len) || (len > 0 && runs_another())
    }

    /// Takes the next task out: by rank, or pinned ones and others in turn, each oldest first.
    #[inline]
    pub(in crate::worker) fn next(&self) -> Option<NonNull<Node<M>>> {
        if let Some(stolen) = self.stolen.take() {
            return Some(stolen);
        }
        if self.groups.is_on() {
            return self.next_by_share();
        }
        self.next_plain()
    }

    /// As [`Local::next`], of the tasks that are of no group.
    #[inline]
    pub(in crate::worker) fn next_plain(&self) -> Option<NonNull<Node<M>>> {
        let refilled = || self.offer_refilled();
        // SAFETY: this worker owns its remote half's queue.
        let pop = || unsafe { self.remote.queue().pop_then(refilled) };
        if self.ready.is_empty() {
            return pop();
        }
        if let Some(order) = self.ready.order() {
            return self.next_by_rank(order);
        }
        if self.pinned_next.replace(!self.pinned_next.get()) {
            self.ready.pop()
        } else {
            pop().or_else(|| self.ready.pop())
        }
    }

    /// Runs the next ready task once. `false` if there is none.
    #[inline]
    pub fn run_one(&self) -> bool {
        if self.groups.is_on() {
            return self.run_one_by_share();
        }
        let Some(node) = self.next() else {
            return false;
        };
        self.run_task(node);
        true
    }

    /// Runs a task that was taken from a queue.
    #[inline(always)]
    pub(in crate::worker) fn run_task(&self, node: NonNull<Node<M>>) {
        self.remote.beat();
        self.pushed.set(false);
        self.budget.refill();
        // SAFETY: only nodes of tasks are pushed to these queues.
        unsafe { run::run(node, self) };
    }

    /// Ends the worker: closes its mailbox, runs the calls that were posted in time, cancels every
    /// task that is in its queues or lives on it. What is posted, spawned or woken meanwhile
    /// finds the worker gone.
    pub fn close(&self) {
        self.closed.set(true);
        // First: what comes by mail below must find the wheel.
        self.remote.gate().end(self.remote.parker());
        // SAFETY: this is the worker's own thread.
        unsafe { self.remote.close().deliver(self) };
        // The first worker that ends refuses them for all: the runtime ends.
        // SAFETY: as above.
        unsafe { self.remote.scheduler().timers().close().deliver(self) };
        if let Some((chain, _)) = self.remote.close_injected() {
            self.push_chain(chain);
        }
        loop {
            self.end_queued();
            // A future's drop may wake another task, hence one by one.
            let Some(task) = self.tasks.newest() else {
                break;
            };
            task.end_at_close(self);
        }
        // Last, so that futures that were dropped above have taken their timers with them.
        self.wheel.close(self.remote.parker());
        // Tasks of other workers that waited for timers of this one.
        self.end_queued();
        self.unlist();
    }

    /// Ends every task in the queues of a worker that closes.
    pub(crate) fn end_queued(&self) {
        while let Some(node) = self.next() {
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
