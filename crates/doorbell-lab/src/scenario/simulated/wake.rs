//! `wake` on a simulated machine.

use doorbell_sim::bench::wake::{Figures, Messengers, PERIOD_NS, Phase, Shape, run};
use doorbell_sim::profile::Profile;

use super::{Case, Plan, chart, measure, per, put_times, reject, settings};
use crate::error::LabError;
use crate::report::{Column, Metrics, Row, known};

const MESSENGERS: usize = 2;
/// How often each task is woken: 0.4 s.
const ROUNDS: u64 = 100;

const KINDS: [(Messengers, Phase, &str); 4] = [
    (Messengers::Threads, Phase::Apart, "by threads"),
    (Messengers::Threads, Phase::Together, "by threads, together"),
    (Messengers::Tasks, Phase::Apart, "by tasks"),
    (Messengers::Tasks, Phase::Together, "by tasks, together"),
];

/// What is compared.
const SETTINGS: [&str; 4] = [
    "idle_claim=on",
    "idle_claim=off",
    "idle_claim=mark",
    "idle_claim=base",
];

pub(super) fn plan(profile: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    let all = profile.spec().cpus();
    let workers = workers.unwrap_or(all.saturating_sub(MESSENGERS) / MESSENGERS * MESSENGERS);
    if workers == 0 || !workers.is_multiple_of(MESSENGERS) {
        let needs = "has 2 messengers, which wake equally many workers";
        return Err(reject("wake", needs, workers));
    }
    let cases = KINDS.map(|(by, phase, name)| {
        let shape = Shape {
            messengers: MESSENGERS,
            workers_each: workers / MESSENGERS,
            by,
            phase,
            rounds: ROUNDS,
        };
        Case {
            variant: format!("{MESSENGERS} x {} {name}", shape.workers_each),
            workers,
            measure: measure(run, shape, Figures::add, metrics),
        }
    });
    Ok(Plan {
        scenario: "wake",
        settings: settings(SETTINGS),
        cases: cases.into(),
        baseline: None,
        columns: columns(),
        chart: chart(
            "From a wake until the task runs, µs of simulated time (log scale)",
            "µs",
            [("p50", "p50_us"), ("p99", "p99_us")],
        ),
        gist,
    })
}

fn metrics(figures: &Figures) -> Metrics {
    let mut metrics = Metrics::default();
    let wakes = figures.late_ns.len() as u64;
    put_times(&mut metrics, "", &figures.late_ns);
    metrics.put("wakes_count", Some(wakes as f64));
    metrics.put("stacked_count", Some(figures.stacked as f64));
    metrics.put("stacked_per_1k", per(1_000 * figures.stacked, wakes));
    metrics.put("left_per_1k", per(1_000 * figures.left, wakes));
    metrics.put(
        "claims_lost_per_1k",
        per(1_000 * figures.claims_lost, wakes),
    );
    metrics.put("rings_per_op", per(figures.rings, wakes));
    let cpu_ns = per(figures.cpu_ns, wakes);
    metrics.put("cpu_us_per_op", cpu_ns.map(|ns| ns / 1_000.0));
    metrics
}

fn columns() -> Vec<Column> {
    let figure = Column::figure;
    vec![
        figure("p50 us", "p50_us"),
        figure("p99 us", "p99_us"),
        figure("p99.5 us", "p995_us"),
        figure("max us", "max_us"),
        figure("stacked/1k", "stacked_per_1k"),
        figure("rings/wake", "rings_per_op"),
        figure("CPU us/wake", "cpu_us_per_op"),
        figure("left/1k", "left_per_1k"),
        figure("lost/1k", "claims_lost_per_1k"),
        figure("wakes", "wakes_count"),
    ]
}

fn gist(rows: &[Row]) -> String {
    let together = |row: &&Row| row.variant.ends_with("by threads, together");
    let figures = rows.iter().filter(together).map(|row| {
        let figure = |name| known(row.metrics.get(name));
        let (stacked, p99_us) = (figure("stacked_per_1k"), figure("p99_us"));
        format!("{stacked} and {p99_us} us with {}", row.contestant)
    });
    let figures: Vec<_> = figures.collect();
    format!(
        "Woken by two threads at one instant every {} ms, of 1,000 wakes so many are stacked, and 99 of 100 tasks run \
         within so long: {}.",
        PERIOD_NS / 1_000_000,
        figures.join("; ")
    )
}
