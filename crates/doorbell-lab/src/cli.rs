//! The command line. The scenarios' commands are made of the list of scenarios.

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Error, FromArgMatches, Parser, Subcommand};

use crate::calibrate::CalibrateOptions;
use crate::info::InfoArgs;
use crate::report::Report;
use crate::report::picture::PictureOptions;
use crate::scenario::http::ServerOptions;
use crate::scenario::{self, Options, Scenario, simulated};
use crate::simulator::{FuzzOptions, MutantsOptions, ReplayOptions};
use crate::text::Text;
use crate::tour::TourOptions;

/// The most rounds.
pub(crate) const ROUNDS_MAX: i64 = 1_000;
/// Options that only some scenarios have.
const EXTRAS: [&str; 4] = ["calls", "unprivileged", "seconds", "period_us"];

/// The examples of a command's help.
fn examples(command: &str) -> String {
    let lines = Text(include_str!("cli.md")).lines(command);
    format!("Examples:\n  {}", lines.join("\n  "))
}

/// Doorbell: cores that work together without disturbing each other
#[derive(Debug, Parser)]
#[command(
    name = "doorbell",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = examples("doorbell")
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure Doorbell and its peers on this machine
    ///
    /// Without a scenario this is a tour of all scenarios except `http`, which needs `wrk`, `busy`,
    /// `timer-sleepers` and `seeds`, which take long, and `requests`, which is simulated. It takes about three minutes, and a sentence
    /// under each table says what it shows.
    ///
    /// Every scenario runs its contestants interleaved, in rounds. Figures are medians over the rounds,
    /// with the minimum and maximum beside them if there is room; --wide shows everything.
    ///
    /// `call` reads the physical limit before and after each pass. If the two readings differ by more than
    /// a factor of 1.5, the pass is repeated; after two repetitions the round is dropped. All other
    /// scenarios keep every round and compare each contestant with a baseline of the same round.
    ///
    /// Stop other programs first: their load would change the figures.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = examples("doorbell lab")
    )]
    Lab {
        /// Options of the tour.
        #[command(flatten)]
        tour: TourOptions,
        /// What to measure [default: a tour of all]
        #[command(subcommand)]
        scenario: Option<Chosen>,
    },

    /// Show what this machine allows a runtime, and what a runtime gets
    ///
    /// Shows the usable CPUs, the clock, and the policies that the OS grants threads, or why it refuses
    /// them. Then it shows what the workers of a small runtime with all classes got, its switches, and how
    /// to get more. `-`: cannot be read, or is not there.
    #[command(after_help = examples("doorbell info"))]
    Info(InfoArgs),

    /// Measure this host, as a profile of the simulator
    ///
    /// The measurements are small ones, independent of the lab's scenarios: the cost of a cache line in the
    /// own cache, at each distance and in memory; of system calls, switches and wakes; and of leaving a
    /// CPU's idle state. The profile has the medians over all rounds, and says how each value was measured.
    /// Values for parts that this host lacks (such as a second socket) are marked as assumed.
    ///
    /// Stop other programs first: their load would change the figures. It takes about ten seconds.
    #[command(after_help = examples("doorbell calibrate"))]
    Calibrate(CalibrateOptions),

    /// Run the protocols on simulated machines of up to 1,024 cores
    ///
    /// A seed determines a run: the program, the faults and the order of all steps. The oracles check all
    /// the time; first with faults, then without, until everything that was started has ended.
    #[command(after_help = examples("doorbell sim"))]
    Sim {
        /// What to do.
        #[command(subcommand)]
        command: SimCommand,
    },

    /// Draw a picture of the documents, as SVG, from the JSON of `lab http` or `lab scale`
    #[command(hide = true)]
    LabPicture(PictureOptions),

    /// Serve, as a child process of a scenario
    #[command(hide = true)]
    LabServer {
        /// What to serve.
        #[command(subcommand)]
        command: ServerCommand,
    },
}

/// What to do on simulated machines.
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Run many seeds through every shape of program, each twice
    ///
    /// The first failure ends the run. Its seed, its cause, the last events of each core and the command
    /// that repeats it are printed, and the exit status is 1. The table shows which rare branches of the
    /// protocols were reached, and by how many seeds. Those below 1 per cent are marked as rare.
    ///
    /// Ranges are written as in Rust: `A..B` without B, `A..=B` with it.
    #[command(after_help = examples("doorbell sim fuzz"))]
    Fuzz(FuzzOptions),

    /// Repeat one seed, and write a trace of it
    ///
    /// The trace has a track for each thread of each core: when it ran, spun, waited and was parked, with
    /// arrows from each post to where it ran. Perfetto (ui.perfetto.dev) and Chrome (`chrome://tracing`)
    /// show it.
    #[command(after_help = examples("doorbell sim replay"))]
    Replay(ReplayOptions),

    /// Break lines of the protocols on purpose, and see which seed notices
    ///
    /// The exit status is 1 if no seed notices one. Mutants need a separate build:
    /// `cargo run --release --features mutants -- sim mutants`.
    #[command(after_help = examples("doorbell sim mutants"))]
    Mutants(MutantsOptions),
}

/// What to serve.
#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// A web server of `lab http`: prints its address, and ends with standard input
    Http(ServerOptions),
}

/// A scenario and its options.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) scenario: &'static Scenario,
    pub(crate) options: Options,
}

impl Chosen {
    /// Runs it, on this host or on a simulated machine.
    pub(crate) fn report(&self) -> Result<Report> {
        let Self { scenario, options } = self;
        match &options.sim {
            Some(sim) => simulated::run(scenario.name, sim, options),
            None => scenario.run(options),
        }
    }
}

impl Subcommand for Chosen {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        scenario::ALL.iter().fold(command, |command, scenario| {
            let text = scenario.text;
            let one = Options::augment_args(clap::Command::new(scenario.name));
            let one = one.about(text.about()).long_about(text.long());
            let one = one.after_long_help(text.after_help());
            let is_strange = |id: &str| EXTRAS.contains(&id) && !scenario.extras.contains(&id);
            command.subcommand(one.mut_args(|arg| {
                let hide = is_strange(arg.get_id().as_str());
                arg.hide(hide)
            }))
        })
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        scenario::of_name(name).is_some()
    }
}

impl FromArgMatches for Chosen {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let found = matches.subcommand();
        let found = found.and_then(|(name, matches)| Some((scenario::of_name(name)?, matches)));
        let Some((scenario, matches)) = found else {
            return Err(Error::raw(
                clap::error::ErrorKind::MissingSubcommand,
                "name a scenario\n",
            ));
        };
        let given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let strange = |id: &&str| !scenario.extras.contains(id);
        if let Some(id) = EXTRAS.iter().find(|id| given(id) && strange(id)) {
            let said = format!(
                "`{}` has no option --{}\n",
                scenario.name,
                id.replace('_', "-")
            );
            return Err(Error::raw(clap::error::ErrorKind::UnknownArgument, said));
        }
        let options = Options::from_arg_matches(matches)?;
        Ok(Self { scenario, options })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
