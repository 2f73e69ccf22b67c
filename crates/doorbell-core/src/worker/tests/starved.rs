//! Workers of which one gets no CPU: another one is claimed in its place, and what it was to do is done.

use crate::bell::{Announced, WorkerState};
use crate::class::Class;
use crate::link::{Delivered, Node};
use crate::mailbox::{Posted, Pushed};
use crate::scheduler::idle::{Cores, Search, Searching, Watchdog};
use crate::scheduler::{Placed, RemoteRef, Scheduler, SchedulerSpec, Turns};
use crate::testing::spawn;
use crate::worker::Local;
use crate::worker::tasks::place::{finish_placement, place_anew};
use crate::worker::{IdlePolicy, Worker, WorkerConfig, WorkerShared};
use doorbell_machine::{Counter, Host};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Far beyond all that should happen, so that a loaded machine passes.
const LONG: Duration = Duration::from_secs(30);

const PARKS: WorkerConfig = WorkerConfig {
    idle: IdlePolicy::Park,
};

/// Worker 0 is inside a poll that does not end, worker 1 is idle and gets no CPU, the others run.
struct Starved {
    busy: Local<Host>,
    remotes: Vec<RemoteRef<Host>>,
    others: Vec<(Arc<WorkerShared<Host>>, JoinHandle<()>)>,
}

impl Starved {
    fn start(turns: Turns) -> Self {
        let spec = SchedulerSpec {
            turns,
            ..SchedulerSpec::default()
        };
        let remotes = Scheduler::<Host>::described(4, &Arc::default(), spec, |_, _| 0);
        let others = remotes[2..].iter().map(|remote| {
            let shared = Arc::new(WorkerShared::with(PARKS, remote.clone(), Arc::default()));
            let theirs = Arc::clone(&shared);
            (
                shared,
                std::thread::spawn(move || Worker::new(theirs).run()),
            )
        });
        let others: Vec<_> = others.collect();
        let starved = &remotes[1];
        assert_eq!(starved.bell().announce_spin(), Announced::Yes);
        assert_eq!(starved.bell().announce_park(), Announced::Yes);
        starved.scheduler().idle().enter(1);
        let idle = remotes[0].scheduler().idle();
        for (shared, _) in &others {
            let worker = shared.remote().worker();
            while !idle.holds(worker) || shared.state() != WorkerState::Parked {
                std::thread::yield_now();
            }
        }
        Starved {
            busy: Local::new(remotes[0].clone()),
            remotes,
            others,
        }
    }

    /// Tasks that worker 0 spawns in its poll run on others.
    fn runs(&self, tasks: usize) {
        let ran = Arc::new(AtomicUsize::new(0));
        self.busy.enter(|| {
            for _ in 0..tasks {
                let ran = Arc::clone(&ran);
                let task = async move {
                    ran.fetch_add(1, Relaxed);
                };
                drop(spawn(&self.remotes[0], task));
            }
        });
        let deadline = Instant::now() + LONG;
        while ran.load(Relaxed) < tasks {
            assert!(
                Instant::now() < deadline,
                "{} of {tasks}",
                ran.load(Relaxed)
            );
            std::thread::yield_now();
        }
    }

    /// Nothing is left of the claim, except that worker 1 has not run.
    fn end(self) {
        let starved = &self.remotes[1];
        let idle = starved.scheduler().idle();
        if !idle.holds(1) {
            // It was told of the claim, and gets its CPU at last.
            assert!(starved.bell().signalled());
        }
        let _ = idle.leave(1);
        let _ = idle.end_search(1);
        for (shared, thread) in self.others {
            shared.close();
            thread.join().unwrap();
        }
        self.busy.enter(|| self.busy.close());
        assert!(!idle.anyone_searches(), "a count is left");
    }
}

#[test]
fn one_claimed_worker_that_gets_no_cpu_does_not_stop_sharing() {
    let scheduler = Starved::start(Turns::ByArrival);
    scheduler.runs(4);
    assert!(
        !scheduler.remotes[0].scheduler().idle().holds(1),
        "it was claimed"
    );
    scheduler.end();
}

#[test]
fn one_task_behind_a_poll_runs_although_the_worker_that_was_woken_gets_no_cpu() {
    for turns in [Turns::ByArrival, Turns::ByRank] {
        let scheduler = Starved::start(turns);
        scheduler.runs(1);
        assert!(
            !scheduler.remotes[0].scheduler().idle().holds(1),
            "it was claimed"
        );
        scheduler.end();
    }
}

