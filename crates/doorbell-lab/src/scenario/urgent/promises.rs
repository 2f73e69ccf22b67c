//! The goals for doorbell's figures.

use super::super::limits::{Bound, Limit};
use super::super::trial::Rated;
use super::contestants::Who;
use super::scene::{Part, Place, Source};
use crate::measure::median;

/// The p99, relative to that of a thread under `SCHED_FIFO`.
const X_FIRST: f64 = 1.5;
/// The p99, relative to that of a thread with the shortest slice.
const X_SOONER: f64 = 2.0;
/// The p99.9 without privileges.
const P999_US: f64 = 1_000.0;
/// The p99 of Fair tasks beside Batch jobs.
const FAIR_P99_US: f64 = 100.0;
/// The jobs' polls, relative to those of tokio's jobs.
const POLLS_X: f64 = 0.97;

/// All goals that this run can check.
pub(super) fn of(rated: &[Rated<'_>]) -> Vec<Limit> {
    let find = |who: &str, how: &str| {
        let mut all = rated.iter();
        all.find(|one| one.row.contestant == who && one.row.variant == how)
    };
    let first = rated
        .iter()
        .any(|one| one.row.variant.starts_with("SCHED_FIFO"));
    let mut limits = Vec::new();
    let places = [Place::Core, Place::Free].map(|place| Who::Doorbell(Part::Rt, place).how());
    let rows = Source::ALL
        .into_iter()
        .flat_map(|source| places.map(|how| (how, source.name())));
    for (how, source) in rows {
        let Some(ours) = find("doorbell", &format!("{how}, {source}")) else {
            continue;
        };
        let who = how.trim_start_matches("class ");
        let metric = |name| ours.row.metrics.get(name);
        let (most, unit) = if first {
            (X_FIRST, "x SCHED_FIFO")
        } else {
            (X_SOONER, "x 100 us slice")
        };
        limits.push(Limit::new(
            format!("{who} p99 {source}"),
            unit,
            Bound::AtMost(most),
            metric("ratio_x"),
        ));
        if !first {
            let what = format!("{who} p99.9 {source}");
            limits.push(Limit::new(
                what,
                "us",
                Bound::AtMost(P999_US),
                metric("p999_us"),
            ));
        }
        if let Some(theirs) = find("tokio", &format!("tasks, {source}")) {
            limits.push(polls(format!("jobs' polls, {who} {source}"), ours, theirs));
        }
    }
    for how in [Place::Core, Place::Free].map(|place| Who::Doorbell(Part::Fair, place).how()) {
        let Some(ours) = find("doorbell", &format!("{how}, from a thread")) else {
            continue;
        };
        let found = ours.row.metrics.get("p99_us");
        limits.push(Limit::new(
            format!("{how} p99"),
            "us",
            Bound::AtMost(FAIR_P99_US),
            found,
        ));
        if let Some(theirs) = find("tokio", "jobs on SCHED_IDLE threads, from a thread") {
            limits.push(polls(format!("jobs' polls, {how}"), ours, theirs));
        }
    }
    limits
}

/// The median of the rounds' ratios.
fn polls(what: String, ours: &Rated<'_>, theirs: &Rated<'_>) -> Limit {
    let [ours, theirs] = [ours, theirs].map(|one| one.over_rounds("polls_per_s"));
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(o, t)| o / t).collect();
    Limit::new(what, "x tokio", Bound::AtLeast(POLLS_X), median(&ratios))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Metrics, Row};
    use std::collections::BTreeMap;

    fn row(contestant: &str, variant: &str, metrics: &[(&str, f64)]) -> Row {
        let mut all = Metrics::default();
        for (name, value) in metrics {
            all.put(name, Some(*value));
        }
        Row {
            contestant: contestant.to_owned(),
            variant: variant.to_owned(),
            metrics: all,
            counters: Metrics::default(),
        }
    }

    fn found(rows: &[Row]) -> Vec<(String, &'static str, Option<f64>)> {
        let polls = |row: &Row| row.metrics.get("polls_per_s").unwrap_or(1.0);
        let rounds: Vec<_> = rows
            .iter()
            .map(|row| vec![BTreeMap::from([("polls_per_s", polls(row))])])
            .collect();
        let rated: Vec<_> = rows
            .iter()
            .zip(&rounds)
            .map(|(row, rounds)| Rated { row, rounds })
            .collect();
        let limits = of(&rated).into_iter();
        limits
            .map(|limit| (limit.what, limit.unit, limit.found))
            .collect()
    }

    #[test]
    fn with_and_without_privilege_something_else_is_promised() {
        let ours = [("ratio_x", 1.2), ("p999_us", 300.0), ("polls_per_s", 9.0)];
        let mut rows = vec![
            row("doorbell", "class Rt, by a timer", &ours),
            row("tokio", "tasks, by a timer", &[("polls_per_s", 10.0)]),
        ];
        let polls = (
            "jobs' polls, Rt by a timer".to_owned(),
            "x tokio",
            Some(0.9),
        );
        let p99 = "Rt p99 by a timer".to_owned();
        let unprivileged = [
            (p99.clone(), "x 100 us slice", Some(1.2)),
            ("Rt p99.9 by a timer".to_owned(), "us", Some(300.0)),
            polls.clone(),
        ];
        assert_eq!(found(&rows), unprivileged);
        rows.push(row("bare thread", "SCHED_FIFO, by a timer", &[]));
        assert_eq!(found(&rows), [(p99, "x SCHED_FIFO", Some(1.2)), polls]);
    }

    #[test]
    fn fair_beside_batch_is_held_against_idle_threads() {
        let rows = [
            row(
                "doorbell",
                "Fair beside Batch, from a thread",
                &[("p99_us", 40.0), ("polls_per_s", 10.0)],
            ),
            row(
                "tokio",
                "jobs on SCHED_IDLE threads, from a thread",
                &[("polls_per_s", 10.0)],
            ),
        ];
        let expected = [
            ("Fair beside Batch p99".to_owned(), "us", Some(40.0)),
            (
                "jobs' polls, Fair beside Batch".to_owned(),
                "x tokio",
                Some(1.0),
            ),
        ];
        assert_eq!(found(&rows), expected);
        assert!(found(&[]).is_empty());
    }
}
