//! Several threads wake as many tasks at one instant. All these tasks ran last on one worker, and as many workers are
//! idle: how many wakes are stacked on one worker, and when the slowest task begins.

use super::{one_scheduler, result_of};
use crate::fuzz::machine_for;
use crate::scenario::class::{Classes, FAIR, RT, Urgent};
use crate::scenario::program::Ended;
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use crate::scenario::{oracle, spawn};
use doorbell_core::scheduler::Turns;
use doorbell_core::switches::IdleClaim;
use doorbell_core::task::Kind;
use doorbell_core::worker::{IdlePolicy, Local, WorkerCounts};
use doorbell_machine::sim::{self, CHOSEN, Config};
use doorbell_machine::{Bug, Machine, Sim, ThreadHandle};
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
    /// Only this one of them happens; `None`: all.
    alone: Option<usize>,
    claim: IdleClaim,
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
        config.switches.idle_claim = self.claim;
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
    /// What the workers counted of it themselves.
    stacked: u64,
    claims_lost: u64,
}

impl Did {
    fn by_now<const BUG: u8>(workers: &Workers<BUG>) -> Self {
        let counts = workers.counts();
        let sum = |of: fn(&WorkerCounts) -> u64| counts.iter().map(of).sum();
        Did {
            stolen: sum(|it| it.stolen),
            rings: sum(|it| it.rings),
            stacked: sum(|it| it.stacked),
            claims_lost: sum(|it| it.claims_lost),
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

    /// When the first task began: the one that was woken alone.
    fn begun_in_time(&self) -> u64 {
        let late_ns = self.begun.iter().map(|it| it.late_ns);
        late_ns.min().unwrap_or(0)
    }

    fn slowest_ns(&self) -> u64 {
        let late_ns = self.begun.iter().map(|it| it.late_ns);
        late_ns.max().unwrap_or(0)
    }
}

/// The worker that the calling task runs on.
fn worker_here<const BUG: u8>() -> usize {
    let here = Local::<Sim<BUG>>::with_current(|local| Some(local?.remote().worker()));
    here.expect("a task runs on a worker")
}

fn work_until(at_ns: u64) {
    if sim::time_ns() > at_ns {
        sim::fail("too late for the instant");
    }
    sim::work(at_ns.saturating_sub(sim::time_ns()));
}

/// Launches a task on that worker while all workers are idle, so that it runs there first. Then it waits to be woken.
fn launch_waiter<const BUG: u8>(
    workers: &Arc<Workers<BUG>>,
    last: usize,
    hears: Receiver<()>,
    at_ns: u64,
    note: UnboundedSender<Begun>,
) {
    let ended = Ended::new(workers);
    let waits = async move {
        let _ended = ended;
        if worker_here::<BUG>() != 0 {
            sim::fail("a task did not run first where it was launched");
        }
        let _ = hears.await;
        let late_ns = sim::time_ns() - at_ns;
        let worker = worker_here::<BUG>();
        let _ = note.unbounded_send(Begun { worker, late_ns });
        sim::work(POLL_NS);
    };
    drop(workers.launch(last, Kind::Task, waits));
    sim::sleep(SETTLE_NS);
}

/// Something that runs on one worker in one poll, and that the ledger waits for.
fn launch_pinned<const BUG: u8>(
    workers: &Arc<Workers<BUG>>,
    worker: usize,
    does: impl FnOnce() + Send + 'static,
) {
    let ended = Ended::new(workers);
    let poll = async move {
        let _ended = ended;
        does();
    };
    drop(workers.launch(worker, Kind::Pinned, poll));
}

/// All senders wake their tasks at that instant, each from a thread or a worker of its own.
fn wake_all<const BUG: u8>(
    setting: Setting,
    workers: &Arc<Workers<BUG>>,
    says: Vec<Sender<()>>,
    at_ns: u64,
) {
    let mut threads = Vec::new();
    let says = says.into_iter().enumerate();
    let chosen = |(waker, _): &(usize, _)| setting.alone.is_none_or(|alone| alone == *waker);
    // Dropped at the end of this function, which wakes those that are left.
    let (says, _later): (Vec<_>, Vec<_>) = says.partition(chosen);
    for (waker, say) in says {
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
            threads.push(spawn::<BUG>("waker", cpu, wake).unwrap());
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
fn play<const BUG: u8>(setting: Setting, note: &UnboundedSender<Begun>) -> Did {
    Sim::<BUG>::bind_thread(&[setting.cores()]).unwrap();
    let (workers, threads) = Workers::<BUG>::start(setting.config(), Arc::default()).unwrap();
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
        stacked: after.stacked - before.stacked,
        claims_lost: after.claims_lost - before.claims_lost,
    }
}

fn burst(setting: Setting) -> Burst {
    burst_of::<0>(setting)
}

/// The same with this mutant.
fn burst_of<const BUG: u8>(setting: Setting) -> Burst {
    let config = Config {
        seed: setting.seed,
        machine: machine_for(setting.cores() + 1 + setting.wakes, None),
        ..Config::default()
    };
    let (note, mut notes) = unbounded();
    let did = result_of(config, move || play::<BUG>(setting, &note));
    let did = did.unwrap_or_else(|why| panic!("{setting:?}: {why}"));
    let begun: Vec<Begun> = std::iter::from_fn(|| notes.try_recv().ok()).collect();
    assert_eq!(begun.len(), setting.wakes, "{setting:?}: each runs once");
    Burst { begun, did }
}

/// One burst for each number of wakes and each seed.
fn bursts(by: By, last: Last, claim: IdleClaim) -> impl Iterator<Item = (Setting, Burst)> {
    let wakes = [1, 2, 4, 8, 16, 32].into_iter();
    let settings = wakes.flat_map(move |wakes| {
        (0..SEEDS).map(move |seed| Setting {
            by,
            last,
            wakes,
            alone: None,
            claim,
            seed,
        })
    });
    settings.map(|setting| (setting, burst(setting)))
}

/// With the claim, each wake finds a worker of its own, and each worker that sleeps is rung once.
fn check_claims(by: By, last: Last) {
    for (setting, burst) in bursts(by, last, IdleClaim::On) {
        let (slowest_ns, did) = (burst.slowest_ns(), burst.did);
        assert_eq!(
            burst.stacked(),
            0,
            "{setting:?}, {did:?}: the slowest after {slowest_ns} ns"
        );
        assert_eq!(did.stacked, 0, "{setting:?}");
        let wakes = setting.wakes as u64;
        // One more for what is launched before the instant: the worker that is to spin by then, and the wakers.
        let launched = u64::from(last == Last::Spins) + if by == By::Within { wakes } else { 0 };
        // Urgent workers do not spin.
        let spins = u64::from(last == Last::Spins && by != By::Below);
        assert_eq!(did.rings, wakes - spins + launched, "{setting:?}");
    }
}

/// Without it, wakes are stacked: as many as `expected` says of so many wakes. What the posters counted is what
/// happened, except that a task can be stolen twice.
fn check_stacked(claim: IdleClaim, expected: impl Fn(u64) -> RangeInclusive<u64>) {
    for (by, last) in [
        (By::Outside, Last::Sleeps),
        (By::Outside, Last::Spins),
        (By::Within, Last::Spins),
    ] {
        for (setting, burst) in bursts(by, last, claim) {
            let (counted, expected) = (burst.did.stacked, expected(setting.wakes as u64));
            assert!(
                expected.contains(&counted),
                "{setting:?}: {counted} stacked, not {expected:?}"
            );
            let stacked = burst.stacked();
            assert!(
                (counted.saturating_sub(2)..=3 * counted).contains(&stacked),
                "{setting:?}: {stacked}, {counted}"
            );
            let rings = burst.did.rings;
            assert!(
                rings <= 3 * setting.wakes as u64 + 2,
                "{setting:?}: {rings} rings"
            );
        }
    }
}

#[test]
fn wakes_from_outside_find_a_worker_each() {
    for last in [Last::Sleeps, Last::Spins] {
        check_claims(By::Outside, last);
    }
}

#[test]
fn wakes_from_below_find_a_worker_each() {
    for last in [Last::Sleeps, Last::Spins] {
        check_claims(By::Below, last);
    }
}

#[test]
fn wakes_within_a_scheduler_find_a_worker_each() {
    check_claims(By::Within, Last::Spins);
}

#[test]
fn without_the_claim_most_wakes_are_stacked() {
    check_stacked(IdleClaim::Off, |wakes| (wakes - 1).div_ceil(2)..=wakes);
}

/// A single wake may be stacked too: on the task that makes it.
#[test]
fn the_flag_of_the_seed_leaves_some_wakes_stacked() {
    check_stacked(IdleClaim::Mark, |wakes| {
        wakes / 8 - wakes / 8 % 2..=(wakes - 1).max(1)
    });
}

/// They wait for each other's polls, until a watchdog finds them.
#[test]
fn without_a_claim_stacked_wakes_wait_for_milliseconds() {
    check_stacked(IdleClaim::Base, |wakes| (wakes - 1).div_ceil(2)..=wakes);
    for (setting, burst) in bursts(By::Outside, Last::Sleeps, IdleClaim::Base) {
        let (slowest_ns, wakes) = (burst.slowest_ns(), setting.wakes as u64);
        let least_ns = (wakes - 1) * 400 * US;
        assert!(
            (least_ns..least_ns + 4 * MS).contains(&slowest_ns),
            "{setting:?}: {slowest_ns}"
        );
    }
}

/// Simulated time: on one machine with the same idle workers, the slowest of many wakes at one instant against the
/// slowest of the same wakes made alone.
#[test]
fn the_slowest_of_many_wakes_is_little_later_than_one_alone() {
    for (setting, burst) in bursts(By::Outside, Last::Sleeps, IdleClaim::On) {
        let alone = |waker| {
            let alone = Some(waker);
            self::burst(Setting { alone, ..setting }).begun_in_time()
        };
        let one_ns = alone(0).max(alone(setting.wakes - 1));
        let slowest_ns = burst.slowest_ns();
        assert!(
            100 * slowest_ns <= 131 * one_ns,
            "{setting:?}: {slowest_ns} ns, alone {one_ns} ns"
        );
    }
}

#[test]
fn a_caller_that_looks_away_leaves_tasks_stacked() {
    assert!(!is_stacked_with::<0>(By::Outside) && !is_stacked_with::<0>(By::Within));
    sim::break_thread(Bug::PlaceKeepsLostLate);
    assert!(is_stacked_with::<CHOSEN>(By::Outside) || is_stacked_with::<CHOSEN>(By::Within));
}

#[test]
fn a_push_behind_another_leaves_tasks_stacked() {
    sim::break_thread(Bug::PlacePushesBehind);
    assert!(is_stacked_with::<CHOSEN>(By::Outside));
}

/// Whether a wake is stacked on the machine with this number.
fn is_stacked_with<const BUG: u8>(by: By) -> bool {
    let tries = (0..20).flat_map(|seed| [8, 16, 32].map(|wakes| (wakes, seed)));
    tries.into_iter().any(|(wakes, seed)| {
        let setting = Setting {
            by,
            last: Last::Spins,
            wakes,
            alone: None,
            claim: IdleClaim::On,
            seed,
        };
        burst_of::<BUG>(setting).stacked() > 0
    })
}
