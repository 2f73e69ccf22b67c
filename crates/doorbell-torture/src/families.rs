//! Operations with groups of tasks: local tasks, a scope, a set, blocking threads.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use doorbell::time::sleep;
use doorbell::{
    CallError, CoreId, JoinError, JoinSet, current_core, scope, spawn_local, yield_now,
};

use super::driver::Driver;
use super::ledger::Due;
use super::op::Op;

/// Increments a count when it is dropped.
struct Dropped(Arc<AtomicU64>);

impl Drop for Dropped {
    fn drop(&mut self) {
        // ORDER: Relaxed; only the runtime's own guarantees may make it visible to a waiter.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The count so far.
fn count(dropped: &AtomicU64) -> u64 {
    // ORDER: Relaxed, see `Dropped`.
    dropped.load(Ordering::Relaxed)
}

impl Driver {
    pub(super) async fn local_tasks(&mut self) {
        let core = self.any_core();
        let (entry, receipt) = self.entry(core, Due::Once, Op::LocalTasks);
        let (yields, us) = (self.dice.roll(5), self.dice.roll(4) * 30);
        let task = self.handle.try_spawn_local_on(core, move || async move {
            let shared = Rc::new(Cell::new(0));
            let theirs = Rc::clone(&shared);
            let child = spawn_local(async move {
                if us > 0 {
                    sleep(Duration::from_micros(us)).await;
                }
                theirs.set(theirs.get() + 1);
                current_core().map(CoreId::index)
            });
            let abandoned = spawn_local(pending::<()>());
            for _ in 0..yields {
                yield_now().await;
                shared.set(shared.get() + 1);
            }
            let there = child.await.ok().flatten();
            abandoned.abort();
            let cancelled = abandoned.await.is_err();
            entry.end();
            (there, shared.get(), cancelled)
        });
        let Some(task) = self.spawned(Op::LocalTasks, receipt.since(), task) else {
            receipt.refuse();
            return self.keep(receipt);
        };
        let output = self.expect(Op::LocalTasks, task.await);
        let wanted = Some((Some(core), yields + 1, true));
        self.check(Op::LocalTasks, output == wanted, || {
            format!("{output:?} instead of {wanted:?}")
        });
        self.finish(receipt);
    }

    pub(super) async fn scoped(&mut self) {
        let (children, aborted) = (1 + self.dice.roll(8), self.dice.roll(3));
        let ended = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&ended);
        let task = self.handle.spawn(async move {
            let sum = scope(async |s| {
                for number in 0..children {
                    let held = Dropped(Arc::clone(&theirs));
                    drop(s.spawn(async move {
                        for _ in 0..number {
                            yield_now().await;
                        }
                        drop(held);
                    }));
                }
                for _ in 0..aborted {
                    let held = Dropped(Arc::clone(&theirs));
                    let child = s.spawn(async move {
                        pending::<()>().await;
                        drop(held);
                    });
                    child.abort();
                }
                s.spawn(async move { children }).await.ok()
            });
            // All of them have been dropped when the scope returns.
            (sum.await, count(&theirs))
        });
        let output = self.expect(Op::Scoped, task.await);
        let wanted = Some((Some(children), children + aborted));
        self.check(Op::Scoped, output == wanted, || {
            format!("{output:?} instead of {wanted:?}")
        });
    }

    pub(super) async fn set_aborted(&mut self) {
        let dropped = Arc::new(AtomicU64::new(0));
        let mut set = JoinSet::new();
        let size = 1 + self.dice.roll(8);
        for number in 0..size {
            let held = Dropped(Arc::clone(&dropped));
            set.insert(self.handle.spawn(async move {
                match number % 3 {
                    0 => pending::<()>().await,
                    1 => sleep(Duration::from_micros(number * 10)).await,
                    _ => yield_now().await,
                }
                drop(held);
            }));
        }
        if self.dice.roll(2) == 0 {
            yield_now().await;
        }
        set.abort_all();
        let mut joined = 0;
        while let Some(ended) = set.join_next().await {
            joined += 1;
            let right = matches!(ended, Ok(()) | Err(JoinError::Cancelled));
            self.check(Op::SetAborted, right, || {
                format!("one ended with {ended:?}")
            });
        }
        let dropped = count(&dropped);
        self.check(Op::SetAborted, joined == size && dropped == size, || {
            format!("of {size} tasks {joined} were joined and {dropped} dropped")
        });
    }

    pub(super) async fn blocking_calls(&mut self) {
        let core = self.any_core();
        let (entry, receipt) = self.entry(core, Due::Once, Op::BlockingCalls);
        let handle = self.handle.clone();
        let task = self
            .handle
            .spawn_blocking(move || handle.call_blocking(core, move || entry.end()));
        // One that may be too late to be withdrawn.
        let withdrawn = self.handle.spawn_blocking(|| ());
        withdrawn.abort();
        let called: Option<Result<(), CallError>> = self.expect(Op::BlockingCalls, task.await);
        if let Some(called) = called {
            self.answered(Op::BlockingCalls, &receipt, called);
        }
        self.finish(receipt);
        let ended = withdrawn.await;
        let right = matches!(ended, Ok(()) | Err(JoinError::Cancelled));
        self.check(Op::BlockingCalls, right, || format!("it gave {ended:?}"));
    }
}
