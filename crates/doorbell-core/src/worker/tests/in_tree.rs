//! What a worker does around the timer tree, by the tree's words: which steps write what, and where none is used.

use super::hand_on::{MS, falls_asleep, polls_are_tiny};
use super::pull::{FIRED, Noted, Three, leaves_what_is_due};
use crate::bell::Announced;
use crate::scheduler::{RemoteRef, Scheduler};
use crate::switches::TimerPull;
use crate::testing::{Log, pulling, spawn};
use crate::tree::{Duty, Tree};
use crate::wheel::Clock;
use crate::worker::timer::{Fired, Polled, RawTimer};
use crate::worker::watch::Observation;
use crate::worker::{IdlePolicy, Pass, Worker, WorkerConfig, WorkerCounts, WorkerShared};
use doorbell_machine::{Host, Machine};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};

/// A park that does not come about: the worker is notified between its announcement and the last test of the OS.
fn parks_in_vain(worker: &Worker<Host>) {
    let remote = worker.shared.remote();
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    assert_eq!(remote.bell().announce_park(), Announced::Yes);
    remote.request_pass();
    worker.sleep(None);
    assert_eq!(worker.shared.counts().unparks_last_test, 1);
    let _ = remote.bell().end_idle();
}

/// The tree of the scheduler of that worker.
fn tree_of(worker: &Worker<Host>) -> &Tree<Host> {
    let tree = worker.shared.remote().scheduler().tree();
    tree.expect("it has one")
}

/// How often words of branches are exchanged by `does`, and how many words of the tree differ behind it.
fn changes(tree: &Tree<Host>, does: impl FnOnce()) -> (u64, usize) {
    let (words, exchanges) = (tree.all_words(), tree.exchanges());
    does();
    let after = tree.all_words();
    let differ = after
        .iter()
        .zip(&words)
        .filter(|(after, word)| after != word);
    (tree.exchanges() - exchanges, differ.count())
}

#[test]
fn a_worker_without_timers_exchanges_one_word_to_park_and_one_to_wake() {
    let it = Three::new();
    let [_, parks, _] = &it.workers;
    let only_the_word = (1, 1);
    let leaves = || assert_eq!(parks.leave_timers(), None);
    assert_eq!(changes(it.tree(), leaves), only_the_word);
    assert!(!it.tree().is_active(1));
    assert_eq!(changes(it.tree(), || parks.come_back()), only_the_word);
    assert!(it.tree().is_active(1));
    assert_eq!(changes(it.tree(), || parks_in_vain(parks)), (2, 1));
}

/// It has tasks and a timer of its own, and looks after a sleeper whose timer is not due.
#[test]
fn a_worker_that_is_awake_writes_nothing_to_the_tree() {
    for sleeps in [false, true] {
        let mut it = Three::new();
        it.due_ns += 3_600_000 * MS;
        if sleeps {
            assert_eq!(it.leaves(), None);
        }
        let [busy, ..] = &it.workers;
        let polls = || {
            busy.local.enter_gated(|| {
                let remote = busy.shared.remote();
                let timer = RawTimer::arm(remote, 1, Waker::noop());
                for _ in 0..20 {
                    drop(spawn(remote, async {}));
                }
                assert!(matches!(busy.pass(), Pass::Work));
                // It ends early if the machine is so slow that a pass is due.
                while !busy.local.is_empty() {
                    busy.run_ready();
                }
                assert!(matches!(busy.pass(), Pass::Nothing(_)));
                drop(timer);
                busy.local.close();
            });
        };
        assert_eq!(changes(it.tree(), polls), (0, 0), "{sleeps}");
        let counts = busy.shared.counts();
        assert_eq!((counts.polls, counts.timers_fired), (20, 1));
    }
}

