//! The looks of the watchdog at lanes by hand, at times that the tests say.

// A test plays the threads that a runtime has, with std's threads.
#![allow(clippy::disallowed_methods)]

use super::pace::{Found, LOOK_NS, OVERDUE_NS};
use super::{Took, Watch, Watchdog};
use crate::bell::Announced;
use crate::crew::{Crew, CrewSpec, FrontRef};
use crate::idle::Cost;
use crate::task::Local;
use crate::testing::spawn;
use crate::wheel::Clock;
use doorbell_machine::{Counter, Host};
use std::sync::Arc;

/// Three lanes, each inside a poll, and their watchdog.
struct Three {
    fronts: [FrontRef<Host>; 3],
    dog: Arc<Watchdog<Host>>,
    watch: Watch<Host>,
}

impl Three {
    fn new() -> Self {
        Self::with(Clock::default())
    }

    fn with(clock: Clock<Host>) -> Self {
        let dog = Arc::new(Watchdog::default());
        let spec = CrewSpec {
            watchdog: Some(Arc::clone(&dog)),
            ..CrewSpec::default()
        };
        let fronts = Crew::described(3, &Arc::default(), spec, |_, _| 0);
        let fronts: [_; 3] = fronts.try_into().expect("a crew of three has three fronts");
        let watch = Watch::new(&dog, &Arc::new(clock), [fronts[2].clone()]);
        Three { fronts, dog, watch }
    }

    fn crew(&self) -> &Crew<Host> {
        self.fronts[0].crew()
    }

    /// A task comes to the inbox of that lane, which is not idle.
    fn post(&self, lane: usize) {
        drop(spawn(&self.fronts[lane], async {}));
        assert!(self.fronts[lane].has_inbox());
    }

    /// The lane runs what it has.
    fn drain(&self, lane: usize) {
        let local = Local::new(self.fronts[lane].clone());
        local.enter(|| {
            local.gather();
            while local.run_one() {}
        });
    }

    /// The lane parks.
    fn parks(&self, lane: usize) {
        let bell = self.fronts[lane].bell();
        assert_eq!(bell.announce_watch(), Announced::Yes);
        assert_eq!(bell.announce_park(), Announced::Yes);
    }

    /// The lane parks, and can be claimed.
    fn idles(&self, lane: usize) {
        self.parks(lane);
        self.crew().idle().enter(lane);
    }

    /// Which lanes are stuck.
    fn stuck(&self) -> Vec<usize> {
        let lanes = 0..self.fronts.len();
        lanes
            .filter(|lane| self.crew().stuck().is_stuck(*lane))
            .collect()
    }

    /// Which lanes were asked for a pass.
    fn told(&self) -> Vec<usize> {
        let lanes = 0..self.fronts.len();
        lanes
            .filter(|lane| self.fronts[*lane].bell().wants_pass())
            .collect()
    }
}

#[test]
fn a_lane_is_stuck_if_its_pulse_is_the_same_at_two_looks() {
    let it = Three::new();
    assert_eq!(
        it.watch.look(0),
        Found::Nothing,
        "a poll alone holds up nobody"
    );
    it.post(0);
    it.idles(1);
    for now_ns in [LOOK_NS, 2 * LOOK_NS - 1] {
        assert_eq!(it.watch.look(now_ns), Found::Behind);
        assert_eq!((it.stuck(), it.told()), (vec![], vec![]));
    }
    assert_eq!(it.watch.look(2 * LOOK_NS), Found::Asked);
    assert_eq!((it.stuck(), it.told()), (vec![0], vec![1]));
    assert_eq!(it.fronts[1].counts().rings.get(), 1);
    assert_eq!(it.crew().stuck().take(0), Took::Yes);
    it.fronts[0].beat();
    assert_eq!(it.watch.look(3 * LOOK_NS), Found::Behind);
    assert_eq!(it.stuck(), []);
    assert_eq!(
        it.watch.look(4 * LOOK_NS),
        Found::Asked,
        "its helper was told, and will look when it runs"
    );
    assert_eq!(it.stuck(), [0]);
    it.drain(0);
    assert_eq!(it.watch.look(5 * LOOK_NS), Found::Nothing);
    assert_eq!(it.stuck(), []);
    assert_eq!(it.dog.counts().stuck, 2);
}

