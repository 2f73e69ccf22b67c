//! One run, with a stopped worker and an arrival; and all runs of a setting.

use super::arrival::{First, Kept, NOTE_CAME, NOTE_COMES, Stage, What};
use super::seen::{NOTE_WAKES, Seen};
use crate::scenario::class::Classes;
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use crate::scenario::{Shape, oracle};
use doorbell_core::bell::Look;
use doorbell_core::parcel;
use doorbell_core::scheduler::Turns;
use doorbell_core::switches::Switches;
use doorbell_core::wheel::Holds;
use doorbell_core::worker::{IdlePolicy, WorkerCounts};
use doorbell_machine::sim::{
    self, Config, Event, EventKind, Fault, Faults, Memory, Outcome, Parkers, Planned, SimFd,
    SimThread,
};
use doorbell_machine::{Machine, Marks, Readiness, Sim, ThreadHandle, ThreadSpec};
use futures_channel::oneshot;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

/// How long the worker is stopped: longer than an arrival takes.
pub(super) const AWAY_NS: u64 = 60_000;
/// How long the bringer is stopped: longer than the worker then takes to fall asleep.
const BRINGER_AWAY_NS: u64 = 200_000;
/// By when all is served: a few wakes and switches, and less than a watchdog takes.
const BOUND_NS: u64 = 100_000;
/// When the worker is woken, so that it falls asleep again.
const WOKEN_NS: u64 = 2_000_000;
/// After this much more time it has long been asleep.
const LATER_NS: u64 = 2_000_000;
/// How long after the worker fell asleep something arrives at a sleeping worker.
const ASLEEP_NS: u64 = 10_000;

/// What wakes the worker, so that it falls asleep again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    ByCall,
    /// A descriptor. The worker does not spin then.
    ByDescriptor,
}

/// The arrival, and the worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) what: What,
    pub(super) first: First,
    pub(super) woken: Woken,
    pub(super) workers: usize,
    /// The number of the worker, among all.
    pub(super) worker: usize,
    pub(super) classes: Classes,
    pub(super) idle: IdlePolicy,
    pub(super) paused: bool,
    pub(super) parkers: Parkers,
    pub(super) memory: Memory,
    pub(super) seed: u64,
}

/// When the arrival comes, and which thread is stopped.
#[derive(Clone, Copy, Debug)]
struct Plan {
    comes_ns: u64,
    /// The event of the worker after which it is stopped.
    worker: Option<u64>,
    /// The event of the bringer after which it is stopped.
    bringer: Option<u64>,
}

impl Setting {
    /// The number of the worker's thread. The workers are started in order, after the main thread.
    fn thread(&self) -> u32 {
        self.worker as u32 + 1
    }
}

/// An undisturbed run with a sleeping worker, to record the steps.
const UNDISTURBED: Plan = Plan {
    comes_ns: WOKEN_NS + LATER_NS,
    worker: None,
    bringer: None,
};

impl Plan {
    fn over_ns(&self) -> u64 {
        let away_ns = self.bringer.map_or(0, |_| BRINGER_AWAY_NS);
        self.comes_ns + AWAY_NS + away_ns + BOUND_NS
    }

    fn faults(&self) -> Faults {
        let stops = [(self.worker, AWAY_NS), (self.bringer, BRINGER_AWAY_NS)];
        let planned = stops.into_iter().filter_map(|(event, ns)| {
            Some(Planned {
                event: event?,
                fault: Fault::Deschedule { ns },
            })
        });
        Faults {
            planned: planned.collect(),
            ..Faults::default()
        }
    }
}

/// What the worker did when the arrival came.
#[derive(Clone, Copy, Debug)]
struct Found {
    bell: Look,
    is_keeper: bool,
    counts: WorkerCounts,
}

