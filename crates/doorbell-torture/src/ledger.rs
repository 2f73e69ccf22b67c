//! The ledger: each requested closure, and what became of it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use doorbell::{CoreId, Handle};

use super::cores::Since;

/// How many failures of a round are kept. One is enough to end it.
const FAILURES_MAX: usize = 8;

/// What all parts of a round write into.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Entries that have not been dropped yet.
    live: AtomicI64,
    failed: AtomicBool,
    failures: Mutex<Vec<String>>,
}

/// How often a closure must run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Exactly once.
    Once,
    /// Once, or not at all if it was withdrawn in time.
    AtMostOnce,
}

/// A closure's entry. The closure carries it and calls [`Entry::run`] when it runs.
#[derive(Debug)]
pub(super) struct Entry {
    ledger: Arc<Ledger>,
    slot: Arc<Slot>,
    home: Handle,
    core: usize,
    what: &'static str,
}

/// What a closure's entry and its requester share.
#[derive(Debug, Default)]
struct Slot {
    runs: AtomicU64,
    written: AtomicU64,
    refused: AtomicBool,
}

/// Marks a closure as refused after it was dropped.
#[derive(Debug)]
pub(super) struct Refusal(Arc<Slot>);

/// What the requester keeps of a closure.
#[derive(Debug)]
pub(super) struct Receipt {
    slot: Arc<Slot>,
    due: Due,
    /// The core at the time of the request.
    since: Since,
    what: &'static str,
}

/// The value that a closure writes for its waiter.
const WRITTEN: u64 = 0x646f_6f72;

impl Ledger {
    pub(super) fn new() -> Arc<Ledger> {
        Arc::new(Ledger {
            live: AtomicI64::new(0),
            failed: AtomicBool::new(false),
            failures: Mutex::new(Vec::new()),
        })
    }

