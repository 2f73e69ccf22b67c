//! `doorbell lab http`: a small web server that greets, computes and idles.
//!
//! Each server runs in a process of its own, with two serving threads. Its clients are `wrk`, a probe in
//! this process, and a process that holds idle connections. A new server is a line in the list of `servers.rs`.

mod clients;
mod epoll;
mod servers;
mod streams;

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::error::unknown;
use crate::frame::{Contestant, Outcome, Plan, Work};
use crate::measure::{Samples, SyscallCounter, allowed_cpus};
use crate::peers::{Workers, give_up_privileges};
use crate::scenario::Options;
use crate::tools::{beside_threads, compute, steps_for};
use servers::{Computation, Server, Setup};

#[cfg(test)]
pub(crate) use clients::NO_WRK;
pub(super) use clients::{Probe, Site, connect, get};

const SECONDS: [u32; 2] = [5, 1];
/// A pass may take so much longer.
const SPARE: Duration = Duration::from_mins(1);
/// The work of `/compute`.
const COMPUTATION: Duration = Duration::from_millis(5);
/// The longest life of a server, in seconds; and of a child process, however it is asked.
const SERVER_MAX_S: u64 = 120;
const CHILD_MAX_S: u64 = 3_600;
/// Serving threads.
const WORKERS: usize = 2;
/// Threads of `wrk`.
const CLIENTS: u32 = 2;
/// Connections of `wrk` that greet, and that compute.
const GREETED: u32 = 64;
const COMPUTING: u32 = 32;
const MANY: u32 = 200;
/// Computing streams of one connection over HTTP/2.
const STREAMS: u32 = 100;
/// The probe begins later than the load, and ends earlier: by this part of the time, and at most a second.
const EDGE: u32 = 4;
const EDGE_MAX: Duration = Duration::from_secs(1);
/// A probe is due so often.
const PROBED: Duration = Duration::from_millis(10);
/// Idle connections; in the warm-up so many.
const CONNECTIONS: u64 = 10_000;
const FEW: u64 = 100;
/// Time without a long poll before a row that rests.
const RESTS: Duration = Duration::from_secs(11);
/// Plain threads beside a flood, and the part of a computation that they count.
const PLAIN: usize = 2;
const COUNTED: u64 = 50;

const OURS: &str = "doorbell";
const BASELINE: &str = "tokio";
const TWO: &str = "two tokio runtimes";
const TWO_OURS: &str = "two doorbell runtimes";
const TOKIO_IDLE_THREADS: &str = "tokio, two SCHED_IDLE threads";

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// So many threads of the client, and whether each thread of the server is bound to a CPU.
    Hello {
        clients: u32,
        is_bound: bool,
    },
    /// So many connections compute, beside probes on kept connections or on new ones.
    Computing {
        keeps: bool,
        connections: u32,
    },
    /// Streams of one connection compute, beside probes on that connection.
    Streams,
    Flood,
    Idle,
    /// One kept connection asks so often, directly behind a long poll or long after it.
    Rate {
        per_s: u32,
        rests: bool,
    },
}

const fn rate(per_s: u32, rests: bool) -> Part {
    Part::Rate { per_s, rests }
}

const fn hello_by(clients: u32, is_bound: bool) -> Part {
    Part::Hello { clients, is_bound }
}

const ACTS: [(&str, Part); 15] = [
    ("hello, 64 connections", hello_by(2, false)),
    ("hello, one client thread", hello_by(1, false)),
    ("hello, bound", hello_by(2, true)),
    ("hello, bound, one client thread", hello_by(1, true)),
    (
        "computing, probe on new connections",
        computes(false, COMPUTING),
    ),
    ("computing, probe on kept ones", computes(true, COMPUTING)),
    (
        "computing by 200, probe on new connections",
        computes(false, MANY),
    ),
    ("computing by 200, probe on kept ones", computes(true, MANY)),
    (
        "computing by 100 streams, probe on their connection",
        Part::Streams,
    ),
    ("a flood of /healthz", Part::Flood),
    ("idle connections", Part::Idle),
    ("one connection, 100/s", rate(100, false)),
    ("one connection, 100/s, after 11 s", rate(100, true)),
    ("one connection, 1,000/s", rate(1_000, false)),
    ("one connection, 5,000/s", rate(5_000, false)),
];

const fn computes(keeps: bool, connections: u32) -> Part {
    Part::Computing { keeps, connections }
}

