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
        doorbell lab shootdown       what it saves to ring only who sleeps, when all call all\n  \
        doorbell lab idle            what a runtime costs that has nothing to do\n  \
        doorbell lab timer-cost      what a timer costs that never fires\n  \
        doorbell lab timer-acc       how late sleeps end\n  \
        doorbell lab timer-idle      what wakes up for periodic timers\n  \
        doorbell lab urgent          how soon urgent work runs while every core computes\n  \
        doorbell lab wake            how soon workers run that were woken, as schbench\n  \
        doorbell lab stuck           who does the work of a core inside a long poll\n  \
        doorbell lab http            a small web server, greeting, computing and idle\n  \
        doorbell info                what this machine allows a runtime, and what to do about it\n  \
        doorbell torture             everything at once, and every count must add up\n  \
        doorbell sim fuzz            the protocols on simulated machines, under seeds\n  \
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
    /// Without a scenario this is a tour: all of them but `http`, which needs `wrk`, in a short form,
    /// in about three minutes, with a sentence under each table that says what it shows.
    ///
    /// Every scenario runs its contestants interleaved, in rounds. Figures are medians over the
    /// rounds, with the least and the greatest round beside them where there is room; --wide has all.
    ///
    /// `call` reads the physical limit before and after each pass. If the two readings differ by more
    /// than 1.5 times, the pass is repeated; after two repetitions the round is dropped. All other
    /// scenarios keep every round. They compare each contestant with one of them, the baseline, in the
    /// same round.
    ///
    /// Stop other programs first: every one of them is in the figures.
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
        /// What is measured without a scenario.
        #[command(flatten)]
        tour: TourArgs,
        /// What to measure; all in a short form if it is left out.
        #[command(subcommand)]
        scenario: Option<LabCommand>,
    },

    /// Say what this machine allows a runtime, and what one gets
    ///
    /// The CPUs that it may use, the clock that it reads, the policies that the OS lets its threads
    /// have, and why not; then what the workers of a small runtime got that uses all classes, its
    /// switches, and what could be done for more. What cannot be read is `not known`.
    #[command(after_help = "Examples:\n  \
            doorbell info\n  \
            doorbell info --json | jq '.workers[] | select(.is_as_wanted | not) | .says'\n  \
            DOORBELL_SWITCHES=idle_notify=off doorbell info")]
    Info(InfoArgs),

    /// Do everything at once, and look whether anything is lost
    ///
    /// Threads and tasks call, post, spawn, wake, sleep and abort at random, on workers that spin and
    /// that park, while cores go off and come back and other runtimes come and go. Every closure has
    /// to run on its core, once, or be refused because that is off; whoever waits for it has to see
    /// what it wrote; at the end of a round the counters have to add up, and nothing may be left.
    ///
    /// The operations come from the seed. What goes wrong is printed with the seed of its round, and
    /// the exit status is 1, or 3 if everything stands still.
    #[command(after_help = "Examples:\n  \
            doorbell torture\n  \
            doorbell torture --seconds 600 --seed 42\n  \
            doorbell torture --json | jq .operations_count")]
    Torture(TortureArgs),

    /// Measure what this host is made of, as a profile of the simulator
    ///
    /// Small measurements of their own, never the lab's scenarios: what a line costs in the own
    /// cache, at each distance and in memory, what system calls, switches, wakes and an idle CPU's
    /// getting up cost. All of them in rounds; a profile has the medians, and says of each value how
    /// it was measured. What this host lacks (a second socket) is said to be assumed.
    ///
    /// Stop other programs first: every one of them is in the figures. It takes about ten seconds.
    #[command(after_help = "Examples:\n  \
            doorbell calibrate\n  \
            doorbell calibrate --out host.toml\n  \
            doorbell sim fuzz --profile host.toml --seeds 0..100\n  \
            doorbell calibrate --json | jq '.entries[] | [.key, .value]'")]
    Calibrate(CalibrateArgs),

    /// Run the protocols on simulated machines of up to 1,024 cores
    ///
    /// A seed fixes a run: the program, the faults, the order of all steps. What holds of the
    /// protocols is looked at all the time; first with faults, then without, when everything that
    /// was begun has to end.
    #[command(after_help = "Examples:\n  \
            doorbell sim fuzz --seeds 0..1000 --cores 2..256\n  \
            doorbell sim fuzz --seeds 0..1000 --memory tso --profile epyc-2x64\n  \
            doorbell sim replay 17 --shape storm --cores 12 --trace out.json")]
    Sim {
        /// What to do.
        #[command(subcommand)]
        command: SimCommand,
    },

    /// Serve, as a process of its own that a scenario looks at
    #[command(hide = true)]
    LabServer {
        /// What to serve.
        #[command(subcommand)]
        command: ServerCommand,
    },

    /// Ask such a server, as a process of its own
    #[command(hide = true)]
    LabClient {
        /// How to ask.
        #[command(subcommand)]
        command: ClientCommand,
    },
}

