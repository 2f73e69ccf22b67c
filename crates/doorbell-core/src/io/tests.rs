//! Descriptors on the host: real sockets, real threads.

// Tests on real threads, outside of any model.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod turns;

use super::{
    Cleared, Direction, Driver, Event, Interest, Place, Registration, Rouse, Source, Station, Swept,
};
use crate::bell::{Announced, Bell, Kick, Look, Notified};
use crate::class::Standing;
use doorbell_machine::{Host, Machine, Parker, PollEvents, Readiness, WaitEnd};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWakerVTable, Wake, Waker};

/// A worker without tasks.
pub(super) struct Post<M: Machine> {
    bell: Bell<M>,
    driver: Driver<M>,
    parker: M::Parker,
}

impl<M: Machine> Default for Post<M> {
    fn default() -> Self {
        Post::of(1)
    }
}

impl<M: Machine> Post<M> {
    /// One of so many workers that share a driver.
    pub(super) fn of(workers: u32) -> Self {
        Post {
            bell: Bell::default(),
            driver: Driver::new(workers),
            parker: M::Parker::new(),
        }
    }

    pub(super) fn bell(&self) -> &Bell<M> {
        &self.bell
    }

    pub(super) fn parker(&self) -> &M::Parker {
        &self.parker
    }

    /// Notifies the worker, and rings it where it sleeps.
    pub(super) fn notify(&self) {
        match self.bell.notify(Kick::Take, Standing::Level) {
            Notified::MustRing | Notified::MustHelp if self.driver.is_kept() => self.driver.ring(),
            Notified::MustRing | Notified::MustHelp => self.bell.ring(&self.parker),
            Notified::Running | Notified::Spinning | Notified::Already => {}
        }
    }
}

// SAFETY: the driver is a field.
unsafe impl<M: Machine> Station<M> for Post<M> {
    fn driver(&self) -> &Driver<M> {
        &self.driver
    }
    fn rouse(&self, why: Rouse) {
        // A worker that runs looks itself.
        if why == Rouse::Sweep || self.bell.look() != Look::Running {
            self.notify();
        }
    }
}

/// Counts its wakes.
#[derive(Default)]
pub(super) struct Count(AtomicUsize);

impl Count {
    pub(super) fn waker() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        (count, waker)
    }

    pub(super) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

type Here = Arc<Post<Host>>;

