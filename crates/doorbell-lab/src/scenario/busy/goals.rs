//! The goals for doorbell's figures.

use std::time::Duration;

use super::super::limits::{Bound, Limit};
use super::super::trial::{Rated, ratio};
use super::crowd::CASES;
use super::{lone, service, sleeps};
use crate::measure::Spread;

/// The contestant that has goals.
pub(super) const OURS: &str = "doorbell";
/// The contestant with which it is compared.
pub(super) const BASELINE: &str = "tokio";

/// Beyond one poll, for the median.
const HALF_US: f64 = 100.0;
/// Beyond two polls, for the maximum.
const MAX_US: f64 = 200.0;
/// Any time, relative to tokio's.
const TIME_X: f64 = 1.0;
/// Polls of computing tasks, relative to tokio's.
const COMPUTED_X: f64 = 0.99;
/// Answers of the service, relative to tokio's.
const ANSWER_X: f64 = 0.6;
/// What the service computes, relative to tokio's.
const SERVED_X: f64 = 0.98;
/// The most yields until a ready socket is seen.
const YIELDS: f64 = 4.0;
/// The p99 of the time until then, which is enough instead.
const SEEN_US: f64 = 30.0;
/// How late sleeps end where the worker spins: the median and p99.
const SPINNING_US: [f64; 2] = [3.0, 30.0];

