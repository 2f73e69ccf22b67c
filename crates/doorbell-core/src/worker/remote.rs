//! The remote half of a worker, which other threads may touch: bell and mailbox in one line, parker,
//! switches, counts.

use super::pulse::Pulse;
use super::remote_counts::RemoteCounts;
use crate::bell::{Bell, Signals, WorkerState};
use crate::group;
use crate::io::Driver;
use crate::link::{Node, Taker};
use crate::mailbox::{Batch, Mailbox, Post, Posted, Pushed};
use crate::queue::{Chain, Queue, RankOf};
use crate::scheduler::RemoteRef;
use crate::scheduler::Scheduler;
use crate::scheduler::offline::OffWord;
use crate::switches::SwitchWord;
use crate::wheel::{Gate, SharedGate, Visited};
use doorbell_machine::{Bug, Line, Machine, Ordering, Spun, Word};
use std::ptr::NonNull;
use std::sync::Arc;

/// What travels when somebody posts: one line.
pub(super) struct BellLine<M: Machine> {
    pub(super) bell: Bell<M>,
    /// What only this worker may run: calls, pinned tasks, mail of timers.
    mailbox: Mailbox<M>,
    /// Tasks that may run anywhere; other workers of the scheduler may take them too.
    inject: Mailbox<M>,
}

/// The remote half of a worker: everything of it that another thread may touch.
pub struct Remote<M: Machine> {
    pub(super) shared: M::Line<BellLine<M>>,
    pub(super) parker: M::Parker,
    pub(super) switches: Arc<SwitchWord<M::Counter>>,
    pub(super) counts: M::Line<RemoteCounts<M::Counter>>,
    /// When the worker's nearest global timer is due; `u64::MAX` if it has none.
    next_global_ns: M::Line<M::U64>,
    queue: Queue<M>,
    pub(super) pulse: M::Line<Pulse<M>>,
    gate: SharedGate<M, RemoteRef<M>>,
    scheduler: NonNull<Scheduler<M>>,
    worker: usize,
    off: OffWord<M>,
    pub(super) driver: Driver<M>,
}

// SAFETY: the pointer leads to the scheduler that the remote half is part of, which lives as long.
unsafe impl<M: Machine> Sync for Remote<M> {}
// SAFETY: as for Sync.
unsafe impl<M: Machine> Send for Remote<M> {}

impl<M: Machine> std::fmt::Debug for Remote<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("state", &self.state())
            .field("queue", &self.queue)
            .field("inject queue", &self.shared.inject)
            .field("counts", &*self.counts)
            .finish_non_exhaustive()
    }
}

#[cold]
#[inline(never)]
fn posted_twice() -> ! {
    panic!("a call or a task was posted twice")
}

/// Which kind of thread posts a task to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Another worker of the scheduler, which will look for work when it has none.
    Scheduler,
    /// A thread that is no worker of the scheduler.
    Outside,
}

/// What a worker found when it served its mailbox.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// The signals that it cleared.
    pub signals: Signals,
    /// How many nodes it delivered.
    pub delivered: u64,
}

impl<M: Machine> Remote<M> {
    /// The remote half of a new worker, in the state running. It becomes part of the scheduler at that
    /// address.
    pub(crate) fn new(
        switches: Arc<SwitchWord<M::Counter>>,
        scheduler: NonNull<Scheduler<M>>,
        worker: usize,
        rank_of: Option<RankOf<M>>,
    ) -> Self {
        use doorbell_machine::Parker as _;
        let capacity = M::RING_CAPACITY;
        Remote {
            shared: M::Line::new(|| BellLine {
                bell: Bell::default(),
                mailbox: Mailbox::default(),
                inject: Mailbox::default(),
            }),
            parker: M::Parker::new(),
            switches,
            counts: M::Line::new(RemoteCounts::default),
            next_global_ns: M::Line::new(|| M::U64::new(u64::MAX)),
            queue: rank_of.map_or_else(|| Queue::new(capacity), |of| Queue::ordered(capacity, of)),
            pulse: M::Line::new(Pulse::default),
            gate: Arc::new(M::Line::new(Gate::default)),
            scheduler,
            worker,
            off: OffWord::default(),
            driver: Driver::default(),
        }
    }

    /// Whether the worker was taken off; see [`Scheduler::take_off`].
    #[inline(always)]
    pub fn is_off(&self) -> bool {
        self.off.is_off()
    }

    pub(crate) fn off_word(&self) -> &OffWord<M> {
        &self.off
    }

    /// The scheduler that the worker is part of.
    #[inline(always)]
    pub fn scheduler(&self) -> &Scheduler<M> {
        // SAFETY: the remote half is part of it.
        unsafe { self.scheduler.as_ref() }
    }

