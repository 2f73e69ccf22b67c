//! Simulated forms that the page asks for: calls to one worker and of all to all, the kernel's own paths, and more cores.

use doorbell_sim::bench::calls::{self, Who};
use doorbell_sim::bench::kernel::{ipistorm, shootdown};
use doorbell_sim::bench::posts::{self, What};
use doorbell_sim::bench::{rt, wake};
use doorbell_sim::profile::Profile;

use crate::error::LabError;
use crate::scenario::simulated::plans::at_least;
use crate::scenario::simulated::{AS_THEY_STAND, Case, Plan, Program};

const SECOND_NS: u64 = 1_000_000_000;
/// Sleeping tasks of a callee that has something to look after.
const SLEEPERS: usize = 1_000;

static CALLS: Program<calls::Shape, calls::Figures> = Program {
    run: calls::run,
    add: calls::Figures::add,
    times: &[("", |f| &f.took_ns)],
    figures: &[
        ("op_ns", |f, _| [f.took_ns.iter().sum(), ended(f)]),
        ("calls_per_s", |f, _| [ended(f) * SECOND_NS, f.span_ns]),
        ("rings_per_1k", |f, _| [1_000 * f.rings, ended(f)]),
        ("passes_per_1k", |f, _| [1_000 * f.passes, ended(f)]),
    ],
};

fn ended(figures: &calls::Figures) -> u64 {
    figures.took_ns.len() as u64
}

static STORM: Program<ipistorm::Shape, ipistorm::Figures> = Program {
    run: ipistorm::run,
    add: ipistorm::Figures::add,
    times: &[("", |f| &f.took_ns)],
    figures: &[
        ("op_ns", |f, _| {
            [f.took_ns.iter().sum(), f.took_ns.len() as u64]
        }),
        ("interrupts_per_1k", |f, _| {
            [1_000 * f.interrupts, f.took_ns.len() as u64]
        }),
    ],
};

static SHOOTDOWN: Program<shootdown::Shape, shootdown::Figures> = Program {
    run: shootdown::run,
    add: shootdown::Figures::add,
    times: &[],
    figures: &[
        ("calls_per_s", |f, _| [f.calls * SECOND_NS, f.span_ns]),
        ("interrupts_per_1k", |f, _| [1_000 * f.interrupts, f.calls]),
    ],
};

static EACH: Program<calls::Shape, calls::Figures> = Program {
    run: calls::run,
    add: calls::Figures::add,
    times: &[],
    figures: &[("op_ns", |f, _| [f.took_ns.iter().sum(), f.answers])],
};

static POSTS: Program<posts::Shape, posts::Figures> = Program {
    run: posts::run,
    add: posts::Figures::add,
    times: &[],
    figures: &[
        ("op_ns", |f, _| [f.span_ns, f.count]),
        ("lines_per_op", |f, _| [f.lines_moved, f.count]),
    ],
};

static WAKE: Program<wake::Shape, wake::Figures> = Program {
    run: wake::run,
    add: wake::Figures::add,
    times: &[],
    figures: &[("op_ns", |f, _| mean(&f.late_ns))],
};

static URGENT: Program<rt::Shape, rt::Figures> = Program {
    run: rt::run,
    add: rt::Figures::add,
    times: &[],
    figures: &[("op_ns", |f, _| mean(&f.late_ns))],
};

fn mean(times_ns: &[u64]) -> [u64; 2] {
    [times_ns.iter().sum(), times_ns.len() as u64]
}

fn of_calls(settings: &'static [&'static str], baseline: &'static str, cases: Vec<Case>) -> Plan {
    Plan {
        settings,
        cases,
        baseline: Some((baseline, "op_ns")),
    }
}

/// Calls of threads to one worker that spins.
pub(in crate::scenario) fn call(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    // The callers' CPUs come behind those of the workers: under another last-level cache than the last worker's, or on
    // another socket.
    let near = at_least("call", 2, workers.unwrap_or(32))?;
    let cases = [
        ("1 caller", near, 1, 0),
        ("1 caller, loaded callee", near, 1, SLEEPERS),
        ("8 callers", near, 8, 0),
        ("other socket", workers.unwrap_or(128), 1, 0),
    ];
    let cases = cases.map(|(variant, workers, callers, sleepers)| {
        let shape = calls::Shape {
            workers,
            who: Who::CallLast(callers),
            sleepers,
            span_ns: 1_000_000,
        };
        CALLS.case(variant.to_owned(), workers, shape)
    });
    let settings = &[
        "idle_notify=off",
        "idle_notify=always_ring",
        "idle_notify=on",
    ];
    Ok(of_calls(settings, "idle_notify=off", cases.into()))
}