#[test]
fn tasks_behind_a_poll_run_although_a_watchdog_gets_no_cpu() {
    for tasks in [1, 4] {
        let scheduler = Starved::start(Turns::ByArrival);
        let idle = scheduler.remotes[0].scheduler().idle();
        assert_eq!(idle.begin_watchdog(), Watchdog::Begun);
        scheduler.remotes[1].set_watchdog(true);
        scheduler.runs(tasks);
        scheduler.end();
    }
}

/// # Safety
/// As for `Deliver`.
pub(super) unsafe fn nothing(_: NonNull<Node<Host>>) -> Delivered {
    Delivered::Done
}

/// A node of a task, for `take_injected`.
fn task() -> NonNull<Node<Host>> {
    NonNull::from(Box::leak(Box::new(Node::new(nothing))))
}

/// Posts a task to the worker, as another one of its scheduler does.
pub(super) fn post_one(to: &RemoteRef<Host>, from: &RemoteRef<Host>) {
    Local::new(from.clone()).enter(|| {
        // SAFETY: the node lives until it is taken out.
        let posted = unsafe { to.post_task(task()) };
        assert_eq!(posted, Posted::Yes);
    });
}

/// The same by a caller that has seen the worker idle.
fn post_to_one_seen_idle(to: &RemoteRef<Host>, from: &RemoteRef<Host>) {
    let (scheduler, pulse, node) = (to.scheduler(), to.pulse(), task());
    Local::new(from.clone()).enter(|| {
        // SAFETY: the node lives until it is taken out.
        let placed = match unsafe { to.post_first(node) } {
            Some(posted) => scheduler.look_after(to, pulse, posted),
            // SAFETY: as above; it was refused.
            None => unsafe { scheduler.place_task(to, false, node) },
        };
        assert_eq!(finish_placement(placed), Posted::Yes);
    });
}

/// Takes out what was posted so. How many.
pub(super) fn take_injected(remote: &RemoteRef<Host>) -> u64 {
    let (chain, len) = remote.take_injected().expect("it was posted");
    // SAFETY: leaked by `task`, and in no queue.
    chain.drain(|node| drop(unsafe { Box::from_raw(node.as_ptr()) }));
    len
}

/// It was seen spinning by one that then posted to it, and has begun a poll since.
#[test]
fn a_task_that_comes_to_a_worker_inside_a_poll_is_looked_after() {
    for (turns, class) in [(Turns::ByArrival, Class::Fair), (Turns::ByRank, Class::Rt)] {
        let spec = SchedulerSpec {
            class,
            turns,
            ..SchedulerSpec::default()
        };
        let remotes = Scheduler::<Host>::described(3, &Arc::default(), spec, |_, _| 0);
        let idle = remotes[0].scheduler().idle();
        idle.enter(2);
        post_to_one_seen_idle(&remotes[1], &remotes[0]);
        assert!(!idle.holds(2), "{turns:?}: nobody was told");
        assert!(remotes[2].bell().signalled());
        assert_eq!(take_injected(&remotes[1]), 1);
    }
}

/// The first one is that worker's to run, and watchdogs look after it.
#[test]
fn a_second_task_for_a_worker_that_seemed_idle_goes_to_another() {
    for is_queued in [false, true] {
        let remotes = Scheduler::<Host>::new(3, &Arc::default(), |_, _| 0);
        let (idle, inside) = (
            remotes[0].scheduler().idle(),
            Local::new(remotes[1].clone()),
        );
        assert_eq!(idle.begin_watchdog(), Watchdog::Begun);
        assert_eq!(idle.begin_watchdog(), Watchdog::Begun);
        idle.enter(2);
        if is_queued {
            inside.enter(|| drop(spawn(&remotes[1], async {})));
        } else {
            post_to_one_seen_idle(&remotes[1], &remotes[0]);
        }
        assert!(idle.holds(2), "one is enough for that worker alone");
        falls_asleep(&remotes[2]);
        post_to_one_seen_idle(&remotes[1], &remotes[0]);
        assert!(!idle.holds(2) && remotes[2].bell().signalled());
        assert_eq!(take_injected(&remotes[2]), 1);
        assert_eq!(remotes[1].has_injected(), !is_queued);
        if !is_queued {
            assert_eq!(take_injected(&remotes[1]), 1);
        }
        inside.enter(|| inside.close());
    }
}

