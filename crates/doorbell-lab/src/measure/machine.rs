//! The machine on which the figures were taken.

use std::fmt;
use std::fs;

use anyhow::Result;
use procfs::{CpuInfo, Current as _};
use serde::Serialize;

use super::clock::{Clock, kernel_clock_source};
use super::cpu::{Placement, allowed_cpus};
use super::idle_machine::IdleMachine;

/// From this share on the CPUs count as busy with other programs.
const BUSY_PERCENT: f64 = 10.0;

/// The machine and the instruments.
#[derive(Debug, Clone, Serialize)]
#[expect(clippy::struct_field_names, reason = "it is the name in the JSON")]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) cpu_model: String,
    /// Whether it is a virtual machine.
    pub(crate) virtual_machine: bool,
    /// The CPUs this process may use.
    pub(crate) cpus_allowed: Vec<usize>,
    /// The CPUs of callers and callees.
    #[serde(flatten)]
    pub(crate) placement: Placement,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// The kernel's clock source.
    pub(crate) kernel_clock_source: String,
    /// The kernel's idle driver and governor.
    pub(crate) idle: String,
    /// The clock that timed the calls.
    #[serde(flatten)]
    pub(crate) clock: Clock,
    /// The machine without load.
    #[serde(flatten)]
    pub(crate) rest: IdleMachine,
}

impl Machine {
    /// Describes this machine.
    pub(crate) fn describe(clock: Clock, placement: Placement, rest: IdleMachine) -> Result<Self> {
        let (cpu_model, virtual_machine) = processor();
        Ok(Self {
            cpu_model,
            virtual_machine,
            cpus_allowed: allowed_cpus()?,
            placement,
            kernel: line_of("/proc/sys/kernel/osrelease"),
            kernel_clock_source: kernel_clock_source().unwrap_or_else(unknown),
            idle: idle_driver(),
            clock,
            rest,
        })
    }

    /// Whether other programs, or the hypervisor, kept much of the CPUs busy just before the run.
    pub(crate) fn was_busy(&self) -> bool {
        self.rest.busy_percent > BUSY_PERCENT
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Placement {
            caller_cpu,
            callee_cpu,
            smt_siblings,
        } = self.placement;
        let text = |is_so, text| if is_so { text } else { "" };
        write!(
            out,
            "{}{}, Linux {}, idle {}; caller on CPU {caller_cpu}, callee on CPU {callee_cpu}{}, \
             of {} allowed; clock {} (adds {:.0} ns to each time); without load {:.0} RES+CAL/s, \
             CPUs {:.0} % busy",
            self.cpu_model,
            text(self.virtual_machine, " (virtual machine)"),
            self.kernel,
            self.idle,
            text(smt_siblings, ", SMT siblings of one core"),
            self.cpus_allowed.len(),
            self.clock.name,
            self.clock.overhead_ns,
            self.rest.interrupts_per_s,
            self.rest.busy_percent,
        )
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The text of a file of one line.
pub(crate) fn line_of(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| unknown(), |text| text.trim().to_owned())
}

/// The kernel's idle driver and governor.
pub(crate) fn idle_driver() -> String {
    let cpuidle = |file| line_of(&format!("/sys/devices/system/cpu/cpuidle/current_{file}"));
    format!("{}/{}", cpuidle("driver"), cpuidle("governor"))
}

/// The processor's name, and whether it is a virtual one.
pub(crate) fn processor() -> (String, bool) {
    let info = CpuInfo::current().ok();
    let field = |name| info.as_ref()?.get_field(0, name);
    let mut names = ["model name", "Model", "CPU part"].into_iter();
    let model = names.find_map(field).map(str::to_owned);
    let mut flags = field("flags").unwrap_or_default().split_whitespace();
    let is_virtual = flags.any(|flag| flag == "hypervisor");
    (model.unwrap_or_else(unknown), is_virtual)
}
