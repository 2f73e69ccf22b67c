//! `pingpong`: pairs of tasks that exchange messages, on simulated machines.

use doorbell_sim::bench::pingpong::{BURST, Figures, Pace, Shape, run};
use doorbell_sim::profile::Profile;

use super::{Case, Plan, as_they_stand, chart, measure, per, put_times, reject};
use crate::error::LabError;
use crate::report::{Column, Metrics, Row, known};

/// The numbers of pairs, as in the table of the seed on idle CPUs.
const PAIRS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const PAIRS_IN_BURSTS: [usize; 3] = [1, 8, 64];
const WORKERS_MIN: usize = 2;
/// How long exchanges count: with 128 pairs, some hundred each.
const SPAN_NS: u64 = 5_000_000;
/// The same of bursts: 12 of them.
const BURSTS_SPAN_NS: u64 = 200_000_000;

pub(super) fn plan(profile: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    let workers = workers.unwrap_or(profile.spec().cpus());
    if workers < WORKERS_MIN {
        return Err(reject("pingpong", "needs at least 2 workers", workers));
    }
    let always = PAIRS
        .into_iter()
        .map(|pairs| case(pairs, workers, Pace::Always));
    let bursts = PAIRS_IN_BURSTS
        .into_iter()
        .map(|pairs| case(pairs, workers, Pace::Bursts));
    Ok(Plan {
        scenario: "pingpong",
        settings: as_they_stand(),
        cases: always.chain(bursts).collect(),
        baseline: None,
        columns: columns(),
        chart: chart(
            "An exchange of two messages, µs of simulated time (log scale)",
            "µs",
            [("p50", "p50_us"), ("p99", "p99_us")],
        ),
        gist,
    })
}

fn case(pairs: usize, workers: usize, pace: Pace) -> Case {
    let (span_ns, name) = match pace {
        Pace::Always => (SPAN_NS, String::new()),
        Pace::Bursts => (BURSTS_SPAN_NS, format!(", bursts of {BURST}")),
    };
    let shape = Shape {
        pairs,
        workers,
        pace,
        span_ns,
    };
    Case {
        variant: format!(
            "{pairs} {}{name}",
            if pairs == 1 { "pair" } else { "pairs" }
        ),
        workers,
        measure: measure(run, shape, Figures::add, metrics),
    }
}

fn metrics(figures: &Figures) -> Metrics {
    let mut metrics = Metrics::default();
    let exchanges = figures.trip_ns.len() as u64;
    put_times(&mut metrics, "", &figures.trip_ns);
    metrics.put("ops_per_s", per(exchanges * 1_000_000_000, figures.span_ns));
    metrics.put("rings_per_1k", per(1_000 * figures.rings, exchanges));
    metrics.put("exchanges_count", Some(exchanges as f64));
    metrics
}

fn columns() -> Vec<Column> {
    let figure = Column::figure;
    vec![
        figure("exchanges/s", "ops_per_s"),
        figure("p50 us", "p50_us"),
        figure("p99 us", "p99_us"),
        figure("max us", "max_us"),
        figure("rings/1k", "rings_per_1k"),
        figure("exchanges", "exchanges_count"),
    ]
}

fn gist(rows: &[Row]) -> String {
    let always = rows.iter().filter(|row| !row.variant.contains("bursts"));
    let rate = |row: &&Row| row.metrics.get("ops_per_s").unwrap_or(0.0);
    let best = always.max_by(|a, b| rate(a).total_cmp(&rate(b)));
    best.map_or_else(String::new, |row| {
        format!(
            "Most messages are exchanged by {}: {} times a second, at the median in {} us.",
            row.variant,
            known(row.metrics.get("ops_per_s")),
            known(row.metrics.get("p50_us"))
        )
    })
}
