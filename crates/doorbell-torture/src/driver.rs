//! A driver: a thread or task that performs operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use doorbell::{CallError, CoreId, Handle, JoinHandle, SpawnError};

use super::cores::{Since, Turns};
use super::dice::Dice;
use super::ledger::{Due, Entry, Ledger, Receipt};
use super::op::Op;

/// The current operation of a driver, for the watching thread.
#[derive(Debug, Default)]
pub(super) struct Station {
    op: AtomicUsize,
    steps: AtomicU64,
}

impl Station {
    pub(super) fn begin(&self, op: Op) {
        // ORDER: Relaxed; only reported to people.
        self.op.store(op as usize, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        // ORDER: as above.
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// The current operation, and how many have ended.
    pub(super) fn look(&self) -> (Op, u64) {
        // ORDER: as above.
        let (op, steps) = (
            self.op.load(Ordering::Relaxed),
            self.steps.load(Ordering::Relaxed),
        );
        (Op::ALL[op], steps)
    }
}

/// Where a driver runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A thread that is no worker: it may block.
    Thread,
    /// A task: blocking calls are refused.
    Task,
}

/// What the drivers of a round share.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    pub(super) ledger: Arc<Ledger>,
    /// Which cores of the driver's runtime are off.
    pub(super) turns: Arc<Turns>,
    /// A foreign thread completes every channel sent here.
    pub(super) wake: crossbeam_channel::Sender<tokio::sync::oneshot::Sender<u64>>,
}

/// A thread or task that performs operations.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) handle: Handle,
    pub(super) dice: Dice,
    pub(super) place: Place,
    pub(super) tools: Tools,
    /// Whether the runtime stays until everything posted from inside it has run.
    pub(super) lasts: bool,
    station: Arc<Station>,
    /// Closures that are not settled yet.
    book: Vec<Receipt>,
    /// How often each operation was done.
    pub(super) done: [u64; Op::COUNT],
    /// Closures that were posted.
    pub(super) entries: u64,
}

impl Driver {
    pub(super) fn new(
        handle: Handle,
        dice: Dice,
        place: Place,
        tools: Tools,
        station: Arc<Station>,
    ) -> Self {
        Driver {
            handle,
            dice,
            place,
            tools,
            lasts: true,
            station,
            book: Vec::new(),
            done: [0; Op::COUNT],
            entries: 0,
        }
    }

    /// Performs this many operations.
    pub(super) async fn work(&mut self, steps: u32) {
        for _ in 0..steps {
            if self.tools.ledger.has_failed() {
                return;
            }
            let op = self.dice.choose(&Op::ALL);
            self.station.begin(op);
            op.perform(self).await;
            self.done[op as usize] += 1;
            self.station.end();
        }
    }

    /// A random core of the runtime.
    pub(super) fn any_core(&mut self) -> usize {
        let cores = self.handle.cores() as u64;
        self.dice.roll(cores) as usize
    }

    /// Some distinct cores in random order, at least one.
    pub(super) fn some_cores(&mut self) -> Vec<usize> {
        let mut cores: Vec<usize> = (0..self.handle.cores()).collect();
        for index in (1..cores.len()).rev() {
            let other = self.dice.roll(index as u64 + 1) as usize;
            cores.swap(index, other);
        }
        let count = 1 + self.dice.roll(cores.len() as u64) as usize;
        cores.truncate(count);
        cores
    }

    /// A closure for a core of the runtime.
    pub(super) fn entry(&mut self, core: usize, due: Due, op: Op) -> (Entry, Receipt) {
        self.entries += 1;
        let since = self.tools.turns.since(core);
        self.tools.ledger.entry(&self.handle, since, due, op.name())
    }

    /// Keeps a receipt until the end of the round.
    pub(super) fn keep(&mut self, receipt: Receipt) {
        self.book.push(receipt);
    }

    /// An entry that is not awaited; whether it ran is checked at the end.
    pub(super) fn entry_kept(&mut self, core: usize, due: Due, op: Op) -> Entry {
        let (entry, receipt) = self.entry(core, due, op);
        self.keep(receipt);
        entry
    }

    /// Records a failure unless `holds`.
    pub(super) fn check(&self, op: Op, holds: bool, what: impl FnOnce() -> String) {
        let ledger = &self.tools.ledger;
        ledger.check(holds, || format!("{}: {}", op.name(), what()));
    }

    /// The result; an error is recorded as a failure.
    pub(super) fn expect<T, E: std::fmt::Display>(
        &self,
        op: Op,
        result: Result<T, E>,
    ) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.check(op, false, || format!("it ended with: {error}"));
                None
            }
        }
    }

    /// Checks that a core that refused something was off.
    pub(super) fn check_off(&self, op: Op, since: Since, core: CoreId) {
        let right = core.index() == since.core() && self.tools.turns.was_off(since);
        self.check(op, right, || {
            format!("{core} refused, but was on: {since:?}")
        });
    }

    /// The result of a call. If its core was off, the call was refused and must not run.
    pub(super) fn answered<T>(
        &self,
        op: Op,
        receipt: &Receipt,
        result: Result<T, CallError>,
    ) -> Option<T> {
        match result {
            Err(CallError::CoreOffline { core }) => {
                self.check_off(op, receipt.since(), core);
                receipt.refuse();
                None
            }
            other => self.expect(op, other),
        }
    }

    /// Called once a closure was awaited: checks that it ran, or that it never will.
    pub(super) fn finish(&mut self, receipt: Receipt) {
        if receipt.is_refused() {
            self.keep(receipt);
        } else {
            receipt.expect_done(&self.tools.ledger);
        }
    }

    /// The handle of a task that was spawned on a core, unless that core was off.
    pub(super) fn spawned<T>(
        &self,
        op: Op,
        since: Since,
        task: Result<JoinHandle<T>, SpawnError>,
    ) -> Option<JoinHandle<T>> {
        match task {
            Err(SpawnError::CoreOffline { core }) => {
                self.check_off(op, since, core);
                None
            }
            other => self.expect(op, other),
        }
    }

    /// How many closures have still to run.
    pub(super) fn open(&self) -> usize {
        self.book.iter().filter(|receipt| receipt.is_open()).count()
    }

    /// How many of the closures that were not awaited certainly ran.
    pub(super) fn ran(&self) -> u64 {
        self.book.iter().filter(|receipt| receipt.has_run()).count() as u64
    }

    /// Called at the end: checks that every closure ran as often as it must.
    pub(super) fn settle(&self) {
        for receipt in &self.book {
            receipt.settle(&self.tools.ledger);
        }
    }
}
