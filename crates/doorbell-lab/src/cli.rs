//! The command line.

mod child;
mod help;
mod info;
mod lab;
mod sim;

use clap::{Args, Parser, Subcommand};

use crate::scenario::{
    Options, flood, http, idle, shootdown, spawn, stuck, timer_acc, timer_cost, timer_idle, wake,
};
use crate::torture::TortureOptions;
use help::{call_help, trial_help, urgent_help};

pub use child::{ClientCommand, HttpClientArgs, HttpServerArgs, ServerCommand};
pub use info::InfoArgs;
pub use lab::{CallArgs, HttpArgs, LabArgs, TourArgs, UrgentArgs};
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
        doorbell lab                 a tour of all but http, in about three minutes\n  \
        doorbell lab call            how long a call to another core takes, as a table\n  \
        doorbell lab call --quick    a first look within seconds\n  \
        doorbell lab spawn           how fast tasks are spawned, chained and woken\n  \
        doorbell lab flood           how many posts to one core are done in a second\n  \
        doorbell lab shootdown       what ringing only sleeping workers saves, when all cores call all\n  \
        doorbell lab idle            what an idle runtime costs\n  \
        doorbell lab timer-cost      what a timer that never fires costs\n  \
        doorbell lab timer-acc       how late sleeps end\n  \
        doorbell lab timer-idle      what wakes up for periodic timers\n  \
        doorbell lab urgent          how soon urgent work runs while every core computes\n  \
        doorbell lab wake            how soon woken workers run, like schbench\n  \
        doorbell lab stuck           how others do the work of a core inside a long poll\n  \
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
    /// Without a scenario this is a tour of all scenarios except `http`, which needs `wrk`. It takes about
    /// three minutes, and a sentence under each table says what it shows.
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

