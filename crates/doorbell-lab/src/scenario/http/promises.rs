//! The goals for doorbell's figures.

use super::super::limits::{Bound, Limit};
use super::super::trial::{Rated, ratio};
use super::part::{ACTS, Part};
use super::servers::{BASELINE, OURS, TOKIO_IDLE_THREADS, TWO};

/// Greetings, relative to tokio's.
const HELLO_X: f64 = 1.05;
/// Greetings, relative to those of two single-threaded runtimes.
const HELLO_TWO_X: f64 = 0.98;
/// The p99 of greetings, relative to tokio's.
const HELLO_P99_X: f64 = 1.0;
/// CPU time of a greeting.
const HELLO_CPU_US: f64 = 14.0;
/// The p99 of a probe, with and without privilege.
const PROBE_P99_US: [f64; 2] = [1_000.0, 2_000.0];
/// The p99 of a probe, relative to tokio with computations on `SCHED_IDLE` threads.
const PROBE_P99_X: f64 = 1.0;
/// Computations, relative to tokio's.
const COMPUTE_X: f64 = 0.97;
/// Computations beside a flood, relative to those without one.
const KEPT_X: f64 = 0.5;
/// Work of plain threads beside a flood, relative to their work beside tokio.
const PLAIN_X: f64 = 0.95;
/// Wake-ups while all connections are idle.
const WAKEUPS_PER_S: f64 = 0.0;
/// Memory of an idle connection, relative to tokio's.
const MEMORY_X: f64 = 1.0;

/// Which limit applies to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Most {
    Privileged,
    Unprivileged,
}

