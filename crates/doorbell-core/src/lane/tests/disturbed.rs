//! An idle lane that is told of something all the time, or at the wrong moment, step by step.

use super::{Eternal, again, by_hand, crew_that_idles_by};
use crate::bell::{Announced, LaneState};
use crate::beside::{Beside, Side};
use crate::crew::{Crew, CrewSpec};
use crate::lane::watch::TAKES_PER_CLOCK;
use crate::lane::{IdlePolicy, Lane, LaneConfig, LaneShared, Pass, WatchEnd};
use crate::mailbox::Posted;
use crate::node::Node;
use crate::switches::Switches;
use crate::task::{Kind, Once};
use crate::testing::{launch_as, spawn};
use crate::wheel::RawTimer;
use doorbell_machine::{Counter, Host, Machine};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

/// A lane with two tasks in its queue that runs none of them, and one that watches for ever.
fn one_busy_one_idle() -> [Lane<Host>; 2] {
    let lanes = crew_that_idles_by(IdlePolicy::Watch { watch_ns: u64::MAX });
    lanes[0].local.enter(|| {
        for _ in 0..2 {
            drop(spawn(lanes[0].shared.front(), async {}));
        }
    });
    lanes
}

fn end(lanes: &[Lane<Host>; 2]) {
    for lane in lanes {
        lane.leave_idle_set();
        lane.end_search();
        lane.local.enter(|| lane.local.close());
    }
}

/// A node that posts itself so often, to the lane with that front.
fn eternal(lane: &Lane<Host>, rounds: u64) -> Eternal {
    Eternal {
        node: Node::new(again),
        front: lane.shared.front().clone(),
        rounds_left: Cell::new(rounds),
    }
}

#[test]
fn b17_calls_without_end_do_not_keep_a_lane_from_looking_at_the_others() {
    let lanes = one_busy_one_idle();
    let idle = &lanes[1];
    let it = eternal(idle, u64::MAX);
    let front = idle.shared.front();
    assert_eq!(front.bell().announce_watch(), Announced::Yes);
    // SAFETY: `it` stays in place until its last delivery below.
    let posted = unsafe { front.post(NonNull::from(&it).cast()) };
    assert_eq!(posted, Posted::Yes);
    assert_eq!(idle.watch(), WatchEnd::Busy);
    let counts = idle.shared.counts();
    assert_eq!((counts.thefts, counts.stolen), (1, 1), "{counts:?}");
    assert!(counts.takes >= u64::from(TAKES_PER_CLOCK));
    it.rounds_left.set(0);
    assert_eq!(idle.take().delivered, 1);
    end(&lanes);
}

#[test]
fn b11_requests_for_nothing_do_not_keep_a_lane_from_looking_at_the_others() {
    let lanes = one_busy_one_idle();
    let idle = &lanes[1];
    let front = idle.shared.front();
    // Far more than there is time for before a look is due.
    for _ in 0..20_000_000 {
        assert_eq!(front.bell().announce_watch(), Announced::Yes);
        front.request_pass();
        assert_eq!(idle.watch(), WatchEnd::Busy);
        let _ = front.bell().end_idle();
        if matches!(idle.pass(), Pass::Work(_)) {
            break;
        }
    }
    let counts = idle.shared.counts();
    assert_eq!((counts.thefts, counts.stolen), (1, 1), "{counts:?}");
    end(&lanes);
}

#[test]
fn b12_calls_that_come_from_calls_leave_the_lane_watching() {
    let lane = by_hand(1_000, Switches::default());
    let it = eternal(&lane, 3);
    let front = lane.shared.front();
    assert_eq!(front.bell().announce_watch(), Announced::Yes);
    // SAFETY: `it` stays in place until its last delivery, in the watch.
    let posted = unsafe { front.post(NonNull::from(&it).cast()) };
    assert_eq!(posted, Posted::Yes);
    assert_eq!(lane.watch(), WatchEnd::Quiet);
    assert_eq!(lane.shared.state(), LaneState::Watching);
    assert!(!front.is_inside(), "it looks busy");
    let counts = lane.shared.counts();
    assert_eq!((counts.delivered, counts.passes, counts.rings), (4, 0, 0));
}

