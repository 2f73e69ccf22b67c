//! The loop of a worker: take, run, pass, spin, park. See README.md in this folder.

mod budget;
mod counts;
mod current_poll;
mod descriptors;
mod flood;
mod governor;
mod groups;
mod histogram;
mod hooks;
mod long_polls;
#[cfg(test)]
mod loom;
mod park;
mod pulse;
mod remote;
mod remote_counts;
pub mod rescue;
mod search;
mod spin;
mod stalls;
mod station;
mod stuck;
mod telemetry;
mod tell;
#[cfg(test)]
mod tests;
mod timed_check;

pub use budget::RunBudget;
pub use counts::{WorkerCounts, WorkerTally};
pub use governor::IdlePolicy;
pub use histogram::{Histogram, Times};
pub use hooks::{Hooks, TaskEvent, TaskHook, WorkerHook};
pub use long_polls::LongPoll;
pub(crate) use remote::Origin;
pub use remote::{Remote, Served};
pub use remote_counts::RemoteCounts;
pub use stalls::{STALLS_PER_SECOND, StallEvent, StallHook, StallPlan, StallReporter};
pub use telemetry::{Telemetry, TelemetryPlan, WorkerTimes};

pub(crate) use current_poll::Polled;

use crate::bell::{Announced, WorkerState};
use crate::scheduler::idle::{Searchers, Seen};
use crate::scheduler::{RemoteRef, Turns};
use crate::switches::SwitchWord;
use crate::task::Local;
use crate::wheel::Clock;
use budget::BudgetLimit;
use descriptors::Looks;
use doorbell_machine::{Bug, Counter, Line, Machine, Ordering, Word};
use flood::Flood;
use governor::Governor;
use spin::SpinEnd;
use std::cell::Cell;
use std::sync::Arc;
use stuck::CheckPace;

/// How many tasks run at most between two passes.
const POLLS_PER_PASS: usize = 64;

/// How many tasks run at most between two looks at the clock, if there are timers.
const POLLS_PER_CLOCK: usize = 8;

/// The same where tasks have ranks: what a timer wakes may be more urgent than what runs next.
const POLLS_PER_CLOCK_BY_RANK: usize = 1;

/// The same where tasks of groups run: a group may lack tasks here.
const POLLS_PER_CLOCK_BY_SHARE: usize = 1;

/// How long a spinning worker looks at its own line only, before it looks for work at the others:
/// what is over in less time disturbs nobody.
const SPIN_ALONE_NS: u64 = 1_000;

/// How often it looks for work there after that.
const LOOK_AROUND_NS: u64 = 10_000;

/// A watchdog's first look at workers that may be stuck comes after this time, the later ones after
/// ever more, up to the longest.
const WATCHDOG_MIN_NS: u64 = 250_000;
const WATCHDOG_MAX_NS: u64 = 500_000;

/// A watchdog stays one for so long after it was last of use, and is not woken anew meanwhile.
const WATCHDOG_STAYS_NS: u64 = 10_000_000;

/// What is fixed when a worker is made.
#[derive(Clone, Copy, Debug)]
pub struct WorkerConfig {
    /// How it waits while it is idle.
    pub idle: IdlePolicy,
}

/// The part of a worker that others reach: posters by the remote half, people by the counts.
pub struct WorkerShared<M: Machine> {
    remote: RemoteRef<M>,
    tally: M::Line<WorkerTally<M::Counter>>,
    closing: M::U32,
    taken: M::U32,
    config: WorkerConfig,
    clock: Arc<Clock<M>>,
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
    /// A worker without a scheduler, that no thread runs yet; posts wait in its mailbox.
    pub fn new(config: WorkerConfig, switches: &Arc<SwitchWord<M::Counter>>) -> Self {
        Self::with(
            config,
            RemoteRef::alone(switches),
            Arc::new(Clock::default()),
        )
    }

    /// The worker with that remote half, whose timers go by that clock.
    pub fn with(config: WorkerConfig, remote: RemoteRef<M>, clock: Arc<Clock<M>>) -> Self {
        WorkerShared {
            clock,
            remote,
            tally: M::Line::new(WorkerTally::default),
            closing: M::U32::new(0),
            taken: M::U32::new(0),
            config,
        }
    }

    /// Where to post.
    #[inline]
    pub fn remote(&self) -> &RemoteRef<M> {
        &self.remote
    }

