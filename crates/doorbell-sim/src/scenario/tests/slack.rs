//! Timers with slack on one worker: they wake nobody before their latest time, and fire with the next look from their
//! deadline on.

use super::pull::launch;
use super::{one_scheduler, result_of};
use crate::fuzz::machine_for;
use crate::scenario::oracle;
use crate::scenario::program::run_until;
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use doorbell_core::switches::TimerPull;
use doorbell_core::task::Kind;
use doorbell_core::wheel::Window;
use doorbell_core::worker::WorkerCounts;
use doorbell_core::worker::timer::RawTimer;
use doorbell_machine::sim::{self, CHOSEN, Config};
use doorbell_machine::{Bug, Machine, Sim};
use futures_channel::mpsc::{UnboundedSender, unbounded};
use std::sync::Arc;
use std::task::{Wake, Waker};

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const WORKERS: usize = 3;
/// The worker with the timers.
const OWNER: usize = 1;
const OTHER: usize = 2;
/// Before the timers are armed, and behind.
const SETTLE_NS: u64 = MS;
/// A run's zero, from when the timers are armed on.
const ZERO_NS: u64 = 10 * MS;
/// How long a run goes on after that.
const ALL_NS: u64 = 20 * MS;
const POLL_NS: u64 = 2 * US;
/// How late a timer is, at most.
const LATE_NS: u64 = 50 * US;
const NEVER: u64 = u64::MAX;

/// What happens beside the timers, at that time.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Nothing,
    /// A worker gets a task that does nothing.
    Task(usize, u64),
    /// A worker is woken, and finds nothing.
    Wake(usize, u64),
    /// A worker makes short polls, up to a time.
    Polls(usize, u64, u64),
    /// The same, from before the timers are armed.
    PollsFromTheBegin(usize, u64),
}

/// What came of it.
#[derive(Clone, Debug)]
struct Seen {
    /// When each timer fired; `None` if it has not.
    fired_ns: Vec<Option<u64>>,
    /// Parks of any worker that a time ended.
    wakes: u64,
    /// Timers that another worker fired.
    pulled: u64,
}

#[derive(Clone, Debug)]
struct Setting {
    pull: TimerPull,
    /// Deadline and latest time of each timer, from the run's zero on.
    windows: Vec<(u64, u64)>,
    beside: Beside,
}

impl Setting {
    fn config(&self) -> SchedulerConfig {
        let mut config = one_scheduler(WORKERS);
        config.switches.timer_pull = self.pull;
        config
    }
}

/// The waker of a timer. No task waits for it, so that no worker is woken for a task.
struct Note<const BUG: u8> {
    workers: Arc<Workers<BUG>>,
    at: usize,
    zero_ns: u64,
    fired: UnboundedSender<(usize, u64)>,
}

impl<const BUG: u8> Wake for Note<BUG> {
    fn wake(self: Arc<Self>) {
        let fired_ns = self.workers.clock.now_ns() - self.zero_ns;
        let _ = self.fired.unbounded_send((self.at, fired_ns));
    }
}

/// Arms the timers on their worker.
fn arm<const BUG: u8>(
    workers: &Arc<Workers<BUG>>,
    windows: Vec<(u64, u64)>,
    fired: UnboundedSender<(usize, u64)>,
) -> Vec<RawTimer> {
    let zero_ns = workers.clock.now_ns() + ZERO_NS;
    let (keep, mut kept) = unbounded();
    let its = Arc::clone(workers);
    launch(workers, OWNER, Kind::Task, async move {
        for (at, (from_ns, latest_ns)) in windows.into_iter().enumerate() {
            let window = Window {
                from_ns: zero_ns + from_ns,
                latest_ns: zero_ns.saturating_add(latest_ns),
            };
            let note = Note {
                workers: Arc::clone(&its),
                at,
                zero_ns,
                fired: fired.clone(),
            };
            let waker = Waker::from(Arc::new(note));
            let timer = RawTimer::arm(its.remote(OWNER), window, &waker);
            let _ = keep.unbounded_send(timer.expect("the worker runs"));
        }
    });
    sim::sleep(SETTLE_NS);
    std::iter::from_fn(|| kept.try_recv().ok()).collect()
}

