//! The compared servers. Each runs in a process of its own, with two serving threads.

use std::convert::Infallible;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use doorbell::Class;
use futures::channel::oneshot::{Receiver, channel};
use futures::future::{Either, select};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpStream;

use self::Start::{Each, One};
use super::{BASELINE, OURS, TOKIO_IDLE_THREADS, TWO, TWO_OURS, epoll};
use crate::measure::Samples;
use crate::peers::{
    Doorbell, Host as _, IdlePool, Tokio, Workers, current_thread, in_idle_pool, thread_on,
};
use crate::tools::{compute, locked};

const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time to answer requests in flight at the end.
const DRAIN: Duration = Duration::from_secs(4);
const BACKLOG: i32 = 4_096;
/// Time before a listener that was refused a connection tries again.
const REFUSED: Duration = Duration::from_millis(10);
const URGENT: Class = Class::rt(50);
pub(super) const HELLO: &str = "hello, world";
pub(super) const COMPUTED: &str = "computed";
pub(super) const HEALTHY: &str = "ok";
/// The route that tells how long the computations took: the 99th percentile and the maximum, in µs.
pub(super) const COMPUTATIONS: &str = "/computations";

/// The route that tells the rings and the stolen tasks of doorbell so far.
pub(super) const COUNTS: &str = "/counts";

static TOOK: LazyLock<Mutex<Samples>> = LazyLock::new(Mutex::default);
/// The runtimes of doorbell in this process.
static RUNTIMES: Mutex<Vec<doorbell::Handle>> = Mutex::new(Vec::new());

/// What a server is started with.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) work: Computation,
    /// Its serving threads.
    pub(super) workers: Workers,
}

impl Setup {
    /// The same with the first of the threads alone.
    fn one(&self) -> Self {
        Self {
            workers: self.each().remove(0),
            work: self.work,
        }
    }

    /// Each thread for itself.
    fn each(&self) -> Vec<Workers> {
        let one = |place| match self.workers.cpu(place) {
            Some(cpu) => Workers::on([cpu]),
            None => Workers::Free(1),
        };
        (0..self.workers.count()).map(one).collect()
    }
}

/// A server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: &'static str,
    /// Its name on the command line.
    pub(super) flag: &'static str,
    /// Beginnings of the names of the parts in which it takes part.
    pub(super) parts: &'static [&'static str],
    pub(super) start: Start,
}

const fn server(
    name: &'static str,
    flag: &'static str,
    parts: &'static [&'static str],
    start: Start,
) -> Server {
    Server {
        name,
        flag,
        parts,
        start,
    }
}

/// How a server starts: with a listener, or with one for each thread.
#[derive(Debug, Clone, Copy)]
pub(super) enum Start {
    One(fn(TcpListener, &Setup) -> Result<End>),
    Each(fn(Vec<TcpListener>, &Setup) -> Result<End>),
}

impl Start {
    /// Starts it at an address. Where it listens, and how it ends.
    pub(super) fn at(self, address: SocketAddr, setup: &Setup) -> Result<(SocketAddr, End)> {
        let count = if matches!(self, Start::One(_)) {
            1
        } else {
            setup.workers.count()
        };
        let mut all = listeners(address, count)?;
        let address = all[0].local_addr();
        let address = address.context("asking where it listens")?;
        let end = match self {
            Start::One(start) => start(all.remove(0), setup),
            Start::Each(start) => start(all, setup),
        };
        Ok((address, end?))
    }
}

const ALL_PARTS: &[&str] = &[""];
/// Beside few connections that compute, where more contestants say more.
const FEW_COMPUTE: &[&str] = &["computing, "];
const RESTS: &[&str] = &["hello", "idle"];
const RESTS_OR_COMPUTES: &[&str] = &["hello", "idle", "computing, "];

/// In the order of the tables.
pub(super) static ALL: [Server; 13] = [
    server(
        BASELINE,
        "tokio",
        ALL_PARTS,
        One(|listener, setup| {
            let work = setup.work;
            tokio(listener, &setup.workers, move || compute_here(work))
        }),
    ),
    server(
        "tokio, one thread",
        "one-tokio",
        &["hello"],
        One(|listener, setup| tokio_alone(vec![listener], &setup.one())),
    ),
    server("tokio, bare hyper", "tokio-bare", RESTS, One(tokio_bare)),
    server(TWO, "two-tokios", RESTS_OR_COMPUTES, Each(tokio_alone)),
    server(
        OURS,
        "doorbell",
        ALL_PARTS,
        One(|listener, setup| doorbell(listener, setup, Some(by_route), Class::FAIR)),
    ),
    server(
        "doorbell, connections in class Rt",
        "doorbell-urgent-connections",
        &["computing", "hello", "a flood"],
        One(|listener, setup| doorbell(listener, setup, Some(by_route), URGENT)),
    ),
    // In all other parts it is the same as doorbell.
    server(
        "doorbell, / in class Rt",
        "doorbell-urgent-hello",
        &["hello"],
        One(|listener, setup| {
            let class_of = |path: &str| match path {
                "/" => URGENT,
                path => by_route(path),
            };
            doorbell(listener, setup, Some(class_of), Class::FAIR)
        }),
    ),
    server(
        "doorbell, one class",
        "doorbell-one-class",
        ALL_PARTS,
        One(|listener, setup| doorbell(listener, setup, None, Class::FAIR)),
    ),
    server(
        "doorbell, one worker",
        "one-doorbell",
        &["hello"],
        One(|listener, setup| doorbell(listener, &setup.one(), None, Class::FAIR)),
    ),
    server(TWO_OURS, "two-doorbells", &["hello"], Each(two_doorbells)),
    server(
        "raw epoll",
        "raw-epoll",
        RESTS_OR_COMPUTES,
        Each(epoll::start),
    ),
    server(
        "tokio, spawn_blocking",
        "tokio-blocking",
        FEW_COMPUTE,
        One(|listener, setup| {
            let work = setup.work;
            tokio(listener, &setup.workers, move || async move {
                // Fails only if the work panics or the runtime ends; then no client waits for the answer.
                let _ = tokio::task::spawn_blocking(move || work.run()).await;
            })
        }),
    ),
    server(
        TOKIO_IDLE_THREADS,
        "tokio-idle-threads",
        &["computing", "a flood"],
        One(tokio_idle_threads),
    ),
];

