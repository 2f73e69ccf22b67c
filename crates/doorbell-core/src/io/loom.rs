//! Descriptors in every interleaving: events against those who wait, clear and leave.

// What a model counts with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::tests::{Count, Post};
use super::{Direction, Interest, RegisterError, Registration, Source, Station, Swept};
use crate::bell::Announced;
use crate::testing::model::{check, check_large, join_all, mutant};
use crate::wait::block_on;
use ::loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use ::loom::thread;
use doorbell_machine::loom::LoomFd;
use doorbell_machine::{Loom, PollEvents, Readiness};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

type Place = Arc<Post<Loom>>;

fn place() -> Place {
    Arc::new(Post::default())
}

fn register(place: &Place, fd: usize) -> Registration<Loom, Place> {
    Registration::new(Arc::clone(place), LoomFd(fd)).unwrap()
}

fn set_ready(place: &Place, fd: usize) {
    let poller = place.driver().open_poller().unwrap();
    poller.set_ready(LoomFd(fd), Readiness::READABLE);
}

fn look(place: &Place) -> usize {
    place.driver().look(&mut PollEvents::new())
}

/// An event against a task that is about to wait: it sees the event, or is woken.
fn event_against_arm() {
    let source = Arc::new(Source::<Loom>::new());
    let theirs = Arc::clone(&source);
    let event = thread::spawn(move || theirs.deliver(Readiness::READABLE));
    let (count, waker) = Count::waker();
    let polled = source.poll_ready(&Context::from_waker(&waker), Direction::Read);
    event.join().unwrap();
    assert!(polled.is_ready() || count.get() == 1, "a wake-up was lost");
    assert!(count.get() <= 1);
    let again = source.poll_ready(&Context::from_waker(&waker), Direction::Read);
    assert!(again.is_ready());
}

/// An event against a task that found nothing and says so.
fn event_against_clear() {
    let source = Arc::new(Source::<Loom>::new());
    let data = Arc::new(AtomicU32::new(0));
    // An event that is stale by now: there is nothing to read any more.
    source.deliver(Readiness::READABLE);
    let (theirs, written) = (Arc::clone(&source), Arc::clone(&data));
    let event = thread::spawn(move || {
        // What is written is visible by the event alone.
        written.store(1, Relaxed);
        theirs.deliver(Readiness::READABLE);
    });
    let (count, waker) = Count::waker();
    let read = || match data.load(Relaxed) {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        read => Ok(read),
    };
    let cx = Context::from_waker(&waker);
    let polled = source.poll_io(&cx, Direction::Read, read);
    event.join().unwrap();
    if polled.is_pending() {
        assert_eq!(count.get(), 1, "a wake-up was lost");
        let polled = source.poll_io(&cx, Direction::Read, read);
        assert!(matches!(polled, Poll::Ready(Ok(1))));
    }
}

/// A future and a task that waits in the place of its direction, and one event for both.
fn one_event_and_two_who_wait() {
    let source = Arc::new(Source::<Loom>::new());
    let theirs = Arc::clone(&source);
    let event = thread::spawn(move || theirs.deliver(Readiness::READABLE));
    let ((by_slot, slot), (by_future, future)) = (Count::waker(), Count::waker());
    let first = source.poll_ready(&Context::from_waker(&slot), Direction::Read);
    let mut second = pin!(source.readiness(Interest::READABLE));
    let second = second.as_mut().poll(&mut Context::from_waker(&future));
    event.join().unwrap();
    assert!(first.is_ready() || by_slot.get() == 1);
    assert!(second.is_ready() || by_future.get() == 1);
}

/// A future that waits is polled again while an event comes, and what it brought is taken: the wait ends.
fn event_against_poll_again() {
    let source = Arc::new(Source::<Loom>::new());
    let (count, waker) = Count::waker();
    let cx = &mut Context::from_waker(&waker);
    let mut wait = pin!(source.readiness(Interest::READABLE));
    assert!(wait.as_mut().poll(cx).is_pending());
    let theirs = Arc::clone(&source);
    let event = thread::spawn(move || {
        theirs.deliver(Readiness::READABLE);
        let _ = theirs.clear(theirs.look(), Direction::Read);
    });
    let polled = wait.as_mut().poll(cx);
    event.join().unwrap();
    if polled.is_pending() {
        assert_eq!(count.get(), 1, "a wake-up was lost");
        assert!(wait.as_mut().poll(cx).is_ready(), "the wait goes on");
    }
}

