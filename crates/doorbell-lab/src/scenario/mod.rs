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
pub(crate) mod seeds;
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

use crate::frame::{self, Plan};
use crate::report::Report;
use crate::text::Text;
use anyhow::{Context as _, Result};

pub(crate) use options::Options;

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

/// A scenario, with the text beside its module.
macro_rules! scenario {
    ($module:ident, $tour_rounds:expr $(, $extra:literal)*) => {
        &Scenario {
            extras: &[$($extra),*],
            tour_rounds: $tour_rounds,
            plan: Some(&$module::PLAN),
            ..simulated_only($module::PLAN.scenario, include_str!(concat!(stringify!($module), ".md")))
        }
    };
}

/// A scenario without a plan of its own for this host.
const fn simulated_only(name: &'static str, text: &'static str) -> Scenario {
    Scenario {
        name,
        text: Text(text),
        extras: &[],
        tour_rounds: None,
        plan: None,
    }
}

/// In the order of the tour.
pub(crate) const ALL: &[&Scenario] = &[
    scenario!(call, Some(7), "calls"),
    scenario!(spawn, Some(7)),
    scenario!(flood, Some(7)),
    scenario!(shootdown, Some(7)),
    scenario!(idle, Some(5)),
    scenario!(timer_cost, Some(7)),
    scenario!(timer_acc, Some(7)),
    scenario!(timer_idle, Some(5)),
    scenario!(timer_sleepers, None),
    &simulated_only("requests", include_str!("requests.md")),
    scenario!(urgent, Some(1), "unprivileged"),
    scenario!(rank, Some(2), "unprivileged"),
    scenario!(rt, Some(1), "unprivileged", "period_us"),
    scenario!(wake, Some(1)),
    scenario!(pingpong, Some(1)),
    scenario!(stuck, Some(2)),
    scenario!(busy, None, "seconds"),
    scenario!(http, None, "unprivileged", "seconds"),
    &simulated_only("kernel", include_str!("kernel.md")),
    &simulated_only("scale", include_str!("scale.md")),
    &simulated_only(seeds::NAME, seeds::TEXT.0),
];

/// The scenario of this name.
pub(crate) fn of_name(name: &str) -> Option<&'static Scenario> {
    ALL.iter().copied().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// Runs it on this host.
    pub(crate) fn run(&self, options: &Options) -> Result<Report> {
        let plan = self.plan.with_context(|| {
            let name = self.name;
            format!(
                "`{name}` is measured on simulated machines only: name one, for example --sim zen3-2x64"
            )
        })?;
        frame::run(plan, options)
    }
}
