//! What is always ready keeps no other task of its worker from its turn.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod common;

use common::{Site, client_2, request, within};
use doorbell::net::TcpStream;
use doorbell::spawn;
use doorbell::sync::CancellationToken;
use doorbell::time::{Duration, Instant};
use doorbell_hyper::{ConnectionInfo, Listener, RequestBody, Server, Transport};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll};

/// After so many turns in a row nothing else has had one.
const MOST: u64 = 10_000;

/// A connection whose client has gone.
struct Gone;

impl Read for Gone {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Write for Gone {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Transport for Gone {}

/// A listener that never waits.
struct Tireless {
    fails: bool,
    calls: Arc<AtomicU64>,
    /// How many calls there were since another task had its turn.
    in_a_row: Arc<AtomicU64>,
}

impl Listener for Tireless {
    type Io = Gone;

    async fn accept(&mut self) -> io::Result<(Gone, ConnectionInfo)> {
        self.calls.fetch_add(1, SeqCst);
        if self.in_a_row.fetch_add(1, SeqCst) == MOST {
            return Err(io::Error::other("no other task had a turn"));
        }
        if self.fails {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok((Gone, ConnectionInfo::new(None, None)))
    }
}

/// Serves for so long, beside a task that has turns. Returns how often the listener was called.
async fn serve(fails: bool, time: Duration) -> u64 {
    let (calls, in_a_row) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let listener = Tireless {
        fails,
        calls: Arc::clone(&calls),
        in_a_row: Arc::clone(&in_a_row),
    };
    let turns = spawn(async move {
        loop {
            in_a_row.store(0, SeqCst);
            doorbell::yield_now().await;
        }
    });
    let end = CancellationToken::new();
    let server = Server::new(listener).shutdown_on(end.clone().cancelled_owned());
    let served = spawn(server.serve(common::hello));
    // Not a timer of the worker, which may have no turn.
    std::thread::sleep(time);
    end.cancel();
    within(served).await.unwrap().unwrap();
    turns.abort();
    calls.load(SeqCst)
}

#[doorbell::test(cores = 1)]
async fn h11_a_listener_that_never_waits_leaves_other_tasks_their_turns() {
    for fails in [false, true] {
        assert!(serve(fails, Duration::from_millis(100)).await > 0);
    }
}

#[doorbell::test(cores = 1)]
async fn h11_a_listener_that_always_fails_takes_a_small_part_of_a_cpu() {
    let start = Instant::now();
    let calls = serve(true, Duration::from_millis(300)).await;
    let millis = start.elapsed().as_millis() as u64;
    let most = 32 * (millis + 2);
    assert!((32..=most).contains(&calls), "{calls} in {millis} ms");
}

/// A listener that never waits, beside tasks that compute.
struct Beside {
    computed: Arc<AtomicU64>,
    /// How often a poll that computed came between two calls.
    turns: Arc<AtomicU64>,
    /// How often half of all those polls came between two calls.
    waits: Arc<AtomicU64>,
    calls: u64,
}

const COMPUTING: u64 = 16;

impl Listener for Beside {
    type Io = Gone;

    async fn accept(&mut self) -> io::Result<(Gone, ConnectionInfo)> {
        let polls = self.computed.swap(0, SeqCst);
        self.calls += 1;
        // The first polls show which tasks are long.
        if self.calls > 1_000 {
            self.turns.fetch_add(u64::from(polls > 0), SeqCst);
            self.waits
                .fetch_add(u64::from(polls >= COMPUTING / 2), SeqCst);
        }
        Ok((Gone, ConnectionInfo::new(None, None)))
    }
}

/// As where 200 clients connect at once.
#[doorbell::test(cores = 1)]
async fn h13_who_accepts_many_connections_does_not_wait_for_all_that_compute() {
    let [computed, turns, waits] = [(); 3].map(|()| Arc::<AtomicU64>::default());
    let computing: Vec<_> = (0..COMPUTING)
        .map(|_| {
            let computed = Arc::clone(&computed);
            spawn(async move {
                loop {
                    let until = Instant::now() + Duration::from_micros(300);
                    while Instant::now() < until {}
                    computed.fetch_add(1, SeqCst);
                    doorbell::yield_now().await;
                }
            })
        })
        .collect();
    let end = CancellationToken::new();
    let listener = Beside {
        computed,
        turns: Arc::clone(&turns),
        waits: Arc::clone(&waits),
        calls: 0,
    };
    let server = Server::new(listener).shutdown_on(end.clone().cancelled_owned());
    let served = spawn(server.serve(crate::common::hello));
    // On a busy machine the thread may get no CPU for long.
    let has_turns = async {
        while turns.load(SeqCst) < 64 {
            doorbell::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(has_turns).await;
    end.cancel();
    within(served).await.unwrap().unwrap();
    for task in computing {
        task.abort();
    }
    // A few times its thread may lose its CPU, so that its own poll looks long.
    let (turns, waits) = (turns.load(SeqCst), waits.load(SeqCst));
    assert!(4 * waits <= turns, "{waits} of {turns}");
}

/// An answer of empty frames, without end until it is told.
struct Empties {
    ends: Arc<AtomicBool>,
    polls: Arc<AtomicU64>,
}

impl Body for Empties {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polls = self.polls.fetch_add(1, SeqCst);
        let goes_on = polls < MOST && !self.ends.load(SeqCst);
        Poll::Ready(goes_on.then(|| Ok(Frame::data(Bytes::new()))))
    }
}

#[doorbell::test(cores = 1)]
async fn h12_an_answer_of_empty_frames_leaves_other_tasks_their_turns() {
    for is_two in [false, true] {
        let (ends, polls) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (its_ends, its_polls) = (Arc::clone(&ends), Arc::clone(&polls));
        let site = Site::of(
            |server| server,
            |server| {
                let service = move || {
                    let (ends, polls) = (Arc::clone(&its_ends), Arc::clone(&its_polls));
                    service_fn(move |_: Request<RequestBody>| {
                        let (ends, polls) = (Arc::clone(&ends), Arc::clone(&polls));
                        // As a task beside it, once the answer has begun.
                        let body = Empties {
                            ends: Arc::clone(&ends),
                            polls,
                        };
                        drop(spawn(async move { ends.store(true, SeqCst) }));
                        async { Ok::<_, Infallible>(Response::new(body)) }
                    })
                };
                spawn(server.serve(service))
            },
        );
        if is_two {
            let (mut client, _connection) = client_2(site.address).await;
            let answer = within(client.send_request(request("/"))).await.unwrap();
            let all = within(answer.into_body().collect()).await.unwrap();
            assert!(all.to_bytes().is_empty());
        } else {
            let stream = TcpStream::connect(site.address).await.unwrap();
            let request = b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await.unwrap();
            within(common::closes(&stream)).await;
        }
        let polls = polls.load(SeqCst);
        assert!((1..MOST).contains(&polls), "{is_two}: {polls}");
        site.end().await;
    }
}
