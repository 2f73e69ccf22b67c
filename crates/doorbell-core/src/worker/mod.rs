//! The loop of a worker: take, run, pass, spin, park. See README.md in this folder.

mod below;
mod budget;
mod counts;
mod descriptors;
mod governor;
mod hooks;
mod local;
#[cfg(test)]
mod loom;
mod pace;
mod park;
mod pull;
pub mod remote;
mod search;
mod spin;
mod station;
mod tasks;
#[cfg(test)]
mod tests;
mod timers;
mod turns;
mod unbegun;
mod watch;

pub use budget::RunBudget;
pub use counts::{WorkerCounts, WorkerTally};
pub use governor::IdlePolicy;
pub use local::{Lifted, Local, PollBudget, timer};
pub use remote::{Remote, RemoteCounts, Served};
pub use tasks::{TaskSeen, launch, launch_described};

use crate::bell::WorkerState;
use crate::scheduler::RemoteRef;
use crate::scheduler::idle::Seen;
use crate::scheduler::push::{OwnRank, Push};
use crate::switches::SwitchWord;
use crate::wheel::Clock;
use budget::{BudgetLimit, Throttle};
use descriptors::Looks;
use doorbell_machine::{Bug, Counter, Line, Machine, Ordering, Word};
use governor::Governor;
use local::Ran;
use pull::Pull;
use search::Looking;
use spin::Spinning;
use std::sync::Arc;
use timers::Timers;
use watch::Watch;

/// Settings of a worker, fixed when it is made.
#[derive(Clone, Copy, Debug)]
pub struct WorkerConfig {
    /// How it waits while it is idle.
    pub idle: IdlePolicy,
}

/// The part of a worker that other threads reach: posters use the remote half, observers the counts.
pub struct WorkerShared<M: Machine> {
    remote: RemoteRef<M>,
    tally: M::Line<WorkerTally<M::Counter>>,
    closing: M::U32,
    taken: M::U32,
    config: WorkerConfig,
    clock: Arc<Clock<M>>,
    throttle: Throttle<M>,
}

impl<M: Machine> std::fmt::Debug for WorkerShared<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerShared")
            .field("remote", &self.remote)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> WorkerShared<M> {
    /// A worker alone in its scheduler. No thread runs it yet; posts wait in its mailbox.
    pub fn new(config: WorkerConfig, switches: &Arc<SwitchWord<M::Counter>>) -> Self {
        Self::with(
            config,
            RemoteRef::alone(switches),
            Arc::new(Clock::default()),
        )
    }

    /// The worker with this remote half, whose timers use this clock.
    pub fn with(config: WorkerConfig, remote: RemoteRef<M>, clock: Arc<Clock<M>>) -> Self {
        WorkerShared {
            clock,
            remote,
            tally: M::Line::new(WorkerTally::default),
            closing: M::U32::new(0),
            taken: M::U32::new(0),
            config,
            throttle: Throttle::default(),
        }
    }

    /// Where to post.
    #[inline]
    pub fn remote(&self) -> &RemoteRef<M> {
        &self.remote
    }

    /// Whether the worker runs, spins or is parked.
    pub fn state(&self) -> WorkerState {
        self.remote.state()
    }

    /// All counts of this worker, including those that its posters keep.
    pub fn counts(&self) -> WorkerCounts {
        WorkerCounts::of(&self.tally, self.remote.counts())
    }

    /// Asks the worker to end. It ends after the current poll.
    pub fn close(&self) {
        // ORDER: Release, and the read-modify-write of the bell after it: a worker that sees
        // the request for a pass sees this.
        self.closing.store(1, Ordering::Release);
        self.remote.request_pass();
        self.rouse();
    }

    /// If the worker is throttled, has it look at what was posted to it.
    pub fn rouse(&self) {
        self.throttle.rouse();
    }

    /// Whether the worker was asked to end.
    pub fn is_closing(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `close`.
        self.closing.load(Ordering::Acquire) != 0
    }
}

/// Evidence that a pass found nothing to run. A worker needs it to idle.
#[derive(Debug)]
struct NothingRunnable(());

enum Pass {
    Work,
    Nothing(NothingRunnable),
    Closing,
}

/// A worker on its own thread.
#[derive(Debug)]
pub struct Worker<M: Machine> {
    shared: Arc<WorkerShared<M>>,
    local: Local<M>,
    spinning: Spinning,
    looking: Looking,
    watch: Watch,
    timers: Timers,
    pull: Pull,
    looks: Looks,
    /// For how long it runs of each period, if that is limited.
    limit: Option<BudgetLimit>,
    /// The rank that it has published, if it is not alone and runs by rank.
    own_rank: Option<OwnRank>,
}

impl<M: Machine> Worker<M> {
    /// The worker of `shared`. The thread that makes it runs it.
    ///
    /// # Panics
    /// If `shared` has a worker already: a mailbox has one taker.
    pub fn new(shared: Arc<WorkerShared<M>>) -> Self {
        Self::limited(shared, None)
    }

    /// As [`Worker::new`], for a worker that is throttled when its budget is used up.
    ///
    /// # Panics
    /// As for [`Worker::new`].
    pub fn limited(shared: Arc<WorkerShared<M>>, budget: Option<RunBudget>) -> Self {
        // ORDER: Relaxed; a read-modify-write, so of two callers one is refused.
        let taken = shared.taken.swap(1, Ordering::Relaxed);
        assert!(taken == 0, "a worker was made twice");
        let local = Local::with_clock(shared.remote().clone(), Arc::clone(&shared.clock));
        let scheduler = shared.remote().scheduler();
        let (workers, seen) = (scheduler.remotes().len(), Seen::new(scheduler.work()));
        let own = |push: &Push<M>| push.map.own(shared.remote().worker());
        let own_rank = scheduler.push().map(own);
        Worker {
            spinning: Spinning::new(Governor::new(shared.config.idle)),
            shared,
            local,
            looking: Looking::new(seen),
            watch: Watch::new(workers),
            timers: Timers::new(),
            pull: Pull::new(),
            looks: Looks::new(),
            limit: budget.map(BudgetLimit::new),
            own_rank,
        }
    }

