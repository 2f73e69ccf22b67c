//! When a parked worker looks at the others again: as a watchdog, soon and repeatedly, or by a timed check, once.
//!
//! The timed check is for timers of others that are due later than a watchdog's next look. The worker sleeps until they
//! are 100 us late, and looks then. It need not be a watchdog for that. While the scheduler is watchful, a worker that
//! arms a timer more than 500 us before the first check wakes another one before its next poll: as a watchdog if the
//! timer is due within 500 us, else for a timed check. What a look finds and does: `search.rs`, `stuck.rs`. See
//! README.md in this folder.

use super::Worker;
use crate::bell::Look;
use crate::scheduler::idle::{Declined, LOOKS_EVERY_NS, OVERDUE_NS, STUCK_NS, Searching, Watchdog};
use doorbell_machine::{Bug, Counter, Machine, Mark};

/// The shortest interval of a watchdog's looks, and the interval while a task waits behind a poll. After a look that
/// finds no reason the interval doubles, up to [`LOOKS_EVERY_NS`].
pub(super) const WATCHDOG_MIN_NS: u64 = 250_000;

/// A watchdog stays one for this long after it last had a reason to look, so that it need not be woken again.
pub(super) const WATCHDOG_STAYS_NS: u64 = 10_000_000;

/// When a worker that parks looks at the others again.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextCheck {
    /// At that time, if at all, and as no watchdog.
    At(Option<u64>),
    /// After that many nanoseconds, as a watchdog, unless there are enough watchdogs.
    Soon(u64),
}

impl<M: Machine> Worker<M> {
    /// When a worker that parks looks at the others again; `None` if it need not. It becomes a watchdog if another
    /// worker has a task waiting behind a poll that may turn out to be long, or, while the scheduler is watchful,
    /// descriptors or a timer that is due soon; or if a watchdog was asked for; and if too few workers are watchdogs.
    /// It stays one for [`WATCHDOG_STAYS_NS`]: meanwhile a worker that pushes a single task wakes no worker, and the
    /// watchdog finds the task if the poll takes long.
    pub(super) fn watchdog_until_ns(&self) -> Option<u64> {
        if !self.has_others() {
            // A worker that was taken off leaves this to another.
            self.end_watchdog();
            return None;
        }
        self.owes_look.set(false);
        let remote = self.shared.remote();
        let idle = remote.scheduler().idle();
        let now_ns = M::now_ns();
        self.end_past_check(now_ns);
        let mut wish_ns = self.wish_ns(now_ns);
        if idle.wants_watchdog() {
            wish_ns = Some(WATCHDOG_MIN_NS);
        }
        // A timer that is due later needs one timed check, not repeated looks.
        let far_ns = wish_ns.take_if(|wish_ns| *wish_ns > LOOKS_EVERY_NS);
        if wish_ns.is_some() {
            // In a model such a sleep ends at once; 20 more sleeps in which nothing comes would show nothing.
            let stays_ns = if M::MODEL { 1 } else { WATCHDOG_STAYS_NS };
            self.watchdog_end_ns.set(now_ns.saturating_add(stays_ns));
        }
        if now_ns >= self.watchdog_end_ns.get() {
            match self.plan_check(now_ns, far_ns) {
                NextCheck::At(looks_ns) => return looks_ns,
                NextCheck::Soon(after_ns) => wish_ns = Some(after_ns),
            }
        }
        if !remote.is_watchdog() {
            if idle.begin_watchdog() == Watchdog::Taken {
                return remote.scheduler().checks().planned_ns(remote.worker());
            }
            self.searchers.forget();
            remote.set_watchdog(true);
            self.shared.tally.watchdogs.add_owned(1);
        }
        let longer_ns = (2 * self.watchdog_ns.get()).min(LOOKS_EVERY_NS);
        let after_ns = wish_ns.unwrap_or(longer_ns);
        self.watchdog_ns.set(after_ns);
        Some(now_ns.saturating_add(after_ns))
    }

    /// After how long a watchdog should look again, because workers inside a poll have a task waiting, timers,
    /// or descriptors; `None` if there is no such worker.
    pub(super) fn wish_ns(&self, now_ns: u64) -> Option<u64> {
        self.look_at_list();
        let inside = self.listed().filter(|other| other.is_inside());
        let wish_ns = inside.filter_map(|other| {
            let waits = other.has_work().then_some(WATCHDOG_MIN_NS);
            let blind = || self.is_blind(other).then_some(STUCK_NS);
            let overdue_ns = || self.overdue_in_ns(other, now_ns);
            waits.or_else(|| [blind(), overdue_ns()].into_iter().flatten().min())
        });
        wish_ns.min()
    }

    /// Ends the search of each worker that has been counted as searching since this watchdog's last look, at least
    /// [`WATCHDOG_MIN_NS`] ago: that worker seems to get no CPU. If it was the last to search, wakers that relied on
    /// it woke no worker, so the watchdog scans the others after this. If it takes something, it stops being a
    /// watchdog, and wakes another worker for the rest.
    pub(super) fn end_lapsed_searches(&self) {
        let now_ns = M::now_ns();
        if now_ns.saturating_sub(self.searchers_ns.get()) < WATCHDOG_MIN_NS {
            return;
        }
        self.searchers_ns.set(now_ns);
        let remote = self.shared.remote();
        let idle = remote.scheduler().idle();
        if idle.lapse_since(&self.searchers, remote.worker()) == Searching::None {
            M::fence_announce();
        }
        self.wake_left_out();
    }

