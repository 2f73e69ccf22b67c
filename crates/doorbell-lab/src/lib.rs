//! The program `doorbell`: measurements of Doorbell beside its peers, and its torture test.
//!
//! | module | what it does |
//! |---|---|
//! | [`cli`] | the command line and its help |
//! | [`scenario`] | the measurements: contestants, rounds, the rule that drops a round |
//! | [`calibrate`] | this host as a profile of the simulator |
//! | [`simulator`] | the protocols on simulated machines: fuzz, replay, mutants |
//! | [`info`] | what this machine allows a runtime, and what a runtime gets |
//! | [`torture`] | everything at once, with a check of every closure and count |
//! | [`tour`] | every scenario in a short form, one after another |
//! | [`measure`] | the instruments: clock, percentiles, interrupts, system calls, CPUs |
//! | [`report`] | table, JSON and page |
//!
//! A new peer is a file beside `scenario/call/line.rs` that implements
//! [`Contestant`](scenario::Contestant). A new scenario is a folder beside `scenario/call`, or
//! beside `scenario/timer_cost` if there is no physical limit to it.

pub mod calibrate;
pub mod cli;
mod error;
pub mod info;
pub mod measure;
mod progress;
pub mod report;
pub mod scenario;
pub mod simulator;
pub mod torture;
pub mod tour;

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use crate::calibrate::CalibrateOptions;
use crate::cli::{Cli, ClientCommand, Command, LabCommand, ServerCommand, SimCommand};
use crate::report::Report;
use crate::scenario::Options;
use crate::torture::TortureOptions;

pub use error::LabError;

/// Runs the program. Errors go to standard error, as one sentence.
pub fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes a line to standard error. An error in writing is ignored.
fn tell(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn run(cli: &Cli) -> Result<(), LabError> {
    let (tour, scenario) = match &cli.command {
        Command::Lab { tour, scenario } => (tour, scenario),
        Command::Info(args) => {
            let info = info::run()?;
            return print_one_of(args.json, || info.to_json(), || info.to_table());
        }
        Command::Torture(args) => return run_torture(&args.options()),
        Command::Calibrate(args) => return run_calibrate(&args.options()),
        Command::Sim { command } => return run_simulator(command),
        Command::LabServer { command } => return run_server(command),
        Command::LabClient { command } => return run_client(command),
    };
    let Some(command) = scenario else {
        return tour::run(&tour.options(), print);
    };
    let options = command.options();
    if let Some(sim) = &options.sim {
        let report = scenario::simulated::run(command.name(), sim, &options)?;
        return give_out(&report, &options);
    }
    let report = match command {
        LabCommand::Call(_) => scenario::call::run(&options),
        LabCommand::Spawn(_) => scenario::spawn::run(&options),
        LabCommand::Flood(_) => scenario::flood::run(&options),
        LabCommand::Shootdown(_) => scenario::shootdown::run(&options),
        LabCommand::Idle(_) => scenario::idle::run(&options),
        LabCommand::TimerCost(_) => scenario::timer_cost::run(&options),
        LabCommand::TimerAcc(_) => scenario::timer_acc::run(&options),
        LabCommand::TimerIdle(_) => scenario::timer_idle::run(&options),
        LabCommand::TimerSleepers(_) => scenario::timer_sleepers::run(&options),
        LabCommand::Requests(_) => Err(LabError::OnlySimulated {
            scenario: command.name(),
        }),
        LabCommand::Wake(_) => scenario::wake::run(&options),
        LabCommand::Pingpong(_) => scenario::pingpong::run(&options),
        LabCommand::Stuck(_) => scenario::stuck::run(&options),
        LabCommand::Busy(args) => scenario::busy::run(&options, args.seconds),
        LabCommand::Http(args) => scenario::http::run(&options, args.unprivileged),
        LabCommand::Rank(args) => {
            give_up_if(args.unprivileged)?;
            scenario::rank::run(&options)
        }
        LabCommand::Rt(args) => {
            give_up_if(args.unprivileged)?;
            scenario::rt::run(&options, args.period())
        }
        LabCommand::Urgent(args) => {
            give_up_if(args.unprivileged)?;
            if args.slices {
                scenario::urgent::run_slices(&options)
            } else {
                scenario::urgent::run(&options)
            }
        }
    }?;
    give_out(&report, &options)
}

/// Gives up the right to real-time priorities if that was asked for.
fn give_up_if(is_asked: bool) -> Result<(), LabError> {
    if is_asked {
        scenario::urgent::give_up_privileges()?;
    }
    Ok(())
}

fn run_torture(options: &TortureOptions) -> Result<(), LabError> {
    let report = torture::run(options);
    print_one_of(options.json, || report.to_json(), || report.to_table())?;
    report.check()
}

fn run_calibrate(options: &CalibrateOptions) -> Result<(), LabError> {
    let report = calibrate::run(options)?;
    print_one_of(options.json, || report.to_json(), || report.to_table())
}

fn run_simulator(command: &SimCommand) -> Result<(), LabError> {
    match command {
        SimCommand::Fuzz(args) => {
            let report = simulator::fuzz(&args.options())?;
            print_one_of(args.json(), || report.to_json(), || report.to_table())?;
            report.check()
        }
        SimCommand::Replay(args) => {
            let report = simulator::replay(&args.options())?;
            print(&report.to_text())?;
            report.check()
        }
        SimCommand::Mutants(args) => {
            let report = simulator::mutants(&args.options())?;
            print_one_of(args.json(), || report.to_json(), || report.to_table())?;
            report.check()
        }
    }
}

fn run_server(command: &ServerCommand) -> Result<(), LabError> {
    let ServerCommand::Http(args) = command;
    scenario::http::serve(&args.options(), |line| print(line).map(drop))
}

fn run_client(command: &ClientCommand) -> Result<(), LabError> {
    let ClientCommand::Http(args) = command;
    let most = Duration::from_secs(args.seconds_max);
    scenario::http::hold(args.connect, args.connections, most, |line| {
        print(line).map(drop)
    })
}

/// Prints the JSON or the table, also of a failed run; the failure is returned afterwards.
fn print_one_of(
    json: bool,
    to_json: impl FnOnce() -> Result<String, LabError>,
    to_table: impl FnOnce() -> String,
) -> Result<(), LabError> {
    let text = if json { to_json()? } else { to_table() };
    print(&text).map(drop)
}

/// Writes the table or the JSON, then the page if requested. So a page that cannot be written does not lose
/// the figures.
fn give_out(report: &Report, options: &Options) -> Result<(), LabError> {
    let text = if options.json {
        report.to_json()? + "\n"
    } else {
        report.to_table(options.is_wide)
    };
    print(&text)?;
    match &options.html {
        Some(path) => fs::write(path, report.to_html()).map_err(|source| file_error(path, source)),
        None => Ok(()),
    }
}

/// Writes to standard output. Returns whether it can still be written to.
fn print(text: &str) -> Result<bool, LabError> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => Ok(true),
        // The reader has ended, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(source) => Err(file_error(Path::new("standard output"), source)),
    }
}

pub(crate) fn file_error(path: &Path, source: io::Error) -> LabError {
    LabError::File {
        action: "write",
        path: path.to_owned(),
        source,
    }
}
