//! `rank`: a task of high rank behind a long poll of a lower one, on simulated machines.

use doorbell_sim::bench::rank::{Figures, Others, Shape, Waker, run};
use doorbell_sim::profile::Profile;

use super::{Case, Plan, as_they_stand, chart, measure, put_times, reject};
use crate::error::LabError;
use crate::report::{Column, Metrics, Row, known};

/// How many urgent workers there are, unless `--workers` says it.
const WORKERS: usize = 8;
const WORKERS_MIN: usize = 2;
/// How often it is done with each seed.
const TIMES: u64 = 250;

const KINDS: [(Waker, Others, &str); 4] = [
    (
        Waker::Thread,
        Others::Idle,
        "woken by a thread, others idle",
    ),
    (Waker::Poll, Others::Idle, "woken by the poll, others idle"),
    (
        Waker::Thread,
        Others::Busy,
        "woken by a thread, others run rank 1",
    ),
    (
        Waker::Poll,
        Others::Busy,
        "woken by the poll, others run rank 1",
    ),
];

pub(super) fn plan(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    let workers = workers.unwrap_or(WORKERS);
    if workers < WORKERS_MIN {
        return Err(reject("rank", "needs at least 2 workers", workers));
    }
    let cases = KINDS.map(|(by, others, name)| {
        let shape = Shape {
            workers,
            by,
            others,
            times: TIMES,
        };
        Case {
            variant: name.to_owned(),
            workers,
            measure: measure(run, shape, Figures::add, metrics),
        }
    });
    Ok(Plan {
        scenario: "rank",
        settings: as_they_stand(),
        cases: cases.into(),
        baseline: None,
        columns: columns(),
        chart: chart(
            "From its wake until the task of rank 99 runs, µs of simulated time (log scale)",
            "µs",
            [("p50", "p50_us"), ("max", "max_us")],
        ),
        gist,
    })
}

fn metrics(figures: &Figures) -> Metrics {
    let mut metrics = Metrics::default();
    put_times(&mut metrics, "", &figures.wait_ns);
    metrics.put("wakes_count", Some(figures.wait_ns.len() as f64));
    metrics.put("skipped_count", Some(figures.skipped as f64));
    metrics
}

fn columns() -> Vec<Column> {
    let figure = Column::figure;
    vec![
        figure("p50 us", "p50_us"),
        figure("p99 us", "p99_us"),
        figure("max us", "max_us"),
        figure("wakes", "wakes_count"),
        figure("skipped", "skipped_count"),
    ]
}

fn gist(rows: &[Row]) -> String {
    let worst = |others: &str| {
        let found = rows.iter().filter(|row| row.variant.ends_with(others));
        known(
            found
                .filter_map(|row| row.metrics.get("max_us"))
                .reduce(f64::max),
        )
    };
    format!(
        "Behind a poll of 600 us the task of rank 99 waits at most {} us where other workers are idle, and {} us where \
         they run rank 1.",
        worst("others idle"),
        worst("others run rank 1"),
    )
}
