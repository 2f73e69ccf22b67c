//! Bugs of other projects with descriptors, tested at the public surface. `docs/bugs.md` lists all of them.
//!
//! The tests count the resources of the process, so they run one after another.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::net::{TcpListener, TcpStream};
use doorbell::time::sleep;
use doorbell::{Builder, Runtime, metrics::raw::WorkerCounts};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::{self as std_net, SocketAddr};
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_secs(60);

/// Gives each test the process for itself. If one has failed, the others still run.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Workers that park at once.
fn runtime(cores: usize) -> Runtime {
    let builder = Builder::new().cores(cores).spin(Duration::ZERO);
    builder.build().unwrap()
}

/// The target of each descriptor of the process, including the folder that is being read.
fn descriptors() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter_map(|path| std::fs::read_link(path).ok())
        .map(|target| target.display().to_string())
        .collect()
}

/// Waits until the condition holds. The bound only keeps a bug from hanging the test.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn until_descriptors_are(count: usize, when: &str) {
    let start = Instant::now();
    while descriptors().len() != count {
        let now = descriptors();
        assert!(start.elapsed() < LONG, "{when}: not {count}: {now:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A connection: a stream of the runtime, and the other end of the standard library.
fn pair() -> (TcpStream, std_net::TcpStream) {
    let listener = std_net::TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = std_net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    theirs.set_nodelay(true).unwrap();
    let (ours, _) = listener.accept().unwrap();
    (TcpStream::from_std(ours).unwrap(), theirs)
}

/// Polls a future once, which registers the descriptor that it has to wait for, and drops it.
async fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Registers a stream with the worker of that core and leaves no waiter.
fn register(rt: &Runtime, core: usize, stream: TcpStream) -> TcpStream {
    let task = rt.task().on(core).spawn(async move {
        assert!(poll_once(stream.read(&mut [0; 8])).await.is_pending());
        stream
    });
    rt.block_on(task).unwrap()
}

fn counts(rt: &Runtime, core: usize) -> WorkerCounts {
    rt.metrics().workers[core].raw()
}

/// A simple random generator: xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn spin(&mut self, most: Duration) {
        let time = Duration::from_nanos(self.below(most.as_nanos() as u64));
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }
}

