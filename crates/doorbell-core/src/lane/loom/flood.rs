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

pub(super) type Shared<const BUG: u8> = Arc<LaneShared<Loom<BUG>>>;
pub(super) type Registered<const BUG: u8> = Registration<Loom<BUG>, FrontRef<Loom<BUG>>>;

pub(super) fn shared<const BUG: u8>() -> Shared<BUG> {
    Running::shared(0, IdleNotify::On)
}

/// Never looks, and never wakes up by itself.
fn start_for_ever<const BUG: u8>(shared: &Shared<BUG>) -> Running<BUG> {
    Running::start_shared(shared, |lane: Lane<_>| lane.flooded(u64::MAX).run())
}

/// Puts off one look, and parks as any other from then on.
fn start_for_one_look<const BUG: u8>(shared: &Shared<BUG>) -> Running<BUG> {
    Running::start_shared(shared, |lane: Lane<_>| lane.flooded(OVER_NS).run())
}

pub(super) fn register<const BUG: u8>(shared: &Shared<BUG>) -> Registered<BUG> {
    Registration::new(shared.front().clone(), LoomFd(0)).unwrap()
}

pub(super) fn set_ready<const BUG: u8>(shared: &Shared<BUG>) {
    let poller = Seat::<Loom<BUG>>::open_poller(shared.front().seat()).unwrap();
    poller.set_ready(LoomFd(0), Readiness::READABLE);
}

/// Asks the lane to end when the descriptor is ready, or now if it is.
pub(super) fn close_when_ready<const BUG: u8>(shared: &Shared<BUG>, registered: &Registered<BUG>) {
    let waker = Waker::from(Arc::new(Closes(Arc::clone(shared))));
    let polled = registered.poll_ready(&Context::from_waker(&waker), Direction::Read);
    if polled.is_ready() {
        shared.close();
    }
}

/// A call reaches a lane that has a descriptor, however it sleeps. What that has counted.
fn call_reaches<const BUG: u8>(start: fn(&Shared<BUG>) -> Running<BUG>) -> LaneCounts {
    let shared = shared::<BUG>();
    let registered = register(&shared);
    let lane = start(&shared);
    assert!(matches!(call(shared.front(), || 7), Ok(7)));
    shared.close();
    let counts = lane.ended();
    drop(registered);
    counts
}

/// Of one that sleeps without it.
fn call_while_put_off<const BUG: u8>() {
    let counts = call_reaches(start_for_ever::<BUG>);
    assert_eq!((counts.unparks_ready, counts.unparks_deadline), (0, 0));
}

/// Of one that looks once meanwhile and then sleeps in its poller.
fn call_at_the_end_of_a_flood<const BUG: u8>() {
    let counts = call_reaches(start_for_one_look::<BUG>);
    assert!(counts.unparks_deadline <= 1, "{counts:?}");
}

/// A descriptor becomes ready meanwhile.
fn event_at_the_end_of_a_flood<const BUG: u8>() {
    let shared = shared::<BUG>();
    let registered = register(&shared);
    close_when_ready(&shared, &registered);
    let lane = start_for_one_look(&shared);
    set_ready(&shared);
    let counts = lane.ended();
    assert_eq!((counts.looks_put_off, counts.rings), (1, 0), "{counts:?}");
    drop(registered);
}

/// One that is ready is registered meanwhile, the lane's first.
fn first_at_the_end_of_a_flood<const BUG: u8>() {
    let shared = shared::<BUG>();
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
    check(call_while_put_off::<0>);
    check(call_at_the_end_of_a_flood::<0>);
}

#[test]
fn an_event_reaches_a_lane_that_puts_off_its_look() {
    check(event_at_the_end_of_a_flood::<0>);
}

#[test]
fn a_first_descriptor_reaches_a_lane_that_puts_off_its_look() {
    check(first_at_the_end_of_a_flood::<0>);
}

// A fence that orders the end of the flood, too.
also_noticed!(
    mutant_no_note_fence,
    IoNoNoteFence,
    first_at_the_end_of_a_flood
);
