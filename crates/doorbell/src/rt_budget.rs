//! [`Builder::rt_budget`]: how much CPU time an Rt worker may use.

use crate::builder::{BuildError, Builder};
use doorbell_core::worker::RunBudget;
use std::time::Duration;

const SHARE: f64 = 0.95;
const PERIOD: Duration = Duration::from_millis(100);

/// A throttled worker does not notice new work, so the period bounds how long that may last.
const PERIOD_MAX: Duration = Duration::from_secs(1);
/// A few per cent of a shorter period would be too short to sleep.
const PERIOD_MIN: Duration = Duration::from_millis(1);

/// The values that the builder was given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtBudget {
    share: f64,
    period: Duration,
}

impl Default for RtBudget {
    fn default() -> Self {
        RtBudget {
            share: SHARE,
            period: PERIOD,
        }
    }
}

impl RtBudget {
    /// The budget of each worker in nanoseconds; `None` if the share is the whole period. Where there are more cores
    /// than CPUs, the share of a CPU is divided among its workers.
    ///
    /// # Errors
    /// [`BuildError::RtBudget`] and [`BuildError::RtPeriod`] for values out of range.
    pub(crate) fn check(self, cores: usize, cpus: usize) -> Result<Option<RunBudget>, BuildError> {
        let RtBudget { share, period } = self;
        if !(share > 0.0 && share <= 1.0) {
            return Err(BuildError::RtBudget { share });
        }
        if !(PERIOD_MIN..=PERIOD_MAX).contains(&period) {
            return Err(BuildError::RtPeriod { period });
        }
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let of_cpu_ns = (share * period_ns as f64) as u64;
        let of_worker = cpus.min(cores) as f64 / cores as f64;
        let run_ns = (of_cpu_ns as f64 * of_worker) as u64;
        Ok((of_cpu_ns < period_ns).then_some(RunBudget {
            run_ns: run_ns.max(1),
            period_ns,
        }))
    }
}

impl Builder {
    /// Sets which share of each CPU and period the Rt workers may run, if they have obtained `SCHED_FIFO`. The
    /// default is 0.95 of 100 ms. A share of 1 is no limit. [`Builder::build`] reports wrong values.
    ///
    /// A worker has the share of one CPU. If the runtime has more cores than the affinity mask has CPUs, it has as
    /// much less: with four cores on two CPUs, a share of 0.5 is 0.25 of each period for each Rt worker, also while
    /// the other workers do nothing. Measured on two CPUs, with a share of 0.5 of 20 ms and Rt tasks that always
    /// compute: one core left 0.75 of all CPU time to others, and two, four and eight cores left 0.50. A program with a
    /// busy thread on each CPU got 0.69, and 0.46 (`DOORBELL_SHARE_SECONDS=5 cargo test -p doorbell --test rt_share --
    /// --nocapture`; Linux 6.18).
    ///
    /// The worker checks its budget between polls. When the time of a period is used up and there is more to
    /// do, the worker is throttled: it sleeps to the end of the period. So a mistake in an Rt task does not
    /// take a CPU from all other threads for good. Meanwhile other Rt workers may take its tasks; pinned
    /// tasks and calls wait. The end of the runtime and a switch of the core
    /// ([`Handle::core_offline`](crate::Handle::core_offline)) end the sleep. [`WorkerCounts::throttles`](crate::metrics::raw::WorkerCounts) and `throttled_ns` count this.
    ///
    /// Contract: *the worker has obtained `SCHED_FIFO` ([`Handle::policies`](crate::Handle::policies)), and
    /// no poll or call on it takes as long as share × period ⇒ in n successive periods it runs at most n ×
    /// share × period, one poll more, and one for each switch of its core; it is never throttled for more than a period at a time, and runs in
    /// between.* Time is wall time, so the time of threads with a higher priority counts too.
    ///
    /// Inside a poll the budget is not checked. There the kernel's fair server acts (since Linux 6.12;
    /// before, the real-time throttle): by default it leaves other threads 5 per cent of each second. A
    /// worker that did not obtain `SCHED_FIFO` has no limit: the OS shares the CPU then.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = doorbell::Builder::new().cores(1).rt_budget(0.5, Duration::from_millis(10)).build()?;
    /// let refused = doorbell::Builder::new().rt_budget(0.0, Duration::from_millis(10)).build();
    /// assert!(matches!(refused, Err(doorbell::BuildError::RtBudget { .. })));
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    #[must_use]
    pub fn rt_budget(mut self, share: f64, period: Duration) -> Self {
        self.rt_budget = RtBudget { share, period };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{PERIOD, RtBudget};
    use crate::BuildError;
    use doorbell_core::worker::RunBudget;
    use std::time::Duration;

    #[test]
    fn shares_and_periods_that_cannot_be_are_refused() {
        for share in [0.0, -0.5, 1.000_1, f64::NAN, f64::INFINITY] {
            let period = PERIOD;
            let refused = RtBudget { share, period }.check(1, 1).unwrap_err();
            assert!(matches!(refused, BuildError::RtBudget { .. }));
            assert!(refused.to_string().contains("at most 1"), "{refused}");
        }
        let too_long = Duration::from_millis(1_001);
        for period in [Duration::ZERO, Duration::from_micros(999), too_long] {
            let refused = RtBudget { share: 0.5, period }.check(1, 1).unwrap_err();
            assert!(matches!(refused, BuildError::RtPeriod { .. }));
            assert!(refused.to_string().contains("1 ms to 1 s"), "{refused}");
        }
    }

    #[test]
    fn r13_a_share_is_so_many_nanoseconds_of_each_cpu() {
        let of = |share, period| RtBudget { share, period }.check(1, 1).unwrap();
        let run_ns = |share, period| of(share, period).map(|RunBudget { run_ns, .. }| run_ns);
        assert_eq!(run_ns(0.95, PERIOD), Some(95_000_000));
        assert_eq!(run_ns(1.0, PERIOD), None);
        assert_eq!(run_ns(f64::MIN_POSITIVE, PERIOD), Some(1));
        assert_eq!(run_ns(0.5, Duration::from_secs(1)), Some(500_000_000));
        let of_worker = |share, cores, cpus| {
            let period = PERIOD;
            let budget = RtBudget { share, period }.check(cores, cpus).unwrap();
            budget.map(|budget| budget.run_ns)
        };
        assert_eq!(of_worker(0.5, 4, 2), Some(25_000_000));
        assert_eq!(of_worker(0.5, 2, 2), Some(50_000_000));
        assert_eq!(of_worker(0.5, 2, 4), Some(50_000_000));
        assert_eq!(of_worker(1.0, 4, 2), None);
        let unless_told = RtBudget::default().check(1, 1).unwrap().unwrap();
        assert_eq!(
            (unless_told.run_ns, unless_told.period_ns),
            (95_000_000, 100_000_000)
        );
    }
}
