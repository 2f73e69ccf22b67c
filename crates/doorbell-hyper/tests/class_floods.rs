//! Floods of requests of one class, during which requests of another class must be served.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod plain;
mod routes;
#[path = "../../doorbell/tests/shuffled/mod.rs"]
mod shuffled;

use doorbell::Class;
use plain::{Client, LONG, alone};
use routes::Routes;
use rustix::thread::{CpuSet, sched_getaffinity};
use shuffled::Builder;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Sets a flag when dropped, so that other threads also end when the test fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The CPUs that this process may use.
fn cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

/// A time that one in `parts` is below.
fn quantile(mut times: Vec<Duration>, parts: usize) -> Duration {
    times.sort_unstable();
    times[times.len() / parts]
}

/// Makes requests until it is over. Returns how long each answer took.
fn asks(address: SocketAddr, path: &str, body: &str, over: &AtomicBool) -> Vec<Duration> {
    let mut client = Client::to(address);
    let mut times = Vec::new();
    while !over.load(SeqCst) {
        let start = Instant::now();
        assert_eq!(client.ask(path).unwrap().body, body.as_bytes());
        times.push(start.elapsed());
    }
    times
}

/// Floods a Fair route that computes, and asks an urgent one meanwhile. Returns a time that one answer of the urgent one in
/// ten is below, and one that half of the others are below.
fn beside_a_flood(connections: Class) -> (Duration, Duration) {
    const FLOOD: usize = 16;
    const BEATS: usize = 100;
    let _alone = alone();
    // Pinned: no worker gets a CPU of its own while the Fair workers compute.
    let builder = Builder::new().core_list(cpus().into_iter().take(2));
    let routes = Routes::with_connections(connections, builder, |server| server);
    let over = AtomicBool::new(false);
    let (urgent, computing) = thread::scope(|scope| {
        let flood: Vec<_> = (0..FLOOD)
            .map(|_| scope.spawn(|| asks(routes.address, "/fair/computes", "computed", &over)))
            .collect();
        let ends = SetOnDrop(&over);
        // Until all of them have begun.
        let start = Instant::now();
        while routes.seen.handlers.lock().unwrap().len() < 2 * FLOOD {
            assert!(start.elapsed() < LONG);
            thread::sleep(Duration::from_millis(1));
        }
        let mut client = Client::to(routes.address);
        let urgent: Vec<_> = (0..BEATS)
            .map(|_| {
                let start = Instant::now();
                assert_eq!(client.ask("/rt/known").unwrap().body, b"hello, world");
                let took = start.elapsed();
                // The flood goes on meanwhile.
                thread::sleep(Duration::from_millis(2));
                took
            })
            .collect();
        drop(ends);
        let computing = flood.into_iter().flat_map(|it| it.join().unwrap());
        (urgent, computing.collect::<Vec<_>>())
    });
    assert!(computing.len() >= 2 * FLOOD, "{}", computing.len());
    // On a busy machine most urgent requests wait for a CPU.
    let (urgent, computing) = (quantile(urgent, 10), quantile(computing, 2));
    println!("urgent {urgent:?}, computing {computing:?}");
    // They wait for each other, FLOOD of them on at most two workers.
    assert!(computing >= 2 * routes::WORK, "{computing:?} is no flood");
    routes.end();
    (urgent, computing)
}

#[test]
fn an_urgent_route_is_answered_while_all_workers_of_fair_compute() {
    // It waits for one poll to be read, and for one to be answered.
    let (urgent, computing) = beside_a_flood(Class::FAIR);
    assert!(urgent < computing / 2, "{urgent:?}, {computing:?}");
}

#[test]
fn an_answer_on_a_connection_in_class_rt_waits_for_no_poll_of_fair() {
    let (urgent, computing) = beside_a_flood(routes::URGENT);
    assert!(urgent < routes::WORK / 4, "{urgent:?}, {computing:?}");
}

/// The worker that computes does so for as long as the test asks, so another one reads for its connections.
#[test]
fn an_urgent_route_is_answered_on_every_connection_while_one_worker_computes() {
    const CLIENTS: usize = 8;
    let _alone = alone();
    let routes = Routes::start();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::to(routes.address)).collect();
    for client in &mut clients {
        assert_eq!(client.ask("/fair/known").unwrap().body, b"hello, world");
    }
    let (begins, begun) = channel();
    let (release, released) = channel::<()>();
    let computes = routes.runtime.spawn(async move {
        // While all others sleep, nobody looks behind the first long poll of a task, nor behind one after a poll that
        // was not timed.
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(10));
            doorbell::yield_now().await;
        }
        begins.send(()).unwrap();
        let _ = released.recv();
    });
    begun.recv_timeout(LONG).unwrap();
    for client in &mut clients {
        assert_eq!(client.ask("/rt/known").unwrap().body, b"hello, world");
    }
    assert!(!computes.is_finished());
    drop(release);
    routes.runtime.block_on(computes).unwrap();
    drop(clients);
    routes.end();
}
