//! Memory of a connection whose request body comes in single bytes. The handler keeps them all.
//!
//! A test binary of its own: it counts the memory of the whole process, so its only test runs alone.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

#[path = "../../doorbell/tests/counting/mod.rs"]
#[allow(dead_code, reason = "others ask for more")]
mod counting;
mod plain;

use doorbell::net::TcpListener;
use doorbell::{Builder, Class, Runtime};
use doorbell_hyper::{RequestBody, Server};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response};
use plain::{Client, LONG};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

/// The number of single bytes.
const BYTES: usize = 400;

/// The most that a connection may cost while it has received these, in bytes.
const MOST: i64 = 60_000;

/// Collects the frames of a request's body, and counts the bytes, and one for its own start.
async fn collect(
    request: Request<RequestBody>,
    received: Arc<AtomicUsize>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    received.fetch_add(1, SeqCst);
    // The head lives as long as the body: its fields are parts of a read buffer too.
    let (_head, mut body) = request.into_parts();
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        received.fetch_add(data.len(), SeqCst);
        frames.push(data);
    }
    Ok(Response::new(Full::from(frames.concat())))
}

/// How the body's length is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Sized,
    Chunked,
}

/// A running server, and the number of handlers that have begun plus the bytes that they have received.
struct Site {
    _runtime: Runtime,
    address: SocketAddr,
    received: Arc<AtomicUsize>,
}

impl Site {
    fn start(class: Class) -> Site {
        let runtime = Builder::new().cores(1).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&received);
        let service = move || {
            let received = Arc::clone(&theirs);
            service_fn(move |request| collect(request, Arc::clone(&received)))
        };
        let server = Server::new(listener).classes(move |_| class);
        drop(runtime.spawn(server.serve(service)));
        Site {
            _runtime: runtime,
            address,
            received,
        }
    }

    fn wait_for(&self, count: usize) {
        let start = Instant::now();
        while self.received.load(SeqCst) < count {
            assert!(start.elapsed() < LONG, "{:?} of {count}", self.received);
            std::thread::yield_now();
        }
    }

    /// Sends `ahead` bytes at once and then the single ones. Returns how much memory the process has then
    /// beyond what it had before the connection.
    fn upload(&self, sent: Sent, ahead: usize) -> i64 {
        self.received.store(0, SeqCst);
        let (_, before) = counting::live();
        let mut client = Client::to(self.address);
        let length = match sent {
            Sent::Sized => format!("content-length: {}", ahead + BYTES),
            Sent::Chunked => "transfer-encoding: chunked".to_owned(),
        };
        let head = format!("POST / HTTP/1.1\r\nhost: here\r\n{length}\r\n\r\n");
        client.write(head.as_bytes()).unwrap();
        let data = |count: usize| match sent {
            Sent::Sized => "x".repeat(count),
            Sent::Chunked => format!("{count:x}\r\n{}\r\n", "x".repeat(count)),
        };
        if ahead > 0 {
            client.write(data(ahead).as_bytes()).unwrap();
        }
        self.wait_for(1 + ahead);
        for count in 1..=BYTES {
            client.write(data(1).as_bytes()).unwrap();
            self.wait_for(1 + ahead + count);
        }
        let (_, after) = counting::live();
        if sent == Sent::Chunked {
            client.write(b"0\r\n\r\n").unwrap();
        }
        assert_eq!(client.answer().unwrap().body.len(), ahead + BYTES);
        after - before
    }
}

#[test]
fn a_slow_upload_that_is_collected_costs_about_what_was_sent() {
    for class in [Class::FAIR, Class::BATCH] {
        let site = Site::start(class);
        // What is created once, by the first connection, stays.
        site.upload(Sent::Sized, 1);
        for sent in [Sent::Sized, Sent::Chunked] {
            for ahead in [0, 1, 9_000, 100_000] {
                let cost = site.upload(sent, ahead);
                println!("{class}, {sent:?}: {cost} bytes after {ahead} and {BYTES} single ones");
                // What came at once is in the handler's memory, and made hyper's read buffer grow.
                let most = MOST + 3 * i64::try_from(ahead).unwrap();
                assert!(
                    cost <= most,
                    "{class}, {sent:?}, {ahead} ahead: {cost} bytes"
                );
            }
        }
    }
}
