//! Each request's handler and the body of its answer run in the class of the route. Clients receive the
//! same as without classes, and work that is no longer wanted ends.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod common;
mod plain;
mod routes;
#[path = "../../doorbell/tests/shuffled/mod.rs"]
mod shuffled;

use common::{Client2, ask_2, client_2, within};
use doorbell::net::TcpListener;
use doorbell::{Class, ClassKind};
use doorbell_hyper::{ByClass, DoorbellExecutor, DoorbellIo, Server};
use futures::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::Response;
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use plain::{Client, LONG, Lost, alone, request};
use routes::{ENDLESS, Routes, Seen, all_chunks, class_of, is_complete, raw, service};
use shuffled::Builder;
use std::convert::Infallible;
use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// The path prefix of each class, and the kind of workers that it runs on.
const CLASSES: [(&str, ClassKind); 3] = [
    ("rt", ClassKind::Rt),
    ("fair", ClassKind::Fair),
    ("batch", ClassKind::Batch),
];

/// The connection's own class, which behaves as hyper alone would, and another class.
const BOTH: [&str; 2] = ["rt", "fair"];

/// The kinds of classes recorded since the last call; at least one.
fn kinds(recorded: &std::sync::Mutex<Vec<Option<Class>>>) -> Vec<ClassKind> {
    let recorded = std::mem::take(&mut *recorded.lock().unwrap());
    assert!(!recorded.is_empty());
    recorded.iter().map(|it| it.unwrap().kind()).collect()
}

fn assert_ran_on(seen: &Seen, kind: ClassKind, what: &str) {
    assert_eq!(kinds(&seen.handlers), [kind], "{what}");
    let polls = kinds(&seen.polls);
    assert!(polls.iter().all(|it| *it == kind), "{what}: {polls:?}");
    // At least as many polls as frames.
    assert!(polls.len() >= routes::CHUNKS, "{what}: {}", polls.len());
}

#[test]
fn handlers_and_their_bodies_run_in_the_class_of_their_route() {
    let _alone = alone();
    let routes = Routes::start();
    let mut client = Client::to(routes.address);
    for (class, kind) in CLASSES {
        let answer = client.ask(&format!("/{class}/chunks")).unwrap();
        assert_eq!(answer.body, all_chunks().as_bytes(), "{class}");
        assert_ran_on(&routes.seen, kind, class);
    }
    drop(client);
    assert_eq!(routes.end().accepted, 1);
}

#[test]
fn over_http_2_they_do_too() {
    let _alone = alone();
    let routes = Routes::start();
    routes.runtime.block_on(async {
        let (client, _connection) = client_2(routes.address).await;
        for (class, kind) in CLASSES {
            let body = within(ask_2(&client, &format!("/{class}/chunks"))).await;
            assert_eq!(body.unwrap(), all_chunks(), "{class}");
            assert_ran_on(&routes.seen, kind, class);
        }
    });
    assert_eq!(routes.end().accepted, 1);
}

#[test]
fn answers_are_the_same_in_every_class() {
    let _alone = alone();
    let routes = Routes::start();
    let fields = "te: trailers\r\n";
    for (method, what, wants) in [
        ("GET", "known", "content-length: 12\r\n\r\nhello, world"),
        ("HEAD", "known", "content-length: 12\r\n\r\n"),
        ("GET", "empty", "content-length: 0\r\n\r\n"),
        (
            "HEAD",
            "sized",
            &format!("content-length: {}\r\n\r\n", all_chunks().len()),
        ),
        ("GET", "late", "4\r\nlate\r\n0\r\n\r\n"),
        ("GET", "chunks", "chunk 59;\r\n0\r\n\r\n"),
        ("GET", "sized", &all_chunks()),
        ("GET", "trailers", "3\r\nsum\r\n0\r\nx-sum: 42\r\n\r\n"),
    ] {
        let of = |class: &str| raw(routes.address, method, &format!("/{class}/{what}"), fields);
        let here = of("rt");
        assert!(here.ends_with(wants), "{method} {what}: {here}");
        assert!(here.starts_with("HTTP/1.1 200 OK\r\n"), "{what}: {here}");
        for class in ["fair", "batch"] {
            assert_eq!(of(class), here, "{method} {class} {what}");
        }
    }
    routes.end();
}

