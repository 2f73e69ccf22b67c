//! The probe: checks the health of a server while it computes.
//!
//! A request is due every few ms, whether the last one was answered or not, so several threads take turns.
//! An answer's lateness counts from the time at which its request was due.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::super::common::sleep_until;
use super::super::wants::Want;
use super::exchange::{connect, get};
use super::part::Way;
use crate::error::LabError;
use crate::measure::Samples;

/// The number of threads. Each has this many periods for an answer.
const THREADS: u32 = 32;
/// A thread that is later than this gives up its remaining requests.
const GRACE: Duration = Duration::from_secs(3);
const PATH: &str = "/healthz";
const THREAD: &str = "http-probe";

/// The results of the probe.
#[derive(Debug, Default)]
pub(in super::super) struct Probed {
    /// How late each answer was.
    pub(in super::super) late: Samples,
    /// Requests without an answer.
    pub(in super::super) errors: u64,
}

/// The threads of the probe.
#[derive(Debug)]
pub(in super::super) struct Probe {
    threads: Vec<JoinHandle<Probed>>,
}

/// When requests are due.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    begin: Instant,
    period: Duration,
    count: u32,
}

impl Probe {
    /// Starts the threads, with real-time priority where allowed. A request is due every `period`. The first request is due after `delay`,
    /// the last one before `delay` and `span` are over.
    ///
    /// # Errors
    /// [`LabError::System`] if a thread cannot be started.
    pub(in super::super) fn start(
        address: SocketAddr,
        way: Way,
        period: Duration,
        delay: Duration,
        span: Duration,
    ) -> Result<Self, LabError> {
        let schedule = Schedule {
            begin: Instant::now() + delay,
            period,
            count: (span.as_nanos() / period.as_nanos()) as u32,
        };
        let mut threads = Vec::new();
        for first in 0..THREADS {
            let thread = thread::Builder::new()
                .name(THREAD.to_owned())
                .spawn(move || look(address, way, schedule, first));
            threads.push(thread.map_err(|source| LabError::System {
                what: "starting a thread",
                source,
            })?);
        }
        Ok(Self { threads })
    }

    /// Waits for the last answer.
    ///
    /// # Errors
    /// [`LabError::ThreadPanicked`] if a thread panicked.
    pub(in super::super) fn finish(self) -> Result<Probed, LabError> {
        let mut all = Probed::default();
        for thread in self.threads {
            let panicked = |_| LabError::ThreadPanicked { thread: THREAD };
            let one = thread.join().map_err(panicked)?;
            all.late.add(&one.late);
            all.errors += one.errors;
        }
        Ok(all)
    }
}

/// The requests of one thread: number `first`, and every [`THREADS`]-th after it.
fn look(address: SocketAddr, way: Way, schedule: Schedule, first: u32) -> Probed {
    Want::Waker.ask();
    let mut probed = Probed::default();
    let mut kept = match way {
        Way::New => None,
        // The time to accept it is not measured.
        Way::Kept => ask(address, None).ok(),
    };
    for number in (first..schedule.count).step_by(THREADS as usize) {
        let due = schedule.begin + schedule.period * number;
        if due.elapsed() > GRACE {
            probed.errors += 1;
            continue;
        }
        sleep_until(due);
        match ask(address, kept.take()) {
            Ok(stream) => {
                probed.late.record(due.elapsed().as_nanos() as u64);
                kept = (way == Way::Kept).then_some(stream);
            }
            Err(_) => probed.errors += 1,
        }
    }
    probed
}

/// Makes a request on a kept connection, or else on a new one.
fn ask(address: SocketAddr, kept: Option<TcpStream>) -> io::Result<TcpStream> {
    let mut stream = kept.map_or_else(|| connect(address), Ok)?;
    get(&mut stream, PATH)?;
    Ok(stream)
}
