//! No worker waits for what a lower worker of its core may hold. A Fair worker is suspended at every step,
//! as if another program had its CPU, while urgent traffic goes on.

use super::crossing::{self, CORES, Done, EITHER, NOTE_BEGIN, NOTE_WAKE, NOTE_WOKEN, Traffic};
use crate::scenario::class::{Classes, Urgent};
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use crate::scenario::{Shape, oracle};
use doorbell_core::scheduler::Turns;
use doorbell_core::switches::Switches;
use doorbell_core::worker::IdlePolicy;
use doorbell_machine::sim::{
    self, Config, Event, EventKind, Fault, Faults, Memory, Outcome, Parkers, Planned, SimThread,
};
use doorbell_machine::{Machine, Mark, Sim, ThreadHandle, ThreadSpec};
use futures_channel::mpsc::unbounded;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// How long the worker is suspended: longer than everything else takes.
const AWAY_NS: u64 = 10_000_000;
/// By when an urgent operation is over: a few wakes and switches.
const BOUND_NS: u64 = 100_000;
/// In an undisturbed run at least this many urgent operations, plus [`SPARE`], end after each step that is
/// tried.
const MEANWHILE_MIN: usize = 10;
const SPARE: usize = 10;
/// About how many steps are tried; every step with the feature `every-step`.
const TRIES: usize = if cfg!(feature = "every-step") {
    usize::MAX
} else {
    400
};

/// One way to run the traffic.
#[derive(Clone, Copy, Debug)]
struct Setting {
    seed: u64,
    idle: IdlePolicy,
    parkers: Parkers,
    memory: Memory,
}

/// A step of the Fair worker of core 0.
#[derive(Clone, Copy, Debug)]
struct Step {
    event: u64,
    time_ns: u64,
    kind: EventKind,
    line: u32,
    /// Inside a wake of a task that a timer wakes too.
    wakes: bool,
}

/// What was recorded of a run.
#[derive(Debug, Default)]
struct Seen {
    events: u64,
    /// The steps of the Fair worker of core 0 since the traffic began.
    steps: Vec<Step>,
    begun: bool,
    wakes: bool,
    /// When a thread was suspended, and which.
    fault: Option<(u64, u32)>,
}

/// The thread of the Fair worker of core 0, which is started first.
const VICTIM: u32 = 1;

impl Seen {
    fn event(&mut self, event: &Event) {
        self.events += 1;
        if event.kind == EventKind::Fault {
            self.fault = Some((event.time_ns, event.thread));
        }
        if (event.kind, event.line) == (EventKind::Note, NOTE_BEGIN) {
            self.begun = true;
        }
        if event.thread != VICTIM || !self.begun {
            return;
        }
        if event.kind == EventKind::Note {
            self.wakes = (self.wakes || event.line == NOTE_WAKE) && event.line != NOTE_WOKEN;
        }
        let is_step = matches!(
            event.kind,
            EventKind::Load
                | EventKind::Store
                | EventKind::Rmw
                | EventKind::Fence
                | EventKind::Read
                | EventKind::Write
                | EventKind::Clock
                | EventKind::Work
                | EventKind::Note
                | EventKind::Ring
        );
        if is_step {
            self.steps.push(Step {
                event: self.events,
                time_ns: event.time_ns,
                kind: event.kind,
                line: event.line,
                wakes: self.wakes,
            });
        }
    }
}

/// The main thread.
fn play(setting: Setting, shape: &Shape, traffic: impl FnOnce(Arc<Workers<0>>) -> Traffic) {
    Sim::<0>::bind_thread(&[shape.main_cpu()]).unwrap();
    let config = SchedulerConfig {
        workers: CORES,
        classes: Classes::Each(Urgent::Fifo),
        groups: false,
        idle: setting.idle,
        switches: Switches::default(),
        paused: false,
        turns: Turns::ByRank,
        budget: None,
    };
    let (workers, threads) = Workers::<0>::start(config, Arc::default()).unwrap();
    assert_eq!(workers.number(crossing::fair(0)), VICTIM);
    // All workers have their policies and are idle.
    sim::sleep(100_000);
    let traffic = traffic(Arc::clone(&workers));
    let joins = traffic.begin();
    let theirs = traffic.clone();
    let spec = ThreadSpec {
        name: "outside".to_owned(),
        cpu: Some(shape.foreign_cpu(0)),
        stack_size: None,
    };
    let outside: SimThread =
        Sim::<0>::spawn(spec, Box::new(move || theirs.play_outside())).unwrap();
    outside.join().unwrap();
    for join in joins {
        let _ = workers.result_of(join);
    }
    drop(traffic);
    oracle::until_quiet(&workers);
    workers.close(threads);
    oracle::check_quiescence(&workers);
    oracle::check_counts(&workers.counts(), Switches::default());
    oracle::check_freed(workers);
}