#[test]
fn a_park_that_does_not_come_about_takes_the_leave_back() {
    let it = Three::new();
    let [busy, parks, _] = &it.workers;
    let remote = parks.shared.remote();
    parks.local.enter_gated(|| {
        let timer = RawTimer::arm(remote, it.due_ns, Waker::noop());
        parks_in_vain(parks);
        assert_eq!(it.tree().next_wake_ns(1), it.due_ns, "it had left");
        assert!(it.tree().is_active(1));
        assert_eq!(busy.next_for(busy.shared.remote()), u64::MAX);
        let visited = remote
            .gate()
            .expire(&**remote, 0)
            .expect("nobody is inside");
        assert!(!visited.was_lent);
        drop(timer);
        parks.local.close();
    });
}

#[test]
fn a_stuck_worker_goes_back_into_the_tree_at_its_next_look_and_leaves_it_when_it_parks() {
    let it = Three::new();
    let [stuck, _, looks] = &it.workers;
    assert_eq!(it.leaves(), None);
    assert!(!looks.set_aside_if(stuck.shared.remote(), |_| true));
    assert!(!it.tree().is_active(0));
    assert!(!stuck.pull_timers(), "nothing is due");
    assert!(it.tree().is_active(0));
    // Also if the switch is turned off meanwhile.
    it.turn_off();
    assert_eq!(stuck.leave_timers(), None);
    assert!(!it.tree().is_active(0), "active in its sleep");
}

/// It may not begin another poll for a while, as if it were stuck.
#[test]
fn a_throttled_worker_leaves_the_timers_of_its_sleepers_to_others() {
    let it = Three::new();
    let log = Log::default();
    leaves_what_is_due(&it, &log, |throttled| {
        let [_, _, claimed] = &it.workers;
        throttled.leave_to_others();
        assert!(it.is_third_claimed(), "nobody was told");
        assert!(claimed.wish_ns(Host::now_ns()).is_some(), "it sees nobody");
        let remote = throttled.shared.remote();
        assert!(
            claimed
                .local
                .enter(|| claimed.expire_for(remote, Observation::inside(true)))
        );
        assert!(!it.tree().is_active(0) && it.tree().is_active(2));
    });
    log.assert_once_and_in_order(&[FIRED]);
}

/// Sets the first worker aside when it is woken.
struct SetsAside(RemoteRef<Host>);

impl Wake for SetsAside {
    fn wake(self: Arc<Self>) {
        let tree = self.0.scheduler().tree().expect("it has one");
        assert_eq!(tree.set_aside(0), Duty::Nothing);
    }
}

#[test]
fn a_worker_that_is_set_aside_in_its_walk_is_back_when_the_walk_is_over() {
    let it = Three::new();
    let [walks, leaver, third] = &it.workers;
    let remote = leaver.shared.remote();
    it.tree().activate(2);
    leaver.local.enter_gated(|| {
        let waker = Waker::from(Arc::new(SetsAside(third.shared.remote().clone())));
        let timer = RawTimer::arm(remote, 1, &waker);
        assert_eq!(leaver.leave_timers(), None);
        assert!(walks.pull_timers());
        assert!(it.tree().is_active(0));
        leaver.come_back();
        drop(timer);
        leaver.local.close();
    });
}

/// The worker that is stuck left a timer at its last park. A sleeper that it looks after has one too, in a wheel that
/// is lent.
#[test]
fn a_visit_of_a_worker_that_was_set_aside_costs_a_membarrier_which_is_counted() {
    let it = Three::new();
    let [_, _, looks] = &it.workers;
    let log = Log::default();
    leaves_what_is_due(&it, &log, |stuck| {
        let remote = stuck.shared.remote();
        stuck.local.enter_gated(|| {
            let waker = Waker::from(Arc::new(Noted::new(&log)));
            let timer = RawTimer::arm(remote, 1, &waker);
            let _: Option<u64> = stuck.leave_timers();
            stuck.come_back();
            remote.beat();
            assert!(
                looks
                    .local
                    .enter(|| looks.expire_for(remote, Observation::inside(true)))
            );
            drop(timer);
            stuck.local.close();
        });
    });
    assert_eq!(log.entries(), [FIRED; 2]);
    let counts = looks.shared.counts();
    let seen = (counts.timers_pulled, counts.pulls_refused);
    assert_eq!((seen, counts.pulls_fenced), ((2, 0), 1));
}