    /// What the worker does now.
    pub fn state(&self) -> WorkerState {
        self.remote.state()
    }

    /// All counts of this worker, also those that its posters keep.
    pub fn counts(&self) -> WorkerCounts {
        WorkerCounts::of(&self.tally, self.remote.counts())
    }

    /// Asks the worker to end. It does after the current poll.
    pub fn close(&self) {
        // ORDER: Release, and the read-modify-write of the bell behind it: a worker that sees
        // the request for a pass sees this.
        self.closing.store(1, Ordering::Release);
        self.remote.request_pass();
    }

    fn is_closing(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `close`.
        self.closing.load(Ordering::Acquire) != 0
    }
}

/// Evidence that a pass found nothing to run: only with it a worker may idle.
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
    governor: Governor,
    /// A timer ended the last park, and nothing was posted since: spinning would burn CPU for
    /// posts that do not come.
    after_deadline: Cell<bool>,
    /// It is in the idle set, or was until a waker claimed it.
    in_idle_set: Cell<bool>,
    /// Since when posts and requests have kept it from a look at the others; 0 if they have not.
    unlooked_ns: Cell<u64>,
    /// It is counted as searching.
    searching: Cell<bool>,
    /// It was claimed, and its search is over or has lapsed: it may have been claimed to be a watchdog.
    settled: Cell<bool>,
    /// It sleeps until a timed check at others' timers, or has until now.
    relies: Cell<bool>,
    /// As a watchdog it looks next after so long.
    watchdog_ns: Cell<u64>,
    watchdog_end_ns: Cell<u64>,
    /// The pulses of the others at the last look around.
    pulses: Box<[Cell<u64>]>,
    /// Which workers may have had work at the last look.
    seen: Seen,
    /// Which workers were counted as searching at its last look as a watchdog, and when that was.
    searchers: Searchers,
    searchers_ns: Cell<u64>,
    checks: CheckPace,
    looks: Looks,
    flood: Flood,
    /// For how long it runs of each period, if that is limited.
    limit: Option<BudgetLimit<M>>,
}

impl<M: Machine> Worker<M> {
    /// The worker behind `shared`, to be run by the thread that makes it.
    ///
    /// # Panics
    /// If there is one already: a mailbox has one taker.
    pub fn new(shared: Arc<WorkerShared<M>>) -> Self {
        Self::limited(shared, None)
    }

    /// As [`Worker::new`], a worker that is throttled when its budget is used up.
    ///
    /// # Panics
    /// As for [`Worker::new`].
    pub fn limited(shared: Arc<WorkerShared<M>>, budget: Option<RunBudget>) -> Self {
        // ORDER: Relaxed; a read-modify-write, so of two that ask one is refused.
        let taken = shared.taken.swap(1, Ordering::Relaxed);
        assert!(taken == 0, "a worker was made twice");
        let local = Local::with_clock(shared.remote().clone(), Arc::clone(&shared.clock));
        let workers = shared.remote().scheduler().remotes().len();
        Worker {
            governor: Governor::new(shared.config.idle),
            shared,
            local,
            after_deadline: Cell::new(false),
            in_idle_set: Cell::new(false),
            unlooked_ns: Cell::new(0),
            searching: Cell::new(false),
            settled: Cell::new(false),
            relies: Cell::new(false),
            watchdog_ns: Cell::new(WATCHDOG_MIN_NS),
            watchdog_end_ns: Cell::new(0),
            pulses: (0..workers).map(|_| Cell::new(0)).collect(),
            seen: Seen::new(workers),
            searchers: Searchers::new(workers),
            searchers_ns: Cell::new(0),
            checks: CheckPace::new(),
            looks: Looks::new(),
            flood: Flood::new(),
            limit: budget.map(BudgetLimit::new),
        }
    }

    /// Runs until asked to close; then ends every task that is left.
    pub fn run(self) {
        self.local.enter_gated(|| {
            self.shared.remote().note_thread();
            self.begin_to_run();
            self.has_started();
            self.cycle();
            self.shut_descriptors();
            self.local.close();
            self.has_stopped();
            // What the hook has woken.
            self.local.end_queued();
            self.close_poller();
        });
    }

