//! One round: a runtime, its drivers, and the checks at its end.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use doorbell::{Builder, CallError, Handle, IdlePolicy, Runtime};

use super::balance::{self, Asked};
use super::churn::{self, Churned, GUEST};
use super::cores::{self, Turns};
use super::dice::Dice;
use super::driver::{Driver, Place, Station, Tools};
use super::ledger::Ledger;
use super::op::Op;
use super::watch::Stations;

/// The prefix of the main runtime's thread names.
const MAIN: &str = "torture";

/// The operations of each driver in a round.
const STEPS: u32 = 400;

/// The runtimes that come and go in a round.
const GUESTS: u32 = 8;

/// How long the end of a round may take before anything counts as left over.
const PATIENCE: Duration = Duration::from_secs(20);

/// The work of a round.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) operations: [u64; Op::COUNT],
    /// Closures that were posted.
    pub(super) closures: u64,
    /// Runtimes that came and went, including the main one.
    pub(super) runtimes: u64,
    /// How often a core was taken off or put back.
    pub(super) turns: u64,
    /// Wake-up system calls of the main runtime, and its parks.
    pub(super) rings: u64,
    pub(super) parks: u64,
}

impl Default for Done {
    fn default() -> Self {
        Done {
            operations: [0; Op::COUNT],
            closures: 0,
            runtimes: 0,
            turns: 0,
            rings: 0,
            parks: 0,
        }
    }
}

/// The make-up of a round, which comes from the seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    cores: usize,
    /// Whether workers are bound to CPUs, if there are enough.
    pin: bool,
    idle: Idle,
    threads: u64,
    tasks: u64,
}

/// How idle workers wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Idle {
    Policy(IdlePolicy),
    Spin(Duration),
}

impl Idle {
    pub(super) fn of(self, builder: Builder) -> Builder {
        match self {
            Idle::Policy(policy) => builder.idle(policy),
            Idle::Spin(time) => builder.spin(time),
        }
    }
}

/// The most workers that never park; more would only take turns on a small machine.
const SPINNING_MAX: usize = 2;

impl Shape {
    fn of(dice: &mut Dice) -> Self {
        let cores = dice.choose(&[1, 2, 2, 3, 4, 6]);
        let idle = dice.choose(&[
            Idle::Policy(IdlePolicy::Park),
            Idle::Policy(IdlePolicy::Adaptive { budget: 0.05 }),
            Idle::Policy(IdlePolicy::Adaptive { budget: 1.0 }),
            Idle::Policy(IdlePolicy::NeverPark),
            Idle::Spin(Duration::from_micros(10)),
            Idle::Spin(Duration::from_millis(1)),
        ]);
        let spins = matches!(idle, Idle::Policy(IdlePolicy::NeverPark));
        Shape {
            cores: if spins {
                cores.min(SPINNING_MAX)
            } else {
                cores
            },
            pin: dice.roll(3) == 0,
            idle,
            threads: 1 + dice.roll(3),
            tasks: 1 + dice.roll(3),
        }
    }

    fn build(self) -> Result<Runtime, doorbell::BuildError> {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let builder = Builder::new().cores(self.cores).name(MAIN);
        let builder = builder.pin(self.pin && self.cores <= cpus);
        self.idle.of(builder).build()
    }
}

/// Runs the round of a seed. Failures go into `ledger`.
pub(super) fn run(seed: u64, ledger: &Arc<Ledger>, stations: &Stations) -> Done {
    let mut dice = Dice::new(seed, 0);
    let shape = Shape::of(&mut dice);
    let runtime = match shape.build() {
        Ok(runtime) => runtime,
        Err(error) => {
            ledger.fail(format!("the runtime: {error}"));
            return Done::default();
        }
    };
    let turns = Arc::new(Turns::of(runtime.cores()));
    stations.begin(runtime.handle(), shape, &turns);
    let (wake, woken) = crossbeam_channel::unbounded();
    let waker = thread::spawn(move || {
        for tell in woken {
            let tell: tokio::sync::oneshot::Sender<u64> = tell;
            // The waiter may be gone.
            let _ = tell.send(7);
        }
    });
    let tools = Tools {
        ledger: Arc::clone(ledger),
        turns,
        wake,
    };
    let (drivers, churned) = drive(&runtime, shape, seed, &tools, stations);
    let done = end(runtime, &drivers, &churned, ledger);
    // The waking thread ends with the last sender.
    drop((drivers, churned, tools));
    if waker.join().is_err() {
        ledger.fail("the thread that wakes panicked".to_owned());
    }
    wait_until(
        || threads_named(MAIN) + threads_named(GUEST) == 0,
        || {
            ledger.fail("threads of runtimes that ended are still there".to_owned());
        },
    );
    done
}

