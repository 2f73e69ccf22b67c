//! The machine's own activity while this program waits.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use procfs::{CurrentSI as _, KernelStats};
use serde::Serialize;

use super::clock::timed;
use super::interrupts::interrupts;

/// The activity of the idle machine.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct IdleMachine {
    /// RES and CAL interrupts per second.
    #[serde(rename = "idle_interrupts_per_s")]
    pub(crate) interrupts_per_s: f64,
    /// The share of all CPUs that other programs, or the hypervisor, used.
    #[serde(rename = "idle_busy_percent")]
    pub(crate) busy_percent: f64,
}

impl IdleMachine {
    /// Waits for `span` and counts what happens.
    pub(crate) fn watch(span: Duration) -> Result<Self> {
        let before = interrupts()?;
        let time_before = CpuTime::read()?;
        let ((), slept) = timed(|| thread::sleep(span));
        let time_after = CpuTime::read()?;
        let both = before.zip(interrupts()?);
        let interrupts = both.map_or(0, |(before, after)| after.saturating_sub(before));
        Ok(Self {
            interrupts_per_s: interrupts as f64 / slept.as_secs_f64(),
            busy_percent: time_after.busy_percent_since(time_before),
        })
    }

    /// How many of `count` interrupts within `span` exceed those of the idle machine.
    pub(crate) fn excess_interrupts(self, count: u64, span: Duration) -> f64 {
        (count as f64 - self.interrupts_per_s * span.as_secs_f64()).max(0.0)
    }
}

/// The CPU time of all CPUs since the machine started, in the kernel's ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CpuTime {
    idle: u64,
    all: u64,
}

impl CpuTime {
    fn read() -> Result<Self> {
        let total = KernelStats::current()?.total;
        let waits = [total.iowait, total.irq, total.softirq, total.steal];
        let [iowait, others @ ..] = waits.map(Option::unwrap_or_default);
        let busy = total.user + total.nice + total.system + others.iter().sum::<u64>();
        let idle = total.idle + iowait;
        Ok(Self {
            idle,
            all: idle + busy,
        })
    }

    fn busy_percent_since(self, earlier: Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all);
        let idle = self.idle.saturating_sub(earlier.idle).min(all);
        100.0 * (all - idle) as f64 / all.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_rate_is_taken_off_and_never_goes_below_nothing() {
        let rest = IdleMachine {
            interrupts_per_s: 100.0,
            busy_percent: 0.0,
        };
        let half_second = Duration::from_millis(500);
        assert!((rest.excess_interrupts(80, half_second) - 30.0).abs() < 1e-9);
        assert!(rest.excess_interrupts(20, half_second).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_idle_is_busy() {
        let before = CpuTime {
            idle: 100,
            all: 200,
        };
        let after = CpuTime {
            idle: 175,
            all: 300,
        };
        assert!((after.busy_percent_since(before) - 25.0).abs() < 1e-9);
        assert!(before.busy_percent_since(before).abs() < 1e-9);
    }
}
