//! [`Protocol`]: a connection that hyper serves, once its HTTP version is known.

use super::Transport;
use super::opening::Version;
use super::server_io::ServerIo;
use super::tasks::ServerExecutor;
use crate::DoorbellTimer;
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, Service};
use hyper::{Request, Response};
use pin_project_lite::pin_project;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Changes the settings of HTTP/2 connections.
pub(super) type Http2 = Box<dyn Fn(&mut http2::Builder<ServerExecutor>) + Send + Sync>;

/// What hyper's builders for connections are told.
pub(super) struct Settings {
    pub(super) http1: http1::Builder,
    pub(super) http2: Vec<Http2>,
    /// Each request has the [`ConnectionInfo`](super::ConnectionInfo) in its extensions.
    pub(super) connection_info: bool,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("http1", &self.http1)
            .finish_non_exhaustive()
    }
}

impl Settings {
    pub(super) fn new() -> Self {
        let mut http1 = http1::Builder::new();
        // hyper's own timeout arms a new timer for each request; `Alarm` does not.
        http1.timer(DoorbellTimer).header_read_timeout(None);
        Settings {
            http1,
            http2: Vec::new(),
            connection_info: false,
        }
    }

    /// A builder for one connection, which has that executor.
    fn http2(&self, executor: ServerExecutor) -> http2::Builder<ServerExecutor> {
        let mut http2 = http2::Builder::new(executor);
        http2.timer(DoorbellTimer);
        for set in &self.http2 {
            set(&mut http2);
        }
        http2
    }
}

pin_project! {
    /// A connection of either version. hyper-util has such a type too, but gives hyper the first bytes in a
    /// read of their own. hyper's buffer of 8 KiB then grows to 16 KiB for the rest of the connection.
    #[project = ProtocolParts]
    pub(super) enum Protocol<S, T>
    where
        S: HttpService<Incoming>,
        T: Transport,
    {
        // `None` once the version is known, or the connection is given up.
        Unknown { opening: Option<(ServerIo<T>, S)> },
        Http1 { #[pin] connection: http1::UpgradeableConnection<ServerIo<T>, S> },
        // Boxed: it is larger, and idle HTTP/1 connections should not pay for it.
        Http2 { connection: Pin<Box<http2::Connection<ServerIo<T>, S, ServerExecutor>>> },
    }
}

impl<S, T, B> Protocol<S, T>
where
    T: Transport,
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    pub(super) fn new(io: ServerIo<T>, service: S) -> Self {
        Protocol::Unknown {
            opening: Some((io, service)),
        }
    }

    /// Serves until the connection ends. Errors are dropped: a client that goes away does not concern the
    /// server.
    pub(super) fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        settings: &Settings,
        executor: impl FnOnce() -> ServerExecutor,
    ) -> Poll<()> {
        let mut executor = Some(executor);
        loop {
            let opening = match self.as_mut().project() {
                ProtocolParts::Http1 { connection } => return connection.poll(cx).map(drop),
                ProtocolParts::Http2 { connection } => {
                    return connection.as_mut().poll(cx).map(drop);
                }
                ProtocolParts::Unknown { opening } => opening,
            };
            let version = match opening {
                Some((io, _)) => ready!(io.poll_version(cx)),
                None => None,
            };
            let (Some(version), Some((io, service))) = (version, opening.take()) else {
                return Poll::Ready(());
            };
            self.set(match version {
                Version::Http1 => Protocol::Http1 {
                    connection: settings.http1.serve_connection(io, service).with_upgrades(),
                },
                Version::Http2 => {
                    let Some(executor) = executor.take() else {
                        return Poll::Ready(());
                    };
                    let http2 = settings.http2(executor());
                    Protocol::Http2 {
                        connection: Box::pin(http2.serve_connection(io, service)),
                    }
                }
            });
        }
    }

    /// Ends the connection as soon as no request is in flight: at its next poll, if none has begun.
    pub(super) fn graceful_shutdown(self: Pin<&mut Self>) {
        match self.project() {
            ProtocolParts::Unknown { opening } => *opening = None,
            ProtocolParts::Http1 { connection } => connection.graceful_shutdown(),
            ProtocolParts::Http2 { connection } => connection.as_mut().graceful_shutdown(),
        }
    }
}