#[test]
fn trailers_and_empty_bodies_arrive_over_http_2() {
    let _alone = alone();
    let routes = Routes::start();
    routes.runtime.block_on(async {
        let (client, _connection) = client_2(routes.address).await;
        for (class, _) in CLASSES {
            let asked = common::request(&format!("/{class}/trailers"));
            let answer = within(client.clone().send_request(asked)).await.unwrap();
            let all = within(answer.into_body().collect()).await.unwrap();
            let sum = all.trailers().and_then(|it| it.get("x-sum")).unwrap();
            assert_eq!(sum, "42", "{class}");
            assert_eq!(all.to_bytes(), "sum", "{class}");
            for what in ["empty", "silent"] {
                let body = within(ask_2(&client, &format!("/{class}/{what}"))).await;
                assert_eq!(body.unwrap(), "", "{class} {what}");
            }
        }
    });
    routes.end();
}

#[test]
fn requests_with_bodies_are_read_in_other_classes() {
    const LENGTH: usize = 1 << 20;
    let _alone = alone();
    let routes = Routes::start();
    let body: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    for (class, _) in CLASSES {
        let mut client = Client::to(routes.address);
        let head = format!(
            "POST /{class}/echo HTTP/1.1\r\nhost: here\r\ncontent-length: {LENGTH}\r\n\r\n"
        );
        client.write(head.as_bytes()).unwrap();
        // In pieces with arbitrary boundaries.
        for piece in body.chunks(77_777) {
            client.write(piece).unwrap();
        }
        let answer = client.answer().unwrap();
        assert!(answer.body == body, "{class}: {}", answer.body.len());
    }
    routes.end();
}

#[test]
fn pipelined_requests_of_all_classes_are_answered_in_order() {
    const REQUESTS: usize = 300;
    let _alone = alone();
    let routes = Routes::start();
    let asked = |at: usize| (CLASSES[at % 3].0, ["known", "chunks", "late"][at / 3 % 3]);
    let mut client = Client::to(routes.address);
    let all = (0..REQUESTS).map(|at| {
        let (class, what) = asked(at);
        request(&format!("/{class}/{what}"))
    });
    client.write(all.collect::<String>().as_bytes()).unwrap();
    for at in 0..REQUESTS {
        let wants = match asked(at).1 {
            "known" => "hello, world".to_owned(),
            "late" => "late".to_owned(),
            _ => all_chunks(),
        };
        assert_eq!(client.answer().unwrap().body, wants.as_bytes(), "{at}");
    }
    // Handing a body over aborts nothing: each one has run to its end.
    let seen = Arc::clone(&routes.seen);
    seen.wait_for(|it| &it.bodies_ended, REQUESTS, "after the answers");
    assert_eq!(seen.bodies_cut.load(SeqCst), 0);
    drop(client);
    assert_eq!(routes.end().accepted, 1);
}

#[test]
fn a_body_of_unknown_length_that_is_empty_arrives() {
    let _alone = alone();
    let routes = Routes::start();
    let mut client = Client::to(routes.address);
    // The length is announced, or the body is chunked if its length is not known in time.
    for (class, _) in CLASSES {
        let answer = client.ask(&format!("/{class}/silent")).unwrap();
        assert_eq!((answer.status, answer.body), (200, vec![]), "{class}");
    }
    drop(client);
    assert_eq!(routes.end().accepted, 1);
}

/// Requests each of `all` in each class over HTTP/1. These answers break off, and other answers do not.
fn assert_broken(all: &[&str]) {
    let routes = Routes::start();
    for what in all {
        for (class, _) in CLASSES {
            let answer = raw(routes.address, "GET", &format!("/{class}/{what}"), "");
            assert!(!is_complete(&answer), "{class} {what}: {answer}");
            let answer = raw(routes.address, "GET", &format!("/{class}/chunks"), "");
            assert!(is_complete(&answer), "{class} {what}: {answer}");
        }
    }
    routes.end();
}