/// All goals that this run can check.
pub(super) fn of(rated: &[Rated<'_>]) -> Vec<Limit> {
    let mut limits = Vec::new();
    for one in rated {
        let (who, how) = (one.row.contestant.as_str(), one.row.variant.as_str());
        let case = how.split_once(": ").map(|(case, _)| case);
        if sleeps::SPINNING.contains(&who) {
            limits.extend(spinning(one));
        } else if who == OURS && how == lone::VARIANT {
            limits.push(seen(one));
        } else if who == OURS
            && let Some(case) = CASES.iter().find(|known| Some(known.name) == case)
        {
            limits.extend(beside_a_crowd(rated, one, case.poll));
        } else if who == OURS && service::CUTS.iter().any(|cut| Some(cut.name) == case) {
            limits.extend(of_the_service(rated, one));
        }
    }
    limits
}

fn beside_a_crowd(rated: &[Rated<'_>], one: &Rated<'_>, poll: Duration) -> Vec<Limit> {
    let poll_us = poll.as_secs_f64() * 1e6;
    let how = &one.row.variant;
    let metric = |name| one.row.metrics.get(name);
    let of_tokio = |name| ratio(rated, one, BASELINE, name);
    let worse = of_tokio("p50_us").zip(of_tokio("max_us"));
    let mut limits = vec![
        Limit::new(
            format!("{how}, p50"),
            "us",
            Bound::AtMost(poll_us + HALF_US),
            metric("p50_us"),
        ),
        Limit::new(
            format!("{how}, max"),
            "us",
            Bound::AtMost(2.0 * poll_us + MAX_US),
            metric("max_us"),
        ),
        Limit::new(
            format!("{how}, p50 and max"),
            "x tokio",
            Bound::AtMost(TIME_X),
            worse.map(|(half, most)| half.max(most)),
        ),
    ];
    // The same for all times of a pass.
    if how.ends_with(": socket") {
        limits.push(Limit::new(
            format!("{how}, computed/s"),
            "x tokio",
            Bound::AtLeast(COMPUTED_X),
            of_tokio("computed_per_s"),
        ));
    }
    limits
}

fn of_the_service(rated: &[Rated<'_>], one: &Rated<'_>) -> Vec<Limit> {
    let how = &one.row.variant;
    let of_tokio = |name| ratio(rated, one, BASELINE, name);
    let answered = [("p50", "p50_us"), ("p99", "p99_us")].map(|(title, name)| {
        let what = format!("{how}, {title}");
        Limit::new(what, "x tokio", Bound::AtMost(ANSWER_X), of_tokio(name))
    });
    let mut limits = Vec::from(answered);
    // The same for both ways to connect.
    if how.ends_with(": kept") {
        limits.push(Limit::new(
            format!("{how}, computed/s"),
            "x tokio",
            Bound::AtLeast(SERVED_X),
            of_tokio("computed_per_s"),
        ));
    }
    limits
}

/// One of two bounds is enough: that of the time is shown if it holds.
fn seen(one: &Rated<'_>) -> Limit {
    let how = &one.row.variant;
    let p99_us = one.row.metrics.get("p99_us").filter(|us| *us <= SEEN_US);
    if p99_us.is_some() {
        return Limit::new(format!("{how}, p99"), "us", Bound::AtMost(SEEN_US), p99_us);
    }
    let yields = one.over_rounds("yields_max_count");
    Limit::new(
        format!("{how}, max"),
        "yields",
        Bound::AtMost(YIELDS),
        Spread::of(&yields).map(|ends| ends.max),
    )
}

fn spinning(one: &Rated<'_>) -> [Limit; 2] {
    let [half, most] = SPINNING_US;
    [("p50", "p50_us", half), ("p99", "p99_us", most)].map(|(title, metric, us)| {
        let row = one.row;
        Limit::new(
            format!("{}, {}, {title}", row.contestant, row.variant),
            "us",
            Bound::AtMost(us),
            row.metrics.get(metric),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::{Metrics, Row};

    type Short<'a> = (&'a str, &'a str, &'a [(&'static str, f64)]);

    fn found(rows: &[Short<'_>]) -> Vec<Limit> {
        let made: Vec<_> = rows
            .iter()
            .map(|(who, how, figures)| {
                let mut metrics = Metrics::default();
                for (name, value) in *figures {
                    metrics.put(name, Some(*value));
                }
                let row = Row {
                    contestant: (*who).to_owned(),
                    variant: (*how).to_owned(),
                    metrics,
                    counters: Metrics::default(),
                };
                let round: BTreeMap<_, _> = figures.iter().copied().collect();
                (row, vec![round])
            })
            .collect();
        let rated: Vec<_> = made
            .iter()
            .map(|(row, rounds)| Rated { row, rounds })
            .collect();
        of(&rated)
    }

    #[test]
    fn beside_a_crowd_one_poll_and_a_little_is_allowed() {
        let how = "1 core, 1 task, 500 us: socket";
        let figures = |half, most, computed| {
            [
                ("p50_us", half),
                ("max_us", most),
                ("computed_per_s", computed),
            ]
        };
        let all = found(&[
            ("tokio", how, &figures(800.0, 2_000.0, 1_000.0)),
            ("doorbell", how, &figures(400.0, 3_000.0, 995.0)),
        ]);
        let pairs: Vec<_> = all.iter().map(|one| (one.wanted, one.found)).collect();
        let expected = [
            (Bound::AtMost(600.0), Some(400.0)),
            (Bound::AtMost(1_200.0), Some(3_000.0)),
            // The worse one of the two.
            (Bound::AtMost(1.0), Some(1.5)),
            (Bound::AtLeast(0.99), Some(0.995)),
        ];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn a_service_answers_sooner_than_tokios() {
        let figures = |half, most, computed| {
            [
                ("p50_us", half),
                ("p99_us", most),
                ("computed_per_s", computed),
            ]
        };
        let [theirs, ours] = [
            figures(2_000.0, 5_000.0, 200.0),
            figures(1_000.0, 4_000.0, 198.0),
        ];
        let of = |part: &str| {
            let how = format!("{}: {part}", service::CUTS[0].name);
            let all = found(&[("tokio", &how, &theirs), ("doorbell", &how, &ours)]);
            all.iter().map(|one| one.found).collect::<Vec<_>>()
        };
        assert_eq!(of("kept"), [Some(0.5), Some(0.8), Some(0.99)]);
        assert_eq!(of("new"), [Some(0.5), Some(0.8)]);
    }

    #[test]
    fn a_socket_is_seen_soon_by_yields_or_by_time() {
        let one = |us, yields| {
            let figures = [("p99_us", us), ("yields_max_count", yields)];
            let limit = found(&[("doorbell", lone::VARIANT, &figures)]).remove(0);
            (limit.unit, limit.found)
        };
        assert_eq!(one(20.0, 65.0), ("us", Some(20.0)));
        assert_eq!(one(40.0, 3.0), ("yields", Some(3.0)));
    }

    #[test]
    fn only_workers_that_spin_have_a_goal_for_their_sleeps() {
        let figures = [("p50_us", 1.0), ("p99_us", 40.0)];
        let rows = ["tokio", "doorbell", sleeps::SPINNING[0]];
        let all = found(&rows.map(|who| (who, "sleeps of 1 ms", &figures[..])));
        let pairs: Vec<_> = all.iter().map(|one| (one.wanted, one.found)).collect();
        let expected = [
            (Bound::AtMost(3.0), Some(1.0)),
            (Bound::AtMost(30.0), Some(40.0)),
        ];
        assert_eq!(pairs, expected);
    }
}
