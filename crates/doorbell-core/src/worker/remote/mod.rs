//! The remote half of a worker, which other threads may touch: bell and mailbox in one line, parker, run queue,
//! switches, counts. It knows no other worker: what concerns those is the [`Member`](crate::scheduler::Member)'s.

pub mod core_use;
mod counts;
mod pulse;

pub use counts::RemoteCounts;

use crate::bell::{Bell, Kick, Look, Notified, Signals, WorkerState};
use crate::class::{Class, Standing};
use crate::io::Driver;
use crate::link::{Node, Taker};
use crate::mailbox::{Batch, Mailbox, Posted, Pushed};
use crate::queue::{Chain, Queue, RankOf};
use crate::switches::{IdleClaim, PostRules, RtPush, SwitchWord, TimerPull};
use core_use::Occupant;
use doorbell_machine::{Bug, Counter, Line, Machine, Mark, Ordering, Spun, Word};
use pulse::Pulse;
use std::ptr::NonNull;
use std::sync::Arc;

/// What travels when somebody posts: one line.
struct BellLine<M: Machine> {
    bell: Bell<M>,
    /// What only this worker may run: calls, pinned tasks, mail of timers.
    mailbox: Mailbox<M>,
    /// Tasks that may run anywhere; other workers of the scheduler may take them too.
    inject: Mailbox<M>,
    /// The flag of `idle_claim=mark`: a waker has chosen this worker.
    marked: M::U32,
}

/// The remote half of a worker: what another thread may touch of it, whatever other workers there are.
pub struct Remote<M: Machine> {
    shared: M::Line<BellLine<M>>,
    parker: M::Parker,
    /// The descriptors of the scheduler's tasks.
    driver: Arc<Driver<M>>,
    switches: Arc<SwitchWord<M::Counter>>,
    counts: M::Line<RemoteCounts<M::Counter>>,
    /// By when a worker must wake for a global timer of this worker; `u64::MAX` if it has none.
    next_global_ns: M::Line<M::U64>,
    queue: Queue<M>,
    deferred: Queue<M>,
    pulse: M::Line<Pulse<M>>,
    class: Class,
    worker: usize,
    /// Its scheduler's part in the words that say who uses a core.
    core_use: Option<Occupant<M>>,
}

