//! The CPU budget of a worker, for workers that the OS runs before all other threads. Between its polls the worker
//! looks whether its time is used up; then it is throttled.

use super::Worker;
use doorbell_machine::{Counter, Machine, Ordering, Parker, Word};
use std::cell::RefCell;

/// How long a worker runs in each period.
///
/// Contract: *no poll and no call takes as long as `run_ns` ⇒ in `n` consecutive periods the worker runs at most
/// `n * run_ns`, one poll more, and one for each [rouse](super::WorkerShared::rouse); it is never throttled for longer than one period at a time, and runs between
/// two throttles.*
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunBudget {
    /// At least 1.
    pub run_ns: u64,
    /// At least `run_ns`.
    pub period_ns: u64,
}

/// Whether a worker may begin another poll.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Go,
    /// Not before that time.
    Spent {
        until_ns: u64,
    },
}

/// How much of a budget is used, by the times that its worker passes in.
#[derive(Clone, Copy, Debug)]
pub(super) struct BudgetAccount {
    budget: RunBudget,
    period_start_ns: u64,
    /// Time used in this period, plus what earlier periods ran over.
    used_ns: u64,
    /// Running time is in `used_ns` up to this moment; `None` while the worker does not run.
    since_ns: Option<u64>,
}

impl BudgetAccount {
    pub(super) fn new(budget: RunBudget) -> Self {
        let run_ns = budget.run_ns.max(1);
        BudgetAccount {
            budget: RunBudget {
                run_ns,
                period_ns: budget.period_ns.max(run_ns),
            },
            period_start_ns: 0,
            used_ns: 0,
            since_ns: None,
        }
    }

    /// The worker runs from now on.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.look(now_ns);
        if self.used_ns == 0 {
            // Periods start with the worker, so workers that began at different times are not throttled at once.
            self.period_start_ns = now_ns;
        }
        self.since_ns = Some(now_ns);
    }

    /// The worker does not run from now on.
    pub(super) fn end(&mut self, now_ns: u64) {
        self.look(now_ns);
        self.since_ns = None;
    }

    /// Brings the account up to date.
    fn look(&mut self, now_ns: u64) {
        if now_ns < self.period_start_ns {
            // The clock went back: what was used before says nothing now.
            self.period_start_ns = now_ns;
            self.used_ns = 0;
        }
        if let Some(since_ns) = self.since_ns.replace(now_ns) {
            let ran_ns = now_ns.saturating_sub(since_ns);
            self.used_ns = self.used_ns.saturating_add(ran_ns);
        } else {
            self.since_ns = None;
        }
        let RunBudget { run_ns, period_ns } = self.budget;
        let periods = (now_ns - self.period_start_ns) / period_ns;
        if periods > 0 {
            self.period_start_ns += periods * period_ns;
            let renewed_ns = run_ns.saturating_mul(periods);
            self.used_ns = self.used_ns.saturating_sub(renewed_ns);
        }
        // After one period the worker runs again, even after a poll of hours or a clock that leapt.
        self.used_ns = self.used_ns.min(run_ns.saturating_mul(2) - 1);
    }

    /// Whether the worker may begin another poll now.
    pub(super) fn verdict(&mut self, now_ns: u64) -> Verdict {
        self.look(now_ns);
        let RunBudget { run_ns, period_ns } = self.budget;
        // At the end of time there is no next period to wait for.
        match self.period_start_ns.checked_add(period_ns) {
            Some(until_ns) if self.used_ns >= run_ns && run_ns < period_ns => {
                Verdict::Spent { until_ns }
            }
            _ => Verdict::Go,
        }
    }
}

const AWAKE: u32 = 0;
const THROTTLED: u32 = 1;
const ROUSED: u32 = 2;
const _: () = assert!(AWAKE < THROTTLED && THROTTLED < ROUSED);

