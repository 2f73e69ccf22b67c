//! What the workers of a small runtime get.

use crate::error::TASK_LOST;
use anyhow::{Context as _, Result};
use doorbell::{Builder, Class, Runtime, metrics::WorkerPolicy};
use rustix::thread::current_timer_slack;
use serde::Serialize;

/// More cores would add no information.
const CORES_MAX: usize = 2;

/// How the OS schedules a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct WorkerFact {
    /// Its core.
    pub(crate) core: usize,
    /// Its class.
    pub(crate) class: String,
    /// The policy that it requested.
    pub(crate) wanted: String,
    /// The policy that it has; `None` if the OS does not report it.
    pub(crate) got: Option<String>,
    /// Whether the two are the same.
    pub(crate) is_as_wanted: bool,
    /// The same in one sentence, with what to do.
    pub(crate) says: String,
}

impl WorkerFact {
    fn of(policy: WorkerPolicy) -> Self {
        Self {
            core: policy.core().index(),
            class: policy.class().to_string(),
            wanted: policy.wanted().to_string(),
            got: policy.got().map(|got| got.to_string()),
            is_as_wanted: policy.is_as_wanted(),
            says: policy.to_string(),
        }
    }
}

/// Starts a runtime and opens all classes. Returns its workers, the timer slack of one, and the switches.
pub(super) fn try_out() -> Result<(Vec<WorkerFact>, Option<u64>, String)> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = Builder::new().cores(cores.min(CORES_MAX)).build()?;
    for class in [Class::rt(50), Class::BATCH, Class::FAIR] {
        // A worker reports its policy before its first task.
        for core in 0..runtime.cores() {
            open(&runtime, class, core)?;
        }
    }
    let slack = runtime.call_blocking(0, || current_timer_slack().ok());
    let policies = runtime.policies().into_iter().map(WorkerFact::of);
    Ok((
        policies.collect(),
        slack.ok().flatten(),
        runtime.switches().to_string(),
    ))
}

fn open(runtime: &Runtime, class: Class, core: usize) -> Result<()> {
    let task = runtime.task().class(class).on(core).spawn(async {});
    runtime.block_on(task).ok().context(TASK_LOST)
}
