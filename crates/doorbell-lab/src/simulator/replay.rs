//! `doorbell sim replay`.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, Result};
use clap::Args;
use doorbell_machine::sim::{Outcome, Sink};
use doorbell_sim::fuzz::{Found, Setup, Shape, What, setup};
use doorbell_sim::profile::Profile;
use doorbell_sim::trace::MachineTrace;
use serde_json::{Value, json};

use super::{MachineArgs, failure, load, shapes_of};
use crate::cannot_write;
use crate::error::unknown;

/// The options of a replay.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReplayOptions {
    /// The seed
    #[arg(value_name = "SEED")]
    seed: u64,
    #[command(flatten)]
    machine: MachineArgs,
    /// The shape of program [default: the first that fails, else the last]
    #[arg(long, value_name = "NAME")]
    shape: Option<String>,
    /// Write the trace to this file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// A trace in progress, and the error of writing it, if any.
type Writing = Rc<RefCell<(MachineTrace<BufWriter<File>>, Option<io::Error>)>>;

/// Repeats a seed: one JSON object, and an error with the command that repeats the failure, if there is one.
pub(crate) fn replay(options: &ReplayOptions) -> Result<(Value, Result<()>)> {
    let profile = load(options.machine.profile.as_deref())?;
    let spec = profile.as_ref().map(Profile::spec);
    let MachineArgs { cores, memory, .. } = options.machine;
    let setup = setup(options.seed, cores, memory, spec);
    let mut shape = None;
    for candidate in shapes_of(options.shape.as_deref())? {
        shape = Some(candidate);
        // A single shape is run once, below, where it is traced.
        if options.shape.is_none() && (candidate.run)(&setup, None)?.failure.is_some() {
            break;
        }
    }
    let Some(shape) = shape else {
        return Err(unknown("shape", "", [""; 0]));
    };
    let outcome = match &options.trace {
        Some(path) => traced(&shape, &setup, path)?,
        None => (shape.run)(&setup, None)?,
    };
    let profile = options.machine.profile.as_deref();
    let found = outcome.failure.clone().map(|failure| Found {
        shape: shape.name,
        setup: setup.clone(),
        what: What::Failed(failure),
        outcome: outcome.clone(),
    });
    let failed = found.as_ref();
    let json = json!({
        "program": "sim replay",
        "seed": setup.seed,
        "shape": shape.name,
        "cores": setup.cores,
        "events": outcome.events,
        "simulated_ns": outcome.time_ns,
        "faults": outcome.faults,
        "rings": outcome.rings,
        "parks": outcome.parks,
        "hash": format!("{:016x}", outcome.hash),
        "failure": failed.map(|found| failure::to_json(found, profile)),
        "trace, for ui.perfetto.dev or chrome://tracing": options.trace,
    });
    Ok((json, failure::check(failed, profile)))
}

fn traced(shape: &Shape, setup: &Setup, path: &Path) -> Result<Outcome> {
    let failed = || cannot_write(path);
    let file = File::create(path).with_context(failed)?;
    let trace = MachineTrace::begin(BufWriter::new(file)).with_context(failed)?;
    let writing: Writing = Rc::new(RefCell::new((trace, None)));
    let theirs = Rc::clone(&writing);
    let sink: Sink = Box::new(move |event| {
        let (trace, error) = &mut *theirs.borrow_mut();
        if error.is_none() {
            *error = trace.record(event).err();
        }
    });
    let outcome = (shape.run)(setup, Some(sink))?;
    // The run is over, so its sink has been dropped.
    let written = Rc::into_inner(writing).map(RefCell::into_inner);
    let (trace, error) = written.context("the run still holds its trace")?;
    let finished = error.map_or_else(|| trace.finish(&outcome.threads).map(drop), Err);
    finished.with_context(failed)?;
    Ok(outcome)
}
