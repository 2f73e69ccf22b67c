//! The two output forms: table and JSON.

use std::fmt::Write as _;

use super::look::known;
use super::{Info, Seen};

/// The width of the name column.
const NAMES: usize = 22;

impl Info {
    /// The table.
    pub(crate) fn to_table(&self) -> String {
        let mut text = String::new();
        let mut put = |name: &str, value: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<NAMES$}{value}");
        };
        for (name, value) in self.seen.facts() {
            put(name, &value);
        }
        for (place, worker) in self.workers.iter().enumerate() {
            let name = if place == 0 { "workers" } else { "" };
            let got = known(worker.got.as_ref());
            let instead = if worker.is_as_wanted {
                String::new()
            } else {
                format!(" in place of {}", worker.wanted)
            };
            let value = format!("{:<6}core {}: {got}{instead}", worker.class, worker.core);
            put(name, &value);
        }
        put("switches", &self.switches);
        if self.remedies.is_empty() {
            put("to be better", "nothing");
        }
        for (place, remedy) in self.remedies.iter().enumerate() {
            put(if place == 0 { "to be better" } else { "" }, remedy);
        }
        text
    }
}

impl Seen {
    fn facts(&self) -> Vec<(&'static str, String)> {
        let cpus: Vec<_> = self.cpus.iter().map(usize::to_string).collect();
        let quota = match self.cpu_quota {
            Some(1) => "time for 1 CPU".to_owned(),
            Some(cpus) => format!("time for {cpus} CPUs"),
            None => "no bound".to_owned(),
        };
        let throttled = match (self.rt_runtime_us, self.rt_period_us) {
            (Some(-1), _) => "never".to_owned(),
            (Some(runtime), Some(period)) => format!("after {runtime} us of each {period} us"),
            _ => known(None::<&i64>),
        };
        let slack = |ns: Option<u64>| ns.map(|ns| format!("{ns} ns"));
        vec![
            ("kernel", known(self.kernel.as_ref())),
            (
                "CPUs",
                format!("{} of {}", cpus.join(", "), self.cpus_on_machine),
            ),
            ("control groups", quota),
            (
                "clock",
                format!(
                    "{} (the kernel's own: {})",
                    self.clock,
                    known(self.kernel_clock_source.as_ref())
                ),
            ),
            ("SCHED_FIFO", self.sched_fifo.to_string()),
            ("slice of 100 us", self.short_slice.to_string()),
            ("SCHED_IDLE", self.sched_idle.to_string()),
            (
                "CAP_SYS_NICE",
                known(
                    self.cap_sys_nice
                        .map(|has| if has { "yes" } else { "no" })
                        .as_ref(),
                ),
            ),
            ("RLIMIT_RTPRIO", known(self.rtprio_max.as_ref())),
            ("SCHED_FIFO is stopped", throttled),
            (
                "timer slack",
                format!(
                    "{}; of a worker {}",
                    known(slack(self.timer_slack_ns).as_ref()),
                    known(slack(self.worker_timer_slack_ns).as_ref())
                ),
            ),
        ]
    }
}
