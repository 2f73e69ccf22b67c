//! `doorbell sim replay`.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use doorbell_machine::sim::{Memory, Outcome, Sink};
use doorbell_sim::fuzz::{Setup, Shape, Span, setup};
use doorbell_sim::profile::Profile;
use doorbell_sim::trace::MachineTrace;

use super::{failure, load, shapes_of};
use crate::error::LabError;

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayOptions {
    /// The seed.
    pub seed: u64,
    /// One shape; the first that fails if it is left out, else the last.
    pub shape: Option<String>,
    /// How many cores; the seed picks one of several.
    pub cores: Span,
    /// The memory model.
    pub memory: Memory,
    /// Name or path of a profile.
    pub profile: Option<String>,
    /// Where the trace is written.
    pub trace: Option<PathBuf>,
}

/// How the run ended.
#[derive(Debug)]
pub struct ReplayReport {
    options: ReplayOptions,
    shape: &'static str,
    setup: Setup,
    outcome: Outcome,
}

/// A trace that is being written, or what went wrong with that.
type Writing = Rc<RefCell<(MachineTrace<BufWriter<File>>, Option<io::Error>)>>;

/// Runs a seed again.
///
/// # Errors
/// [`LabError::Profile`], [`LabError::NoSuchShape`], [`LabError::File`] if the trace cannot be
/// written, and [`LabError::Simulation`] if the machine cannot be simulated.
pub fn replay(options: &ReplayOptions) -> Result<ReplayReport, LabError> {
    let profile = load(options.profile.as_deref())?;
    let spec = profile.as_ref().map(Profile::spec);
    let setup = setup(options.seed, options.cores, options.memory, spec);
    let mut shape = None;
    for candidate in shapes_of(options.shape.as_deref())? {
        shape = Some(candidate);
        // One alone is run below, where it is traced.
        if options.shape.is_none() && (candidate.run)(&setup, None)?.failure.is_some() {
            break;
        }
    }
    let Some(shape) = shape else {
        return Err(LabError::NoSuchShape {
            name: String::new(),
            known: Vec::new(),
        });
    };
    let outcome = match &options.trace {
        Some(path) => traced(&shape, &setup, path)?,
        None => (shape.run)(&setup, None)?,
    };
    Ok(ReplayReport {
        options: options.clone(),
        shape: shape.name,
        setup,
        outcome,
    })
}

fn traced(shape: &Shape, setup: &Setup, path: &Path) -> Result<Outcome, LabError> {
    let failed = |source| crate::file_error(path, source);
    let file = File::create(path).map_err(failed)?;
    let trace = MachineTrace::begin(BufWriter::new(file)).map_err(failed)?;
    let writing: Writing = Rc::new(RefCell::new((trace, None)));
    let theirs = Rc::clone(&writing);
    let sink: Sink = Box::new(move |event| {
        let (trace, error) = &mut *theirs.borrow_mut();
        if error.is_none() {
            *error = trace.record(event).err();
        }
    });
    let outcome = (shape.run)(setup, Some(sink))?;
    // The run is over, and its sink gone with it.
    let written = Rc::into_inner(writing).map(RefCell::into_inner);
    match written {
        Some((_, Some(error))) => Err(failed(error)),
        Some((trace, None)) => trace.finish(&outcome.threads).map(drop).map_err(failed),
        None => Err(failed(io::Error::other("the run still holds it"))),
    }?;
    Ok(outcome)
}

impl ReplayReport {
    /// What is told.
    pub fn to_text(&self) -> String {
        let outcome = &self.outcome;
        let mut text = format!(
            "seed {}, shape {}, {} cores: {} events in {:.6} s of simulated time, {} faults, \
             {} rings of {} parks, hash {:016x}\n",
            self.setup.seed,
            self.shape,
            self.setup.cores,
            outcome.events,
            outcome.time_ns as f64 / 1e9,
            outcome.faults,
            outcome.rings,
            outcome.parks,
            outcome.hash
        );
        match &outcome.failure {
            Some(failure) => {
                // Writing to a string does not fail.
                let _ = writeln!(text, "FAILED: {failure}\n");
                text.push_str(&failure::last_events(outcome));
            }
            None => text.push_str("no oracle objects\n"),
        }
        if let Some(path) = &self.options.trace {
            let path = path.display();
            let _ = writeln!(
                text,
                "the trace is in {path}; open it at ui.perfetto.dev or chrome://tracing"
            );
        }
        text
    }

    /// Whether all went well.
    ///
    /// # Errors
    /// [`LabError::Found`] with the command that repeats it.
    pub fn check(&self) -> Result<(), LabError> {
        let Some(found) = &self.outcome.failure else {
            return Ok(());
        };
        let profile = self.options.profile.as_deref();
        Err(LabError::Found {
            seed: self.setup.seed,
            what: found.to_string(),
            replay: failure::replay_command(&self.setup, self.shape, profile),
        })
    }
}
