//! The program `doorbell`: measurements of Doorbell beside its peers.
//!
//! | module | what it does |
//! |---|---|
//! | `cli` | the command line |
//! | `scenario` | the measurements: each a plan and a text |
//! | `frame` | what runs a plan: contestants, rounds, ratios, columns |
//! | `peers` | the runtimes that are compared, one a file |
//! | `tools` | what the work of several scenarios needs |
//! | `calibrate` | this host as a profile of the simulator |
//! | `simulator` | the protocols on simulated machines: fuzz, replay, mutants |
//! | `info` | what this machine allows a runtime, and what a runtime gets |
//! | `tour` | most scenarios in a short form, one after another |
//! | `measure` | the instruments: clock, percentiles, interrupts, system calls, CPUs |
//! | `report` | table, JSON and page |

mod calibrate;
mod cli;
mod error;
mod frame;
mod info;
mod measure;
mod peers;
mod progress;
mod report;
mod scenario;
mod simulator;
mod text;
mod tools;
mod tour;

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use serde::Serialize;

use crate::cli::{Chosen, Cli, Command, ServerCommand, SimCommand};
use crate::report::{Report, text_of, to_json};
use crate::scenario::{Options, http, seeds};

pub use scenario::http::server_flags;

/// Runs the program. Errors go to standard error, as one sentence.
pub fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes a line to standard error. An error in writing is ignored.
fn tell(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn run(cli: Cli) -> Result<()> {
    let say = |line: &str| print(line).map(drop);
    match cli.command {
        Command::Lab { tour, scenario } => match scenario {
            Some(chosen) => run_scenario(&chosen),
            None => tour::run(&tour, print),
        },
        Command::Info(args) => print_value(args.json, &info::run()?),
        Command::Calibrate(options) => print_value(options.json, &calibrate::run(&options)?),
        Command::Sim { command } => run_simulator(command),
        Command::LabPicture(options) => say(&report::picture::draw(&options)?),
        Command::LabServer { command } => match command {
            ServerCommand::Http(options) => http::serve(&options, say),
        },
    }
}

fn run_scenario(chosen: &Chosen) -> Result<()> {
    let options = &chosen.options;
    if chosen.scenario.name == seeds::NAME && options.sim.is_none() {
        let (report, page) = seeds::run(options)?;
        return give_out(&report, options, || page);
    }
    let report = chosen.report()?;
    give_out(&report, options, || report.to_table(options.wide))
}

/// Prints also what a failed run found.
fn run_simulator(command: SimCommand) -> Result<()> {
    let (is_json, value, checked) = match command {
        SimCommand::Fuzz(options) => {
            let report = simulator::fuzz(&options)?;
            (options.json, report.json(), report.check())
        }
        SimCommand::Replay(options) => {
            let (json, checked) = simulator::replay(&options)?;
            (false, json, checked)
        }
        SimCommand::Mutants(options) => {
            let (json, checked) = simulator::mutants(&options)?;
            (options.json, json, checked)
        }
    };
    print_value(is_json, &value)?;
    checked
}

/// Prints it as JSON or as text.
fn print_value(json: bool, value: &impl Serialize) -> Result<()> {
    let text = if json {
        to_json(value)?
    } else {
        text_of(&serde_json::to_value(value)?)
    };
    print(&text).map(drop)
}

/// Writes the table or the JSON, then the page if requested. So a page that cannot be written does not lose
/// the figures.
fn give_out(report: &Report, options: &Options, to_table: impl FnOnce() -> String) -> Result<()> {
    let text = if options.json {
        to_json(report)?
    } else {
        to_table()
    };
    print(&text)?;
    match &options.html {
        Some(path) => fs::write(path, report.to_html()).with_context(|| cannot_write(path)),
        None => Ok(()),
    }
}

/// Writes to standard output. Returns whether it can still be written to.
fn print(text: &str) -> Result<bool> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => Ok(true),
        // The reader has ended, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write standard output"),
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// The text of a file.
fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
