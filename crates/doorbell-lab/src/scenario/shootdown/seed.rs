//! The second seed's own table, reproduced: interrupts and throughput with its change, normalised to its
//! baseline.
//!
//! Source: "smp: do not send IPI if `call_single_queue` not empty", Linux, April 2017 (vm-scalability's
//! case-swap-w-seq-mt with 88 threads on a two-node Broadwell EP). In the seed the calls flush TLBs and
//! interrupt running CPUs. Here they count, and a ring to a running worker is a system call that wakes no
//! thread.

use super::super::trial::Rated;
use crate::measure::{median, variation_percent};
use crate::report::{SideTable, figure, known};

/// The goal for the change, in per cent.
pub(super) const RINGS_GOAL_PERCENT: f64 = -80.0;

/// The seed's report of one figure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seed {
    what: &'static str,
    base: f64,
    patched: f64,
}

impl Seed {
    fn percent(self) -> f64 {
        percent_of(self.patched / self.base)
    }

    /// The change.
    pub(super) fn change(self) -> Change {
        Change {
            percent: Some(self.percent()),
        }
    }
}

/// The seed's interrupts.
pub(super) const INTERRUPTS: Seed = Seed {
    what: "interrupts.CAL",
    base: 819_388_170.0,
    patched: 92_214_434.666_666_67,
};
/// The seed's throughput.
pub(super) const THROUGHPUT: Seed = Seed {
    what: "vm-scalability.throughput",
    base: 5_051_472.0,
    patched: 5_991_764.333_333_333,
};

/// A line of the table.
struct Line {
    title: &'static str,
    metric: &'static str,
    seed: Option<Seed>,
    /// The goal for the change, in per cent.
    goal: Option<(&'static str, f64)>,
}

const LINES: [Line; 7] = [
    Line {
        title: "RES+CAL per 1,000 calls",
        metric: "interrupts_per_1k",
        seed: Some(INTERRUPTS),
        goal: None,
    },
    Line {
        title: "calls to all cores a second",
        metric: "calls_per_s",
        seed: Some(THROUGHPUT),
        goal: Some((">", 0.0)),
    },
    Line {
        title: "of them by threads",
        metric: "thread_calls_per_s",
        seed: None,
        goal: None,
    },
    Line {
        title: "of them by workers",
        metric: "worker_calls_per_s",
        seed: None,
        goal: None,
    },
    Line {
        title: "wake syscalls per 1,000 calls",
        metric: "rings_per_1k",
        seed: None,
        goal: Some(("<=", RINGS_GOAL_PERCENT)),
    },
    Line {
        title: "wake syscalls a second",
        metric: "rings_per_s",
        seed: None,
        goal: None,
    },
    Line {
        title: "all syscalls per 1,000 calls",
        metric: "syscalls_per_1k",
        seed: None,
        goal: None,
    },
];

fn percent_of(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

/// How a figure changed from the baseline, over the rounds that have it in both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Change {
    /// The median over the rounds.
    pub(super) percent: Option<f64>,
}

impl Change {
    pub(super) fn of(metric: &str, base: &Rated<'_>, on: &Rated<'_>) -> Self {
        let rounds = base.rounds.iter().zip(on.rounds);
        let ratios: Vec<f64> = rounds
            .filter_map(|(base, on)| Some(on.get(metric)? / base.get(metric)?))
            .filter(|ratio| ratio.is_finite())
            .collect();
        Self {
            percent: median(&ratios).map(percent_of),
        }
    }

    /// In words, such as "12.5 % fewer".
    pub(super) fn in_words(self) -> String {
        match self.percent {
            None => "an unknown number of".to_owned(),
            Some(percent) if percent < 0.0 => format!("{} % fewer", figure(-percent)),
            Some(percent) => format!("{} % more", figure(percent)),
        }
    }
}

/// A normalised value and its change, as in the seeds' tables.
fn normalised(percent: Option<f64>) -> String {
    percent.map_or_else(
        || known(None),
        |percent| format!("{:.2} [{percent:+.1}]", 1.0 + percent / 100.0),
    )
}

/// The two settings below each other, figure by figure.
pub(super) fn table(base: &Rated<'_>, on: &Rated<'_>) -> SideTable {
    let cells = |line: &Line, one: &Rated<'_>, change: Change, seed: [String; 2], goal: String| {
        vec![
            line.title.to_owned(),
            one.row.variant.clone(),
            known(median(&one.over_rounds(line.metric))),
            normalised(change.percent),
            known(variation(&one.over_rounds(line.metric))),
            seed[0].clone(),
            seed[1].clone(),
            goal,
        ]
    };
    let none = || [String::new(), String::new()];
    let rows = LINES.iter().flat_map(|line| {
        let unchanged = Change { percent: Some(0.0) };
        let of_seed = |value: fn(Seed) -> f64, percent: fn(Seed) -> f64| {
            line.seed.map_or_else(none, |seed| {
                let change = normalised(Some(percent(seed)));
                [format!("{} {}", seed.what, figure(value(seed))), change]
            })
        };
        let before = of_seed(|seed| seed.base, |_| 0.0);
        let after = of_seed(|seed| seed.patched, Seed::percent);
        let change = Change::of(line.metric, base, on);
        let goal = line.goal.map(|(sign, value)| format!("{sign} {value:.0}"));
        let goal = goal.unwrap_or_default();
        [
            cells(line, base, unchanged, before, String::new()),
            cells(line, on, change, after, goal),
        ]
    });
    SideTable {
        caption: "Seed \"do not send IPI if call_single_queue not empty\": normalised to its \
                  baseline [per cent changed]; fewer interrupts and wakes are better, and \
                  more calls",
        titles: vec![
            "figure",
            "doorbell",
            "measured",
            "normalised [%]",
            "CV %",
            "seed's figure",
            "seed [%]",
            "goal %",
        ],
        rows: rows.collect(),
    }
}

/// The coefficient of variation, if there is more than one round.
fn variation(values: &[f64]) -> Option<f64> {
    (values.len() > 1)
        .then(|| variation_percent(values))
        .flatten()
        .filter(|percent| percent.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_changes_are_those_that_it_states() {
        assert_eq!(format!("{:.1}", INTERRUPTS.percent()), "-88.7");
        assert_eq!(format!("{:+.1}", THROUGHPUT.percent()), "+18.6");
    }

    #[test]
    fn a_change_is_told_with_its_direction() {
        let words = |percent| Change { percent }.in_words();
        assert_eq!(words(Some(-88.7)), "88.7 % fewer");
        assert_eq!(words(Some(18.6)), "18.6 % more");
        assert_eq!(words(None), "an unknown number of");
        assert_eq!(normalised(Some(-88.7)), "0.11 [-88.7]");
        assert_eq!(normalised(None), "n/a");
    }

    #[test]
    fn a_single_round_does_not_vary() {
        assert_eq!(variation(&[5.0]), None);
        assert_eq!(variation(&[0.0, 0.0]), None);
        assert_eq!(variation(&[5.0, 5.0]), Some(0.0));
    }
}
