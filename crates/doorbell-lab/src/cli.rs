//! The command line.

mod child;
mod help;
mod info;
mod lab;
mod scenario;
mod sim;

use clap::{Args, Parser, Subcommand};

use crate::torture::TortureOptions;

pub use child::{ClientCommand, HttpClientArgs, HttpServerArgs, ServerCommand};
pub use info::InfoArgs;
pub use lab::{BusyArgs, CallArgs, HttpArgs, LabArgs, RankArgs, RtArgs, TourArgs, UrgentArgs};
pub use scenario::LabCommand;
pub use sim::{CalibrateArgs, FuzzArgs, MutantsArgs, ReplayArgs, SimCommand};

/// The most rounds.
const ROUNDS_MAX: i64 = 1_000;

/// Doorbell: cores that work together without disturbing each other
#[derive(Debug, Parser)]
#[command(
    name = "doorbell",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Examples:\n  \
        doorbell lab                 a tour of most scenarios, in about three minutes\n  \
        doorbell lab call            how long a call to another core takes, as a table\n  \
        doorbell lab call --quick    a first look within seconds\n  \
        doorbell lab spawn           how fast tasks are spawned, chained and woken\n  \
        doorbell lab flood           how many posts to one core are done in a second\n  \
        doorbell lab shootdown       what ringing only sleeping workers saves, when all cores call all\n  \
        doorbell lab idle            what an idle runtime costs\n  \
        doorbell lab timer-cost      what a timer that never fires costs\n  \
        doorbell lab timer-cost --sim zen3-2x64    the same on a simulated machine, beside busy workers\n  \
        doorbell lab timer-acc       how late sleeps end\n  \
        doorbell lab timer-idle      what wakes up for periodic timers\n  \
        doorbell lab timer-sleepers  which sleeping workers wake for their timers\n  \
        doorbell lab timer-sleepers --sim zen3-2x64    the same on a simulated machine\n  \
        doorbell lab requests --sim zen3-2x64    clients and servers under timeouts, like dbench\n  \
        doorbell lab urgent          how soon urgent work runs while every core computes\n  \
        doorbell lab rank            how long the most urgent task waits behind a less urgent poll\n  \
        doorbell lab rank --sim xeon-40   the same on a simulated machine\n  \
        doorbell lab rt              periodic urgent tasks on all cores at once, like cyclictest\n  \
        doorbell lab rt --sim xeon-40     the same on a simulated machine of 8 to 192 cores\n  \
        doorbell lab wake            how soon woken workers run, like schbench\n  \
        doorbell lab wake --sim smt-20    the same on a simulated machine\n  \
        doorbell lab pingpong        pairs that exchange messages, and frames of short tasks\n  \
        doorbell lab pingpong --sim smt-20    the pairs on a simulated machine\n  \
        doorbell lab stuck           how others do the work of a core inside a long poll\n  \
        doorbell lab busy            what waits while tasks compute and yield\n  \
        doorbell lab http            a small web server, greeting, computing and idle\n  \
        doorbell info                what this machine allows a runtime, and what to do about it\n  \
        doorbell torture             everything at once; every count must add up\n  \
        doorbell sim fuzz            the protocols on simulated machines, many seeds\n  \
        doorbell calibrate           this host as a machine for the simulator\n  \
        doorbell help lab call       what is measured, and what each column means"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure Doorbell and its peers on this machine
    ///
    /// Without a scenario this is a tour of all scenarios except `http`, which needs `wrk`, `busy` and
    /// `timer-sleepers`, which take long, and `requests`, which is simulated. It takes about three minutes, and a sentence
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
        after_help = "Examples:\n  \
            doorbell lab\n  \
            doorbell lab --json > tour.json\n  \
            doorbell lab --only timer --rounds 1\n  \
            doorbell lab call --quick\n  \
            doorbell lab call --rounds 15 --html call.html\n  \
            doorbell lab call --json | jq '.rows[] | [.contestant, .metrics.p50_ns]'"
    )]
    Lab {
        /// Options of the tour.
        #[command(flatten)]
        tour: TourArgs,
        /// What to measure [default: a tour of all]
        #[command(subcommand)]
        scenario: Option<LabCommand>,
    },

    /// Show what this machine allows a runtime, and what a runtime gets
    ///
    /// Shows the usable CPUs, the clock, and the policies that the OS grants threads, or why it refuses
    /// them. Then it shows what the workers of a small runtime with all classes got, its switches, and how
    /// to get more. A value that cannot be read is `not known`.
    #[command(after_help = "Examples:\n  \
            doorbell info\n  \
            doorbell info --json | jq '.workers[] | select(.is_as_wanted | not) | .says'\n  \
            DOORBELL_SWITCHES=idle_notify=off doorbell info")]
    Info(InfoArgs),

    /// Do everything at once, and check that nothing is lost
    ///
    /// Threads and tasks call, post, spawn, wake, sleep and abort at random, on spinning and parking
    /// workers, while cores go off and come back and other runtimes come and go. Every closure must run
    /// once, on its core, or be refused because the core is off. Its waiter must see what it wrote. At the
    /// end of a round the counters must add up, and nothing may be left.
    ///
    /// The seed determines the operations. Failures are printed with the seed of their round. The exit
    /// status is then 1, or 3 if the program hangs.
    #[command(after_help = "Examples:\n  \
            doorbell torture\n  \
            doorbell torture --seconds 600 --seed 42\n  \
            doorbell torture --json | jq .operations_count")]
    Torture(TortureArgs),

    /// Measure this host, as a profile of the simulator
    ///
    /// The measurements are small ones, independent of the lab's scenarios: the cost of a cache line in the
    /// own cache, at each distance and in memory; of system calls, switches and wakes; and of leaving a
    /// CPU's idle state. The profile has the medians over all rounds, and says how each value was measured.
    /// Values for parts that this host lacks (such as a second socket) are marked as assumed.
    ///
    /// Stop other programs first: their load would change the figures. It takes about ten seconds.
    #[command(after_help = "Examples:\n  \
            doorbell calibrate\n  \
            doorbell calibrate --out host.toml\n  \
            doorbell sim fuzz --profile host.toml --seeds 0..100\n  \
            doorbell calibrate --json | jq '.entries[] | [.key, .value]'")]
    Calibrate(CalibrateArgs),

    /// Run the protocols on simulated machines of up to 1,024 cores
    ///
    /// A seed determines a run: the program, the faults and the order of all steps. The oracles check all
    /// the time; first with faults, then without, until everything that was started has ended.
    #[command(after_help = "Examples:\n  \
            doorbell sim fuzz --seeds 0..1000 --cores 2..256\n  \
            doorbell sim fuzz --seeds 0..1000 --memory tso --profile epyc-2x64\n  \
            doorbell sim replay 17 --shape storm --cores 12 --trace out.json")]
    Sim {
        /// What to do.
        #[command(subcommand)]
        command: SimCommand,
    },

    /// Serve, as a child process of a scenario
    #[command(hide = true)]
    LabServer {
        /// What to serve.
        #[command(subcommand)]
        command: ServerCommand,
    },

    /// Send requests to such a server, as a child process of a scenario
    #[command(hide = true)]
    LabClient {
        /// Which client.
        #[command(subcommand)]
        command: ClientCommand,
    },
}

