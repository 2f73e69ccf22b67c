//! What workers by rank say of themselves, step by step.

use crate::bell::Announced;
use crate::mailbox::Posted;
use crate::parcel::post;
use crate::scheduler::offline::TakenOff;
use crate::scheduler::push::Push;
use crate::scheduler::{Placed, RemoteRef};
use crate::switches::RtPush;
use crate::task::Kind;
use crate::testing::{self, launch_ranked, worker_by_hand};
use crate::worker::tasks::place::finish_placement;
use crate::worker::{IdlePolicy, Local, Worker};
use doorbell_machine::Host;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn by_rank(workers: usize) -> Vec<RemoteRef<Host>> {
    testing::by_rank(workers, RtPush::default())
}

fn worker(remote: &RemoteRef<Host>) -> Worker<Host> {
    worker_by_hand(remote.clone(), IdlePolicy::Park)
}

fn push_of(remote: &RemoteRef<Host>) -> &Push<Host> {
    remote.scheduler().push().expect("they run by rank")
}

fn end(worker: &Worker<Host>) {
    worker.local.enter(|| worker.local.close());
}

/// A worker that idles gets a task, and then does that: it says that the task waits.
fn assert_says(does: impl FnOnce(&Worker<Host>)) {
    let remotes = by_rank(2);
    let (remote, it) = (&remotes[0], worker(&remotes[0]));
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    launch_ranked(remote, Kind::Task, 60, async {});
    assert!(remote.has_injected());
    let _ = remote.bell().end_idle();
    does(&it);
    let said = push_of(remote).overloaded.rank(0);
    end(&it);
    assert!(said >= 60, "{said}");
}

#[test]
fn a_worker_that_is_throttled_says_what_lies_in_its_inject_queue() {
    assert_says(|it| it.local.enter(|| it.say_takes_nothing()));
}

#[test]
fn a_worker_that_runs_a_call_says_what_lies_in_its_inject_queue() {
    assert_says(|it| {
        assert!(post(&**it.shared.remote(), || ()).is_ok());
        assert_eq!(it.local.enter(|| it.take()).delivered, 1);
    });
}

#[test]
fn a_byte_stays_while_the_inject_queue_is_not_empty() {
    let remotes = by_rank(2);
    let it = worker(&remotes[0]);
    let push = push_of(&remotes[0]);
    let own = it.own_rank.as_ref().expect("it runs by rank");
    let _ = push.map.publish(own, 95);
    let _ = push.map.publish(&push.map.own(1), 95);
    launch_ranked(&remotes[0], Kind::Task, 50, async {});
    assert!(remotes[0].has_injected());
    assert_eq!(push.overloaded.rank(0), 50);
    it.local.enter(|| {
        launch_ranked(&remotes[0], Kind::Task, 95, async {});
        it.look_above(own);
    });
    assert!(push.overloaded.rank(0) >= 50);
    end(&it);
}

#[test]
fn a_worker_that_is_off_has_no_task_waiting() {
    let remotes = by_rank(2);
    let it = worker(&remotes[0]);
    it.local
        .enter(|| launch_ranked(&remotes[0], Kind::Task, 60, async {}));
    let push = push_of(&remotes[0]);
    assert_eq!(push.overloaded.rank(0), 60);
    assert_eq!(remotes[0].scheduler().take_off(0), TakenOff::Now);
    it.local.enter(|| {
        it.local.follow();
        it.run_ready();
        assert!(!it.look_for_the_last_time());
    });
    assert!(!remotes[0].has_work(), "handed on");
    let said = push.overloaded.rank(0);
    end(&it);
    end(&worker(&remotes[1]));
    assert_eq!(said, 0, "the byte stays when all are at rest");
}

#[test]
fn a_worker_that_is_taken_off_between_polls_takes_nothing_from_others() {
    let remotes = by_rank(2);
    let (it, other) = (worker(&remotes[0]), worker(&remotes[1]));
    let ran_on = Arc::new(AtomicUsize::new(9));
    let theirs = Arc::clone(&ran_on);
    let (own, far) = (remotes[0].clone(), remotes[1].clone());
    let first = async move {
        assert_eq!(own.scheduler().take_off(0), TakenOff::Now);
        let follows = || Local::<Host>::with_current(|local| local.expect("a worker").follow());
        assert!(post(&*own, follows).is_ok());
        let urgent = async move {
            let here = Local::<Host>::with_current(|local| local.expect("one").remote().worker());
            theirs.store(here, Relaxed);
        };
        let from_outside = move || launch_ranked(&far, Kind::Task, 90, urgent);
        std::thread::spawn(from_outside).join().unwrap();
    };
    it.local.enter(|| {
        launch_ranked(&remotes[0], Kind::Pinned, 10, first);
        launch_ranked(&remotes[0], Kind::Pinned, 10, async {});
        it.run_ready();
    });
    let ran_on = ran_on.load(Relaxed);
    end(&it);
    end(&other);
    assert_eq!(ran_on, 9, "the worker is off");
}

