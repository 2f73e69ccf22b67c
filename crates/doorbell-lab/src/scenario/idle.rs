//! `doorbell lab idle`: what an idle runtime costs.

use std::thread;
use std::time::{Duration, Instant};

use crate::frame::{Contestant, Outcome, Plan, Stage, Work};
use crate::measure::{Process, SyscallCounter, SyscallSource};
use crate::peers::{Doorbell, Peer, Role, Tokio, Workers};
use crate::tools::run_all;
use anyhow::Result;

const SPAN_MS: [u32; 2] = [10_000, 2_000];
const VARIANT: &str = "2 workers after 1,000 tasks";
const TASKS: usize = 1_000;
/// Time after the tasks before it counts as idle.
const SETTLES: Duration = Duration::from_millis(100);

pub(super) const PLAN: Plan = Plan {
    scenario: "idle",
    work: |options| Work::of(options.full_or_quick(SPAN_MS), 50, 50),
    contestants: |stage| {
        let baseline = idling::<Tokio>(stage).baseline();
        Ok(vec![idling::<Doorbell>(stage), baseline])
    },
    compared: "idle_switches_count",
    ..Plan::NEW
};

/// A runtime that has done a little work and then is idle.
fn idling<P: Peer>(stage: &Stage) -> Contestant {
    let (workers, syscalls) = (Workers::on(stage.cpus()), stage.syscalls);
    let start = move || {
        let before = Process::own().switches()?;
        let peer = P::start(&workers)?;
        Ok((peer, Process::own().switches()?.threads_since(&before)))
    };
    let run = move |(peer, threads): &mut (P, Vec<i32>), span_ms: u32| {
        work(peer)?;
        thread::sleep(SETTLES);
        // Each thread has a counter of its own, so that this thread's reads are not counted.
        let counters = syscalls.and_then(|source| counters(source, threads));
        let switches = || anyhow::Ok(Process::own().switches()?.only(threads));
        let (before, begin, cpu) = (switches()?, Instant::now(), Process::own().cpu()?);
        thread::sleep(Duration::from_millis(span_ms.into()));
        let (span, cpu) = (begin.elapsed(), Process::own().cpu()?.saturating_sub(cpu));
        let [waits, forced] = switches()?.since(&before);
        let sum = |mut all: Vec<SyscallCounter>| all.iter_mut().map(SyscallCounter::read).sum();
        let syscalls: Option<u64> = counters.map(sum).transpose()?;
        let cpu_share = cpu.as_secs_f64() / span.as_secs_f64();
        let figures = [
            ("idle_switches_count", (waits + forced) as f64),
            ("idle_involuntary_count", forced as f64),
            ("idle_cpu_percent", 100.0 * cpu_share),
            ("idle_span_s", span.as_secs_f64()),
            ("threads_count", threads.len() as f64),
        ];
        let outcome = Outcome::of(TASKS as u64, figures);
        Ok(outcome.and(syscalls.map(|count| ("idle_syscalls_count", count as f64))))
    };
    Contestant::new(P::NAME, VARIANT, start, run, |(peer, _)| peer.stop())
}

fn counters(source: SyscallSource, threads: &[i32]) -> Option<Vec<SyscallCounter>> {
    let opened = threads.iter().map(|number| source.open_for(*number));
    opened.collect::<Result<_, _>>().ok()
}

/// Both workers run tasks.
fn work(peer: &mut impl Peer) -> Result<()> {
    let tasks = (0..TASKS).map(|index| (Role::from(index * 2 / TASKS), async {}));
    run_all(peer, tasks).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{assert_plan, contestants, outcome, try_each};
    use crate::scenario::Options;

    /// Generous: a runtime that polls has thousands.
    const SWITCHES_MAX: f64 = 50.0;

    #[test]
    fn both_work_and_rest() {
        try_each(contestants(&PLAN, &Options::default()), |one, run| {
            let figures = outcome(one, run, 200).figures;
            // Other tests may start threads at the same time.
            assert!(figures["threads_count"] >= 2.0, "{one:?}");
            if figures["threads_count"] < 3.0 {
                assert!(figures["idle_switches_count"] < SWITCHES_MAX, "{one:?}");
            }
        });
    }

    #[test]
    fn the_plan_fits() {
        let kept = ["ctx", "CPU %", "syscalls", "threads", "idle s"];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