/// All goals that this run can check.
pub(super) fn of(rated: &[Rated<'_>], most: Most) -> Vec<Limit> {
    let mut limits = Vec::new();
    for one in rated.iter().filter(|one| one.row.contestant == OURS) {
        let Some(act) = ACTS.iter().find(|act| act.name == one.row.variant) else {
            continue;
        };
        limits.extend(match act.part {
            Part::Hello => hello(rated, one),
            Part::Computing => computing(rated, one, most),
            Part::Flood => flood(rated, one),
            Part::Idle => idle(rated, one),
        });
    }
    limits
}

fn hello(rated: &[Rated<'_>], one: &Rated<'_>) -> Vec<Limit> {
    let against = |other, name| ratio(rated, one, other, name);
    vec![
        Limit::new(
            "hello req/s",
            "x tokio",
            Bound::AtLeast(HELLO_X),
            against(BASELINE, "rate_per_s"),
        ),
        Limit::new(
            "hello req/s",
            "x two",
            Bound::AtLeast(HELLO_TWO_X),
            against(TWO, "rate_per_s"),
        ),
        Limit::new(
            "hello p99",
            "x tokio",
            Bound::AtMost(HELLO_P99_X),
            against(BASELINE, "p99_us"),
        ),
        Limit::new(
            "hello CPU",
            "us/req",
            Bound::AtMost(HELLO_CPU_US),
            one.row.metrics.get("server_cpu_us_per_op"),
        ),
    ]
}

fn computing(rated: &[Rated<'_>], one: &Rated<'_>, most: Most) -> Vec<Limit> {
    let [privileged, unprivileged] = PROBE_P99_US;
    let most = match most {
        Most::Privileged => privileged,
        Most::Unprivileged => unprivileged,
    };
    let variant = &one.row.variant;
    let computations = ratio(rated, one, BASELINE, "rate_per_s");
    let p99 = one.row.metrics.get("p99_us");
    let against_idle = ratio(rated, one, TOKIO_IDLE_THREADS, "p99_us");
    vec![
        Limit::new(
            &format!("/healthz p99, {variant}"),
            "us",
            Bound::AtMost(most),
            p99,
        ),
        Limit::new(
            &format!("/healthz p99, {variant}"),
            "x tokio idle",
            Bound::AtMost(PROBE_P99_X),
            against_idle,
        ),
        Limit::new(
            &format!("compute/s, {variant}"),
            "x tokio",
            Bound::AtLeast(COMPUTE_X),
            computations,
        ),
    ]
}

fn flood(rated: &[Rated<'_>], one: &Rated<'_>) -> Vec<Limit> {
    let kept = one.row.metrics.get("kept_x");
    let plain = ratio(rated, one, BASELINE, "plain_per_s");
    vec![
        Limit::new(
            "compute/s beside a flood",
            "x alone",
            Bound::AtLeast(KEPT_X),
            kept,
        ),
        Limit::new(
            "plain threads beside a flood",
            "x tokio",
            Bound::AtLeast(PLAIN_X),
            plain,
        ),
    ]
}

fn idle(rated: &[Rated<'_>], one: &Rated<'_>) -> Vec<Limit> {
    let wakeups = one.row.metrics.get("idle_wakeups_per_s");
    let memory = ratio(rated, one, BASELINE, "rss_per_connection_bytes");
    vec![
        Limit::new(
            "idle wake-ups",
            "1/s",
            Bound::AtMost(WAKEUPS_PER_S),
            wakeups,
        ),
        Limit::new("idle memory", "x tokio", Bound::AtMost(MEMORY_X), memory),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::{Metrics, Row};

    /// The figures of one round: those of the row, except p99, for which a round has too few probes.
    type Figures = BTreeMap<&'static str, f64>;
    /// A server, an act, and its figures.
    type Short<'a> = (&'a str, usize, &'a [(&'static str, f64)]);

    fn found(rows: &[Short<'_>], most: Most) -> Vec<Limit> {
        let made: Vec<(Row, Vec<Figures>)> = rows
            .iter()
            .map(|(who, act, figures)| {
                let mut metrics = Metrics::default();
                for (name, value) in *figures {
                    metrics.put(name, Some(*value));
                }
                let row = Row {
                    contestant: (*who).to_owned(),
                    variant: ACTS[*act].name.to_owned(),
                    metrics,
                    counters: Metrics::default(),
                };
                let of_round = figures.iter().filter(|(name, _)| *name != "p99_us");
                (row, vec![of_round.copied().collect()])
            })
            .collect();
        let rated: Vec<_> = made
            .iter()
            .map(|(row, rounds)| Rated { row, rounds })
            .collect();
        of(&rated, most)
    }

    #[test]
    fn greetings_are_held_against_both_of_tokios_servers() {
        let ours = [
            ("rate_per_s", 110.0),
            ("p99_us", 9.0),
            ("server_cpu_us_per_op", 12.0),
        ];
        let rows: [Short<'_>; 3] = [
            ("doorbell", 0, &ours),
            ("tokio", 0, &[("rate_per_s", 100.0), ("p99_us", 10.0)]),
            ("two tokio runtimes", 0, &[("rate_per_s", 220.0)]),
        ];
        let all = found(&rows, Most::Privileged);
        let values: Vec<_> = all.iter().map(|limit| limit.found).collect();
        assert_eq!(values, [Some(1.1), Some(0.5), Some(0.9), Some(12.0)]);
        assert!(found(&rows[1..], Most::Privileged).is_empty());
    }

    #[test]
    fn a_probe_may_take_longer_without_privilege() {
        let ours = [("rate_per_s", 99.0), ("p99_us", 1_500.0)];
        let rows: [Short<'_>; 3] = [
            ("tokio", 2, &[("rate_per_s", 100.0)]),
            (TOKIO_IDLE_THREADS, 2, &[("p99_us", 3_000.0)]),
            ("doorbell", 2, &ours),
        ];
        for (most, us) in [(Most::Privileged, 1_000.0), (Most::Unprivileged, 2_000.0)] {
            let all = found(&rows, most);
            assert_eq!(all[0].wanted, Bound::AtMost(us));
            let values: Vec<_> = all.iter().map(|limit| limit.found).collect();
            assert_eq!(values, [Some(1_500.0), Some(0.5), Some(0.99)]);
        }
    }

    #[test]
    fn a_flood_leaves_some_to_others() {
        let ours = [("kept_x", 0.6), ("plain_per_s", 90.0)];
        let rows: [Short<'_>; 2] = [
            ("tokio", 3, &[("kept_x", 0.9), ("plain_per_s", 100.0)]),
            ("doorbell", 3, &ours),
        ];
        let all = found(&rows, Most::Privileged);
        let values: Vec<_> = all.iter().map(|limit| limit.found).collect();
        assert_eq!(values, [Some(0.6), Some(0.9)]);
        assert_eq!(all[0].wanted, Bound::AtLeast(0.5));
    }

    #[test]
    fn an_idle_server_sleeps_and_needs_no_more_than_tokio() {
        let rows: [Short<'_>; 2] = [
            ("tokio", 4, &[("rss_per_connection_bytes", 10_000.0)]),
            (
                "doorbell",
                4,
                &[
                    ("rss_per_connection_bytes", 5_000.0),
                    ("idle_wakeups_per_s", 0.0),
                ],
            ),
        ];
        let all = found(&rows, Most::Unprivileged);
        let values: Vec<_> = all.iter().map(|limit| limit.found).collect();
        assert_eq!(values, [Some(0.0), Some(0.5)]);
    }
}
