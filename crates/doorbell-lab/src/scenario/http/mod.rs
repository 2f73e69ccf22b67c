//! `doorbell lab http`: a small web server that greets, computes and idles.
//!
//! Each server runs in a process of its own, with two serving threads. Its clients are `wrk`, a probe in
//! this process, and a process that holds idle connections. A new server is a file in `servers/` and a line
//! in its list.

mod acts;
mod child;
mod columns;
mod exchange;
mod flood;
mod idle_client;
mod part;
mod probe;
mod promises;
mod servers;
mod tables;
mod wrk;

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::options::Options;
use super::steps::steps_for;
use super::trial::{Outcome, Plan, Trial, Work, run as run_trials};
use super::urgent::give_up_privileges;
use super::wants::Want;
use crate::error::LabError;
use crate::report::Report;
pub(super) use acts::Site;
pub(super) use exchange::{connect, get};
pub(super) use part::Way;
use part::{ACTS, Act, Part};
pub(super) use probe::Probe;
use servers::{Computation, Server};

/// How long a pass is, in seconds.
const SECONDS: u32 = 5;
/// The same for a first look.
const SECONDS_QUICK: u32 = 1;
/// The time of `/compute` on an otherwise idle core.
const COMPUTATION: Duration = Duration::from_millis(5);
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);
/// A server that was not ended by then ends itself.
const SERVER_MAX: Duration = Duration::from_mins(2);

/// One server in one part of the scenario.
#[derive(Debug)]
struct Contest {
    server: &'static dyn Server,
    act: Act,
    unprivileged: bool,
    site: Option<Site>,
    /// Whether the next run is the first after the start.
    is_new: bool,
}

impl Trial for Contest {
    fn name(&self) -> &'static str {
        self.server.name()
    }

    fn variant(&self) -> &'static str {
        self.act.name
    }

    fn group(&self) -> &'static str {
        self.act.name
    }

    fn is_baseline(&self) -> bool {
        self.server.name() == servers::BASELINE
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let mut more = vec![format!("--seconds-max={}", SERVER_MAX.as_secs())];
        if self.unprivileged {
            more.push("--unprivileged".to_owned());
        }
        self.site = Some(Site::start(self.server.flag(), steps(), &more)?);
        self.is_new = true;
        Ok(())
    }

    fn run(&mut self, seconds: u32) -> Result<Outcome, LabError> {
        let site = self.site.as_ref().ok_or(LabError::NotSetUp)?;
        let is_new = std::mem::take(&mut self.is_new);
        if is_new {
            acts::touch(site)?;
        }
        match self.act.part {
            Part::Idle => acts::idle(site, acts::idle_connections(is_new), seconds),
            _ if seconds == 0 => Ok(Outcome::default()),
            Part::Hello => acts::hello(site, seconds),
            Part::Computing => acts::computing(site, self.act.way, seconds),
            Part::Flood => flood::run(site, steps(), seconds),
        }
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.site.take().map_or(Ok(()), Site::end)
    }
}

/// The work of `/compute`, the same for every server; measured once.
fn steps() -> u64 {
    static STEPS: OnceLock<u64> = OnceLock::new();
    *STEPS.get_or_init(|| steps_for(COMPUTATION))
}

pub(super) fn contestants(unprivileged: bool) -> Vec<Box<dyn Trial>> {
    // Measured before the CPUs are busy.
    let _ = steps();
    let mut all: Vec<Box<dyn Trial>> = Vec::new();
    for act in ACTS {
        let all_here = servers::ALL.iter().copied();
        for server in all_here.filter(|server| server.parts().contains(&act.part)) {
            all.push(Box::new(Contest {
                server,
                act,
                unprivileged,
                site: None,
                is_new: true,
            }));
        }
    }
    all
}