    fn cycle(&self) {
        loop {
            self.throttle_if_spent();
            match self.pass() {
                Pass::Work => {
                    self.unlooked_ns.set(0);
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
                        self.checks.note_idle();
                        self.local.set_unattended(true);
                    }
                }
                Pass::Closing => {
                    self.end_watchdog();
                    return self.end_search();
                }
            }
        }
    }

    /// Something was posted: more may be.
    #[inline]
    fn note_posts(&self) {
        self.after_deadline.set(false);
        self.looks.set_after_ready(false);
    }

    /// Takes the mailbox: calls run at once, tasks join the ready queue.
    #[inline]
    fn take(&self) -> Served {
        // SAFETY: this is the worker's own thread and ready queue.
        let served = unsafe { self.shared.remote().serve(self.local.ready()) };
        if served.delivered > 0 {
            self.shared.tally.takes.add_owned(1);
            self.shared.tally.delivered.add_owned(served.delivered);
            self.note_posts();
        }
        served
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

    /// Arms timers of threads that are no workers.
    #[inline]
    fn take_timers(&self) {
        let taken = self.local.take_timers();
        if taken > 0 {
            self.shared.tally.takes.add_owned(1);
            self.shared.tally.delivered.add_owned(taken);
            self.note_posts();
        }
    }

    /// Runs ready tasks, at most so many that a pass is due; what is posted meanwhile is taken
    /// between two polls.
    fn run_ready(&self) {
        let polls_per_clock = match self.local.turns() {
            Turns::ByArrival if self.local.times_polls() => POLLS_PER_CLOCK_BY_SHARE,
            Turns::ByArrival => POLLS_PER_CLOCK,
            Turns::ByRank => POLLS_PER_CLOCK_BY_RANK,
        };
        for poll in 1..=POLLS_PER_PASS {
            if self.local.is_unattended() && !self.local.is_empty() {
                self.ask_for_watchdog();
            }
            if !self.local.run_one() {
                return;
            }
            if poll % polls_per_clock == 0 {
                self.local.look_at_groups();
                self.balance_groups();
                self.expire();
            }
            self.shared.tally.polls.add_owned(1);
            if self.shared.remote().pending() {
                self.leave_behind_calls();
                let served = self.take();
                self.gather();
                if served.delivered > 0 {
                    self.offer_surplus();
                }
                if served.signals.pass {
                    return;
                }
            }
            if self.is_spent() {
                return;
            }
            if self.checks.is_due() {
                self.check_stuck(M::now_ns());
            }
        }
    }

    /// Fires the timers that are due.
    #[inline]
    fn expire(&self) {
        let fired = self.local.expire();
        if fired > 0 {
            self.shared.tally.timers_fired.add_owned(fired);
        }
    }

    /// Looks at everything there is to look at.
    fn pass(&self) -> Pass {
        self.shared.tally.passes.add_owned(1);
        let early = M::breaks(Bug::BellClearAfterTake);
        let early = early.then(|| self.shared.is_closing());
        self.leave_behind_calls();
        // This clears the signals, so all that they announce is looked at after it: what comes
        // later finds them clear, and the bell will not let the worker idle.
        let served = self.take();
        self.gather();
        if early.unwrap_or_else(|| self.shared.is_closing()) {
            return Pass::Closing;
        }
        self.take_timers();
        self.expire();
        self.tend_descriptors();
        // Calls that were taken have run: the worker may spin for the next ones. With the switch
        // that makes every call cost a pass, one that came just now is followed by another.
        let call_costs_pass = served.delivered > 0 && self.shared.remote().kick_passes();
        if self.local.is_empty() && !call_costs_pass {
            Pass::Nothing(NothingRunnable(()))
        } else {
            Pass::Work
        }
    }

    /// Spins, then parks, until there is something to do.
    fn idle(&self, _evidence: NothingRunnable) {
        let remote = self.shared.remote();
        self.local.ready().returns().flush();
        match remote.bell().announce_spin() {
            // The loop takes the mailbox and clears the signal.
            Announced::Signalled => return,
            Announced::Yes => {}
        }
        // A post that saw the worker running relies on the spin's first look, or on the park's
        // last one; a call that came just now is served here, without another pass.
        if self.spin() == SpinEnd::Quiet {
            self.park_with_hooks();
        }
        self.leave_idle_set();
        let _ = remote.bell().end_idle();
    }
}
