//! A server with classes whose only Fair worker is inside a handler that does not end. Urgent requests are
//! accepted, read and answered meanwhile, and no user code that may take long runs in a rescue.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod plain;

use doorbell::net::TcpListener;
use doorbell::{Builder, Class, JoinHandle, Runtime, rescue};
use doorbell_hyper::{RequestBody, ServeError, Served, Server};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::service::service_fn;
use hyper::{Request, Response};
use plain::{Client, LONG, alone};
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::thread;
use std::time::{Duration, Instant};

/// What a server has seen, and what it is told.
#[derive(Debug, Default)]
struct Seen {
    /// Whether `class_of` was called in a rescue.
    rescued: AtomicBool,
    /// Whether anything ran in a rescue that must not.
    misplaced: AtomicBool,
    /// Whether the handler of `/stuck` has begun, and whether it must end.
    begun: AtomicBool,
    released: AtomicBool,
    /// Bytes of requests that an urgent task has read.
    read: AtomicUsize,
    /// Whether the signal has come.
    stopped: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Seen {
    fn here(&self) {
        self.misplaced.fetch_or(rescue::is_under_way(), SeqCst);
    }

    fn signal(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.here();
        *self.waker.lock().unwrap() = Some(cx.waker().clone());
        if self.stopped.load(SeqCst) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn stop(&self) {
        self.stopped.store(true, SeqCst);
        self.waker.lock().unwrap().take().unwrap().wake();
    }

    fn class_of(&self, path: &str) -> Class {
        self.rescued.fetch_or(rescue::is_under_way(), SeqCst);
        if path == "/urgent" {
            Class::rt(50)
        } else {
            Class::FAIR
        }
    }

    fn handle(&self, path: &str) {
        self.here();
        if path == "/stuck" {
            self.begun.store(true, SeqCst);
            while !self.released.load(SeqCst) {
                std::hint::spin_loop();
            }
        }
    }

    /// An urgent task that reads a request's body to its end.
    fn reads(self: &Arc<Self>, mut request: RequestBody) -> JoinHandle<()> {
        let seen = Arc::clone(self);
        doorbell::task().class(Class::rt(50)).spawn(async move {
            while let Some(frame) = request.frame().await {
                let data = frame.unwrap().into_data().unwrap();
                seen.read.fetch_add(data.len(), SeqCst);
            }
        })
    }

    /// Waits until the urgent task has read this many bytes.
    fn wait_for_read(&self, bytes: usize) {
        let start = Instant::now();
        while self.read.load(SeqCst) < bytes {
            assert!(start.elapsed() < LONG, "not {bytes}: {self:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A body of one frame, which comes when that task has ended.
struct One {
    seen: Arc<Seen>,
    waits: Option<JoinHandle<()>>,
    frame: Option<Bytes>,
}

impl futures_util::Stream for One {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.seen.here();
        if let Some(task) = &mut self.waits {
            ready!(Pin::new(task).poll(cx)).unwrap();
            self.waits = None;
        }
        Poll::Ready(self.frame.take().map(|it| Ok(Frame::data(it))))
    }
}

type Answered = Result<Response<StreamBody<One>>, Infallible>;

fn start(seen: &Arc<Seen>) -> (Runtime, SocketAddr, JoinHandle<Result<Served, ServeError>>) {
    // One core, so that no other worker helps.
    let runtime = Builder::new().cores(1).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let [by_signal, by_class, by_handler] = [(); 3].map(|()| Arc::clone(seen));
    let server = Server::new(listener)
        .shutdown_on(poll_fn(move |cx| by_signal.signal(cx)))
        .classes(move |request| by_class.class_of(request.uri().path()));
    let serving = server.serve(move || {
        let seen = Arc::clone(&by_handler);
        service_fn(move |request: Request<RequestBody>| {
            let seen = Arc::clone(&seen);
            async move {
                let (head, request) = request.into_parts();
                let path = head.uri.path();
                seen.handle(path);
                let mut waits = path.starts_with("/waits").then(|| seen.reads(request));
                if path == "/waits/handler" {
                    let mut task = waits.take().expect("begun above");
                    let polled = |cx: &mut Context<'_>| {
                        seen.here();
                        Pin::new(&mut task).poll(cx)
                    };
                    poll_fn(polled).await.unwrap();
                }
                let frame = Some(Bytes::from_static(b"done"));
                Answered::Ok(Response::new(StreamBody::new(One { seen, waits, frame })))
            }
        })
    });
    let task = runtime.spawn(serving);
    (runtime, address, task)
}

/// Keeps the only Fair worker inside a handler until `seen.released`.
fn stuck(seen: &Seen, address: SocketAddr) -> Client {
    let mut stuck = Client::to(address);
    stuck.get("/stuck").unwrap();
    while !seen.begun.load(SeqCst) {
        thread::yield_now();
    }
    stuck
}

#[test]
fn an_urgent_route_is_answered_while_the_only_fair_worker_computes() {
    let _alone = alone();
    let seen = Arc::new(Seen::default());
    let (runtime, address, task) = start(&seen);
    let mut known = Client::to(address);
    assert_eq!(known.ask("/fair").unwrap().body, b"done");
    let mut stuck = stuck(&seen, address);
    for _ in 0..20 {
        assert_eq!(known.ask("/urgent").unwrap().body, b"done");
        assert_eq!(Client::to(address).ask("/urgent").unwrap().body, b"done");
    }
    assert!(seen.rescued.load(SeqCst), "no rescue");
    // Read in a rescue; its handler waits for the worker.
    known.get("/fair").unwrap();
    // The signal comes while the worker is stuck. After that a client's connection wakes the acceptor.
    seen.stop();
    assert_eq!(Client::to(address).ask("/urgent").unwrap().body, b"done");
    seen.released.store(true, SeqCst);
    assert_eq!(stuck.answer().unwrap().body, b"done");
    assert_eq!(known.answer().unwrap().body, b"done");
    let served = runtime.block_on(task).unwrap().unwrap();
    assert_eq!((served.accepted, served.cut), (23, 0));
    assert!(!seen.misplaced.load(SeqCst), "run in a rescue");
}

/// Other threads have the worker's CPU for most of the time, so the guard alternates with them. If a wake
/// queues something at the worker between two of its turns, the next turn finds it.
#[test]
fn an_urgent_route_is_answered_while_others_have_the_cpu_as_well() {
    let over = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..3 * thread::available_parallelism().unwrap().get())
        .map(|_| {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                while !over.load(SeqCst) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    {
        let _alone = alone();
        let seen = Arc::new(Seen::default());
        let (runtime, address, task) = start(&seen);
        let mut known = Client::to(address);
        let mut stuck = stuck(&seen, address);
        for _ in 0..20 {
            assert_eq!(known.ask("/urgent").unwrap().body, b"done");
            assert_eq!(Client::to(address).ask("/urgent").unwrap().body, b"done");
        }
        seen.released.store(true, SeqCst);
        assert_eq!(stuck.answer().unwrap().body, b"done");
        seen.stop();
        drop(known);
        let _ = runtime.block_on(task).unwrap().unwrap();
    }
    over.store(true, SeqCst);
    for thread in busy {
        thread.join().unwrap();
    }
}

/// What runs in its connection's task waits for an urgent task, which reads the request. While the worker
/// is stuck, the connection reads bytes in a rescue and, in the same poll, polls what waits.
fn waits_in_place(path: &str) {
    const BYTES: usize = 11;
    let _alone = alone();
    let seen = Arc::new(Seen::default());
    let (runtime, address, task) = start(&seen);
    let mut waits = Client::to(address);
    let head = format!("POST {path} HTTP/1.1\r\nhost: here\r\ncontent-length: {BYTES}\r\n\r\na");
    waits.write(head.as_bytes()).unwrap();
    seen.wait_for_read(1);
    let mut stuck = stuck(&seen, address);
    for bytes in 2..=BYTES {
        waits.write(b"b").unwrap();
        seen.wait_for_read(bytes);
    }
    seen.released.store(true, SeqCst);
    assert_eq!(stuck.answer().unwrap().body, b"done");
    assert_eq!(waits.answer().unwrap().body, b"done");
    assert!(!seen.misplaced.load(SeqCst), "run in a rescue");
    seen.stop();
    runtime.block_on(task).unwrap().unwrap();
}

#[test]
fn a_handler_that_is_pending_in_place_waits_for_its_own_worker() {
    waits_in_place("/waits/handler");
}

#[test]
fn a_body_that_is_pending_in_place_waits_for_its_own_worker() {
    waits_in_place("/waits/body");
}
