//! The scenarios as shapes for any number of cores.

use doorbell_machine::sim::{CPUS_MAX, Config, Outcome, RunError, Sink};

use super::{Setup, Shape};
use crate::scenario::{self, Busy, Classes, OWN_CPUS, Urgent, Wrong};

/// The shapes that are fuzzed. A static, so that this crate has their code; of a constant each crate that names it would
/// build all protocols anew.
pub static SHAPES: [Shape; 10] = shapes::<0>();

/// The same shapes, built with the mutant of this number.
pub(super) const fn shapes<const BUG: u8>() -> [Shape; 10] {
    [
        Shape {
            name: "two-workers",
            about: "bell and mailbox: posts and calls from other threads, with faults",
            run: two_workers::<BUG>,
        },
        Shape {
            name: "conserving",
            about: "tasks that are spawned, woken and stolen, and timers; no worker idles while another has waiting tasks",
            run: conserving::<BUG>,
        },
        Shape {
            name: "storm",
            about: "everything, with faults, long polls and cores that go off",
            run: storm::<BUG>,
        },
        Shape {
            name: "leaps",
            about: "everything, while the clock jumps by years",
            run: leaps::<BUG>,
        },
        Shape {
            name: "paused",
            about: "tasks and timers with a paused clock, which advances only when nothing is left to do",
            run: paused::<BUG>,
        },
        Shape {
            name: "ends",
            about: "everything, while the workers end",
            run: ends::<BUG>,
        },
        Shape {
            name: "ranked",
            about: "everything, with tasks of several ranks on workers that run them by rank; without faults no poll begins while a higher rank waits",
            run: ranked::<BUG>,
        },
        Shape {
            name: "classes",
            about: "everything that crosses the classes, with faults; without faults urgent workers run first",
            run: classes::<BUG>,
        },
        Shape {
            name: "starved",
            about: "descriptors, crowds and long polls, while one thread gets no CPU for milliseconds; no worker idles for long while another has waiting tasks",
            run: starved::<BUG>,
        },
        Shape {
            name: "busy",
            about: "sockets, timers, posts and spawns beside tasks that compute and yield, in polls of 1 us to 2 ms; none waits for more than a poll or two",
            run: busy::<BUG>,
        },
    ]
}

fn two_workers<const BUG: u8>(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    run::<BUG>(scenario::Shape::two_workers(), setup, sink)
}

fn conserving<const BUG: u8>(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    run::<BUG>(scenario::Shape::conserving(), setup, sink)
}

fn storm<const BUG: u8>(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    run::<BUG>(scenario::Shape::storm(), setup, sink)
}

fn leaps<const BUG: u8>(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    run::<BUG>(scenario::Shape::leaps(), setup, sink)
}

fn paused<const BUG: u8>(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    run::<BUG>(scenario::Shape::paused(), setup, sink)
}

fn ends<const BUG: u8>(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    run::<BUG>(scenario::Shape::ends(), setup, sink)
}

/// Varies by seed: with faults, or without, and then rank order is judged.
fn ranked<const BUG: u8>(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    let shape = match setup.seed % 5 {
        0 => scenario::Shape::ranked_in_order(),
        _ => scenario::Shape::ranked(),
    };
    run::<BUG>(shape, setup, sink)
}

/// Varies by seed: with and without faults, and with urgent workers that the OS does not run first.
fn classes<const BUG: u8>(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    let shape = match setup.seed % 4 {
        0 => scenario::Shape::classes_in_order(),
        1 => scenario::Shape {
            classes: Classes::Each(Urgent::Sooner),
            ..scenario::Shape::classes()
        },
        _ => scenario::Shape::classes(),
    };
    run::<BUG>(shape, setup, sink)
}

/// Varies by seed: all classes, or one scheduler that runs tasks by rank.
fn starved<const BUG: u8>(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    let shape = match setup.seed % 3 {
        0 => scenario::Shape::starved_ranked(),
        _ => scenario::Shape::starved(),
    };
    run::<BUG>(shape, setup, sink)
}

/// Most workers of busy ones. More show nothing else, and each keeps computing.
const BUSY_MAX: usize = 6;

fn busy<const BUG: u8>(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    let busy = Busy::drawn(setup.seed, setup.cores.min(BUSY_MAX));
    let config = Config {
        seed: setup.seed,
        machine: setup.machine(busy.workers + 1),
        memory: setup.memory,
        ..Config::default()
    };
    busy.run::<BUG>(config, sink)
}

/// How many seeds there are for one on a machine of small nodes, where the timer tree of few workers has levels. Only
/// for shapes with any faults: the oracles of the others know how long things take on a usual machine.
const SMALL_NODES_EVERY: u64 = 4;

/// Runs a scenario with a worker on each of the setup's cores. More cores bring more foreign threads.
fn run<const BUG: u8>(
    shape: scenario::Shape,
    setup: &Setup,
    sink: Option<Sink>,
) -> Result<Outcome, RunError> {
    let foreign = shape.foreign + setup.cores / 32;
    // If this exceeds the limit, all other threads share the CPUs of the workers.
    let cpus = (setup.cores + foreign + OWN_CPUS).min(CPUS_MAX);
    let mut sized = shape.sized(setup.cores, setup.memory, setup.machine(cpus));
    let may_be_small = setup.profile.is_none() && sized.faults == Wrong::Anything;
    if may_be_small && setup.seed.is_multiple_of(SMALL_NODES_EVERY) {
        sized = sized.on_small_nodes();
    }
    let shape = scenario::Shape { foreign, ..sized };
    let report = scenario::run_traced::<BUG>(setup.seed, &shape, sink)?;
    Ok(report.outcome)
}
