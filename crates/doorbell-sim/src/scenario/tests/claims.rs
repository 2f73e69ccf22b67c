//! Several threads wake as many tasks at one instant. All these tasks ran last on one worker, and as many workers are
//! idle: how many wakes are stacked on one worker, and when the slowest task begins.

use super::one_scheduler;
use crate::fuzz::machine_for;
use crate::scenario::class::{Classes, FAIR, RT, Urgent};
use crate::scenario::program::Ended;
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use crate::scenario::{oracle, spawn};
use doorbell_core::scheduler::Turns;
use doorbell_core::task::Kind;
use doorbell_core::worker::{IdlePolicy, Local, WorkerCounts};
use doorbell_machine::sim::{self, Config};
use doorbell_machine::{Machine, Sim, ThreadHandle};
use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_channel::oneshot::{Receiver, Sender, channel};
use std::ops::RangeInclusive;
use std::sync::Arc;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
/// By then a task that was launched waits, and its worker sleeps.
const SETTLE_NS: u64 = MS;
/// What launching a task may take the launcher beside that.
const LAUNCH_NS: u64 = 100 * US;
/// Longer than a watchdog stays one: after this time all workers sleep, and none looks at others.
const CALM_NS: u64 = 20 * MS;
/// By then the threads that wake have started, and work until the instant.
const READY_NS: u64 = 5 * MS;
/// How long each woken task runs: longer than all wakes take together.
const POLL_NS: u64 = 500 * US;
/// How long before the instant a worker becomes idle that is to spin by then and to be in no set yet: less than the
/// microsecond in which it looks at its own line alone.
const FRESH_NS: u64 = 500;
const SEEDS: u64 = 3;

/// Who wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Threads that are no workers wake Fair tasks.
    Outside,
    /// Such threads wake urgent tasks, so they are below them.
    Below,
    /// Tasks on other workers of the scheduler, whose polls go on after the wake.
    Within,
}

/// What the worker does at the instant that ran all tasks last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Sleeps,
    /// It became idle just before, and is in no set yet.
    Spins,
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    by: By,
    last: Last,
    wakes: usize,
    seed: u64,
}

impl Setting {
    /// As many workers as wakes are idle. Where tasks wake, those have a worker each beside them.
    fn cores(&self) -> usize {
        match self.by {
            By::Outside | By::Below => self.wakes,
            By::Within => 2 * self.wakes,
        }
    }

    /// The first worker of the scheduler, on which all tasks run first.
    fn last(&self) -> usize {
        let scheduler = if self.by == By::Below { RT } else { FAIR };
        scheduler * self.cores()
    }

    fn config(&self) -> SchedulerConfig {
        let mut config = one_scheduler(self.cores());
        if self.by == By::Below {
            config.classes = Classes::Each(Urgent::Fifo);
            config.turns = Turns::ByRank;
        }
        if self.last == Last::Spins {
            config.idle = IdlePolicy::Spin { spin_ns: 10 * US };
        }
        config
    }
}

/// A woken task begins to run.
#[derive(Clone, Copy, Debug)]
struct Begun {
    worker: usize,
    late_ns: u64,
}

/// What workers counted together.
#[derive(Clone, Copy, Debug)]
struct Did {
    stolen: u64,
    rings: u64,
}

impl Did {
    fn by_now(workers: &Workers<0>) -> Self {
        let counts = workers.counts();
        let sum = |of: fn(&WorkerCounts) -> u64| counts.iter().map(of).sum();
        Did {
            stolen: sum(|it| it.stolen),
            rings: sum(|it| it.rings),
        }
    }
}

/// What became of the wakes.
#[derive(Debug)]
struct Burst {
    begun: Vec<Begun>,
    did: Did,
}