/// Options of the torture.
#[derive(Debug, Args)]
pub struct TortureArgs {
    /// How long rounds are begun; the last one is done to its end
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: u64,

    /// The seed of the first round; each next one has one more [default: from the clock]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

impl TortureArgs {
    /// What these arguments mean together.
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
    /// A call is a closure that runs on another core while its caller waits. Measured is the time
    /// from request to answer, one call at a time, between two CPUs that are not SMT siblings; and
    /// what the calls cost the machine in interrupts, context switches and system calls. The callee
    /// spins for the call, or sleeps. The caller spins for the answer, or sleeps too; the rows say which.
    /// The limit is a cache line that goes to the other CPU and back.
    #[command(after_long_help = call_help())]
    Call(CallArgs),

    /// Spawn tasks, chain them, let them exchange messages and yield
    ///
    /// Seven shapes of a runtime's everyday work, those of tokio's own benchmark of its
    /// multi-thread scheduler: many tasks spawned from within and from another thread, to workers
    /// that are idle and that are busy; chains of spawns; pairs that exchange messages; yields.
    /// doorbell and tokio, with two workers each, one row for each shape.
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
    /// Measured is how much is done in a second, and whom it disturbs; with posts, calls and tasks of
    /// doorbell, tasks and a channel of tokio, the channels of std and crossbeam, and as the limit
    /// a ring for each producer.
    #[command(after_long_help = trial_help(
        "flood",
        "the whole table, in a few minutes",
        "tokio",
        flood::reading(),
    ))]
    Flood(LabArgs),

    /// Call all cores from everywhere at once, and wait for all answers
    ///
    /// A task on every core and 32 other threads call all cores, again and again, each waiting for
    /// every answer. Measured is how many such calls are made in a second, and how often a system call
    /// wakes a worker for them. Two settings of the switch `call_coalesce` are compared: with `on` a post
    /// makes the system call only if the worker sleeps and was not woken yet; with `base` every post
    /// makes it.
    #[command(after_long_help = trial_help(
        "shootdown",
        "the whole table, in about 40 seconds",
        "call_coalesce=on",
        shootdown::reading(),
    ))]
    Shootdown(LabArgs),

    /// Let a runtime rest after work, and look whether it does
    ///
    /// Two workers do a little work, and then there is none for 10 s. Measured is how often their
    /// threads leave a CPU meanwhile, their CPU time and their system calls; beside tokio.
    #[command(after_long_help = trial_help(
        "idle",
        "the whole table, in about 3 minutes",
        "tokio",
        idle::reading(),
    ))]
    Idle(LabArgs),

    /// Create a timer, poll it once and drop it
    ///
    /// Most timers are timeouts, which never fire. Measured is what a timeout costs: created one by one,
    /// in batches, each earlier than all before, beside many others, and on both cores at once; with
    /// doorbell, tokio and async-io, and a bare array of lists as the floor. The clock that a
    /// sleep reads has rows of its own.
    #[command(after_long_help = trial_help(
        "timer-cost",
        "the whole table, in about 2 minutes",
        "tokio",
        timer_cost::reading(),
    ))]
    TimerCost(LabArgs),

    /// Sleep for a while, and look how late the wake-up comes
    ///
    /// 400 tasks on two cores sleep 25 times each, for 1 to 50 ms. Measured is how long after its
    /// deadline each goes on, and the CPU time of it all; with doorbell, tokio, async-io, and 400
    /// threads that sleep in the kernel as the baseline. All threads ask for 1 ns of timer slack. One row
    /// has threads that ask for nothing and so have 50 us.
    #[command(after_long_help = trial_help(
        "timer-acc",
        "the whole table, in about 1 minute",
        "tokio",
        timer_acc::reading(),
    ))]
    TimerAcc(LabArgs),

    /// Let 1,000 periodic timers tick, and count what wakes up for it
    ///
    /// Periods lie between 10 ms and 1 s, evenly spread on a logarithmic scale. Measured are the
    /// wake-ups of threads for each tick, and the CPU time; with doorbell with and without slack and
    /// with tasks that stay on a core, tokio and async-io.
    #[command(after_long_help = trial_help(
        "timer-idle",
        "the whole table, in about 3 minutes",
        "tokio",
        timer_idle::reading(),
    ))]
    TimerIdle(LabArgs),

    /// Wake something urgent while every core computes
    ///
    /// 64 jobs compute on two cores, 10 ms in each poll. Beside them something urgent is woken every
    /// millisecond: from a thread outside, from another core, by its own timer, or by a call. Measured
    /// is how soon it runs, and how much the jobs get done. With doorbell it is a task of class Rt beside
    /// Fair jobs, or of class Fair beside Batch jobs; on a core as the bare thread, or where doorbell puts
    /// it. With tokio it is a task, and the jobs are tasks, run in `spawn_blocking` or run on threads under
    /// `SCHED_IDLE`. The baseline is a thread of its own.
    ///
    /// With --slices all contestants are threads: one is woken beside one that computes, with several
    /// slices and nice values.
    #[command(after_long_help = urgent_help())]
    Urgent(UrgentArgs),

    /// Wake workers every 4 ms, and look how soon they run
    ///
    /// As schbench: each of 8 messengers wakes its 4 workers, or 16 at moderate load, every 4 ms, and
    /// each worker computes for 30 us. Measured is how long after its wake a worker runs, and the CPU
    /// time of it all. Workers are tasks of doorbell, tokio or smol, OS threads, or jobs of a pool that
    /// never sleeps. Messengers are tasks of the same runtime, or OS threads. Each contestant has two
    /// CPUs, and is run with its threads bound to them and without.
    #[command(after_long_help = trial_help(
        "wake",
        "the whole table, in about 9 minutes",
        "tokio",
        wake::reading(),
    ))]
    Wake(LabArgs),

    /// Let one core be stuck in a poll, and look who does its work
    ///
    /// On one of two cores 1, 2 or 4 tasks are spawned, or a task sleeps for 1 ms; then a poll takes 10 ms
    /// on that core. Measured is how late the tasks start, and how late the sleeper goes on, while the
    /// second core is parked and while it is awake with short polls; beside tokio.
    #[command(after_long_help = trial_help(
        "stuck",
        "the whole table, in about 5 minutes",
        "tokio",
        stuck::reading(),
    ))]
    Stuck(LabArgs),

    /// Let a small web server greet, compute and wait
    ///
    /// Servers of two threads, each in a process of its own, on the loopback: hyper on doorbell, on
    /// tokio and on two tokio runtimes of one thread, with the same features; one on tokio with fewer; and
    /// bare epoll as a limit. Measured is how many greetings a server gives in a second, and the CPU time of
    /// one; how soon it answers a probe while it computes; and what 10,000 idle connections cost.
    ///
    /// It needs `wrk`: `apt-get install wrk`.
    #[command(after_long_help = trial_help(
        "http",
        "the whole table, in about 26 minutes",
        "tokio",
        http::reading(),
    ))]
    Http(HttpArgs),
}

impl LabCommand {
    /// What was asked for.
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
