//! Timers with slack: when a look fires them, and when a worker wakes for them.

use super::Rig;
use super::model::World;
use crate::wheel::{Base, TimerReleased, Window};
use crate::worker::timer::Reset;
use doorbell_machine::{Host, Machine};
use std::time::Duration;

/// A base with these windows.
fn world_of(windows: &[Window]) -> World {
    let mut world = World::new(0);
    for window in windows {
        world.arm(Base::Global, *window);
        world.check();
    }
    world
}

const fn window(from_ns: u64, latest_ns: u64) -> Window {
    Window { from_ns, latest_ns }
}

#[test]
fn a_worker_wakes_for_the_least_latest_time_and_fires_all_deadlines_before() {
    // The slots are coarse and fine; the least latest time is in the second one.
    let mut world = world_of(&[
        window(10, 9_000),
        window(200, u64::MAX),
        window(70, 5_000),
        window(4_999, 1 << 40),
        window(5_001, 5_002),
    ]);
    assert_eq!(world.next_of_both(), window(10, 5_000));
    world.advance(5_000);
    assert_eq!(world.next_of_both(), window(5_001, 5_002));
    world.finish();
}

#[test]
fn a_cancelled_window_counts_until_its_slot_is_empty() {
    // The first two share a slot.
    let mut world = world_of(&[
        window(130, 9_000),
        window(140, 6_000),
        window(10, u64::MAX),
        window(300, 8_000),
    ]);
    assert_eq!(world.next_of_both().latest_ns, 6_000);
    world.cancel(1);
    // A wake too early, for nothing: the other one in that slot would have waited.
    assert_eq!(world.next_of_both().latest_ns, 6_000);
    world.cancel(0);
    assert_eq!(world.next_of_both().latest_ns, 8_000);
    world.finish();
}

#[test]
fn a_cancelled_window_of_the_first_slot_does_not_count() {
    let mut world = world_of(&[window(130, 9_000), window(140, 6_000), window(131, 7_000)]);
    world.cancel(1);
    assert_eq!(world.next_of_both(), window(130, 7_000));
    world.finish();
}

#[test]
fn a_window_goes_with_its_timer_to_finer_slots() {
    let from_ns = (1 << 30) + (3 << 12) + 5;
    let mut world = world_of(&[
        window(from_ns, from_ns + 700),
        window(from_ns + 1, from_ns + 600),
    ]);
    for at_ns in [1 << 30, (1 << 30) + (3 << 12), from_ns - 1] {
        world.advance(at_ns);
        assert_eq!(world.next_of_both(), window(from_ns, from_ns + 600));
    }
    world.finish();
}

#[test]
fn a_window_that_is_open_or_over_is_of_the_present() {
    let mut world = World::new(1_000);
    world.arm(Base::Local, window(3, 5));
    assert_eq!(world.next_of_both(), window(1_000, 1_000));
    world.advance(1_000);
    world.arm(Base::Local, window(3, 5_000));
    assert_eq!(world.next_of_both(), window(1_000, 5_000));
    world.finish();
}

#[test]
fn no_wake_is_asked_for_where_every_window_is_without_end() {
    let mut world = world_of(&[window(10, u64::MAX), window(7, u64::MAX)]);
    assert_eq!(world.next_of_both(), window(7, u64::MAX));
    world.advance(8);
    assert_eq!(world.timers.len(), 1, "a look fires what has come");
    world.finish();
}

#[test]
fn a_window_ends_at_a_multiple_of_its_slack() {
    let ns = Duration::from_nanos;
    for (from_ns, slack, latest_ns) in [
        (7, ns(0), 7),
        (7, ns(1), 7),
        (7, ns(5), 10),
        (10, ns(5), 10),
        (0, ns(5), 0),
        (7, ns(1_000), 1_000),
        (u64::MAX - 1, ns(2), u64::MAX - 1),
        (u64::MAX - 1, ns(1 << 40), u64::MAX),
        (7, Duration::MAX, u64::MAX),
    ] {
        let expected = window(from_ns, latest_ns);
        assert_eq!(Window::with_slack(from_ns, slack), expected, "{slack:?}");
    }
}

/// It was armed in the poll under way, so it is left to its worker.
#[test]
fn no_visitor_comes_again_for_a_timer_without_an_end_that_it_left() {
    const UNDER_WAY: u16 = 8;
    let world = world_of(&[window(5, u64::MAX)]);
    for known in world.timers.values() {
        // SAFETY: this thread has the wheel; the entry hangs in it.
        unsafe { known.entry.as_ref() }.polls.set(UNDER_WAY);
    }
    let visit = |polls| {
        let taken = world
            .wheel
            .with(Base::Global, |base| base.take(10, Some(polls)));
        let (taken, next_ns) = taken.expect("nobody visits");
        let fired: u64 = taken
            .into_iter()
            .flatten()
            .map(TimerReleased::end::<Host>)
            .sum();
        (fired, next_ns)
    };
    assert_eq!(visit(UNDER_WAY), (0, u64::MAX));
    assert_eq!(visit(UNDER_WAY + 1), (1, u64::MAX));
    world.wheel.close(&<Host as Machine>::Parker::new());
}

#[test]
fn a_visitor_fires_by_the_deadline_and_publishes_the_next_latest_time() {
    let world = world_of(&[window(5, 100), window(20, 90)]);
    let (taken, next_ns) = world
        .wheel
        .with(Base::Global, |base| base.take(10, None))
        .expect("nobody visits");
    let fired: u64 = taken
        .into_iter()
        .flatten()
        .map(TimerReleased::end::<Host>)
        .sum();
    assert_eq!((fired, next_ns), (1, 90));
    world.wheel.close(&<Host as Machine>::Parker::new());
}

/// A worker's own times, and what it publishes.
#[track_caller]
fn assert_noted(rig: &Rig, expected: Window) {
    assert_eq!(rig.local.due_ns(), Some(expected.from_ns));
    assert_eq!(rig.local.wake_ns(), expected.latest_ns);
    assert_eq!(rig.remote().next_global_ns(), expected.latest_ns);
}

#[test]
fn a_worker_notes_both_ends_however_the_timer_is_armed() {
    let rig = Rig::new();
    let now_ns = rig.now();
    let far = window(now_ns + 1_000, now_ns + 5_000);
    let mut here = rig.arm(far);
    assert_noted(&rig, far);

    // Behind it, but it needs a wake before.
    let mailed = rig.mail(window(now_ns + 2_000, now_ns + 3_000));
    rig.serve();
    assert_noted(&rig, window(now_ns + 1_000, now_ns + 3_000));

    let near = window(now_ns + 10, now_ns + 2_999);
    assert_eq!(rig.enter(|| here.raw.reset(near)), Reset::Done);
    assert_noted(&rig, near);

    assert_eq!(rig.expire_at(now_ns + 9), 0);
    assert_eq!(rig.expire_at(now_ns + 10), 1, "it does not wait");
    assert_noted(&rig, window(now_ns + 2_000, now_ns + 3_000));
    assert_eq!(rig.expire_at(now_ns + 3_000), 1);
    rig.enter(|| drop((here, mailed)));
    rig.close();
}