/// Runs threads, tasks and other runtimes against the runtime until each has done its part.
fn drive(
    runtime: &Runtime,
    shape: Shape,
    seed: u64,
    tools: &Tools,
    stations: &Stations,
) -> (Vec<Driver>, Churned) {
    let handle = runtime.handle();
    let driver = |who: u64, place| {
        let station: Arc<Station> = stations.add();
        let dice = Dice::new(seed, who);
        Driver::new(handle.clone(), dice, place, tools.clone(), station)
    };
    let tasks: Vec<_> = (0..shape.tasks)
        .map(|task| {
            let mut driver = driver(100 + task, Place::Task);
            runtime.spawn(async move {
                driver.work(STEPS).await;
                driver
            })
        })
        .collect();
    let threads: Vec<_> = (0..shape.threads)
        .map(|thread| {
            let mut driver = driver(1 + thread, Place::Thread);
            let handle = handle.clone();
            thread::spawn(move || {
                let worked = handle.try_block_on(driver.work(STEPS)).is_ok();
                worked.then_some(driver)
            })
        })
        .collect();
    let turner = thread::spawn({
        let (handle, tools) = (handle.clone(), tools.clone());
        move || cores::turn(&handle, &tools.turns, &tools.ledger, Dice::new(seed, 98))
    });
    let mut churned = churn::churn(handle, tools, &stations.add(), Dice::new(seed, 99), GUESTS);
    match turner.join() {
        Ok(turns) => churned.turns = turns,
        Err(_) => tools
            .ledger
            .fail("the thread that turns cores panicked".to_owned()),
    }
    let mut drivers = Vec::new();
    for thread in threads {
        match thread.join() {
            Ok(Some(driver)) => drivers.push(driver),
            Ok(None) | Err(_) => tools
                .ledger
                .fail("a thread that drives panicked".to_owned()),
        }
    }
    for task in tasks {
        match runtime.block_on(task) {
            Ok(driver) => drivers.push(driver),
            Err(error) => tools.ledger.fail(format!("a task that drives: {error}")),
        }
    }
    (drivers, churned)
}

/// Waits until everything requested has run, then checks that nothing is left.
fn end(runtime: Runtime, drivers: &[Driver], churned: &Churned, ledger: &Arc<Ledger>) -> Done {
    let handle = runtime.handle().clone();
    let all = || drivers.iter().chain(&churned.drivers);
    wait_until(
        || ledger.has_failed() || (all().all(|driver| driver.open() == 0) && ledger.live() == 0),
        || {
            let open: usize = all().map(Driver::open).sum();
            ledger.fail(format!(
                "left over: {open} closures that did not run, {} that were not dropped; {:?}",
                ledger.live(),
                handle.metrics()
            ));
        },
    );
    let mut done = Done {
        runtimes: 1 + churned.runtimes,
        turns: churned.turns,
        ..Done::default()
    };
    let mut asked = Asked::default();
    for driver in all() {
        driver.settle();
        done.closures += driver.entries;
        for (sum, count) in done.operations.iter_mut().zip(driver.done) {
            *sum += count;
        }
    }
    for driver in drivers {
        asked.closures += driver.entries;
        asked.closures_min += driver.ran();
        asked.operations += driver.done.iter().sum::<u64>();
    }
    // Each of those runtimes has called this one and been dropped on it.
    asked.closures += churned.runtimes;
    asked.operations += churned.runtimes;
    // A turn calls the core, and each core that was off before, and is checked.
    asked.closures += churned.turns * (2 + runtime.cores() as u64);
    asked.operations += churned.turns;
    // Each worker answers after everything else.
    for core in 0..runtime.cores() {
        if let Err(error) = runtime.call_blocking(core, || ()) {
            ledger.fail(format!("core {core} at the end: {error}"));
        }
    }
    asked.closures += runtime.cores() as u64;
    let metrics = balance::when_idle(&handle);
    let counts: Vec<_> = metrics
        .workers
        .iter()
        .map(doorbell::metrics::WorkerMetrics::raw)
        .collect();
    for finding in balance::findings(&counts, asked) {
        ledger.fail(finding);
    }
    done.rings = counts.iter().map(|c| c.rings).sum();
    done.parks = counts.iter().map(|c| c.parks).sum();
    drop(runtime);
    after(&handle, ledger);
    done
}

/// Checks that a runtime that is gone refuses calls with the right error.
fn after(handle: &Handle, ledger: &Ledger) {
    let late = handle.call_blocking(0, || ());
    ledger.check(matches!(late, Err(CallError::RuntimeGone)), || {
        format!("a call after the end gave {late:?}")
    });
}

/// Polls until `holds`, or calls `otherwise` once [`PATIENCE`] is exceeded.
fn wait_until(holds: impl Fn() -> bool, otherwise: impl FnOnce()) {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() > PATIENCE {
            otherwise();
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// How many threads of this process have names of this prefix and a dash.
fn threads_named(prefix: &str) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let names = entries
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok());
    names
        .filter(|name| {
            let rest = name.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.starts_with('-'))
        })
        .count()
}