/// The same over HTTP/2, on one connection.
fn assert_broken_2(all: &[&str], classes: &[(&str, ClassKind)]) {
    let routes = Routes::start();
    routes.runtime.block_on(async {
        let (client, _connection) = client_2(routes.address).await;
        for what in all {
            for (class, _) in classes {
                let body = within(ask_2(&client, &format!("/{class}/{what}"))).await;
                assert!(body.is_err(), "{class} {what}: {body:?}");
                let body = within(ask_2(&client, &format!("/{class}/chunks"))).await;
                assert_eq!(body.unwrap(), all_chunks(), "{class} {what}");
            }
        }
    });
    assert_eq!(routes.end().accepted, 1);
}

/// Bodies that fail before the answer's head, with the first frame, or with a frame that comes at once or
/// later.
const FAILING: [&str; 6] = [
    "fails",
    "fails-first",
    "fails-late",
    "fails-then",
    "fails-then-late",
    "fails-sized",
];

#[test]
fn a_body_that_fails_makes_no_whole_answer() {
    let _alone = alone();
    assert_broken(&FAILING);
}

#[test]
fn over_http_2_a_body_that_fails_ends_its_request_alone() {
    let _alone = alone();
    assert_broken_2(&FAILING, &CLASSES);
}

/// Bodies that panic with the first frame, or with a frame that comes at once or later.
const PANICKING: [&str; 4] = [
    "panics-first",
    "panics-late",
    "panics-then",
    "panics-then-late",
];

#[test]
fn a_body_that_panics_makes_no_whole_answer() {
    let _alone = alone();
    assert_broken(&PANICKING);
}

#[test]
fn over_http_2_a_body_that_panics_ends_its_request_alone() {
    let _alone = alone();
    // In the connection's own class too, since each HTTP/2 request is a task.
    assert_broken_2(&PANICKING, &CLASSES);
}

#[test]
fn a_handler_that_panics_ends_its_connection_and_nothing_else() {
    let _alone = alone();
    let routes = Routes::start();
    let mut others = [Client::to(routes.address), Client::to(routes.address)];
    for other in &mut others {
        assert_eq!(other.ask("/fair/known").unwrap().body, b"hello, world");
    }
    for (class, _) in CLASSES {
        let mut client = Client::to(routes.address);
        // A request before is answered, and one after is not.
        assert_eq!(client.ask("/fair/known").unwrap().status, 200);
        client.get(&format!("/{class}/panics")).unwrap();
        assert!(matches!(client.answer(), Err(Lost::Unbegun(_))), "{class}");
        for other in &mut others {
            let known = other.ask(&format!("/{class}/known")).unwrap();
            assert_eq!(known.body, b"hello, world");
        }
    }
    drop(others);
    assert_eq!(routes.end().accepted, 5);
}

/// A server that does not wait for clients that do not read.
fn brief_end() -> Routes {
    let builder = Builder::new().cores(2);
    Routes::on(builder, |server| server.drain_timeout(Duration::ZERO))
}

