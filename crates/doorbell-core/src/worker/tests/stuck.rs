//! What a worker does for one that is stuck, step by step.

use super::descriptors::read_on;
use super::hand_on::{MS, counts, end, gets, looks_after_its_first_pass};
use super::scheduler_by_hand;
use crate::bell::Announced;
use crate::scheduler::idle::Watchdog;
use crate::testing::spawn;
use crate::worker::pace::SLICE_NS;
use crate::worker::timer::RawTimer;
use crate::worker::watch::{OVERDUE_BUSY_NS, Observation, POLLS_BETWEEN_THEFTS};
use doorbell_machine::{Counter, Host, Machine};
use std::future::poll_fn;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Poll, Waker};

/// By how much the timer is late at a look, if this computer is not slow.
const LATE_NS: u64 = 200_000;

#[test]
fn a_worker_with_work_of_its_own_expires_the_timers_of_a_stuck_one() {
    let workers = scheduler_by_hand();
    let [stuck, checker] = &workers;
    stuck.local.enter_gated(|| {
        let overdue_ns = Host::now_ns() - 1_000 * MS;
        let timer = RawTimer::arm(stuck.shared.remote(), overdue_ns, Waker::noop());
        // As before a poll that may be long.
        stuck.local.begin_long_poll();
        checker.local.enter(|| {
            checker.check_stuck(0);
            assert_eq!(counts(checker).searches, 0, "it was idle");
            checker.check_stuck(MS);
        });
        assert_eq!(counts(checker).timers_for_stuck, 1);
        drop(timer);
    });
    end(workers);
}

/// It comes to that timer itself, after a few polls.
#[test]
fn a_timer_of_a_worker_that_makes_progress_is_left_to_it_for_longer() {
    let workers = scheduler_by_hand();
    let [moves, looks] = &workers;
    let remote = moves.shared.remote();
    // Whether the timer is expired by a look, and whether it was not much later when the look was over.
    let look = |stood_still| {
        remote.publish_next_global(u64::MAX);
        let when_ns = Host::now_ns() - LATE_NS;
        let timer = RawTimer::arm(remote, when_ns, Waker::noop());
        let expired = looks
            .local
            .enter(|| looks.expire_for(remote, Observation::inside(stood_still)));
        let took_ns = Host::now_ns() - when_ns;
        drop(timer);
        (expired, took_ns < OVERDUE_BUSY_NS)
    };
    moves.local.enter_gated(|| {
        assert!(look(true).0, "it stood still");
        let mut looks = std::iter::repeat_with(|| look(false));
        let in_time = looks.find(|(_, in_time)| *in_time);
        assert_eq!(in_time, Some((false, true)), "it makes progress");
    });
    end(workers);
}

#[test]
fn a_worker_with_work_of_its_own_looks_at_the_descriptors_of_all() {
    let workers = scheduler_by_hand();
    let [stuck, other] = &workers;
    let (read, mut theirs) = stuck.local.enter(|| {
        let waits = read_on(stuck.shared.remote());
        assert!(stuck.local.run_one());
        waits
    });
    theirs.write_all(&[7]).unwrap();
    other.local.enter(|| {
        assert!(other.look_at_descriptors());
        assert!(other.local.run_one());
    });
    let read = crate::wait::block_on::<Host, _>(read, 0);
    assert_eq!(read.unwrap().unwrap(), 7);
    end(workers);
}

/// Several tasks wait behind one poll: they are taken one after another, without a wait in between. Where the worker
/// makes progress, the rest is left to it.
#[test]
fn a_worker_with_work_of_its_own_takes_all_that_waits_behind_one_poll() {
    let workers = scheduler_by_hand();
    let [stuck, checker] = &workers;
    gets(stuck, 5, 1);
    // How many it has taken by then.
    let cares_at = |now_ns| {
        checker.local.enter(|| {
            checker.check_stuck(now_ns);
            while checker.local.run_one() {}
            checker.shared.tally.polls.add_owned(POLLS_BETWEEN_THEFTS);
        });
        counts(checker).stolen
    };
    looks_after_its_first_pass(checker);
    assert_eq!(counts(checker).stolen, 0, "its pulse was not known");
    assert_eq!([cares_at(2 * MS), cares_at(2 * MS)], [1, 2]);
    assert!(checker.local.pace().is_due(0), "the next pass comes soon");
    stuck.shared.remote().beat();
    assert_eq!([cares_at(2 * MS), cares_at(2 * MS)], [2, 2]);
    gets(stuck, 0, 2);
    end(workers);
}

