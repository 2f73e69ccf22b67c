//! The scenarios of `doorbell lab`, and what they share.
//!
//! A scenario names its contestants, its limit and its columns; the rounds are driven here.

mod busy;
mod call;
mod common;
mod contestant;
mod flood;
mod hosts;
pub(crate) mod http;
mod idle;
#[cfg(test)]
pub(crate) mod labels;
mod late;
mod limits;
mod options;
mod pingpong;
mod rank;
mod ranked;
mod rounds;
mod rt;
mod shootdown;
pub(crate) mod simulated;
mod slot;
mod spawn;
mod steps;
mod stuck;
mod summary;
mod timer_acc;
mod timer_cost;
mod timer_idle;
mod timer_sleepers;
mod timers;
mod trial;
mod urgent;
mod wake;
mod wake_counts;
mod wants;

use crate::error::LabError;
use crate::report::Report;
use crate::text::Text;

#[cfg(test)]
pub(crate) use contestant::Stage;
pub(crate) use options::{Effort, Options, SimOptions};

/// A scenario as the command line and the tour see it.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) text: Text,
    /// Which of the options that not all scenarios have.
    pub(crate) extras: &'static [&'static str],
    /// Its rounds in the tour, if it is part of it.
    pub(crate) tour_rounds: Option<u32>,
    pub(crate) run: fn(&Options) -> Result<Report, LabError>,
}

/// In the order of the tour.
pub(crate) const ALL: &[&Scenario] = &[
    &Scenario {
        name: "call",
        text: Text(include_str!("call.md")),
        extras: &["calls"],
        tour_rounds: Some(7),
        run: call::run,
    },
    &Scenario {
        name: "spawn",
        text: Text(include_str!("spawn.md")),
        extras: &[],
        tour_rounds: Some(7),
        run: spawn::run,
    },
    &Scenario {
        name: "flood",
        text: Text(include_str!("flood.md")),
        extras: &[],
        tour_rounds: Some(7),
        run: flood::run,
    },
    &Scenario {
        name: "shootdown",
        text: Text(include_str!("shootdown.md")),
        extras: &[],
        tour_rounds: Some(7),
        run: shootdown::run,
    },
    &Scenario {
        name: "idle",
        text: Text(include_str!("idle.md")),
        extras: &[],
        tour_rounds: Some(5),
        run: idle::run,
    },
    &Scenario {
        name: "timer-cost",
        text: Text(include_str!("timer_cost.md")),
        extras: &[],
        tour_rounds: Some(7),
        run: timer_cost::run,
    },
    &Scenario {
        name: "timer-acc",
        text: Text(include_str!("timer_acc.md")),
        extras: &[],
        tour_rounds: Some(7),
        run: timer_acc::run,
    },
    &Scenario {
        name: "timer-idle",
        text: Text(include_str!("timer_idle.md")),
        extras: &[],
        tour_rounds: Some(5),
        run: timer_idle::run,
    },
    &Scenario {
        name: "timer-sleepers",
        text: Text(include_str!("timer_sleepers.md")),
        extras: &[],
        tour_rounds: None,
        run: timer_sleepers::run,
    },
    &Scenario {
        name: "requests",
        text: Text(include_str!("requests.md")),
        extras: &[],
        tour_rounds: None,
        run: |_| {
            Err(LabError::OnlySimulated {
                scenario: "requests",
            })
        },
    },
    &Scenario {
        name: "urgent",
        text: Text(include_str!("urgent.md")),
        extras: &["unprivileged", "slices"],
        tour_rounds: Some(1),
        run: urgent::run,
    },
    &Scenario {
        name: "rank",
        text: Text(include_str!("rank.md")),
        extras: &["unprivileged"],
        tour_rounds: Some(2),
        run: rank::run,
    },
    &Scenario {
        name: "rt",
        text: Text(include_str!("rt.md")),
        extras: &["unprivileged", "period_us"],
        tour_rounds: Some(1),
        run: rt::run,
    },
    &Scenario {
        name: "wake",
        text: Text(include_str!("wake.md")),
        extras: &[],
        tour_rounds: Some(1),
        run: wake::run,
    },
    &Scenario {
        name: "pingpong",
        text: Text(include_str!("pingpong.md")),
        extras: &[],
        tour_rounds: Some(1),
        run: pingpong::run,
    },
    &Scenario {
        name: "stuck",
        text: Text(include_str!("stuck.md")),
        extras: &[],
        tour_rounds: Some(2),
        run: stuck::run,
    },
    &Scenario {
        name: "busy",
        text: Text(include_str!("busy.md")),
        extras: &["seconds"],
        tour_rounds: None,
        run: busy::run,
    },
    &Scenario {
        name: "http",
        text: Text(include_str!("http.md")),
        extras: &["unprivileged"],
        tour_rounds: None,
        run: http::run,
    },
];

/// The scenario of this name.
pub(crate) fn of_name(name: &str) -> Option<&'static Scenario> {
    ALL.iter().copied().find(|scenario| scenario.name == name)
}