/// Resets the connection: with a linger time of zero, closing sends a reset.
fn reset(stream: std_net::TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

#[test]
fn w18_a_worker_is_rung_while_others_look_into_the_poller() {
    const VISITS: u64 = 5;
    let _alone = alone();
    let rt = runtime(2);
    let (ours, mut theirs) = pair();
    // Answers each byte, and stays inside a poll for a while before it waits again, so that the other worker sleeps in the
    // poller.
    let answers = rt.task().on(0).spawn(async move {
        let mut byte = [0];
        while ours.read(&mut byte).await.unwrap() == 1 {
            ours.write_all(&byte).await.unwrap();
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(2) {
                std::hint::spin_loop();
            }
        }
    });
    let mut dice = Dice(18);
    let start = Instant::now();
    let mut rounds = 0_u64;
    while counts(&rt, 1).unparks_ready < VISITS {
        assert!(
            start.elapsed() < LONG,
            "{rounds} rounds, {:?}",
            rt.metrics()
        );
        // A task waits behind the poll, so that another worker comes to look.
        let behind = rt.spawn(async {});
        theirs.write_all(&[1]).unwrap();
        dice.spin(Duration::from_millis(4));
        // By a ring if the worker sleeps. It is not lost to a worker that looks.
        assert_eq!(rt.call_blocking(0, || 18).unwrap(), 18);
        theirs.read_exact(&mut [0]).unwrap();
        rt.block_on(behind).unwrap();
        rounds += 1;
    }
    drop(theirs);
    rt.block_on(answers).unwrap();
    let done = counts(&rt, 0);
    // At most one for each announced park.
    let announced = done.parks + done.parks_avoided;
    assert!((1..=announced).contains(&done.rings), "{done:?}");
}

#[test]
fn w19_an_earlier_timer_reaches_a_worker_that_sleeps_in_its_poller() {
    const ROUNDS: u64 = 500;
    let _alone = alone();
    let rt = runtime(1);
    let (ours, _theirs) = pair();
    let _waits = rt.spawn(async move { ours.read(&mut [0]).await });
    let _later = rt.spawn(sleep(Duration::from_secs(3_600)));
    until("it sleeps in its poller", || counts(&rt, 0).parks > 0);
    let before = counts(&rt, 0);
    let mut dice = Dice(19);
    for round in 0..ROUNDS {
        // At any point of its way to sleep, from another thread and from a task on it.
        dice.spin(Duration::from_micros(100));
        let short = Duration::from_micros(20 + dice.below(200));
        let start = Instant::now();
        if round % 2 == 0 {
            rt.block_on(sleep(short));
        } else {
            rt.block_on(rt.spawn(sleep(short))).unwrap();
        }
        let took = start.elapsed();
        assert!(took >= short && took < LONG, "{took:?} of {short:?}");
    }
    let done = counts(&rt, 0).since(&before);
    assert!((1..=2 * ROUNDS).contains(&done.timers_fired), "{done:?}");
    assert!(
        (1..=done.parks).contains(&done.unparks_deadline),
        "{done:?}"
    );
    assert!(done.rings <= done.parks + 1, "{done:?}");
}

/// Starts every kind of socket operation and cancels it.
async fn cancel_everything(address: SocketAddr, nobody: SocketAddr) {
    for address in [address, nobody] {
        drop(TcpStream::connect(address));
        let _ = poll_once(TcpStream::connect(address)).await;
        let aborted = doorbell::spawn(TcpStream::connect(address));
        doorbell::yield_now().await;
        aborted.abort();
        let _ = aborted.await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(poll_once(listener.accept()).await.is_pending());
    let (ours, theirs) = pair();
    let mut buffer = [0; 4_096];
    assert!(poll_once(ours.read(&mut buffer)).await.is_pending());
    let reader = doorbell::spawn(async move {
        let mut buffer = [0; 16];
        ours.read(&mut buffer).await
    });
    doorbell::yield_now().await;
    reader.abort();
    drop(reader.await);
    drop(theirs);
    let (ours, _theirs) = pair();
    // More than the OS buffers.
    let writer = doorbell::spawn(async move { ours.write_all(&vec![1; 16 << 20]).await });
    sleep(Duration::from_micros(200)).await;
    writer.abort();
    assert!(writer.await.is_err());
}

#[test]
fn l1_what_is_cancelled_leaves_no_descriptor() {
    const ROUNDS: usize = 50;
    let _alone = alone();
    let before = descriptors().len();
    let rt = runtime(2);
    let listener = std_net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let free = std_net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = free.local_addr().unwrap();
    drop(free);
    for core in 0..rt.cores() {
        let (ours, _theirs) = pair();
        register(&rt, core, ours);
    }
    // The listener; and of the scheduler its poller and eventfd.
    let with_pollers = before + 3;
    until_descriptors_are(with_pollers, "after the first of each worker");
    for round in 0..ROUNDS {
        let core = round % rt.cores();
        let task = rt.task().on(core).spawn(cancel_everything(address, nobody));
        rt.block_on(task).unwrap();
        // Connections that were made but not accepted.
        while let Ok(accepted) = listener.accept() {
            drop(accepted);
        }
    }
    until_descriptors_are(with_pollers, "after all was cancelled");
    // The end of the runtime cancels too.
    let (ours, theirs) = pair();
    drop(rt.spawn(async move { ours.read(&mut [0]).await }));
    drop(rt);
    drop((listener, theirs));
    until_descriptors_are(before, "after the runtime");
}

#[test]
fn l2_a_registration_that_the_os_refuses_leaves_nothing_and_may_succeed_later() {
    let _alone = alone();
    let rt = runtime(1);
    let (ours, mut theirs) = pair();
    let before = descriptors().len();
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(3),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, none).unwrap();
    // No descriptor is available for the poller.
    let refused = rt.block_on(ours.read(&mut [0]));
    let again = rt.block_on(ours.read(&mut [0]));
    setrlimit(Resource::Nofile, limit).unwrap();
    for refused in [refused, again] {
        let error = refused.unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
        assert!(error.to_string().contains("many open files"), "{error}");
    }
    until_descriptors_are(before, "after the refusal");
    // The same stream, once descriptors are available.
    let reader = rt.spawn(async move {
        let mut byte = [0];
        ours.read(&mut byte).await.map(|_| byte)
    });
    until("somebody waits", || descriptors().len() == before + 2);
    theirs.write_all(&[2]).unwrap();
    assert_eq!(rt.block_on(reader).unwrap().unwrap(), [2]);
    until_descriptors_are(before - 1 + 2, "without the stream");
    drop(rt);
    until_descriptors_are(before - 1, "after the runtime");
}

#[test]
fn l2_a_copy_that_outlives_its_stream_tells_nobody() {
    const WRITES: u64 = 200;
    let _alone = alone();
    let rt = runtime(1);
    // Another one stays registered, so that the worker keeps looking.
    let (other, _its_end) = pair();
    let _other = register(&rt, 0, other);
    let (ours, mut theirs) = pair();
    let ours = register(&rt, 0, ours);
    let copy = ours.as_fd().try_clone_to_owned().unwrap();
    drop(ours);
    // Later tasks run after the worker has heard of it.
    rt.block_on(rt.task().on(0).spawn(async {})).unwrap();
    // The task is done before its worker has counted the poll.
    until("it sleeps", || {
        rt.worker_state(0) == Some(doorbell::metrics::WorkerState::Parked)
    });
    let before = counts(&rt, 0);
    for _ in 0..WRITES {
        theirs.write_all(&[1]).unwrap();
    }
    let mut copy = std_net::TcpStream::from(copy);
    copy.set_nonblocking(false).unwrap();
    let mut all = [0; WRITES as usize];
    copy.read_exact(&mut all).unwrap();
    // Enough time for a worker that is notified to count it.
    std::thread::sleep(Duration::from_millis(100));
    let done = counts(&rt, 0).since(&before);
    assert!(done.unparks_ready == 0 && done.polls == 0, "{done:?}");
    // The worker is unaffected.
    let (ours, mut theirs) = pair();
    let ours = register(&rt, 0, ours);
    theirs.write_all(&[3]).unwrap();
    let mut byte = [0];
    rt.block_on(ours.read_exact(&mut byte)).unwrap();
    assert_eq!(byte, [3]);
}

#[test]
fn s8_readiness_that_nobody_waits_for_does_not_spin() {
    const STREAMS: u64 = 10;
    let _alone = alone();
    let rt = runtime(1);
    let mut streams: Vec<_> = (0..STREAMS).map(|_| pair()).collect();
    streams = streams
        .into_iter()
        .map(|(ours, theirs)| (register(&rt, 0, ours), theirs))
        .collect();
    until("it sleeps", || {
        rt.worker_state(0) == Some(doorbell::metrics::WorkerState::Parked)
    });
    let before = counts(&rt, 0);
    // Data, an end, and a reset, which is a lasting error.
    let mut stay = Vec::new();
    let ours: Vec<TcpStream> = streams
        .into_iter()
        .enumerate()
        .map(|(at, (ours, mut theirs))| {
            theirs.write_all(&[8; 100]).unwrap();
            match at % 3 {
                0 => drop(theirs),
                1 => reset(theirs),
                // The other end stays, but closes its sending direction.
                _ => {
                    theirs.shutdown(std_net::Shutdown::Write).unwrap();
                    stay.push(theirs);
                }
            }
            ours
        })
        .collect();
    until("it has seen some of that", || {
        counts(&rt, 0).since(&before).unparks_ready > 0
    });
    std::thread::sleep(Duration::from_millis(300));
    let done = counts(&rt, 0).since(&before);
    // Each has a few edges, then none.
    let most = 5 * STREAMS;
    assert!((1..=most).contains(&done.parks), "{done:?}");
    assert!(done.passes <= 2 * most && done.polls == 0, "{done:?}");
    std::thread::sleep(Duration::from_millis(100));
    let later = counts(&rt, 0).since(&before);
    assert_eq!(later.parks, done.parks, "it is idle");
    // All data has arrived nevertheless.
    let mut ends = 0;
    for stream in ours {
        let mut buffer = [0; 200];
        let read = rt.block_on(stream.read(&mut buffer));
        ends += u64::from(matches!(read, Ok(100)) || read.is_err());
    }
    assert_eq!(ends, STREAMS);
}

#[test]
fn d2_events_come_while_the_runtime_ends() {
    const ROUNDS: u64 = 100;
    const STREAMS: usize = 8;
    let _alone = alone();
    let before = descriptors().len();
    let mut dice = Dice(2);
    for _ in 0..ROUNDS {
        let rt = runtime(2);
        let pairs: Vec<_> = (0..STREAMS).map(|_| pair()).collect();
        let mut others = Vec::new();
        for (ours, theirs) in pairs {
            others.push(theirs);
            drop(rt.spawn(async move {
                let mut buffer = [0; 64];
                while ours.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    if ours.write_all(b"x").await.is_err() {
                        return;
                    }
                }
            }));
        }
        std::thread::scope(|scope| {
            let writers = others.into_iter().map(|mut theirs| {
                scope.spawn(move || {
                    let mut sent = 0_u64;
                    // Until the reader is gone.
                    while theirs.write_all(&[1; 16]).is_ok() {
                        sent += 1;
                        let _ = theirs.set_nonblocking(true);
                        let _ = theirs.read(&mut [0; 64]);
                        let _ = theirs.set_nonblocking(false);
                    }
                    sent
                })
            });
            let writers: Vec<_> = writers.collect();
            dice.spin(Duration::from_millis(1));
            drop(rt);
            for writer in writers {
                writer.join().unwrap();
            }
        });
    }
    until_descriptors_are(before, "after all");
}
