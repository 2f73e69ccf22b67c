//! Operations that send closures to named cores.

#![allow(
    clippy::unused_async,
    reason = "operations have one form, whether they wait or not"
)]

use std::sync::Arc;

use doorbell::{
    CallError, CoreId, Handle,
    call::ManyResults,
    switches::{CallCoalesce, IdleClaim, IdleNotify, RtPush, Switches, TimerPull},
};

use super::cores::Turns;
use super::driver::{Driver, Place};
use super::ledger::{Due, Entry, Receipt, Refusal};
use super::op::Op;

/// Marks an answer, so that it cannot come from another closure.
const ANSWER: usize = 0xA000;

/// Posts the next entry of a chain of posts.
fn post_next(handle: &Handle, turns: &Arc<Turns>, mut rest: Vec<(usize, Entry)>) {
    // The runtime outlives the round, so a refused entry would show as one that never ran. But a core that
    // is off refuses, and that ends the chain.
    let refusals: Vec<Refusal> = rest.iter().map(|(_, entry)| entry.refusal()).collect();
    if let Some((core, entry)) = rest.pop() {
        let since = turns.since(core);
        let (next, their_turns) = (handle.clone(), Arc::clone(turns));
        let posted = handle.post_on(core, move || {
            entry.end();
            post_next(&next, &their_turns, rest);
        });
        if matches!(posted, Err(CallError::CoreOffline { .. })) && turns.was_off(since) {
            refusals.iter().for_each(Refusal::refuse);
        }
    }
}

impl Driver {
    pub(super) async fn call_awaited(&mut self) {
        let core = self.any_core();
        let (entry, receipt) = self.entry(core, Due::Once, Op::CallAwaited);
        let call = self.handle.call_on(core, move || {
            entry.end();
            ANSWER + core
        });
        let answer = self.answered(Op::CallAwaited, &receipt, call.await);
        let right = receipt.is_refused() || answer == Some(ANSWER + core);
        self.check(Op::CallAwaited, right, || {
            format!("the answer is {answer:?}")
        });
        self.finish(receipt);
    }

    pub(super) async fn call_blocking(&mut self) {
        let core = self.any_core();
        let (entry, receipt) = self.entry(core, Due::Once, Op::CallBlocking);
        // The callee's writes must be visible here without further ordering by the caller.
        let mut written = [0; 4];
        let done = self.handle.call_blocking(core, || {
            entry.end();
            written = [core, 1, 2, 3];
        });
        match (self.place, done) {
            (Place::Thread, Ok(())) => {
                self.check(Op::CallBlocking, written == [core, 1, 2, 3], || {
                    format!("the caller sees {written:?}")
                });
                receipt.expect_done(&self.tools.ledger);
            }
            (Place::Task, Err(CallError::InsideWorker)) => receipt.refuse(),
            (_, Err(CallError::CoreOffline { core })) => {
                self.check_off(Op::CallBlocking, receipt.since(), core);
                receipt.refuse();
            }
            (_, other) => {
                self.check(Op::CallBlocking, false, || format!("it gave {other:?}"));
            }
        }
        self.keep(receipt);
    }

    pub(super) async fn call_detached(&mut self) {
        let core = self.any_core();
        let (entry, mut receipt) = self.entry(core, Due::Once, Op::CallDetached);
        self.handle.call_on(core, move || entry.end()).detach();
        if self.tools.turns.was_off(receipt.since()) {
            receipt.spare();
        }
        self.keep(receipt);
    }

    pub(super) async fn post(&mut self) {
        let core = self.any_core();
        self.post_to(core, Op::Post);
    }

    fn post_to(&mut self, core: usize, op: Op) {
        let (entry, receipt) = self.entry(core, Due::Once, op);
        let posted = self.handle.post_on(core, move || entry.end());
        self.answered(op, &receipt, posted);
        self.keep(receipt);
    }

    pub(super) async fn call_withdrawn(&mut self) {
        let core = self.any_core();
        let entry = self.entry_kept(core, Due::AtMostOnce, Op::CallWithdrawn);
        drop(self.handle.call_on(core, move || entry.end()));
    }

