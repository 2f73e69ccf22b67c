//! A web service whose handlers compute in slices and yield between them, and how soon it answers others.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::http::{Probe, Site, Way, connect, get};
use super::super::trial::{Outcome, Trial};
use super::{goals, steps};
use crate::error::LabError;

/// The servers of `lab http`: their names here, and there.
const SERVERS: [(&str, &str); 3] = [
    (goals::BASELINE, "tokio"),
    ("tokio, one a core", "two-tokios"),
    (goals::OURS, "doorbell-one-class"),
];
/// Connections that request computations all the time.
const CLIENTS: usize = 8;
/// The time between two requests for `/healthz`, of each way to connect.
const PROBED: Duration = Duration::from_millis(5);
/// From the start of the probes until the first request: they connect.
const EDGE: Duration = Duration::from_millis(30);
/// A server whose pass takes this much longer than it should ends itself.
const SPARE_S: u64 = 120;
const THREAD: &str = "service-client";

/// How a request computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) name: &'static str,
    slices: u32,
    slice: Duration,
}

/// All ways, in the order of the table.
pub(super) const CUTS: [Cut; 2] = [
    Cut {
        name: "service, 10 x 1 ms",
        slices: 10,
        slice: Duration::from_millis(1),
    },
    Cut {
        name: "service, 50 x 0.1 ms",
        slices: 50,
        slice: Duration::from_micros(100),
    },
];

/// What is measured, as it is called in the table.
pub(super) const PARTS: [&str; 2] = ["kept", "new"];

/// One server.
#[derive(Debug)]
struct Service {
    name: &'static str,
    flag: &'static str,
    cut: Cut,
    pass_s: u64,
    site: Option<Site>,
}

impl Trial for Service {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variant(&self) -> &'static str {
        self.cut.name
    }

    fn group(&self) -> &'static str {
        self.cut.name
    }

    fn is_baseline(&self) -> bool {
        self.name == goals::BASELINE
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let more = [
            format!("--compute-slices={}", self.cut.slices),
            format!("--seconds-max={}", self.pass_s + SPARE_S),
        ];
        let steps = steps(self.cut.slice) * u64::from(self.cut.slices);
        self.site = Some(Site::start(self.flag, steps, &more)?);
        Ok(())
    }

    fn run(&mut self, amount_ms: u32) -> Result<Outcome, LabError> {
        let site = self.site.as_ref().ok_or(LabError::NotSetUp)?;
        let span = Duration::from_millis(u64::from(amount_ms)).saturating_sub(EDGE);
        let probe = |way| Probe::start(site.address, way, PROBED, EDGE, span);
        let probes = [probe(Way::Kept)?, probe(Way::New)?];
        let began = Instant::now();
        let (computed, probed) = beside_clients(site.address, || probes.map(Probe::finish))?;
        let took_s = began.elapsed().as_secs_f64();
        let mut parts = Vec::new();
        for (part, probed) in PARTS.into_iter().zip(probed) {
            let probed = probed?;
            if probed.errors > 0 {
                let said = format!("{} requests were not answered", probed.errors);
                return Err(failed(io::Error::other(said)));
            }
            parts.push((part, probed.late));
        }
        Ok(Outcome {
            operations: computed,
            figures: BTreeMap::from([("computed_per_s", computed as f64 / took_s)]),
            parts,
            ..Outcome::default()
        })
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.site.take().map_or(Ok(()), Site::end)
    }
}

fn failed(source: io::Error) -> LabError {
    LabError::System {
        what: "asking the service",
        source,
    }
}

/// Runs `during` while clients request computations. Returns how many were answered.
fn beside_clients<R>(
    address: SocketAddr,
    during: impl FnOnce() -> R,
) -> Result<(u64, R), LabError> {
    let ends = AtomicBool::new(false);
    let client = || {
        let mut stream = connect(address)?;
        let mut count = 0;
        // ORDER: Relaxed; a flag that publishes nothing.
        while !ends.load(Ordering::Relaxed) {
            get(&mut stream, "/compute")?;
            count += 1;
        }
        Ok(count)
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let found = during();
        // ORDER: Relaxed; a flag that publishes nothing.
        ends.store(true, Ordering::Relaxed);
        let mut computed = 0;
        for client in clients {
            let panicked = |_| LabError::ThreadPanicked { thread: THREAD };
            computed += client.join().map_err(panicked)?.map_err(failed)?;
        }
        Ok((computed, found))
    })
}

/// All servers; a pass of each takes so long.
pub(super) fn contestants(pass: Duration) -> Vec<Box<dyn Trial>> {
    let mut all: Vec<Box<dyn Trial>> = Vec::new();
    for cut in CUTS {
        for (name, flag) in SERVERS {
            all.push(Box::new(Service {
                name,
                flag,
                cut,
                pass_s: pass.as_secs(),
                site: None,
            }));
        }
    }
    all
}