fn look<const BUG: u8>(workers: &Workers<BUG>, worker: usize) -> Found {
    let remote = workers.remote(worker);
    sim::unseen(|| Found {
        bell: remote.bell().look(),
        is_keeper: remote.driver().keeper() == Some(remote.worker()),
        counts: workers.counts()[worker],
    })
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
struct Told {
    found: Found,
    /// What the worker has counted since.
    since: WorkerCounts,
}

pub(super) fn sleep_until(time_ns: u64) {
    sim::sleep(time_ns.saturating_sub(sim::time_ns()));
}

/// Prepares the wake that makes the worker fall asleep again.
fn alarm<const BUG: u8>(stage: &Stage<BUG>, woken: Woken) -> (Box<dyn FnOnce()>, Kept) {
    if woken == Woken::ByDescriptor {
        let fd = SimFd::open();
        let registered = stage.register(fd, Waker::noop());
        return (
            Box::new(move || fd.set_ready(Readiness::READABLE)),
            vec![Box::new(registered)],
        );
    }
    let remote = stage.workers.remote(stage.worker).clone();
    let post = move || {
        if parcel::post(&*remote, || ()).is_err() {
            sim::fail("lost: a post was refused by a worker that runs");
        }
    };
    (Box::new(post), Kept::new())
}

fn scheduler(setting: Setting) -> SchedulerConfig {
    SchedulerConfig {
        workers: setting.workers,
        classes: setting.classes,
        idle: setting.idle,
        switches: Switches::default(),
        paused: setting.paused,
        turns: Turns::ByArrival,
        groups: false,
        budget: None,
    }
}

/// The main thread.
fn play<const BUG: u8>(setting: Setting, plan: Plan, shape: &Shape) -> Told {
    Sim::<BUG>::bind_thread(&[shape.main_cpu()]).unwrap();
    let (workers, threads) = Workers::<BUG>::start(scheduler(setting), Arc::default()).unwrap();
    assert_eq!(workers.number(setting.worker), setting.thread());
    // A paused clock goes on while this thread waits.
    let inside = workers.clock.inside(Holds::Yes);
    drop(workers.clock.hold());
    // All workers have their policies and are idle.
    sim::sleep(100_000);
    let stage = Stage {
        workers: Arc::clone(&workers),
        worker: setting.worker,
        first: setting.first,
        served: Arc::default(),
    };
    let (wake, alarm) = alarm(&stage, setting.woken);
    let (arrival, kept) = stage.prepare(setting.what);
    let (tell, mut told) = oneshot::channel();
    let theirs = Arc::clone(&workers);
    let bring = move || {
        sleep_until(plan.comes_ns);
        let found = look(&theirs, setting.worker);
        sim::note(NOTE_COMES);
        let kept = arrival();
        sim::note(NOTE_CAME);
        let _ = tell.send((found, kept));
    };
    let bringer = begin(&stage, setting.what, shape, bring);
    sleep_until(WOKEN_NS);
    sim::note(NOTE_WAKES);
    wake();
    sleep_until(plan.over_ns());
    let now = look(&workers, setting.worker).counts;
    let is_served = stage.served.is();
    let came = told.try_recv().ok().flatten();
    let Some((found, came)) = came.filter(|_| is_served) else {
        sim::fail("lost: what came was not served");
        unreachable!("the run is over");
    };
    let _ = bringer.map(ThreadHandle::join);
    drop((stage, alarm, kept, came, inside));
    workers.close(threads);
    oracle::check_quiescence(&workers);
    oracle::check_counts(&workers.counts(), Switches::default());
    oracle::check_freed(workers);
    Told {
        found,
        since: now.since(&found.counts),
    }
}

/// Starts the bringer, which sleeps until its time.
fn begin<const BUG: u8>(
    stage: &Stage<BUG>,
    what: What,
    shape: &Shape,
    bring: impl FnOnce() + Send + 'static,
) -> Option<SimThread> {
    if what == What::Surplus {
        stage.inside_a_poll(bring);
        return None;
    }
    let spec = ThreadSpec {
        name: "bringer".to_owned(),
        cpu: Some(shape.foreign_cpu(0)),
        stack_size: None,
    };
    Some(Sim::<BUG>::spawn(spec, Box::new(bring)).unwrap())
}

/// A run that succeeded.
struct Run {
    outcome: Outcome,
    seen: Seen,
    told: Told,
}

fn run<const BUG: u8>(setting: Setting, plan: Plan) -> Result<Run, String> {
    let shape = Shape::new("parking", setting.workers, 1);
    let config = Config {
        seed: setting.seed,
        parkers: setting.parkers,
        memory: setting.memory,
        machine: shape.machine.clone(),
        faults: plan.faults(),
        ..Config::default()
    };
    let seen = Rc::new(RefCell::new(Seen::new(setting.thread())));
    let theirs = Rc::clone(&seen);
    let sink = Box::new(move |event: &Event| theirs.borrow_mut().event(event));
    let told = Rc::new(RefCell::new(None));
    let tells = Rc::clone(&told);
    let program = move || {
        let told = play::<BUG>(setting, plan, &shape);
        tells.replace(Some(told));
    };
    let outcome = sim::run_traced(config, Some(sink), program).unwrap();
    let (seen, told) = (Rc::into_inner(seen).unwrap().into_inner(), told.take());
    let why = |what: &str| {
        format!(
            "{what}: {setting:?}, {plan:?}, {told:?}, {:?}",
            seen.stopped
        )
    };
    if let Some(failure) = &outcome.failure {
        return Err(why(&failure.to_string()));
    }
    let Some(told) = told else {
        return Err(why("it did not end"));
    };
    let bringer = plan.bringer.and(seen.bringer);
    let stopped: Vec<u32> = [plan.worker.map(|_| setting.thread()), bringer]
        .into_iter()
        .flatten()
        .collect();
    if seen.stopped != stopped {
        return Err(why("somebody else was stopped"));
    }
    if !rings(setting, plan, told.found.bell).contains(&told.since.rings) {
        return Err(why("rung too often, or not often enough"));
    }
    Ok(Run {
        outcome,
        seen,
        told,
    })
}

/// How often the arrival may ring the worker.
fn rings(setting: Setting, plan: Plan, bell: Look) -> RangeInclusive<u64> {
    let (least, most) = match setting.what {
        What::Call | What::WakePinned | What::Timer | What::TimerSoon | What::Close => (1, 1),
        What::Urgent if setting.worker != 0 => (1, 1),
        What::Wake if setting.workers == 1 => (1, 1),
        // Another worker may be notified instead.
        What::Wake => (0, 1),
        // While nobody keeps the poller.
        What::Register => (0, u64::from(plan.worker.is_some())),
        // One ring to be the watchdog after the first task, one to take a task after the second.
        What::Surplus => (0, 2),
        // Other workers are notified, or the descriptor itself wakes its waiter.
        What::Urgent
        | What::Batch
        | What::Fair
        | What::TimerOfWaker
        | What::Ready
        | What::ReadyOff => (0, 0),
    };
    // A ring by the clock when it goes on.
    let by_clock = setting.paused && matches!(setting.what, What::Timer | What::TimerSoon);
    let most = most + u64::from(by_clock);
    let first = u64::from(setting.first == First::Now);
    // Urgent workers ring each other in place of a notifier of a lower class.
    let helped = u64::from(setting.worker != 0);
    if plan.bringer.is_some() {
        // The worker goes on meanwhile.
        return 0..=most + first + helped;
    }
    // Another worker may be idle, and be told of the first descriptor.
    let least = if setting.workers == 1 {
        least.max(first)
    } else {
        least
    };
    let most = most + first;
    match bell {
        // It looks before it sleeps, or was notified before.
        Look::Running | Look::Spinning | Look::Notified => 0..=u64::from(by_clock),
        // A ring in place of the notifier.
        Look::NotifiedFromBelow => 0..=1,
        // It is notified only once, but a sleeping worker can wake up meanwhile.
        Look::Parked if plan.worker.is_some() && !by_clock => least..=most.min(1) + helped,
        Look::Parked => least..=most,
    }
}

/// What was seen in all runs of a setting.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) runs: u64,
    /// The bell of the worker when it was stopped, and whether it was the keeper of the poller.
    pub(super) phases: BTreeSet<String>,
    /// The kinds of steps after which it was stopped.
    pub(super) steps: BTreeSet<&'static str>,
    pub(super) marks: Marks,
}

