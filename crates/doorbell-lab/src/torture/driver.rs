//! One who does operations: a thread of its own, or a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use doorbell::{CallError, CoreId, Handle, JoinHandle, SpawnError};

use super::cores::{Since, Turns};
use super::dice::Dice;
use super::ledger::{Due, Entry, Ledger, Receipt};
use super::op::Op;

/// What a driver does now, for whoever watches.
#[derive(Debug, Default)]
pub(super) struct Station {
    op: AtomicUsize,
    steps: AtomicU64,
}

impl Station {
    pub(super) fn begin(&self, op: Op) {
        // ORDER: for people; nothing follows from it.
        self.op.store(op as usize, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        // ORDER: as above.
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// The operation, and how many ended before.
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
    /// On a thread that is no worker: it may block.
    Thread,
    /// In a task: what blocks is refused.
    Task,
}

/// What drivers of a round share.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    pub(super) ledger: Arc<Ledger>,
    /// Which cores of the driver's runtime are off.
    pub(super) turns: Arc<Turns>,
    /// Whoever gets this completes it, from a thread that is no worker.
    pub(super) wake: crossbeam_channel::Sender<tokio::sync::oneshot::Sender<u64>>,
}

/// One who does operations.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) handle: Handle,
    pub(super) dice: Dice,
    pub(super) place: Place,
    pub(super) tools: Tools,
    /// Whether the runtime stays until everything has run that is posted from inside it.
    pub(super) lasts: bool,
    station: Arc<Station>,
    /// What is not settled yet.
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

    /// Does so many operations.
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

    /// A core of the runtime.
    pub(super) fn any_core(&mut self) -> usize {
        let cores = self.handle.cores() as u64;
        self.dice.roll(cores) as usize
    }

    /// Some cores in any order, none twice; at least one.
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

    /// Keeps it until the end of the round.
    pub(super) fn keep(&mut self, receipt: Receipt) {
        self.book.push(receipt);
    }

    /// Nobody waits for it: that it runs shows at the end.
    pub(super) fn entry_kept(&mut self, core: usize, due: Due, op: Op) -> Entry {
        let (entry, receipt) = self.entry(core, due, op);
        self.keep(receipt);
        entry
    }

    /// Fails unless it holds.
    pub(super) fn check(&self, op: Op, holds: bool, what: impl FnOnce() -> String) {
        let ledger = &self.tools.ledger;
        ledger.check(holds, || format!("{}: {}", op.name(), what()));
    }

    /// The result, unless it is an error, which is a failure here.
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

    /// A core has refused what was for it, which is right only if it was off.
    pub(super) fn check_off(&self, op: Op, since: Since, core: CoreId) {
        let right = core.index() == since.core() && self.tools.turns.was_off(since);
        self.check(op, right, || {
            format!("{core} refused, but was on: {since:?}")
        });
    }

    /// What a call gave, unless its core was off: then it was refused, and must not run.
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

    /// What is left to do once a closure was waited for: look that it ran, or never does.
    pub(super) fn finish(&mut self, receipt: Receipt) {
        if receipt.is_refused() {
            self.keep(receipt);
        } else {
            receipt.expect_done(&self.tools.ledger);
        }
    }

    /// A task that stays on a core, unless that is off.
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

    /// How many closures still have to run.
    pub(super) fn open(&self) -> usize {
        self.book.iter().filter(|receipt| receipt.is_open()).count()
    }

    /// How many closures ran for certain, of those that were not awaited.
    pub(super) fn ran(&self) -> u64 {
        self.book.iter().filter(|receipt| receipt.has_run()).count() as u64
    }

    /// At the end: every closure ran as often as it had to.
    pub(super) fn settle(&self) {
        for receipt in &self.book {
            receipt.settle(&self.tools.ledger);
        }
    }
}