/// So many listeners on one address.
fn listeners(address: SocketAddr, count: usize) -> Result<Vec<TcpListener>> {
    let mut all: Vec<TcpListener> = Vec::with_capacity(count);
    for _ in 0..count {
        // The first listener may have been assigned a port.
        let address = all.first().map_or(Ok(address), TcpListener::local_addr);
        let listener = address.and_then(listener);
        all.push(listener.context("listening for connections")?);
    }
    Ok(all)
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The work of `/compute`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Computation {
    slice_steps: u64,
    slices: u32,
}

impl Computation {
    pub(super) fn new(steps: u64, slices: u32) -> Self {
        Self {
            slice_steps: steps / u64::from(slices),
            slices,
        }
    }

    pub(super) fn run(self) {
        timed(self.slice_steps * u64::from(self.slices));
    }

    async fn run_in_slices<Y: Future>(self, yield_now: impl Fn() -> Y) {
        for slice in 0..self.slices {
            if slice > 0 {
                yield_now().await;
            }
            timed(self.slice_steps);
        }
    }
}

/// Computes, and notes how long that took: on a busy machine longer than alone.
fn timed(steps: u64) {
    let began = Instant::now();
    compute(steps);
    let ns = began.elapsed().as_nanos() as u64;
    locked(&TOOK).record(ns);
}

/// Asks a running server to end, and waits.
pub(super) type End = Box<dyn FnOnce()>;

/// The service for hyper, for every runtime on which hyper runs.
async fn answer<B, W: Future<Output = ()>>(
    request: Request<B>,
    compute: impl Fn() -> W,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let text = |body: Bytes| {
        let mut response = Response::new(Full::new(body));
        let plain = HeaderValue::from_static("text/plain");
        response.headers_mut().insert(CONTENT_TYPE, plain);
        response
    };
    Ok(match request.uri().path() {
        "/" => text(HELLO.into()),
        "/healthz" => text(HEALTHY.into()),
        "/compute" => {
            compute().await;
            text(COMPUTED.into())
        }
        COMPUTATIONS => {
            let took = mem::take(&mut *locked(&TOOK));
            let us = took.percentiles_ns([99.0, 100.0], 0.0);
            let us = us.map(|ns| (ns.unwrap_or(f64::NAN) / 1e3).to_string());
            text(us.join(" ").into())
        }
        COUNTS => text(counts().unwrap_or_default().into()),
        _ => {
            let mut response = text(Bytes::new());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    })
}

/// The rings and the stolen tasks of all runtimes of doorbell; `None` where there is none.
fn counts() -> Option<String> {
    let runtimes = locked(&RUNTIMES);
    let workers = runtimes.iter().flat_map(|one| one.metrics().workers);
    let each = workers.map(|worker| [worker.raw().rings, worker.raw().stolen]);
    let [rings, stolen] = each.reduce(|sum, one| [sum[0] + one[0], sum[1] + one[1]])?;
    Some(format!("{rings} {stolen}"))
}

fn by_route(path: &str) -> Class {
    if path == "/healthz" {
        URGENT
    } else {
        Class::FAIR
    }
}

/// hyper on doorbell, with classes by path or without; the connections are in class `connections`.
fn doorbell(
    listener: TcpListener,
    setup: &Setup,
    class_of: Option<fn(&str) -> Class>,
    connections: Class,
) -> Result<End> {
    let Doorbell(runtime) = Doorbell::start(&setup.workers)?;
    locked(&RUNTIMES).push(runtime.handle().clone());
    let work = setup.work;
    let listener = doorbell::net::TcpListener::from_std(listener);
    let listener = listener.context("taking over a listener")?;
    let (stop, stopped) = channel::<()>();
    let server = doorbell_hyper::Server::new(listener)
        .header_timeout(Some(HEADER_TIMEOUT))
        .drain_timeout(DRAIN)
        .shutdown_on(async {
            // The channel is closed to request the end; no message is sent.
            let _ = stopped.await;
        });
    let service = move || {
        service_fn(move |request| answer(request, move || work.run_in_slices(doorbell::yield_now)))
    };
    let task = runtime.task().class(connections);
    let task = match class_of {
        None => task.spawn(server.serve(service)),
        Some(class_of) => {
            let server = server.classes(move |request| class_of(request.uri().path()));
            task.spawn(server.serve(service))
        }
    };
    Ok(Box::new(move || {
        drop(stop);
        // If it failed, its clients have noticed.
        let _ = runtime.block_on(task);
    }))
}

/// A runtime with one worker for each listener; they share only the address.
fn two_doorbells(listeners: Vec<TcpListener>, setup: &Setup) -> Result<End> {
    let mut ends = Vec::new();
    for (listener, workers) in listeners.into_iter().zip(setup.each()) {
        let setup = Setup {
            work: setup.work,
            workers,
        };
        ends.push(doorbell(listener, &setup, None, Class::FAIR)?);
    }
    Ok(Box::new(|| ends.into_iter().for_each(|end| end())))
}

/// hyper on tokio's multi-thread runtime, with the features of doorbell's server.
fn tokio<W: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    workers: &Workers,
    compute: impl Fn() -> W + Clone + Send + Sync + 'static,
) -> Result<End> {
    let (Tokio(runtime), (stop, stopped)) = (Tokio::start(workers)?, channel());
    let task = runtime.spawn(serve(listener, stopped, compute));
    Ok(Box::new(move || {
        drop(stop);
        // If it failed, its clients have noticed.
        let _ = runtime.block_on(task);
    }))
}

/// The same with HTTP/1 only, no timeout and no drain.
fn tokio_bare(listener: TcpListener, setup: &Setup) -> Result<End> {
    let (Tokio(runtime), work) = (Tokio::start(&setup.workers)?, setup.work);
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let stream = TokioIo::new(accept(&listener).await);
            tokio::spawn(async move {
                let compute = move || compute_here(work);
                let service = service_fn(move |request| answer(request, compute));
                let served = http1::Builder::new().serve_connection(stream, service);
                // A client that disconnects in the middle of a request is no error of the server.
                let _ = served.await;
            });
        }
        #[expect(unreachable_code, reason = "the type of the task's error")]
        Ok::<(), io::Error>(())
    });
    Ok(Box::new(|| drop(runtime)))
}