    /// Wakes each worker that sleeps, is not in the idle set and was not told, at this look and at the last one. Either
    /// the waker that took it lost its CPU before the post, or its claim lapsed. When it has woken, it can be claimed
    /// again.
    fn wake_left_out(&self) {
        let scheduler = self.shared.remote().scheduler();
        for other in scheduler.remotes() {
            let is_left_out = !scheduler.idle().holds(other.worker())
                && !scheduler.idle().is_searching(other.worker())
                && other.bell().look() == Look::Parked
                && !other.is_off();
            let sleep = is_left_out.then(|| other.sleeps());
            if self.searchers.note_left_out(other.worker(), sleep)
                && !M::breaks(Bug::IdleTakeNeverRevoked)
            {
                M::mark(Mark::IdleTakeRevoked);
                other.request_pass();
            }
        }
    }

    /// Nothing has to be looked after soon. Gives up being the watchdog, and plans a timed check for what is due after
    /// `far_ns` and for what it gave up before, unless another worker looks then.
    pub(super) fn plan_check(&self, now_ns: u64, far_ns: Option<u64>) -> NextCheck {
        let remote = self.shared.remote();
        let (worker, checks) = (remote.worker(), remote.scheduler().checks());
        // A worker that woke for another reason keeps its timed check: the worker with the timer may idle just now.
        let own_ns = checks.planned_ns(worker);
        let again_ns = self.given_up_ns.take().filter(|at_ns| *at_ns > now_ns);
        let far_ns = far_ns.map(|far_ns| now_ns.saturating_add(far_ns));
        let wanted_ns = [own_ns, again_ns, far_ns].into_iter().flatten().min();
        let looks_ns = wanted_ns.filter(|at_ns| own_ns.is_some() || self.is_left_out(*at_ns));
        let Some(looks_ns) = looks_ns else {
            self.end_watchdog();
            return NextCheck::At(None);
        };
        self.resign();
        checks.plan(worker, looks_ns);
        // Either this worker sees what was pushed, or the one that pushed it sees that a watchdog is missing.
        M::fence_announce();
        match self.wish_ns(now_ns) {
            Some(after_ns) if after_ns <= LOOKS_EVERY_NS => NextCheck::Soon(after_ns),
            // A worker that has armed an earlier timer since then finds this check too late, and asks.
            _ => NextCheck::At(Some(looks_ns)),
        }
    }

    /// The worker has something to run: it stops being a watchdog, gives up its timed check, declines what it was
    /// claimed for, and wakes another worker for what was left to it. (A watchdog that woke only to look stays one.)
    pub(super) fn end_watchdog(&self) {
        let owed = self.owes_look.replace(false);
        let remote = self.shared.remote();
        let has_check = self.gives_up_check();
        let has_declined = owed && remote.scheduler().idle().decline_watchdog() == Declined::Yes;
        if !has_check && !remote.is_watchdog() && !has_declined {
            return;
        }
        self.resign();
        M::fence_announce();
        self.wake_watchdog_if_wanted();
    }

    /// Whether no worker looks in time at what a timed check at this time is for.
    fn is_left_out(&self, at_ns: u64) -> bool {
        let checks = self.shared.remote().scheduler().checks();
        // The test that the worker with the timer makes.
        checks.is_unattended(at_ns.saturating_sub(OVERDUE_NS))
    }

    /// Gives up the worker's timed check. Returns whether it had one. A worker that was claimed may get one just now:
    /// either this sees it, or the thread that claimed the worker sees that it runs. If no other worker looks then,
    /// this one plans it again when it parks: the worker with the timer may have idled just now.
    fn gives_up_check(&self) -> bool {
        if M::breaks(Bug::IdleCheckForgotten) {
            return false;
        }
        let remote = self.shared.remote();
        let Some(at_ns) = remote.scheduler().checks().end(remote.worker()) else {
            return false;
        };
        let before_ns = self.given_up_ns.get().unwrap_or(u64::MAX);
        self.given_up_ns.set(Some(at_ns.min(before_ns)));
        true
    }

    /// A timed check whose time has come is over: the worker looks before each sleep.
    fn end_past_check(&self, now_ns: u64) {
        let remote = self.shared.remote();
        let planned_ns = remote.scheduler().checks().planned_ns(remote.worker());
        if planned_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            // Another worker may have asked for a later one meanwhile.
            let _ = self.gives_up_check();
        }
    }

    /// Wakes a watchdog, if there is a reason for one and no timed check comes early enough. Behind a fence.
    pub(super) fn wake_watchdog_if_wanted(&self) {
        let (remote, now_ns) = (self.shared.remote(), M::now_ns());
        let scheduler = remote.scheduler();
        match self.wish_ns(now_ns) {
            None => {}
            Some(after_ns) if after_ns <= LOOKS_EVERY_NS => scheduler.arm_watchdog(remote.worker()),
            Some(after_ns) => {
                let due_ns = now_ns.saturating_add(after_ns - OVERDUE_NS);
                scheduler.arm_watchdog_by(remote.worker(), due_ns);
            }
        }
    }

    /// Stops being a watchdog, if it is one.
    pub(super) fn resign(&self) {
        let remote = self.shared.remote();
        if remote.is_watchdog() {
            // Counted before another worker can be one in its place.
            self.shared.tally.watchdogs_ended.add_owned(1);
            remote.set_watchdog(false);
            remote.scheduler().idle().end_watchdog();
        }
    }
}
