//! Sleeping workers have a movable timer each, and nobody wakes them for it while another worker is awake: the switch
//! `timer_pull`.

use super::{one_scheduler, result_of, work_long_again};
use crate::fuzz::machine_for;
use crate::scenario::oracle;
use crate::scenario::program::{Ended, run_until};
use crate::scenario::rest;
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use crate::scenario::timer::Sleep;
use doorbell_core::switches::TimerPull;
use doorbell_core::task::Kind;
use doorbell_core::worker::timer::RawTimer;
use doorbell_core::worker::{Local, WorkerCounts};
use doorbell_machine::sim::{self, CHOSEN, Config};
use doorbell_machine::{Bug, Machine, Sim};
use futures_channel::mpsc::{UnboundedSender, unbounded};
use std::sync::Arc;
use std::task::{Wake, Waker};

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const WORKERS: usize = 8;
/// Each worker but the first has one.
const TIMERS: u64 = WORKERS as u64 - 1;
/// By then a task that was launched waits, and its worker sleeps.
const SETTLE_NS: u64 = MS;
/// When the first timer is due, from when the first one is armed: all workers sleep long before.
const FIRST_NS: u64 = 20 * MS;
/// How far apart they are, if they are.
const APART_NS: u64 = 200 * US;
/// Of a task that ticks: how often, and how far its ticks are apart. The ticks of all tasks are [`APART_NS`] apart.
const TICKS: u64 = 4;
const TICK_NS: u64 = TIMERS * APART_NS;
/// The first worker becomes busy so long before the first timer is due.
const BUSY_BEFORE_NS: u64 = 2 * MS;
/// How long it is busy.
const BUSY_NS: u64 = 10 * MS;
/// Of its polls, if they are short.
const POLL_NS: u64 = 2 * US;
/// How late a timer is, at most: behind short polls, where all sleep, and behind a stuck worker.
const LATE_NS: u64 = 50 * US;
const LATE_STUCK_NS: u64 = MS;

/// What the first worker does, which has no timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Sleeps,
    /// It makes short polls of a pinned task.
    Polls,
    /// It makes short polls of a task that may run anywhere.
    Shares,
    /// It is stuck in one poll, of a task that has made a long one before.
    Stuck,
    /// The same, of a task that has not.
    InFirstPoll,
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    pull: TimerPull,
    first: First,
    /// Whether it does so already while the others arm their timers.
    begins_early: bool,
    /// How far the timers are from each other.
    apart_ns: u64,
    /// Whether tasks wait for the timers. A task that wakes behind another one may wake a worker for itself.
    tasks: bool,
    /// How often each task arms its timer.
    ticks: u64,
    /// A worker that is taken off when all timers are armed.
    off: Option<usize>,
    /// How often the switch is turned between the arming of the timers and the first of them.
    turns: u64,
    /// By how many settings.
    turn_by: usize,
    seed: u64,
}

impl Setting {
    fn new(pull: TimerPull, first: First) -> Self {
        Setting {
            pull,
            first,
            begins_early: false,
            apart_ns: APART_NS,
            tasks: true,
            ticks: 1,
            off: None,
            turns: 0,
            turn_by: 1,
            seed: 1,
        }
    }

