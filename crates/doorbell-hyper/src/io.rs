//! [`DoorbellIo`].

use doorbell::net::TcpStream;
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A connection as hyper has it: a [`TcpStream`], or what refers to one.
///
/// Other streams, as those of TLS, come with the traits of tokio or of `futures-io`: `TokioIo` of
/// `hyper-util` takes the former (a `TcpStream` has them with doorbell's feature `tokio-io`), and
/// `tokio_util::compat` makes them of the latter.
#[derive(Debug)]
pub struct DoorbellIo<T = TcpStream> {
    inner: T,
}

impl<T> DoorbellIo<T> {
    /// Of a connection.
    pub fn new(inner: T) -> Self {
        DoorbellIo { inner }
    }

    /// The connection.
    pub fn get(&self) -> &T {
        &self.inner
    }

    /// The connection, without this.
    pub fn into_inner(self) -> T {
        self.inner
    }
}

/// Reads into hyper's memory, and shows what was read.
pub(crate) fn poll_read_seen(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    mut buffer: ReadBufCursor<'_>,
    see: impl FnOnce(&[u8]),
) -> Poll<io::Result<()>> {
    // SAFETY: nothing is written there but what was read.
    let room = unsafe { buffer.as_mut() };
    let read = ready!(stream.poll_read_uninit(cx, room))?;
    // SAFETY: so many bytes were read, from the front.
    see(unsafe { room[..read].assume_init_ref() });
    // SAFETY: as above.
    unsafe { buffer.advance(read) };
    Poll::Ready(Ok(()))
}

impl<T: AsRef<TcpStream> + Unpin> Read for DoorbellIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        poll_read_seen(self.inner.as_ref(), cx, buffer, |_| {})
    }
}

impl<T: AsRef<TcpStream> + Unpin> Write for DoorbellIo<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.inner.as_ref().poll_write(cx, buffer)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.inner.as_ref().shutdown(Shutdown::Write) {
            // The other end was faster.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner.as_ref().poll_write_vectored(cx, buffers)
    }
}