/// A task lies at a worker that sleeps and was told of nothing: its poster has lost its CPU. Whoever takes that worker
/// for another task wakes it, because nobody else can take it now.
#[test]
fn a_sleeping_worker_that_was_taken_in_vain_is_told() {
    let remotes = Scheduler::<Host>::new(2, &Arc::default(), |_, _| 0);
    falls_asleep(&remotes[1]);
    // SAFETY: the node lives until it is taken out.
    let pushed = unsafe { remotes[1].push_injected(task()) };
    assert_eq!(pushed, Pushed::First);
    // SAFETY: as above.
    let placed = unsafe {
        remotes[0]
            .scheduler()
            .place_task(&remotes[0], false, task())
    };
    assert_eq!(finish_placement(placed), Posted::Yes);
    assert!(remotes[1].bell().signalled(), "it sleeps on with a task");
    assert_eq!([0, 1].map(|at| take_injected(&remotes[at])), [1, 1]);
}

/// A caller from below takes no task back, and asks for no watchdog: it has an idle worker look.
#[test]
fn a_task_from_below_behind_a_poll_is_offered() {
    for is_behind in [false, true] {
        let remotes = Scheduler::<Host>::new(3, &Arc::default(), |_, _| 0);
        let (scheduler, idle) = (remotes[0].scheduler(), remotes[0].scheduler().idle());
        falls_asleep(&remotes[2]);
        let pulse = remotes[1].pulse();
        if is_behind {
            remotes[1].beat();
        }
        from_below(|| {
            // SAFETY: the node lives until it is taken out.
            let posted =
                unsafe { remotes[1].post_first(task()) }.expect("no other task lies there");
            let placed = scheduler.look_after(&remotes[1], pulse, posted);
            assert!(matches!(placed, Placed::Yes), "it was taken back");
        });
        assert!(
            remotes[2].bell().signalled(),
            "{is_behind}: nobody was told"
        );
        assert!(idle.holds(2), "claimed from below");
        assert_eq!(remotes[1].counts().stacked.get(), u64::from(is_behind));
        assert_eq!(take_injected(&remotes[1]), 1);
    }
}

/// Its tasks were in the hands of a thread that wanted to place them elsewhere.
#[test]
fn a_task_that_never_ran_ends_if_all_workers_have_ended_when_it_is_placed_anew() {
    let remotes = Scheduler::<Host>::new(2, &Arc::default(), |_, _| 0);
    let join = spawn(&remotes[1], async { 7 });
    let (chain, _) = remotes[1].take_injected().expect("it was posted");
    for remote in &remotes {
        let local = Local::new(remote.clone());
        local.enter(|| local.close());
    }
    place_anew(&remotes[1], chain);
    let ended = crate::wait::block_on::<Host, _>(join, 0);
    assert!(ended.is_err_and(|error| error.is_cancelled()));
}

/// That worker may get no CPU: two others are to notice.
#[test]
fn an_offer_while_another_worker_searches_wakes_watchdogs() {
    let remotes = Scheduler::<Host>::new(5, &Arc::default(), |_, _| 0);
    let scheduler = remotes[0].scheduler();
    assert_eq!(scheduler.idle().begin_search(1), Search::Begun);
    remotes[2..].iter().for_each(falls_asleep);
    for _ in 0..2 {
        scheduler.offer(0);
        let woken = remotes[2..].iter().filter(|it| it.bell().signalled());
        assert_eq!(woken.count(), 2);
        assert!(scheduler.idle().wants_watchdog());
    }
}

/// A thread of a lower class may lose its CPU to this one between a claim and what follows.
#[test]
fn a_spawn_from_below_claims_no_worker() {
    let spec = SchedulerSpec {
        class: Class::Rt,
        ..SchedulerSpec::default()
    };
    let remotes = Scheduler::<Host>::described(2, &Arc::default(), spec, |_, _| 0);
    let idle = remotes[0].scheduler().idle();
    let parked = &remotes[1];
    assert_eq!(parked.bell().announce_spin(), Announced::Yes);
    assert_eq!(parked.bell().announce_park(), Announced::Yes);
    idle.enter(1);
    let join = spawn(&remotes[0], async { 7 });
    assert!(
        idle.holds(1) && !idle.anyone_searches(),
        "claimed from below"
    );
    assert!(parked.bell().signalled(), "it was told");
    let local = Local::new(parked.clone());
    local.enter(|| {
        let _ = parked.bell().end_idle();
        // In the inject queue, where others find it too.
        assert_eq!((local.queued(), local.gather()), (0, 1));
        assert!(local.run_one());
    });
    assert!(matches!(crate::wait::block_on::<Host, _>(join, 0), Ok(7)));
    let _ = idle.leave(1);
    local.enter(|| local.close());
}

/// Idle and parked, in the idle set.
fn falls_asleep(remote: &RemoteRef<Host>) {
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    assert_eq!(remote.bell().announce_park(), Announced::Yes);
    remote.scheduler().idle().enter(remote.worker());
}

