//! doorbell's own calls: blocking from an outside thread, or awaited by a task on another core. The
//! callee's worker spins or is parked, and so is the caller. Each setting of the switches has its rows.

use std::time::Duration;

use anyhow::{Error, Result};
use doorbell::net::UdpSocket;
use doorbell::time::sleep;
use doorbell::{Builder, CallError, Handle, Runtime, call_on, metrics::WorkerState};

use super::{Caller, FALLS_ASLEEP, Meter, PARKED_DIVISOR, Tally, lost};
use crate::frame::{Contestant, Outcome, Stage};
use crate::peers::{Doorbell, Workers, with_setting};
use crate::tools::spin;

/// So long a worker spins that shall not park, or that shall park soon after it has called.
const SPINS: Duration = Duration::from_mins(1);
const PARKS_SOON: Duration = Duration::from_micros(300);
/// What a loaded callee looks after, and how long its timers sleep.
const TIMERS: usize = 1_000;
const SOCKETS: usize = 64;
const NEVER: Duration = Duration::from_hours(1);
/// What is counted of each call.
const COUNTERS: [&str; 5] = [
    "passes_per_call",
    "rings_per_call",
    "rings_awake_per_call",
    "parks_per_call",
    "caller_parks_per_call",
];

/// Whether workers sleep when a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Spinning,
    /// And has timers and sockets to look after.
    Loaded,
    Parked,
    BothParked,
}

/// A contestant: whether a task calls, the target, and who calls if no task does.
#[derive(Debug, Clone, Copy)]
struct Calls {
    is_task: bool,
    target: Target,
    tally: &'static Tally,
    caller: Caller,
}

pub(super) fn contestants(stage: &Stage) -> Vec<Contestant> {
    use Target::{BothParked, Loaded, Parked, Spinning};
    const OFF: &str = "idle_notify=off";
    const BASE: &str = "call_coalesce=base";
    let mut all = Vec::new();
    for is_task in [false, true] {
        for setting in ["", OFF, "idle_notify=always_ring", BASE] {
            all.push(one(stage, is_task, Spinning, setting));
        }
    }
    all.extend([
        one(stage, false, Loaded, ""),
        one(stage, false, Loaded, OFF),
        one(stage, false, Parked, ""),
        one(stage, false, Parked, BASE),
        one(stage, true, Parked, ""),
        one(stage, true, BothParked, ""),
    ]);
    all
}

fn one(stage: &Stage, is_task: bool, target: Target, setting: &'static str) -> Contestant {
    let form = if is_task { "await" } else { "blocking" };
    let name = match target {
        Target::Spinning => "spinning",
        Target::Loaded => "spinning, loaded",
        Target::Parked => "callee parked",
        Target::BothParked => "both parked",
    };
    let end = if setting.is_empty() { "" } else { ", " };
    let [here, there] = stage.cpus();
    let workers = Workers::Bound(if is_task {
        vec![here, there]
    } else {
        vec![there]
    });
    let (spin, divisor) = match target {
        Target::Spinning | Target::Loaded => (SPINS, 1),
        Target::Parked if is_task => (PARKS_SOON, PARKED_DIVISOR),
        Target::Parked | Target::BothParked => (Duration::ZERO, PARKED_DIVISOR),
    };
    let start = move || {
        let set = |builder: Builder| with_setting(builder.spin(spin), setting);
        let peer = Doorbell::with(&workers, set)?;
        if target == Target::Loaded {
            load(peer.0.handle());
        }
        Ok(peer)
    };
    let calls = Calls {
        is_task,
        target,
        tally: Tally::leaked(),
        caller: Caller::of(stage),
    };
    let run = move |peer: &mut Doorbell, count| calls.run(&peer.0, count);
    Contestant::of(format!("{form}, {name}{end}{setting}"), start, run).with_less(divisor)
}

/// Gives a worker timers and sockets to look after.
fn load(handle: &Handle) {
    for _ in 0..TIMERS {
        drop(handle.task().on(0).spawn(sleep(NEVER)));
    }
    for _ in 0..SOCKETS {
        let wait = async {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.recv(&mut [0]).await
        };
        drop(handle.task().on(0).spawn(wait));
    }
}

impl Calls {
    fn callee(self) -> usize {
        usize::from(self.is_task)
    }

    fn run(self, runtime: &Runtime, calls: u32) -> Result<Outcome> {
        let handle = runtime.handle();
        let counts = || {
            let workers = handle.metrics().workers;
            let caller_parks = self.is_task.then(|| workers[0].counts.parks);
            (workers[self.callee()].raw(), caller_parks)
        };
        let (before, parks_before) = counts();
        let outcome = if self.is_task {
            self.call_awaited(runtime, calls)?
        } else {
            let call = || {
                let answer = handle.call_blocking(self.callee(), || self.tally.serve());
                answer.map_err(|error| refused(&error))
            };
            let (served, before) = (|| self.tally.served(), || self.await_target(handle));
            self.caller.call(calls, served, before, call)?
        };
        let (after, parks_after) = counts();
        let used = after.since(&before);
        let counted = [used.passes, used.rings, used.rings_awake, used.parks];
        let of_caller = parks_after.zip(parks_before).map(|(now, then)| now - then);
        let all = COUNTERS
            .into_iter()
            .zip(counted.into_iter().chain(of_caller));
        let per_call = |count: u64| count as f64 / f64::from(calls);
        Ok(outcome.and(all.map(|(name, count)| (name, per_call(count)))))
    }

    /// The caller is a task pinned to the first core; this thread sleeps meanwhile.
    fn call_awaited(self, runtime: &Runtime, calls: u32) -> Result<Outcome> {
        let mut meter = Meter::begin(self.caller.clock, calls, self.tally.served());
        let inside = runtime.handle().clone();
        let task = runtime.task().on(0).spawn(async move {
            for _ in 0..calls {
                self.await_target(&inside);
                let start = meter.start();
                let answer = call_on(self.callee(), move || self.tally.serve()).await;
                meter.stop(start, answer.map_err(|error| refused(&error))?);
            }
            anyhow::Ok(meter)
        });
        let meter = runtime.block_on(task);
        let meter = meter.map_err(|_| lost("the calling task panicked"))??;
        meter.finish(self.tally.served())
    }

    fn await_target(self, handle: &Handle) {
        if matches!(self.target, Target::Spinning | Target::Loaded) {
            return;
        }
        while handle.worker_state(self.callee()) != Some(WorkerState::Parked) {
            std::hint::spin_loop();
        }
        // The worker announces the park before its thread sleeps. A ring right then would keep it from
        // sleeping.
        spin(FALLS_ASLEEP);
    }
}

fn refused(error: &CallError) -> Error {
    lost(match error {
        CallError::RuntimeGone => "the runtime went away",
        CallError::Panicked(_) => "the call panicked",
        _ => "the call was refused",
    })
}