#[test]
fn b13_a_timer_that_comes_on_the_way_to_sleep_ends_the_sleep() {
    // Before the announcement to watch, and between that and the park.
    for when in 0..2 {
        let lane = by_hand(0, Switches::default());
        let front = lane.shared.front();
        let due_ns = Host::now_ns() + 2_000_000;
        let arm = || {
            let front = front.clone();
            let arm = move || RawTimer::arm(&front, due_ns, Waker::noop());
            std::thread::spawn(arm).join().unwrap().unwrap()
        };
        let early = (when == 0).then(arm);
        if when == 0 {
            assert_eq!(front.bell().announce_watch(), Announced::Signalled);
        } else {
            assert_eq!(front.bell().announce_watch(), Announced::Yes);
        }
        let late = (when == 1).then(arm);
        if when == 1 {
            lane.park();
        }
        assert_eq!(lane.shared.counts().parks, 0);
        let _ = front.bell().end_idle();
        assert!(matches!(lane.local.enter(|| lane.pass()), Pass::Nothing(_)));
        while lane.shared.counts().timers_fired == 0 {
            assert_eq!(front.bell().announce_watch(), Announced::Yes);
            lane.park();
            let _ = front.bell().end_idle();
            lane.local.enter(|| lane.expire());
        }
        assert!(Host::now_ns() >= due_ns, "early");
        assert_eq!(front.counts().rings.get(), 0);
        lane.local.enter(|| drop((early, late)));
        lane.local.enter(|| lane.local.close());
    }
}

#[test]
fn b13_a_call_that_arms_a_timer_ends_the_watch() {
    let lane = by_hand(u64::MAX, Switches::default());
    let front = lane.shared.front();
    assert_eq!(front.bell().announce_watch(), Announced::Yes);
    let theirs = front.clone();
    let due_ns = Host::now_ns() + 60_000_000_000;
    let arms = Once::new(move || RawTimer::arm(&theirs, due_ns, Waker::noop()).is_ok());
    let join = launch_as(front, Kind::Call, arms);
    assert_eq!(lane.local.enter(|| lane.watch()), WatchEnd::Busy);
    assert!(lane.local.due_ns().is_some(), "it is known");
    drop(join);
    lane.local.enter(|| lane.local.close());
}

/// While a lane of its core that never watches can run, a lane does not watch, whatever its policy,
/// and stops if one begins to.
#[test]
fn a_lane_leaves_the_cpu_to_others_of_its_core() {
    for idle in [IdlePolicy::Watch { watch_ns: 1 << 40 }, IdlePolicy::Spin] {
        let words = Beside::<Host>::new(1);
        let batch = Side::working(&words, 1);
        let spec = CrewSpec {
            beside: Some(Side::watching(&words)),
            ..CrewSpec::default()
        };
        let front = Crew::<Host>::described(1, &Arc::default(), spec, |_, _| 0).remove(0);
        let shared = LaneShared::with(LaneConfig { idle }, front, Arc::default());
        let lane = Lane::new(Arc::new(shared));
        batch.begin(0);
        lane.local
            .enter(|| assert_eq!(lane.watch(), WatchEnd::Quiet));
        assert_eq!(lane.shared.counts().watches, 0, "{idle:?}");
        batch.end(0);
        let front = lane.shared.front().clone();
        let watched = std::thread::scope(|scope| {
            // Begins while the other watches, or before it does.
            scope.spawn(|| batch.begin(0));
            assert_eq!(front.bell().announce_watch(), Announced::Yes);
            lane.local.enter(|| lane.watch())
        });
        assert_eq!(watched, WatchEnd::Quiet, "{idle:?}");
        lane.local.enter(|| lane.local.close());
    }
}