    /// Runs until it is asked to close; then ends every remaining task.
    pub fn run(self) {
        self.local.enter_gated(|| {
            let remote = self.shared.remote();
            remote.note_thread();
            remote.scheduler().idle().start(remote.worker());
            self.begin_to_run();
            self.has_started();
            self.cycle();
            self.leave_tree();
            remote.driver().end_worker();
            self.close();
            self.has_stopped();
            // The stop hook may have woken tasks.
            self.local.end_queued();
            remote.driver().close_poller();
        });
    }

    fn cycle(&self) {
        loop {
            self.throttle_if_spent();
            match self.pass() {
                Pass::Work => {
                    self.looking.note_look();
                    self.end_watchdog();
                    self.end_search();
                    self.offer_surplus();
                    self.note_pass();
                    self.run_ready();
                }
                Pass::Nothing(evidence) => {
                    if self.search_if_claimed() {
                        self.end_watchdog();
                        self.run_ready();
                    } else {
                        self.idle(evidence);
                        self.watch.note_idle();
                        self.local.note_idle();
                        self.local.set_unlisted(true);
                        self.timers.note_idle(self.shared.tally.polls.get());
                    }
                }
                Pass::Closing => {
                    self.end_watchdog();
                    return self.end_search();
                }
            }
        }
    }

    /// Something was posted, so more may come: spinning pays again.
    #[inline]
    fn note_posts(&self) {
        self.spinning.set_after_deadline(false);
        self.looks.set_after_ready(false);
    }

    /// Takes the mailbox. Calls run at once; tasks join the ready queue.
    #[inline]
    fn take(&self) -> Served {
        let (signals, batch) = self.shared.remote().take_mail();
        if batch.is_empty() {
            return Served {
                signals,
                delivered: 0,
            };
        }
        self.leave_behind_calls();
        if self.shared.is_closing() {
            self.local.deliver_left();
        }
        // SAFETY: this is the worker's own thread.
        let delivered = unsafe { batch.deliver(&self.local) };
        self.shared.tally.takes.add_owned(1);
        self.shared.tally.delivered.add_owned(delivered);
        self.note_posts();
        Served { signals, delivered }
    }

    /// Takes the inject queue: its tasks join the run queue.
    #[inline]
    fn gather(&self) {
        let gathered = self.local.gather();
        if gathered > 0 {
            self.shared.tally.takes.add_owned(1);
            self.shared.tally.delivered.add_owned(gathered);
            self.note_posts();
            self.offer_new_surplus();
        }
    }

    /// Takes what was posted for any worker of the scheduler, and delivers it here.
    #[inline]
    fn take_common(&self) {
        let taken = self.local.take_common();
        if taken > 0 {
            self.shared.tally.takes.add_owned(1);
            self.shared.tally.delivered.add_owned(taken);
            self.note_posts();
        }
    }

    /// Runs tasks until none is left, or until it is time for a pass. Between two polls it takes what was posted.
    fn run_ready(&self) {
        let pace = self.local.pace();
        if self.local.is_unlisted() && !self.local.is_empty() {
            self.list_for_sleepers();
        }
        loop {
            self.before_poll();
            match self.local.run_next() {
                Ran::One => {}
                Ran::Nothing => return,
                Ran::PassFirst => return pace.ask(),
            }
            self.shared.tally.polls.add_owned(1);
            if self.shared.remote().pending() {
                let served = self.take();
                self.gather();
                if served.delivered > 0 {
                    self.offer_surplus();
                    // Calls take time too.
                    pace.hasten();
                }
                if served.signals.pass {
                    return;
                }
            }
            if self.is_spent() {
                return;
            }
            if self.is_time_to_read() && self.keep_time() {
                return;
            }
        }
    }

    /// Reads the clock between two polls, and fires the timers that are due. Returns whether it is time for a pass.
    fn keep_time(&self) -> bool {
        let now_ns = M::now_ns_unordered();
        self.local.note_time(now_ns);
        self.balance_groups();
        if self.expire() {
            self.offer_surplus();
        }
        if M::breaks(Bug::BusyLooksByCount) {
            return self.shared.tally.polls.get().is_multiple_of(64);
        }
        self.local.pace().is_due(now_ns)
    }

    /// Looks at mailbox, inject queue, closing flag, timers, descriptors and queues.
    fn pass(&self) -> Pass {
        self.shared.tally.passes.add_owned(1);
        let early = M::breaks(Bug::BellClearAfterTake);
        let early = early.then(|| self.shared.is_closing());
        // This clears the signals, so what they announce is looked at below. What comes later sets a signal
        // again, and then the bell does not let the worker idle.
        let served = self.take();
        self.gather();
        let now_ns = M::now_ns();
        if early.unwrap_or_else(|| self.shared.is_closing()) {
            return Pass::Closing;
        }
        self.take_common();
        let _ = self.expire();
        if self.local.pace().begin_pass(now_ns) {
            let _ = self.look_at_descriptors();
        }
        self.free_descriptors();
        // The calls that were taken have run, so the worker may spin for the next ones. With the switch
        // `idle_notify=off`, a pass that took something is followed by another.
        let call_costs_pass = served.delivered > 0 && self.shared.remote().kick_passes();
        if self.local.is_empty() && !call_costs_pass {
            Pass::Nothing(NothingRunnable(()))
        } else {
            Pass::Work
        }
    }
}
