//! The progress of a run, on standard error if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that is drawn only between passes: it never ticks during a measurement.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar for a run of this many steps, hidden unless standard error is a terminal. `what` is their unit, or the part of a
    /// longer run.
    pub(crate) fn on_stderr(steps: u64, what: &str) -> Self {
        let target = ProgressDrawTarget::stderr();
        let bar = ProgressBar::with_draw_target(Some(steps), target).with_prefix(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {prefix} {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// No bar at all.
    #[cfg(test)]
    pub(crate) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Shows what is done in this step.
    pub(crate) fn at(&self, step: u64, what: &str) {
        self.0.set_position(step);
        self.say(what);
    }

    /// Shows what is done in the next step.
    pub(crate) fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    /// Advances by a step, such as one contestant's part of a round.
    pub(crate) fn advance(&self) {
        self.0.inc(1);
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
