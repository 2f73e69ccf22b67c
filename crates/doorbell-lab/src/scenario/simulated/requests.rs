//! `requests`: clients that make requests of servers under timeouts, on simulated machines. It has dbench's shape.

use doorbell_sim::bench::requests::{Figures, Shape, run};
use doorbell_sim::profile::Profile;

use super::{Baseline, Case, Plan, TIMER_PULL, chart, measure, per, reject, settings};
use crate::error::LabError;
use crate::report::{Column, Metrics, Row, known};

/// The numbers of pairs, as in the kernel patch's table of dbench.
const PAIRS: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
const WORKERS_MIN: usize = 2;
/// How long operations of one pair count. That of more pairs is as much shorter, so that all rows have about as many
/// operations; but no longer than some timeouts, and not so short that few of a pair count.
const SPAN_NS: u64 = 100_000_000;
const SPAN_MIN_NS: u64 = 3_000_000;

pub(super) fn plan(profile: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    let workers = workers.unwrap_or(profile.spec().cpus());
    if workers < WORKERS_MIN {
        return Err(reject("requests", "needs at least 2 workers", workers));
    }
    Ok(Plan {
        scenario: "requests",
        settings: settings(TIMER_PULL),
        cases: PAIRS.map(|pairs| case(pairs, workers)).into(),
        baseline: Some(Baseline {
            setting: "timer_pull=base",
            metric: "ops_per_s",
            ratio: "ratio_x",
        }),
        columns: columns(),
        chart: chart(
            "Operations per second of simulated time (log scale)",
            "ops/s",
            [("ops/s", "ops_per_s"), ("least", "ops_min_per_s")],
        ),
        gist,
    })
}

fn case(pairs: usize, workers: usize) -> Case {
    let shape = Shape {
        pairs,
        workers,
        span_ns: (SPAN_NS / pairs as u64).max(SPAN_MIN_NS),
    };
    Case {
        variant: format!("{pairs} {}", if pairs == 1 { "pair" } else { "pairs" }),
        workers,
        measure: measure(run, shape, Figures::add, metrics),
    }
}

fn metrics(figures: &Figures) -> Metrics {
    let mut metrics = Metrics::default();
    let ended: u64 = figures.ended.iter().sum();
    let rate = |ended: u64, runs: u64| per(ended * runs * 1_000_000_000, figures.span_ns);
    let runs = figures.ended.len() as u64;
    metrics.put("ops_per_s", rate(ended, 1));
    let least = figures.ended.iter().min().copied();
    metrics.put("ops_min_per_s", least.and_then(|ended| rate(ended, runs)));
    let most = figures.ended.iter().max().copied();
    metrics.put("ops_max_per_s", most.and_then(|ended| rate(ended, runs)));
    metrics.put("timeouts_per_1k", per(1_000 * figures.timeouts, ended));
    let late_ns = per(figures.late_ns, figures.thinks);
    metrics.put("late_us", late_ns.map(|ns| ns / 1_000.0));
    metrics.put("rings_per_op", per(figures.rings, ended));
    metrics.put("pulled_per_1k", per(1_000 * figures.pulled, ended));
    metrics.put("placed_per_1k", per(1_000 * figures.placed, ended));
    metrics.put("ops_count", Some(ended as f64));
    metrics
}

fn columns() -> Vec<Column> {
    let figure = Column::figure;
    vec![
        figure("ops/s", "ops_per_s"),
        Column::spread("ops/s spread", "ops_min_per_s", "ops_max_per_s"),
        figure("x base", "ratio_x"),
        figure("timeouts/1k", "timeouts_per_1k"),
        figure("late us", "late_us"),
        figure("rings", "rings_per_op"),
        figure("pulled/1k", "pulled_per_1k"),
        figure("placed/1k", "placed_per_1k"),
    ]
}

fn gist(rows: &[Row]) -> String {
    let on = rows.iter().filter(|row| row.contestant.ends_with("=on"));
    let ratios = on.filter_map(|row| Some((row.metrics.get("ratio_x")?, row)));
    let worst = ratios.min_by(|(one, _), (other, _)| one.total_cmp(other));
    worst.map_or_else(String::new, |(ratio, row)| {
        format!(
            "With timer_pull=on there are at least {} times as many operations as with base ({}).",
            known(Some(ratio)),
            row.variant,
        )
    })
}
