//! [`DoorbellIo`].

use crate::socket::{Socket, with_socket};
use doorbell::net::TcpStream;
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A [`TcpStream`] or [`UnixStream`](doorbell::net::UnixStream) as a connection for hyper; also a reference,
/// an `Arc` or a `Box` of one.
///
/// For other streams, such as those of TLS crates, use `TokioIo` of `hyper-util`. It takes every stream with
/// tokio's traits (doorbell's streams have them with the feature `tokio-io`). `tokio_util::compat` adapts
/// streams that have the traits of `futures-io`.
#[derive(Debug)]
pub struct DoorbellIo<T = TcpStream> {
    inner: T,
}

impl<T> DoorbellIo<T> {
    /// Wraps a connection.
    pub fn new(inner: T) -> Self {
        DoorbellIo { inner }
    }

    /// Returns the wrapped connection.
    pub fn get(&self) -> &T {
        &self.inner
    }

    /// Unwraps the connection.
    pub fn into_inner(self) -> T {
        self.inner
    }
}

/// Reads into hyper's buffer, and passes what was read to `see`.
#[cfg(feature = "server")]
pub(crate) fn poll_read_seen(
    io: &mut (impl Read + Unpin),
    cx: &mut Context<'_>,
    mut buffer: ReadBufCursor<'_>,
    see: impl FnOnce(&[u8]),
) -> Poll<io::Result<()>> {
    // SAFETY: `ReadBuf` only has bytes written there, so nothing there becomes uninitialised.
    let mut room = hyper::rt::ReadBuf::uninit(unsafe { buffer.as_mut() });
    ready!(Pin::new(io).poll_read(cx, room.unfilled()))?;
    let read = room.filled();
    see(read);
    let count = read.len();
    // SAFETY: `filled` has returned the first `count` bytes as initialised ones.
    unsafe { buffer.advance(count) };
    Poll::Ready(Ok(()))
}

impl<T: Socket + Unpin> Read for DoorbellIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: `poll_read_uninit` only writes bytes that it read, so nothing there becomes uninitialised.
        let room = unsafe { buffer.as_mut() };
        let read = ready!(with_socket!(self.inner, it => it.poll_read_uninit(cx, room)))?;
        // SAFETY: `poll_read_uninit` has initialized the first `read` bytes.
        unsafe { buffer.advance(read) };
        Poll::Ready(Ok(()))
    }
}

impl<T: Socket + Unpin> Write for DoorbellIo<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        with_socket!(self.inner, it => it.poll_write(cx, buffer))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(
            match with_socket!(self.inner, it => it.shutdown(Shutdown::Write)) {
                // The other end has closed the connection already.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
                other => other,
            },
        )
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with_socket!(self.inner, it => it.poll_write_vectored(cx, buffers))
    }
}
