//! Which thread starts the workers of a class: never the worker of an urgent connection.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod plain;
mod routes;

use doorbell::{Class, Runtime};
use plain::{Client, LONG, alone};
use routes::Routes;
use std::sync::Barrier;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Instant;

/// Marks the calling thread, and every thread that it starts from now on, by blocking a signal that is
/// never sent.
fn mark() {
    // SAFETY: both functions get a signal set that only this function uses, and an all-zero set is valid.
    let blocked = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGUSR2);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
    };
    assert_eq!(blocked, 0);
}

/// Whether the calling thread is marked.
fn is_marked() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let mut lines = status.lines();
    let blocked = lines.find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
    blocked & (1 << (libc::SIGUSR2 - 1)) != 0
}

/// Which workers of a class are marked.
fn marked(runtime: &Runtime, class: Class) -> Vec<bool> {
    let on = |core| runtime.call().class(class).on_blocking(core, is_marked);
    (0..runtime.cores()).map(|core| on(core).unwrap()).collect()
}

/// A server whose Fair workers are marked, and so are the workers that they start. Nothing has used class
/// Batch yet.
fn marked_routes() -> Routes {
    let routes = Routes::start();
    let known = Client::to(routes.address).ask("/rt/known").unwrap();
    assert_eq!(known.status, 200);
    for marked in routes.runtime.call_all_blocking(|_| mark()).unwrap() {
        marked.unwrap();
    }
    assert!(!routes.runtime.class_is_open(Class::BATCH));
    routes
}

#[test]
fn the_workers_of_connections_begin_before_the_first_one() {
    let _alone = alone();
    let routes = Routes::start();
    let start = Instant::now();
    while !routes.runtime.class_is_open(routes::URGENT) {
        assert!(start.elapsed() < LONG, "nobody starts them");
        thread::yield_now();
    }
    assert_eq!(routes.end().accepted, 0);
}

#[test]
fn workers_of_a_routes_class_are_started_by_those_of_fair() {
    const CLIENTS: usize = 8;
    let _alone = alone();
    let routes = marked_routes();
    // Several first requests at once.
    let all_are_there = Barrier::new(CLIENTS);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = Client::to(routes.address);
                all_are_there.wait();
                let known = client.ask("/batch/known").unwrap();
                assert_eq!(known.body, b"hello, world");
            });
        }
    });
    assert_eq!(marked(&routes.runtime, Class::BATCH), [true; 2]);
    // The mark is not there by default.
    assert_eq!(marked(&routes.runtime, routes::URGENT), [false; 2]);
    assert_eq!(routes.seen.handlers.lock().unwrap().len(), 1 + CLIENTS);
    routes.end();
}

#[test]
fn who_goes_away_while_workers_are_started_leaves_nothing_behind() {
    const ROUNDS: usize = 20;
    let _alone = alone();
    for round in 0..ROUNDS {
        let routes = Routes::start();
        let mut other = Client::to(routes.address);
        assert_eq!(other.ask("/rt/known").unwrap().status, 200);
        let mut client = Client::to(routes.address);
        client.get("/batch/waits").unwrap();
        if round % 2 == 0 {
            client.reset();
        } else {
            drop(client);
        }
        assert_eq!(other.ask("/batch/known").unwrap().body, b"hello, world");
        drop(other);
        let seen = std::sync::Arc::clone(&routes.seen);
        // The end waits for connections, including those of clients that have left.
        assert_eq!(routes.end().cut, 0, "{round}");
        let waiting = seen.waiting.load(SeqCst);
        assert!(waiting <= 1, "{round}: {waiting}");
        assert_eq!(seen.dropped.load(SeqCst), waiting, "{round}");
    }
}

#[test]
fn workers_that_were_opened_before_are_there() {
    let _alone = alone();
    let routes = Routes::start();
    routes.runtime.open_class(Class::BATCH).unwrap();
    for marked in routes.runtime.call_all_blocking(|_| mark()).unwrap() {
        marked.unwrap();
    }
    let known = Client::to(routes.address).ask("/batch/known").unwrap();
    assert_eq!(known.body, b"hello, world");
    assert_eq!(marked(&routes.runtime, Class::BATCH), [false; 2]);
    routes.end();
}
