//! For which single tasks somebody is asked to look after them: see the folder `idle`.

use super::descriptors::read_on;
use super::scheduler_by_hand;
use crate::parcel::post;
use crate::testing::spawn;
use crate::worker::Local;
use crate::worker::Worker;
use doorbell_machine::Host;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Two workers, of which the second sleeps, as far as the first can see.
fn beside_a_sleeper() -> (Worker<Host>, Worker<Host>) {
    let [worker, other] = scheduler_by_hand();
    assert!(!other.look_for_the_last_time());
    (worker, other)
}

/// Whether a watchdog was asked for when `f` pushed a task on the first worker.
fn asks(f: impl FnOnce(&Worker<Host>)) -> bool {
    let (worker, _other) = beside_a_sleeper();
    worker.local.enter(|| {
        f(&worker);
        let asked = worker.shared.remote().scheduler().idle().wants_watchdog();
        assert!(worker.take().delivered <= 1, "what was left in the mailbox");
        while worker.local.run_one() {}
        asked
    })
}

fn push(worker: &Worker<Host>) {
    drop(spawn(worker.shared.remote(), async {}));
}

#[test]
fn what_a_worker_brings_between_two_polls_is_left_to_it() {
    assert!(asks(push), "the call that it is in may take long");
    assert!(!asks(|worker| worker.local.bring(|| push(worker))));
    let more = |worker: &Worker<Host>| {
        worker.local.bring(|| push(worker));
        push(worker);
    };
    let (worker, _other) = beside_a_sleeper();
    worker.local.enter(|| more(&worker));
    assert!(
        !worker.shared.remote().scheduler().idle().holds(1),
        "the second one is offered"
    );
    worker.local.enter(|| while worker.local.run_one() {});
}

#[test]
fn a_waker_that_panics_does_not_leave_the_rest_to_the_worker() {
    let panics = |worker: &Worker<Host>| {
        let brought = AssertUnwindSafe(|| worker.local.bring(|| panic!("a waker")));
        assert!(catch_unwind(brought).is_err());
        push(worker);
    };
    assert!(asks(panics));
}

#[test]
fn what_comes_by_mail_is_left_to_the_worker_unless_more_has_come_since() {
    let wake = |worker: &Worker<Host>| {
        let remote = worker.shared.remote().clone();
        let wakes = move || Local::<Host>::bring_mail(|| drop(spawn(&remote, async {})));
        assert!(post(&**worker.shared.remote(), wakes).is_ok());
    };
    let alone = |worker: &Worker<Host>| {
        wake(worker);
        assert_eq!(worker.take().delivered, 1);
    };
    assert!(!asks(alone));
    let before_more = |worker: &Worker<Host>| {
        assert!(post(&**worker.shared.remote(), || ()).is_ok());
        Local::<Host>::bring_mail(|| push(worker));
    };
    assert!(asks(before_more), "that call may take long");
}

#[test]
fn what_a_look_at_its_descriptors_brings_is_left_to_the_worker() {
    let [worker, other] = scheduler_by_hand();
    worker.local.enter(|| {
        let (read, mut theirs) = read_on(worker.shared.remote());
        while worker.local.run_one() {}
        assert!(!other.look_for_the_last_time(), "it sleeps");
        theirs.write_all(&[7]).unwrap();
        assert!(worker.look_at_descriptors());
        assert!(!worker.local.is_empty());
        assert!(!worker.shared.remote().scheduler().idle().wants_watchdog());
        while worker.local.run_one() {}
        drop(read);
        worker.local.close();
    });
}