/// The first thread of a run.
fn play<const BUG: u8>(setting: Setting, fired: UnboundedSender<(usize, u64)>) -> Seen {
    Sim::<BUG>::bind_thread(&[WORKERS]).unwrap();
    let (workers, threads) = Workers::<BUG>::start(setting.config(), Arc::default()).unwrap();
    sim::sleep(SETTLE_NS);
    let zero_ns = sim::time_ns() + SETTLE_NS + ZERO_NS;
    let polls = |worker, to_ns| {
        let polls = run_until(zero_ns + to_ns, POLL_NS);
        launch(&workers, worker, Kind::Pinned, polls);
    };
    if let Beside::PollsFromTheBegin(worker, to_ns) = setting.beside {
        polls(worker, to_ns);
    }
    sim::sleep(SETTLE_NS);
    let timers = arm(&workers, setting.windows, fired);
    let before = workers.counts();
    let until = |at_ns| sim::sleep(zero_ns + at_ns - sim::time_ns());
    match setting.beside {
        Beside::Nothing | Beside::PollsFromTheBegin(..) => {}
        Beside::Task(worker, at_ns) => {
            until(at_ns);
            launch(&workers, worker, Kind::Pinned, async {});
        }
        Beside::Wake(worker, at_ns) => {
            until(at_ns);
            workers.remote(worker).request_pass();
        }
        Beside::Polls(worker, from_ns, to_ns) => {
            until(from_ns);
            polls(worker, to_ns);
        }
    }
    until(ALL_NS);
    let counts = workers.counts();
    drop(timers);
    workers.close(threads);
    oracle::check_quiescence(&workers);
    oracle::check_freed(workers);
    let each = || counts.iter().zip(&before);
    let sum = |of: fn(&WorkerCounts) -> u64| each().map(|(now, then)| of(now) - of(then)).sum();
    Seen {
        fired_ns: Vec::new(),
        wakes: sum(|it| it.unparks_deadline),
        pulled: sum(|it| it.timers_pulled),
    }
}

/// What is seen in a run, or how it failed.
fn run_with<const BUG: u8>(setting: &Setting) -> Result<Seen, String> {
    let config = Config {
        machine: machine_for(WORKERS + 2, None),
        ..Config::default()
    };
    let (note, mut notes) = unbounded();
    let own = setting.clone();
    let mut seen = result_of(config, move || play::<BUG>(own, note))?;
    seen.fired_ns = vec![None; setting.windows.len()];
    while let Ok((at, fired_ns)) = notes.try_recv() {
        seen.fired_ns[at] = Some(fired_ns);
    }
    Ok(seen)
}

fn run(pull: TimerPull, windows: &[(u64, u64)], beside: Beside) -> Seen {
    let setting = Setting {
        pull,
        windows: windows.to_vec(),
        beside,
    };
    run_with::<0>(&setting).unwrap_or_else(|why| panic!("{setting:?}: {why}"))
}

/// Whether the timer fired at that time, or a little later.
fn fired_at(fired_ns: Option<u64>, at_ns: u64) -> bool {
    fired_ns.is_some_and(|ns| (at_ns..=at_ns + LATE_NS).contains(&ns))
}

#[track_caller]
fn assert_fired_at(seen: &Seen, at_ns: &[u64]) {
    assert_eq!(seen.fired_ns.len(), at_ns.len());
    for (fired_ns, at_ns) in seen.fired_ns.iter().zip(at_ns) {
        assert!(fired_at(*fired_ns, *at_ns), "{seen:?}, not {at_ns}");
    }
}

/// A timer that may wait for ever.
const DEFERRABLE: [(u64, u64); 1] = [(5 * MS, NEVER)];
/// One that needs a wake at last.
const LAZY: [(u64, u64); 1] = [(5 * MS, 9 * MS)];

#[test]
fn a_timer_that_may_wait_wakes_nobody_and_fires_with_the_next_look() {
    for pull in TimerPull::ALL {
        let seen = run(pull, &DEFERRABLE, Beside::Nothing);
        assert_eq!((seen.fired_ns[0], seen.wakes), (None, 0), "{pull:?}");
        let seen = run(pull, &DEFERRABLE, Beside::Task(OWNER, 7 * MS));
        assert_fired_at(&seen, &[7 * MS]);
        assert_eq!(seen.wakes, 0, "{pull:?}");
    }
}

