//! doorbell's own calls: blocking from an outside thread, or awaited by a task on another core. The
//! callee's worker spins or is parked, and so is the caller. Each setting of the switches has its rows.

use std::sync::mpsc;
use std::time::Duration;

use doorbell::{
    Builder, CallCoalesce, CallError, Handle, IdleNotify, Runtime, Switches, WorkerCounts,
    WorkerState, call_on,
};

use super::super::contestant::{Contestant, Observed, Speed, Stage};
use super::meter::{Meter, Tally, fall_asleep};
use crate::error::LabError;
use crate::measure::{Pin, Samples};

/// Longer than any pass, so the worker spins throughout.
const SPINS: Duration = Duration::from_mins(1);
/// Long enough that the caller's worker still spins when a parked callee answers, but short enough that the
/// callee parks soon.
const PARKS_SOON: Duration = Duration::from_micros(300);

/// How the caller waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// An outside thread blocks.
    Blocking,
    /// A task on another core awaits.
    Awaited,
}

/// What the callee's worker does when a call comes, and the caller's while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// It spins on its bell.
    Spinning,
    /// Its thread sleeps. The caller spins, so a call wakes one thread.
    Parked,
    /// Its thread sleeps, as does the caller's until the answer comes. A call wakes both.
    BothParked,
}

/// One way of calling, state of the callee, and setting of the switches.
#[derive(Debug)]
pub(crate) struct Doorbell {
    stage: Stage,
    tally: &'static Tally,
    form: Form,
    target: Target,
    switches: Switches,
    variant: String,
    runtime: Option<Runtime>,
}

impl Doorbell {
    /// All variants of the table.
    pub(crate) fn all(stage: Stage) -> impl Iterator<Item = Doorbell> {
        use Form::{Awaited, Blocking};
        use Target::{BothParked, Parked, Spinning};
        let on = Switches::default();
        let off = Switches {
            idle_notify: IdleNotify::Off,
            ..on
        };
        let always_ring = Switches {
            idle_notify: IdleNotify::AlwaysRing,
            ..on
        };
        let base = Switches {
            call_coalesce: CallCoalesce::Base,
            ..on
        };
        [
            (Blocking, Spinning, on, ""),
            (Blocking, Spinning, off, ", idle_notify=off"),
            (Blocking, Spinning, always_ring, ", idle_notify=always_ring"),
            (Blocking, Spinning, base, ", call_coalesce=base"),
            (Awaited, Spinning, on, ""),
            (Awaited, Spinning, off, ", idle_notify=off"),
            (Awaited, Spinning, always_ring, ", idle_notify=always_ring"),
            (Awaited, Spinning, base, ", call_coalesce=base"),
            (Blocking, Parked, on, ""),
            (Blocking, Parked, base, ", call_coalesce=base"),
            (Awaited, Parked, on, ""),
            (Awaited, BothParked, on, ""),
        ]
        .into_iter()
        .map(move |(form, target, switches, suffix)| {
            Self::new(stage, form, target, switches, suffix)
        })
    }

    fn new(stage: Stage, form: Form, target: Target, switches: Switches, suffix: &str) -> Self {
        let form_name = match form {
            Form::Blocking => "blocking",
            Form::Awaited => "await",
        };
        let target_name = match target {
            Target::Spinning => "spinning",
            Target::Parked => "callee parked",
            Target::BothParked => "both parked",
        };
        Self {
            stage,
            tally: Tally::leaked(),
            form,
            target,
            switches,
            variant: format!("{form_name}, {target_name}{suffix}"),
            runtime: None,
        }
    }

    /// The callee's core: the last one.
    fn callee(&self) -> usize {
        match self.form {
            Form::Blocking => 0,
            Form::Awaited => 1,
        }
    }

    fn counts(&self, handle: &Handle) -> WorkerCounts {
        handle.metrics().workers[self.callee()].counts
    }

    /// How often the calling task's worker has parked; `None` for an outside thread.
    fn caller_parks(&self, handle: &Handle) -> Option<u64> {
        let is_worker = self.form == Form::Awaited;
        is_worker.then(|| handle.metrics().workers[0].counts.parks)
    }

