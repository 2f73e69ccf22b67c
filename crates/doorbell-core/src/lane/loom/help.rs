//! Two lanes of one crew and its watchdog, each in its real loop: what a poll leaves behind is run by the other lane, although
//! that poll does not end before.

use super::pair::{Pair, Reached, Work};
use crate::crew::{Crew, CrewSpec};
use crate::lane::{IdlePolicy, LaneConfig, LaneShared};
use crate::testing::model::{Shows, check_largest, must_be_noticed_by_largest};
use crate::watchdog::{Watch, Watchdog};
use crate::wheel::Clock;
use ::loom::thread;
use doorbell_machine::{Bug, Loom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static REACHED: Reached = Reached::nothing();
static ASKED: AtomicU64 = AtomicU64::new(0);

/// A task spawns another one, and ends its poll when that one is polled too.
fn task_behind<const BUG: u8>() {
    let dog = Arc::new(Watchdog::default());
    let spec = CrewSpec {
        watchdog: Some(Arc::clone(&dog)),
        ..CrewSpec::default()
    };
    let fronts = Crew::<Loom<BUG>>::described(2, &Arc::default(), spec, |_, _| 0);
    let fronts: [_; 2] = fronts.try_into().expect("a crew of two has two fronts");
    let clock = Arc::new(Clock::default());
    let config = LaneConfig {
        idle: IdlePolicy::Park,
    };
    let watched = fronts[0].clone();
    let lanes = fronts.map(|front| Arc::new(LaneShared::with(config, front, Arc::clone(&clock))));
    let lanes = Pair(lanes);
    let work = Work::<BUG, 2, 2>::new(&lanes);
    work.spawn(0, Work::spawn_and_meet);
    let theirs = Arc::clone(&dog);
    let watchdog = thread::spawn(move || Watch::new(&theirs, &clock, [watched]).run());
    let second = lanes.run();
    second.join().unwrap();
    dog.close();
    watchdog.join().unwrap();
    ASKED.fetch_add(dog.counts().asks, Relaxed);
    lanes.assert_ended(&REACHED);
    work.assert_all_ran();
}

#[test]
fn a_task_behind_a_poll_is_run_by_a_lane_that_the_watchdog_asks() {
    check_largest(task_behind::<0>);
    assert!(ASKED.load(Relaxed) > 0, "nobody was asked");
}

#[test]
fn mutant_nobody_armed() {
    let test = "lane::loom::help::mutant_nobody_armed";
    let model = task_behind::<{ Bug::CrewPushUnoffered as u8 }>;
    must_be_noticed_by_largest(test, Shows::Deadlock, Bug::CrewPushUnoffered, model);
}