    /// The scheduler's address, as it was allocated. To free it takes this pointer; a reference would not do.
    #[inline(always)]
    pub(crate) fn scheduler_ptr(&self) -> NonNull<Scheduler<M>> {
        self.scheduler
    }

    /// Its number in the scheduler.
    #[inline(always)]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The worker's run queue of tasks that may run anywhere.
    #[inline(always)]
    pub fn queue(&self) -> &Queue<M> {
        &self.queue
    }

    /// The queue of the worker's tasks of a group that may run anywhere; `None` if the group is not open.
    #[inline]
    pub(crate) fn queue_of(&self, group: u8) -> Option<&Queue<M>> {
        if group == group::DEFAULT {
            return Some(&self.queue);
        }
        let table = self.scheduler().groups().table()?;
        Some(&table.place(group, self.worker)?.queue)
    }

    /// Whether other workers may find a task in a queue of this worker.
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty() || self.scheduler().groups().has_queued(self.worker)
    }

    /// About how many tasks of this worker others can take.
    pub fn queued_len(&self) -> u64 {
        let grouped = self.scheduler().groups().queued_len(self.worker);
        self.queue.len() + grouped
    }

    /// The gate, which decides who may touch the worker's wheel.
    #[inline(always)]
    pub(crate) fn gate(&self) -> &SharedGate<M, RemoteRef<M>> {
        &self.gate
    }

    /// The bell, for the worker itself and for threads that only look.
    #[inline(always)]
    pub fn bell(&self) -> &Bell<M> {
        &self.shared.bell
    }

    /// The parker that the worker parks in.
    pub fn parker(&self) -> &M::Parker {
        &self.parker
    }

    /// The counts that posters keep.
    pub fn counts(&self) -> &RemoteCounts<M::Counter> {
        &self.counts
    }

    /// What the worker does now.
    pub fn state(&self) -> WorkerState {
        self.shared.bell.state()
    }

    /// When the worker's nearest global timer is due, as the worker last published it. It may be earlier than
    /// the truth, but later only for a moment while it changes.
    pub fn next_global_ns(&self) -> u64 {
        // ORDER: Relaxed; a number. A thread that fires the timers visits the wheel, whose gate orders it.
        self.next_global_ns.load(Ordering::Relaxed)
    }

    /// Only the worker's own thread, or a visitor of its wheel, calls this.
    pub(crate) fn publish_next_global(&self, when_ns: u64) {
        // ORDER: Relaxed, as in `next_global_ns`.
        self.next_global_ns.store(when_ns, Ordering::Relaxed);
    }

    /// Whether every call costs the worker a pass (`idle_notify=off`).
    pub fn kick_passes(&self) -> bool {
        self.switches.rules().kick_passes()
    }

    /// Posts a node, and tells the worker unless another poster has.
    ///
    /// # Panics
    /// If the node is in a queue already; to post it again would lose the nodes behind it.
    ///
    /// # Safety
    /// As for [`Mailbox::push`]: on [`Posted::Yes`] the worker owns the node until delivered.
    #[inline]
    pub unsafe fn post(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        let pushed = unsafe { self.shared.mailbox.push(node) };
        match pushed {
            Pushed::First | Pushed::Behind => self.tell(pushed),
            Pushed::Closed => return Posted::Closed,
            Pushed::Twice => posted_twice(),
        }
        Posted::Yes
    }

    /// Posts a task that any worker of the scheduler may run. If this worker is running, it may be inside a long poll,
    /// so the task is offered to an idle worker. A single task from another worker of the scheduler is only looked
    /// after by a watchdog, unless tasks run by rank: this worker was idle a moment ago, and is about to run it.
    ///
    /// # Panics
    /// As for [`Remote::post`].
    ///
    /// # Safety
    /// As for [`Remote::post`]; the node is one of a task that any worker of the scheduler may run.
    pub(crate) unsafe fn post_task(&self, node: NonNull<Node<M>>, from: Origin) -> Posted {
        let work = self.scheduler().work();
        // SAFETY: passed on from the caller.
        let pushed = unsafe { self.shared.inject.push(node) };
        match pushed {
            Pushed::First | Pushed::Behind => {
                // The worker may have become idle meanwhile. From here on other workers can find the task.
                M::fence_recheck();
                work.add(self.worker);
                self.tell(pushed);
            }
            Pushed::Closed => return Posted::Closed,
            Pushed::Twice => posted_twice(),
        }
        if self.is_inside() {
            let crowded = || pushed == Pushed::Behind || self.has_queued();
            if from == Origin::Outside || crowded() {
                if !M::breaks(Bug::SchedulerPostUnoffered) {
                    self.scheduler().offer(self.worker);
                }
            } else if !M::breaks(Bug::SchedulerPushUnoffered) {
                self.scheduler().offer_one(self.worker);
            }
        }
        Posted::Yes
    }

    /// Takes all tasks out of the inject queue. Any worker of the scheduler may call this.
    pub(crate) fn take_injected(&self) -> Option<(Chain<M>, u64)> {
        self.shared.inject.take_chain()
    }

    /// Whether tasks lie in the inject queue.
    #[inline]
    pub fn has_injected(&self) -> bool {
        !self.shared.inject.is_empty()
    }

    /// Whether there are tasks that another worker might take.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.has_queued() || self.has_injected()
    }

    /// As [`Remote::post`], for a node that the caller knows to be in no queue.
    ///
    /// # Safety
    /// As for [`Mailbox::push_entered`]: on [`Posted::Yes`] the worker owns the node until delivered.
    #[inline]
    pub unsafe fn post_entered(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        let pushed = unsafe { self.shared.mailbox.push_entered(node) };
        if pushed == Pushed::Closed {
            return Posted::Closed;
        }
        self.tell(pushed);
        Posted::Yes
    }

    /// Posts a node without telling the worker: for what can wait until the worker takes its mailbox anyway.
    ///
    /// # Safety
    /// As for [`Remote::post`].
    pub(crate) unsafe fn post_quietly(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        match unsafe { self.shared.mailbox.push(node) } {
            Pushed::First | Pushed::Behind => Posted::Yes,
            Pushed::Closed => Posted::Closed,
            Pushed::Twice => posted_twice(),
        }
    }

    /// Whether there is anything for the worker to look at while it runs.
    #[inline]
    pub fn pending(&self) -> bool {
        !self.shared.mailbox.is_empty() || self.has_injected() || self.shared.bell.signalled()
    }

    /// Whether mailbox and inject queue are empty: the worker's last look after an announcement.
    #[inline]
    pub fn mailbox_is_empty(&self) -> bool {
        M::breaks(Bug::BellNoRecheck) || (self.shared.mailbox.is_empty() && !self.has_injected())
    }

    /// Whether anything lies in the mailbox, the inject queue not counted.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        !self.shared.mailbox.is_empty()
    }

    /// Spins until there is something to look at, for about `for_ns`.
    #[inline]
    pub fn spin(&self, for_ns: u64) -> Spun {
        M::spin(&self.shared, for_ns, |shared| {
            !shared.mailbox.is_empty() || !shared.inject.is_empty() || shared.bell.signalled()
        })
    }

    /// Clears the signals, then takes the mailbox and delivers it. In this order, so that a
    /// post after the take finds NOTIFY clear.
    ///
    /// # Safety
    /// The caller is the worker's own thread, and `worker` is that worker.
    #[inline]
    pub unsafe fn serve(&self, worker: &impl Taker<M>) -> Served {
        if M::breaks(Bug::BellClearAfterTake) {
            let batch = self.shared.mailbox.take();
            let signals = self.clear_signals();
            // SAFETY: passed on from the caller.
            let delivered = unsafe { batch.deliver(worker) };
            return Served { signals, delivered };
        }
        self.shared.mailbox.prefetch();
        let signals = self.clear_signals();
        // SAFETY: passed on from the caller.
        let delivered = unsafe { self.shared.mailbox.take().deliver(worker) };
        Served { signals, delivered }
    }

    #[inline]
    fn clear_signals(&self) -> Signals {
        if self.shared.bell.signalled() {
            self.shared.bell.acknowledge()
        } else {
            Signals::default()
        }
    }

    /// Takes the mailbox for the last time; later posts find it closed.
    pub fn close(&self) -> Batch<M> {
        self.shared.mailbox.close()
    }

    /// Takes the inject queue for the last time; later posts find it closed.
    pub(crate) fn close_injected(&self) -> Option<(Chain<M>, u64)> {
        self.shared.inject.close_chain()
    }
}

impl<M: Machine> Visited<M> for Remote<M> {
    fn parker(&self) -> &M::Parker {
        &self.parker
    }

    fn polls(&self) -> u64 {
        self.pulse_seen()
    }

    fn publish_next_global(&self, when_ns: u64) {
        Remote::publish_next_global(self, when_ns);
    }
}

// SAFETY: what lies in a mailbox is delivered once, by the worker that serves it.
unsafe impl<M: Machine> Post<M> for Remote<M> {
    #[inline]
    unsafe fn post(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        unsafe { Remote::post(self, node) }
    }

    #[inline]
    unsafe fn post_entered(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        unsafe { Remote::post_entered(self, node) }
    }
}

#[cfg(test)]
impl<M: Machine> Remote<M> {
    /// The first half of a post, as by a poster that is stalled before it tells the worker.
    ///
    /// # Safety
    /// As for [`Mailbox::push`].
    pub(crate) unsafe fn push_untold(&self, node: NonNull<Node<M>>) -> Pushed {
        // SAFETY: passed on from the caller.
        unsafe { self.shared.mailbox.push(node) }
    }
}
