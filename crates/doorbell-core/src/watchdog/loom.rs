//! The watchdog in every interleaving: what is published while it parks, and asks that several lanes take.

// What a model counts with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{StuckSet, Took, Watch, Watchdog};
use crate::crew::{Crew, CrewSpec, FrontRef};
use crate::queue::Share;
use crate::task::Local;
use crate::testing::model::{Shows, check, join_all, must_be_noticed_by, mutant};
use crate::testing::{Item, Log};
use crate::wheel::{Base, Clock};
use ::loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use ::loom::thread::{self, JoinHandle};
use doorbell_machine::{Bug, Loom, Machine};
use std::sync::Arc;

/// When the timer of a model is due.
const DUE_NS: u64 = 1;

/// The fronts of two lanes, of which the first is inside a poll, and their watchdog, about to park.
fn parks<const BUG: u8>() -> ([FrontRef<Loom<BUG>>; 2], JoinHandle<()>) {
    let dog = Arc::new(Watchdog::default());
    let spec = CrewSpec {
        watchdog: Some(Arc::clone(&dog)),
        ..CrewSpec::default()
    };
    let fronts = Crew::described(2, &Arc::default(), spec, |_, _| 0);
    let fronts: [_; 2] = fronts.try_into().expect("a crew of two has two fronts");
    let front = fronts[1].clone();
    let watch = move || Watch::new(&dog, &Arc::new(Clock::default()), [front]).park();
    (fronts, thread::spawn(watch))
}

/// A task is pushed behind the poll of the first lane.
fn push_against_park<const BUG: u8>() {
    let (fronts, watchdog) = parks::<BUG>();
    let front = &fronts[0];
    let node = Item::boxed(1, &Log::default());
    // SAFETY: this thread is the owner; the node lives until it is taken out.
    let _ = unsafe { front.queue().push(node, Share::Always) };
    front.crew().work().add_anew(front.lane());
    Loom::<BUG>::fence_recheck();
    front.crew().offer_one(front.lane());
    watchdog.join().unwrap();
    // SAFETY: this thread is the owner.
    let node = unsafe { front.queue().pop() }.expect("nobody ran it");
    // SAFETY: made above, and in no queue any more.
    let _ = unsafe { Item::reclaim(node) };
}

/// The first lane arms a timer, and its poll goes on.
fn timer_against_park<const BUG: u8>() {
    let (fronts, watchdog) = parks::<BUG>();
    let lane = Local::new(fronts[0].clone());
    lane.note_timer(DUE_NS, Base::Global);
    watchdog.join().unwrap();
}

/// The watchdog is told to end.
fn close_against_park<const BUG: u8>() {
    let (fronts, watchdog) = parks::<BUG>();
    let dog = fronts[0].crew().watchdog().expect("the crew has one");
    dog.close();
    watchdog.join().unwrap();
}

/// A set, and what waits at its first lane.
struct Asks<const BUG: u8> {
    set: StuckSet<Loom<BUG>>,
    waits: AtomicU32,
    /// The latest that was seen by whoever took an ask; a std atomic, so that it orders nothing.
    seen: std::sync::atomic::AtomicU32,
}

impl<const BUG: u8> Asks<BUG> {
    fn take(&self) {
        if self.set.take(0) == Took::Yes {
            self.seen.fetch_max(self.waits.load(Relaxed), Relaxed);
        }
    }
}

/// The watchdog asks twice, and two lanes take what is asked.
fn ask_against_take_against_ask<const BUG: u8>() {
    let asks = Arc::new(Asks::<BUG> {
        set: StuckSet::new(2),
        waits: AtomicU32::new(0),
        seen: std::sync::atomic::AtomicU32::new(0),
    });
    let takers = [(); 2].map(|()| {
        let asks = Arc::clone(&asks);
        thread::spawn(move || asks.take())
    });
    for waits in 1..=2 {
        asks.waits.store(waits, Relaxed);
        asks.set.ask(0);
    }
    join_all(takers);
    asks.take();
    assert_eq!(asks.seen.load(Relaxed), 2, "an ask was forgotten");
}

#[test]
fn what_is_pushed_while_it_parks_is_looked_after() {
    check(push_against_park::<0>);
}

#[test]
fn a_timer_that_is_armed_while_it_parks_is_looked_after() {
    check(timer_against_park::<0>);
}

#[test]
fn a_request_to_end_while_it_parks_is_not_lost() {
    check(close_against_park::<0>);
}

#[test]
fn each_ask_is_followed_by_a_look() {
    check(ask_against_take_against_ask::<0>);
}

#[test]
fn mutant_park_blind() {
    mutant!(WatchdogParkBlind, push_against_park);
}

#[test]
fn mutant_timer_untold() {
    mutant!(WatchdogTimerUntold, timer_against_park);
}

#[test]
fn mutant_take_blind() {
    mutant!(WatchdogTakeBlind, ask_against_take_against_ask);
}

#[test]
fn mutant_no_announce_fence() {
    let test = "watchdog::loom::mutant_no_announce_fence";
    let model = push_against_park::<{ Bug::BellNoAnnounceFence as u8 }>;
    must_be_noticed_by(test, Shows::Deadlock, Bug::BellNoAnnounceFence, model);
}
