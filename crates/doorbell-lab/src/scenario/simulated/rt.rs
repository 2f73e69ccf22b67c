//! `rt`: periodic urgent tasks in phase, on simulated machines.

use doorbell_sim::bench::rt::{Figures, Load, Shape, run};
use doorbell_sim::profile::Profile;

use super::{Case, Plan, chart, per, put_times, reject, settings};
use crate::error::LabError;
use crate::report::{Column, Metrics, Row, known};

/// How many urgent workers there are, unless `--workers` sets another number.
const WORKERS: [usize; 7] = [8, 16, 24, 40, 80, 120, 192];
const WORKERS_MIN: usize = 4;
/// How many periods are measured: 20 ms.
const PERIODS: u64 = 200;

const LOADS: [(Load, &str); 3] = [
    (Load::Alone, "alone"),
    (Load::Extra(&[50]), "1 extra"),
    (Load::Extra(&[60, 40]), "2 extra"),
];
/// Done with the largest number of workers only.
const STORM: (Load, &str) = (Load::Storm, "2 overloaded");

/// What is compared; `auto` is one of these.
const SETTINGS: [&str; 3] = ["rt_push=on", "rt_push=pull", "rt_push=each"];

pub(super) fn plan(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    let workers = workers.map_or_else(|| WORKERS.to_vec(), |workers| vec![workers]);
    if let Some(few) = workers.iter().find(|workers| **workers < WORKERS_MIN) {
        return Err(reject("rt", "needs at least 4 workers", *few));
    }
    let most = workers.iter().copied().max().unwrap_or(0);
    let of_each = |workers: usize| {
        let storm = (workers == most).then_some(STORM);
        let loads = LOADS.into_iter().chain(storm);
        loads.map(move |(load, name)| case(workers, load, name))
    };
    Ok(Plan {
        scenario: "rt",
        settings: settings(SETTINGS),
        cases: workers.iter().copied().flat_map(of_each).collect(),
        baseline: None,
        columns: columns(),
        chart: chart(
            "How late periodic tasks run, µs of simulated time (log scale)",
            "µs",
            [("p99", "p99_us"), ("max", "max_us")],
        ),
        gist,
    })
}

fn case(workers: usize, load: Load, name: &str) -> Case {
    let shape = Shape {
        workers,
        load,
        periods: PERIODS,
    };
    Case {
        variant: format!("{workers} workers, {name}"),
        workers,
        measure: Box::new(move |seeds| {
            let count = u64::from(seeds.count);
            let figures = seeds.sum(|bench| run(bench, shape), Figures::add)?;
            Ok(metrics(&figures, shape, count))
        }),
    }
}

fn metrics(figures: &Figures, shape: Shape, seeds: u64) -> Metrics {
    let mut metrics = Metrics::default();
    put_times(&mut metrics, "", &figures.late_ns);
    put_times(&mut metrics, "extra_", &figures.extra_ns);
    let per_s = 1_000_000_000 / doorbell_sim::bench::rt::PERIOD_NS;
    let periods = shape.periods * seeds;
    let cores = shape.workers as u64;
    metrics.put("runs_count", Some(figures.late_ns.len() as f64));
    metrics.put(
        "rings_per_core_s",
        per(figures.rings * per_s, periods * cores),
    );
    metrics.put(
        "rings_most_per_core_s",
        per(figures.rings_most * per_s, shape.periods),
    );
    metrics.put(
        "searches_vain_per_core_s",
        per(figures.searches_vain * per_s, periods * cores),
    );
    metrics.put("taken_count", Some(figures.taken as f64));
    metrics.put("claims_lost_count", Some(figures.claims_lost as f64));
    metrics
}

fn columns() -> Vec<Column> {
    let figure = Column::figure;
    vec![
        figure("p50 us", "p50_us"),
        figure("p99 us", "p99_us"),
        figure("max us", "max_us"),
        figure("extra p50", "extra_p50_us"),
        figure("p99", "extra_p99_us"),
        figure("max", "extra_max_us"),
        figure("rings/core/s", "rings_per_core_s"),
        figure("most", "rings_most_per_core_s"),
        figure("vain/core/s", "searches_vain_per_core_s"),
        figure("taken", "taken_count"),
        figure("lost", "claims_lost_count"),
    ]
}

fn gist(rows: &[Row]) -> String {
    let worst = |setting: &str, load: &str| {
        let mut of = rows.iter().rev();
        let row = of.find(|row| row.contestant.ends_with(setting) && row.variant.ends_with(load));
        known(row.and_then(|row| row.metrics.get("max_us")))
    };
    let Some(row) = rows.last() else {
        return String::new();
    };
    format!(
        "With {} a periodic task is at most {} us late alone; beside one movable task {} us with rt_push=on, {} us \
         with pull and {} us with each.",
        row.variant.split(',').next().unwrap_or_default(),
        worst("on", "alone"),
        worst("on", "1 extra"),
        worst("pull", "1 extra"),
        worst("each", "1 extra"),
    )
}
