//! `doorbell lab idle`: what an idle runtime costs.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::frame::{Contestant, Outcome, Plan, Stage, Work};
use crate::measure::{SyscallCounter, SyscallSource, Threads, ThreadsUse};
use crate::peers::{Doorbell, Peer, Role, Tokio, Workers};
use crate::tools::Crew;

const SPAN_MS: [u32; 2] = [10_000, 2_000];
const VARIANT: &str = "2 workers after 1,000 tasks";
const TASKS: usize = 1_000;
/// Time after the tasks before it counts as idle.
const SETTLES: Duration = Duration::from_millis(100);

pub(super) const PLAN: Plan = Plan {
    scenario: "idle",
    work: |options| Work::of(options.full_or_quick(SPAN_MS), 50, 50),
    contestants: |stage| {
        Ok(vec![
            idling::<Doorbell>(stage),
            idling::<Tokio>(stage).baseline(),
        ])
    },
    compared: "idle_switches_count",
    ..Plan::NEW
};

/// A runtime that has done a little work and then is idle.
fn idling<P: Peer>(stage: &Stage) -> Contestant {
    let (workers, syscalls) = (Workers::on(stage.cpus()), stage.syscalls);
    let start = move || {
        let before = Threads::now()?;
        let peer = P::start(&workers)?;
        Ok((peer, Threads::now()?.since(&before)))
    };
    let run = move |(peer, threads): &mut (P, Threads), span_ms: u32| {
        work(peer)?;
        thread::sleep(SETTLES);
        // Each thread has a counter of its own, so that this thread's reads are not counted.
        let counters = syscalls.and_then(|source| counters(source, threads));
        let before = threads.used()?;
        let begin = Instant::now();
        thread::sleep(Duration::from_millis(span_ms.into()));
        let used = threads.used()?.since(before);
        let span = begin.elapsed();
        let sum = |mut all: Vec<SyscallCounter>| all.iter_mut().map(SyscallCounter::read).sum();
        let syscalls: Option<u64> = counters.map(sum).transpose()?;
        Ok(outcome(used, span, syscalls, threads.count()))
    };
    Contestant::new(P::NAME, VARIANT, start, run, |(peer, _)| peer.stop())
}

fn counters(source: SyscallSource, threads: &Threads) -> Option<Vec<SyscallCounter>> {
    let opened = threads.numbers().map(|number| source.open_for(number));
    opened.collect::<Result<_, _>>().ok()
}

/// Both workers run tasks.
fn work(peer: &mut impl Peer) -> Result<(), LabError> {
    let mut crew = Crew::new();
    for index in 0..TASKS {
        peer.spawn_as(Role::from(index * 2 / TASKS), crew.member(async {}))?;
    }
    crew.gather().map(drop)
}

fn outcome(used: ThreadsUse, span: Duration, syscalls: Option<u64>, threads: usize) -> Outcome {
    let switches = used.voluntary_switches + used.involuntary_switches;
    let percent = |ns: u64| 100.0 * ns as f64 / span.as_nanos() as f64;
    let figures = [
        ("idle_switches_count", switches as f64),
        ("idle_involuntary_count", used.involuntary_switches as f64),
        ("idle_span_s", span.as_secs_f64()),
        ("threads_count", threads as f64),
    ];
    Outcome::of(TASKS as u64, figures)
        .and(used.cpu_ns.map(|ns| ("idle_cpu_percent", percent(ns))))
        .and(syscalls.map(|count| ("idle_syscalls_count", count as f64)))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::NotFound;

    use super::*;
    use crate::frame::testing::{assert_plan, contestants};
    use crate::scenario::Options;

    /// Generous: a runtime that polls has thousands.
    const SWITCHES_MAX: f64 = 50.0;

    #[test]
    fn both_work_and_rest() {
        for one in contestants(&PLAN, &Options::default()) {
            let figures = idled(&one).figures;
            // Other tests may start threads at the same time.
            assert!(figures["threads_count"] >= 2.0, "{one:?}");
            if figures["threads_count"] < 3.0 {
                assert!(figures["idle_switches_count"] < SWITCHES_MAX, "{one:?}");
            }
        }
    }

    /// The outcome of a pass during which no thread of another test ended.
    fn idled(one: &Contestant) -> Outcome {
        for _ in 0..50 {
            let mut run = one.start().expect("it starts");
            let outcome = run.run(200);
            run.stop().expect("it stops");
            match outcome {
                Ok(outcome) => return outcome,
                Err(LabError::File { source, .. }) if source.kind() == NotFound => {}
                Err(error) => panic!("{one:?}: {error}"),
            }
        }
        panic!("{one:?}: threads of other tests ended each time");
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let used = ThreadsUse {
            voluntary_switches: 3,
            involuntary_switches: 1,
            cpu_ns: Some(2_000_000),
        };
        let span = Duration::from_secs(2);
        let figures = outcome(used, span, Some(7), 2).figures;
        assert_eq!(figures.get("idle_switches_count"), Some(&4.0));
        assert_eq!(figures.get("idle_syscalls_count"), Some(&7.0));
        assert!((figures["idle_cpu_percent"] - 0.1).abs() < 1e-9);
        let unknown = ThreadsUse {
            cpu_ns: None,
            ..used
        };
        let figures = outcome(unknown, span, None, 2).figures;
        assert!(!figures.contains_key("idle_cpu_percent"));
        assert!(!figures.contains_key("idle_syscalls_count"));
    }

    #[test]
    fn the_plan_fits() {
        let kept = ["ctx", "CPU %", "syscalls", "threads", "idle s"];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
