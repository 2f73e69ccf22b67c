//! [`ServerIo`].

use super::Transport;
use super::frames::Frames;
use super::open::OpenSocket;
use super::opening::{Given, Heard, Opening, Version};
use super::progress::{Phase, Progress};
use crate::DoorbellIo;
use crate::io::poll_read_seen;
use doorbell::net::TcpStream;
use doorbell::time::Instant;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The IO of a connection of [`Server`](crate::Server). `hyper::upgrade::Upgraded` holds it, and `downcast`
/// returns it. `T` is that of the server's [`Listener`](crate::Listener): by default that of a TCP listener, for
/// a Unix socket `DoorbellIo<UnixStream>`.
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
pub struct ServerIo<T = DoorbellIo<TcpStream>> {
    io: T,
    /// `None` once hyper has it.
    opening: Option<Box<Opening>>,
    /// Over HTTP/2 the frames that it reads.
    frames: Option<Box<Frames>>,
    progress: Arc<Progress>,
    /// An upgraded connection counts as open too. Last, so that the socket is closed before.
    _open: OpenSocket,
}

impl<S> ServerIo<DoorbellIo<S>> {
    /// Returns the socket.
    pub fn get(&self) -> &S {
        self.io.get()
    }

    /// Unwraps the socket. The connection then stops counting for
    /// [`connection_limit`](crate::Server::connection_limit), and the end of the server does not wait for it.
    pub fn into_inner(self) -> S {
        self.io.into_inner()
    }
}

impl<T: Transport> ServerIo<T> {
    pub(super) fn new(io: T, progress: Arc<Progress>) -> Self {
        let open = OpenSocket::new(progress.shared());
        ServerIo {
            io,
            opening: Some(Box::default()),
            frames: None,
            progress,
            _open: open,
        }
    }

    /// The HTTP version, as soon as the first bytes tell it; `None` if the client goes away before.
    pub(super) fn poll_version(&mut self, cx: &mut Context<'_>) -> Poll<Option<Version>> {
        let Some(opening) = &mut self.opening else {
            return Poll::Ready(None);
        };
        loop {
            let mut room = ReadBuf::new(opening.room());
            let read = ready!(Pin::new(&mut self.io).poll_read(cx, room.unfilled()));
            let count = room.filled().len();
            if read.is_err() || count == 0 {
                return Poll::Ready(None);
            }
            if let Heard::Version(version) = opening.add(count) {
                self.begins(version);
                return Poll::Ready(Some(version));
            }
        }
    }

    fn begins(&mut self, version: Version) {
        match version {
            Version::Http1 => self.progress.set(Phase::Head),
            Version::Http2 => {
                let now_ms = self.progress.shared().millis(Instant::now());
                self.progress.rests(Phase::Idle2, now_ms);
            }
        }
        self.frames = (version == Version::Http2).then(Box::default);
    }

    /// Reads the bytes behind the opening.
    fn poll_read_more(
        &mut self,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let (progress, frames) = (&self.progress, &mut self.frames);
        let see = |bytes: &[u8]| match frames {
            Some(frames) => progress.set_open_head(frames.see(bytes)),
            None => progress.heard(bytes),
        };
        poll_read_seen(&mut self.io, cx, buffer, see)
    }

    /// Notes a write. After one that took only a part, hyper tries the rest at once.
    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(count)) => self.progress.wrote(*count),
            Poll::Pending => self.blocks(),
            Poll::Ready(Err(_)) => {}
        }
        written
    }

    /// Notes that the client must take something before more can be written.
    fn blocks(&self) {
        self.progress
            .blocks(|written| self.io.acknowledged(written));
    }
}

impl<T: Transport> Read for ServerIo<T> {
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

impl<T: Transport> Write for ServerIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buffer);
        self.note(written)
    }

    /// hyper calls this when all that there was to write has been taken. TLS may have kept some of it.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        if flushed.is_pending() {
            self.blocks();
        } else {
            self.progress.flushed();
        }
        flushed
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
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, buffers);
        self.note(written)
    }
}