    pub(super) async fn call_panics(&mut self) {
        let core = self.any_core();
        let (entry, receipt) = self.entry(core, Due::Once, Op::CallPanics);
        let call = self.handle.call_on(core, move || {
            entry.end();
            // Unlike `panic!` it prints nothing.
            std::panic::resume_unwind(Box::new(ANSWER + core))
        });
        let result: Result<(), CallError> = call.await;
        if let Err(error @ CallError::CoreOffline { .. }) = result {
            self.answered::<()>(Op::CallPanics, &receipt, Err(error));
        } else {
            let payload = result.map_err(|error| {
                let payload = error.try_into_panic().ok()?;
                payload.downcast::<usize>().ok()
            });
            self.check(
                Op::CallPanics,
                matches!(&payload, Err(Some(answer)) if **answer == ANSWER + core),
                || format!("its waiter got {payload:?}"),
            );
        }
        self.finish(receipt);
    }

    /// An entry for each of these cores, indexed by the core's number.
    fn sheet(&mut self, cores: &[usize], due: Due, op: Op) -> (Vec<Option<Entry>>, Vec<Receipt>) {
        let mut entries: Vec<Option<Entry>> = Vec::new();
        entries.resize_with(self.handle.cores(), || None);
        let mut receipts = Vec::new();
        for &core in cores {
            let (entry, receipt) = self.entry(core, due, op);
            entries[core] = Some(entry);
            receipts.push(receipt);
        }
        (entries, receipts)
    }

    /// Checks that each core answered, in the order of the cores, and that the waiter sees it. A call to
    /// all leaves out cores that are off; a call to a named core that is off is refused.
    fn expect_all(
        &mut self,
        op: Op,
        results: Result<ManyResults<usize>, CallError>,
        receipts: Vec<Receipt>,
    ) {
        let all = matches!(op, Op::AllAwaited | Op::AllBlocking | Op::AllFromCalls);
        let turns = Arc::clone(&self.tools.turns);
        if let Err(CallError::CoreOffline { core }) = results {
            let its = |receipt: &&Receipt| receipt.since().core() == core.index();
            if let Some(receipt) = receipts.iter().find(its) {
                self.check_off(op, receipt.since(), core);
            }
            for receipt in receipts {
                receipt.refuse();
                self.keep(receipt);
            }
            return;
        }
        let results = self.expect(op, results).unwrap_or_default();
        let answers: Result<Vec<usize>, _> = results.into_iter().collect();
        let answers = self.expect(op, answers).unwrap_or_default();
        let mut rest = answers.iter().peekable();
        for receipt in receipts {
            let since = receipt.since();
            if rest.next_if_eq(&&(ANSWER + since.core())).is_none() {
                self.check(op, all && turns.was_off(since), || {
                    format!("{since:?} did not answer: {answers:x?}")
                });
                receipt.refuse();
            }
            self.finish(receipt);
        }
        self.check(op, rest.next().is_none(), || {
            format!("more answered than were asked: {answers:x?}")
        });
    }

    pub(super) async fn many_awaited(&mut self) {
        let cores = self.some_cores();
        let (entries, receipts) = self.sheet(&cores, Due::Once, Op::ManyAwaited);
        let calls = self
            .handle
            .call_many(cores.iter().copied(), answering(entries));
        let results = calls.await;
        self.expect_all(Op::ManyAwaited, results, receipts);
    }

    pub(super) async fn all_awaited(&mut self) {
        let cores: Vec<usize> = (0..self.handle.cores()).collect();
        let (entries, receipts) = self.sheet(&cores, Due::Once, Op::AllAwaited);
        let results = self.handle.call_all(answering(entries)).await;
        self.expect_all(Op::AllAwaited, results, receipts);
    }

    pub(super) async fn many_blocking(&mut self) {
        let cores = self.some_cores();
        let (entries, receipts) = self.sheet(&cores, Due::Once, Op::ManyBlocking);
        let listed = cores.iter().copied();
        let results = self.handle.call_many_blocking(listed, answering(entries));
        self.blocked(Op::ManyBlocking, results, receipts);
    }

    pub(super) async fn all_blocking(&mut self) {
        let cores: Vec<usize> = (0..self.handle.cores()).collect();
        let (entries, receipts) = self.sheet(&cores, Due::Once, Op::AllBlocking);
        let results = self.handle.call_all_blocking(answering(entries));
        self.blocked(Op::AllBlocking, results, receipts);
    }