/// A descriptor that the test keeps open for as long as it is registered.
fn name(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: each test drops its registration before its descriptor.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

struct Pair {
    registration: Registration<Host, Here>,
    ours: UnixStream,
    theirs: UnixStream,
}

fn pair(place: &Here) -> Pair {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    Pair {
        registration: Registration::new(Arc::clone(place), name(ours.as_raw_fd())).unwrap(),
        ours,
        theirs,
    }
}

impl Pair {
    fn read(&self, waker: &Waker) -> Poll<io::Result<usize>> {
        let cx = Context::from_waker(waker);
        let read = || (&self.ours).read(&mut [0; 16]);
        self.registration.poll_io(&cx, Direction::Read, read)
    }
}

fn look(place: &Here) -> usize {
    place.driver.look(&mut PollEvents::new())
}

fn sweep(place: &Here) -> Swept {
    place.driver.sweep()
}

/// A source of its own, that no driver has.
fn source() -> Source<Host> {
    Source::new()
}

fn poll(source: &Source<Host>, waker: &Waker, direction: Direction) -> Poll<Event> {
    source.poll_ready(&Context::from_waker(waker), direction)
}

#[test]
fn a_read_waits_for_its_data_and_is_woken_once() {
    let place = Here::default();
    let mut pair = pair(&place);
    let (count, waker) = Count::waker();
    assert!(pair.read(&waker).is_pending());
    assert_eq!(look(&place), 1, "it can be written to");
    assert_eq!(count.get(), 0, "which is nothing to who reads");
    pair.theirs.write_all(b"abc").unwrap();
    assert_eq!(look(&place), 1);
    assert_eq!(count.get(), 1);
    assert!(matches!(pair.read(&waker), Poll::Ready(Ok(3))));
    assert!(pair.read(&waker).is_pending(), "cleared by the OS's word");
    assert_eq!(look(&place), 0);
    pair.theirs.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(look(&place), 1);
    assert_eq!(count.get(), 2);
    for _ in 0..2 {
        assert!(matches!(pair.read(&waker), Poll::Ready(Ok(0))), "the end");
    }
    drop(pair.registration);
    assert_eq!(sweep(&place), Swept::Freed(1));
}

#[test]
fn what_is_cleared_is_what_was_seen() {
    let source = source();
    let (count, waker) = Count::waker();
    source.deliver(Readiness::READABLE.and(Readiness::READ_CLOSED));
    source.deliver(Readiness::WRITABLE);
    let seen = source.look();
    source.deliver(Readiness::READABLE);
    assert_eq!(source.clear(seen, Direction::Read), Cleared::Newer);
    assert!(source.look().readiness().has(Readiness::READABLE));
    let seen = source.look();
    assert_eq!(source.clear(seen, Direction::Read), Cleared::Yes);
    let left = Readiness::WRITABLE.and(Readiness::READ_CLOSED);
    assert_eq!(source.look().readiness(), left);
    assert!(poll(&source, &waker, Direction::Read).is_ready(), "closed");
    assert_eq!(source.clear(seen, Direction::Write), Cleared::Yes);
    assert!(poll(&source, &waker, Direction::Write).is_pending());
    source.deliver(Readiness::PRIORITY);
    assert_eq!(count.get(), 0);
    source.deliver(Readiness::ERROR);
    assert_eq!(count.get(), 1, "an error is something to write");
    assert!(poll(&source, &waker, Direction::Write).is_ready());
}

#[test]
fn an_os_that_says_open_is_believed() {
    let source = source();
    let (_, waker) = Count::waker();
    source.deliver(Readiness::READ_CLOSED);
    let mut calls = 0;
    let polled = source.poll_io(&Context::from_waker(&waker), Direction::Read, || {
        calls += 1;
        io::Result::<()>::Err(io::ErrorKind::WouldBlock.into())
    });
    assert!(polled.is_pending());
    assert_eq!(calls, 1, "it would have called for ever");
}

#[test]
fn n9_an_os_that_says_that_one_of_two_is_open_says_not_which() {
    let source = source();
    let (count, waker) = Count::waker();
    source.deliver(Readiness::READ_CLOSED);
    let mut calls = 0;
    let both = Interest::READABLE | Interest::WRITABLE;
    let mut poll = || {
        source.poll_io(&Context::from_waker(&waker), both, || {
            calls += 1;
            io::Result::<()>::Err(io::ErrorKind::WouldBlock.into())
        })
    };
    assert!(poll().is_pending());
    // One syscall for each poll, because it may have changed.
    assert!(poll().is_pending());
    assert_eq!(calls, 2, "it would have called for ever");
    assert_eq!(source.look().readiness(), Readiness::READ_CLOSED);
    source.deliver(Readiness::READ_CLOSED);
    assert_eq!(count.get(), 1);
}

#[test]
fn the_last_waker_of_a_place_is_woken_and_the_same_one_is_not_cloned() {
    let source = source();
    let ((first, one), (second, two)) = (Count::waker(), Count::waker());
    assert!(poll(&source, &one, Direction::Read).is_pending());
    assert_eq!(Arc::strong_count(&first), 3);
    for _ in 0..3 {
        assert!(poll(&source, &two, Direction::Read).is_pending());
    }
    assert_eq!(Arc::strong_count(&first), 2, "replaced, and dropped");
    assert_eq!(Arc::strong_count(&second), 3, "one clone for three polls");
    assert_eq!(source.count(), (2, 1));
    source.deliver(Readiness::READABLE);
    source.deliver(Readiness::READABLE);
    assert_eq!((first.get(), second.get()), (0, 1));
    assert_eq!(source.count(), (2, 0));
}

#[test]
fn of_all_who_wait_in_places_each_is_woken_and_tries_again() {
    let place = Here::default();
    let mut pair = pair(&place);
    let source = &*pair.registration;
    let waiters: Vec<_> = (0..3).map(|_| Count::waker()).collect();
    let mut places: Vec<_> = (0..3).map(|_| Place::default()).collect();
    let ours = &pair.ours;
    let mut read = |at: usize| {
        let cx = Context::from_waker(&waiters[at].1);
        let read = || (&*ours).read(&mut [0; 1]);
        source.poll_io_in(&cx, Direction::Read, &mut places[at], read)
    };
    assert!((0..3).all(|at| read(at).is_pending()));
    pair.theirs.write_all(b"ab").unwrap();
    look(&place);
    assert!(waiters.iter().all(|(count, _)| count.get() == 1));
    let ready = (0..3).filter(|at| read(*at).is_ready());
    assert_eq!(ready.count(), 2, "as many as there are bytes");
    assert_eq!(source.count(), (5, 1), "who found none waits again");
    pair.theirs.write_all(b"c").unwrap();
    look(&place);
    assert_eq!(waiters[2].0.get(), 2);
}

#[test]
fn a_place_leaves_the_source_that_it_waited_for_when_it_goes_to_another() {
    let (first, second) = (source(), source());
    let (count, waker) = Count::waker();
    let cx = Context::from_waker(&waker);
    let mut place = Place::default();
    let would_wait = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
    for source in [&first, &second] {
        let polled = source.poll_io_in(&cx, Direction::Write, &mut place, would_wait);
        assert!(polled.is_pending());
    }
    assert_eq!((first.count().1, second.count().1), (0, 1));
    first.deliver(Readiness::WRITABLE);
    assert_eq!(count.get(), 0);
    second.deliver(Readiness::WRITABLE);
    assert_eq!(count.get(), 1);
    let polled = second.poll_io_in(&cx, Direction::Write, &mut place, || Ok(()));
    assert!(polled.is_ready());
    drop(place);
    assert_eq!(second.count().1, 0);
}

#[test]
fn futures_wait_beside_each_other_and_their_places_serve_again() {
    let source = source();
    let (count, waker) = Count::waker();
    for round in 1..4 {
        let mut futures: Vec<_> = (0..5)
            .map(|_| Box::pin(source.readiness(Interest::READABLE)))
            .collect();
        for future in &mut futures {
            for _ in 0..2 {
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                assert!(polled.is_pending());
            }
        }
        assert_eq!(source.count(), (7, 5));
        futures.truncate(3);
        assert_eq!(source.count(), (7, 3), "dropped, they wait no more");
        source.deliver(Readiness::WRITABLE);
        source.deliver(Readiness::READABLE);
        assert_eq!(count.get(), 3 * round);
        for future in &mut futures {
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_ready());
        }
        assert_eq!(source.count(), (7, 0));
        assert_eq!(source.clear(source.look(), Direction::Read), Cleared::Yes);
    }
    assert_eq!(Arc::strong_count(&count), 2);
    let mut urgent = pin!(source.readiness(Interest::PRIORITY));
    let mut cx = Context::from_waker(&waker);
    assert!(urgent.as_mut().poll(&mut cx).is_pending());
    source.deliver(Readiness::PRIORITY);
    let event = urgent.as_mut().poll(&mut cx);
    assert!(event.map(|it| it.readiness().has(Readiness::PRIORITY)) == Poll::Ready(true));
}

