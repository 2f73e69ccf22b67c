//! For which single tasks somebody is asked to look after them: see the folder `idle`.

use super::crew_by_hand;
use super::descriptors::read_on;
use crate::call::post;
use crate::lane::Lane;
use crate::task::Local;
use crate::testing::spawn;
use doorbell_machine::Host;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Two lanes, of which the second sleeps, as far as the first can see.
fn beside_a_sleeper() -> (Lane<Host>, Lane<Host>) {
    let [lane, other] = crew_by_hand();
    assert!(!other.look_for_the_last_time());
    (lane, other)
}

/// Whether a sentinel was asked for when `f` pushed a task on the first lane.
fn asks(f: impl FnOnce(&Lane<Host>)) -> bool {
    let (lane, _other) = beside_a_sleeper();
    lane.local.enter(|| {
        f(&lane);
        let asked = lane.shared.front().crew().idle().wants_sentinel();
        assert!(lane.take().delivered <= 1, "what was left in the mailbox");
        while lane.local.run_one() {}
        asked
    })
}

fn push(lane: &Lane<Host>) {
    drop(spawn(lane.shared.front(), async {}));
}

#[test]
fn what_a_lane_brings_between_two_polls_is_left_to_it() {
    assert!(asks(push), "the call that it is in may take long");
    assert!(!asks(|lane| lane.local.bring(|| push(lane))));
    let more = |lane: &Lane<Host>| {
        lane.local.bring(|| push(lane));
        push(lane);
    };
    let (lane, _other) = beside_a_sleeper();
    lane.local.enter(|| more(&lane));
    assert!(
        !lane.shared.front().crew().idle().holds(1),
        "the second one is offered"
    );
    lane.local.enter(|| while lane.local.run_one() {});
}

#[test]
fn a_waker_that_panics_does_not_leave_the_rest_to_the_lane() {
    let panics = |lane: &Lane<Host>| {
        let brought = AssertUnwindSafe(|| lane.local.bring(|| panic!("a waker")));
        assert!(catch_unwind(brought).is_err());
        push(lane);
    };
    assert!(asks(panics));
}

#[test]
fn what_comes_by_mail_is_left_to_the_lane_unless_more_has_come_since() {
    let wake = |lane: &Lane<Host>| {
        let front = lane.shared.front().clone();
        let wakes = move || Local::<Host>::bring_mail(|| drop(spawn(&front, async {})));
        assert!(post(lane.shared.front(), wakes).is_ok());
    };
    let alone = |lane: &Lane<Host>| {
        wake(lane);
        assert_eq!(lane.take().delivered, 1);
    };
    assert!(!asks(alone));
    let before_more = |lane: &Lane<Host>| {
        assert!(post(lane.shared.front(), || ()).is_ok());
        Local::<Host>::bring_mail(|| push(lane));
    };
    assert!(asks(before_more), "that call may take long");
}

#[test]
fn what_a_look_at_its_descriptors_brings_is_left_to_the_lane() {
    let [lane, other] = crew_by_hand();
    lane.local.enter(|| {
        let (read, mut theirs) = read_on(lane.shared.front());
        while lane.local.run_one() {}
        assert!(!other.look_for_the_last_time(), "it sleeps");
        theirs.write_all(&[7]).unwrap();
        assert!(lane.look_at_descriptors());
        assert!(!lane.local.is_empty());
        assert!(!lane.shared.front().crew().idle().wants_sentinel());
        while lane.local.run_one() {}
        drop(read);
        lane.local.close();
    });
}