/// The scenarios.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Call another core and wait for the answer
    ///
    /// A call is a closure that runs on another core while its caller waits. Measured are the time from
    /// request to answer, one call at a time, between two CPUs that are not SMT siblings, and the
    /// interrupts, context switches and system calls of a call. The callee spins for the call, or sleeps.
    /// The caller spins for the answer, or sleeps too; the rows say which. The limit is a cache line that
    /// goes to the other CPU and back.
    #[command(after_long_help = call_help())]
    Call(CallArgs),

    /// Spawn tasks, chain them, let them exchange messages and yield
    ///
    /// Seven shapes of a runtime's everyday work, from tokio's own benchmark of its multi-thread scheduler:
    /// many tasks spawned by a task or by another thread, to idle and to busy workers; chains of spawns;
    /// pairs that exchange messages; yields. doorbell and tokio have two workers each, and each shape is
    /// one row.
    #[command(after_long_help = trial_help(
        "spawn",
        "the whole table, in about 1 minute",
        "tokio",
        spawn::reading(),
    ))]
    Spawn(LabArgs),

    /// Post to one core from many threads, and wait for nothing
    ///
    /// 1, 2, 8 and 32 threads post work to one core as fast as they can, at most 10,000 ahead each.
    /// Measured are the posts done per second, and how much other work is disturbed. Contestants:
    /// doorbell's posts, calls and tasks, tokio's tasks and channel, and the channels of std and crossbeam.
    /// The limit is a ring buffer for each producer.
    #[command(after_long_help = trial_help(
        "flood",
        "the whole table, in a few minutes",
        "tokio",
        flood::reading(),
    ))]
    Flood(LabArgs),

    /// Call all cores from everywhere at once, and wait for all answers
    ///
    /// A task on every core and 32 other threads repeatedly call all cores, each waiting for every answer.
    /// Measured are the calls per second, and how often a system call wakes a worker for them. Two settings
    /// of the switch `call_coalesce` are compared: with `on` a post makes the system call only if the
    /// worker sleeps and was not woken yet; with `base` every post makes it.
    #[command(after_long_help = trial_help(
        "shootdown",
        "the whole table, in about 40 seconds",
        "call_coalesce=on",
        shootdown::reading(),
    ))]
    Shootdown(LabArgs),

    /// Let a runtime idle after work, and measure what it costs
    ///
    /// Two workers do a little work, and then have none for 10 s. Measured are how often their threads
    /// leave a CPU in that time, their CPU time and their system calls, beside tokio.
    #[command(after_long_help = trial_help(
        "idle",
        "the whole table, in about 3 minutes",
        "tokio",
        idle::reading(),
    ))]
    Idle(LabArgs),

    /// Create a timer, poll it once and drop it
    ///
    /// Most timers are timeouts, which never fire. Measured is the cost of a timeout: created one by one,
    /// in batches, each earlier than all before, beside many others, and on both cores at once.
    /// Contestants: doorbell, tokio and async-io; the floor is a bare array of lists. The clock that a
    /// sleep reads has rows of its own.
    #[command(after_long_help = trial_help(
        "timer-cost",
        "the whole table, in about 2 minutes",
        "tokio",
        timer_cost::reading(),
    ))]
    TimerCost(LabArgs),

    /// Sleep for a while, and measure how late the wake-up comes
    ///
    /// 400 tasks on two cores sleep 25 times each, for 1 to 50 ms. Measured are how long after its deadline
    /// each goes on, and the CPU time of the whole. Contestants: doorbell, tokio and async-io; the baseline
    /// is 400 threads that sleep in the kernel. All threads set a timer slack of 1 ns, except those of one
    /// row, which keep the default of 50 us.
    #[command(after_long_help = trial_help(
        "timer-acc",
        "the whole table, in about 1 minute",
        "tokio",
        timer_acc::reading(),
    ))]
    TimerAcc(LabArgs),

    /// Let 1,000 periodic timers tick, and count what wakes up for it
    ///
    /// Periods lie between 10 ms and 1 s, evenly spread on a logarithmic scale. Measured are the wake-ups
    /// of threads per tick, and the CPU time. Contestants: doorbell with and without slack, doorbell with
    /// pinned tasks, tokio and async-io.
    #[command(after_long_help = trial_help(
        "timer-idle",
        "the whole table, in about 3 minutes",
        "tokio",
        timer_idle::reading(),
    ))]
    TimerIdle(LabArgs),

    /// Wake something urgent while every core computes
    ///
    /// 64 jobs compute on two cores, 10 ms in each poll. Beside them an urgent task or thread is woken
    /// every millisecond: by a thread outside, from another core, by its own timer, or by a call. Measured
    /// are how soon it runs, and how much work the jobs get done. On doorbell it is a task of class Rt
    /// beside Fair jobs, or of class Fair beside Batch jobs; either on the same core as the bare thread, or
    /// where doorbell places it. On tokio it is a task, and the jobs are tasks, run in `spawn_blocking`, or
    /// run on threads under `SCHED_IDLE`. The baseline is a thread of its own.
    ///
    /// With --slices all contestants are threads: one is woken beside one that computes, with several
    /// slices and nice values.
    #[command(after_long_help = urgent_help())]
    Urgent(UrgentArgs),

    /// Wake workers every 4 ms, and measure how soon they run
    ///
    /// Like schbench: each of 8 messengers wakes its 4 workers, or 16 at moderate load, every 4 ms, and
    /// each worker computes for 30 us. Measured are how long after its wake a worker runs, and the CPU time
    /// of the whole. Workers are tasks of doorbell, tokio or smol, OS threads, or jobs of a pool that never
    /// sleeps. Messengers are tasks of the same runtime, or OS threads. Each contestant has two CPUs, and
    /// runs both with its threads bound to them and without.
    #[command(after_long_help = trial_help(
        "wake",
        "the whole table, in about 9 minutes",
        "tokio",
        wake::reading(),
    ))]
    Wake(LabArgs),

    /// Block one core in a long poll, and measure how others do its work
    ///
    /// On one of two cores 1, 2 or 4 tasks are spawned, or a task sleeps for 1 ms; then a poll takes 10 ms
    /// on that core. Measured are how late the tasks start and how late the sleeper continues, while the
    /// second core is parked and while it is awake with short polls, beside tokio.
    #[command(after_long_help = trial_help(
        "stuck",
        "the whole table, in about 5 minutes",
        "tokio",
        stuck::reading(),
    ))]
    Stuck(LabArgs),

    /// Let a small web server greet, compute and wait
    ///
    /// Servers with two threads, each server in a process of its own, on the loopback: hyper on doorbell,
    /// on tokio and on two single-threaded tokio runtimes, with the same features; one on tokio with fewer;
    /// and bare epoll as a limit. Measured are the greetings per second and the CPU time of each; how soon
    /// the server answers a probe while it computes; and the cost of 10,000 idle connections.
    ///
    /// Needs `wrk`: `apt-get install wrk`.
    #[command(after_long_help = trial_help(
        "http",
        "the whole table, in about 26 minutes",
        "tokio",
        http::reading(),
    ))]
    Http(HttpArgs),
}

impl LabCommand {
    /// The options of this scenario.
    pub fn options(&self) -> Options {
        match self {
            Self::Call(args) => args.options(),
            Self::Urgent(args) => args.options(),
            Self::Http(args) => args.options(),
            Self::Spawn(args)
            | Self::Flood(args)
            | Self::Shootdown(args)
            | Self::Idle(args)
            | Self::TimerCost(args)
            | Self::TimerAcc(args)
            | Self::TimerIdle(args)
            | Self::Stuck(args)
            | Self::Wake(args) => args.options(),
        }
    }
}

#[cfg(test)]
mod examples;

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::scenario::Effort;
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