/// A future that is dropped while an event comes leaves no waker behind.
fn event_against_drop() {
    let source = Arc::new(Source::<Loom>::new());
    let theirs = Arc::clone(&source);
    let event = thread::spawn(move || theirs.deliver(Readiness::READABLE));
    let (count, waker) = Count::waker();
    {
        let mut wait = pin!(source.readiness(Interest::READABLE));
        let _ = wait.as_mut().poll(&mut Context::from_waker(&waker));
    }
    event.join().unwrap();
    assert!(count.get() <= 1);
    assert_eq!(source.count().1, 0, "a waker was left behind");
    drop(waker);
    assert_eq!(Arc::strong_count(&count), 1, "a waker was left behind");
}

/// Two tasks that ask in one place, and an event: whoever came last learns of it.
fn two_in_one_place() {
    let source = Arc::new(Source::<Loom>::new());
    let ((first, one), (second, two)) = (Count::waker(), Count::waker());
    let theirs = Arc::clone(&source);
    let other = thread::spawn(move || {
        let cx = Context::from_waker(&one);
        theirs.poll_ready(&cx, Direction::Read).is_ready()
    });
    let theirs = Arc::clone(&source);
    let event = thread::spawn(move || theirs.deliver(Readiness::READABLE));
    let cx = Context::from_waker(&two);
    let mine_knows = source.poll_ready(&cx, Direction::Read).is_ready() || second.get() == 1;
    event.join().unwrap();
    let other_knows = other.join().unwrap() || first.get() == 1;
    let is_known = mine_knows || second.get() == 1 || other_knows;
    assert!(is_known, "a wake-up was lost");
}

/// Somebody visits while a descriptor goes: nothing is freed under him.
fn visit_against_leave() {
    let place = place();
    let registration = register(&place, 0);
    set_ready(&place, 0);
    let theirs = Arc::clone(&place);
    let visitor = thread::spawn(move || {
        look(&theirs);
    });
    drop(registration);
    let swept = place.driver().sweep();
    assert_ne!(swept, Swept::Nothing);
    visitor.join().unwrap();
    let again = place.driver().sweep();
    let freed = [swept, again].contains(&Swept::Freed(1));
    assert!(freed, "{swept:?}, then {again:?}");
    assert!(!place.driver().has_sources());
}

/// The same, with a third thread that gives the descriptor up.
fn visit_against_leave_elsewhere() {
    let place = place();
    let registration = register(&place, 0);
    set_ready(&place, 0);
    let theirs = Arc::clone(&place);
    let visitor = thread::spawn(move || {
        look(&theirs);
    });
    let leaver = thread::spawn(move || drop(registration));
    let _ = place.driver().sweep();
    join_all([visitor, leaver]);
    let _ = place.driver().sweep();
    assert_eq!(place.driver().sweep(), Swept::Nothing);
}

/// Two workers sweep at one moment.
fn two_sweep() {
    let place = place();
    let [first, second] = [0, 1].map(|fd| register(&place, fd));
    drop(first);
    let theirs = Arc::clone(&place);
    let other = thread::spawn(move || {
        drop(second);
        let _ = theirs.driver().sweep();
    });
    let _ = place.driver().sweep();
    other.join().unwrap();
    let _ = place.driver().sweep();
    assert_eq!(place.driver().sweep(), Swept::Nothing);
}

/// A worker ends while another one sweeps, and does not end: who waits is woken.
fn end_against_sweep() {
    let place: Place = Arc::new(Post::of(2));
    let [first, second] = [0, 1].map(|fd| register(&place, fd));
    let (count, waker) = Count::waker();
    let polled = second.poll_ready(&Context::from_waker(&waker), Direction::Read);
    assert!(polled.is_pending());
    drop(first);
    let theirs = Arc::clone(&place);
    let other = thread::spawn(move || {
        let _ = theirs.driver().sweep();
    });
    place.driver().end_worker();
    other.join().unwrap();
    assert_eq!(count.get(), 1, "a wake-up was lost");
    drop(second);
    assert_eq!(place.driver().sweep(), Swept::Later);
}

/// Two workers end at one moment.
fn two_end() {
    let place: Place = Arc::new(Post::of(2));
    let registration = register(&place, 0);
    let (count, waker) = Count::waker();
    let polled = registration.poll_ready(&Context::from_waker(&waker), Direction::Read);
    assert!(polled.is_pending());
    let theirs = Arc::clone(&place);
    let other = thread::spawn(move || theirs.driver().end_worker());
    place.driver().end_worker();
    other.join().unwrap();
    assert_eq!(count.get(), 1, "a wake-up was lost");
    drop(registration);
}