/// A waker that does something.
struct Does<F: Fn() + Send + Sync>(F);

impl<F: Fn() + Send + Sync> Wake for Does<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn a_waker_that_panics_keeps_nobody_from_being_woken() {
    let source = source();
    let bad = Waker::from(Arc::new(Does(|| panic!("on purpose"))));
    let (count, waker) = Count::waker();
    assert!(poll(&source, &bad, Direction::Read).is_pending());
    let mut wait = pin!(source.readiness(Interest::READABLE));
    assert!(
        wait.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    source.deliver(Readiness::READABLE);
    assert_eq!(count.get(), 1);
    assert!(poll(&source, &waker, Direction::Read).is_ready());
}

#[test]
fn a_clone_that_panics_meets_a_drop_that_panics() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("a waker's drop panics (meant)");
        }
    }
    impl Wake for PanicsInDrop {
        fn wake(self: Arc<Self>) {}
    }
    const PANICS: RawWakerVTable = RawWakerVTable::new(
        |_| resume_unwind(Box::new("cloned")),
        |_| {},
        |_| {},
        |_| {},
    );
    let source = source();
    // The source's share of it is the last one.
    let waker = Waker::from(Arc::new(PanicsInDrop));
    assert!(poll(&source, &waker, Direction::Read).is_pending());
    drop(waker);
    // SAFETY: its functions do nothing with the data.
    let bad = unsafe { Waker::new(std::ptr::null(), &PANICS) };
    let polled = || poll(&source, &bad, Direction::Read);
    let payload = catch_unwind(AssertUnwindSafe(polled)).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"cloned"));
    let (count, waker) = Count::waker();
    assert!(poll(&source, &waker, Direction::Read).is_pending());
    source.deliver(Readiness::READABLE);
    assert_eq!(count.get(), 1);
}

