//! `doorbell info`: what this machine allows a runtime, and what a runtime gets.
//!
//! `look.rs` reads the machine, and `workers.rs` starts a small runtime. This module turns both into facts
//! with remedies. What cannot be read is no error.

mod look;
mod workers;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

pub(crate) use look::{Asked, Seen};
pub(crate) use workers::WorkerFact;

/// The options of `doorbell info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// The findings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Info {
    /// What was read and tried.
    #[serde(flatten)]
    pub(crate) seen: Seen,
    /// What the workers of a small runtime got after it has opened all classes.
    pub(crate) workers: Vec<WorkerFact>,
    /// Its switches, in the syntax of `DOORBELL_SWITCHES`.
    pub(crate) switches: String,
    /// What could be better, and how.
    pub(crate) remedies: Vec<String>,
}

/// Reads the machine and starts a small runtime.
pub(crate) fn run() -> Result<Info> {
    let (workers, worker_slack_ns, switches) = workers::try_out()?;
    let mut seen = Seen::here();
    seen.worker_timer_slack_ns = worker_slack_ns;
    Ok(Info::of(seen, workers, switches))
}

impl Info {
    fn of(seen: Seen, workers: Vec<WorkerFact>, switches: String) -> Self {
        Self {
            remedies: remedies(&seen, &workers),
            seen,
            workers,
            switches,
        }
    }
}

/// What could be better, most important first.
fn remedies(seen: &Seen, workers: &[WorkerFact]) -> Vec<String> {
    let mut all = Vec::new();
    if let Asked::Refused(why) = &seen.sched_fifo {
        all.push(fifo_remedy(seen, why));
    }
    if seen.rt_runtime_us == Some(0) {
        all.push(
            "sched_rt_runtime_us is 0: no thread may run before all others; write 950000 there"
                .to_owned(),
        );
    }
    if seen.short_slice != Asked::Given {
        all.push(
            "slices are not kept: they need Linux 6.12; without SCHED_FIFO urgent workers run like all \
             others until then"
                .to_owned(),
        );
    }
    if seen.clock == look::KERNEL_CLOCK {
        all.push(format!(
            "each look at the clock asks the kernel, whose clock source is {}; with `tsc` it takes a \
             third of the time",
            seen.kernel_clock_source.as_deref().unwrap_or("not known")
        ));
    }
    if let Some(quota) = seen.cpu_quota.filter(|quota| *quota < seen.cpus.len()) {
        all.push(format!(
            "the control group leaves time for {quota} of {} CPUs: a runtime has {quota} cores unless \
             told",
            seen.cpus.len()
        ));
    }
    let fair = workers.iter().filter(|worker| worker.class == "Fair");
    if fair
        .clone()
        .any(|worker| worker.got.as_deref() == Some("SCHED_IDLE"))
    {
        all.push(
            "this program runs under SCHED_IDLE and so do its Fair workers; start it from a shell that \
             does not"
                .to_owned(),
        );
    }
    all
}

/// Why `SCHED_FIFO` is not available, and what to do.
fn fifo_remedy(seen: &Seen, why: &str) -> String {
    let privileged =
        seen.cap_sys_nice == Some(true) || seen.rtprio_max.is_some_and(|most| most > 0);
    let remedy = if privileged {
        "the program has the privilege, so look whether its control group has a real-time share \
         (cpu.rt_runtime_us) and whether a filter forbids it (seccomp)"
    } else {
        "give the program CAP_SYS_NICE (`setcap cap_sys_nice+ep FILE`, `docker run --cap-add \
         SYS_NICE`), or a limit RLIMIT_RTPRIO of at least 10 (`ulimit -r 10`, limits.conf, LimitRTPRIO=)"
    };
    format!("SCHED_FIFO is refused ({why}): {remedy}")
}

#[cfg(test)]
mod tests;
