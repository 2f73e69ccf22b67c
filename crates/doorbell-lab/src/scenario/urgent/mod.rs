//! `doorbell lab urgent`: how soon urgent work runs while every core computes.
//!
//! On two cores 64 jobs compute endlessly, 10 ms in each poll. Beside them one urgent task (in some
//! contestants a thread) is woken every millisecond: by an outside thread, from another core, or by its own
//! timer; or a call runs in its place. Its lateness is the time from the wake, or from its deadline, until
//! it runs. The urgent task and the jobs are of classes Rt and Fair, or Fair and Batch.

mod contestants;
mod probe;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use doorbell::Class;

use crate::frame::{Contestant, Outcome, Plan, Stage, Work};
use crate::peers::{Want, refused};
use crate::tools::{End, compute, steps_for};
use contestants::{Begin, Jobs, Who, bare, doorbell, tokio};
use probe::{Alarm, Probe};

const TENTH: Duration = Duration::from_millis(100);
const TENTHS: [u32; 2] = [30, 12];
/// A wake that leads to no run within this is lost.
const LAST_MAX: Duration = Duration::from_secs(20);
const JOBS: usize = 64;
/// A poll of a job.
const POLL: Duration = Duration::from_millis(10);
pub(super) const PLAN: Plan = Plan {
    scenario: "urgent",
    work: |options| Work::of(options.full_or_quick(TENTHS), 2, TENTHS[1]),
    contestants,
    notes: |_| refused().into_iter().collect(),
    ..Plan::NEW
};

/// What wakes the urgent task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Thread,
    Core,
    Timer,
    Call,
}

impl Source {
    const ALL: [Source; 4] = [Source::Thread, Source::Core, Source::Timer, Source::Call];

    fn name(self) -> &'static str {
        match self {
            Source::Thread => "from a thread",
            Source::Core => "from another core",
            Source::Timer => "by a timer",
            Source::Call => "by a call",
        }
    }

    /// Whether a thread outside wakes it.
    fn is_outside(self) -> bool {
        matches!(self, Source::Thread | Source::Call)
    }
}

/// The jobs on every core. Each computes for 10 ms and then yields.
#[derive(Debug, Default)]
struct Load {
    polls: AtomicU64,
    end: End,
}

impl Load {
    /// A poll. Whether there is a next one.
    fn poll(&self) -> bool {
        compute(steps_for(POLL));
        // ORDER: Relaxed; a count, whose reader needs nothing else from it.
        self.polls.fetch_add(1, Ordering::Relaxed);
        !self.end.is_asked()
    }

    fn polls(&self) -> u64 {
        // ORDER: as above.
        self.polls.load(Ordering::Relaxed)
    }
}

/// What a contestant is started with.
#[derive(Debug, Clone)]
struct Scene {
    cpus: [usize; 2],
    source: Source,
    load: Arc<Load>,
    probe: Arc<Probe>,
}

/// The load and the urgent task; told to end before the contestant, whose end waits for its jobs.
#[derive(Debug, Default)]
struct Told {
    load: Arc<Load>,
    probe: Arc<Probe>,
}

impl Drop for Told {
    fn drop(&mut self) {
        self.load.end.ask();
        self.probe.end();
    }
}

fn contestants(stage: &Stage) -> Result<Vec<Contestant>> {
    let (rt, fair) = ([Class::rt(50), Class::FAIR], [Class::FAIR, Class::BATCH]);
    let is_first = stage.may_be_first()?;
    let mut all = Vec::new();
    for source in Source::ALL {
        let first = is_first.then(|| bare("SCHED_FIFO", Want::First, Want::AsIs));
        let mut who: Vec<_> = first.into_iter().collect();
        who.extend([
            bare("100 us slice", Want::Sooner, Want::AsIs),
            doorbell("class Rt on a core", rt, true),
            doorbell("class Rt", rt, false),
            tokio("tasks", Jobs::Tasks),
            tokio("jobs in spawn_blocking", Jobs::Blocking),
            tokio("jobs on SCHED_IDLE threads", Jobs::IdleThreads),
        ]);
        who.retain(|who| who.is_bound || source != Source::Core);
        all.extend(group(stage, source.name(), source, who));
    }
    // tokio's counterpart is among those above: jobs on SCHED_IDLE threads.
    let who = vec![
        bare("plain beside SCHED_IDLE", Want::AsIs, Want::Idle),
        doorbell("Fair on a core beside Batch", fair, true),
        doorbell("Fair beside Batch", fair, false),
    ];
    all.extend(group(stage, "Fair beside Batch", Source::Thread, who));
    Ok(all)
}

/// The first is the baseline.
fn group(stage: &Stage, name: &str, source: Source, all: Vec<Who>) -> Vec<Contestant> {
    let cpus = stage.cpus();
    let one = |(place, who): (usize, Who)| {
        let variant = format!("{}, {}", who.how, source.name());
        let (name_of, begin) = (who.name, who.start);
        let start = move || start(&*begin, cpus, source);
        let one = Contestant::new(name_of, variant, start, run, stop);
        one.in_group(name).baseline_if(place == 0)
    };
    all.into_iter().enumerate().map(one).collect()
}

type Stop = Box<dyn FnOnce() -> Result<()>>;
type Urgent = (Told, Stop, Option<Alarm>);

fn start(begin: &Begin, cpus: [usize; 2], source: Source) -> Result<Urgent> {
    let told = Told::default();
    let running = begin(&Scene {
        cpus,
        source,
        load: Arc::clone(&told.load),
        probe: Arc::clone(&told.probe),
    })?;
    let alarm = source.is_outside();
    let alarm = alarm.then(|| Alarm::start(&told.probe, cpus[0], running.way));
    Ok((told, running.stop, alarm.transpose()?))
}

fn run((told, ..): &mut Urgent, tenths: u32) -> Result<Outcome> {
    let _ = told.probe.take();
    let (start, polls) = (Instant::now(), told.load.polls());
    std::thread::sleep(TENTH * tenths);
    let polls = (told.load.polls() - polls) as f64 / start.elapsed().as_secs_f64();
    told.probe.wait_for_last(LAST_MAX)?;
    let late = told.probe.take();
    Ok(Outcome::of(late.len() as u64, [("polls_per_s", polls)]).late(late))
}

fn stop((told, stop, alarm): Urgent) -> Result<()> {
    drop(told);
    // It may be the last thread that can reach the urgent task.
    let stopped = alarm.map_or(Ok(()), Alarm::stop);
    stop().and(stopped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{assert_plan, contestants, outcome, try_each};
    use crate::scenario::Options;

    const TRIES: usize = 60;

    #[test]
    fn the_urgent_one_runs_and_the_jobs_go_on() {
        try_each(contestants(&PLAN, &Options::default()), |one, run| {
            // tokio's urgent task may have to wait for 32 jobs, and longer on a busy computer.
            let mut passes = (0..TRIES).map(|_| outcome(one, run, 5));
            let is_done =
                |outcome: &Outcome| outcome.operations > 0 && outcome.figures["polls_per_s"] > 0.0;
            let outcome = passes.find(is_done);
            assert!(outcome.is_some(), "{one:?}");
        });
    }

    #[test]
    fn the_plan_fits() {
        let kept = [
            "p50 us", "p99 us", "p99.9 us", "max us", "x bare", "runs", "polls/s",
        ];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
