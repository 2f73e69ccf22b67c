//! `timer-sleepers`: movable timers of workers that sleep beside some that are awake, on simulated machines.

use doorbell_sim::bench::sleepers::{Figures, Shape, run};
use doorbell_sim::profile::Profile;

use super::{Case, Plan, TIMER_PULL, chart, measure, per, put_times, reject, settings};
use crate::error::LabError;
use crate::report::{Column, Metrics, Row, known};

/// How many workers there are, unless `--workers` says it.
const WORKERS: usize = 64;
const WORKERS_MIN: usize = 2;
/// How many of them are awake. Numbers above half the workers are left out.
const AWAKE: [usize; 4] = [0, 1, 16, 128];
const TIMERS: usize = 1_000;
/// Within how long they are due.
const SPAN_NS: u64 = 100_000_000;

pub(super) fn plan(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    let workers = workers.unwrap_or(WORKERS);
    if workers < WORKERS_MIN {
        return Err(reject(
            "timer-sleepers",
            "needs at least 2 workers",
            workers,
        ));
    }
    let awake = AWAKE.into_iter().filter(|awake| *awake <= workers / 2);
    Ok(Plan {
        scenario: "timer-sleepers",
        settings: settings(TIMER_PULL),
        cases: awake.map(|awake| case(workers, awake)).collect(),
        baseline: None,
        columns: columns(),
        chart: chart(
            "How late timers fire, µs of simulated time (log scale)",
            "µs",
            [("p99", "p99_us"), ("max", "max_us")],
        ),
        gist,
    })
}

fn case(workers: usize, awake: usize) -> Case {
    let shape = Shape {
        workers,
        awake,
        timers: TIMERS,
        span_ns: SPAN_NS,
    };
    Case {
        variant: format!("{workers} workers, {awake} awake"),
        workers,
        measure: measure(run, shape, Figures::add, metrics),
    }
}

fn metrics(figures: &Figures) -> Metrics {
    let mut metrics = Metrics::default();
    put_times(&mut metrics, "", &figures.late_ns);
    let timers = figures.late_ns.len() as u64;
    metrics.put("wakes_per_timer", per(figures.wakes, timers));
    metrics.put("rings_per_timer", per(figures.rings, timers));
    metrics.put("pulled_per_timer", per(figures.pulled, timers));
    metrics.put("words_per_timer", per(figures.exchanges, timers));
    metrics.put("words_per_park", per(figures.exchanges, figures.parks));
    metrics.put("lines_per_timer", per(figures.lines_moved, timers));
    let mut ran_ns = figures.ran_ns.clone();
    ran_ns.sort_unstable();
    for (name, percent) in [("ran_p50_us", 50), ("ran_p90_us", 90)] {
        let most_ns = ran_ns.get(ran_ns.len() * percent / 100);
        metrics.put(name, most_ns.map(|ns| *ns as f64 / 1_000.0));
    }
    metrics.put("timers_count", Some(timers as f64));
    metrics.put("duties_ended_count", Some(figures.duties_ended as f64));
    metrics.put("fenced_count", Some(figures.fenced as f64));
    metrics.put("refused_count", Some(figures.refused as f64));
    metrics
}

fn columns() -> Vec<Column> {
    let figure = Column::figure;
    vec![
        figure("wakes", "wakes_per_timer"),
        figure("rings", "rings_per_timer"),
        figure("p50 us", "p50_us"),
        figure("p99 us", "p99_us"),
        figure("max us", "max_us"),
        figure("CPU p50", "ran_p50_us"),
        figure("p90 us", "ran_p90_us"),
        figure("words", "words_per_timer"),
        figure("words/park", "words_per_park"),
        figure("lines", "lines_per_timer"),
        figure("pulled", "pulled_per_timer"),
        figure("ended", "duties_ended_count"),
        figure("fenced", "fenced_count"),
        figure("refused", "refused_count"),
    ]
}

fn gist(rows: &[Row]) -> String {
    let wakes = |setting: &str| {
        let mut of = rows.iter();
        let row =
            of.find(|row| row.contestant.ends_with(setting) && row.variant.ends_with(" 1 awake"));
        known(row.and_then(|row| row.metrics.get("wakes_per_timer")))
    };
    format!(
        "Beside one worker that is awake, the others wake {} times for each timer with timer_pull=on, and {} times with \
         off.",
        wakes("on"),
        wakes("off"),
    )
}