/// The same whose handlers send their work to threads under `SCHED_IDLE`.
fn tokio_idle_threads(listener: TcpListener, setup: &Setup) -> Result<End> {
    let (pool, work) = (IdlePool::start(&setup.workers)?.orders(), setup.work);
    tokio(listener, &setup.workers, move || {
        let pool = pool.clone();
        async move {
            // None if the work panics.
            let _ = in_idle_pool(&pool, move || work.run()).await;
        }
    })
}

/// hyper on a single-threaded tokio runtime for each listener; they share only the address.
fn tokio_alone(listeners: Vec<TcpListener>, setup: &Setup) -> Result<End> {
    let (work, mut stops, mut threads) = (setup.work, Vec::new(), Vec::new());
    for (place, listener) in listeners.into_iter().enumerate() {
        let runtime = current_thread()?;
        let (stop, stopped) = channel();
        stops.push(stop);
        let serve = move || runtime.block_on(serve(listener, stopped, move || compute_here(work)));
        threads.push(thread_on("tokio-alone", setup.workers.cpu(place), serve)?);
    }
    Ok(Box::new(|| {
        drop(stops);
        for thread in threads {
            // If it failed, its clients have noticed.
            let _ = thread.join();
        }
    }))
}

async fn compute_here(work: Computation) {
    work.run_in_slices(tokio::task::yield_now).await;
}

async fn serve<W: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    mut stopped: Receiver<()>,
    compute: impl Fn() -> W + Clone + Send + Sync + 'static,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut hyper = auto::Builder::new(TokioExecutor::new());
    hyper
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    hyper.http2().timer(TokioTimer::new());
    let open = GracefulShutdown::new();
    while let Either::Left((accepted, _)) = select(pin!(accept(&listener)), &mut stopped).await {
        let compute = compute.clone();
        let service = service_fn(move |request| answer(request, compute.clone()));
        let connection = hyper.serve_connection_with_upgrades(TokioIo::new(accepted), service);
        let connection = open.watch(connection.into_owned());
        tokio::spawn(async move {
            // A client that disconnects in the middle of a request is no error of the server.
            let _ = connection.await;
        });
    }
    drop(listener);
    // Requests that are not answered by then are dropped with the runtime.
    let _ = tokio::time::timeout(DRAIN, open.shutdown()).await;
    Ok(())
}

async fn accept(listener: &tokio::net::TcpListener) -> TcpStream {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            // A failure only makes answers slower.
            let _ = stream.set_nodelay(true);
            return stream;
        }
        tokio::time::sleep(REFUSED).await;
    }
}
