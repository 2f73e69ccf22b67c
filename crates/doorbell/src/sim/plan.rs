//! The settings of a [`Builder`] on simulated cores.

use crate::builder::Cores;
use crate::rt::Plan;
use crate::{BuildError, Builder};

impl Builder {
    /// The number of cores, if it was given as a number.
    pub(super) fn count_of_cores(&self) -> Option<usize> {
        match &self.cores {
            Cores::Count(count) => Some(*count),
            Cores::All | Cores::List(_) => None,
        }
    }

    /// The plan for this many simulated cores, each bound to its CPU.
    ///
    /// # Errors
    /// [`BuildError::NotSimulated`] names a setting that a simulation cannot follow; and those of a build.
    pub(super) fn plan_simulated(self, cores: usize) -> Result<Plan, BuildError> {
        if let Some(setting) = self.not_simulated() {
            return Err(BuildError::NotSimulated { setting });
        }
        self.check()?;
        self.plan((0..cores).map(Some).collect(), cores)
    }

    /// The first setting that a simulation cannot follow.
    fn not_simulated(&self) -> Option<&'static str> {
        let (blocking, usual) = (&self.blocking, crate::blocking::BlockingPlan::default());
        let refused = [
            ("core_list", matches!(self.cores, Cores::List(_))),
            ("pin", self.pin == Some(false)),
            ("stack_size", self.stack_size.is_some()),
            // Each blocking closure has a simulated thread of its own.
            (
                "blocking_threads",
                blocking.threads_max != usual.threads_max,
            ),
            (
                "blocking_keep_alive",
                blocking.keep_alive != usual.keep_alive,
            ),
            // The thread that looks for stalls has always a timer, so no run would ever be without one.
            ("on_stall", !self.telemetry.hooks.stall.is_empty()),
            ("around_threads", !self.around.is_empty()),
        ];
        let first = refused.into_iter().find(|(_, is_set)| *is_set);
        first.map(|(setting, _)| setting)
    }
}
