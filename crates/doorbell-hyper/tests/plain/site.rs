//! A server on a runtime of its own, for plain clients.

use super::LONG;
use doorbell::net::TcpListener;
use doorbell::time::sleep;
use doorbell::{Builder, JoinHandle, Runtime};
use doorbell_hyper::{RequestBody, ServeError, Served, Server};
use futures_channel::oneshot;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The length of `/big`'s body: more than the sockets hold.
pub(crate) const BIG: usize = 16 << 20;

/// The length of `/sized`'s body.
pub(crate) const SIZED: usize = 100_000;

/// The number of pieces of `/chunks`, and the length of each.
pub(crate) const CHUNKS: usize = 20;
pub(crate) const CHUNK: usize = 1_000;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The byte at this position of a body.
pub(crate) fn byte_at(at: usize) -> u8 {
    (at % 251) as u8
}

/// Whether this is a complete body of that length.
pub(crate) fn is_whole(body: &[u8], length: usize) -> bool {
    let right = |(at, byte): (usize, &u8)| *byte == byte_at(at);
    body.len() == length && body.iter().enumerate().all(right)
}

/// What the handlers have seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Requests.
    pub(crate) requests: AtomicU64,
    /// Request bodies that ended too early.
    pub(crate) broken: AtomicU64,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    pub(crate) task: JoinHandle<Result<Served, ServeError>>,
    stop: oneshot::Sender<()>,
}

impl Site {
    /// Starts it on two cores and a free port.
    pub(crate) fn start(with: impl FnOnce(Server) -> Server) -> Site {
        let runtime = Builder::new().cores(2).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            // Without a sender it is never told to end.
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let seen = Arc::new(Seen::default());
        let theirs = Arc::clone(&seen);
        let service = move || {
            let seen = Arc::clone(&theirs);
            service_fn(move |request| answer(request, Arc::clone(&seen)))
        };
        let server = with(Server::new(listener)).shutdown_on(stopped);
        let task = runtime.spawn(server.serve(service));
        Site {
            runtime,
            address,
            seen,
            task,
            stop,
        }
    }

    /// Tells it to end, waits for that, and ends the runtime.
    pub(crate) fn end(self) -> Served {
        self.stop.send(()).unwrap();
        let served = self.runtime.block_on(self.task).unwrap().unwrap();
        drop(self.runtime);
        served
    }

    /// Waits until the handlers have seen this many.
    pub(crate) fn wait_for(&self, what: fn(&Seen) -> &AtomicU64, count: u64) {
        let start = Instant::now();
        while what(&self.seen).load(SeqCst) < count {
            assert!(start.elapsed() < LONG, "not {count}: {:?}", self.seen);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(what(&self.seen).load(SeqCst), count, "{:?}", self.seen);
    }
}

/// A body with a length.
fn sized(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(byte_at).collect()
}

/// A body without a length, in several pieces.
fn chunks() -> Body {
    let pieces = futures_util::stream::unfold(0, |piece| async move {
        if piece == CHUNKS {
            return None;
        }
        sleep(Duration::from_micros(50)).await;
        let from = piece * CHUNK;
        let bytes: Vec<u8> = (from..from + CHUNK).map(byte_at).collect();
        Some((Ok(Frame::data(Bytes::from(bytes))), piece + 1))
    });
    StreamBody::new(pieces).boxed_unsync()
}

async fn answer(
    request: Request<RequestBody>,
    seen: Arc<Seen>,
) -> Result<Response<Body>, Infallible> {
    seen.requests.fetch_add(1, SeqCst);
    let path = request.uri().path().to_owned();
    let body = match path.as_str() {
        "/" => sized("hello, world"),
        "/late" => {
            sleep(Duration::from_millis(50)).await;
            sized("hello, late")
        }
        "/big" => sized(pattern(BIG)),
        "/sized" => sized(pattern(SIZED)),
        "/chunks" => chunks(),
        "/length" => {
            let body = request.into_body().collect().await;
            seen.broken.fetch_add(u64::from(body.is_err()), SeqCst);
            let length = body.map(|it| it.to_bytes().len());
            sized(length.unwrap_or(0).to_string())
        }
        // Echoes the path.
        other => sized(other.to_owned()),
    };
    Ok(Response::new(body))
}