    fn call_blocking(
        &self,
        handle: &Handle,
        calls: u32,
        meter: &mut Meter,
    ) -> Result<(), LabError> {
        let _here = Pin::to(self.stage.placement.caller_cpu)?;
        let (core, target, tally) = (self.callee(), self.target, self.tally);
        for _ in 0..calls {
            await_target(handle, core, target);
            let start = meter.start();
            let answer = handle
                .call_blocking(core, || tally.serve())
                .map_err(|error| lost(&error))?;
            meter.stop(start, answer);
        }
        Ok(())
    }

    fn call_awaited(
        &self,
        handle: &Handle,
        calls: u32,
        mut meter: Meter,
    ) -> Result<Meter, LabError> {
        let (core, target, tally) = (self.callee(), self.target, self.tally);
        let inside = handle.clone();
        let (done, wait) = mpsc::channel();
        // This thread sleeps meanwhile. The caller is a task pinned to the first core.
        drop(handle.task().on(0).spawn(async move {
            let mut result = Ok(());
            for _ in 0..calls {
                await_target(&inside, core, target);
                let start = meter.start();
                match call_on(core, move || tally.serve()).await {
                    Ok(answer) => meter.stop(start, answer),
                    Err(error) => {
                        result = Err(lost(&error));
                        break;
                    }
                }
            }
            // The receiver is gone only if the waiting thread has panicked.
            let _ = done.send(result.map(|()| meter));
        }));
        wait.recv().map_err(|_| LabError::CallLost {
            reason: "the calling task panicked",
        })?
    }
}

/// Waits, for a target that must be parked, until its worker has parked and its CPU is halted. Does not
/// wait for a spinning one.
fn await_target(handle: &Handle, core: usize, target: Target) {
    if target == Target::Spinning {
        return;
    }
    while handle.worker_state(core) != Some(WorkerState::Parked) {
        std::hint::spin_loop();
    }
    // The worker announces the park before its thread sleeps. A ring right then would keep it from
    // sleeping.
    fall_asleep();
}

fn lost(error: &CallError) -> LabError {
    LabError::CallLost {
        reason: match error {
            CallError::RuntimeGone => "the runtime went away",
            CallError::Panicked(_) => "the call panicked",
            _ => "the call was refused",
        },
    }
}

impl Contestant for Doorbell {
    fn name(&self) -> &'static str {
        "doorbell"
    }

    fn variant(&self) -> &str {
        &self.variant
    }

    fn speed(&self) -> Speed {
        match self.target {
            Target::Spinning => Speed::Fast,
            Target::Parked | Target::BothParked => Speed::Parked,
        }
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let placement = self.stage.placement;
        let cpus = match self.form {
            Form::Blocking => vec![placement.callee_cpu],
            Form::Awaited => vec![placement.caller_cpu, placement.callee_cpu],
        };
        let spin = match (self.target, self.form) {
            (Target::Spinning, _) => SPINS,
            (Target::Parked, Form::Blocking) | (Target::BothParked, _) => Duration::ZERO,
            (Target::Parked, Form::Awaited) => PARKS_SOON,
        };
        let builder = Builder::new().core_list(cpus).name("lab").spin(spin);
        self.runtime = Some(builder.switches(self.switches).build()?);
        Ok(())
    }

    fn run(&mut self, calls: u32, samples: &mut Samples) -> Result<Observed, LabError> {
        let handle = self
            .runtime
            .as_ref()
            .ok_or(LabError::NotSetUp)?
            .handle()
            .clone();
        let before = self.counts(&handle);
        let parks_before = self.caller_parks(&handle);
        let mut meter = Meter::begin(self.stage.clock, self.tally.served(), samples);
        match self.form {
            Form::Blocking => self.call_blocking(&handle, calls, &mut meter)?,
            Form::Awaited => meter = self.call_awaited(&handle, calls, meter)?,
        }
        let mut observed = meter.finish(self.tally.served(), samples)?;
        let counts = self.counts(&handle).since(&before);
        let caller_parks = self.caller_parks(&handle).zip(parks_before);
        let counted = [
            ("passes_per_call", counts.passes),
            ("rings_per_call", counts.rings),
            ("rings_awake_per_call", counts.rings_awake),
            ("parks_per_call", counts.parks),
        ];
        let of_caller = caller_parks.map(|(now, then)| ("caller_parks_per_call", now - then));
        for (name, count) in counted.into_iter().chain(of_caller) {
            let per_call = count as f64 / f64::from(calls);
            observed.counters.insert(name.to_owned(), per_call);
        }
        Ok(observed)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        // Dropping a runtime waits for its workers.
        self.runtime = None;
        Ok(())
    }
}