/// Where a worker's thread sleeps while it is throttled. Its bell says meanwhile that it runs: no poster rings it, and
/// others may take what it has.
///
/// | value | name | meaning |
/// |---|---|---|
/// | 0 | `AWAKE` | it is not throttled |
/// | 1 | `THROTTLED` | it sleeps, or is about to |
/// | 2 | `ROUSED` | it is to look at once, and if it is not throttled, to skip the next throttle |
pub(super) struct Throttle<M: Machine> {
    parker: M::Parker,
    word: M::U32,
}

impl<M: Machine> Default for Throttle<M> {
    fn default() -> Self {
        Throttle {
            parker: M::Parker::new(),
            word: M::U32::new(AWAKE),
        }
    }
}

impl<M: Machine> Throttle<M> {
    /// Ends the throttle under way, or else the next one.
    pub(super) fn rouse(&self) {
        // ORDER: Release pairs with the Acquire in `sleep`: the worker sees for what it was roused. Acquire pairs with
        // the Release there: the worker is about to park.
        if self.word.swap(ROUSED, Ordering::AcqRel) == THROTTLED {
            self.parker.ring(&self.word);
        }
    }

    /// Sleeps until that time, or until roused. Returns the time.
    fn sleep(&self, until_ns: u64) -> u64 {
        // ORDER: Release pairs with the Acquire in `rouse`. Relaxed on failure: it was roused, and is not to sleep.
        let _ = self
            .word
            .compare_exchange(AWAKE, THROTTLED, Ordering::Release, Ordering::Relaxed);
        loop {
            // ORDER: Relaxed; the exchange below acquires.
            let is_roused = self.word.load(Ordering::Relaxed) != THROTTLED;
            let now_ns = M::now_ns();
            if is_roused || now_ns >= until_ns {
                // ORDER: Acquire pairs with the Release in `rouse`.
                self.word.swap(AWAKE, Ordering::Acquire);
                return now_ns;
            }
            let _ = self.parker.park(&self.word, THROTTLED, Some(until_ns));
        }
    }
}

/// A worker's budget.
#[derive(Debug)]
pub(super) struct BudgetLimit(RefCell<BudgetAccount>);

impl BudgetLimit {
    pub(super) fn new(budget: RunBudget) -> Self {
        BudgetLimit(RefCell::new(BudgetAccount::new(budget)))
    }
}

impl<M: Machine> Worker<M> {
    /// The worker's thread runs from now on; counted only with a budget.
    pub(super) fn begin_to_run(&self) {
        if let Some(limit) = &self.limit {
            limit.0.borrow_mut().begin(M::now_ns());
        }
    }

    /// The worker's thread is about to sleep.
    pub(super) fn end_to_run(&self) {
        if let Some(limit) = &self.limit {
            limit.0.borrow_mut().end(M::now_ns());
        }
    }

    /// Whether the worker's budget is used up.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        match &self.limit {
            None => false,
            Some(limit) => limit.0.borrow_mut().verdict(M::now_ns()) != Verdict::Go,
        }
    }

    /// Sleeps to the end of the period, if the budget is used up and there is something to do.
    #[inline]
    pub(super) fn throttle_if_spent(&self) {
        if let Some(limit) = &self.limit {
            self.throttle_within(limit);
        }
    }

    fn throttle_within(&self, limit: &BudgetLimit) {
        let remote = self.shared.remote();
        let from_ns = M::now_ns();
        let verdict = limit.0.borrow_mut().verdict(from_ns);
        let Verdict::Spent { until_ns } = verdict else {
            return;
        };
        let has_more = !self.local.is_empty() || remote.pending();
        if !has_more || self.shared.is_closing() {
            return;
        }
        limit.0.borrow_mut().end(from_ns);
        // No poll is under way: others may expire whatever is due.
        remote.beat();
        self.end_watchdog();
        self.end_search();
        self.say_takes_nothing();
        self.leave_to_others();
        let now_ns = self.shared.throttle.sleep(until_ns);
        remote.set_expects_long(false);
        limit.0.borrow_mut().begin(now_ns);
        let throttled_ns = now_ns.saturating_sub(from_ns);
        self.shared.tally.throttles.add_owned(1);
        self.shared.tally.throttled_ns.add_owned(throttled_ns);
    }
}
