//! Any descriptor in tasks.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::net::{AlreadyRegistered, AsyncFd, Direction};
use doorbell::{Builder, Runtime};
use rustix::event::{EventfdFlags, eventfd};
use std::fmt::Debug;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_secs(30);

fn runtime() -> Runtime {
    Builder::new().cores(2).build().unwrap()
}

/// A runtime with one worker, which has all descriptors.
fn one_worker() -> Runtime {
    Builder::new().cores(1).build().unwrap()
}

/// Waits by a second object for the same descriptor. Returns the error.
async fn refused<T: AsFd + Debug>(second: &AsyncFd<T>) -> io::Error {
    let readable = doorbell::time::timeout(LONG, second.readable()).await;
    readable.expect("no endless wait").unwrap_err()
}

/// A counter of the OS that tasks can wait for.
fn counter() -> AsyncFd<OwnedFd> {
    AsyncFd::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
}

/// Takes the count, if it is not 0.
fn take(fd: &OwnedFd) -> io::Result<u64> {
    let mut count = [0; 8];
    rustix::io::read(fd, &mut count)?;
    Ok(u64::from_ne_bytes(count))
}

fn add(fd: &AsyncFd<OwnedFd>, count: u64) {
    rustix::io::write(fd.get_ref(), &count.to_ne_bytes()).unwrap();
}

async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// Checks that a syscall that would block clears readiness. A worker may have read an older event before
/// that syscall and report it afterwards, once for each event in progress: a few times, not forever.
async fn empty_until_pending(fd: &AsyncFd<OwnedFd>) {
    for _ in 0..10 {
        let empty = fd.try_io(Direction::Read, take).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        if is_pending(pin!(fd.readable())).await {
            return;
        }
    }
    panic!("readiness outlasts syscalls that would wait");
}

/// A number without a descriptor.
#[derive(Debug)]
struct Closed(RawFd);

impl AsFd for Closed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: nothing is open there, so nothing can go wrong but the call.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_task_waits_for_a_descriptor_of_any_kind() {
    let runtime = runtime();
    runtime.block_on(async {
        let counter = Arc::new(counter());
        let theirs = Arc::clone(&counter);
        let waits = doorbell::spawn(async move {
            let mut tries = 0;
            let taken = theirs.async_io(Direction::Read, |fd| {
                tries += 1;
                take(fd)
            });
            (taken.await.unwrap(), tries)
        });
        doorbell::time::sleep(Duration::from_millis(10)).await;
        assert!(!waits.is_finished());
        add(&counter, 7);
        let (taken, tries) = waits.await.unwrap();
        assert_eq!(taken, 7);
        assert!((2..=4).contains(&tries), "{tries} tries, and no spinning");
    });
}

#[test]
fn of_several_tasks_that_wait_each_is_woken() {
    const TASKS: u64 = 8;
    let runtime = runtime();
    runtime.block_on(async {
        // Each read takes one.
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
        let counter = Arc::new(AsyncFd::new(eventfd(0, flags).unwrap()));
        let started = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (0..TASKS)
            .map(|_| {
                let (counter, started) = (Arc::clone(&counter), Arc::clone(&started));
                doorbell::spawn(async move {
                    started.fetch_add(1, SeqCst);
                    counter.async_io(Direction::Read, take).await.unwrap()
                })
            })
            .collect();
        while started.load(SeqCst) < TASKS as usize {
            doorbell::yield_now().await;
        }
        doorbell::time::sleep(Duration::from_millis(10)).await;
        add(&counter, TASKS);
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap(), 1);
        }
    });
}

#[test]
fn readiness_lasts_until_a_syscall_would_wait() {
    let runtime = runtime();
    runtime.block_on(async {
        let counter = counter();
        counter.writable().await.unwrap();
        assert!(is_pending(pin!(counter.readable())).await);
        add(&counter, 1);
        for _ in 0..3 {
            counter.readable().await.unwrap();
        }
        assert_eq!(counter.try_io(Direction::Read, take).unwrap(), 1);
        empty_until_pending(&counter).await;
        add(&counter, 2);
        poll_fn(|cx| counter.poll_ready(cx, Direction::Read))
            .await
            .unwrap();
        let taken = poll_fn(|cx| counter.poll_io(cx, Direction::Read, take)).await;
        assert_eq!(taken.unwrap(), 2);
    });
}

#[test]
fn l1_a_future_that_is_dropped_leaves_no_waker() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let counter = counter();
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    {
        let mut first = pin!(counter.async_io(Direction::Read, take));
        let mut second = pin!(counter.readable());
        let mut cx = Context::from_waker(&waker);
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert_eq!(Arc::strong_count(&count), 4, "each has one");
    }
    assert_eq!(Arc::strong_count(&count), 2, "none is left");
    add(&counter, 1);
    assert_eq!(
        runtime
            .block_on(counter.async_io(Direction::Read, take))
            .unwrap(),
        1
    );
    assert_eq!(count.0.load(SeqCst), 0, "nobody was woken for it");
}

