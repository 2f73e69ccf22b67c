//! Operations of tasks and timers.

use std::future::pending;
use std::time::{Duration, Instant};

use doorbell::time::{sleep, timeout};
use doorbell::{CoreId, JoinHandle, JoinSet, current_core, yield_now};
use tokio::sync::{mpsc, oneshot};

use super::driver::Driver;
use super::ledger::Due;
use super::op::Op;

/// The longest sleep.
const SLEEP_US_MAX: u64 = 400;

impl Driver {
    /// A task pinned to that core, or a movable one if the core is off.
    fn spawned_here_or_anywhere<F>(
        &self,
        op: Op,
        stays: bool,
        core: usize,
        future: F,
    ) -> Option<JoinHandle<F::Output>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        if !stays {
            return Some(self.handle.spawn(future));
        }
        let since = self.tools.turns.since(core);
        self.spawned(op, since, self.handle.task().on(core).try_spawn(future))
    }

    /// A movable task of the driver's runtime, wherever the driver itself is.
    pub(super) async fn task_moves(&mut self) {
        let yields = self.dice.roll(6);
        let child_yields = self.dice.roll(3);
        let task = self.handle.spawn(async move {
            let child = doorbell::spawn(async move {
                for _ in 0..child_yields {
                    yield_now().await;
                }
                child_yields
            });
            for _ in 0..yields {
                yield_now().await;
            }
            let on_a_worker = current_core().is_some();
            (on_a_worker, child.await.ok())
        });
        let output = self.expect(Op::TaskMoves, task.await);
        let wanted = Some((true, Some(child_yields)));
        self.check(Op::TaskMoves, output == wanted, || {
            format!("it gave {output:?}")
        });
    }

    pub(super) async fn task_stays(&mut self) {
        let core = self.any_core();
        let (entry, receipt) = self.entry(core, Due::Once, Op::TaskStays);
        let yields = self.dice.roll(6);
        let task = self.handle.task().on(core).try_spawn(async move {
            let mut elsewhere = 0;
            for _ in 0..yields {
                yield_now().await;
                elsewhere += u32::from(current_core().map(CoreId::index) != Some(core));
            }
            entry.end();
            elsewhere
        });
        let Some(task) = self.spawned(Op::TaskStays, receipt.since(), task) else {
            receipt.refuse();
            return self.keep(receipt);
        };
        let elsewhere = self.expect(Op::TaskStays, task.await);
        self.check(Op::TaskStays, elsewhere == Some(0), || {
            format!("polled elsewhere: {elsewhere:?}")
        });
        self.finish(receipt);
    }

    pub(super) async fn tasks_alternate(&mut self) {
        let rounds = 1 + self.dice.roll(8);
        let (to_second, mut at_second) = mpsc::channel::<u64>(1);
        let (to_first, mut at_first) = mpsc::channel::<u64>(1);
        // One may be pinned and one movable, or both the same.
        let (stays, core) = (self.dice.roll(2) == 0, self.any_core());
        let second = async move {
            while let Some(number) = at_second.recv().await {
                if to_first.send(number + 1).await.is_err() {
                    break;
                }
            }
        };
        let Some(second) = self.spawned_here_or_anywhere(Op::TasksAlternate, stays, core, second)
        else {
            return;
        };
        let first = self.handle.spawn(async move {
            let mut number = 0;
            for _ in 0..rounds {
                to_second.send(number).await.ok()?;
                number = at_first.recv().await?;
            }
            Some(number)
        });
        let number = self.expect(Op::TasksAlternate, first.await).flatten();
        self.check(Op::TasksAlternate, number == Some(rounds), || {
            format!("after {rounds} rounds: {number:?}")
        });
        self.expect(Op::TasksAlternate, second.await);
    }

    pub(super) async fn tasks_joined(&mut self) {
        let count = 1 + self.dice.roll(24);
        let mut set = JoinSet::new();
        for number in 0..count {
            let us = self.dice.roll(4) * 20;
            set.insert(self.handle.spawn(async move {
                match us {
                    0 => yield_now().await,
                    us => sleep(Duration::from_micros(us)).await,
                }
                number
            }));
        }
        let mut sum = 0;
        while let Some(ended) = set.join_next().await {
            sum += self.expect(Op::TasksJoined, ended).unwrap_or_default();
        }
        self.check(Op::TasksJoined, sum == count * (count - 1) / 2, || {
            format!("{count} tasks add up to {sum}")
        });
    }

    pub(super) async fn tasks_aborted(&mut self) {
        // What each task holds is dropped; `live` checks that at the end.
        let core = self.any_core();
        let held = self.entry_kept(core, Due::AtMostOnce, Op::TasksAborted);
        let waits = self.handle.spawn(async move {
            pending::<()>().await;
            drop(held);
        });
        let held = self.entry_kept(core, Due::AtMostOnce, Op::TasksAborted);
        let since = self.tools.turns.since(core);
        let runs = self.handle.task().on(core).try_spawn(async move {
            loop {
                yield_now().await;
                if false {
                    break;
                }
            }
            held.end();
        });
        let runs = self.spawned(Op::TasksAborted, since, runs);
        if self.dice.roll(2) == 0 {
            yield_now().await;
        }
        for task in [Some(waits), runs].into_iter().flatten() {
            task.abort();
            let ended = task.await;
            let cancelled = ended.as_ref().is_err_and(doorbell::JoinError::is_cancelled);
            self.check(Op::TasksAborted, cancelled, || format!("it gave {ended:?}"));
        }
    }

    pub(super) async fn task_woken_outside(&mut self) {
        let (tell, told) = oneshot::channel();
        let task = self.handle.spawn(async move { told.await.ok() });
        if self.tools.wake.send(tell).is_err() {
            self.check(Op::TaskWokenOutside, false, || "nobody wakes".to_owned());
        }
        let number = self.expect(Op::TaskWokenOutside, task.await).flatten();
        self.check(Op::TaskWokenOutside, number == Some(7), || {
            format!("it was told {number:?}")
        });
    }

    pub(super) async fn blocking(&mut self) {
        let task = self.handle.spawn_blocking(|| (current_core(), 7));
        let output = self.expect(Op::Blocking, task.await);
        self.check(Op::Blocking, output == Some((None, 7)), || {
            format!("it gave {output:?}")
        });
    }

    pub(super) async fn sleep(&mut self) {
        let duration = Duration::from_micros(self.dice.roll(SLEEP_US_MAX));
        let started = Instant::now();
        sleep(duration).await;
        let slept = started.elapsed();
        self.check(Op::Sleep, slept >= duration, || {
            format!("{duration:?} ended after {slept:?}")
        });
    }

    pub(super) async fn timeout(&mut self) {
        let limit = Duration::from_micros(self.dice.roll(SLEEP_US_MAX));
        let started = Instant::now();
        let result = timeout(limit, pending::<()>()).await;
        let waited = started.elapsed();
        self.check(Op::Timeout, result.is_err() && waited >= limit, || {
            format!("{limit:?} ended after {waited:?}")
        });
        // A call that may be given up: it is withdrawn or done.
        let core = self.any_core();
        let (entry, receipt) = self.entry(core, Due::AtMostOnce, Op::Timeout);
        let call = self.handle.call_on(core, move || entry.end());
        let limit = Duration::from_micros(self.dice.roll(20));
        if let Ok(ended) = timeout(limit, call).await {
            self.answered(Op::Timeout, &receipt, ended);
        }
        self.keep(receipt);
    }

    pub(super) async fn sleeps_dropped(&mut self) {
        let core = self.any_core();
        let moves = self.dice.roll(2) == 0;
        let micros = [(); 6].map(|()| self.dice.roll(SLEEP_US_MAX));
        let sleeps = async move {
            let mut early = 0;
            for us in micros {
                let started = Instant::now();
                let mut armed = Box::pin(sleep(Duration::from_mins(1)));
                let _ = futures::poll!(&mut armed);
                if us % 2 == 0 {
                    continue;
                }
                // Armed at one worker and perhaps moved to another in time.
                yield_now().await;
                let due = Duration::from_micros(us);
                armed
                    .as_mut()
                    .get_mut()
                    .reset(doorbell::time::Instant::from_std(started + due));
                armed.await;
                early += u32::from(started.elapsed() < due);
            }
            early
        };
        let stays = !moves;
        let Some(task) = self.spawned_here_or_anywhere(Op::SleepsDropped, stays, core, sleeps)
        else {
            return;
        };
        let early = self.expect(Op::SleepsDropped, task.await);
        self.check(Op::SleepsDropped, early == Some(0), || {
            format!("fired before their time: {early:?}")
        });
    }
}
