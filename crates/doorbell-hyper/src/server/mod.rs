//! [`Server`].

mod accept;
mod alarm;
mod by_class;
mod connection;
mod error;
mod in_flight;
mod opening;
mod progress;
mod protocol;
mod tasks;

pub use by_class::ClassServer;
pub use error::{ServeError, Served};
pub use progress::ServerIo;

use accept::{Acceptor, Signal};
use alarm::Times;
use async_lock::Semaphore;
use connection::Shared;
use doorbell::net::TcpListener;
use doorbell::{Handle, JoinHandle};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};
use std::error::Error;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tasks::Tasks;

/// A server of HTTP/1 and HTTP/2 on one port, without TLS. See the [crate](crate).
///
/// Each connection is a task, and each request of HTTP/2 one more, all of the class of the task that
/// awaits the server. A handler that panics ends its connection, or over HTTP/2 its request, and nothing else.
///
/// A connection that is upgraded (`hyper::upgrade::on`) belongs to whoever has taken it from then on: it counts as open
/// for [`connection_limit`](Server::connection_limit), but neither timeouts nor the end of the server
/// touch it. A tunnel over HTTP/2 (`CONNECT`) is part of its connection, which then is not closed for being idle any
/// more; at the end of the server it counts as a request in flight. A handler that answers any method with success opens one for
/// whoever asks: refuse `CONNECT` where none is meant.
#[must_use = "nothing is served before `serve` is awaited"]
pub struct Server {
    listener: TcpListener,
    limit: Option<NonZeroUsize>,
    times: Times,
    /// Whether its tasks are served while everything computes.
    rescuable: bool,
    half_close: bool,
    signal: Option<Signal>,
    drain_timeout: Duration,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("listener", &self.listener)
            .field("limit", &self.limit)
            .field("times", &self.times)
            .field("drain_timeout", &self.drain_timeout)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Of what listens.
    pub fn new(listener: TcpListener) -> Server {
        Server {
            listener,
            limit: None,
            times: Times {
                header: Some(Duration::from_secs(30)),
                keep_alive: Some(Duration::from_secs(75)),
            },
            rescuable: false,
            half_close: false,
            signal: None,
            drain_timeout: Duration::from_secs(30),
        }
    }

    /// Accepts nobody while so many connections are open: those beyond wait in the listener's
    /// backlog. Without a limit, unless told.
    pub fn connection_limit(mut self, limit: NonZeroUsize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// How long the head of a request of HTTP/1 may take from its first byte on, and the first one
    /// of a connection, or the first bytes of HTTP/2, from the accept on. The connection is dropped
    /// then. 30 s unless told; `None`: for ever.
    pub fn header_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.times.header = timeout;
        self
    }

    /// How long a connection may stay open without a request in flight, after the first one or,
    /// with HTTP/2, from the beginning. It is closed then as at the end of the server. 75 s unless
    /// told; `None`: for ever. With HTTP/2 it may be twice as long.
    pub fn keep_alive_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.times.keep_alive = timeout;
        self
    }

    /// Whether a client that has closed its direction (`shutdown(SHUT_WR)`) gets its answers still. Unless
    /// told it does not, as with hyper: it counts as gone, so its handler is dropped and works for
    /// nobody. With this, a handler whose client is gone is noticed when its answer is written.
    pub fn half_close(mut self, half_close: bool) -> Self {
        self.half_close = half_close;
        self
    }

    /// When this future is ready, the server ends: nobody is accepted any more, connections without a
    /// request in flight are closed, and the others after it.
    pub fn shutdown_on(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.signal = Some(Box::pin(signal));
        self
    }

    /// How long requests in flight may take after the signal; then their connections are dropped.
    /// 30 s unless told.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Serves until the signal of [`shutdown_on`](Server::shutdown_on), with a service for each
    /// connection, and returns when all connections are gone.
    ///
    /// Where the OS has no more descriptors or memory, nobody is accepted for 10 ms, and after each
    /// further refusal twice as long, up to 1 s. Connections that a client gave up before are
    /// skipped.
    ///
    /// Dropped, the future ends the server at once: nobody is accepted any more and all connections are
    /// dropped, with their requests.
    ///
    /// # Errors
    /// [`ServeError`] says why the server has ended; its connections are dropped.
    ///
    /// # Panics
    /// If `make_service` does.
    pub async fn serve<F, S, B>(self, make_service: F) -> Result<Served, ServeError>
    where
        F: Fn() -> S + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let here = Handle::try_current()?;
        let mut task = here.task();
        if self.rescuable {
            here.open_rescue()?;
            task = task.rescuable();
        }
        let tasks = Tasks {
            rescuable: self.rescuable,
        };
        let shared = Shared::new(self.times, tasks, self.half_close);
        let acceptor = Acceptor {
            listener: self.listener,
            make_service,
            shared: Arc::clone(&shared),
            limit: self
                .limit
                .map(|limit| Arc::new(Semaphore::new(limit.get()))),
            signal: self.signal,
            drain_timeout: self.drain_timeout,
        };
        let task = task.try_spawn(acceptor.run())?;
        let mut running = Running { task, shared };
        (&mut running.task)
            .await
            .unwrap_or_else(|error| Err(ServeError::of_join(error)))
    }

    /// As [`Server::serve`], for a service of tower: a `Router` of axum, `Routes` of tonic. Each
    /// connection has a clone.
    ///
    /// # Errors
    /// As for [`Server::serve`].
    #[cfg(feature = "tower")]
    pub async fn serve_tower<S, B>(self, service: S) -> Result<Served, ServeError>
    where
        S: tower_service::Service<Request<Incoming>, Response = Response<B>>
            + Clone
            + Send
            + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let make_service = move || hyper_util::service::TowerToHyperService::new(service.clone());
        self.serve(make_service).await
    }
}

/// A server that runs. Dropped, it does not.
#[derive(Debug)]
struct Running {
    task: JoinHandle<Result<Served, ServeError>>,
    shared: Arc<Shared>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.cut();
    }
}

/// [`Server::serve`] with the defaults: for ever, with a service for each connection.
///
/// # Errors
/// As for [`Server::serve`].
pub async fn serve<F, S, B>(listener: TcpListener, make_service: F) -> Result<Served, ServeError>
where
    F: Fn() -> S + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    Server::new(listener).serve(make_service).await
}