/// Calls of all workers to all.
pub(in crate::scenario) fn call_all(
    profile: &Profile,
    workers: Option<usize>,
) -> Result<Plan, LabError> {
    let workers = at_least("shootdown", 2, workers.unwrap_or(profile.spec().cpus()))?;
    let shape = calls::Shape {
        workers,
        who: Who::CallAll,
        sleepers: 0,
        span_ns: 2_000_000,
    };
    let case = CALLS.case(format!("{workers} workers"), workers, shape);
    let settings = &["call_coalesce=base", "call_coalesce=on"];
    Ok(of_calls(settings, "call_coalesce=base", vec![case]))
}

/// Twins of two paths of the kernel.
pub(in crate::scenario) fn kernel(
    profile: &Profile,
    workers: Option<usize>,
) -> Result<Plan, LabError> {
    use ipistorm::Kernel;
    const MASKED_US: [u64; 7] = [0, 1, 2, 3, 4, 6, 8];
    const APART_US: [u64; 4] = [0, 20, 100, 500];
    let mut cases = Vec::new();
    for masked_us in MASKED_US {
        for (kernel, name) in [
            (Kernel::Base, "base"),
            (Kernel::Revert, "revert"),
            (Kernel::Notify, "notify"),
        ] {
            let shape = ipistorm::Shape {
                kernel,
                masked_ns: masked_us * 1_000,
                calls: 1_000,
            };
            let variant = format!("ipistorm, {masked_us} us masked, {name}");
            cases.push(STORM.case(variant, 2, shape));
        }
    }
    let cpus = at_least("kernel", 2, workers.unwrap_or(profile.spec().cpus()))?;
    for apart_us in APART_US {
        for (is_patched, name) in [(false, "base"), (true, "patched")] {
            let shape = shootdown::Shape {
                cpus,
                is_patched,
                work_ns: apart_us * 1_000,
                span_ns: 2_000_000,
            };
            let variant = format!("{cpus} threads, {apart_us} us apart, {name}");
            cases.push(SHOOTDOWN.case(variant, cpus, shape));
        }
    }
    Ok(Plan {
        settings: &[AS_THEY_STAND],
        cases,
        baseline: None,
    })
}

/// The same programs on more and more cores.
pub(in crate::scenario) fn scale(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    // The last is what a machine of 1,024 CPUs has room for, beside the threads that measure.
    const CORES: [usize; 6] = [4, 8, 32, 128, 512, 1_022];
    let mut cases = Vec::new();
    for workers in workers.map_or_else(|| CORES.to_vec(), |workers| vec![workers]) {
        let workers = at_least("scale", 4, workers)?;
        let name = |what: &str| format!("{what}, {workers} cores");
        for (what, who) in [("call", Who::CallLast(1)), ("shootdown", Who::CallAll)] {
            let shape = calls::Shape {
                workers,
                who,
                sleepers: 0,
                span_ns: 100_000,
            };
            cases.push(EACH.case(name(what), workers, shape));
        }
        for (what, posted) in [("flood", What::Flood), ("spawn", What::Spawn)] {
            let shape = posts::Shape {
                workers,
                what: posted,
                total: 4_096,
            };
            cases.push(POSTS.case(name(what), workers, shape));
        }
        let shape = rt::Shape {
            workers,
            load: rt::Load::Alone,
            periods: 10,
        };
        cases.push(URGENT.case(name("urgent"), workers, shape));
        let shape = wake::Shape {
            messengers: 2,
            workers_each: workers / 2,
            by: wake::Messengers::Threads,
            phase: wake::Phase::Apart,
            rounds: 5,
        };
        cases.push(WAKE.case(name("wake"), workers, shape));
    }
    Ok(Plan {
        settings: &[AS_THEY_STAND],
        cases,
        baseline: None,
    })
}
