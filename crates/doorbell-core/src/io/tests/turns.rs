//! In which order waits end, and by what.

use super::{Cleared, Direction, Does, Interest, Place, Source, poll, source};
use doorbell_machine::{Host, Readiness};
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

/// Tasks that wait by places, and the order in which they were woken.
struct Ordered {
    wakers: Vec<Waker>,
    woken: Arc<Mutex<Vec<usize>>>,
}

impl Ordered {
    fn new(count: usize) -> Self {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let waker = |at| {
            let woken = Arc::clone(&woken);
            Waker::from(Arc::new(Does(move || woken.lock().unwrap().push(at))))
        };
        let wakers = (0..count).map(waker).collect();
        Ordered { wakers, woken }
    }

    fn cx(&self, at: usize) -> Context<'_> {
        Context::from_waker(&self.wakers[at])
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.woken.lock().unwrap())
    }
}

/// The OS says that it would have to wait.
fn nothing() -> io::Result<()> {
    Err(io::ErrorKind::WouldBlock.into())
}

#[test]
fn n4_an_event_wakes_the_oldest_wait_first() {
    // More than one walk finds, and in cells that served before.
    const WAITS: usize = 40;
    let source = source();
    let order = Ordered::new(WAITS + 1);
    let wait = |at: usize| {
        let mut wait = Box::pin(source.readiness(Interest::READABLE));
        assert!(wait.as_mut().poll(&mut order.cx(at)).is_pending());
        wait
    };
    let mut waits: Vec<_> = (0..WAITS / 2).map(wait).collect();
    // Every third one goes, and younger ones get the cells.
    for at in (0..WAITS / 2).step_by(3) {
        waits[at] = wait(WAITS);
    }
    for at in (0..WAITS / 2).step_by(3) {
        drop(std::mem::replace(&mut waits[at], wait(at + WAITS / 2)));
    }
    // One by the slot of its direction, which comes in between.
    assert!(poll(&source, &order.wakers[WAITS], Direction::Read).is_pending());
    waits.push(wait(1));
    source.deliver(Readiness::READABLE);
    let kept = (0..WAITS / 2).filter(|at| at % 3 != 0);
    let replaced = (0..WAITS / 2).step_by(3).map(|at| at + WAITS / 2);
    let all: Vec<_> = kept.chain(replaced).chain([WAITS, 1]).collect();
    assert_eq!(order.take(), all);
}

#[test]
fn n4_who_came_too_late_keeps_its_turn() {
    let source = source();
    let order = Ordered::new(4);
    let mut places: Vec<_> = (0..4).map(|_| Place::default()).collect();
    let mut wait = |at: usize, is_there: bool| {
        let f = || if is_there { Ok(()) } else { nothing() };
        let polled = source.poll_io_in(&order.cx(at), Direction::Read, &mut places[at], f);
        if polled.is_ready() {
            places[at] = Place::default();
        }
        polled
    };
    assert!((0..4).all(|at| wait(at, false).is_pending()));
    for round in 0..8 {
        source.deliver(Readiness::READABLE);
        let woken = order.take();
        let turns: Vec<_> = (0..4).map(|at| (at + round) % 4).collect();
        assert_eq!(woken, turns);
        // The first one takes what there is, and waits for the next before the others have looked.
        assert!(wait(woken[0], true).is_ready());
        assert!(wait(woken[0], false).is_pending());
        assert!(woken[1..].iter().all(|at| wait(*at, false).is_pending()));
    }
}

#[test]
fn n5_an_event_ends_every_wait_that_was_pending_at_it() {
    let source = source();
    let order = Ordered::new(3);
    let mut places: Vec<_> = (0..3).map(|_| Place::default()).collect();
    let mut ready = |at: usize| {
        let polled = source.poll_ready_in(&order.cx(at), Direction::Read, &mut places[at]);
        polled.is_ready()
    };
    assert!((0..3).all(|at| !ready(at)));
    source.deliver(Readiness::READABLE);
    assert!(ready(0));
    // The first one takes all, and says so.
    let seen = source.look();
    assert_eq!(source.clear(seen, Direction::Read), Cleared::Yes);
    assert!(ready(1) && ready(2), "they waited when it came");
    assert!((0..3).all(|at| !ready(at)), "new waits");
    // A poll in between is no event.
    assert!((0..3).all(|at| !ready(at)));
    let mut wait = pin!(source.readiness(Interest::READABLE));
    assert!(wait.as_mut().poll(&mut order.cx(0)).is_pending());
    source.deliver(Readiness::READABLE);
    let seen = source.look();
    assert_eq!(source.clear(seen, Direction::Read), Cleared::Yes);
    assert!(wait.as_mut().poll(&mut order.cx(0)).is_ready());
}

#[test]
fn n5_an_event_ends_a_wait_whose_waker_is_being_cloned() {
    /// Its clone stands for what other threads do meanwhile: an event comes, and a task takes what it brought.
    const BUSY: RawWakerVTable = RawWakerVTable::new(
        |source| {
            // SAFETY: the test keeps the source longer than all its wakers.
            let source = unsafe { &*source.cast::<Source<Host>>() };
            source.deliver(Readiness::READABLE);
            let seen = source.look();
            assert_eq!(source.clear(seen, Direction::Read), Cleared::Yes);
            RawWaker::new(std::ptr::from_ref(source).cast(), &BUSY)
        },
        |_| {},
        |_| {},
        |_| {},
    );
    let source = source();
    // SAFETY: its clone is safe as said there, and the other functions do nothing.
    let busy = unsafe { Waker::new(std::ptr::from_ref(&source).cast(), &BUSY) };
    let mut wait = pin!(source.readiness(Interest::READABLE));
    let first = &mut Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(first).is_pending());
    let polled = wait.as_mut().poll(&mut Context::from_waker(&busy));
    assert!(polled.is_ready(), "it waits on, past the event");
}