    fn config(&self) -> SchedulerConfig {
        let mut config = one_scheduler(WORKERS);
        config.switches.timer_pull = self.pull;
        config
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    fired: u64,
    latest_ns: u64,
    /// Parks that a time ended, of the workers that have a timer.
    wakes: u64,
    /// The same of the worker that is off.
    wakes_off: u64,
    /// Polls of the workers that have a timer.
    polls: u64,
    counts: WorkerCounts,
}

pub(super) fn launch<const BUG: u8>(
    workers: &Arc<Workers<BUG>>,
    worker: usize,
    kind: Kind,
    does: impl Future<Output = ()> + Send + 'static,
) {
    let ended = Ended::new(workers);
    let task = async move {
        let _ended = ended;
        does.await;
    };
    drop(workers.launch(worker, kind, task));
}

/// The waker of a timer that no task waits for.
struct Note<const BUG: u8> {
    workers: Arc<Workers<BUG>>,
    due_ns: u64,
    late: UnboundedSender<u64>,
}

impl<const BUG: u8> Wake for Note<BUG> {
    fn wake(self: Arc<Self>) {
        let late_ns = self.workers.clock.now_ns() - self.due_ns;
        let _ = self.late.unbounded_send(late_ns);
    }
}

/// Each worker but the first gets a timer; returns the timers of no task, and when the first one is due.
fn arm<const BUG: u8>(
    workers: &Arc<Workers<BUG>>,
    setting: Setting,
    late: &UnboundedSender<u64>,
) -> (Vec<RawTimer>, u64) {
    let first_ns = workers.clock.now_ns() + FIRST_NS;
    let (keep, mut kept) = unbounded();
    for worker in 1..WORKERS {
        let due_ns = first_ns + (worker as u64 - 1) * setting.apart_ns;
        let (its, late, keep) = (Arc::clone(workers), late.clone(), keep.clone());
        launch(workers, worker, Kind::Task, async move {
            if setting.tasks {
                for tick in 0..setting.ticks {
                    let due_ns = due_ns + tick * TICK_NS;
                    Sleep::until(&its, worker, due_ns).await;
                    let _ = late.unbounded_send(its.clock.now_ns() - due_ns);
                }
                return;
            }
            let remote = its.remote(worker).clone();
            let note = Note {
                workers: its,
                due_ns,
                late,
            };
            let timer = RawTimer::arm(&remote, due_ns, &Waker::from(Arc::new(note)));
            let _ = keep.unbounded_send(timer.expect("the worker runs"));
        });
        sim::sleep(SETTLE_NS);
    }
    let timers = std::iter::from_fn(|| kept.try_recv().ok()).collect();
    (timers, sim::time_ns() + first_ns - workers.clock.now_ns())
}

/// Takes a worker off, which sleeps again soon.
pub(super) fn take_off<const BUG: u8>(workers: &Arc<Workers<BUG>>, worker: usize) {
    if !workers.take_off(worker) {
        sim::fail("it was off");
    }
    launch(workers, worker, Kind::Call, async {
        Local::<Sim<BUG>>::with_current(|local| local.map(Local::follow));
    });
    sim::sleep(SETTLE_NS);
}

/// Gives the first worker something to do.
fn occupy<const BUG: u8>(workers: &Arc<Workers<BUG>>, first: First, for_ns: u64) {
    match first {
        First::Sleeps => {}
        First::Polls | First::Shares => {
            let polls = run_until(sim::time_ns() + for_ns, POLL_NS);
            let is_pinned = first == First::Polls;
            let kind = if is_pinned { Kind::Pinned } else { Kind::Task };
            launch(workers, 0, kind, polls);
        }
        First::Stuck => launch(workers, 0, Kind::Pinned, work_long_again(for_ns)),
        First::InFirstPoll => {
            launch(workers, 0, Kind::Pinned, async move { sim::work(for_ns) });
        }
    }
}

/// The first thread of a run.
fn play<const BUG: u8>(setting: Setting, late: &UnboundedSender<u64>) -> Figures {
    Sim::<BUG>::bind_thread(&[WORKERS]).unwrap();
    let (workers, threads) = Workers::<BUG>::start(setting.config(), Arc::default()).unwrap();
    sim::sleep(SETTLE_NS);
    let before = workers.counts();
    if setting.begins_early {
        occupy(&workers, setting.first, FIRST_NS + BUSY_NS);
        sim::sleep(SETTLE_NS);
    }
    let (timers, first_ns) = arm(&workers, setting, late);
    if let Some(off) = setting.off {
        take_off(&workers, off);
    }
    for _ in 0..setting.turns {
        workers.turn_timer_pull(setting.turn_by);
        sim::sleep(SETTLE_NS);
    }
    rest::check_trees(&workers);
    sim::sleep((first_ns - BUSY_BEFORE_NS).saturating_sub(sim::time_ns()));
    if !setting.begins_early {
        occupy(&workers, setting.first, BUSY_NS);
    }
    sim::sleep(BUSY_BEFORE_NS + BUSY_NS);
    oracle::until_quiet(&workers);
    rest::check_rest(&workers);
    let counts = workers.counts();
    drop(timers);
    workers.close(threads);
    oracle::check_quiescence(&workers);
    oracle::check_counts(&workers.counts(), setting.config().switches);
    oracle::check_freed(workers);
    let since: Vec<WorkerCounts> = counts
        .iter()
        .zip(&before)
        .map(|(counts, before)| counts.since(before))
        .collect();
    let sum = |of: fn(&WorkerCounts) -> u64| since.iter().map(of).sum();
    let mut counts = WorkerCounts::default();
    counts.timers_fired = sum(|it| it.timers_fired);
    counts.timers_pulled = sum(|it| it.timers_pulled);
    counts.timers_for_stuck = sum(|it| it.timers_for_stuck);
    counts.pulls_refused = sum(|it| it.pulls_refused);
    counts.pulls_fenced = sum(|it| it.pulls_fenced);
    counts.duties_ended = sum(|it| it.duties_ended);
    counts.pulls_placed = sum(|it| it.pulls_placed);
    counts.set_aside = sum(|it| it.set_aside);
    counts.stolen = sum(|it| it.stolen);
    counts.unparks_deadline = sum(|it| it.unparks_deadline);
    Figures {
        wakes_off: setting.off.map_or(0, |off| since[off].unparks_deadline),
        polls: since[1..].iter().map(|it| it.polls).sum(),
        wakes: since[1..].iter().map(|it| it.unparks_deadline).sum(),
        counts,
        ..Figures::default()
    }
}

/// The figures of a run, or how it failed.
fn run_with<const BUG: u8>(setting: Setting) -> Result<Figures, String> {
    let config = Config {
        seed: setting.seed,
        machine: machine_for(WORKERS + 2, None),
        ..Config::default()
    };
    let (note, mut notes) = unbounded();
    let figures = result_of(config, move || play::<BUG>(setting, &note))?;
    let late_ns: Vec<u64> = std::iter::from_fn(|| notes.try_recv().ok()).collect();
    Ok(Figures {
        fired: late_ns.len() as u64,
        latest_ns: late_ns.into_iter().max().unwrap_or(0),
        ..figures
    })
}

/// A run in which each timer fires once, and none later than that.
fn run_in_time(setting: Setting, late_ns: u64) -> Figures {
    let figures = run_with::<0>(setting).unwrap_or_else(|why| panic!("{setting:?}: {why}"));
    let counts = figures.counts;
    let timers = TIMERS * setting.ticks;
    assert_eq!(figures.fired, timers, "{setting:?}");
    assert_eq!(counts.timers_fired, timers, "{setting:?}: each fires once");
    assert!(
        figures.latest_ns <= late_ns,
        "{setting:?}: {} ns late",
        figures.latest_ns
    );
    assert_eq!(
        counts.pulls_fenced, 0,
        "{setting:?}: a sleeper needs no membarrier"
    );
    figures
}

#[test]
fn no_sleeper_is_woken_for_a_timer_while_another_worker_is_awake() {
    for seed in 0..3 {
        let on = Setting {
            seed,
            tasks: false,
            ..Setting::new(TimerPull::On, First::Polls)
        };
        let Figures { wakes, counts, .. } = run_in_time(on, LATE_NS);
        // The worker with the first timer has the duty. It wakes when the first worker is about to fire that timer, or
        // has just done so.
        assert!(wakes <= 1, "{counts:?}");
        let own = wakes - counts.duties_ended;
        assert_eq!(counts.timers_pulled + own, TIMERS, "{counts:?}");
    }
}

/// The worker that is awake fires the first timer of each task, and runs the task from then on: its own task is pinned,
/// so no other movable one waits there. No task goes back to arm its timer again. One that waits behind the pinned task
/// may be taken by a watchdog, and then is pulled once more.
#[test]
fn a_task_that_ticks_stays_where_its_first_timer_was_fired() {
    for seed in 0..3 {
        let on = Setting {
            seed,
            ticks: TICKS,
            ..Setting::new(TimerPull::On, First::Polls)
        };
        let Figures { counts, .. } = run_in_time(on, LATE_NS);
        assert_eq!(counts.pulls_placed, 0, "{counts:?}");
        // The worker with the duty may fire its own.
        let pulled = TIMERS - 1..=TIMERS + counts.stolen;
        assert!(pulled.contains(&counts.timers_pulled), "{counts:?}");
    }
}

/// Each task is polled twice where it was launched: when it arms its timer, and when that has fired.
#[test]
fn a_task_whose_timer_is_fired_beside_another_one_goes_back_to_its_own_worker() {
    for seed in 0..3 {
        let on = Setting {
            seed,
            ..Setting::new(TimerPull::On, First::Shares)
        };
        let Figures { polls, counts, .. } = run_in_time(on, LATE_NS);
        assert_eq!(polls, 2 * TIMERS, "{counts:?}");
        assert!(counts.timers_pulled >= TIMERS - 1, "{counts:?}");
        assert_eq!(counts.pulls_placed, counts.timers_pulled, "{counts:?}");
    }
}

#[test]
fn without_the_switch_each_sleeper_is_woken_for_its_own() {
    for first in [First::Sleeps, First::Polls] {
        let off = Setting {
            tasks: false,
            ..Setting::new(TimerPull::Off, first)
        };
        let Figures { wakes, counts, .. } = run_in_time(off, LATE_NS);
        assert_eq!((wakes, counts.timers_pulled), (TIMERS, 0), "{first:?}");
    }
}

/// The guess of `timer_pull=base`: nothing wakes the workers that armed the timers, and nobody pulls.
#[test]
fn with_base_a_timer_is_armed_on_the_worker_that_is_awake() {
    for (begins_early, wakes) in [(true, 0), (false, TIMERS)] {
        let base = Setting {
            begins_early,
            tasks: false,
            ..Setting::new(TimerPull::Base, First::Polls)
        };
        let figures = run_in_time(base, LATE_NS);
        let seen = (figures.wakes, figures.counts.timers_pulled);
        assert_eq!(seen, (wakes, 0), "awake meanwhile: {begins_early}");
    }
}

#[test]
fn where_all_sleep_one_wakes_for_each_deadline() {
    for (apart_ns, deadlines) in [(0, 1), (APART_NS, TIMERS)] {
        let on = Setting {
            apart_ns,
            tasks: false,
            ..Setting::new(TimerPull::On, First::Sleeps)
        };
        let Figures { counts, .. } = run_in_time(on, LATE_NS);
        let wakes = counts.unparks_deadline;
        assert!(
            (deadlines..=deadlines + deadlines / 10).contains(&wakes),
            "{wakes} wakes for {deadlines} deadlines: {counts:?}"
        );
        assert!(
            counts.timers_pulled >= TIMERS - deadlines.min(TIMERS),
            "{counts:?}"
        );
    }
}

#[test]
fn a_stuck_worker_does_not_hold_up_the_timers_of_sleepers() {
    for seed in 0..3 {
        let on = Setting {
            seed,
            ..Setting::new(TimerPull::On, First::Stuck)
        };
        let Figures { counts, .. } = run_in_time(on, LATE_STUCK_NS);
        assert!((1..=TIMERS).contains(&counts.set_aside), "{counts:?}");
        assert_eq!(counts.timers_for_stuck, 0, "it has none itself");
    }
}

/// All sleep, and nothing wakes one that would look at the worker.
#[test]
fn behind_the_first_long_poll_of_a_task_the_timers_of_sleepers_wait_for_its_end() {
    let stuck = |pull| Setting::new(pull, First::InFirstPoll);
    let on = run_in_time(stuck(TimerPull::On), BUSY_BEFORE_NS + BUSY_NS);
    assert!(on.latest_ns > LATE_STUCK_NS, "{on:?}");
    let _: Figures = run_in_time(stuck(TimerPull::Off), LATE_NS);
}

#[test]
fn the_switch_is_turned_while_timers_are_pending() {
    for pull in TimerPull::ALL {
        for first in [First::Sleeps, First::Polls] {
            for (turns, turn_by) in (0..=4).flat_map(|turns| [(turns, 1), (turns, 2)]) {
                let setting = Setting {
                    turns,
                    turn_by,
                    ..Setting::new(pull, first)
                };
                let _: Figures = run_in_time(setting, LATE_NS);
            }
        }
    }
}

#[test]
fn a_worker_that_is_off_is_woken_for_no_timer() {
    // Worker 1 has the first timer of all, and so the duty; the last worker has the last timer.
    for off in [1, WORKERS - 1] {
        let on = Setting {
            off: Some(off),
            tasks: false,
            ..Setting::new(TimerPull::On, First::Sleeps)
        };
        let figures = run_in_time(on, LATE_NS);
        assert_eq!(figures.wakes_off, 0, "{off}: {figures:?}");
        assert!(
            (TIMERS..=TIMERS + 1).contains(&figures.wakes),
            "{figures:?}"
        );
    }
}

/// Whether the run with the mutant ends well and each timer is in time.
fn is_in_time(setting: Setting, late_ns: u64) -> bool {
    run_with::<CHOSEN>(setting).is_ok_and(|figures| figures.latest_ns <= late_ns)
}

#[test]
fn a_worker_that_forgets_its_duty_is_noticed() {
    let on = Setting::new(TimerPull::On, First::Sleeps);
    sim::break_thread(Bug::PullForgetsDuty);
    assert!(!is_in_time(on, LATE_NS));
}

#[test]
fn a_worker_that_never_looks_is_noticed() {
    let on = Setting::new(TimerPull::On, First::Polls);
    sim::break_thread(Bug::PullNeverLooks);
    assert!(!is_in_time(on, LATE_NS));
}

#[test]
fn a_visitor_that_reports_nothing_is_noticed() {
    let on = Setting::new(TimerPull::On, First::Polls);
    sim::break_thread(Bug::PullReportsNothing);
    let figures = run_with::<CHOSEN>(on);
    assert!(figures.is_err() || figures.is_ok_and(|it| it.wakes > it.counts.duties_ended));
}

#[test]
fn a_stuck_worker_that_is_trusted_is_noticed() {
    let on = Setting::new(TimerPull::On, First::Stuck);
    sim::break_thread(Bug::PullTrustsStuck);
    assert!(!is_in_time(on, LATE_STUCK_NS));
}
