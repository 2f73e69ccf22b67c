//! The clock behind per-call timings.
//!
//! On a virtual machine the time-stamp counter costs about a third of `clock_gettime`, and a call across
//! cores can be as short as three reads of the latter. The counter is used only where the kernel trusts it,
//! that is, where the kernel's clock source is `tsc`.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use doorbell_machine::{Host, Machine};
use serde::Serialize;

/// How long the counter is compared with the kernel's clock.
const CALIBRATION: Duration = Duration::from_millis(50);
/// How many consecutive reads determine the overhead.
const OVERHEAD_READS: u32 = 2_000;
/// The file with the name of the kernel's clock source.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// A moment, in the clock's own unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

/// A calibrated clock. Copy it into the threads that need it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Clock {
    /// `tsc` or `clock_gettime`.
    #[serde(rename = "clock")]
    pub(crate) name: &'static str,
    #[serde(skip)]
    is_tsc: bool,
    #[serde(skip)]
    ns_per_tick: f64,
    /// What the two reads around a call add to its time. It is reported, never subtracted.
    #[serde(rename = "clock_overhead_ns")]
    pub(crate) overhead_ns: f64,
    /// The least difference between two readings. Some counters advance in steps: on AMD's Zen the
    /// time-stamp counter advances 100 million times a second, by about 26 each time.
    #[serde(rename = "clock_step_ns")]
    pub(crate) step_ns: f64,
}

impl Clock {
    /// Chooses the source, calibrates it for about 50 ms and measures what one timing costs.
    pub(crate) fn calibrated() -> Self {
        let trusted =
            cfg!(target_arch = "x86_64") && kernel_clock_source().as_deref() == Some("tsc");
        let (name, ns_per_tick) = if trusted {
            ("tsc", tsc_ns_per_tick())
        } else {
            ("clock_gettime", 1.0)
        };
        let mut clock = Self {
            name,
            is_tsc: trusted,
            ns_per_tick,
            overhead_ns: 0.0,
            step_ns: 0.0,
        };
        clock.overhead_ns = clock.measured_overhead_ns();
        clock.step_ns = clock.measured_step_ns();
        clock
    }

    /// The time now. All earlier reads are done, and no later write is visible to other CPUs yet.
    #[inline(always)]
    pub(crate) fn now(&self) -> Tick {
        Tick(if self.is_tsc {
            read_tsc()
        } else {
            monotonic_ns()
        })
    }

    /// The time from `start` to `end`; 0 if `end` is earlier.
    #[inline(always)]
    pub(crate) fn ns_between(&self, start: Tick, end: Tick) -> u64 {
        (end.0.saturating_sub(start.0) as f64 * self.ns_per_tick).round() as u64
    }

    /// The greatest common divisor of many differences.
    fn measured_step_ns(&self) -> f64 {
        let mut before = self.now();
        let ticks = (0..OVERHEAD_READS).fold(0, |divisor, _| {
            let now = self.now();
            let difference = now.0.saturating_sub(before.0);
            before = now;
            greatest_common_divisor(divisor, difference)
        });
        ticks as f64 * self.ns_per_tick
    }

    fn measured_overhead_ns(&self) -> f64 {
        // The mean of a run of reads is finer than one tick. The minimum over the runs is undisturbed.
        let runs = (0..16).map(|_| {
            let start = self.now();
            for _ in 1..OVERHEAD_READS {
                std::hint::black_box(self.now());
            }
            let end = self.now();
            self.ns_between(start, end) as f64 / f64::from(OVERHEAD_READS)
        });
        runs.fold(f64::INFINITY, f64::min)
    }
}

/// The name of the kernel's clock source, if it can be read.
pub(super) fn kernel_clock_source() -> Option<String> {
    Some(fs::read_to_string(CLOCK_SOURCE).ok()?.trim().to_owned())
}

fn monotonic_ns() -> u64 {
    Host::os_now_ns()
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn read_tsc() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 CPU has both instructions, and neither accesses memory.
    unsafe {
        // The fence keeps the counter from being read before earlier loads are done. No fence is needed
        // after it: a request is a store, and other CPUs see a store only after all instructions before it
        // are done.
        _mm_lfence();
        _rdtsc()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_tsc() -> u64 {
    monotonic_ns()
}

/// Compares the counter with the kernel's clock over [`CALIBRATION`].
fn tsc_ns_per_tick() -> f64 {
    let (ns_before, tick_before) = paired_reading();
    thread::sleep(CALIBRATION);
    let (ns_after, tick_after) = paired_reading();
    let ticks = tick_after.saturating_sub(tick_before).max(1);
    (ns_after - ns_before) as f64 / ticks as f64
}

/// Reads both clocks at one moment: of several tries, the shortest.
fn paired_reading() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..32 {
        let before = read_tsc();
        let ns = monotonic_ns();
        let after = read_tsc();
        let width = after.saturating_sub(before);
        if width < best.0 {
            best = (width, ns, before + width / 2);
        }
    }
    (best.1, best.2)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

/// Runs `work`. Returns its result and its duration, for durations of at least milliseconds.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = work();
    (value, start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_scaled_and_never_negative() {
        let clock = Clock {
            name: "tsc",
            is_tsc: true,
            ns_per_tick: 0.5,
            overhead_ns: 0.0,
            step_ns: 0.0,
        };
        assert_eq!(clock.ns_between(Tick(100), Tick(300)), 100);
        assert_eq!(clock.ns_between(Tick(300), Tick(100)), 0);
    }

    #[test]
    fn the_step_divides_every_difference() {
        assert_eq!(
            [0, 52, 78, 130]
                .into_iter()
                .fold(0, greatest_common_divisor),
            26
        );
        assert_eq!([52, 53].into_iter().fold(0, greatest_common_divisor), 1);
    }

    #[test]
    fn a_calibrated_clock_does_not_run_backwards() {
        let clock = Clock::calibrated();
        let start = clock.now();
        let end = clock.now();
        assert!(start <= end);
        assert!(clock.ns_per_tick > 0.0);
    }
}