/// A class that did not wait any more begins to again while another one mutes its registration: it hears
/// of what comes.
fn mute_against_arm() {
    let place = place();
    let registration = Arc::new(register(&place, 0));
    for _ in 0..4 {
        registration.deliver(Readiness::READABLE);
    }
    let theirs = Arc::clone(&registration);
    let muter = thread::spawn(move || theirs.mute_if_in_vain());
    let (count, waker) = Count::waker();
    let nothing = || -> io::Result<()> { Err(io::ErrorKind::WouldBlock.into()) };
    let polled = registration.poll_io(&Context::from_waker(&waker), Direction::Read, nothing);
    assert!(polled.is_pending());
    muter.join().unwrap();
    set_ready(&place, 0);
    look(&place);
    assert_eq!(count.get(), 1, "a wake-up was lost");
    drop(registration);
}

/// A worker by hand falls asleep where it has to, unless it was told. What a descriptor brings is in `events`.
fn sleep(place: &Place, events: &mut PollEvents) {
    let (bell, driver) = (place.bell(), place.driver());
    if bell.announce_spin() == Announced::Yes {
        let keeper = driver.try_keep(0);
        if bell.announce_park() == Announced::Yes {
            match keeper {
                None => drop(bell.park(place.parker(), None)),
                Some(keeper) => drop(keeper.park(bell, None, events, || {})),
            }
        }
    }
    let _ = bell.end_idle();
}

/// The same, until told that it is over.
fn run_worker(place: &Place, is_over: impl Fn() -> bool) {
    let mut events = PollEvents::new();
    while !is_over() {
        sleep(place, &mut events);
    }
}

/// A descriptor is registered with a worker that falls asleep, and its task waits for it.
fn register_against_park() {
    let place = place();
    set_ready(&place, 0);
    let over = Arc::new(AtomicU32::new(0));
    let (theirs, told) = (Arc::clone(&place), Arc::clone(&over));
    let task = thread::spawn(move || {
        let registration = register(&theirs, 0);
        let ready = poll_fn(|cx| registration.poll_ready(cx, Direction::Read));
        let event = block_on::<Loom, _>(ready, 0);
        assert!(event.readiness().has(Readiness::READABLE));
        told.store(1, Relaxed);
        theirs.notify();
    });
    run_worker(&place, || over.load(Relaxed) == 1);
    task.join().unwrap();
}

/// The same without a task: the worker is to look at the descriptor, whoever waits for it.
fn note_against_park() {
    let place = place();
    set_ready(&place, 0);
    let theirs = Arc::clone(&place);
    let registrar = thread::spawn(move || register(&theirs, 0));
    let mut events = PollEvents::new();
    while events.is_empty() {
        sleep(&place, &mut events);
    }
    drop(registrar.join().unwrap());
}

/// The last descriptor goes and another comes, while the worker that sleeps in the poller for the first one wakes.
fn one_goes_and_another_comes() {
    let place = place();
    let first = register(&place, 0);
    set_ready(&place, 1);
    let theirs = Arc::clone(&place);
    let registrar = thread::spawn(move || {
        // It wakes the worker for nothing.
        theirs.notify();
        drop(first);
        register(&theirs, 1)
    });
    let mut events = PollEvents::new();
    while events.is_empty() {
        sleep(&place, &mut events);
    }
    drop(registrar.join().unwrap());
}

/// The worker ends while a task is about to wait: it learns that, or was refused.
fn shut_against_register() {
    let place = place();
    let theirs = Arc::clone(&place);
    let (count, waker) = Count::waker();
    let task = thread::spawn(move || {
        let registration = match Registration::new(theirs, LoomFd(0)) {
            Ok(registration) => registration,
            Err(RegisterError::WorkerGone) => return true,
            Err(error) => panic!("{error}"),
        };
        let cx = Context::from_waker(&waker);
        match registration.poll_ready(&cx, Direction::Read) {
            Poll::Ready(event) => event.is_shut(),
            Poll::Pending => {
                // Not dropped before it was told.
                std::mem::forget(registration);
                false
            }
        }
    });
    place.driver().end_worker();
    let knows = task.join().unwrap();
    assert!(knows || count.get() == 1, "a wake-up was lost");
}