/// What a worker does around a park, with this clock.
fn around_a_park(clock: Clock<Host>) -> (u64, usize) {
    let remotes = Scheduler::new(2, &pulling::<Host>(TimerPull::On), |_, _| 0);
    let config = WorkerConfig {
        idle: IdlePolicy::Park,
    };
    let shared = WorkerShared::with(config, remotes[0].clone(), Arc::new(clock));
    let worker = Worker::new(Arc::new(shared));
    let remote = worker.shared.remote();
    let parks = || {
        worker.come_back();
        remote.publish_next_global(1);
        let _: Option<u64> = worker.leave_timers();
        assert_eq!(worker.next_for(remote), 1);
        worker.come_back();
        assert!(!worker.pull_timers());
        worker.leave_tree();
        worker.close();
    };
    changes(tree_of(&worker), parks)
}

#[test]
fn under_a_paused_clock_no_worker_uses_the_tree() {
    assert_eq!(around_a_park(Clock::frozen()), (0, 0));
    assert_ne!(around_a_park(Clock::default()), (0, 0));
}

/// Arms a timer that is due at once, as often as that, on the worker that polls it.
async fn ticks(remote: RemoteRef<Host>, times: u64, log: Log) {
    for tick in 0..times {
        let mut timer = None;
        let fired = poll_fn(|cx| {
            let arm = || RawTimer::arm(&remote, 1, cx.waker()).unwrap();
            match timer.get_or_insert_with(arm).poll(cx) {
                Polled::Ready(fired) => Poll::Ready(fired),
                Polled::Pending => Poll::Pending,
                Polled::Elsewhere => unreachable!("nobody has polled it elsewhere"),
            }
        });
        assert_eq!(fired.await, Fired::Due);
        log.push(tick);
    }
}

/// Before each tick the worker on which the task ran falls asleep, and another one is awake. That one goes on with the
/// task, and the first one sleeps on.
#[test]
fn a_task_whose_timer_is_pulled_arms_it_where_it_runs_and_wakes_no_worker() {
    const TICKS: u64 = 6;
    let it = Three::new();
    let [one, other, _] = &it.workers;
    let log = Log::default();
    let tells = |worker: &Worker<Host>| worker.shared.remote().bell().signalled();
    one.local.enter_gated(|| {
        other.local.enter_gated(|| {
            let on = |worker: &Worker<Host>, does: &dyn Fn()| worker.local.enter(does);
            on(one, &|| {
                let remote = one.shared.remote();
                drop(spawn(remote, ticks(remote.clone(), TICKS, log.clone())));
                polls_are_tiny(one);
                one.run_ready();
            });
            for tick in 0..TICKS {
                let workers = [one, other];
                let (asleep, awake) = (workers[tick as usize % 2], workers[1 - tick as usize % 2]);
                let bell = asleep.shared.remote().bell();
                assert_eq!(bell.announce_spin(), Announced::Yes);
                assert_eq!(bell.announce_park(), Announced::Yes);
                falls_asleep(asleep);
                let _: Option<u64> = asleep.leave_timers();
                on(awake, &|| {
                    assert!(awake.pull_timers());
                    polls_are_tiny(awake);
                    awake.run_ready();
                });
                assert_eq!(log.len() as u64, tick + 1);
                assert!(!tells(asleep), "it was woken");
                asleep.come_back();
                asleep.leave_idle_set();
                let _ = bell.end_idle();
            }
            other.local.close();
        });
        one.local.close();
    });
    let counts = [one, other].map(|worker| worker.shared.counts());
    let sum = |of: fn(&WorkerCounts) -> u64| counts.iter().map(of).sum::<u64>();
    assert_eq!(sum(|it| it.timers_pulled), TICKS);
    assert_eq!(sum(|it| it.pulls_placed), 0, "it went back");
}
