//! hyper on tokio's multi-thread runtime.

use std::io;
use std::net::TcpListener;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::super::super::common::tokio_error;
use super::super::part::Part;
use super::idle_threads::IdleThreads;
use super::running::{DRAIN, Running, Stopped};
use super::{BASELINE, Computation, HEADER_TIMEOUT, Server, TOKIO_IDLE_THREADS, WORKERS, service};
use crate::error::LabError;

/// The pause after an accept that the OS refused.
const REFUSED: Duration = Duration::from_millis(10);

/// Its features, and where it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tokio {
    /// The features of `doorbell_hyper::Server`: a timeout for heads, HTTP/1 and HTTP/2 on one port, and
    /// requests in flight are answered at the end. Computes in the handler.
    Handler,
    /// The same, but computes in `spawn_blocking`.
    Blocking,
    /// The same, but computes on two threads under `SCHED_IDLE`.
    IdleThreads,
    /// HTTP/1 only, without a timeout and without a drain.
    Bare,
}

impl Server for Tokio {
    fn name(&self) -> &'static str {
        match self {
            Self::Handler => BASELINE,
            Self::Blocking => "tokio, spawn_blocking",
            Self::IdleThreads => TOKIO_IDLE_THREADS,
            Self::Bare => "tokio, bare hyper",
        }
    }

    fn flag(&self) -> &'static str {
        match self {
            Self::Handler => "tokio",
            Self::Blocking => "tokio-blocking",
            Self::IdleThreads => "tokio-idle-threads",
            Self::Bare => "tokio-bare",
        }
    }

    fn parts(&self) -> &'static [Part] {
        match self {
            Self::Handler => &[Part::Hello, Part::Computing, Part::Flood, Part::Idle],
            Self::Blocking => &[Part::Computing],
            Self::IdleThreads => &[Part::Computing, Part::Flood],
            Self::Bare => &[Part::Hello, Part::Idle],
        }
    }

    fn start(&self, listeners: Vec<TcpListener>, work: Computation) -> Result<Running, LabError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_all()
            .build()
            .map_err(tokio_error)?;
        match self {
            Self::Handler => Ok(start(runtime, listeners, move || compute_here(work))),
            Self::Blocking => Ok(start(runtime, listeners, move || compute_aside(work))),
            Self::IdleThreads => {
                let threads = IdleThreads::start()?;
                let compute = move || {
                    let threads = threads.clone();
                    async move { threads.run(move || work.run()).await }
                };
                Ok(start(runtime, listeners, compute))
            }
            Self::Bare => {
                for listener in listeners {
                    runtime.spawn(serve_bare(listener, work));
                }
                Ok(Running::default().ends_by(|| drop(runtime)))
            }
        }
    }
}

/// Serves on each listener, with all features.
fn start<C, W>(runtime: Runtime, listeners: Vec<TcpListener>, compute: C) -> Running
where
    C: Fn() -> W + Clone + Send + Sync + 'static,
    W: Future<Output = ()> + Send + 'static,
{
    let mut running = Running::default();
    let mut tasks = Vec::new();
    for listener in listeners {
        tasks.push(runtime.spawn(serve(listener, running.stopped(), compute.clone())));
    }
    running.ends_by(move || {
        for task in tasks {
            // If it failed, its clients have noticed.
            let _ = runtime.block_on(task);
        }
    })
}

/// Computes in the handler.
pub(super) async fn compute_here(work: Computation) {
    work.run_in_slices(tokio::task::yield_now).await;
}

async fn compute_aside(work: Computation) {
    // Fails only if the work panics or the runtime ends; then no client waits for the answer.
    let _ = tokio::task::spawn_blocking(move || work.run()).await;
}

/// Serves every connection in a task of its own until it is stopped, then answers the requests in flight.
/// Ends earlier if the listener is unusable.
pub(super) async fn serve<C, W>(
    listener: TcpListener,
    mut stopped: Stopped,
    compute: C,
) -> io::Result<()>
where
    C: Fn() -> W + Clone + Send + Sync + 'static,
    W: Future<Output = ()> + Send + 'static,
{
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
        let service = service_fn(move |request| service::answer(request, compute.clone()));
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

async fn serve_bare(listener: TcpListener, work: Computation) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let stream = TokioIo::new(accept(&listener).await);
        tokio::spawn(service::serve_bare(stream, move || compute_here(work)));
    }
}

/// Accepts the next connection.
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
