//! A lane that puts off its looks at descriptors: it sleeps on its word although it has some, whoever
//! registers one does not ring it, and it looks by itself.

use super::super::flood::OVER_NS;
use super::{Closes, Running};
use crate::crew::FrontRef;
use crate::io::{Direction, Registration};
use crate::lane::{Lane, LaneCounts, LaneShared};
use crate::switches::IdleNotify;
use crate::testing::call;
use crate::testing::model::{Shows, check, must_be_noticed_by};
use doorbell_machine::loom::LoomFd;
use doorbell_machine::{Bug, Loom, Readiness, Seat};
use std::sync::Arc;
use std::task::{Context, Waker};

pub(super) type Shared = Arc<LaneShared<Loom>>;
pub(super) type Registered = Registration<Loom, FrontRef<Loom>>;

pub(super) fn shared() -> Shared {
    Running::shared(0, IdleNotify::On)
}

/// Never looks, and never wakes up by itself.
fn start_for_ever(shared: &Shared) -> Running {
    Running::start_shared(shared, |lane: Lane<_>| lane.flooded(u64::MAX).run())
}

/// Puts off one look, and parks as any other from then on.
fn start_for_one_look(shared: &Shared) -> Running {
    Running::start_shared(shared, |lane: Lane<_>| lane.flooded(OVER_NS).run())
}

pub(super) fn register(shared: &Shared) -> Registered {
    Registration::new(shared.front().clone(), LoomFd(0)).unwrap()
}

pub(super) fn set_ready(shared: &Shared) {
    let poller = Seat::<Loom>::open_poller(shared.front().seat()).unwrap();
    poller.set_ready(LoomFd(0), Readiness::READABLE);
}

/// Asks the lane to end when the descriptor is ready, or now if it is.
pub(super) fn close_when_ready(shared: &Shared, registered: &Registered) {
    let waker = Waker::from(Arc::new(Closes(Arc::clone(shared))));
    let polled = registered.poll_ready(&Context::from_waker(&waker), Direction::Read);
    if polled.is_ready() {
        shared.close();
    }
}

/// A call reaches a lane that has a descriptor, however it sleeps. What that has counted.
fn call_reaches(start: fn(&Shared) -> Running) -> LaneCounts {
    let shared = shared();
    let registered = register(&shared);
    let lane = start(&shared);
    assert!(matches!(call(shared.front(), || 7), Ok(7)));
    shared.close();
    let counts = lane.ended();
    drop(registered);
    counts
}

/// Of one that sleeps without it.
fn call_while_put_off() {
    let counts = call_reaches(start_for_ever);
    assert_eq!((counts.unparks_ready, counts.unparks_deadline), (0, 0));
}

/// Of one that looks once meanwhile and then sleeps in its poller.
fn call_at_the_end_of_a_flood() {
    let counts = call_reaches(start_for_one_look);
    assert!(counts.unparks_deadline <= 1, "{counts:?}");
}

/// A descriptor becomes ready meanwhile.
fn event_at_the_end_of_a_flood() {
    let shared = shared();
    let registered = register(&shared);
    close_when_ready(&shared, &registered);
    let lane = start_for_one_look(&shared);
    set_ready(&shared);
    let counts = lane.ended();
    assert_eq!((counts.looks_put_off, counts.rings), (1, 0), "{counts:?}");
    drop(registered);
}

/// One that is ready is registered meanwhile, the lane's first.
fn first_at_the_end_of_a_flood() {
    let shared = shared();
    set_ready(&shared);
    let lane = start_for_one_look(&shared);
    let registered = register(&shared);
    close_when_ready(&shared, &registered);
    let counts = lane.ended();
    assert!(counts.looks_put_off <= 1, "{counts:?}");
    drop(registered);
}

#[test]
fn a_call_reaches_a_lane_that_puts_off_its_looks() {
    check(call_while_put_off);
    check(call_at_the_end_of_a_flood);
}

#[test]
fn an_event_reaches_a_lane_that_puts_off_its_look() {
    check(event_at_the_end_of_a_flood);
}

#[test]
fn a_first_descriptor_reaches_a_lane_that_puts_off_its_look() {
    check(first_at_the_end_of_a_flood);
}

// A fence that orders the end of the flood, too.
also_noticed!(
    mutant_no_note_fence,
    IoNoNoteFence,
    first_at_the_end_of_a_flood
);
