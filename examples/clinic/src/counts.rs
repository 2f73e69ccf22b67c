//! The text of `/metrics` in Prometheus' format: a name, labels and a count on each line.

use doorbell::metrics::{Metrics, WorkerCounts};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counted routes. All other paths count as `other`.
const ROUTES: [&str; 7] = [
    "/", "/compute", "/batch", "/healthz", "/self", "/metrics", "other",
];

/// A count, by name.
type Named = (&'static str, fn(&WorkerCounts) -> u64);

/// The counts of a worker.
const OF_WORKER: [Named; 6] = [
    ("polls", |counts| counts.polls),
    ("parks", |counts| counts.parks),
    ("delivered", |counts| counts.delivered),
    ("rings", |counts| counts.rings),
    ("timers_fired", |counts| counts.timers_fired),
    ("stolen", |counts| counts.stolen),
];

/// How often each route was requested.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; ROUTES.len()]);

impl Counts {
    /// Counts a request for that path.
    pub(crate) fn add(&self, path: &str) {
        let route = ROUTES.iter().position(|route| *route == path);
        self.0[route.unwrap_or(ROUTES.len() - 1)].fetch_add(1, Ordering::Relaxed);
    }
}

/// All counts, one per line.
pub(crate) fn text(metrics: &Metrics, counts: &Counts) -> String {
    let mut text = String::new();
    let mut line = |name: &str, labels: std::fmt::Arguments<'_>, count: u64| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}{{{labels}}} {count}");
    };
    for (route, count) in ROUTES.iter().zip(&counts.0) {
        let count = count.load(Ordering::Relaxed);
        line("clinic_requests", format_args!("route=\"{route}\""), count);
    }
    for worker in &metrics.workers {
        for (name, count) in OF_WORKER {
            let name = format!("doorbell_worker_{name}");
            let labels = format_args!("class=\"{}\",core=\"{}\"", worker.class, worker.core);
            line(&name, labels, count(&worker.counts));
        }
    }
    text
}
