//! A server whose routes have classes, and what their handlers and bodies have done. `/fair/known` is route
//! `known` in class Fair, and so on.

#![allow(dead_code, reason = "each test takes what it needs")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod pieces;

pub(crate) use pieces::{Pieces, Step};

use super::plain::LONG;
use doorbell::net::TcpListener;
use doorbell::sync::CancellationToken;
use doorbell::{Builder, Class, JoinHandle, Runtime, current_class};
use doorbell_hyper::{ServeError, Served, Server};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};
use hyper::header::{HeaderMap, HeaderValue, TRAILER};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The class of the routes below `/rt`, different from that of the connections.
pub(crate) const URGENT: Class = Class::rt(60);

/// The number of frames of `/chunks`: some are there at once, some come soon and some later.
pub(crate) const CHUNKS: usize = 60;

/// How long `/computes` computes, in CPU time of its thread.
pub(crate) const WORK: Duration = Duration::from_millis(5);

/// The length of each frame of an endless body.
pub(crate) const ENDLESS: usize = 64 << 10;

/// How long `/brief` computes: longer than a client needs to request it.
pub(crate) const BRIEF: Duration = Duration::from_micros(20);

/// What the handlers and their bodies have done.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The class of each handler.
    pub(crate) handlers: Mutex<Vec<Option<Class>>>,
    /// The class of each poll of a body.
    pub(crate) polls: Mutex<Vec<Option<Class>>>,
    /// Handlers that wait.
    pub(crate) waiting: AtomicUsize,
    /// How many of them were dropped.
    pub(crate) dropped: AtomicUsize,
    /// Frames and errors that bodies have given.
    pub(crate) frames: AtomicUsize,
    /// Bodies that were dropped after their last step.
    pub(crate) bodies_ended: AtomicUsize,
    /// Bodies that were dropped before it.
    pub(crate) bodies_cut: AtomicUsize,
}

impl Seen {
    fn body_is_polled(&self) {
        self.polls.lock().unwrap().push(current_class());
    }

    /// Waits until there are this many.
    pub(crate) fn wait_for(&self, what: fn(&Seen) -> &AtomicUsize, count: usize, when: &str) {
        let start = Instant::now();
        while what(self).load(SeqCst) < count {
            let now = what(self).load(SeqCst);
            assert!(start.elapsed() < LONG, "{when}: {now}, not {count}");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(what(self).load(SeqCst), count, "{when}");
    }
}

/// The class of a request.
pub(crate) fn class_of<R>(request: &Request<R>) -> Class {
    match request.uri().path().split('/').nth(1) {
        Some("rt") => URGENT,
        Some("batch") => Class::BATCH,
        _ => Class::FAIR,
    }
}

/// All that `/chunks` sends.
pub(crate) fn all_chunks() -> String {
    (0..CHUNKS).map(chunk).collect()
}

fn chunk(number: usize) -> String {
    format!("chunk {number};")
}

fn data(text: impl Into<Bytes>) -> Step {
    Step::Data(text.into())
}

fn chunks() -> impl Iterator<Item = Step> {
    (0..CHUNKS).flat_map(|number| {
        let wait = match number % 6 {
            1 => Some(Step::Later),
            4 => Some(Step::Soon),
            _ => None,
        };
        wait.into_iter().chain([data(chunk(number))])
    })
}

/// Computes for `time` on an otherwise idle CPU, and longer on a shared one.
pub(crate) fn compute(time: Duration) {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let end = now() + time;
    while now() < end {}
}

/// Waits forever.
async fn wait(seen: &Arc<Seen>) {
    struct Guard(Arc<Seen>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.dropped.fetch_add(1, SeqCst);
        }
    }
    let guard = Guard(Arc::clone(seen));
    seen.waiting.fetch_add(1, SeqCst);
    std::future::pending::<()>().await;
    drop(guard);
}

