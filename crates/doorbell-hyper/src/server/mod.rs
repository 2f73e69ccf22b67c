//! [`Server`].

mod accept;
mod account;
mod alarm;
mod by_class;
mod connection;
mod error;
mod frames;
mod idle;
mod in_flight;
mod info;
mod limited;
mod limits;
mod listener;
mod open;
mod opening;
mod progress;
mod protocol;
mod request_body;
mod server_end;
mod server_io;
mod tasks;
#[cfg(feature = "tls")]
mod tls;

pub use by_class::ClassServer;
pub use error::{ServeError, Served};
pub use info::ConnectionInfo;
pub use listener::{Listener, Transport};
pub use request_body::{BodyError, RequestBody};
pub use server_end::ServerEnd;
pub use server_io::ServerIo;
pub use tasks::ServerExecutor;
#[cfg(feature = "tls")]
pub use tls::{TlsInfo, TlsIo, TlsListener};

use accept::{Acceptor, Signal};
use connection::Shared;
use doorbell::net::TcpListener;
use doorbell::{Handle, JoinHandle};
use hyper::body::Body;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper::{Request, Response};
use idle::Idle;
use limits::Limits;
use protocol::Settings;
use std::error::Error;
use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

/// An HTTP/1 and HTTP/2 server for the connections of a [`Listener`]: over TCP, a Unix socket or TLS. For
/// examples see the [crate](crate).
///
/// Each connection is a task, and so is each request over HTTP/2. They have the class of the task that awaits
/// the server. If a handler panics, only its connection ends, or over HTTP/2 only its request.
///
/// An upgraded connection (`hyper::upgrade::on`) belongs to the task that took it. It still counts for
/// [`connection_limit`](Server::connection_limit), and the end of the server waits for it as for a request in
/// flight, but no timeout applies to it and the server does not close it. [`ServerEnd`] tells its task. A
/// tunnel over HTTP/2 (`CONNECT`) stays part of its connection, and is a request in flight until it ends. A
/// handler that answers every method with success opens a tunnel for any client: refuse `CONNECT` unless you
/// want tunnels.
#[must_use = "nothing is served before `serve` is awaited"]
pub struct Server<L = TcpListener> {
    listener: L,
    limit: Option<NonZeroUsize>,
    limits: Limits,
    settings: Settings,
    signal: Option<Signal>,
    drain_timeout: Duration,
}

impl<L: fmt::Debug> fmt::Debug for Server<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("listener", &self.listener)
            .field("limit", &self.limit)
            .field("limits", &self.limits)
            .field("drain_timeout", &self.drain_timeout)
            .finish_non_exhaustive()
    }
}

impl<L: Listener> Server<L> {
    /// A server for the connections of `listener`, with the default settings.
    pub fn new(listener: L) -> Server<L> {
        Server {
            listener,
            limit: None,
            limits: Limits::DEFAULT,
            settings: Settings::new(),
            signal: None,
            drain_timeout: Duration::from_secs(30),
        }
    }

    /// Sets how many connections may be open at once. Further connections wait: one is accepted, the others
    /// are in the listener's backlog. While one waits, idle connections are closed, the one first that has been idle
    /// for the longest time. A connection is idle over HTTP/1 from its first answer on, over HTTP/2 from its begin on,
    /// while no request is in flight. One that sends nothing, or half a head, keeps its place until
    /// [`header_timeout`](Server::header_timeout). Default: no limit.
    pub fn connection_limit(mut self, limit: NonZeroUsize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets how long a client may take to send the head of an HTTP/1 request, counted from its first byte.
    /// For the first head of a connection, and for the preface of HTTP/2, the time counts from the accept; it
    /// includes a TLS handshake. A connection that takes longer is dropped. Default: 30 s; `None` means no limit.
    pub fn header_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.limits.header = timeout;
        self
    }