#[test]
fn a_waker_that_comes_back_waits_anew() {
    let source = Arc::new(source());
    let (count, waker) = Count::waker();
    let theirs = Arc::clone(&source);
    let back = Waker::from(Arc::new(Does(move || {
        let seen = theirs.look();
        assert_eq!(theirs.clear(seen, Direction::Read), Cleared::Yes);
        assert!(poll(&theirs, &waker, Direction::Read).is_pending());
        theirs.deliver(Readiness::READABLE);
    })));
    assert!(poll(&source, &back, Direction::Read).is_pending());
    source.deliver(Readiness::READABLE);
    assert_eq!(count.get(), 1);
}

#[test]
fn what_cannot_be_waited_for_is_refused_and_leaves_nothing() {
    let place = Here::default();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let refused = Registration::new(Arc::clone(&place), name(file.as_raw_fd()));
    let error = io::Error::from(refused.unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(error.raw_os_error().is_some(), "it is the OS's own");
    let pair = pair(&place);
    let twice = Registration::new(Arc::clone(&place), name(pair.ours.as_raw_fd()));
    let twice = io::Error::from(twice.unwrap_err());
    assert_eq!(twice.kind(), io::ErrorKind::AlreadyExists);
    assert!(twice.raw_os_error().is_some(), "it is the OS's own");
    assert!(place.driver.has_sources());
    assert_eq!(sweep(&place), Swept::Freed(2));
    drop(pair.registration);
    assert!(!place.driver.has_sources());
    assert_eq!(sweep(&place), Swept::Freed(1));
    assert_eq!(sweep(&place), Swept::Nothing);
    assert_eq!(place.driver.stranded(), 0);
}

#[test]
fn a_poller_is_opened_once_whoever_is_first() {
    let place = Here::default();
    assert!(place.driver.poller().is_none());
    let open = || std::ptr::from_ref(place.driver.open_poller().unwrap()).addr();
    let opened: Vec<usize> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(opened, [open(); 4]);
}

/// Gives up a descriptor and sweeps when it is called; notes what it found.
struct Sweeps {
    place: Here,
    given_up: Mutex<Option<Pair>>,
    found: Mutex<Option<(bool, Swept)>>,
}

impl Wake for Sweeps {
    fn wake(self: Arc<Self>) {
        drop(self.given_up.lock().unwrap().take());
        let found = (self.place.driver.is_kept(), sweep(&self.place));
        *self.found.lock().unwrap() = Some(found);
    }
}

/// Both are ready in one poll of the keeper. The waker of the one gives up the other, whose event comes next.
#[test]
fn a_waker_that_the_keeper_calls_finds_no_keeper_and_frees_nothing() {
    let place = Here::default();
    let (mut one, mut other) = (pair(&place), pair(&place));
    one.theirs.write_all(b"a").unwrap();
    other.theirs.write_all(b"b").unwrap();
    let sweeps = Arc::new(Sweeps {
        place: Arc::clone(&place),
        given_up: Mutex::new(Some(other)),
        found: Mutex::new(None),
    });
    let waker = Waker::from(Arc::clone(&sweeps));
    let cx = Context::from_waker(&waker);
    assert!(
        one.registration
            .poll_ready(&cx, Direction::Read)
            .is_pending()
    );
    assert_eq!(place.bell.announce_spin(), Announced::Yes);
    let keeper = place.driver.try_keep(0).expect("there are descriptors");
    assert_eq!(place.bell.announce_park(), Announced::Yes);
    let ended = keeper.park(&place.bell, None, &mut PollEvents::new(), || {});
    assert_eq!(ended, WaitEnd::Ready);
    let _ = place.bell.end_idle();
    let found = sweeps.found.lock().unwrap().take();
    assert_eq!(found, Some((false, Swept::Later)));
    assert_eq!(sweep(&place), Swept::Freed(1));
}

#[test]
fn what_the_os_does_not_give_back_stays_until_the_driver_goes() {
    let place = Here::default();
    let pair = pair(&place);
    let poller = place.driver.poller().unwrap();
    poller.remove_fd(name(pair.ours.as_raw_fd())).unwrap();
    drop(pair.registration);
    assert_eq!(place.driver.stranded(), 1);
    assert!(!place.driver.has_sources());
    assert_eq!(sweep(&place), Swept::Nothing);
}

#[test]
fn a_worker_that_ends_wakes_all_and_takes_no_more() {
    let place = Here::default();
    let (early, other) = (pair(&place), pair(&place));
    let (count, waker) = Count::waker();
    assert!(early.read(&waker).is_pending());
    let mut wait = pin!(other.registration.readiness(Interest::READABLE));
    assert!(
        wait.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    place.driver.end_worker();
    assert_eq!(count.get(), 2);
    assert!(matches!(early.read(&waker), Poll::Ready(Err(_))));
    let event = wait.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(event.map(Event::is_shut) == Poll::Ready(true));
    let late = Registration::new(Arc::clone(&place), name(early.ours.as_raw_fd()));
    assert!(matches!(late, Err(super::RegisterError::WorkerGone)));
    let (fd, _theirs) = (early.ours, early.theirs);
    drop(early.registration);
    assert_eq!(sweep(&place), Swept::Later, "it stays");
    let later = Registration::new(Arc::clone(&place), name(fd.as_raw_fd()));
    assert!(matches!(later, Err(super::RegisterError::WorkerGone)));
}

#[test]
fn a_worker_that_sleeps_is_told_of_what_piles_up() {
    let place = Here::default();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let mut told = Vec::new();
    for round in 1..=600 {
        let registration = Registration::new(Arc::clone(&place), name(ours.as_raw_fd()));
        drop(registration.unwrap());
        if place.bell.signalled() {
            let _ = place.bell.end_idle();
            told.push(round);
        }
    }
    assert_eq!(told, [256, 512]);
    assert_eq!(sweep(&place), Swept::Freed(600));
}

/// Descriptors come and go on one thread, bytes on a second, visitors on a third, and the worker polls
/// and sweeps: every byte is read, and everything is freed.
#[test]
fn nothing_is_lost_among_visitors() {
    let place = Here::default();
    let (over, read) = (AtomicUsize::new(0), AtomicU64::new(0));
    let (rounds, bytes) = (300, 3);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while over.load(Relaxed) == 0 {
                    look(&place);
                }
            });
        }
        let worker = scope.spawn(|| {
            let mut freed = 0;
            while over.load(Relaxed) == 0 {
                look(&place);
                if let Swept::Freed(count) = sweep(&place) {
                    freed += count;
                }
            }
            freed
        });
        for _ in 0..rounds {
            let mut pair = pair(&place);
            let (_, idle) = Count::waker();
            assert!(pair.read(&idle).is_pending());
            let writer = pair.theirs.try_clone().unwrap();
            scope.spawn(move || (0..bytes).for_each(|_| (&writer).write_all(b"x").unwrap()));
            let mut left = bytes;
            while left > 0 {
                let polled = std::future::poll_fn(|cx| pair.read(cx.waker()));
                let count = crate::wait::block_on::<Host, _>(polled, 0).unwrap();
                read.fetch_add(count as u64, Relaxed);
                left -= count;
            }
            pair.theirs.write_all(b"for nobody").unwrap();
        }
        over.store(1, Relaxed);
        let freed = worker.join().unwrap();
        assert!(freed <= rounds);
    });
    assert_eq!(read.load(Relaxed), (rounds * bytes) as u64);
    assert!(!place.driver.has_sources());
    let _ = sweep(&place);
    assert_eq!(sweep(&place), Swept::Nothing);
    assert_eq!(place.driver.stranded(), 0);
}