#[test]
fn a_helper_that_does_not_wake_up_is_not_the_only_one() {
    let it = Three::new();
    it.post(0);
    it.idles(1);
    it.idles(2);
    let found = [0, 1, 2, 3].map(|look| it.watch.look(look * LOOK_NS));
    assert_eq!(
        found,
        [Found::Behind, Found::Asked, Found::Asked, Found::Asked]
    );
    assert_eq!(it.told(), [1, 2]);
    assert_eq!(it.dog.counts().unheard, 0);
    it.drain(0);
}

#[test]
fn where_none_idles_a_lane_that_makes_progress_is_asked() {
    let it = Three::new();
    it.post(0);
    it.fronts[2].beat();
    let _ = it.watch.look(0);
    assert_eq!(it.watch.look(LOOK_NS), Found::Asked);
    assert_eq!(it.told(), [2]);
    assert_eq!(it.fronts[2].counts().rings.get(), 0);
    assert_eq!(
        it.watch.look(2 * LOOK_NS),
        Found::Alone,
        "it has not moved since"
    );
    it.drain(0);
}

#[test]
fn a_lane_that_was_told_and_gets_no_cpu_is_stuck_and_one_that_watches_is_not() {
    let it = Three::new();
    it.post(0);
    it.post(1);
    let bell = it.fronts[0].bell();
    assert_eq!(bell.announce_watch(), Announced::Yes);
    it.parks(1);
    let _ = it.watch.look(0);
    assert_eq!(it.watch.look(LOOK_NS), Found::Nothing, "nobody has told it");
    it.fronts[1].request_pass();
    let _ = it.watch.look(2 * LOOK_NS);
    let _ = it.watch.look(3 * LOOK_NS);
    assert_eq!(it.stuck(), [1]);
    it.drain(0);
    it.drain(1);
}

#[test]
fn a_timer_is_somebody_elses_once_it_is_late() {
    let it = Three::new();
    let due_ns = 3 * LOOK_NS;
    it.idles(1);
    it.fronts[0].publish_next_global(due_ns);
    assert_eq!(it.watch.look(0), Found::Nothing, "it is far away");
    assert_eq!(it.watch.look(LOOK_NS), Found::Behind);
    assert_eq!(it.watch.look(2 * LOOK_NS), Found::Behind);
    assert_eq!(
        (it.stuck(), it.told()),
        (vec![0], vec![]),
        "its lane may be in time"
    );
    assert_eq!(it.watch.look(due_ns + OVERDUE_NS - 1), Found::Behind);
    assert_eq!(it.watch.look(due_ns + OVERDUE_NS), Found::Asked);
    assert_eq!(it.told(), [1]);
}

#[test]
fn timers_of_a_clock_that_stands_still_wait() {
    let it = Three::with(Clock::frozen());
    it.idles(1);
    it.fronts[0].publish_next_global(0);
    for look in 1..4 {
        assert_eq!(it.watch.look(look * LOOK_NS), Found::Nothing);
    }
}

#[test]
fn a_search_of_a_lane_that_gets_no_cpu_ends_at_the_second_look() {
    let it = Three::new();
    let idle = it.crew().idle();
    it.post(0);
    it.idles(1);
    assert_eq!(idle.claim(0, |_| Cost::Ring), Some(1));
    it.idles(2);
    let _ = it.watch.look(LOOK_NS);
    assert!(idle.anyone_searches() && it.told().is_empty());
    let _ = it.watch.look(2 * LOOK_NS - 1);
    assert!(idle.anyone_searches(), "too soon");
    let _ = it.watch.look(2 * LOOK_NS);
    assert!(!idle.anyone_searches());
    assert_eq!((it.told(), it.dog.counts().revoked), (vec![2], 1));
    it.drain(0);
}

#[test]
fn it_pauses_and_parks_until_it_is_told_to_end() {
    let three = Three::new();
    let dog = Arc::clone(&three.dog);
    let front = three.fronts[1].clone();
    let run = move || Watch::new(&dog, &Arc::default(), [front]).run();
    let thread = std::thread::spawn(run);
    // Nothing waits behind a poll, so it comes to park, and a task wakes it up.
    while three.dog.counts().parks == 0 {
        std::thread::yield_now();
    }
    three.post(0);
    while three.dog.counts().unheard == 0 {
        std::thread::yield_now();
    }
    assert!(three.dog.counts().rings >= 1);
    three.dog.close();
    thread.join().unwrap();
    three.drain(0);
}