/// A descriptor is registered while somebody looks whether there is one: who sees it sees what came before,
/// so that the poller is open. (That of a model always is.)
fn register_against_look() {
    let place = place();
    let opened = Arc::new(AtomicU32::new(0));
    let (theirs, before) = (Arc::clone(&place), Arc::clone(&opened));
    let registrar = thread::spawn(move || {
        before.store(1, Relaxed);
        register(&theirs, 0)
    });
    if place.driver().has_sources() {
        assert_eq!(opened.load(Relaxed), 1, "there is no poller");
    }
    drop(registrar.join().unwrap());
}

/// Two wait again for a descriptor that is muted meanwhile. The first that turns its events on fails. Who turns
/// them on comes after who turned them off.
fn mute_against_two() {
    let source = Arc::new(Source::<Loom>::new());
    let off = Arc::new(AtomicU32::new(0));
    let [one, two] = [(); 2].map(|()| (Arc::clone(&source), Arc::clone(&off)));
    let muter = thread::spawn(move || {
        one.1.store(1, Relaxed);
        let _ = one.0.has_muted();
    });
    let turn_on = |source: &Source<Loom>, off: &AtomicU32| {
        let is_told = source.take_muted();
        assert!(
            !is_told || off.load(Relaxed) == 1,
            "they are turned off last"
        );
        is_told
    };
    let fails = thread::spawn(move || {
        if turn_on(&two.0, &two.1) {
            two.0.stays_muted();
        }
    });
    turn_on(&source, &off);
    join_all([muter, fails]);
}

#[test]
fn who_sees_a_descriptor_sees_an_open_poller() {
    check(register_against_look);
}

#[test]
fn who_turns_events_on_comes_behind_who_turned_them_off() {
    check(mute_against_two);
}

#[test]
fn an_event_is_never_missed() {
    check(event_against_arm);
}

#[test]
fn a_clearing_takes_no_event_that_came_since() {
    check(event_against_clear);
}

#[test]
fn one_event_wakes_all_who_wait() {
    check_large(one_event_and_two_who_wait);
}

#[test]
fn an_event_ends_a_wait_that_is_polled_again() {
    check(event_against_poll_again);
}

#[test]
fn a_dropped_future_leaves_no_waker() {
    check(event_against_drop);
}

#[test]
fn of_two_in_one_place_one_is_woken() {
    check_large(two_in_one_place);
}

#[test]
fn nothing_is_freed_under_a_visitor() {
    check(visit_against_leave);
}

#[test]
fn nothing_is_freed_under_a_visitor_by_a_third() {
    check_large(visit_against_leave_elsewhere);
}

#[test]
fn of_two_who_sweep_one_frees_each_source() {
    check(two_sweep);
}

#[test]
fn who_waits_when_one_of_two_workers_ends_is_woken() {
    check(end_against_sweep);
    check(two_end);
}

#[test]
fn a_worker_that_falls_asleep_gets_its_descriptor() {
    check(note_against_park);
}

#[test]
fn a_worker_that_wakes_as_the_last_descriptor_goes_gets_the_next_one() {
    check_large(one_goes_and_another_comes);
}

#[test]
fn a_task_of_a_worker_that_falls_asleep_is_woken() {
    check_large(register_against_park);
}

#[test]
fn who_registers_while_the_worker_ends_learns_it() {
    check(shut_against_register);
}

#[test]
fn who_waits_again_hears_of_a_descriptor_that_was_muted() {
    check(mute_against_arm);
}

#[test]
fn mutant_mute_blind() {
    mutant!(IoMuteBlind, mute_against_arm);
}

#[test]
fn mutant_clear_blind() {
    mutant!(IoClearBlind, event_against_clear);
}

#[test]
fn mutant_arm_blind() {
    mutant!(IoArmBlind, event_against_arm);
}

#[test]
fn mutant_no_arm_fence() {
    mutant!(IoNoArmFence, event_against_arm);
}

#[test]
fn mutant_no_event_fence() {
    mutant!(IoNoEventFence, event_against_arm);
}

#[test]
fn mutant_held_blind() {
    mutant!(IoHeldBlind, event_against_poll_again);
}

#[test]
fn mutant_sweep_blind() {
    mutant!(IoSweepBlind, visit_against_leave);
}

#[test]
fn mutant_no_note_fence() {
    mutant!(IoNoNoteFence, one_goes_and_another_comes);
}

#[test]
fn mutant_never_left() {
    mutant!(IoNeverLeft, one_goes_and_another_comes);
}
