//! Workers by rank: who looks at an overloaded worker before it sleeps.

use super::{IdlePolicy, Worker, check_large, mutant};
use crate::scheduler::RemoteRef;
use crate::scheduler::push::Told;
use crate::switches::RtPush;
use crate::task::Kind;
use crate::testing::{by_rank, launch_ranked, spawn, worker_by_hand};
use ::loom::thread;
use doorbell_machine::Loom;

fn worker(remote: RemoteRef<Loom>) -> Worker<Loom> {
    worker_by_hand(remote, IdlePolicy::Park)
}

/// The holder of the push token gets no CPU. A watchdog that parks does not rely on it: it sees a task that waits at
/// another worker, or that worker claims it.
fn watchdog_beside_a_late_holder() {
    let remotes = by_rank(2, RtPush::On);
    let push = remotes[0].scheduler().push().expect("they run by rank");
    assert_eq!(push.token.tell(), Told::Holder);
    let theirs = remotes[1].clone();
    let watchdog = thread::spawn(move || {
        theirs.set_watchdog(true);
        let idles = worker(theirs.clone());
        let found = idles.local.enter(|| idles.look_for_the_last_time());
        idles.local.enter(|| idles.local.close());
        found
    });
    let busy = worker(remotes[0].clone());
    busy.local.enter(|| drop(spawn(&remotes[0], async {})));
    let found = watchdog.join().unwrap();
    let is_claimed = !remotes[0].scheduler().idle().holds(1);
    assert!(
        found || is_claimed,
        "the task waits for a holder without a CPU"
    );
    busy.local.enter(|| busy.local.close());
}

#[test]
fn a_watchdog_does_not_rely_on_the_holder_of_the_push_token() {
    check_large(watchdog_beside_a_late_holder);
}

#[test]
fn mutant_watchdog_relies() {
    mutant!(PushWatchdogRelies, watchdog_beside_a_late_holder);
}

fn spawn_ranked(remote: &RemoteRef<Loom>, rank: u8) {
    launch_ranked(remote, Kind::Task, rank, async {});
}

/// A poll wakes a task of rank 50 while ranks 90 and 10 wait there, and another worker that runs rank 60 looks for
/// tasks: the byte is not below what waits then.
fn push_against_a_look() {
    let remotes = by_rank(2, RtPush::default());
    let (busy, push) = (worker(remotes[0].clone()), remotes[0].scheduler().push());
    let overloaded = &push.expect("they run by rank").overloaded;
    let spawns = |rank| busy.local.enter(|| spawn_ranked(&remotes[0], rank));
    spawns(90);
    spawns(10);
    let theirs = remotes[1].clone();
    let looks = thread::spawn(move || {
        let looks = worker(theirs.clone());
        looks.local.enter(|| {
            spawn_ranked(&theirs, 60);
            looks.look_above(looks.own_rank.as_ref().unwrap());
            looks.local.close();
        });
    });
    spawns(50);
    looks.join().unwrap();
    let (waits, said) = (busy.local.ahead().movable, overloaded.rank(0));
    busy.local.enter(|| busy.local.close());
    assert!(said >= waits, "rank {waits} waits, the byte says {said}");
}

#[test]
fn a_byte_is_not_below_what_waits_while_the_queue_is_sorted() {
    check_large(push_against_a_look);
}
