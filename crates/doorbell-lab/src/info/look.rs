//! What is read from the machine, and what the OS answers to requests.

use std::fs;

use doorbell_machine::{Host, Machine, Policy, PolicyError, host::reads_tsc};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities, current_timer_slack};
use serde::Serialize;

/// The priority that urgent workers request by default.
const PRIORITY: u8 = 10;
/// The name of a clock that asks the kernel.
pub(super) const KERNEL_CLOCK: &str = "clock_gettime";

/// The OS's answer to a request for a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Asked {
    /// Granted, and confirmed when read back.
    Given,
    /// Granted, but something else was read back.
    #[default]
    Ignored,
    /// Refused, with the reason.
    Refused(String),
}

/// What was read and tried. `None` if a file is missing or not as expected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Seen {
    /// The kernel's release.
    pub(crate) kernel: Option<String>,
    /// The CPUs of the affinity mask.
    pub(crate) cpus: Vec<usize>,
    /// How many CPUs the machine has.
    pub(crate) cpus_on_machine: usize,
    /// The number of CPUs that the control groups allow (`cpu.max`); `None` if they set no limit.
    pub(crate) cpu_quota: Option<usize>,
    /// The clock that the runtime reads.
    pub(crate) clock: &'static str,
    /// The kernel's own clock source.
    pub(crate) kernel_clock_source: Option<String>,
    /// Whether a thread may run before all others.
    pub(crate) sched_fifo: Asked,
    /// Whether a thread may have a slice of 100 µs.
    pub(crate) short_slice: Asked,
    /// Whether a thread may have the policy that runs only on otherwise idle CPUs.
    pub(crate) sched_idle: Asked,
    /// Whether the process has the capability.
    pub(crate) cap_sys_nice: Option<bool>,
    /// The greatest priority without that capability (`RLIMIT_RTPRIO`).
    pub(crate) rtprio_max: Option<u64>,
    /// How long real-time threads may run in a period; -1 for no limit.
    pub(crate) rt_runtime_us: Option<i64>,
    /// That period.
    pub(crate) rt_period_us: Option<i64>,
    /// By how much the kernel may delay the sleeps of an ordinary thread of this program.
    pub(crate) timer_slack_ns: Option<u64>,
    /// The same for a worker.
    pub(crate) worker_timer_slack_ns: Option<u64>,
}

impl Seen {
    /// Reads the machine and the process. Does not look at workers.
    pub(crate) fn here() -> Self {
        let cpus = Host::topology().cpus;
        let clock = if reads_tsc() { "TSC" } else { KERNEL_CLOCK };
        let sets = capabilities(None).ok();
        Self {
            cpus: cpus.iter().map(|cpu| cpu.os_id).collect(),
            cpus_on_machine: Host::cpu_count(),
            cpu_quota: Host::cpu_quota(),
            clock,
            sched_fifo: ask(|_| Policy::Fifo { priority: PRIORITY }),
            short_slice: ask(Policy::sooner),
            sched_idle: ask(|_| Policy::Idle),
            cap_sys_nice: sets.map(|sets| sets.effective.contains(CapabilitySet::SYS_NICE)),
            // Without a limit all priorities are allowed.
            rtprio_max: Some(getrlimit(Resource::Rtprio).current.unwrap_or(99)),
            timer_slack_ns: current_timer_slack().ok(),
            worker_timer_slack_ns: None,
            ..Self::of_files(|path| fs::read_to_string(path).ok())
        }
    }

    /// Fills in what the files say, and nothing else.
    pub(super) fn of_files(read: impl Fn(&str) -> Option<String>) -> Self {
        let line = |path: &str| {
            let text = read(path)?;
            Some(text.lines().next()?.trim().to_owned())
        };
        let number = |path: &str| line(path)?.parse().ok();
        Self {
            kernel: line("/proc/sys/kernel/osrelease"),
            clock: KERNEL_CLOCK,
            kernel_clock_source: line(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            rt_runtime_us: number("/proc/sys/kernel/sched_rt_runtime_us"),
            rt_period_us: number("/proc/sys/kernel/sched_rt_period_us"),
            ..Self::default()
        }
    }
}

/// Requests a policy, derived from this program's own, on a temporary thread.
fn ask(wanted: impl FnOnce(Policy) -> Policy + Send + 'static) -> Asked {
    let tried = std::thread::spawn(move || {
        let wanted = wanted(Host::policy()?);
        Host::set_policy(wanted)?;
        Ok::<_, PolicyError>(Host::policy()? == wanted)
    });
    match tried.join() {
        Ok(Ok(true)) => Asked::Given,
        Ok(Ok(false)) => Asked::Ignored,
        Ok(Err(PolicyError::Refused { source, .. } | PolicyError::Unknown { source })) => {
            Asked::Refused(source.to_string())
        }
        Err(_) => Asked::Refused("the thread that asked has panicked".to_owned()),
    }
}
