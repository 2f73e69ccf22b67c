//! [`Protocol`]: a connection that hyper serves, once its HTTP version is known.

use super::opening::Version;
use super::progress::ServerIo;
use super::tasks::Tasks;
use crate::DoorbellTimer;
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, Service};
use hyper::{Request, Response};
use pin_project_lite::pin_project;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// hyper's builders for connections.
#[derive(Debug)]
pub(super) struct Settings {
    http1: http1::Builder,
    http2: http2::Builder<Tasks>,
}

impl Settings {
    pub(super) fn new(tasks: Tasks, half_close: bool) -> Self {
        let mut http1 = http1::Builder::new();
        // hyper's own timeout arms a new timer for each request; `Alarm` does not.
        http1.timer(DoorbellTimer).header_read_timeout(None);
        http1.half_close(half_close);
        let mut http2 = http2::Builder::new(tasks);
        http2.timer(DoorbellTimer);
        Settings { http1, http2 }
    }
}

pin_project! {
    /// A connection of either version. hyper-util has such a type too, but gives hyper the first bytes in a
    /// read of their own. hyper's buffer of 8 KiB then grows to 16 KiB for the rest of the connection.
    #[project = ProtocolParts]
    pub(super) enum Protocol<S>
    where
        S: HttpService<Incoming>,
    {
        // `None` once the version is known, or the connection is given up.
        Unknown { opening: Option<(ServerIo, S)> },
        Http1 { #[pin] connection: http1::UpgradeableConnection<ServerIo, S> },
        // Boxed: it is larger, and idle HTTP/1 connections should not pay for it.
        Http2 { connection: Pin<Box<http2::Connection<ServerIo, S, Tasks>>> },
    }
}

impl<S, B> Protocol<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    pub(super) fn new(io: ServerIo, service: S) -> Self {
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
    ) -> Poll<()> {
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
                Version::Http2 => Protocol::Http2 {
                    connection: Box::pin(settings.http2.serve_connection(io, service)),
                },
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