/// Two workers sleep. On the core of the first a worker of class Rt runs, on that of the second none.
fn outranked(class: Class) -> (Vec<RemoteRef<Host>>, Vec<RemoteRef<Host>>) {
    let spec = SchedulerSpec {
        class: Class::Rt,
        ..SchedulerSpec::default()
    };
    let cores = Cores::new(2, |one, other| u32::from(one != other));
    let spec = SchedulerSpec {
        cores: Some(Arc::clone(&cores)),
        ..spec
    };
    let above = Scheduler::<Host>::described(2, &Arc::default(), spec, |_, _| 0);
    for it in &above {
        it.scheduler().idle().start(it.worker());
    }
    falls_asleep(&above[1]);
    let spec = SchedulerSpec {
        class,
        cores: Some(cores),
        ..SchedulerSpec::below(vec![above[0].clone()])
    };
    let remotes = Scheduler::<Host>::described(2, &Arc::default(), spec, |_, _| 0);
    remotes.iter().for_each(falls_asleep);
    (above, remotes)
}

/// The worker at which a task from outside is placed that prefers the first one.
fn placed_at(remotes: &[RemoteRef<Host>]) -> usize {
    // SAFETY: the node lives until it is taken out.
    let placed = unsafe {
        remotes[0]
            .scheduler()
            .place_task(&remotes[0], false, task())
    };
    assert_eq!(finish_placement(placed), Posted::Yes);
    let at = remotes
        .iter()
        .find(|it| it.has_injected())
        .expect("it was posted");
    assert_eq!(take_injected(at), 1);
    at.worker()
}

#[test]
fn a_task_goes_to_a_worker_whose_core_runs_no_higher_class() {
    let (_above, remotes) = outranked(Class::Fair);
    let scheduler = remotes[0].scheduler();
    assert_eq!(placed_at(&remotes), 1, "the other is preferred");
    assert!(!scheduler.idle().holds(1), "it is claimed");
    assert!(!scheduler.idle().anyone_searches(), "it owes no search");
}

/// It spins, and is inside a call.
#[test]
fn a_task_goes_to_an_idle_worker_that_is_inside_no_call() {
    let remotes = Scheduler::<Host>::new(2, &Arc::default(), |_, _| 0);
    assert_eq!(remotes[0].bell().announce_spin(), Announced::Yes);
    falls_asleep(&remotes[1]);
    assert_eq!(placed_at(&remotes), 0);
    remotes[0].set_serving(true);
    assert_eq!(placed_at(&remotes), 1, "the other is preferred");
}

/// What a worker of class Batch does.
fn from_below(f: impl FnOnce()) {
    let batch = SchedulerSpec {
        class: Class::Batch,
        ..SchedulerSpec::default()
    };
    let below = Scheduler::<Host>::described(1, &Arc::default(), batch, |_, _| 0).remove(0);
    Local::new(below).enter(f);
}

/// As of one that registers a descriptor.
#[test]
fn a_caller_from_below_claims_no_worker_to_be_a_watchdog() {
    let (_above, remotes) = outranked(Class::Fair);
    let (scheduler, idle) = (remotes[0].scheduler(), remotes[0].scheduler().idle());
    from_below(|| scheduler.arm_watchdog(0));
    assert!(idle.holds(0) && idle.holds(1) && !idle.wants_watchdog());
    scheduler.arm_watchdog(0);
    assert!(idle.holds(0) && !idle.holds(1) && idle.wants_watchdog());
}

/// A caller from below claims nothing, and chooses by the same rule.
#[test]
fn a_task_from_below_goes_to_a_worker_whose_core_runs_no_higher_class() {
    let (_above, remotes) = outranked(Class::Fair);
    let scheduler = remotes[0].scheduler();
    from_below(|| {
        assert_eq!(placed_at(&remotes), 1, "the other is preferred");
        scheduler.offer(0);
        assert!(remotes[1].bell().signalled() && !remotes[0].bell().signalled());
    });
    assert!(
        scheduler.idle().holds(0) && scheduler.idle().holds(1),
        "claimed from below"
    );
}

/// The search may be that of a worker that gets no CPU: an offer from below has an idle worker look too.
#[test]
fn an_offer_from_below_tells_a_worker_although_another_searches() {
    let (_above, remotes) = outranked(Class::Fair);
    let scheduler = remotes[0].scheduler();
    assert_eq!(scheduler.idle().begin_search(0), Search::Begun);
    from_below(|| scheduler.offer(0));
    assert!(remotes[1].bell().signalled(), "nobody looks again");
    assert_eq!(scheduler.idle().end_search(0), Searching::None);
}