/// Runs the scenario. With `unprivileged`, servers give up the right to real-time priorities; the probe
/// keeps it where it is allowed, since its own wait for a CPU says nothing about a server.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, no `wrk`, a filter that matches no contestant, or a failing
/// server.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let unprivileged = options.unprivileged;
    wrk::look_for()?;
    child::allow_descriptors()?;
    let first = Want::First.is_given() && !unprivileged;
    let (seconds, warm_up) = if options.quick {
        (SECONDS_QUICK, 0)
    } else {
        (SECONDS, 1)
    };
    let plan = Plan {
        scenario: "http",
        work: Work {
            amount: seconds,
            warm_up,
            // The system calls of this process say nothing about the servers.
            counted: 0,
            pass_max: PASS_MAX,
        },
        compared: "rate_per_s",
        spreads: &columns::SPREADS,
        columns: Vec::new(),
        chart: columns::chart(),
        conclude: if first {
            tables::conclude_privileged
        } else {
            tables::conclude_unprivileged
        },
    };
    let mut report = run_trials(plan, options, |_| contestants(unprivileged))?;
    report.notes.extend(fewer(acts::idle_connections(false)));
    Ok(report)
}

/// A note for the reader if fewer connections fit.
fn fewer(fit: u64) -> Option<String> {
    let wanted = acts::idle_connections_wanted();
    (fit < wanted).then(|| {
        format!(
            "{fit} idle connections instead of {wanted}, because a process may not have more \
             descriptors: raise the hard limit, by `ulimit -Hn 20000` as root, or LimitNOFILE= of a \
             systemd unit"
        )
    })
}

/// The longest life of a child process, in seconds.
const CHILD_MAX_S: u64 = 3_600;

/// Options of a web server.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerOptions {
    /// Which server
    #[arg(long, value_name = "SERVER", value_parser = PossibleValuesParser::new(server_flags()))]
    who: String,
    /// Its address; port 0 for any
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The work of `/compute` [default: 5 ms of this machine's CPU]
    #[arg(long, value_name = "N")]
    compute_steps: Option<u64>,
    /// In how many slices `/compute` does its work: a handler yields between them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    compute_slices: u32,
    /// End after this many seconds
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=CHILD_MAX_S))]
    seconds_max: u64,
    /// First give up the privilege to run threads before all others
    #[arg(long)]
    unprivileged: bool,
}

/// Options of idle connections.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClientOptions {
    /// The address of the server
    #[arg(long, value_name = "ADDRESS")]
    connect: SocketAddr,
    /// How many connections
    #[arg(long, value_name = "N")]
    connections: u64,
    /// End after this many seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=CHILD_MAX_S))]
    seconds_max: u64,
}

/// The flags of the servers on a command line.
pub fn server_flags() -> impl Iterator<Item = &'static str> {
    servers::ALL.iter().map(|server| server.flag())
}

/// Serves in this process: prints the address, and ends with standard input.
///
/// # Errors
/// Any [`LabError`], for example an address that is not available or a server that cannot be started.
pub(crate) fn serve(
    options: &ServerOptions,
    say: impl FnOnce(&str) -> Result<(), LabError>,
) -> Result<(), LabError> {
    if options.unprivileged {
        give_up_privileges()?;
    }
    child::allow_descriptors()?;
    let server = servers::of_flag(&options.who).ok_or_else(|| LabError::NoSuchContestant {
        filter: options.who.clone(),
        known: server_flags().map(str::to_owned).collect(),
    })?;
    let listeners = servers::listeners(options.listen, server.listeners())?;
    let failed = |source| LabError::System {
        what: "asking where it listens",
        source,
    };
    let mut addresses = listeners.iter().map(std::net::TcpListener::local_addr);
    let address = addresses
        .next()
        .unwrap_or(Ok(options.listen))
        .map_err(failed)?;
    let steps = options.compute_steps.unwrap_or_else(steps);
    let _serves = server.start(listeners, Computation::new(steps, options.compute_slices))?;
    say(&format!("{address}\n"))?;
    child::wait_for_end(Duration::from_secs(options.seconds_max))
}

/// Holds idle connections in this process: prints how many, and closes them when standard input ends, or
/// after `most`.
///
/// # Errors
/// If the server does not answer.
pub(crate) fn hold(
    options: &ClientOptions,
    say: impl FnOnce(&str) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let most = Duration::from_secs(options.seconds_max);
    idle_client::run(options.connect, options.connections, most, say)
}

#[cfg(test)]
mod tests;
