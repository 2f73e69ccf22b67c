//! The deferred queue, and what is short goes first: step by step, by a clock that the test moves.

use super::hand_on::MS;
use super::{by_hand, scheduler_by_hand};
use crate::queue::Greed;
use crate::scheduler::offline::TakenOff;
use crate::switches::Switches;
use crate::task::{Join, Kind};
use crate::testing::{launch_as, spawn};
use crate::worker::Worker;
use crate::worker::local::Ran;
use crate::worker::pace::{LOOK_NS, SLICE_NS};
use crate::worker::watch::{LONG_NS, WATCHED_NS};
use doorbell_machine::{Host, Machine};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Who was polled, in turn.
#[derive(Clone, Default)]
struct Turns(Arc<Mutex<Vec<u32>>>);

impl Turns {
    fn take(&self) -> Vec<u32> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// A task that notes each poll, and yields for ever.
    fn yields(&self, worker: &Worker<Host>, name: u32, kind: Kind) -> Join<()> {
        let turns = self.0.clone();
        let yields = poll_fn(move |cx| {
            turns.lock().unwrap().push(name);
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        launch_as(worker.shared.remote(), kind, yields)
    }

    /// A task that notes its one poll.
    fn once(&self, worker: &Worker<Host>, name: u32) {
        self.once_as(worker, name, Kind::Task);
    }

    fn once_as(&self, worker: &Worker<Host>, name: u32, kind: Kind) {
        let turns = self.0.clone();
        drop(launch_as(worker.shared.remote(), kind, async move {
            turns.lock().unwrap().push(name);
        }));
    }
}

/// Runs that many tasks, beginning at `now_ns`. Each takes `poll_ns`. Returns the time after the last one.
fn runs(worker: &Worker<Host>, polls: usize, poll_ns: u64, mut now_ns: u64) -> u64 {
    for _ in 0..polls {
        assert!(worker.local.run_one());
        now_ns += poll_ns;
        worker.local.note_time(now_ns);
    }
    now_ns
}

/// The second worker, which has nothing to do, steals from the first one: one task, which runs next there.
fn steals_and_runs(workers: &[Worker<Host>; 2], turns: &Turns, name: u32) {
    let [busy, thief] = workers;
    turns.take();
    thief.local.enter(|| {
        let victim = busy.shared.remote();
        assert_eq!(thief.local.steal(victim, Greed::Half, false), Some(1));
        assert!(thief.local.run_one());
        assert_eq!(turns.take(), [name]);
    });
}

fn close_both(workers: &[Worker<Host>; 2]) {
    for worker in workers.iter().rev() {
        worker.local.enter(|| worker.local.close());
    }
}

const KINDS: [Kind; 2] = [Kind::Task, Kind::Pinned];

#[test]
fn w29_a_task_that_yields_runs_behind_what_is_ready() {
    for kind in KINDS {
        let (worker, turns) = (by_hand(0, Switches::default()), Turns::default());
        worker.local.enter(|| {
            drop(turns.yields(&worker, 1, kind));
            runs(&worker, 1, 0, 0);
            for name in 2..5 {
                turns.once(&worker, name);
            }
            runs(&worker, 5, 0, 0);
            assert_eq!(turns.take(), [1, 2, 3, 4, 1, 1], "{kind:?}");
            worker.local.close();
        });
    }
}

#[test]
fn w29_tasks_that_yield_and_a_pass_that_is_old() {
    let (worker, turns) = (by_hand(0, Switches::default()), Turns::default());
    let (local, pace) = (&worker.local, worker.local.pace());
    local.enter(|| {
        drop(turns.yields(&worker, 1, Kind::Task));
        pace.note_look(0);
        assert_eq!(local.run_next(), Ran::One);
        assert!(pace.count());
        local.note_time(SLICE_NS - 1);
        assert_eq!(local.run_next(), Ran::One);
        assert!(pace.count());
        local.note_time(SLICE_NS);
        assert_eq!(local.run_next(), Ran::PassFirst);
        turns.once(&worker, 2);
        assert_eq!(local.run_next(), Ran::One, "it is ready");
        // Behind that pass a poll runs, however long the pass took.
        pace.ask();
        assert!(pace.begin_pass(LOOK_NS));
        assert_eq!(local.run_next(), Ran::One);
        assert_eq!(turns.take(), [1, 1, 2, 1]);
        local.close();
    });
}

/// Beside tasks that are always ready, those of the deferred queue get half of the time, in turns.
#[test]
fn w29_what_yields_gets_half_of_a_worker_whatever_is_ready() {
    for (ready_ns, behind_ns) in [(10_000, 10_000), (1_000, 40 * SLICE_NS), (SLICE_NS, 1_000)] {
        for kind in KINDS {
            let (worker, turns) = (by_hand(0, Switches::default()), Turns::default());
            worker.local.enter(|| {
                drop(turns.yields(&worker, 1, kind));
                let (mut now_ns, mut spent_ns, mut longest_ns) = (0, [0, 0], 0);
                let mut since_ns = 0;
                while now_ns < 1_000 * MS {
                    turns.once(&worker, 0);
                    assert!(worker.local.run_one());
                    let who = turns.take()[0] as usize;
                    let poll_ns = [ready_ns, behind_ns][who];
                    if who == 1 {
                        longest_ns = longest_ns.max(now_ns - since_ns);
                        since_ns = now_ns + poll_ns;
                    }
                    now_ns += poll_ns;
                    spent_ns[who] += poll_ns;
                    if worker.local.pace().count() || poll_ns >= SLICE_NS {
                        worker.local.note_time(now_ns);
                    }
                }
                let share = spent_ns[1] as f64 / now_ns as f64;
                assert!(
                    (0.4..=0.6).contains(&share),
                    "{kind:?} {ready_ns} {behind_ns}: {share}"
                );
                let most_ns = behind_ns.max(SLICE_NS) + 8 * ready_ns;
                assert!(longest_ns <= most_ns, "{longest_ns} of {most_ns}");
                worker.local.close();
            });
        }
    }
}

/// A task that is polled whenever it is woken, and takes so long of its thread's CPU time.
fn computes(
    worker: &Worker<Host>,
    turns: &Turns,
    name: u32,
    kind: Kind,
) -> (Waker, Arc<AtomicU64>) {
    let (turns, waker) = (turns.0.clone(), Arc::new(Mutex::new(None)));
    let (its, takes_ns) = (Arc::clone(&waker), Arc::<AtomicU64>::default());
    let poll_ns = Arc::clone(&takes_ns);
    let remote = worker.shared.remote().clone();
    drop(launch_as(
        worker.shared.remote(),
        kind,
        poll_fn(move |cx| {
            turns.lock().unwrap().push(name);
            *its.lock().unwrap() = Some(cx.waker().clone());
            let from_ns = remote.cpu_time_ns().expect("the thread is known");
            while remote.cpu_time_ns().unwrap() < from_ns + poll_ns.load(Relaxed) {}
            Poll::<()>::Pending
        }),
    ));
    assert!(worker.local.run_one());
    let waker = waker.lock().unwrap().take().expect("it was polled");
    (waker, takes_ns)
}

#[test]
fn what_is_short_goes_before_a_task_whose_polls_were_long() {
    for kind in KINDS {
        let (worker, turns) = (by_hand(0, Switches::default()), Turns::default());
        worker.shared.remote().note_thread();
        worker.local.enter(|| {
            let now = || worker.local.pace().begin_pass(Host::now_ns());
            let (waker, takes_ns) = computes(&worker, &turns, 1, kind);
            takes_ns.store(2 * LONG_NS, Relaxed);
            // Twice: a poll that is long by the wall clock makes a suspect.
            for _ in 0..2 {
                waker.wake_by_ref();
                let _ = now();
                assert!(worker.local.run_one());
            }
            let order = || {
                turns.take();
                waker.wake_by_ref();
                turns.once_as(&worker, 2, kind);
                let _ = now();
                while worker.local.run_one() {}
                turns.take()
            };
            assert_eq!(order(), [2, 1], "{kind:?}");
            takes_ns.store(0, Relaxed);
            let orders: Vec<_> = std::iter::repeat_with(order).take(12).collect();
            assert_eq!(orders[0], [2, 1]);
            assert_eq!(orders[11], [1, 2], "forgotten: {orders:?}");
            drop(waker);
            worker.local.close();
        });
    }
}

/// As where each request comes on a new connection, and its handler computes.
#[test]
fn w43_a_task_that_computes_behind_another_long_poll_is_long_at_its_first_one() {
    for kind in KINDS {
        let (worker, turns) = (by_hand(0, Switches::default()), Turns::default());
        worker.shared.remote().note_thread();
        let passes = || worker.local.pace().begin_pass(Host::now_ns());
        let is_deferred = |name| {
            let _ = passes();
            let (waker, takes_ns) = computes(&worker, &turns, name, kind);
            takes_ns.store(4 * LONG_NS, Relaxed);
            waker.wake_by_ref();
            let _ = passes();
            assert!(worker.local.run_one());
            turns.take();
            waker.wake_by_ref();
            turns.once_as(&worker, 0, kind);
            takes_ns.store(0, Relaxed);
            while worker.local.run_one() {}
            turns.take() == [0, name]
        };
        worker.local.enter(|| {
            // Nothing is known of the first one, nor of one before which the thread lost its CPU.
            assert!((1..40).any(is_deferred), "{kind:?}");
            worker.local.close();
        });
    }
}

/// Timers and descriptors wait for the end of such a poll, and no longer.
#[test]
fn w41_a_poll_of_less_than_a_millisecond_has_nobody_woken_before_the_next_one() {
    for (poll_ns, is_watched) in [(LONG_NS + LONG_NS / 8, false), (2 * WATCHED_NS, true)] {
        let worker = by_hand(0, Switches::default());
        worker.shared.remote().note_thread();
        worker.local.enter(|| {
            let (remote, seen) = (worker.shared.remote().clone(), Arc::<AtomicU64>::default());
            let watched = Arc::clone(&seen);
            drop(spawn(
                worker.shared.remote(),
                poll_fn(move |cx| {
                    watched.fetch_add(remote.expects_long().into(), Relaxed);
                    let from_ns = remote.cpu_time_ns().expect("the thread is known");
                    while remote.cpu_time_ns().unwrap() < from_ns + poll_ns {}
                    cx.waker().wake_by_ref();
                    Poll::<()>::Pending
                }),
            ));
            for _ in 0..50 {
                let _ = worker.local.pace().begin_pass(Host::now_ns());
                assert!(worker.local.run_one());
                let _ = worker.local.pace().count();
                worker.local.note_time(Host::now_ns());
            }
            // A poll that loses its CPU takes longer, now and then.
            assert_eq!(seen.load(Relaxed) > 25, is_watched, "{poll_ns}: {seen:?}");
            worker.local.close();
        });
    }
}

/// As a connection that reads a request and wakes an urgent handler, where the system makes that dear.
#[test]
fn w32_beside_deferred_polls_of_milliseconds_a_much_shorter_one_is_not_long() {
    for kind in KINDS {
        let (worker, turns) = (by_hand(0, Switches::default()), Turns::default());
        worker.shared.remote().note_thread();
        worker.local.enter(|| {
            let slow = [1, 2].map(|name| computes(&worker, &turns, name, kind));
            let (brief, brief_ns) = computes(&worker, &turns, 3, kind);
            for (_, ns) in &slow {
                ns.store(64 * LONG_NS, Relaxed);
            }
            brief_ns.store(LONG_NS + LONG_NS / 8, Relaxed);
            let round = || {
                turns.take();
                for (waker, _) in &slow {
                    waker.wake_by_ref();
                }
                brief.wake_by_ref();
                while worker.local.run_one() {
                    let _ = worker.local.pace().count();
                    worker.local.note_time(Host::now_ns());
                }
                turns.take()
            };
            worker.local.note_time(Host::now_ns());
            // The first rounds show which tasks are long; all three may seem so. Later a poll that loses its CPU to the
            // machine's host may.
            let mut rounds = std::iter::repeat_with(round).skip(6).take(60);
            assert!(rounds.any(|round| round[0] == 3), "{kind:?}");
            drop((slow, brief));
            worker.local.close();
        });
    }
}

/// Its thread loses the CPU in its polls, or waits there.
#[test]
fn a_task_whose_polls_are_long_by_the_wall_clock_alone_is_not_deferred() {
    let (worker, turns) = (by_hand(0, Switches::default()), Turns::default());
    worker.shared.remote().note_thread();
    worker.local.enter(|| {
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let (its, names) = (Arc::clone(&waker), turns.0.clone());
        drop(spawn(
            worker.shared.remote(),
            poll_fn(move |cx| {
                names.lock().unwrap().push(1);
                std::thread::sleep(std::time::Duration::from_nanos(2 * LONG_NS));
                *its.lock().unwrap() = Some(cx.waker().clone());
                Poll::<()>::Pending
            }),
        ));
        for _ in 0..5 {
            let _ = worker.local.pace().begin_pass(Host::now_ns());
            assert!(worker.local.run_one());
            waker.lock().unwrap().take().expect("it was polled").wake();
        }
        turns.once(&worker, 2);
        turns.take();
        while worker.local.run_one() {}
        assert_eq!(turns.take(), [1, 2]);
        worker.local.close();
    });
}

/// The order of five polls, of a task that another thread wakes in each of its polls, and of one that yields.
fn turns_beside_one_that_another_thread_wakes(kind: Kind) -> Vec<u32> {
    let (worker, turns) = (by_hand(0, Switches::default()), Turns::default());
    worker.shared.remote().note_thread();
    let (wakers, theirs) = channel::<Waker>();
    let (woken, told) = channel();
    let other = std::thread::spawn(move || {
        for waker in theirs {
            waker.wake();
            woken.send(()).unwrap();
        }
    });
    let taken = worker.local.enter(|| {
        let names = turns.0.clone();
        let woken = poll_fn(move |cx| {
            names.lock().unwrap().push(1);
            wakers.send(cx.waker().clone()).unwrap();
            told.recv().unwrap();
            Poll::<()>::Pending
        });
        drop(launch_as(worker.shared.remote(), kind, woken));
        drop(turns.yields(&worker, 2, kind));
        runs(&worker, 5, 0, 0);
        let taken = turns.take();
        worker.local.close();
        taken
    });
    other.join().unwrap();
    taken
}

/// As a connection that an urgent handler answers before the poll ends that started the handler. If the other thread is slow,
/// the task that yields is due for a slice: then it has a turn in between.
#[test]
fn w31_a_task_that_another_thread_wakes_in_its_poll_does_not_yield() {
    for kind in KINDS {
        let mut rounds = (0..100).map(|_| turns_beside_one_that_another_thread_wakes(kind));
        assert!(rounds.any(|turns| turns == [1, 2, 1, 1, 1]), "{kind:?}");
    }
}

#[test]
fn what_yields_can_be_stolen() {
    let workers = scheduler_by_hand();
    let [busy, thief] = &workers;
    let turns = Turns::default();
    let tasks = busy.local.enter(|| {
        let tasks = [1, 2, 3].map(|name| turns.yields(busy, name, Kind::Task));
        runs(busy, 3, 0, 0);
        tasks
    });
    let victim = busy.shared.remote();
    assert!(victim.has_work() && busy.local.has_surplus());
    steals_and_runs(&workers, &turns, 1);
    thief.local.enter(|| {
        let with_work = thief.local.steal(victim, Greed::Single, false);
        assert_eq!(with_work, None, "the thief's own tasks wait as well");
    });
    drop(tasks);
    close_both(&workers);
}

#[test]
fn a_thief_takes_what_waits_behind_one_ready_task() {
    let workers = scheduler_by_hand();
    let [busy, thief] = &workers;
    let turns = Turns::default();
    let task = busy.local.enter(|| {
        let task = turns.yields(busy, 1, Kind::Task);
        runs(busy, 1, 0, 0);
        turns.once(busy, 2);
        task
    });
    steals_and_runs(&workers, &turns, 1);
    thief.local.enter(|| {
        let victim = busy.shared.remote();
        assert_eq!(
            thief.local.steal(victim, Greed::Half, false),
            None,
            "it runs next there"
        );
    });
    drop(task);
    close_both(&workers);
}

#[test]
fn a_worker_that_is_taken_off_hands_on_what_yields() {
    let workers = scheduler_by_hand();
    let [off, on] = &workers;
    let turns = Turns::default();
    off.local.enter(|| {
        drop(turns.yields(off, 1, Kind::Task));
        runs(off, 1, 0, 0);
        let scheduler = off.shared.remote().scheduler();
        assert_eq!(scheduler.take_off(0), TakenOff::Now);
        off.local.follow();
        assert!(off.local.is_empty());
    });
    on.local.enter(|| {
        assert_eq!(on.local.gather(), 1);
        runs(on, 1, 0, 0);
        assert_eq!(turns.take(), [1, 1]);
    });
    for worker in &workers {
        worker.local.enter(|| worker.local.close());
    }
}

/// Behind each of its polls a task drops `Ends`, so that nothing is left of it when its worker has ended.
#[test]
fn a_worker_that_closes_ends_what_yields() {
    struct Ends(Arc<AtomicBool>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    for kind in KINDS {
        let worker = by_hand(0, Switches::default());
        let ended = Arc::<AtomicBool>::default();
        let ends = Ends(Arc::clone(&ended));
        worker.local.enter(|| {
            let yields = poll_fn(move |cx| {
                let _ = &ends;
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            });
            drop(launch_as(worker.shared.remote(), kind, yields));
            runs(&worker, 1, 0, 0);
            worker.local.close();
        });
        assert!(ended.load(Relaxed), "{kind:?}");
    }
}

/// Tasks that are woken by others, so that they are ready, and not in the deferred queue.
#[test]
fn w30_a_pinned_task_that_is_always_ready_takes_one_poll_of_each_round() {
    const MOVABLE: u32 = 50;
    let (worker, turns) = (by_hand(0, Switches::default()), Turns::default());
    worker.local.enter(|| {
        for name in 1..=MOVABLE {
            turns.once(&worker, name);
        }
        let pinned = turns.0.clone();
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let its = Arc::clone(&waker);
        let always = poll_fn(move |cx| {
            pinned.lock().unwrap().push(0);
            *its.lock().unwrap() = Some(cx.waker().clone());
            Poll::<()>::Pending
        });
        drop(launch_as(worker.shared.remote(), Kind::Pinned, always));
        let mut polls = Vec::new();
        while polls.len() <= MOVABLE as usize {
            assert!(worker.local.run_one());
            polls.extend(turns.take());
            if let Some(waker) = waker.lock().unwrap().take() {
                waker.wake();
            }
        }
        let pinned = polls.iter().filter(|name| **name == 0).count();
        assert_eq!(pinned, 1, "{polls:?}");
        worker.local.close();
    });
}

/// A group makes a table of all queues, and stays; the default group has a deferred queue all the same.
#[test]
fn what_yields_can_be_stolen_where_there_are_groups() {
    let workers = scheduler_by_hand();
    let [busy, _] = &workers;
    let groups = busy.shared.remote().scheduler().groups();
    groups.reserve(1);
    // SAFETY: no other thread opens one, and there are no tasks.
    unsafe { groups.open(2, 1, 100) };
    let turns = Turns::default();
    let tasks = busy.local.enter(|| {
        let tasks = [1, 2].map(|name| turns.yields(busy, name, Kind::Task));
        runs(busy, 2, 0, 0);
        tasks
    });
    steals_and_runs(&workers, &turns, 1);
    drop(tasks);
    close_both(&workers);
}

/// As beside a handler that blocks its worker, while the other worker has work of its own.
#[test]
fn a_busy_worker_takes_what_is_deferred_behind_a_poll_of_milliseconds() {
    let workers = scheduler_by_hand();
    let [stuck, busy] = &workers;
    let turns = Turns::default();
    stuck.local.enter(|| {
        drop(turns.yields(stuck, 1, Kind::Task));
        runs(stuck, 1, 0, 0);
    });
    busy.local.enter(|| {
        drop(turns.yields(busy, 2, Kind::Task));
        runs(busy, 1, 0, 0);
        turns.take();
        // The first check after an idle time is left out; the second one notes the pulse.
        for now_ns in [MS, 2 * MS, 3 * MS] {
            busy.check_stuck(now_ns);
            assert_eq!(busy.local.queued(), 1, "{now_ns}");
        }
        busy.check_stuck(5 * MS);
        assert_eq!(busy.local.queued(), 2);
        runs(busy, 4, 0, 0);
        assert_eq!(turns.take(), [2, 1, 2, 1], "its own task first");
        busy.local.close();
    });
    stuck.local.enter(|| stuck.local.close());
}

#[test]
fn time_that_was_idle_is_no_slice() {
    let (worker, turns) = (by_hand(0, Switches::default()), Turns::default());
    worker.local.enter(|| {
        drop(turns.yields(&worker, 1, Kind::Task));
        turns.once(&worker, 0);
        let mut now_ns = runs(&worker, 2, SLICE_NS, 0);
        turns.once(&worker, 0);
        now_ns = runs(&worker, 1, SLICE_NS, now_ns);
        assert!(worker.local.has_slice());
        worker.local.note_idle();
        now_ns = runs(&worker, 1, 10_000 * MS, now_ns);
        turns.take();
        let mut others = 0;
        while turns.take() != [1] {
            turns.once(&worker, 0);
            now_ns = runs(&worker, 1, 1_000, now_ns);
            others += 1;
            let most = SLICE_NS / 1_000 + 1;
            assert!(others <= most, "the time that was idle counted");
        }
        worker.local.close();
    });
}

/// As one that waits behind a long poll of another worker, and made long ones there.
#[test]
fn a_stolen_task_whose_polls_were_long_runs_behind_what_is_short() {
    let workers = scheduler_by_hand();
    let [victim, thief] = &workers;
    let turns = Turns::default();
    victim.shared.remote().note_thread();
    let waker = victim.local.enter(|| {
        let (waker, takes_ns) = computes(victim, &turns, 1, Kind::Task);
        takes_ns.store(2 * LONG_NS, Relaxed);
        for _ in 0..2 {
            waker.wake_by_ref();
            let _ = victim.local.pace().begin_pass(Host::now_ns());
            assert!(victim.local.run_one());
        }
        takes_ns.store(0, Relaxed);
        waker.wake_by_ref();
        waker
    });
    thief.local.enter(|| {
        turns.once(thief, 2);
        turns.take();
        let stolen = thief
            .local
            .steal(victim.shared.remote(), Greed::Single, false);
        assert_eq!(stolen, Some(1));
        while thief.local.run_one() {}
        assert_eq!(turns.take(), [2, 1]);
    });
    drop(waker);
    close_both(&workers);
}

/// The task that was long may be the last one of them when it is ready again.
#[test]
fn behind_a_long_poll_a_worker_times_all_that_waits_one_by_one() {
    const TASKS: u64 = 100;
    let (worker, turns) = (by_hand(0, Switches::default()), Turns::default());
    let (local, pace) = (&worker.local, worker.local.pace());
    local.enter(|| {
        (0..=TASKS).for_each(|_| turns.once(&worker, 0));
        for poll in 0..=TASKS {
            assert!(local.run_one());
            let _ = pace.count();
            local.note_time(LONG_NS + poll);
            assert!(pace.began_ns().is_some(), "{poll}");
        }
        local.close();
    });
}

#[test]
fn a_deferred_poll_as_long_as_the_time_between_looks_comes_right_behind_one() {
    let worker = by_hand(0, Switches::default());
    let pace = worker.local.pace();
    pace.note_look(0);
    assert!(!pace.is_old(LOOK_NS), "nothing has run since");
    let _ = pace.count();
    let _ = pace.read(1);
    assert!(pace.is_old(LOOK_NS));
    assert!(!pace.is_old(LOOK_NS - 1));
    worker.local.enter(|| worker.local.close());
}