/// Options of the torture.
#[derive(Debug, Args)]
pub struct TortureArgs {
    /// Start rounds for this many seconds; the last round runs to its end
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: u64,

    /// The seed of the first round; each further round adds one [default: from the clock]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

impl TortureArgs {
    /// The options that these arguments amount to.
    pub fn options(&self) -> TortureOptions {
        TortureOptions {
            seconds: self.seconds,
            seed: self.seed,
            json: self.json,
        }
    }
}

#[cfg(test)]
mod examples;

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::scenario::{Effort, Options};
    use crate::tour::TourOptions;

    fn options(arguments: &[&str]) -> Options {
        let words = ["doorbell", "lab", "call"].iter().chain(arguments);
        let cli = Cli::try_parse_from(words).expect("the arguments are right");
        let Command::Lab { scenario, .. } = cli.command else {
            panic!("it is the lab");
        };
        scenario.expect("a scenario was named").options()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_the_full_effort() {
        assert_eq!(options(&[]).effort, Effort::FULL);
        assert_eq!(options(&["--quick"]).effort, Effort::QUICK);
    }

    #[test]
    fn what_is_said_wins_over_quick() {
        let effort = options(&["--quick", "--rounds", "5"]).effort;
        assert_eq!(
            effort,
            Effort {
                rounds: 5,
                ..Effort::QUICK
            }
        );
        let effort = options(&["--calls", "200"]).effort;
        assert_eq!(
            effort,
            Effort {
                calls: 200,
                ..Effort::FULL
            }
        );
    }

    #[test]
    fn without_a_scenario_it_is_a_tour() {
        let tour = |arguments: &[&str]| {
            let words = ["doorbell", "lab"].iter().chain(arguments);
            let Command::Lab { tour, scenario } = Cli::try_parse_from(words)?.command else {
                panic!("it is the lab");
            };
            assert!(scenario.is_none());
            Ok::<_, clap::Error>(tour.options())
        };
        assert_eq!(tour(&[]).expect("it is right"), TourOptions::default());
        let options = tour(&["--quick", "--json", "--only", "timer"]).expect("it is right");
        let expected = TourOptions {
            rounds: Some(1),
            json: true,
            is_wide: false,
            only: Some("timer".to_owned()),
        };
        assert_eq!(options, expected);
        assert!(tour(&["--quick", "--rounds", "3"]).is_err());
        assert!(tour(&["nothing-of-that-name"]).is_err());
    }

    #[test]
    fn nothing_to_do_is_refused() {
        for arguments in [["--rounds", "0"], ["--calls", "0"], ["--calls", "10000001"]] {
            let words = ["doorbell", "lab", "call"].iter().chain(&arguments);
            assert!(Cli::try_parse_from(words).is_err(), "{arguments:?}");
        }
    }
}
