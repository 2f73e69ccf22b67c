//! An usher beside a lane that naps: it wakes the lane, and ends with it.

use super::super::usher::Usher;
use super::Running;
use super::flood::{self, Shared};
use crate::lane::{Lane, LaneCounts};
use crate::testing::call;
use crate::testing::model::{check_large, mutant};
use ::loom::thread::{self, JoinHandle};
use doorbell_machine::Loom;

/// A lane that puts off its looks for ever, and its usher.
struct Pair {
    lane: Running,
    usher: JoinHandle<()>,
    /// The model checker does not see who drops the last one: it is kept until both have ended.
    _kept: std::sync::Arc<Usher<Loom>>,
}

impl Pair {
    fn start(shared: &Shared) -> Self {
        let usher = Usher::new(shared);
        let theirs = std::sync::Arc::clone(&usher);
        let kept = std::sync::Arc::clone(&usher);
        let lane = Running::start_shared(shared, move |lane: Lane<_>| {
            lane.flooded(u64::MAX).with_usher(theirs).run();
        });
        let usher = thread::spawn(move || usher.run());
        Pair {
            lane,
            usher,
            _kept: kept,
        }
    }

    /// Both end. No ring without a nap.
    fn ended(self) -> LaneCounts {
        let counts = self.lane.ended();
        self.usher.join().unwrap();
        assert!(counts.looks_ushered <= counts.looks_put_off);
        counts
    }
}

/// A descriptor becomes ready, and nobody but the usher wakes the lane, which has no time of its own.
fn event() {
    let shared = flood::shared();
    let registered = flood::register(&shared);
    flood::close_when_ready(&shared, &registered);
    let pair = Pair::start(&shared);
    flood::set_ready(&shared);
    let counts = pair.ended();
    assert!(counts.looks_ushered >= 1, "{counts:?}");
    drop(registered);
}

/// A call comes, and then the end.
fn call_and_close() {
    let shared = flood::shared();
    let registered = flood::register(&shared);
    let pair = Pair::start(&shared);
    assert!(matches!(call(shared.front(), || 7), Ok(7)));
    shared.close();
    let _ = pair.ended();
    drop(registered);
}

#[test]
fn an_usher_wakes_a_lane_that_naps() {
    check_large(event);
}

#[test]
fn an_usher_ends_with_its_lane() {
    check_large(call_and_close);
}

#[test]
fn mutant_sleep_blind() {
    mutant!(UsherSleepBlind, event);
}
