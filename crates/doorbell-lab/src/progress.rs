//! The progress of a run, on standard error if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that is drawn only between passes: it never ticks during a measurement.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    rounds: u32,
    /// The text before every message.
    place: String,
}

impl Progress {
    /// A bar for `rounds` rounds of `contestants` contestants, hidden unless standard error is a terminal.
    /// `place` names this part of a longer run.
    pub(crate) fn on_stderr(rounds: u32, contestants: usize, place: Option<&str>) -> Self {
        Self {
            rounds,
            place: place.map_or_else(String::new, |place| format!("{place}: ")),
            ..Self::steps_on_stderr(u64::from(rounds) * contestants as u64, "")
        }
    }

    /// A bar for a run of this many steps, counted in `unit`.
    pub(crate) fn steps_on_stderr(steps: u64, unit: &str) -> Self {
        let target = ProgressDrawTarget::stderr();
        let bar = ProgressBar::with_draw_target(Some(steps), target).with_prefix(unit.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {prefix} {msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            rounds: 0,
            place: String::new(),
        }
    }

    /// Shows what is done in this second or step.
    pub(crate) fn at_second(&self, second: u64, what: &str) {
        self.bar.set_position(second);
        self.say(what);
    }

    /// No bar at all.
    #[cfg(test)]
    pub(crate) fn hidden() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            rounds: 0,
            place: String::new(),
        }
    }

    /// Shows what is done before the first round.
    pub(crate) fn prepare(&self, what: &'static str) {
        self.say(&format!("{}{what}", self.place));
    }

    /// Shows which contestant runs.
    pub(crate) fn show(&self, round: u32, contestant: &str, variant: &str) {
        self.say(&format!(
            "{}round {} of {}: {contestant} ({variant})",
            self.place,
            round + 1,
            self.rounds
        ));
    }

    /// Shows what is done in the next step.
    pub(crate) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }

    /// Advances by one contestant's part of a round.
    pub(crate) fn advance(&self) {
        self.bar.inc(1);
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