impl Burst {
    /// 0 if each wake found a worker of its own. A wake that went to the worker of another one shows in one of two ways:
    /// its task was stolen from there, or began there behind the other's. A task that is stolen twice counts twice.
    fn stacked(&self) -> u64 {
        let mut workers: Vec<usize> = self.begun.iter().map(|it| it.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        self.did.stolen + (self.begun.len() - workers.len()) as u64
    }

    fn slowest_ns(&self) -> u64 {
        let late_ns = self.begun.iter().map(|it| it.late_ns);
        late_ns.max().unwrap_or(0)
    }
}

/// The worker that the calling task runs on.
fn worker_here() -> usize {
    let here = Local::<Sim>::with_current(|local| Some(local?.remote().worker()));
    here.expect("a task runs on a worker")
}

fn work_until(at_ns: u64) {
    if sim::time_ns() > at_ns {
        sim::fail("too late for the instant");
    }
    sim::work(at_ns.saturating_sub(sim::time_ns()));
}

/// Launches a task on that worker while all workers are idle, so that it runs there first. Then it waits to be woken.
fn launch_waiter(
    workers: &Arc<Workers<0>>,
    last: usize,
    hears: Receiver<()>,
    at_ns: u64,
    note: UnboundedSender<Begun>,
) {
    let ended = Ended::new(workers);
    let waits = async move {
        let _ended = ended;
        if worker_here() != 0 {
            sim::fail("a task did not run first where it was launched");
        }
        let _ = hears.await;
        let late_ns = sim::time_ns() - at_ns;
        let worker = worker_here();
        let _ = note.unbounded_send(Begun { worker, late_ns });
        sim::work(POLL_NS);
    };
    drop(workers.launch(last, Kind::Task, waits));
    sim::sleep(SETTLE_NS);
}

/// Something that runs on one worker in one poll, and that the ledger waits for.
fn launch_pinned(workers: &Arc<Workers<0>>, worker: usize, does: impl FnOnce() + Send + 'static) {
    let ended = Ended::new(workers);
    let poll = async move {
        let _ended = ended;
        does();
    };
    drop(workers.launch(worker, Kind::Pinned, poll));
}

/// All senders wake their tasks at that instant, each from a thread or a worker of its own.
fn wake_all(setting: Setting, workers: &Arc<Workers<0>>, says: Vec<Sender<()>>, at_ns: u64) {
    let mut threads = Vec::new();
    for (waker, say) in says.into_iter().enumerate() {
        let wake = move || {
            work_until(at_ns);
            let _ = say.send(());
        };
        if setting.by == By::Within {
            let goes_on = move || {
                wake();
                sim::work(POLL_NS);
            };
            launch_pinned(workers, setting.wakes + waker, goes_on);
        } else {
            let cpu = setting.cores() + 1 + waker;
            threads.push(spawn::<0>("waker", cpu, wake).unwrap());
        }
    }
    if setting.last == Last::Spins {
        launch_pinned(workers, setting.last(), move || {
            work_until(at_ns - FRESH_NS);
        });
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

/// The first thread of a run. Returns what the workers did for the wakes.
fn play(setting: Setting, note: &UnboundedSender<Begun>) -> Did {
    Sim::<0>::bind_thread(&[setting.cores()]).unwrap();
    let (workers, threads) = Workers::<0>::start(setting.config(), Arc::default()).unwrap();
    sim::sleep(SETTLE_NS);
    let (says, hears): (Vec<_>, Vec<_>) = (0..setting.wakes).map(|_| channel()).unzip();
    let settled_ns = setting.wakes as u64 * (SETTLE_NS + LAUNCH_NS);
    let at_ns = sim::time_ns() + settled_ns + CALM_NS + READY_NS;
    for hears in hears {
        launch_waiter(&workers, setting.last(), hears, at_ns, note.clone());
    }
    sim::sleep(CALM_NS);
    let before = Did::by_now(&workers);
    wake_all(setting, &workers, says, at_ns);
    oracle::until_quiet(&workers);
    let after = Did::by_now(&workers);
    workers.close(threads);
    oracle::check_quiescence(&workers);
    oracle::check_counts(&workers.counts(), setting.config().switches);
    oracle::check_freed(workers);
    Did {
        stolen: after.stolen - before.stolen,
        rings: after.rings - before.rings,
    }
}

fn burst(setting: Setting) -> Burst {
    let config = Config {
        seed: setting.seed,
        machine: machine_for(setting.cores() + 1 + setting.wakes, None),
        ..Config::default()
    };
    let (note, mut notes) = unbounded();
    let (report, mut reports) = unbounded();
    let program = move || {
        let did = play(setting, &note);
        let _ = report.unbounded_send(did);
    };
    let outcome = sim::run_traced(config, None, program).unwrap();
    assert_eq!(outcome.failure, None, "{setting:?}");
    let begun: Vec<Begun> = std::iter::from_fn(|| notes.try_recv().ok()).collect();
    assert_eq!(begun.len(), setting.wakes, "{setting:?}: each runs once");
    let did = reports.try_recv().expect("the program came to its end");
    Burst { begun, did }
}

/// Checks the number of stacked wakes of each burst against what is expected of so many wakes.
fn check(by: By, last: Last, expected: impl Fn(u64) -> RangeInclusive<u64>) {
    for wakes in [1, 2, 4, 8, 16, 32] {
        for seed in 0..SEEDS {
            let setting = Setting {
                by,
                last,
                wakes,
                seed,
            };
            let burst = burst(setting);
            let (stacked, slowest_ns) = (burst.stacked(), burst.slowest_ns());
            let expected = expected(wakes as u64);
            assert!(
                expected.contains(&stacked),
                "{setting:?}: {stacked} stacked, not {expected:?}; the slowest began after {slowest_ns} ns"
            );
            // Those that were idle are woken, and others for what they find.
            let rings = burst.did.rings;
            assert!(rings <= 2 * wakes as u64 + 2, "{setting:?}: {rings} rings");
        }
    }
}

/// As it stands without a claim: most wakes are stacked.
fn most(wakes: u64) -> RangeInclusive<u64> {
    (wakes - 1).div_ceil(2)..=3 * (wakes - 1)
}

#[test]
fn wakes_from_outside_find_workers() {
    for last in [Last::Sleeps, Last::Spins] {
        check(By::Outside, last, most);
    }
}

#[test]
fn wakes_from_below_find_workers() {
    for last in [Last::Sleeps, Last::Spins] {
        check(By::Below, last, most);
    }
}

#[test]
fn wakes_within_a_scheduler_find_workers() {
    check(By::Within, Last::Spins, most);
}
