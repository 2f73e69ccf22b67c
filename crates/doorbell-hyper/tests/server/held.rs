//! What a server holds of answers whose clients take nothing, and for how long.
#![allow(clippy::disallowed_types, reason = "tests play the outside world")]

#[path = "../two/mod.rs"]
mod two;

use crate::common::{REQUEST, Site, within};
use doorbell::net::TcpStream;
use doorbell::time::{Duration, Instant, sleep, timeout};
use doorbell::{Class, spawn};
use doorbell_hyper::{RequestBody, Server};
use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use two::{DATA, END_STREAM, HEADERS, RST_STREAM, Two};

/// The length of a frame of an answer.
const LEN: usize = 256 << 10;

static FRAME: [u8; LEN] = [b'x'; LEN];

/// How much of an answer over HTTP/1 hyper (1.12) holds at most beside one frame.
const AHEAD: usize = 408 << 10;

const LIMIT: Duration = Duration::from_secs(1);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Endless frames, which are counted as they are produced.
fn endless(produced: Arc<AtomicUsize>) -> Body {
    let frames = stream::repeat_with(move || {
        produced.fetch_add(1, SeqCst);
        Ok(Frame::data(Bytes::from_static(&FRAME)))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// `/frames` and `/late` are endless, `/full` has one frame, and `/trailers` has one and trailers.
fn answer(path: &str, produced: Arc<AtomicUsize>) -> Body {
    let full = Full::new(Bytes::from_static(&FRAME));
    match path {
        "/full" => full.boxed_unsync(),
        "/trailers" => {
            let mut trailers = HeaderMap::new();
            trailers.insert("sum", "0".parse().unwrap());
            full.with_trailers(async { Some(Ok(trailers)) })
                .boxed_unsync()
        }
        _ => endless(produced),
    }
}

struct Held {
    site: Site,
    produced: Arc<AtomicUsize>,
}

impl Held {
    /// A server whose handlers have this class.
    fn start(class: Class, with: impl FnOnce(Server) -> Server) -> Held {
        let produced = Arc::<AtomicUsize>::default();
        let counts = Arc::clone(&produced);
        let service = move || {
            let counts = Arc::clone(&counts);
            service_fn(move |request: Request<RequestBody>| {
                let is_late = request.uri().path() == "/late";
                let body = answer(request.uri().path(), Arc::clone(&counts));
                async move {
                    if is_late {
                        sleep(Duration::from_millis(1)).await;
                    }
                    Ok::<_, Infallible>(Response::new(body))
                }
            })
        };
        let site = Site::of(with, |server| {
            spawn(server.classes(move |_| class).serve(service))
        });
        Held { site, produced }
    }

    /// The number of frames that were produced, when it changes no more.
    async fn produced(&self) -> usize {
        within(async {
            let mut before = self.produced.load(SeqCst);
            loop {
                sleep(Duration::from_millis(500)).await;
                let now = self.produced.load(SeqCst);
                if now == before {
                    return now;
                }
                before = now;
            }
        })
        .await
    }
}

#[doorbell::test]
async fn a_connection_holds_one_large_frame_of_each_answer_that_its_client_does_not_take() {
    const STREAMS: usize = 1_000;
    for class in [Class::FAIR, Class::BATCH] {
        // hyper asks for one frame before there is any room, and for the next one when there is a little.
        for window in [0, 1_000] {
            let held = Held::start(class, |server| {
                server.http2(|http2| _ = http2.max_concurrent_streams(STREAMS as u32))
            });
            let mut two = Two::connect(held.site.address, window).await;
            let (mut heads, mut taken) = (0, 0);
            for _ in 0..STREAMS {
                two.get("/frames").await;
            }
            while heads < STREAMS || taken < STREAMS * window as usize {
                let frame = within(two.frame()).await.unwrap();
                assert_ne!(frame.kind, RST_STREAM);
                match frame.kind {
                    HEADERS => heads += 1,
                    DATA => taken += frame.payload.len(),
                    _ => {}
                }
            }
            assert_eq!(held.produced().await, STREAMS, "{class}, window {window}");
        }
    }
}

#[doorbell::test]
async fn over_http_1_a_connection_holds_what_the_socket_has_not_taken() {
    for class in [Class::FAIR, Class::BATCH] {
        let held = Held::start(class, |server| server.write_timeout(Some(LIMIT)));
        let stream = TcpStream::connect(held.site.address).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        let produced = held.produced().await * LEN;
        // Until the server lets the connection go.
        sleep(4 * LIMIT).await;
        let mut taken = 0;
        let mut some = vec![0; 1 << 20];
        while let Ok(count @ 1..) = within(stream.read(&mut some)).await {
            taken += count;
        }
        let ahead = produced.saturating_sub(taken);
        assert!(ahead <= LEN + AHEAD, "{class}: {ahead}");
        // It did produce what there was room for.
        assert!(produced >= 2 * LEN, "{class}: {produced}");
    }
}

#[doorbell::test]
async fn a_stream_that_its_client_does_not_take_is_reset_beside_one_that_moves() {
    for class in [Class::FAIR, Class::BATCH] {
        let held = Held::start(class, |server| server.write_timeout(Some(LIMIT)));
        let mut two = Two::connect(held.site.address, 0).await;
        let mut stalled = BTreeSet::new();
        for path in ["/frames", "/full", "/trailers"] {
            for room in [0, 1, 1_000, LEN as u32 - 1] {
                let stream = two.get(path).await;
                if room > 0 {
                    two.gives(stream, room).await;
                }
                stalled.insert(stream);
            }
        }
        let all = stalled.len() as u64;
        let moves = two.get("/frames").await;
        two.gives(moves, 100_000).await;
        let start = Instant::now();
        let mut moved = 0;
        // The one that moves goes on for much longer than the limit.
        while !stalled.is_empty() || start.elapsed() < 8 * LIMIT {
            assert!(start.elapsed() < 60 * LIMIT, "{stalled:?} were not reset");
            let frame = within(two.frame()).await.expect("the connection ended");
            match frame.kind {
                RST_STREAM => {
                    assert!(stalled.remove(&frame.stream), "{frame:?}");
                    assert!(start.elapsed() >= LIMIT / 2, "{:?}", start.elapsed());
                }
                DATA if frame.stream == moves => {
                    moved += frame.payload.len();
                    sleep(Duration::from_millis(20)).await;
                    two.gives(moves, frame.payload.len() as u32).await;
                }
                DATA | HEADERS => assert_eq!(frame.flags & END_STREAM, 0, "{frame:?}"),
                _ => {}
            }
        }
        assert!(moved > 100_000);
        drop(two);
        assert_eq!(held.site.end().await.timed_out, all);
    }
}

#[doorbell::test]
async fn a_limit_for_the_request_leaves_the_one_for_writing_as_it_is() {
    let held = Held::start(Class::FAIR, |server| {
        let server = server.request_timeout(Some(60 * LIMIT));
        server.write_timeout(Some(LIMIT))
    });
    let mut two = Two::connect(held.site.address, 0).await;
    let moves = two.get("/frames").await;
    two.gives(moves, 100_000).await;
    // Nothing of its answer is held when its task is first polled.
    let stalled = two.get("/late").await;
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < 30 * LIMIT, "it was not reset");
        let frame = within(two.frame()).await.expect("the connection ended");
        match frame.kind {
            RST_STREAM => {
                assert_eq!(frame.stream, stalled);
                break;
            }
            DATA => {
                assert_eq!(frame.stream, moves);
                sleep(Duration::from_millis(20)).await;
                two.gives(moves, frame.payload.len() as u32).await;
            }
            _ => {}
        }
    }
    drop(two);
    assert_eq!(held.site.end().await.timed_out, 1);
}

#[doorbell::test]
async fn a_stream_that_is_taken_little_by_little_is_not_reset() {
    let held = Held::start(Class::FAIR, |server| server.write_timeout(Some(2 * LIMIT)));
    let mut two = Two::connect(held.site.address, 0).await;
    let streams = [two.get("/full").await, two.get("/frames").await];
    let start = Instant::now();
    while start.elapsed() < 8 * LIMIT {
        for stream in streams {
            two.gives(stream, 1).await;
        }
        let pause = timeout(LIMIT / 2, async {
            loop {
                let frame = two.frame().await.expect("the connection ended");
                assert_ne!(frame.kind, RST_STREAM, "{frame:?}");
            }
        });
        assert!(pause.await.is_err());
    }
    // The first one still comes to its end.
    two.gives(streams[0], LEN as u32).await;
    within(async {
        loop {
            let frame = two.frame().await.unwrap();
            if frame.stream == streams[0] && frame.flags & END_STREAM != 0 {
                break;
            }
        }
    })
    .await;
    drop(two);
    assert_eq!(held.site.end().await.timed_out, 0);
}

#[doorbell::test]
async fn a_stream_that_waits_for_its_turn_at_a_slow_socket_is_not_reset() {
    const STREAMS: usize = 1_000;
    let held = Held::start(Class::FAIR, |server| {
        server
            .write_timeout(Some(3 * LIMIT))
            .http2(|http2| _ = http2.max_concurrent_streams(STREAMS as u32))
    });
    let mut two = Two::connect(held.site.address, (1 << 31) - 1).await;
    for _ in 0..STREAMS {
        two.get("/frames").await;
    }
    // h2 writes 16 KiB of each stream in turn. At one frame of data in 4 ms one waits for longer than the limit.
    let start = Instant::now();
    while start.elapsed() < 12 * LIMIT {
        let frame = within(two.frame()).await.expect("the connection ended");
        assert_ne!(frame.kind, RST_STREAM, "{frame:?}");
        if frame.kind == DATA {
            sleep(Duration::from_millis(4)).await;
        }
    }
    drop(two);
    assert_eq!(held.site.end().await.timed_out, 0);
}