    /// Sets how long a handler may wait for the next bytes of a request's body. Then the body ends with
    /// [`BodyError::TimedOut`]. Time in which the handler does not wait for the body does not count. Nor does
    /// any time after the handler's answer has begun, so streams in both directions may pause. Default: 60 s;
    /// `None` means no limit.
    ///
    /// A call of gRPC whose only stream is the client's has no answer before its end. If its client pauses
    /// for longer, set a longer time.
    pub fn body_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.limits.body = timeout;
        self
    }

    /// Sets how long a client may take nothing of what is owed to it. Then its connection is dropped, with
    /// its requests. An answer whose handler has nothing to send is not limited, however long it lives.
    /// Default: 60 s; `None` means no limit.
    ///
    /// Over HTTP/2 each answer counts for itself. If the client takes nothing of one, the stream of that answer
    /// is reset, and the connection lives on. The connection is dropped if its socket takes nothing. An answer of
    /// up to 16 KiB is exempt once h2 has all of it: h2 keeps what the client has no room for, while the client
    /// takes other answers. If the client takes nothing at all, its connection is dropped 5 s after the limit.
    ///
    /// Over a Unix socket the client must take about 160 kB within that time: until then the OS tells nothing.
    pub fn write_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.limits.write = timeout;
        self
    }

    /// Sets how long a request may take, from its head to the last byte of its answer. Then its connection is
    /// dropped, over HTTP/2 only the request, also if it has become a tunnel. Default: `None`, no limit:
    /// answers may be streams that live long.
    ///
    /// Over HTTP/2 the time of an answer of up to 16 KiB ends when h2 has taken all of it. After that only
    /// [`write_timeout`](Server::write_timeout) limits how long the client takes.
    pub fn request_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.limits.request = timeout;
        self
    }

    /// Sets how many bytes per second a client must send of a request's body and take of an answer. It may be
    /// slower in the first 5 s of each body or answer, and while it is not waited for. A slower body ends with
    /// [`BodyError::TooSlow`], as [`body_timeout`](Server::body_timeout) says; for a slower answer the
    /// connection is dropped. Default: `None`, no limit.
    ///
    /// Over HTTP/2 the answers of a connection count as a whole: one that the client takes fast enough keeps the
    /// others. Each request's body counts by itself.
    pub fn minimum_rate(mut self, bytes_per_second: Option<NonZeroU64>) -> Self {
        self.limits.rate = bytes_per_second;
        self
    }

    /// Sets how long a connection may stay open without a request in flight. A request is in flight until its
    /// answer is written to the socket. The time counts from the end of a request, over HTTP/2 also from the
    /// accept. Then the connection is closed as at the end of the server. Over HTTP/2 it may take twice as
    /// long, and a client that does not leave when it is asked to is dropped after another 5 s. Default: 75 s;
    /// `None` means no limit.
    pub fn keep_alive_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.limits.keep_alive = timeout;
        self
    }

    /// Sets whether a client that has closed its sending direction (`shutdown(SHUT_WR)`) still gets its
    /// answers, over HTTP/1. Default: `false`, as in hyper. Such a client then counts as gone, and its
    /// handler is dropped. With `true` the server learns only when it writes the answer that a client is gone.
    pub fn half_close(mut self, half_close: bool) -> Self {
        self.settings.http1.half_close(half_close);
        self
    }

    /// Sets hyper's own settings for HTTP/1: keep-alive, limits of heads, the `date` field, and others. Leave
    /// `timer` and `header_read_timeout` as they are; [`header_timeout`](Server::header_timeout) costs less.
    ///
    /// Use `pipeline_flush(true)` only if all answers are small. hyper then keeps answers in memory while it has read a
    /// further request of that client, however long they are, and takes all that a body has ready in one poll. No limit of
    /// this server bounds that.
    ///
    /// ```
    /// # let listener = doorbell::net::TcpListener::bind("127.0.0.1:0").unwrap();
    /// let server = doorbell_hyper::Server::new(listener).http1(|http1| {
    ///     http1.keep_alive(false).max_buf_size(1 << 16);
    ///     http1.max_headers(50).max_header_size(16_384).auto_date_header(false);
    /// });
    /// # drop(server);
    /// ```
    pub fn http1(mut self, set: impl FnOnce(&mut http1::Builder)) -> Self {
        set(&mut self.settings.http1);
        self
    }

    /// Sets hyper's own settings for HTTP/2: pings, windows, the number of streams, extended `CONNECT`, limits
    /// of heads, the `date` field, and others. `set` is called for each connection over HTTP/2. Several such
    /// settings add up. Leave `timer` as it is.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # let listener = doorbell::net::TcpListener::bind("127.0.0.1:0").unwrap();
    /// let server = doorbell_hyper::Server::new(listener).http2(|http2| {
    ///     http2.keep_alive_interval(Duration::from_secs(30));
    ///     http2.keep_alive_timeout(Duration::from_secs(10));
    ///     http2.max_concurrent_streams(100).initial_stream_window_size(1 << 18);
    ///     http2.max_header_list_size(16_384).enable_connect_protocol();
    /// });
    /// # drop(server);
    /// ```
    pub fn http2(
        mut self,
        set: impl Fn(&mut http2::Builder<ServerExecutor>) + Send + Sync + 'static,
    ) -> Self {
        self.settings.http2.push(Box::new(set));
        self
    }

    /// Sets whether each request has the [`ConnectionInfo`] in its extensions, and with the feature `axum` what axum's
    /// `ConnectInfo<SocketAddr>` extracts. Default: `false`, because it costs each request four or five small
    /// allocations. [`serve_with`](Server::serve_with) gets it once for each connection.
    #[doc(alias = "into_make_service_with_connect_info")]
    pub fn connection_info(mut self, is_wanted: bool) -> Self {
        self.settings.connection_info = is_wanted;
        self
    }

    /// Ends the server when `signal` is ready: it stops accepting and closes connections without a request in
    /// flight. The others are closed after their request. A client that has begun a request's head has 5 s to
    /// complete it.
    #[doc(alias = "with_graceful_shutdown")]
    pub fn shutdown_on(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.signal = Some(Box::pin(signal));
        self
    }

    /// Sets how long requests in flight may take after the signal. Then their connections are dropped.
    /// Default: 30 s.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Serves until the signal of [`shutdown_on`](Server::shutdown_on), and returns when all connections are
    /// gone. Each connection gets a service of its own from `make_service`.
    ///
    /// If the OS is out of descriptors or memory, the server closes an idle connection, and accepts nothing
    /// until a connection is closed, or for 10 ms. The pause doubles with each further refusal, up to 100 ms.
    /// Connections that a client closed before the accept are skipped.
    ///
    /// If this future is dropped, the server ends at once and drops all connections with their requests.
    ///
    /// # Errors
    /// [`ServeError`] if the server ended without the signal. All its connections are dropped.
    ///
    /// # Panics
    /// If `make_service` does.
    pub async fn serve<F, S, B>(self, make_service: F) -> Result<Served, ServeError>
    where
        F: Fn() -> S + Send + 'static,
        S: Service<Request<RequestBody>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.serve_with(move |_| make_service()).await
    }

    /// Like [`Server::serve`], but tells `make_service` about the connection.
    ///
    /// ```no_run
    /// # use doorbell_hyper::{ConnectionInfo, RequestBody, Server};
    /// # use http_body_util::Full;
    /// # use hyper::body::Bytes;
    /// # use hyper::{Request, Response, service::service_fn};
    /// # use std::convert::Infallible;
    /// # async fn serve(listener: doorbell::net::TcpListener) {
    /// let greet = |info: &ConnectionInfo| {
    ///     let hello = format!("hello, {:?}", info.peer_addr());
    ///     service_fn(move |_: Request<RequestBody>| {
    ///         let answer = Response::new(Full::new(Bytes::from(hello.clone())));
    ///         async { Ok::<_, Infallible>(answer) }
    ///     })
    /// };
    /// Server::new(listener).serve_with(greet).await.unwrap();
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Server::serve`].
    ///
    /// # Panics
    /// If `make_service` does.
    pub async fn serve_with<F, S, B>(self, make_service: F) -> Result<Served, ServeError>
    where
        F: Fn(&ConnectionInfo) -> S + Send + 'static,
        S: Service<Request<RequestBody>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let here = Handle::try_current()?;
        let shared = Shared::new(self.limits, self.settings);
        let acceptor = Acceptor {
            listener: self.listener,
            make_service,
            shared: Arc::clone(&shared),
            limit: self.limit,
            idle: Idle::default(),
            signal: self.signal,
            drain_timeout: self.drain_timeout,
        };
        let task = here.task().try_spawn(acceptor.run())?;
        let mut running = Running { task, shared };
        (&mut running.task)
            .await
            .unwrap_or_else(|error| Err(ServeError::of_join(error)))
    }

    /// Like [`Server::serve`], with a clone of a tower service for each connection: axum's `Router`, tonic's
    /// `Routes`.
    ///
    /// # Errors
    /// As for [`Server::serve`].
    #[cfg(feature = "tower")]
    pub async fn serve_tower<S, B>(self, service: S) -> Result<Served, ServeError>
    where
        S: tower_service::Service<Request<RequestBody>, Response = Response<B>>
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

/// A running server. Dropping this ends it at once.
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

/// [`Server::serve`] with the default settings. It never ends by itself.
///
/// # Errors
/// As for [`Server::serve`].
pub async fn serve<L, F, S, B>(listener: L, make_service: F) -> Result<Served, ServeError>
where
    L: Listener,
    F: Fn() -> S + Send + 'static,
    S: Service<Request<RequestBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    Server::new(listener).serve(make_service).await
}