/// Waits until the bodies give no more frames. Returns how many there were.
fn frames_until_it_stops(seen: &Seen, when: &str) -> usize {
    // Far more than the sockets and windows hold.
    const CEILING: usize = (64 << 20) / ENDLESS;
    const STILL: Duration = Duration::from_millis(500);
    let (mut before, mut since) = (0, Instant::now());
    loop {
        let frames = seen.frames.load(SeqCst);
        assert!(frames < CEILING, "{when}: it gives {frames} to nobody");
        if frames > before {
            (before, since) = (frames, Instant::now());
        }
        if frames > 0 && since.elapsed() > STILL {
            return frames;
        }
        assert!(since.elapsed() < LONG, "{when}: it gives nothing");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn who_does_not_read_stops_the_body() {
    let _alone = alone();
    for class in BOTH {
        let routes = brief_end();
        let mut client = Client::to(routes.address);
        client.get(&format!("/{class}/endless")).unwrap();
        let stopped_at = frames_until_it_stops(&routes.seen, class);
        // It did not wait after the first frame.
        assert!(stopped_at > 2, "{class}: {stopped_at}");
        // It was not at its end: a client that reads on gets more.
        let mut some = vec![0; ENDLESS];
        let start = Instant::now();
        while routes.seen.frames.load(SeqCst) < stopped_at + 10 {
            assert!(start.elapsed() < LONG, "{class}: it stays at {stopped_at}");
            client.stream().read_exact(&mut some).unwrap();
        }
        assert_eq!(routes.seen.bodies_cut.load(SeqCst), 0, "{class}");
        drop(client);
        let seen = Arc::clone(&routes.seen);
        seen.wait_for(|it| &it.bodies_cut, 1, class);
        routes.end();
    }
}

#[test]
fn over_http_2_who_does_not_read_stops_the_body_too() {
    let _alone = alone();
    for class in BOTH {
        let routes = brief_end();
        let (answer, others) = routes.runtime.block_on(async {
            let (client, _connection) = client_2(routes.address).await;
            let asked = common::request(&format!("/{class}/endless"));
            let answer = within(client.clone().send_request(asked)).await.unwrap();
            (answer, client)
        });
        let stopped_at = frames_until_it_stops(&routes.seen, class);
        assert!(stopped_at > 2, "{class}: {stopped_at}");
        routes.runtime.block_on(async {
            // Other requests on the connection are served.
            let body = within(ask_2(&others, "/fair/known")).await;
            assert_eq!(body.unwrap(), "hello, world");
            let mut body = answer.into_body();
            while routes.seen.frames.load(SeqCst) < stopped_at + 10 {
                within(body.frame()).await.unwrap().unwrap();
            }
        });
        let seen = Arc::clone(&routes.seen);
        seen.wait_for(|it| &it.bodies_cut, 1, class);
        routes.end();
    }
}

#[test]
fn who_goes_away_ends_the_handler_that_waits() {
    const TIMES: usize = 20;
    let _alone = alone();
    let routes = Routes::start();
    let seen = &routes.seen;
    let mut gone = 0;
    for (class, _) in CLASSES {
        let path = format!("/{class}/waits");
        for at in 0..TIMES {
            let mut client = Client::to(routes.address);
            client.get(&path).unwrap();
            seen.wait_for(|it| &it.waiting, gone + 1, class);
            assert_eq!(seen.dropped.load(SeqCst), gone, "{class}");
            if at % 2 == 0 {
                client.reset();
            } else {
                drop(client);
            }
            gone += 1;
            seen.wait_for(|it| &it.dropped, gone, class);
        }
    }
    assert_eq!(routes.end().cut, 0);
}

/// Makes an HTTP/2 request that is never answered, and gives it up.
async fn asks_and_leaves(client: &Client2, path: &str, seen: &Seen, waiting: usize) {
    let asked = client.clone().send_request(common::request(path));
    let mut asked = std::pin::pin!(asked);
    let reached = async {
        while seen.waiting.load(SeqCst) < waiting {
            doorbell::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let reached = std::pin::pin!(within(reached));
    let first = futures::future::select(&mut asked, reached).await;
    assert!(matches!(first, futures::future::Either::Right(_)), "{path}");
}

#[test]
fn over_http_2_who_gives_up_a_request_ends_its_handler_alone() {
    let _alone = alone();
    let routes = Routes::start();
    let seen = &routes.seen;
    let (client, _connection) = routes.runtime.block_on(client_2(routes.address));
    for (at, (class, _)) in CLASSES.into_iter().enumerate() {
        let path = format!("/{class}/waits");
        let leaves = asks_and_leaves(&client, &path, seen, at + 1);
        routes.runtime.block_on(leaves);
        seen.wait_for(|it| &it.dropped, at + 1, class);
        let others = routes.runtime.block_on(ask_2(&client, "/fair/known"));
        assert_eq!(others.unwrap(), "hello, world", "{class}");
    }
    drop(client);
    assert_eq!(routes.end().accepted, 1);
}

#[test]
fn who_goes_away_ends_the_body_that_is_under_way() {
    let _alone = alone();
    let routes = Routes::start();
    let seen = &routes.seen;
    let mut gone = 0;
    for (class, _) in CLASSES {
        for what in ["stays", "endless"] {
            for resets in [true, false] {
                let mut client = Client::to(routes.address);
                client.get(&format!("/{class}/{what}")).unwrap();
                client.stream().read_exact(&mut [0; 20]).unwrap();
                assert_eq!(seen.bodies_cut.load(SeqCst), gone, "{class} {what}");
                if resets {
                    client.reset();
                } else {
                    drop(client);
                }
                gone += 1;
                let when = format!("{class} {what} {resets}");
                seen.wait_for(|it| &it.bodies_cut, gone, &when);
            }
        }
    }
    assert_eq!(seen.bodies_ended.load(SeqCst), 0);
    assert_eq!(routes.end().cut, 0);
}

/// Serves one connection of that class by hand. Returns the classes of its handlers.
fn by_hand(connection: Class) -> Vec<Option<Class>> {
    let runtime = Builder::new().cores(2).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let seen = Arc::new(Seen::default());
    let service = ByClass::new(service(&seen), class_of::<hyper::body::Incoming>);
    let served = runtime.task().class(connection).spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let io = DoorbellIo::new(stream);
        let connection = http1::Builder::new().serve_connection(io, service);
        within(connection).await
    });
    let mut client = Client::to(address);
    for (class, _) in CLASSES {
        let answer = client.ask(&format!("/{class}/chunks")).unwrap();
        assert_eq!(answer.body, all_chunks().as_bytes(), "{class}");
    }
    drop(client);
    runtime.block_on(served).unwrap().unwrap();
    let handlers = seen.handlers.lock().unwrap();
    handlers.clone()
}

#[test]
fn a_service_by_class_needs_no_server() {
    let _alone = alone();
    let all = [Some(routes::URGENT), Some(Class::FAIR), Some(Class::BATCH)];
    for connection in [Class::FAIR, Class::BATCH] {
        assert_eq!(by_hand(connection), all, "{connection}");
    }
    // A handler of the connection's own kind is a part of the connection's task.
    let [_, fair, batch] = all;
    assert_eq!(
        by_hand(Class::rt(10)),
        [Some(Class::rt(10)), fair, batch],
        "Rt 10"
    );
}

#[test]
fn a_body_of_another_class_is_not_produced_ahead_of_its_client() {
    const STREAMS: usize = 20;
    let _alone = alone();
    let runtime = Builder::new().cores(2).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let produced = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&produced);
    let service = move || {
        let counts = Arc::clone(&counts);
        service_fn(move |_| {
            let counts = Arc::clone(&counts);
            let frames = stream::repeat_with(move || {
                counts.fetch_add(1, SeqCst);
                Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b'x'; 1_000])))
            });
            async { Ok::<_, Infallible>(Response::new(StreamBody::new(frames.take(100)))) }
        })
    };
    let server = Server::new(listener).classes(|_| Class::BATCH);
    drop(runtime.spawn(server.serve(service)));
    runtime.block_on(async {
        let io = DoorbellIo::new(doorbell::net::TcpStream::connect(address).await.unwrap());
        let mut builder = http2::Builder::new(DoorbellExecutor);
        // No stream takes a byte before its client reads.
        builder.initial_stream_window_size(0);
        let (client, connection) = builder.handshake(io).await.unwrap();
        drop(doorbell::spawn(connection));
        let mut answers = Vec::new();
        for _ in 0..STREAMS {
            let asked = client.clone().send_request(common::request("/"));
            answers.push(within(asked).await.unwrap());
        }
        // Time for what should not happen.
        doorbell::time::sleep(Duration::from_millis(500)).await;
        // hyper has one frame of each.
        assert_eq!(produced.load(SeqCst), STREAMS);
    });
}
