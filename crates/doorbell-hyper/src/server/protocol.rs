//! [`Protocol`]: a connection that hyper serves, once its HTTP version is known.

use super::opening::Version;
use super::server_io::ServerIo;
use super::tasks::Beside;
use crate::DoorbellTimer;
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, Service};
use hyper::{Request, Response};
use pin_project_lite::pin_project;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What hyper's builders for connections are told.
#[derive(Debug)]
pub(super) struct Settings {
    http1: http1::Builder,
}

impl Settings {
    pub(super) fn new(half_close: bool) -> Self {
        let mut http1 = http1::Builder::new();
        // hyper's own timeout arms a new timer for each request; `Alarm` does not.
        http1.timer(DoorbellTimer).header_read_timeout(None);
        http1.half_close(half_close);
        Settings { http1 }
    }

    /// A builder for one connection, which has that executor.
    fn http2(beside: Beside) -> http2::Builder<Beside> {
        let mut http2 = http2::Builder::new(beside);
        http2.timer(DoorbellTimer);
        http2
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
        Http2 { connection: Pin<Box<http2::Connection<ServerIo, S, Beside>>> },
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
        beside: impl FnOnce() -> Beside,
    ) -> Poll<()> {
        let mut beside = Some(beside);
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
                    let Some(beside) = beside.take() else {
                        return Poll::Ready(());
                    };
                    let http2 = Settings::http2(beside());
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