pub(super) const PLAN: Plan = Plan {
    scenario: "http",
    work: |options| {
        // The system calls of this process say nothing about the servers.
        let seconds = options.seconds.unwrap_or(options.full_or_quick(SECONDS));
        let work = Work::of(seconds, options.full_or_quick([1, 0]), 0);
        work.at_most(SPARE + Duration::from_secs(seconds.into()))
    },
    contestants: |stage| {
        clients::look_for_wrk()?;
        clients::allow_descriptors()?;
        Ok(contestants(&stage.options))
    },
    compared: "rate_per_s",
    notes: |_| Vec::from_iter(fewer(clients::connections_of(CONNECTIONS))),
    ..Plan::NEW
};

fn fewer(fit: u64) -> Option<String> {
    (fit < CONNECTIONS).then(|| {
        format!(
            "{fit} idle connections instead of {CONNECTIONS}, because a process may not have more \
             descriptors: raise the hard limit, by `ulimit -Hn 20000` as root, or LimitNOFILE= of a \
             systemd unit"
        )
    })
}

fn contestants(options: &Options) -> Vec<Contestant> {
    let unprivileged = options.unprivileged;
    let life_s = SERVER_MAX_S + u64::from(options.seconds.unwrap_or(0) * options.rounds());
    let mut all = Vec::new();
    for (variant, part) in ACTS {
        let takes_part =
            |server: &&Server| server.parts.iter().any(|part| variant.starts_with(part));
        for server in servers::ALL.iter().filter(takes_part) {
            let start = move || {
                let mut more = vec![format!("--seconds-max={life_s}")];
                more.extend(unprivileged.then(|| "--unprivileged".to_owned()));
                let is_bound = matches!(part, Part::Hello { is_bound: true, .. });
                more.extend(is_bound.then(|| "--bound".to_owned()));
                let site = Site::start(server.flag, steps_for(COMPUTATION), &more)?;
                Ok((site, true))
            };
            let run = move |(site, is_new): &mut (Site, bool), seconds| {
                act(site, part, std::mem::take(is_new), seconds)
            };
            let one = Contestant::new(server.name, variant, start, run, |(site, _)| site.end());
            all.push(one.baseline_if(server.name == BASELINE));
        }
    }
    all
}

fn act(site: &Site, part: Part, is_new: bool, seconds: u32) -> Result<Outcome> {
    if is_new {
        site.touch()?;
    }
    match part {
        Part::Idle => {
            let few = if is_new { FEW } else { CONNECTIONS };
            clients::idle(site, clients::connections_of(few), seconds)
        }
        _ if seconds == 0 => Ok(Outcome::default()),
        Part::Hello { clients, .. } => hello(site, clients, seconds),
        Part::Computing { keeps, connections } => computing(site, seconds, |span, delay| {
            let probe = Probe::start(site.address, keeps, PROBED, delay, span)?;
            let found = site
                .wrk("/compute", [CLIENTS, connections], seconds)?
                .finish();
            let (late, errors) = probe.finish()?;
            let found = found?;
            Ok((found.requests, found.per_s, late, found.errors + errors))
        }),
        Part::Streams => computing(site, seconds, |span, delay| {
            streams::probed(site.address, STREAMS, PROBED, delay, span)
        }),
        Part::Flood => flood(site, seconds),
        Part::Rate { per_s, rests } => {
            site.touch()?;
            thread::sleep(if rests { RESTS } else { EDGE_MAX });
            clients::fixed_rate(site, per_s, seconds)
        }
    }
}

fn hello(site: &Site, clients: u32, seconds: u32) -> Result<Outcome> {
    let process = site.process();
    let load = |seconds| site.wrk("/", [clients, GREETED], seconds)?.finish();
    let (cpu, switches, counts) = (process.cpu()?, process.switches()?, site.counts());
    let found = load(seconds)?;
    let cpu_us = process.cpu()?.saturating_sub(cpu).as_secs_f64() * 1e6;
    let [switches, _] = process.switches()?.since(&switches);
    let requests = found.requests.max(1) as f64;
    let mut figures = vec![
        ("rate_per_s", found.per_s),
        ("server_cpu_us_per_op", cpu_us / requests),
        ("switches_per_op", switches as f64 / requests),
        ("errors_count", found.errors as f64),
    ];
    if let Some((before, now)) = counts.zip(site.counts()) {
        let names = ["rings_per_op", "stolen_per_op"];
        let since = now.iter().zip(before).map(|(now, then)| now - then);
        figures.extend(names.into_iter().zip(since.map(|count| count / requests)));
    }
    // Counting makes each system call longer.
    if let Some(mut counters) = clients::counters_of_polls(process) {
        let counted = load(1)?.requests.max(1) as f64;
        let polls: u64 = counters
            .iter_mut()
            .map(SyscallCounter::read)
            .sum::<Result<_, _>>()?;
        figures.push(("polls_per_op", polls as f64 / counted));
    }
    Ok(Outcome::of(found.requests, [])
        .and(figures)
        .and(found.percentiles()))
}

