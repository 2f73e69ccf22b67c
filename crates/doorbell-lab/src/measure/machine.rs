//! The machine on which the figures were taken.

use std::fmt;
use std::fs;

use anyhow::Result;
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
            self.clock.name(),
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
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    (cpu_model(&cpu_info), is_virtual(&cpu_info))
}

/// The processor's name, from the first line of `/proc/cpuinfo` that has it.
fn cpu_model(cpu_info: &str) -> String {
    let named = |key: &str| {
        let line = cpu_info.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    named("model name")
        .or_else(|| named("Model"))
        .or_else(|| named("CPU part"))
        .unwrap_or_else(unknown)
}

fn is_virtual(cpu_info: &str) -> bool {
    let flags = cpu_info.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU_INFO: &str = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\
                            flags\t\t: fpu tsc hypervisor lahf_lm\n";

    #[test]
    fn the_processor_is_named() {
        assert_eq!(cpu_model(CPU_INFO), "AMD EPYC");
        assert_eq!(cpu_model(""), "unknown");
    }

    #[test]
    fn a_hypervisor_is_a_flag() {
        assert!(is_virtual(CPU_INFO));
        assert!(!is_virtual("flags\t: fpu tsc hypervisors\n"));
        assert!(!is_virtual(""));
    }
}