async fn handle<R>(request: Request<R>, seen: Arc<Seen>) -> io::Result<Response<Pieces>>
where
    R: Body<Error: Error + Send + Sync + 'static>,
{
    seen.handlers.lock().unwrap().push(current_class());
    let path = request.uri().path().to_owned();
    let is = |steps: Vec<Step>| Pieces::new(&seen, steps);
    let body = match path.rsplit('/').next().unwrap() {
        "known" => Pieces::known(&seen, "hello, world"),
        "empty" => Pieces::known(&seen, ""),
        "silent" => is(vec![]),
        "chunks" => Pieces::new(&seen, chunks()),
        // The length is known, but not that no more frames follow.
        "sized" => Pieces::new(&seen, chunks()).sized(all_chunks().len() as u64),
        "late" => is(vec![Step::Later, data("late")]),
        "trailers" => {
            let fields = HeaderMap::from_iter([("x-sum".parse().unwrap(), 42.into())]);
            let body = is(vec![data("sum"), Step::Later, Step::Trailers(fields)]);
            let mut response = Response::new(body);
            let field = HeaderValue::from_static("x-sum");
            response.headers_mut().insert(TRAILER, field);
            return Ok(response);
        }
        "echo" => {
            let bytes = request.into_body().collect().await;
            Pieces::known(&seen, bytes.map_err(io::Error::other)?.to_bytes())
        }
        what @ ("computes" | "brief") => {
            compute(if what == "brief" { BRIEF } else { WORK });
            Pieces::known(&seen, "computed")
        }
        "waits" => {
            wait(&seen).await;
            is(vec![])
        }
        "stays" => is(vec![data("begun"), Step::Never]),
        "endless" => is(vec![Step::Endless]),
        "fails" => return Err(io::Error::other("a handler that fails")),
        "fails-first" => is(vec![Step::Fail]),
        "fails-late" => is(vec![Step::Later, Step::Fail]),
        "fails-then" => is(vec![data("begun"), Step::Fail]),
        "fails-then-late" => is(vec![data("begun"), Step::Later, data("more"), Step::Fail]),
        "fails-sized" => is(vec![data("begun"), Step::Later, Step::Fail]).sized(100),
        "panics" => panic!("a handler that panics"),
        "panics-first" => is(vec![Step::Panic]),
        "panics-late" => is(vec![Step::Later, Step::Panic]),
        "panics-then" => is(vec![data("begun"), Step::Panic]),
        "panics-then-late" => is(vec![data("begun"), Step::Later, data("more"), Step::Panic]),
        other => panic!("no route {other}"),
    };
    Ok(Response::new(body))
}

/// The service of those routes.
pub(crate) fn service<R>(
    seen: &Arc<Seen>,
) -> impl Service<Request<R>, Response = Response<Pieces>, Error = io::Error, Future: Send + 'static>
+ Clone
+ Send
+ use<R>
where
    R: Body<Error: Error + Send + Sync + 'static, Data: Send> + Send + 'static,
{
    let seen = Arc::clone(seen);
    service_fn(move |request| handle(request, Arc::clone(&seen)))
}

/// A running server of those routes.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    task: JoinHandle<Result<Served, ServeError>>,
    end: CancellationToken,
}

impl Routes {
    /// Starts it on two cores and a free port.
    pub(crate) fn start() -> Routes {
        Routes::on(Builder::new().cores(2), |server| server)
    }

    pub(crate) fn on(builder: Builder, with: impl FnOnce(Server) -> Server) -> Routes {
        Routes::with_connections(Class::FAIR, builder, with)
    }

    /// As [`Routes::on`]; a task of class `connections` awaits the server.
    pub(crate) fn with_connections(
        connections: Class,
        builder: Builder,
        with: impl FnOnce(Server) -> Server,
    ) -> Routes {
        let runtime = builder.build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let end = CancellationToken::new();
        let server = with(Server::new(listener)).shutdown_on(end.clone().cancelled_owned());
        let theirs = Arc::clone(&seen);
        let server = server.classes(class_of);
        let task = runtime.task().class(connections);
        let task = task.spawn(server.serve(move || service(&theirs)));
        Routes {
            runtime,
            address,
            seen,
            task,
            end,
        }
    }

    /// Tells it to end, waits for that, and ends the runtime.
    pub(crate) fn end(self) -> Served {
        self.end.cancel();
        self.runtime.block_on(self.task).unwrap().unwrap()
    }
}

/// All bytes that one request gets until the connection ends, without the date.
pub(crate) fn raw(address: SocketAddr, method: &str, path: &str, fields: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{path}");
    }
    let answer = String::from_utf8(answer).unwrap();
    let lines = answer.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("date: ")).collect()
}

/// Whether an HTTP/1.1 client takes this for a complete answer.
pub(crate) fn is_complete(raw: &str) -> bool {
    let Some((head, body)) = raw.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    match length {
        Some(length) => body.len() >= length.parse().unwrap(),
        None => !head.contains("transfer-encoding: chunked") || body.contains("0\r\n\r\n"),
    }
}