/// Calls `probed` with how long it is to probe, and after which delay. It returns how much was computed, how much in a
/// second, and the latenesses and errors.
fn computing(
    site: &Site,
    seconds: u32,
    probed: impl FnOnce(Duration, Duration) -> Result<(u64, f64, Samples, u64)>,
) -> Result<Outcome> {
    let all = Duration::from_secs(seconds.into());
    let edge = (all / EDGE).min(EDGE_MAX);
    let (requests, per_s, late, errors) = probed(all.saturating_sub(2 * edge), edge)?;
    let figures = [
        ("rate_per_s", per_s),
        ("probes_count", late.len() as f64),
        ("errors_count", errors as f64),
    ];
    let outcome = Outcome::of(requests, figures).late(late);
    Ok(outcome.and(site.computations()))
}

/// A flood of requests that are urgent on servers with classes, and what it leaves to other work.
fn flood(site: &Site, seconds: u32) -> Result<Outcome> {
    let seconds = (seconds / 3).max(1);
    let load = || site.wrk("/compute", [CLIENTS, COMPUTING], seconds);
    let flood = || site.wrk("/healthz", [CLIENTS, GREETED], seconds);
    let alone = load()?.finish()?;
    let flooding = flood()?;
    let beside = load()?.finish()?;
    let flooded = flooding.finish()?;
    let other = flood()?;
    let plain = || {
        Ok(|| {
            compute(steps_for(COMPUTATION) / COUNTED);
            Ok(())
        })
    };
    let began = Instant::now();
    let (parts, other) = beside_threads(("plain", PLAIN), plain, || other.finish())?;
    let plain_per_s = parts as f64 / COUNTED as f64 / began.elapsed().as_secs_f64();
    let other = other?;
    let errors = alone.errors + beside.errors + flooded.errors + other.errors;
    let figures = [
        ("rate_per_s", beside.per_s),
        ("alone_per_s", alone.per_s),
        ("flood_per_s", flooded.per_s),
        ("plain_per_s", plain_per_s),
        ("flood_beside_plain_per_s", other.per_s),
        ("errors_count", errors as f64),
    ];
    let kept = (alone.per_s > 0.0).then(|| ("kept_x", beside.per_s / alone.per_s));
    Ok(Outcome::of(beside.requests, figures).and(kept))
}

/// Options of a web server.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    sleep 60 | doorbell lab-server http --who tokio --listen 127.0.0.1:8080")]
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
    /// Bind each serving thread to a CPU
    #[arg(long)]
    bound: bool,
}

/// The flags of the servers on a command line.
pub fn server_flags() -> impl Iterator<Item = &'static str> {
    servers::ALL.iter().map(|server| server.flag)
}

/// Serves in this process: prints the address, and ends with standard input.
pub(crate) fn serve(options: &ServerOptions, say: impl FnOnce(&str) -> Result<()>) -> Result<()> {
    if options.unprivileged {
        give_up_privileges()?;
    }
    clients::allow_descriptors()?;
    let mut all = servers::ALL.iter();
    let server = all.find(|server| server.flag == options.who);
    let server = server.ok_or_else(|| unknown("server", &options.who, server_flags()))?;
    let steps = options.compute_steps;
    let steps = steps.unwrap_or_else(|| steps_for(COMPUTATION));
    let work = Computation::new(steps, options.compute_slices);
    let workers = if options.bound {
        Workers::Bound(allowed_cpus()?.into_iter().take(WORKERS).collect())
    } else {
        Workers::Free(WORKERS)
    };
    let (address, end) = server.start.at(options.listen, &Setup { work, workers })?;
    say(&format!("{address}\n"))?;
    let waited = clients::wait_for_end(Duration::from_secs(options.seconds_max));
    end();
    waited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_one_baseline_and_names_are_unique() {
        let all = contestants(&Options::default());
        for (act, _) in ACTS {
            let group: Vec<_> = all.iter().filter(|one| one.group == act).collect();
            assert!(group.len() >= 3, "{act}");
            assert_eq!(group.iter().filter(|one| one.is_baseline).count(), 1);
            let mut names: Vec<_> = group.iter().map(|one| &one.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), group.len(), "{act}");
        }
    }

    #[test]
    fn fewer_connections_come_with_a_remedy() {
        assert_eq!(fewer(CONNECTIONS), None);
        let note = fewer(512).expect("it is told");
        assert!(note.contains("512") && note.contains("ulimit"), "{note}");
    }
}