impl Tally {
    /// The sum of both.
    pub(super) fn and(mut self, mut other: Tally) -> Tally {
        self.phases.append(&mut other.phases);
        self.steps.append(&mut other.steps);
        Tally {
            runs: self.runs + other.runs,
            marks: self.marks.and(other.marks),
            ..self
        }
    }

    fn note(&mut self, run: &Run) {
        self.runs += 1;
        self.marks = self.marks.and(run.outcome.marks);
        let Found {
            bell, is_keeper, ..
        } = run.told.found;
        let place = if is_keeper {
            "keeper"
        } else {
            "awake or on its word"
        };
        self.phases.insert(format!("{bell:?}, {place}"));
    }
}

/// Stops the worker after each step, and the bringer after each of its steps too.
///
/// # Errors
/// The first failure.
pub(super) fn explore<const BUG: u8>(setting: Setting) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let still = run::<BUG>(setting, UNDISTURBED)?;
    tally.note(&still);
    for step in &still.seen.worker {
        tally.steps.insert(step.kind.name());
        let plan = Plan {
            comes_ns: step.time_ns + 1,
            worker: Some(step.event),
            bringer: None,
        };
        let alone = run::<BUG>(setting, plan)?;
        tally.note(&alone);
        for brought in &alone.seen.brought {
            let bringer = Some(brought.event);
            tally.note(&run::<BUG>(setting, Plan { bringer, ..plan })?);
        }
        if step.kind == EventKind::Park {
            let asleep = Plan {
                comes_ns: step.time_ns + ASLEEP_NS,
                ..UNDISTURBED
            };
            tally.note(&run::<BUG>(setting, asleep)?);
        }
    }
    Ok(tally)
}