    /// On a worker the call must be refused, elsewhere done.
    fn blocked(
        &mut self,
        op: Op,
        results: Result<ManyResults<usize>, CallError>,
        receipts: Vec<Receipt>,
    ) {
        if self.place == Place::Thread || matches!(results, Err(CallError::CoreOffline { .. })) {
            return self.expect_all(op, results, receipts);
        }
        self.check(op, matches!(results, Err(CallError::InsideWorker)), || {
            format!("on a worker it gave {results:?}")
        });
        for receipt in receipts {
            receipt.refuse();
            self.keep(receipt);
        }
    }

    pub(super) async fn many_withdrawn(&mut self) {
        let cores = self.some_cores();
        let (entries, receipts) = self.sheet(&cores, Due::AtMostOnce, Op::ManyWithdrawn);
        drop(self.handle.call_many(cores, answering(entries)));
        for receipt in receipts {
            self.keep(receipt);
        }
    }

    pub(super) async fn many_posted(&mut self) {
        for core in self.some_cores() {
            self.post_to(core, Op::ManyPosted);
        }
    }

    pub(super) async fn all_posted(&mut self) {
        for core in 0..self.handle.cores() {
            self.post_to(core, Op::AllPosted);
        }
    }

    pub(super) async fn calls_from_calls(&mut self) {
        let (first, second) = (self.any_core(), self.any_core());
        let (outer, outer_receipt) = self.entry(first, Due::Once, Op::CallsFromCalls);
        let (inner, inner_receipt) = self.entry(second, Due::Once, Op::CallsFromCalls);
        let handle = self.handle.clone();
        let call = self.handle.call_on(first, move || {
            outer.end();
            handle.call_on(second, move || inner.end())
        });
        let Some(next) = self.answered(Op::CallsFromCalls, &outer_receipt, call.await) else {
            // The inner closure is dropped with the one that would have posted it.
            inner_receipt.refuse();
            self.keep(inner_receipt);
            return self.finish(outer_receipt);
        };
        self.finish(outer_receipt);
        self.answered(Op::CallsFromCalls, &inner_receipt, next.await);
        self.finish(inner_receipt);
    }

    pub(super) async fn posts_from_posts(&mut self) {
        let count = 2 + self.dice.roll(5);
        // From last to first. A runtime that ends refuses what its closures post.
        let row: Vec<_> = (1..=count)
            .map(|place| {
                let core = self.any_core();
                let due = if self.lasts || place == count {
                    Due::Once
                } else {
                    Due::AtMostOnce
                };
                (core, self.entry_kept(core, due, Op::PostsFromPosts))
            })
            .collect();
        post_next(&self.handle, &self.tools.turns, row);
    }

    pub(super) async fn all_from_calls(&mut self) {
        let first = self.any_core();
        let cores: Vec<usize> = (0..self.handle.cores()).collect();
        let (outer, outer_receipt) = self.entry(first, Due::Once, Op::AllFromCalls);
        let (entries, receipts) = self.sheet(&cores, Due::Once, Op::AllFromCalls);
        let handle = self.handle.clone();
        let call = self.handle.call_on(first, move || {
            outer.end();
            handle.call_all(answering(entries))
        });
        let Some(calls) = self.answered(Op::AllFromCalls, &outer_receipt, call.await) else {
            for receipt in receipts {
                receipt.refuse();
                self.keep(receipt);
            }
            return self.finish(outer_receipt);
        };
        self.finish(outer_receipt);
        let results = calls.await;
        self.expect_all(Op::AllFromCalls, results, receipts);
    }

    pub(super) async fn turn_switches(&mut self) {
        let switches = Switches {
            idle_notify: self.dice.choose(&[
                IdleNotify::On,
                IdleNotify::On,
                IdleNotify::Off,
                IdleNotify::AlwaysRing,
            ]),
            call_coalesce: self.dice.choose(&[
                CallCoalesce::On,
                CallCoalesce::On,
                CallCoalesce::Base,
            ]),
            timer_pull: self.dice.choose(&TimerPull::ALL),
            idle_claim: self.dice.choose(&[
                IdleClaim::On,
                IdleClaim::On,
                IdleClaim::Off,
                IdleClaim::Mark,
                IdleClaim::Base,
            ]),
            rt_push: self.dice.choose(&RtPush::ALL),
        };
        self.handle.set_switches(switches);
    }
}

/// A closure for many cores: each has an entry.
fn answering(entries: Vec<Option<Entry>>) -> impl Fn(CoreId) -> usize + Send + Sync + 'static {
    move |core| match &entries[core.index()] {
        Some(entry) => {
            entry.run();
            ANSWER + core.index()
        }
        None => usize::MAX,
    }
}