/// Runs the traffic and suspends the thread that makes event `at`.
fn run(setting: Setting, at: Option<u64>) -> (Outcome, Seen, Vec<Done>) {
    let shape = Shape::new("suspended", CORES, 1);
    let suspend = |event| Planned {
        event,
        fault: Fault::Deschedule { ns: AWAY_NS },
    };
    let config = Config {
        seed: setting.seed,
        parkers: setting.parkers,
        memory: setting.memory,
        machine: shape.machine.clone(),
        faults: Faults {
            planned: at.map(suspend).into_iter().collect(),
            ..Faults::default()
        },
        ..Config::default()
    };
    let seen = Rc::new(RefCell::new(Seen::default()));
    let theirs = Rc::clone(&seen);
    let sink = Box::new(move |event: &Event| theirs.borrow_mut().event(event));
    let (done, mut all) = unbounded();
    let program = move || play(setting, &shape, |workers| Traffic { workers, done });
    let outcome = sim::run_traced(config, Some(sink), program).unwrap();
    let done = std::iter::from_fn(|| all.try_recv().ok()).collect();
    (outcome, seen.take(), done)
}

/// The results of all suspensions of a setting.
#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    checked: u64,
    /// Runs in which an urgent worker was rung in place of a waker of a lower class.
    helped: u64,
    /// Operations that began while the worker was suspended inside the wake of their task, and ended before
    /// it went on.
    passed: u64,
}

/// Suspends the worker at one step.
fn try_step(setting: Setting, steps: &[Step], at: usize, tally: &mut Tally) {
    let step = steps[at];
    let (outcome, seen, done) = run(setting, Some(step.event));
    let Step { kind, line, .. } = step;
    let where_to = || format!("{setting:?}, suspended behind step {at}: {kind:?} of line {line}");
    assert_eq!(outcome.failure, None, "{}", where_to());
    let (from_ns, thread) = seen.fault.expect("it is planned");
    assert_eq!(thread, VICTIM, "{}", where_to());
    let until_ns = from_ns + AWAY_NS;
    tally.runs += 1;
    tally.helped += u64::from(outcome.marks.has(Mark::BellMustHelp));
    let mut meanwhile = 0;
    for it in &done {
        let took_ns = it.ended_ns - it.begun_ns;
        assert!(took_ns <= BOUND_NS, "{}: {it:?} waited for it", where_to());
        if it.ended_ns > from_ns && it.begun_ns < until_ns {
            meanwhile += 1;
            tally.passed += u64::from(step.wakes && it.what == EITHER);
        }
    }
    assert!(
        meanwhile >= 5,
        "{}: only {meanwhile} were begun",
        where_to()
    );
    tally.checked += meanwhile as u64;
}

fn try_all(setting: Setting) {
    let (outcome, seen, done) = run(setting, None);
    assert_eq!(outcome.failure, None);
    let late: Vec<_> = done
        .iter()
        .filter(|it| it.ended_ns - it.begun_ns > BOUND_NS)
        .collect();
    assert!(late.is_empty(), "{late:?}");
    for what in crossing::MEASURED {
        assert!(done.iter().any(|it| it.what == *what), "no {what}");
    }
    // Not at the end, when no more urgent operations come.
    let mut ends_ns: Vec<u64> = done.iter().map(|it| it.ended_ns).collect();
    ends_ns.sort_unstable_by(|a, b| b.cmp(a));
    let is_early = |step: &Step| step.time_ns < ends_ns[MEANWHILE_MIN + SPARE];
    let steps: Vec<Step> = seen.steps.into_iter().filter(is_early).collect();
    let mut tally = Tally::default();
    let stride = (steps.len() / TRIES).max(1);
    for at in (0..steps.len()).step_by(stride) {
        try_step(setting, &steps, at, &mut tally);
    }
    assert!(
        tally.runs >= 400 && tally.checked >= 20 * tally.runs,
        "{tally:?}"
    );
    // The suspensions covered the steps where the helping rings and the timers matter.
    assert!(tally.helped > 0 && tally.passed > 0, "{tally:?}");
}

#[test]
fn nobody_waits_for_a_fair_worker_that_is_suspended() {
    try_all(Setting {
        seed: 1,
        idle: IdlePolicy::Park,
        parkers: Parkers::Futex,
        memory: Memory::Sc,
    });
}

#[test]
fn nobody_waits_for_a_fair_worker_that_spins_and_is_suspended() {
    try_all(Setting {
        seed: 2,
        idle: IdlePolicy::Spin { spin_ns: 5_000 },
        parkers: Parkers::Eventfd,
        memory: Memory::Tso,
    });
}
