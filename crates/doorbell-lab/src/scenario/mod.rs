//! The scenarios of `doorbell lab`, and what they share.
//!
//! A scenario is a plan, which `frame` runs, and a text.

pub(crate) mod busy;
mod call;
mod flood;
pub(crate) mod http;
mod idle;
mod options;
mod pingpong;
mod rank;
mod rt;
mod shootdown;
pub(crate) mod simulated;
mod spawn;
mod stuck;
mod timer_acc;
mod timer_cost;
mod timer_idle;
mod timer_sleepers;
mod urgent;
mod wake;

use crate::error::LabError;
use crate::frame::{self, Plan};
use crate::report::Report;
use crate::text::Text;

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
    /// `None` if it runs on simulated machines only.
    pub(crate) plan: Option<&'static Plan>,
}

/// In the order of the tour.
pub(crate) const ALL: &[&Scenario] = &[
    &Scenario {
        name: "call",
        text: Text(include_str!("call.md")),
        extras: &["calls"],
        tour_rounds: Some(7),
        plan: Some(&call::PLAN),
    },
    &Scenario {
        name: "spawn",
        text: Text(include_str!("spawn.md")),
        extras: &[],
        tour_rounds: Some(7),
        plan: Some(&spawn::PLAN),
    },
    &Scenario {
        name: "flood",
        text: Text(include_str!("flood.md")),
        extras: &[],
        tour_rounds: Some(7),
        plan: Some(&flood::PLAN),
    },
    &Scenario {
        name: "shootdown",
        text: Text(include_str!("shootdown.md")),
        extras: &[],
        tour_rounds: Some(7),
        plan: Some(&shootdown::PLAN),
    },
    &Scenario {
        name: "idle",
        text: Text(include_str!("idle.md")),
        extras: &[],
        tour_rounds: Some(5),
        plan: Some(&idle::PLAN),
    },
    &Scenario {
        name: "timer-cost",
        text: Text(include_str!("timer_cost.md")),
        extras: &[],
        tour_rounds: Some(7),
        plan: Some(&timer_cost::PLAN),
    },
    &Scenario {
        name: "timer-acc",
        text: Text(include_str!("timer_acc.md")),
        extras: &[],
        tour_rounds: Some(7),
        plan: Some(&timer_acc::PLAN),
    },
    &Scenario {
        name: "timer-idle",
        text: Text(include_str!("timer_idle.md")),
        extras: &[],
        tour_rounds: Some(5),
        plan: Some(&timer_idle::PLAN),
    },
    &Scenario {
        name: "timer-sleepers",
        text: Text(include_str!("timer_sleepers.md")),
        extras: &[],
        tour_rounds: None,
        plan: Some(&timer_sleepers::PLAN),
    },
    &Scenario {
        name: "requests",
        text: Text(include_str!("requests.md")),
        extras: &[],
        tour_rounds: None,
        plan: None,
    },
    &Scenario {
        name: "urgent",
        text: Text(include_str!("urgent.md")),
        extras: &["unprivileged", "slices"],
        tour_rounds: Some(1),
        plan: Some(&urgent::PLAN),
    },
    &Scenario {
        name: "rank",
        text: Text(include_str!("rank.md")),
        extras: &["unprivileged"],
        tour_rounds: Some(2),
        plan: Some(&rank::PLAN),
    },
    &Scenario {
        name: "rt",
        text: Text(include_str!("rt.md")),
        extras: &["unprivileged", "period_us"],
        tour_rounds: Some(1),
        plan: Some(&rt::PLAN),
    },
    &Scenario {
        name: "wake",
        text: Text(include_str!("wake.md")),
        extras: &[],
        tour_rounds: Some(1),
        plan: Some(&wake::PLAN),
    },
    &Scenario {
        name: "pingpong",
        text: Text(include_str!("pingpong.md")),
        extras: &[],
        tour_rounds: Some(1),
        plan: Some(&pingpong::PLAN),
    },
    &Scenario {
        name: "stuck",
        text: Text(include_str!("stuck.md")),
        extras: &[],
        tour_rounds: Some(2),
        plan: Some(&stuck::PLAN),
    },
    &Scenario {
        name: "busy",
        text: Text(include_str!("busy.md")),
        extras: &["seconds"],
        tour_rounds: None,
        plan: Some(&busy::PLAN),
    },
    &Scenario {
        name: "http",
        text: Text(include_str!("http.md")),
        extras: &["unprivileged"],
        tour_rounds: None,
        plan: Some(&http::PLAN),
    },
];

/// The scenario of this name.
pub(crate) fn of_name(name: &str) -> Option<&'static Scenario> {
    ALL.iter().copied().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// Runs it on this host.
    pub(crate) fn run(&self, options: &Options) -> Result<Report, LabError> {
        let plan = self.plan.ok_or(LabError::OnlySimulated {
            scenario: self.name,
        })?;
        frame::run(plan, options)
    }
}