/// What a remote half is made of.
pub(crate) struct RemoteSpec<M: Machine> {
    pub(crate) class: Class,
    /// The worker's number in its scheduler, and that of its core.
    pub(crate) worker: usize,
    pub(crate) switches: Arc<SwitchWord<M::Counter>>,
    pub(crate) driver: Arc<Driver<M>>,
    /// By what its run queue is sorted, if it is.
    pub(crate) rank_of: Option<RankOf<M>>,
    pub(crate) core_use: Option<Occupant<M>>,
}

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
pub(crate) fn posted_twice() -> ! {
    panic!("a call or a task was posted twice")
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
    /// The remote half of a new worker, in the state running.
    pub(crate) fn new(spec: RemoteSpec<M>) -> Self {
        use doorbell_machine::Parker as _;
        let capacity = M::RING_CAPACITY;
        let queue = match spec.rank_of {
            None => Queue::new(capacity),
            Some(rank_of) => Queue::ordered(capacity, rank_of),
        };
        Remote {
            shared: M::Line::new(|| BellLine {
                bell: Bell::default(),
                mailbox: Mailbox::default(),
                inject: Mailbox::default(),
                marked: M::U32::new(0),
            }),
            parker: M::Parker::new(),
            driver: spec.driver,
            switches: spec.switches,
            counts: M::Line::new(RemoteCounts::default),
            next_global_ns: M::Line::new(|| M::U64::new(u64::MAX)),
            queue,
            deferred: Queue::new(capacity),
            pulse: M::Line::new(Pulse::default),
            class: spec.class,
            worker: spec.worker,
            core_use: spec.core_use,
        }
    }

    /// The class of its scheduler.
    #[inline]
    pub fn class(&self) -> Class {
        self.class
    }

    /// The part of its scheduler in the words that say who uses a core; `None` if there are no other schedulers.
    #[inline]
    pub(crate) fn core_use(&self) -> Option<&Occupant<M>> {
        self.core_use.as_ref()
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

    /// The movable tasks of the worker that can wait for those of its run queue: its deferred queue.
    #[inline(always)]
    pub(crate) fn deferred(&self) -> &Queue<M> {
        &self.deferred
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

    /// The descriptors of the scheduler's tasks.
    pub fn driver(&self) -> &Driver<M> {
        &self.driver
    }

    /// The counts that posters keep.
    pub fn counts(&self) -> &RemoteCounts<M::Counter> {
        &self.counts
    }

    /// What the worker does now.
    pub fn state(&self) -> WorkerState {
        self.shared.bell.state()
    }

    /// By when a thread must wake for a global timer of the worker, as the worker, or a visitor of its wheel, last
    /// published it. It may be earlier than the truth. It is later for a moment while it changes, and after a visit for
    /// timers that were left to the poll under way.
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

    /// How a waker gets an idle worker.
    pub(crate) fn idle_claim(&self) -> IdleClaim {
        self.switches.rules().idle_claim()
    }

    /// How an urgent worker gets at a task of higher rank elsewhere.
    pub(crate) fn rt_push(&self) -> RtPush {
        self.switches.rules().rt_push()
    }

    /// Whether awake workers fire the timers of sleeping ones (`timer_pull=on`).
    pub(crate) fn pulls_timers(&self) -> bool {
        self.switches.rules().timer_pull() == TimerPull::On
    }

    /// Whether a worker without other work arms movable timers on one that seems awake (`timer_pull=base`).
    #[inline]
    pub(crate) fn places_timers(&self) -> bool {
        self.switches.rules().places_timers()
    }

    /// The flag of the kernel patch: whether a waker has chosen this worker since it last parked.
    pub(crate) fn is_marked(&self) -> bool {
        // ORDER: Relaxed, here and in `set_mark`; racy like that of the kernel patch.
        self.shared.marked.load(Ordering::Relaxed) != 0
    }

    /// Sets or clears that flag.
    pub(crate) fn set_mark(&self, marked: bool) {
        // ORDER: Relaxed; see `is_marked`.
        self.shared
            .marked
            .store(u32::from(marked), Ordering::Relaxed);
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

    /// Pushes a task into the inject queue, where other workers may take it too. The caller tells the worker, by
    /// [`Remote::tell`].
    ///
    /// # Safety
    /// As for [`Mailbox::push`]; the node is one of a task that any worker of the scheduler may run.
    #[inline]
    pub(crate) unsafe fn push_injected(&self, node: NonNull<Node<M>>) -> Pushed {
        // SAFETY: passed on from the caller.
        unsafe { self.shared.inject.push(node) }
    }

    /// As [`Remote::push_injected`], unless anything lies in the inject queue: [`Pushed::Behind`] then, and the node is
    /// the caller's still.
    ///
    /// # Safety
    /// As for [`Remote::push_injected`].
    pub(crate) unsafe fn push_injected_first(&self, node: NonNull<Node<M>>) -> Pushed {
        // SAFETY: passed on from the caller.
        unsafe { self.shared.inject.push_first(node) }
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

    /// As [`Remote::post_entered`], unless anything lies in the mailbox. Then the node is refused as by a closed one.
    ///
    /// # Safety
    /// As for [`Mailbox::push_first_entered`]: on [`Posted::Yes`] the worker owns the node until delivered.
    pub(crate) unsafe fn post_first_entered(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        let pushed = unsafe { self.shared.mailbox.push_first_entered(node) };
        if pushed != Pushed::First {
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

    /// Clears the signals, then takes the mailbox and delivers it. In this order, so that a post after the take finds
    /// NOTIFY clear.
    ///
    /// # Safety
    /// The caller is the worker's own thread, and `worker` is that worker.
    #[inline]
    pub unsafe fn serve(&self, worker: &impl Taker<M>) -> Served {
        let (signals, batch) = self.take_mail();
        // SAFETY: passed on from the caller.
        let delivered = unsafe { batch.deliver(worker) };
        Served { signals, delivered }
    }

    /// Clears the signals, then takes the mailbox. In this order, so that a post after the take finds NOTIFY clear.
    /// Called by the worker, which delivers the batch.
    #[inline]
    pub(crate) fn take_mail(&self) -> (Signals, Batch<M>) {
        if M::breaks(Bug::BellClearAfterTake) {
            let batch = self.shared.mailbox.take();
            return (self.clear_signals(), batch);
        }
        self.shared.mailbox.prefetch();
        let signals = self.clear_signals();
        (signals, self.shared.mailbox.take())
    }

    #[inline]
    fn clear_signals(&self) -> Signals {
        if self.shared.bell.signalled() {
            self.shared.bell.acknowledge()
        } else {
            Signals::default()
        }
    }

    /// Takes the mailbox on a thread that is not the worker's, which may take it too.
    pub(crate) fn take_mail_elsewhere(&self) -> Batch<M> {
        self.shared.mailbox.take_shared()
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

/// Who tells the worker of what was posted, and who rings it. See the README of [`mailbox`](crate::mailbox).
impl<M: Machine> Remote<M> {
    /// The protocol: a spinning worker sees the push itself, a running one looks before it idles, and a poster
    /// that finds the worker parked and untold tells it. Call it directly after the push, whose
    /// read-modify-write the fence needs.
    #[inline]
    pub(crate) fn tell(&self, pushed: Pushed) {
        if !M::breaks(Bug::MailboxNoRecheckFence) {
            M::fence_recheck();
        }
        if M::breaks(Bug::MailboxNoStalledRule) && pushed == Pushed::Behind {
            return;
        }
        let rules = self.switches.rules();
        if !rules.is_default() {
            return self.tell_by_rules(pushed == Pushed::Behind, rules);
        }
        match self.shared.bell.look() {
            Look::Running | Look::Spinning | Look::Notified => {}
            Look::Parked => self.notify(Kick::Take, pushed == Pushed::Behind),
            Look::NotifiedFromBelow => self.help(),
        }
    }

    /// The worker is parked, and a notifier of a lower class has promised to ring it.
    #[cold]
    #[inline(never)]
    fn help(&self) {
        self.ring_if_due(self.shared.bell.help(self.standing()));
    }

    fn standing(&self) -> Standing {
        self.class.standing::<M>()
    }

    fn ring_if_due(&self, notified: Notified) {
        match notified {
            Notified::MustRing => self.ring(),
            Notified::MustHelp => {
                self.counts.rings_helped.add_shared(1);
                self.ring();
            }
            Notified::Running | Notified::Spinning | Notified::Already => {}
        }
    }

    /// Tells the worker, and rings it if this poster must.
    #[cold]
    #[inline(never)]
    fn notify(&self, kick: Kick, behind: bool) {
        let notified = self.shared.bell.notify(kick, self.standing());
        self.ring_if_due(notified);
        if behind && notified == Notified::MustRing {
            M::mark(Mark::MailboxRungForStalled);
            self.counts.rings_for_stalled.add_shared(1);
        }
    }

    /// The older behaviours that the switches bring back. Call it after the fence of `tell`.
    #[cold]
    #[inline(never)]
    fn tell_by_rules(&self, behind: bool, rules: PostRules) {
        let kick = if rules.kick_passes() {
            Kick::Pass
        } else {
            Kick::Take
        };
        let look = self.shared.bell.look();
        if look == Look::Spinning {
            if rules.kick_passes() {
                self.notify(kick, behind);
            }
            if rules.ring_spinning() && !behind {
                self.ring_awake();
            }
        } else if rules.ring_every_post() && self.state() != WorkerState::Spinning {
            // Every post makes the wake syscall, also if another poster rang already. A worker that
            // spins is never rung here, told or not, like a polling CPU in the baseline of the kernel patch.
            // A caller that only asks for a pass relies on this one's ring, unless this one says that it is below.
            match self.shared.bell.notify(kick, self.standing()) {
                notified @ (Notified::MustRing | Notified::MustHelp) => self.ring_if_due(notified),
                Notified::Running | Notified::Spinning | Notified::Already => self.ring_awake(),
            }
        } else if look == Look::Parked {
            self.notify(kick, behind);
        } else if look == Look::NotifiedFromBelow {
            self.help();
        }
    }

    fn ring(&self) {
        if let Some(core_use) = self.core_use() {
            core_use.begin(self.worker());
        }
        self.counts.rings.add_shared(1);
        if self.driver.keeper() == Some(self.worker) {
            self.driver.ring();
        } else {
            self.shared.bell.ring(&self.parker);
        }
        if self.shared.bell.is_quiescent()
            && let Some(core_use) = self.core_use()
        {
            // The ring came after its park was over: the worker sleeps on in the next one, with nothing to do.
            core_use.end(self.worker());
        }
    }

    fn ring_awake(&self) {
        self.counts.rings_awake.add_shared(1);
        self.ring();
    }

    /// Asks the worker for a pass, whatever its state.
    pub fn request_pass(&self) {
        let notified = self.shared.bell.notify(Kick::Pass, self.standing());
        self.ring_if_due(notified);
    }
}

#[cfg(test)]
impl<M: Machine> Remote<M> {
    /// The first half of a post, as by a poster that is stalled before it tells the worker.
    ///
    /// # Safety
    /// As for [`Mailbox::push`].
    pub(crate) unsafe fn push_only(&self, node: NonNull<Node<M>>) -> Pushed {
        // SAFETY: passed on from the caller.
        unsafe { self.shared.mailbox.push(node) }
    }
}