    /// A closure that is to run on `home`. `what` names the operation.
    pub(super) fn entry(
        self: &Arc<Self>,
        home: &Handle,
        since: Since,
        due: Due,
        what: &'static str,
    ) -> (Entry, Receipt) {
        // ORDER: Relaxed; a count, whose reader has waited for what it counts.
        self.live.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Slot::default());
        let receipt = Receipt {
            slot: Arc::clone(&slot),
            due,
            since,
            what,
        };
        let entry = Entry {
            ledger: Arc::clone(self),
            slot,
            home: home.clone(),
            core: since.core(),
            what,
        };
        (entry, receipt)
    }

    /// Records a failure.
    pub(super) fn fail(&self, what: String) {
        let mut failures = self.lock();
        if failures.len() < FAILURES_MAX {
            failures.push(what);
        }
        // ORDER: Relaxed; readers of the failures take the lock.
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Records a failure unless `holds`.
    pub(super) fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(what());
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        // ORDER: see `fail`.
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn failures(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// Entries that have not been dropped yet.
    pub(super) fn live(&self) -> i64 {
        // ORDER: Acquire pairs with the Release of a drop: a thread that sees 0 sees what ran before.
        self.live.load(Ordering::Acquire)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        // A panic elsewhere cannot leave the list half written.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Called when the closure runs: checks that it is on the right core and runs for the first time.
    pub(super) fn run(&self) {
        let (ledger, what, core) = (&self.ledger, self.what, self.core);
        let here = doorbell::current_core().map(CoreId::index);
        ledger.check(here == Some(core), || {
            format!("{what}: a closure for core {core} ran on {here:?}")
        });
        let at_home = Handle::try_current().is_ok_and(|current| current.is(&self.home));
        ledger.check(at_home, || format!("{what}: ran in another runtime"));
        // ORDER: Relaxed; only the runtime's own guarantees may make it visible to a waiter.
        self.slot.written.store(WRITTEN, Ordering::Relaxed);
        // ORDER: as above.
        let before = self.slot.runs.fetch_add(1, Ordering::Relaxed);
        ledger.check(before == 0, || {
            format!("{what}: a closure ran {} times", before + 1)
        });
    }

    /// The closure starts and ends in one step.
    pub(super) fn end(self) {
        self.run();
    }

    /// For the case that its core is off.
    pub(super) fn refusal(&self) -> Refusal {
        Refusal(Arc::clone(&self.slot))
    }
}

impl Refusal {
    /// Records that the runtime refused the closure: it must not run.
    pub(super) fn refuse(&self) {
        // ORDER: Relaxed; it is read repeatedly until everything left over is gone.
        self.0.refused.store(true, Ordering::Relaxed);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // ORDER: Release pairs with the Acquire of `live`.
        self.ledger.live.fetch_sub(1, Ordering::Release);
    }
}

impl Receipt {
    /// Checks, after its closure has ended, that the waiter sees that it ran, once, and what it wrote.
    pub(super) fn expect_done(&self, ledger: &Ledger) {
        let what = self.what;
        let runs = self.runs();
        ledger.check(runs == 1, || {
            format!("{what}: awaited, but its waiter saw {runs} runs")
        });
        // ORDER: Relaxed, see `Entry::run`.
        let written = self.slot.written.load(Ordering::Relaxed);
        ledger.check(written == WRITTEN, || {
            format!("{what}: its waiter saw {written:#x} where it had written")
        });
    }

    /// Its core at the time of the request.
    pub(super) fn since(&self) -> Since {
        self.since
    }

    /// Records that the runtime refused it.
    pub(super) fn refuse(&self) {
        Refusal(Arc::clone(&self.slot)).refuse();
    }

    /// Whether the runtime refused it.
    pub(super) fn is_refused(&self) -> bool {
        // ORDER: see `Refusal::refuse`.
        self.slot.refused.load(Ordering::Relaxed)
    }

    /// Records that the runtime may have refused it without a report.
    pub(super) fn spare(&mut self) {
        self.due = Due::AtMostOnce;
    }

    /// Whether it may still have to run.
    pub(super) fn is_open(&self) -> bool {
        self.due == Due::Once && self.runs() == 0 && !self.is_refused()
    }

    /// Whether it ran.
    pub(super) fn has_run(&self) -> bool {
        self.runs() > 0
    }

    /// Checks it at the end of the round.
    pub(super) fn settle(&self, ledger: &Ledger) {
        let runs = self.runs();
        let (what, due, refused) = (self.what, self.due, self.is_refused());
        let right = match due {
            _ if refused => runs == 0,
            Due::Once => runs == 1,
            Due::AtMostOnce => runs <= 1,
        };
        ledger.check(right, || {
            let refused = if refused { ", refused" } else { "" };
            format!("{what}: due {due:?}{refused}, but it ran {runs} times")
        });
    }

    fn runs(&self) -> u64 {
        // ORDER: Relaxed, see `Entry::run`.
        self.slot.runs.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Due, Ledger};
    use crate::cores::Turns;

    #[test]
    fn what_is_wrong_is_found() {
        let runtime = doorbell::Builder::new().cores(2).build().expect("it runs");
        let run = |due, refused: bool, on, times: u32| {
            let ledger = Ledger::new();
            let since = Turns::default().since(0);
            let (entry, receipt) = ledger.entry(runtime.handle(), since, due, "an operation");
            if refused {
                entry.refusal().refuse();
            }
            let body = || (0..times).for_each(|_| entry.run());
            runtime.call_blocking(on, body).expect("it runs");
            assert_eq!(ledger.live(), 1);
            drop(entry);
            assert_eq!(ledger.live(), 0);
            receipt.settle(&ledger);
            ledger.failures()
        };
        assert_eq!(run(Due::Once, false, 0, 1), [""; 0]);
        assert_eq!(run(Due::AtMostOnce, false, 0, 0), [""; 0]);
        assert_eq!(run(Due::Once, true, 0, 0), [""; 0]);
        assert!(run(Due::Once, false, 1, 1)[0].contains("for core 0 ran on Some(1)"));
        assert!(run(Due::Once, false, 0, 0)[0].contains("ran 0 times"));
        assert!(run(Due::AtMostOnce, false, 0, 2)[0].contains("ran 2 times"));
        assert!(run(Due::Once, true, 0, 1)[0].contains("refused, but it ran"));
    }
}
