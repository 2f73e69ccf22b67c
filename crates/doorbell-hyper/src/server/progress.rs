//! [`Phase`]: what a connection is doing. [`Progress`] shares it, [`ServerIo`] updates it.

use super::opening::{Given, Heard, Opening, Version};
use crate::DoorbellIo;
use crate::io::poll_read_seen;
use async_lock::SemaphoreGuardArc;
use crossbeam_utils::atomic::AtomicCell;
use doorbell::net::TcpStream;
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// What a connection is doing. HTTP/2 has phases of its own and is never in [`Phase::Head`]: bytes that come
/// while no request is open may be a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// The HTTP version is not known yet.
    New,
    /// Part of a request's head was read.
    Head,
    /// A request was read, and may be in flight.
    Busy,
    /// No request is in flight.
    Idle,
    /// Like [`Phase::Busy`], over HTTP/2.
    Busy2,
    /// Like [`Phase::Idle`], over HTTP/2.
    Idle2,
}

/// The phase of a connection, shared by its task, its IO, its service, and each request in flight. Only the
/// first three write it, and one task polls all three. The number of requests in flight is the number of
/// holders beyond these three.
#[derive(Debug)]
pub(super) struct Progress {
    phase: AtomicCell<Phase>,
    /// Set by the first HTTP/2 request that becomes a tunnel. It stays set, since nothing tells when a tunnel
    /// ends.
    has_tunnel: AtomicCell<bool>,
}

/// The task, the IO and the service.
const HOLDERS: usize = 3;

impl Progress {
    pub(super) fn new() -> Arc<Progress> {
        Arc::new(Progress {
            phase: AtomicCell::new(Phase::New),
            has_tunnel: AtomicCell::new(false),
        })
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.load()
    }

    pub(super) fn set(&self, phase: Phase) {
        self.phase.store(phase);
    }

    /// Whether a request is in flight, or a tunnel may still be open. A request that another task has just
    /// ended may still count.
    pub(super) fn in_flight(this: &Arc<Progress>) -> bool {
        Arc::strong_count(this) > HOLDERS || this.has_tunnel.load()
    }

    /// Notes that an HTTP/2 request has become a tunnel.
    pub(super) fn tunnels(&self) {
        self.has_tunnel.store(true);
    }

    /// Notes the version of the connection.
    fn begins(&self, version: Version) {
        self.set(match version {
            Version::Http1 => Phase::Head,
            Version::Http2 => Phase::Idle2,
        });
    }

    /// Notes bytes from the client.
    fn heard(&self, bytes: &[u8]) {
        if self.phase() == Phase::Idle && !bytes.is_empty() {
            self.set(Phase::Head);
        }
    }

    /// Notes a write. The buffered rest of an answer belongs to no request, but a client that still reads it
    /// is not idle. Over HTTP/2 a write tells nothing: it may answer a ping.
    fn said(&self) {
        if self.phase() == Phase::Idle {
            self.set(Phase::Busy);
        }
    }
}

/// The IO of a connection of [`Server`](crate::Server). `hyper::upgrade::Upgraded` holds it, and `downcast`
/// returns it.
///
/// ```no_run
/// use doorbell::net::TcpStream;
/// use doorbell_hyper::ServerIo;
/// use hyper::body::Bytes;
/// use hyper::upgrade::Upgraded;
///
/// /// The socket, and the bytes that hyper has already read. `None` over HTTP/2: its requests share a socket.
/// fn socket(upgraded: Upgraded) -> Option<(TcpStream, Bytes)> {
///     let parts = upgraded.downcast::<ServerIo>().ok()?;
///     Some((parts.io.into_inner(), parts.read_buf))
/// }
/// ```
#[derive(Debug)]
pub struct ServerIo {
    io: DoorbellIo,
    /// `None` once hyper has it.
    opening: Option<Box<Opening>>,
    progress: Arc<Progress>,
    /// An upgraded connection counts as open too.
    _permit: Option<SemaphoreGuardArc>,
}

impl ServerIo {
    pub(super) fn new(
        stream: TcpStream,
        progress: Arc<Progress>,
        permit: Option<SemaphoreGuardArc>,
    ) -> Self {
        ServerIo {
            io: DoorbellIo::new(stream),
            opening: Some(Box::default()),
            progress,
            _permit: permit,
        }
    }

    /// Returns the socket.
    pub fn get(&self) -> &TcpStream {
        self.io.get()
    }

    /// Unwraps the socket. The connection then stops counting for
    /// [`connection_limit`](crate::Server::connection_limit).
    pub fn into_inner(self) -> TcpStream {
        self.io.into_inner()
    }

    /// The HTTP version, as soon as the first bytes tell it; `None` if the client goes away before.
    pub(super) fn poll_version(&mut self, cx: &mut Context<'_>) -> Poll<Option<Version>> {
        let Some(opening) = &mut self.opening else {
            return Poll::Ready(None);
        };
        loop {
            let read = ready!(self.io.get().poll_read(cx, opening.room()));
            let Ok(count @ 1..) = read else {
                return Poll::Ready(None);
            };
            if let Heard::Version(version) = opening.add(count) {
                self.progress.begins(version);
                return Poll::Ready(Some(version));
            }
        }
    }
}

impl ServerIo {
    /// Reads the bytes behind the opening.
    fn poll_read_more(
        &self,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let see = |bytes: &[u8]| self.progress.heard(bytes);
        poll_read_seen(self.io.get(), cx, buffer, see)
    }
}

impl Read for ServerIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(opening) = &mut self.opening else {
            return self.poll_read_more(cx, buffer);
        };
        if opening.give(&mut buffer) == Given::All {
            self.opening = None;
        }
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        // Read the bytes behind the opening at once: for a second read hyper would enlarge its buffer.
        match self.poll_read_more(cx, buffer) {
            Poll::Pending => Poll::Ready(Ok(())),
            Poll::Ready(read) => Poll::Ready(read),
        }
    }
}

impl Write for ServerIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, buffer))?;
        self.progress.said();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, buffers))?;
        self.progress.said();
        Poll::Ready(Ok(written))
    }
}
