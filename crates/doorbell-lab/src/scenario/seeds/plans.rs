//! Simulated forms that the page asks for: calls to one worker and of all to all, the kernel's own paths, and more cores.

use anyhow::Result;
use doorbell_sim::bench::calls::{self, Who};
use doorbell_sim::bench::kernel::{ipistorm, shootdown};
use doorbell_sim::bench::posts::{self, What};
use doorbell_sim::bench::{Bench, BenchError, Measured, mean, rt, wake};
use doorbell_sim::profile::Profile;

use crate::report::Metrics;
use crate::scenario::simulated::plans::at_least;
use crate::scenario::simulated::{AS_THEY_STAND, Case, Plan, put_ratio};

/// Sleeping tasks of a callee that has something to look after.
const SLEEPERS: usize = 1_000;

/// Calls of threads to one worker that spins.
pub(in crate::scenario) fn call(_: &Profile, workers: Option<usize>) -> Result<Plan> {
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
        Case::of(variant.to_owned(), workers, calls::run, shape)
    });
    let settings = &[
        "idle_notify=off",
        "idle_notify=always_ring",
        "idle_notify=on",
    ];
    Ok(Plan::of(settings, cases).divided_by("idle_notify=off", "op_ns"))
}

/// Calls of all workers to all.
pub(in crate::scenario) fn call_all(profile: &Profile, workers: Option<usize>) -> Result<Plan> {
    let workers = at_least("shootdown", 2, workers.unwrap_or(profile.spec().cpus()))?;
    let shape = calls::Shape {
        workers,
        who: Who::CallAll,
        sleepers: 0,
        span_ns: 2_000_000,
    };
    let case = Case::of(format!("{workers} workers"), workers, calls::run, shape);
    let settings = &["call_coalesce=base", "call_coalesce=on"];
    Ok(Plan::of(settings, [case]).divided_by("call_coalesce=base", "op_ns"))
}

/// Twins of two paths of the kernel.
pub(in crate::scenario) fn kernel(profile: &Profile, workers: Option<usize>) -> Result<Plan> {
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
            cases.push(Case::of(variant, 2, ipistorm::run, shape));
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
            cases.push(Case::of(variant, cpus, shootdown::run, shape));
        }
    }
    Ok(Plan::of(&[AS_THEY_STAND], cases))
}

/// The same programs on more and more cores.
pub(in crate::scenario) fn scale(_: &Profile, workers: Option<usize>) -> Result<Plan> {
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
            // For each worker that answered.
            let op_ns = |found: &calls::Figures| [found.took_ns.iter().sum(), found.answers];
            cases.push(cost(name(what), workers, calls::run, shape, op_ns));
        }
        for (what, posted) in [("flood", What::Flood), ("spawn", What::Spawn)] {
            let shape = posts::Shape {
                workers,
                what: posted,
                total: 4_096,
            };
            cases.push(Case::of(name(what), workers, posts::run, shape));
        }
        let shape = rt::Shape {
            workers,
            load: rt::Load::Alone,
            periods: 10,
        };
        let op_ns = |found: &rt::Figures| mean(&found.late_ns);
        cases.push(cost(name("urgent"), workers, rt::run, shape, op_ns));
        let shape = wake::Shape {
            messengers: 2,
            workers_each: workers / 2,
            by: wake::Messengers::Threads,
            phase: wake::Phase::Apart,
            rounds: 5,
        };
        let op_ns = |found: &wake::Figures| mean(&found.late_ns);
        cases.push(cost(name("wake"), workers, wake::run, shape, op_ns));
    }
    Ok(Plan::of(&[AS_THEY_STAND], cases))
}

/// A program, and the one figure of it that is shown.
fn cost<S: Copy + Sync + 'static, F: Measured + Send + 'static>(
    variant: String,
    workers: usize,
    run: fn(&Bench, S) -> Result<F, BenchError>,
    shape: S,
    op_ns: fn(&F) -> [u64; 2],
) -> Case {
    let metrics = move |found: &F, _| {
        let mut metrics = Metrics::default();
        put_ratio(&mut metrics, "op_ns", op_ns(found));
        metrics
    };
    Case::with(variant, workers, run, shape, metrics)
}