#[test]
fn s8_what_nobody_takes_wakes_no_worker_again() {
    let runtime = runtime();
    let counter = counter();
    runtime.block_on(async { assert!(is_pending(pin!(counter.readable())).await) });
    let unparks = || {
        let metrics = runtime.metrics();
        let ready = metrics.workers.iter().map(|it| it.raw().unparks_ready);
        ready.sum::<u64>()
    };
    add(&counter, 1);
    // On busy CPUs it takes a while until a worker learns of it, unless the worker looked before.
    for _ in 0..20 {
        if unparks() > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = unparks();
    std::thread::sleep(Duration::from_millis(50));
    // One more because the socket became writable, and not one for each moment.
    assert!(unparks() <= before + 2, "{before}, {}", unparks());
    assert_eq!(counter.try_io(Direction::Read, take).unwrap(), 1);
}

#[test]
fn n6_a_spent_budget_is_no_error_where_nothing_waits() {
    let runtime = one_worker();
    // The OS cannot wait for a regular file, so an operation succeeds only as long as nothing waits.
    let task = runtime.spawn(async {
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let file = AsyncFd::new(file);
        for _ in 0..300 {
            let read = |file: &std::fs::File| Ok(rustix::io::pread(file, &mut [0; 4], 0)?);
            assert_eq!(file.async_io(Direction::Read, read).await.unwrap(), 4);
        }
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn n6_what_the_os_does_not_wait_for_is_its_error() {
    let runtime = runtime();
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let file = AsyncFd::new(file);
    let error = runtime.block_on(file.readable()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    // Operations that need not wait succeed.
    let read = |mut file: &std::fs::File| file.read(&mut [0; 4]);
    let read = runtime.block_on(file.async_io(Direction::Read, read));
    assert_eq!(read.unwrap(), 4);
    let waits = |_: &std::fs::File| io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
    let error = runtime.block_on(file.async_io(Direction::Read, waits));
    assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EPERM));
    // And one that is closed.
    let closed = Closed(i32::MAX);
    let closed = AsyncFd::new(closed);
    let error = runtime.block_on(closed.readable());
    assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EBADF));
}

#[test]
fn outside_of_a_runtime_is_an_error_that_says_so() {
    let counter = counter();
    let mut cx = Context::from_waker(Waker::noop());
    let polled = counter.poll_io(&mut cx, Direction::Read, take);
    let Poll::Ready(Err(error)) = polled else {
        panic!("{polled:?}");
    };
    assert!(error.to_string().contains("inside block_on"), "{error}");
}

#[test]
fn it_gives_back_what_it_had() {
    let runtime = runtime();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let ours = AsyncFd::new(ours);
    runtime.block_on(async { assert!(is_pending(pin!(ours.readable())).await) });
    let mut ours = ours.into_inner();
    theirs.write_all(b"x").unwrap();
    ours.read_exact(&mut [0]).unwrap();
    // And again with a new object, including one that only borrows the descriptor.
    let again = AsyncFd::new(&ours);
    runtime.block_on(async { assert!(is_pending(pin!(again.readable())).await) });
    drop(again);
    theirs.write_all(b"y").unwrap();
    ours.read_exact(&mut [0]).unwrap();
}

#[test]
fn of_two_on_one_descriptor_the_second_is_told_so() {
    let runtime = one_worker();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    runtime.block_on(async {
        let (first, second) = (AsyncFd::new(&ours), AsyncFd::new(&ours));
        assert!(is_pending(pin!(first.readable())).await);
        let error = refused(&second).await;
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(error.get_ref().unwrap().is::<AlreadyRegistered>());
        assert!(error.to_string().contains("share one AsyncFd"), "{error}");
        // The first one is unaffected, and a duplicate has its own registration.
        let duplicate = AsyncFd::new(ours.try_clone().unwrap());
        assert!(is_pending(pin!(duplicate.readable())).await);
        theirs.write_all(b"x").unwrap();
        first.readable().await.unwrap();
        duplicate.readable().await.unwrap();
        // After the first one is gone, the second may wait.
        drop(first);
        second.readable().await.unwrap();
    });
}

#[test]
fn one_on_the_descriptor_of_a_socket_that_waits_is_told_so() {
    let runtime = one_worker();
    runtime.block_on(async {
        let (socket, _theirs) = doorbell::net::UnixStream::pair().unwrap();
        assert!(is_pending(pin!(socket.readable())).await);
        let error = refused(&AsyncFd::new(socket.as_fd())).await;
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    });
}

#[test]
fn of_several_threads_that_begin_to_wait_at_once_each_may() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 300;
    let runtime = one_worker();
    let counters: Vec<_> = (0..ROUNDS).map(|_| counter()).collect();
    let barrier = Barrier::new(THREADS);
    let wait_for_all = || {
        let wait = |counter: &AsyncFd<OwnedFd>| {
            barrier.wait();
            runtime.block_on(counter.writable()).map(drop)
        };
        counters.iter().map(wait).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(wait_for_all)).collect();
        for thread in threads {
            for writable in thread.join().unwrap() {
                writable.unwrap();
            }
        }
    });
}
