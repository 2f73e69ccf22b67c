//! The scenarios of the lab on the command line.

use clap::Subcommand;

use super::help::{
    busy_help, call_help, pingpong_help, rank_help, requests_help, rt_help, sleepers_help,
    timer_cost_help, trial_help, urgent_help, wake_help,
};
use super::lab::{BusyArgs, CallArgs, HttpArgs, LabArgs, RankArgs, RtArgs, UrgentArgs};
use crate::scenario::{Options, flood, http, idle, shootdown, spawn, stuck, timer_acc, timer_idle};

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
    ///
    /// With --sim timers are armed and dropped on one worker of a simulated machine, by doorbell alone, while a
    /// quarter of the other workers are busy: with the switch `timer_pull` on, off, and as the baseline of the
    /// kernel patch that it follows.
    #[command(after_long_help = timer_cost_help())]
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

    /// Let most workers sleep, and see which of them wake for their timers
    ///
    /// 1,000 timers are armed on two workers, either of which may fire them; then one of the two has nothing to
    /// do. Measured are the wake-ups, the CPU time, and how late the timers are: with doorbell's switch
    /// `timer_pull` on, off, and as the baseline of the kernel patch that it follows, and with tokio.
    ///
    /// With --sim the timers are armed on all workers of a simulated machine, by doorbell alone; some of the
    /// workers stay awake.
    #[command(after_long_help = sleepers_help())]
    TimerSleepers(LabArgs),

    /// Let clients make requests of servers, under timeouts that are mostly dropped
    ///
    /// It has dbench's shape: 1 to 1,024 pairs of a client and a server on all workers of a simulated machine. A
    /// client works, arms a timeout, sends a request and gets the answer; now and then it thinks, or a request is
    /// lost. Measured are the operations per second, with the switch `timer_pull` on, off, and as the
    /// baseline of the kernel patch that it follows. It needs --sim.
    #[command(after_long_help = requests_help())]
    Requests(LabArgs),

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

    /// Wake the most urgent task behind the poll of a less urgent one
    ///
    /// Two workers of class Rt. A task of rank 50 wakes a task of rank 99 and computes for 600 us in the same
    /// poll, while the other worker is idle or runs a task of rank 1 in polls of 5 us. Measured is how long
    /// the task of rank 99 waits. No other runtime has ranks: tokio is shown with three equal tasks, and
    /// `SCHED_FIFO` threads show what the kernel does.
    ///
    /// With --sim the same is done on a simulated machine, by doorbell alone, with 8 urgent workers. The
    /// wake comes from the poll of rank 50 or from a thread.
    #[command(after_long_help = rank_help())]
    Rank(RankArgs),

    /// Let periodic urgent tasks tick on all cores at once
    ///
    /// Like cyclictest: a task of class Rt on each core ticks every millisecond, all at the same times.
    /// Beside them run no, one or two tasks of a lower rank, which may move and are woken at each tick.
    /// Measured are how late the ticks come, how long the extra tasks wait, and the wake syscalls, beside
    /// `SCHED_FIFO` threads and tokio.
    ///
    /// With --sim the tasks run on 8 to 192 cores of a simulated machine, by doorbell alone, every 100 us for
    /// 3 us. The extra tasks have timers of their own. In one more row two cores are always busy with pinned
    /// tasks that no other core may take.
    #[command(after_long_help = rt_help())]
    Rt(RtArgs),

    /// Wake workers every 4 ms, and measure how soon they run
    ///
    /// Like schbench: each of 8 messengers wakes its 4 workers, or 16 at moderate load, every 4 ms, and
    /// each worker computes for 30 us. Measured are how long after its wake a worker runs, and the CPU time
    /// of the whole. Workers are tasks of doorbell, tokio or smol, OS threads, or jobs of a pool that never
    /// sleeps. Messengers are tasks of the same runtime, or OS threads. Each contestant has two CPUs, and
    /// runs both with its threads bound to them and without. Rows of their own have doorbell with each
    /// setting of the switch `idle_claim`.
    ///
    /// With --sim the same is done on a simulated machine, by doorbell alone: 2 messengers, which are tasks
    /// or threads, each with a CPU of its own, and a worker of the runtime for each task that they wake.
    #[command(after_long_help = wake_help())]
    Wake(LabArgs),

    /// Let pairs exchange messages, and begin frames of short tasks
    ///
    /// 1 to 128 pairs of tasks exchange messages of 8 KiB through memory, as uperf's ping-pong does through
    /// the loopback. And 60 times a second a frame of 8 tasks of 200 us begins, as in Jackbench: a chain in
    /// which each task wakes the next one, or a burst in which a thread wakes all of them. Measured are the
    /// exchanges per second, round trips, the time of a frame, and the CPU time. Contestants: doorbell, tokio
    /// and smol with a worker for each CPU, and OS threads.
    ///
    /// With --sim pairs of doorbell's tasks exchange the same messages on a simulated machine, all the time
    /// or in 60 bursts a second. There are no frames.
    #[command(after_long_help = pingpong_help())]
    Pingpong(LabArgs),

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

    /// Let tasks compute and yield, and measure how long others wait
    ///
    /// 1 to 16 tasks compute and yield for ever on one or two cores, 20 us to 1 ms in each poll. Measured are
    /// how soon a task beside them reads what was written to a socket, how late a sleep of 5 ms ends, how soon
    /// a task runs that a thread outside spawns, and how much is computed. One row has a lone task that yields
    /// and counts how often until a ready socket is seen. Web servers whose handlers compute in slices and yield
    /// between them are asked for something short. In the last rows sleeps and ticks of a worker that
    /// parks, spins or never parks. Contestants: doorbell, tokio with as many workers, tokio with a
    /// current-thread runtime for each core, smol, and glommio if it is built in.
    #[command(after_long_help = busy_help())]
    Busy(BusyArgs),

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
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Call(_) => "call",
            Self::Spawn(_) => "spawn",
            Self::Flood(_) => "flood",
            Self::Shootdown(_) => "shootdown",
            Self::Idle(_) => "idle",
            Self::TimerCost(_) => "timer-cost",
            Self::TimerAcc(_) => "timer-acc",
            Self::TimerIdle(_) => "timer-idle",
            Self::TimerSleepers(_) => "timer-sleepers",
            Self::Requests(_) => "requests",
            Self::Urgent(_) => "urgent",
            Self::Rank(_) => "rank",
            Self::Rt(_) => "rt",
            Self::Wake(_) => "wake",
            Self::Pingpong(_) => "pingpong",
            Self::Stuck(_) => "stuck",
            Self::Busy(_) => "busy",
            Self::Http(_) => "http",
        }
    }

    /// The options of this scenario.
    pub fn options(&self) -> Options {
        match self {
            Self::Call(args) => args.options(),
            Self::Urgent(args) => args.options(),
            Self::Rank(args) => args.options(),
            Self::Rt(args) => args.options(),
            Self::Busy(args) => args.options(),
            Self::Http(args) => args.options(),
            Self::Spawn(args)
            | Self::Flood(args)
            | Self::Shootdown(args)
            | Self::Idle(args)
            | Self::TimerCost(args)
            | Self::TimerAcc(args)
            | Self::TimerIdle(args)
            | Self::TimerSleepers(args)
            | Self::Requests(args)
            | Self::Stuck(args)
            | Self::Wake(args)
            | Self::Pingpong(args) => args.options(),
        }
    }
}
