//! `timer-cost`: arming and dropping timers beside busy workers, on simulated machines.

use doorbell_sim::bench::timer_cost::{Case as What, Figures, Shape, run};
use doorbell_sim::profile::Profile;

use super::{Baseline, Case, Plan, TIMER_PULL, chart, measure, per, reject, settings};
use crate::error::LabError;
use crate::report::{Column, Metrics, Row, known};

/// How many workers there are, unless `--workers` says it.
const WORKERS: usize = 64;
const WORKERS_MIN: usize = 8;
/// The kernel patch's figure of the loop: with the pull model, and the baseline.
const PATCH_NS: [u64; 2] = [109, 145];

pub(super) fn plan(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    let workers = workers.unwrap_or(WORKERS);
    if workers < WORKERS_MIN {
        return Err(reject("timer-cost", "needs at least 8 workers", workers));
    }
    let cases = [
        ("arm, busy", What::ArmWhileBusy),
        ("arm, about to idle", What::ArmBeforeIdle),
        ("arm and drop", What::Loop),
    ];
    Ok(Plan {
        scenario: "timer-cost",
        settings: settings(TIMER_PULL),
        cases: cases
            .map(|(variant, case)| row(variant, workers, case))
            .into(),
        baseline: Some(Baseline {
            setting: "timer_pull=base",
            metric: "op_ns",
            ratio: "ratio_x",
        }),
        columns: columns(),
        chart: chart(
            "A timer armed, or armed and dropped, ns of simulated time (log scale)",
            "ns",
            [("ns", "op_ns"), ("max", "op_max_ns")],
        ),
        gist,
    })
}

fn row(variant: &str, workers: usize, case: What) -> Case {
    let shape = Shape { workers, case };
    Case {
        variant: variant.to_owned(),
        workers,
        measure: measure(run, shape, Figures::add, metrics),
    }
}

fn metrics(figures: &Figures) -> Metrics {
    let mut metrics = Metrics::default();
    let took_ns = &figures.took_ns;
    // Each measurement is of as many timers.
    let each = figures.timers / (took_ns.len() as u64).max(1);
    metrics.put("op_ns", per(took_ns.iter().sum(), figures.timers));
    for (name, ns) in [
        ("op_min_ns", took_ns.iter().min()),
        ("op_max_ns", took_ns.iter().max()),
    ] {
        metrics.put(name, ns.and_then(|ns| per(*ns, each)));
    }
    metrics.put("mails_per_timer", per(figures.mails, figures.timers));
    metrics.put("rings_per_1k", per(1_000 * figures.rings, figures.timers));
    metrics.put("timers_count", Some(figures.timers as f64));
    metrics
}

fn columns() -> Vec<Column> {
    let figure = Column::figure;
    vec![
        figure("ns", "op_ns"),
        Column::spread("ns spread", "op_min_ns", "op_max_ns"),
        figure("x base", "ratio_x"),
        figure("mails", "mails_per_timer"),
        figure("rings/1k", "rings_per_1k"),
    ]
}

fn gist(rows: &[Row]) -> String {
    let of = |setting: &str, metric| {
        let mut rows = rows.iter();
        let row =
            rows.find(|row| row.contestant.ends_with(setting) && row.variant == "arm and drop");
        known(row.and_then(|row| row.metrics.get(metric)))
    };
    let [with, without] = PATCH_NS;
    format!(
        "To arm a timer and drop it costs {} ns with timer_pull=on, {} with off and {} with base: {} times base. In the \
         kernel patch, {with} ns in place of {without}: 0.75 times.",
        of("on", "op_ns"),
        of("off", "op_ns"),
        of("base", "op_ns"),
        of("on", "ratio_x"),
    )
}
