//! The measurements of one server.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::super::trial::Outcome;
use super::child::{Child, connections_of};
use super::exchange::{connect, get};
use super::part::Way;
use super::probe::Probe;
use super::wrk;
use crate::error::LabError;
use crate::measure::Process;

/// Connections that request greetings.
pub(super) const GREETED: u32 = 64;
/// Connections that request computations.
pub(super) const COMPUTING: u32 = 32;
/// From the start of the load until the first probe, and from the last probe until the end of the load.
const EDGE: Duration = Duration::from_millis(300);
/// The time between two probes.
const PROBED: Duration = Duration::from_millis(10);
/// Idle connections.
const CONNECTIONS: u64 = 10_000;
/// The same in the first touch.
const FEW: u64 = 100;
/// From the last request until the server must be idle.
const SETTLES: Duration = Duration::from_millis(300);
/// How long a server may take to notice that all clients are gone.
const CLOSES_MAX: Duration = Duration::from_secs(5);
/// A client that holds connections gives up after this many seconds.
const HOLDS_S: u64 = 60;

/// A running server and its address.
#[derive(Debug)]
pub(in super::super) struct Site {
    pub(super) child: Child,
    pub(in super::super) address: SocketAddr,
}

impl Site {
    /// Starts the server with this flag, whose `/compute` makes this many steps, with more arguments.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(in super::super) fn start(
        who: &str,
        steps: u64,
        more: &[String],
    ) -> Result<Self, LabError> {
        let mut arguments = vec![
            "lab-server".to_owned(),
            "http".to_owned(),
            format!("--who={who}"),
            format!("--compute-steps={steps}"),
        ];
        arguments.extend_from_slice(more);
        let child = Child::start(&arguments)?;
        let address = child.line().parse().map_err(|error| LabError::System {
            what: "reading where the server listens",
            source: io::Error::other(error),
        })?;
        Ok(Self { child, address })
    }

    /// Ends it and waits.
    ///
    /// # Errors
    /// If it does not end, or ends with an error.
    pub(in super::super) fn end(self) -> Result<(), LabError> {
        self.child.end()
    }
}

/// Requests every route once, as a warm-up.
///
/// # Errors
/// If a request is not answered.
pub(super) fn touch(site: &Site) -> Result<(), LabError> {
    let failed = |source| LabError::System {
        what: "asking the server",
        source,
    };
    let mut stream = connect(site.address).map_err(failed)?;
    let mut routes = ["/", "/compute", "/healthz"].into_iter();
    let touched = routes.try_for_each(|path| get(&mut stream, path));
    touched.map_err(failed)
}

/// Measures greetings, as many as possible.
///
/// # Errors
/// Any error of `wrk`.
pub(super) fn hello(site: &Site, seconds: u32) -> Result<Outcome, LabError> {
    let process = site.child.process();
    let before = process.cpu()?;
    let found = wrk::start(site.address, "/", GREETED, seconds)?.finish()?;
    let cpu_us = process.cpu()?.saturating_sub(before).as_secs_f64() * 1e6;
    let mut figures = BTreeMap::from([
        ("rate_per_s", found.per_s),
        (
            "server_cpu_us_per_op",
            cpu_us / found.requests.max(1) as f64,
        ),
        ("errors_count", found.errors as f64),
    ]);
    figures.extend(found.percentiles());
    Ok(Outcome {
        operations: found.requests,
        figures,
        ..Outcome::default()
    })
}

/// Measures computations, as many as possible, while a probe requests `/healthz`.
///
/// # Errors
/// Any error of `wrk` or the probe.
pub(super) fn computing(site: &Site, way: Way, seconds: u32) -> Result<Outcome, LabError> {
    let span = Duration::from_secs(u64::from(seconds)).saturating_sub(2 * EDGE);
    let probe = Probe::start(site.address, way, PROBED, EDGE, span)?;
    let load = wrk::start(site.address, "/compute", COMPUTING, seconds)?;
    let probed = probe.finish();
    let found = load.finish()?;
    let probed = probed?;
    let figures = BTreeMap::from([
        ("rate_per_s", found.per_s),
        ("probes_count", probed.late.len() as f64),
        ("errors_count", (found.errors + probed.errors) as f64),
    ]);
    Ok(Outcome {
        operations: found.requests,
        figures,
        late: probed.late,
        ..Outcome::default()
    })
}

/// How many idle connections a server gets: few in the first touch, else as many as descriptors allow.
pub(super) fn idle_connections(is_first_touch: bool) -> u64 {
    if is_first_touch {
        FEW
    } else {
        connections_of(CONNECTIONS)
    }
}

/// How many idle connections a server should get.
pub(super) fn idle_connections_wanted() -> u64 {
    CONNECTIONS
}

/// Measures connections that stay idle for some seconds, and what is left after they are closed.
///
/// # Errors
/// If a process cannot be started or inspected.
pub(super) fn idle(site: &Site, connections: u64, seconds: u32) -> Result<Outcome, LabError> {
    let process = site.child.process();
    let (rss_before, fds_before) = (process.resident_bytes()?, process.descriptors()?);
    let arguments = [
        "lab-client".to_owned(),
        "http".to_owned(),
        format!("--connect={}", site.address),
        format!("--connections={connections}"),
        format!("--seconds-max={HOLDS_S}"),
    ];
    let client = Child::start(&arguments)?;
    let held: u64 = client.line().parse().map_err(|error| LabError::System {
        what: "reading how many connections are held",
        source: io::Error::other(error),
    })?;
    thread::sleep(SETTLES);
    let (began, switches) = (Instant::now(), process.switches()?);
    thread::sleep(Duration::from_secs(u64::from(seconds)));
    let switches = process.switches()?.since(&switches);
    let span_s = began.elapsed().as_secs_f64();
    let rss = process.resident_bytes()?;
    client.end()?;
    let fds_left = descriptors_left(process, fds_before)?;
    let per_connection = |now: u64| (now as f64 - rss_before as f64).max(0.0) / held.max(1) as f64;
    Ok(Outcome {
        operations: held,
        figures: BTreeMap::from([
            ("connections_count", held as f64),
            ("idle_wakeups_per_s", switches as f64 / span_s),
            ("rss_per_connection_bytes", per_connection(rss)),
            ("fds_left_count", fds_left as f64),
            (
                "rss_left_per_connection_bytes",
                per_connection(process.resident_bytes()?),
            ),
        ]),
        ..Outcome::default()
    })
}

/// The number of descriptors above `before`: polled until there is none or it takes too long.
fn descriptors_left(process: Process, before: usize) -> Result<usize, LabError> {
    let began = Instant::now();
    loop {
        let left = process.descriptors()?.saturating_sub(before);
        if left == 0 || began.elapsed() > CLOSES_MAX {
            // The owners of the last descriptors also free their memory.
            thread::sleep(SETTLES);
            return Ok(left);
        }
        thread::sleep(Duration::from_millis(20));
    }
}