#[test]
fn what_a_worker_takes_from_another_is_published_and_what_waits_behind_it_is_said() {
    let remotes = by_rank(3);
    let (it, other) = (worker(&remotes[0]), worker(&remotes[1]));
    let (push, idle) = (push_of(&remotes[0]), remotes[0].scheduler().idle());
    let spawns = |by: &Worker<Host>, rank| {
        let remote = by.shared.remote();
        by.local
            .enter(|| launch_ranked(remote, Kind::Task, rank, async {}));
    };
    spawns(&other, 90);
    spawns(&it, 10);
    spawns(&it, 5);
    idle.enter(2);
    let own = it.own_rank.as_ref().expect("they run by rank");
    let looks = || {
        it.local.enter(|| it.look_above(own));
        (push.map.rank(0), push.overloaded.rank(0))
    };
    assert_eq!(looks(), (90, 10), "it took that");
    assert_eq!(push.overloaded.rank(1), 0, "nothing waits there any more");
    assert!(!idle.holds(2), "it has something for others");
    for expected in [(10, 5), (5, 0)] {
        it.local.enter(|| assert!(it.local.run_one()));
        assert_eq!(looks(), expected);
    }
    end(&it);
    end(&other);
}

#[test]
fn a_worker_that_is_throttled_takes_nothing_and_says_what_waits() {
    let remotes = by_rank(2);
    let it = worker(&remotes[0]);
    it.local
        .enter(|| launch_ranked(&remotes[0], Kind::Task, 60, async {}));
    let push = push_of(&remotes[0]);
    let _ = push.overloaded.clear(0, |_| 0);
    it.local.enter(|| it.say_takes_nothing());
    assert_eq!((push.map.rank(0), push.overloaded.rank(0)), (255, 60));
    end(&it);
}

#[test]
fn a_worker_that_parks_has_no_task_waiting() {
    let remotes = by_rank(2);
    let it = worker(&remotes[0]);
    let push = push_of(&remotes[0]);
    push.overloaded.set(0, 50);
    assert!(!it.look_for_the_last_time());
    assert!(!push.overloaded.any());
    end(&it);
}

#[test]
fn a_task_that_is_placed_anew_waits_no_longer_where_it_was_posted() {
    let remotes = by_rank(2);
    let push = push_of(&remotes[0]);
    let owns = [0, 1].map(|worker| push.map.own(worker));
    let ranks = |ranks: [u8; 2]| {
        for (own, rank) in owns.iter().zip(ranks) {
            let _ = push.map.publish(own, rank);
        }
        [0, 1].map(|worker| push.overloaded.rank(worker))
    };
    let _ = ranks([10, 95]);
    launch_ranked(&remotes[0], Kind::Task, 50, async {});
    assert_eq!(ranks([95, 10]), [50, 0]);
    assert_eq!(finish_placement(Placed::Behind(&remotes[0])), Posted::Yes);
    assert_eq!(ranks([95, 10]), [0, 50]);
    for remote in &remotes {
        end(&worker(remote));
    }
}

/// Workers that told it have parked: it takes one task, and has another worker look for the other.
#[test]
fn the_holder_of_the_token_offers_what_it_leaves() {
    let remotes = testing::by_rank(2, RtPush::On);
    let (busy, holder) = (worker(&remotes[0]), worker(&remotes[1]));
    for rank in [90, 80] {
        busy.local
            .enter(|| launch_ranked(&remotes[0], Kind::Task, rank, async {}));
    }
    holder.local.enter(|| {
        assert!(holder.look_for_the_last_time());
        assert!(!push_of(&remotes[0]).token.is_held());
        assert!(remotes[0].scheduler().idle().anyone_searches());
    });
    end(&busy);
    end(&holder);
}

#[test]
fn the_token_is_used_from_100_workers_on() {
    for (workers, expected) in [(99, RtPush::Pull), (100, RtPush::On)] {
        let remotes = by_rank(workers);
        let it = worker(&remotes[0]);
        assert_eq!(it.rt_push(), expected, "{workers} workers");
        end(&it);
    }
}
