//! Runtimes that come and go beside the operations ("guests").

use std::sync::Arc;
use std::time::Duration;

use doorbell::{Builder, CallError, Handle, IdlePolicy, Runtime};

use super::dice::Dice;
use super::driver::{Driver, Place, Station, Tools};
use super::ledger::Due;
use super::op::Op;
use super::round::Idle;

/// The prefix of the thread names of these runtimes.
pub(super) const GUEST: &str = "guest";

/// The most operations of a runtime before it goes.
const STEPS_MAX: u64 = 12;

/// How a runtime comes and goes.
#[derive(Clone, Copy, Debug)]
enum Churn {
    /// It has finished everything when it is dropped.
    Idle,
    /// It is dropped while it is called and has unfinished tasks.
    UnderFire,
    /// The same, dropped on a worker of the main runtime, where the drop does not wait.
    OnAWorker,
}

/// The result.
#[derive(Debug, Default)]
pub(super) struct Churned {
    /// Runtimes that came and went.
    pub(super) runtimes: u64,
    /// How often a core of the main runtime was taken off or put back meanwhile.
    pub(super) turns: u64,
    pub(super) drivers: Vec<Driver>,
}

/// Lets this many runtimes come and go.
pub(super) fn churn(
    main: &Handle,
    tools: &Tools,
    station: &Arc<Station>,
    mut dice: Dice,
    count: u32,
) -> Churned {
    let mut churned = Churned::default();
    for turn in 0..count {
        if tools.ledger.has_failed() {
            break;
        }
        let way = dice.choose(&[Churn::Idle, Churn::UnderFire, Churn::OnAWorker]);
        let cores = 1 + dice.roll(2) as usize;
        let idle = dice.choose(&[
            Idle::Spin(Duration::from_micros(10)),
            Idle::Spin(Duration::from_millis(1)),
            Idle::Policy(IdlePolicy::Park),
            Idle::Policy(IdlePolicy::Adaptive { budget: 0.5 }),
            Idle::Policy(IdlePolicy::NeverPark),
        ]);
        let built = idle.of(Builder::new().cores(cores).name(GUEST)).build();
        let runtime = match built {
            Ok(runtime) => runtime,
            Err(error) => {
                tools.ledger.fail(format!("a runtime beside it: {error}"));
                break;
            }
        };
        let mut driver = Driver::new(
            runtime.handle().clone(),
            Dice::new(dice.roll(u64::MAX), u64::from(turn)),
            Place::Thread,
            Tools {
                turns: Arc::default(),
                ..tools.clone()
            },
            Arc::clone(station),
        );
        driver.lasts = false;
        let steps = 1 + dice.roll(STEPS_MAX) as u32;
        if let Err(error) = runtime.try_block_on(driver.work(steps)) {
            tools.ledger.fail(format!("a runtime beside it: {error}"));
        }
        match way {
            Churn::Idle => drop(runtime),
            Churn::UnderFire | Churn::OnAWorker => {
                end_under_fire(runtime, main, &mut driver, matches!(way, Churn::OnAWorker));
            }
        }
        churned.runtimes += 1;
        churned.drivers.push(driver);
    }
    churned
}

/// Drops a runtime while a thread calls it, after posts that still have to run.
fn end_under_fire(runtime: Runtime, main: &Handle, driver: &mut Driver, on_a_worker: bool) {
    let ledger = Arc::clone(&driver.tools.ledger);
    let cores = runtime.cores();
    // Tasks that never end, and one that awaits a call to the main runtime.
    for core in 0..cores {
        let held = driver.entry_kept(core, Due::AtMostOnce, Op::TasksAborted);
        drop(runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        }));
    }
    let far = driver.dice.roll(main.cores() as u64) as usize;
    let name = Op::CallWithdrawn.name();
    let since = driver.tools.turns.since(far);
    let (entry, receipt) = ledger.entry(main, since, Due::AtMostOnce, name);
    driver.keep(receipt);
    let main_handle = main.clone();
    drop(runtime.spawn(async move {
        let _ = main_handle.call_on(far, move || entry.end()).await;
    }));
    // Posted before the drop, so they must run.
    let op = Op::Post;
    for core in 0..cores {
        let entry = driver.entry_kept(core, Due::Once, op);
        let posted = runtime.post_on(core, move || entry.end());
        driver.expect(op, posted);
        let entry = driver.entry_kept(core, Due::Once, Op::CallDetached);
        runtime.call_on(core, move || entry.end()).detach();
    }
    let handle = runtime.handle().clone();
    std::thread::scope(|scope| {
        scope.spawn(|| call_until_gone(&handle, &ledger));
        if on_a_worker {
            let dropped = main.spawn(async move { drop(runtime) });
            let ended = main.try_block_on(dropped);
            ledger.check(matches!(ended, Ok(Ok(()))), || {
                format!("a runtime dropped on a worker: {ended:?}")
            });
        } else {
            drop(runtime);
        }
    });
}

/// Calls until the runtime is gone; each call must run or be refused.
fn call_until_gone(handle: &Handle, ledger: &super::ledger::Ledger) {
    for call in 0_usize.. {
        let mut ran = 0;
        match handle.call_blocking(call % handle.cores(), || ran += 1) {
            Ok(()) => ledger.check(ran == 1, || format!("a call under fire ran {ran} times")),
            Err(CallError::RuntimeGone) => {
                ledger.check(ran == 0, || format!("a refused call ran {ran} times"));
                return;
            }
            Err(other) => {
                ledger.fail(format!("a call under fire: {other}"));
                return;
            }
        }
    }
}
