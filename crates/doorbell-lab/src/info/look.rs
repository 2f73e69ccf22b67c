//! What is read of the machine, and what the OS says when it is asked.

use std::fmt;
use std::fs;

use doorbell_machine::{Host, Machine, Policy, PolicyError, host::reads_tsc};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities, current_timer_slack};
use serde::Serialize;

/// The priority that urgent workers ask for, unless told otherwise.
const PRIORITY: u8 = 10;
/// How a clock that asks the kernel is named.
pub(super) const KERNEL_CLOCK: &str = "clock_gettime";

/// What the OS said when it was asked for a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// Yes, and it says so when it is asked again.
    Given,
    /// Yes, but it has something else.
    Ignored,
    /// No, and why.
    Refused(String),
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Given => f.write_str("yes"),
            Asked::Ignored => f.write_str("no: the OS takes it and forgets it"),
            Asked::Refused(why) => write!(f, "no: {why}"),
        }
    }
}

/// What was read and tried. `None` where there is no such file, or it says something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The CPUs of the affinity mask.
    pub cpus: Vec<usize>,
    /// How many CPUs the machine has.
    pub cpus_on_machine: usize,
    /// For how many CPUs the control groups leave time (`cpu.max`); `None` if they do not bound it.
    pub cpu_quota: Option<usize>,
    /// What a look at the clock reads.
    pub clock: &'static str,
    /// The kernel's own clock source.
    pub kernel_clock_source: Option<String>,
    /// Whether a thread may run before all others.
    pub sched_fifo: Asked,
    /// Whether a thread may have a slice of 100 µs.
    pub short_slice: Asked,
    /// Whether a thread may run where nobody else wants the CPU.
    pub sched_idle: Asked,
    /// Whether the program has the capability.
    pub cap_sys_nice: Option<bool>,
    /// The greatest priority without it (`RLIMIT_RTPRIO`).
    pub rtprio_max: Option<u64>,
    /// How long threads that run before all others may do so in a period; -1 for always.
    pub rt_runtime_us: Option<i64>,
    /// That period.
    pub rt_period_us: Option<i64>,
    /// By how much the kernel may delay the sleeps of an ordinary thread of this program.
    pub timer_slack_ns: Option<u64>,
    /// The same of a worker.
    pub worker_timer_slack_ns: Option<u64>,
}

impl Seen {
    /// Of the machine and the process as they are. What a worker has is not looked at.
    pub fn here() -> Self {
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
            // No limit at all is all priorities there are.
            rtprio_max: Some(getrlimit(Resource::Rtprio).current.unwrap_or(99)),
            timer_slack_ns: current_timer_slack().ok(),
            worker_timer_slack_ns: None,
            ..Self::of_files(|path| fs::read_to_string(path).ok())
        }
    }

    /// What the files say, and nothing else.
    pub(super) fn of_files(read: impl Fn(&str) -> Option<String>) -> Self {
        let line = |path: &str| {
            let text = read(path)?;
            Some(text.lines().next()?.trim().to_owned())
        };
        let number = |path: &str| line(path)?.parse().ok();
        Self {
            kernel: line("/proc/sys/kernel/osrelease"),
            cpus: Vec::new(),
            cpus_on_machine: 0,
            cpu_quota: None,
            clock: KERNEL_CLOCK,
            kernel_clock_source: line(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            sched_fifo: Asked::Ignored,
            short_slice: Asked::Ignored,
            sched_idle: Asked::Ignored,
            cap_sys_nice: None,
            rtprio_max: None,
            rt_runtime_us: number("/proc/sys/kernel/sched_rt_runtime_us"),
            rt_period_us: number("/proc/sys/kernel/sched_rt_period_us"),
            timer_slack_ns: None,
            worker_timer_slack_ns: None,
        }
    }
}

/// Asks the OS for a policy, made of what a thread of this program has, on a thread that ends.
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

/// What is known, or that nothing is.
pub(super) fn known(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "not known".to_owned(), ToString::to_string)
}
