//! The traits of other crates.

use super::TcpStream;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

/// It is no error to close what the other end has closed.
fn close(stream: &TcpStream) -> io::Result<()> {
    match stream.shutdown(Shutdown::Write) {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        other => other,
    }
}

#[cfg(feature = "futures-io")]
mod of_futures {
    use super::{Context, IoSlice, Pin, Poll, TcpStream, close, io};
    use futures_io::{AsyncRead, AsyncWrite};

    impl AsyncRead for TcpStream {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            TcpStream::poll_read(&self, cx, buffer)
        }
    }

    impl AsyncWrite for TcpStream {
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &[u8],
        ) -> Poll<io::Result<usize>> {
            TcpStream::poll_write(&self, cx, buffer)
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffers: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            TcpStream::poll_write_vectored(&self, cx, buffers)
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(close(&self))
        }
    }
}

#[cfg(feature = "tokio-io")]
mod of_tokio {
    use super::{Context, IoSlice, Pin, Poll, TcpStream, close, io};
    use std::task::ready;
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    impl AsyncRead for TcpStream {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            // SAFETY: nothing is written there but what was read.
            let room = unsafe { buffer.unfilled_mut() };
            let read = ready!(TcpStream::poll_read_uninit(&self, cx, room))?;
            // SAFETY: so many bytes were read.
            unsafe { buffer.assume_init(read) };
            buffer.advance(read);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for TcpStream {
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &[u8],
        ) -> Poll<io::Result<usize>> {
            TcpStream::poll_write(&self, cx, buffer)
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffers: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            TcpStream::poll_write_vectored(&self, cx, buffers)
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(close(&self))
        }
    }
}