/// The thief has a task that yields. Each stolen task takes so long that the thief makes a pass before that task's turn.
#[test]
fn w45_what_yields_has_its_turn_between_two_stolen_tasks() {
    const TASKS: usize = 40;
    let workers = scheduler_by_hand();
    let [stuck, thief] = &workers;
    let ran = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let behind = Arc::new(AtomicUsize::new(0));
    stuck.local.enter(|| {
        for _ in 0..=TASKS {
            let (ran, behind) = (Arc::clone(&ran), Arc::clone(&behind));
            drop(spawn(stuck.shared.remote(), async move {
                let began_ns = Host::now_ns();
                while Host::now_ns() < began_ns + 2 * SLICE_NS {}
                ran[0].fetch_add(1, Relaxed);
                behind.fetch_add(1, Relaxed);
            }));
        }
        assert!(stuck.local.run_one());
    });
    let longest = thief.local.enter(|| {
        let (theirs, since, longest) = (Arc::clone(&ran), Arc::clone(&behind), AtomicUsize::new(0));
        let longest = Arc::new(longest);
        let most = Arc::clone(&longest);
        drop(spawn(
            thief.shared.remote(),
            poll_fn(move |cx| {
                theirs[1].fetch_add(1, Relaxed);
                most.fetch_max(since.swap(0, Relaxed), Relaxed);
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            }),
        ));
        let deadline_ns = Host::now_ns() + 30_000 * MS;
        while ran[0].load(Relaxed) <= TASKS && Host::now_ns() < deadline_ns {
            let _ = thief.pass();
            thief.note_pass();
            thief.run_ready();
        }
        longest.load(Relaxed).max(behind.load(Relaxed))
    });
    assert!(ran[0].load(Relaxed) > TASKS, "{ran:?}");
    assert!(longest <= 2, "{longest} stolen tasks in a row");
    end(workers);
}

/// Both workers make long polls; the first that is between two of them runs what was posted.
#[test]
fn a_worker_with_work_of_its_own_takes_what_was_posted_to_one_that_makes_progress() {
    let workers = scheduler_by_hand();
    let [moves, checker] = &workers;
    // It has a task of its own, which is left to it.
    gets(moves, 2, 1);
    let remote = moves.shared.remote();
    looks_after_its_first_pass(checker);
    remote.beat();
    drop(spawn(remote, async {}));
    let stolen_at = |now_ns| {
        checker.local.enter(|| {
            checker.check_stuck(now_ns);
            while checker.local.run_one() {}
        });
        counts(checker).stolen
    };
    assert_eq!(stolen_at(2 * MS), 1);
    assert!(!remote.has_injected());
    remote.beat();
    assert_eq!(stolen_at(3 * MS), 1, "nothing was posted");
    gets(moves, 0, 1);
    end(workers);
}

/// It takes them at once.
#[test]
fn what_was_posted_to_a_worker_that_spins_is_left_to_it() {
    let workers = scheduler_by_hand();
    let [spins, checker] = &workers;
    gets(spins, 2, 1);
    let remote = spins.shared.remote();
    looks_after_its_first_pass(checker);
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    drop(spawn(remote, async {}));
    assert!(remote.has_injected() && !remote.is_inside());
    checker.local.enter(|| checker.check_stuck(2 * MS));
    assert!(remote.has_injected());
    assert_eq!(counts(checker).stolen, 0);
    let _ = remote.bell().end_idle();
    gets(spins, 0, 1);
    end(workers);
}

/// At the first look that worker was in no list: it slept, or had nothing.
#[test]
fn a_watchdog_finds_the_first_task_of_a_worker_at_its_second_look_after_the_task_came() {
    let workers = scheduler_by_hand();
    let [stuck, watchdog] = &workers;
    let remote = watchdog.shared.remote();
    assert_eq!(remote.scheduler().idle().begin_watchdog(), Watchdog::Begun);
    remote.set_watchdog(true);
    gets(stuck, 1, 1);
    stuck.local.unlist();
    assert!(!watchdog.look_for_the_last_time());
    gets(stuck, 1, 0);
    assert!(!watchdog.look_for_the_last_time(), "its poll is new here");
    assert!(watchdog.look_for_the_last_time(), "it is left there");
    assert_eq!(counts(watchdog).stolen, 1);
    end(workers);
}