#[test]
fn a_worker_that_is_awake_fires_it_at_its_deadline() {
    for pull in TimerPull::ALL {
        let seen = run(pull, &DEFERRABLE, Beside::Polls(OWNER, 4 * MS, 8 * MS));
        assert_fired_at(&seen, &[5 * MS]);
    }
}

#[test]
fn a_worker_that_is_woken_for_nothing_leaves_timers_that_may_wait() {
    for pull in TimerPull::ALL {
        let seen = run(pull, &LAZY, Beside::Wake(OWNER, 7 * MS));
        assert_fired_at(&seen, &[9 * MS]);
        let seen = run(pull, &DEFERRABLE, Beside::Wake(OWNER, 7 * MS));
        assert_eq!((seen.fired_ns[0], seen.wakes), (None, 0), "{pull:?}");
    }
}

#[test]
fn a_worker_that_sleeps_wakes_at_the_latest_time() {
    for pull in TimerPull::ALL {
        let seen = run(pull, &LAZY, Beside::Nothing);
        assert_fired_at(&seen, &[9 * MS]);
        assert_eq!(seen.wakes, 1, "{pull:?}");
    }
}

#[test]
fn a_wake_for_one_timer_fires_all_whose_deadline_has_passed() {
    // The first one makes the worker look: it then reads from its wheel when to wake.
    let windows = [
        (MS, MS),
        (5 * MS, NEVER),
        (6 * MS, 9 * MS),
        (8 * MS, 30 * MS),
        (10 * MS, 12 * MS),
    ];
    for pull in TimerPull::ALL {
        let seen = run(pull, &windows, Beside::Nothing);
        assert_fired_at(&seen, &[MS, 9 * MS, 9 * MS, 9 * MS, 12 * MS]);
        assert_eq!(seen.wakes, 3, "{pull:?}");
    }
}

#[test]
fn another_worker_that_is_awake_visits_only_when_a_wake_is_due() {
    let on = |windows| {
        let polls = Beside::PollsFromTheBegin(OTHER, 12 * MS);
        run(TimerPull::On, windows, polls)
    };
    let seen = on(&LAZY);
    assert_fired_at(&seen, &[9 * MS]);
    assert_eq!((seen.pulled, seen.wakes), (1, 0));
    // A timer without slack brings the visitor, which fires both.
    let seen = on(&[LAZY[0], (6 * MS, 6 * MS)]);
    assert_fired_at(&seen, &[6 * MS, 6 * MS]);
    assert_eq!((seen.pulled, seen.wakes), (2, 0));
    // Nobody visits for one without an end.
    let seen = on(&DEFERRABLE);
    assert_eq!((seen.fired_ns[0], seen.wakes), (None, 0));
}

#[test]
fn a_worker_that_wakes_at_the_deadline_is_noticed() {
    let setting = Setting {
        pull: TimerPull::Off,
        windows: DEFERRABLE.to_vec(),
        beside: Beside::Nothing,
    };
    sim::break_thread(Bug::TimerWakesAtDeadline);
    let seen = run_with::<CHOSEN>(&setting);
    assert!(seen.is_ok_and(|it| it.wakes > 0));
}

#[test]
fn a_worker_that_fires_early_when_it_is_woken_for_nothing_is_noticed() {
    let setting = Setting {
        pull: TimerPull::Off,
        windows: LAZY.to_vec(),
        beside: Beside::Wake(OWNER, 7 * MS),
    };
    sim::break_thread(Bug::IdleWorkerFiresEarly);
    let seen = run_with::<CHOSEN>(&setting);
    assert!(seen.is_ok_and(|it| fired_at(it.fired_ns[0], 7 * MS)));
}

#[test]
fn a_wheel_that_forgets_later_slots_is_noticed() {
    let setting = Setting {
        pull: TimerPull::Off,
        windows: vec![(MS, MS), (5 * MS, NEVER), (6 * MS, 9 * MS)],
        beside: Beside::Nothing,
    };
    sim::break_thread(Bug::WheelWakesForFirstSlot);
    let seen = run_with::<CHOSEN>(&setting);
    assert!(seen.is_ok_and(|it| !fired_at(it.fired_ns[2], 9 * MS)));
}
