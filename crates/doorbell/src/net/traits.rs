//! The read and write traits of `futures-io` and `tokio`, for streams and their halves.

use super::bytes::ByteStream;
use super::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, TcpStream, UnixStream, WriteHalf};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Calls the macro `$read` for each type that reads, and `$write` for each type that writes.
macro_rules! for_all {
    ($read:ident, $write:ident) => {
        $read!([] TcpStream);
        $read!([] UnixStream);
        $read!([S: ByteStream] OwnedReadHalf<S>);
        $read!([S: ByteStream] ReadHalf<'_, S>);
        $write!([] TcpStream);
        $write!([] UnixStream);
        $write!([S: ByteStream] OwnedWriteHalf<S>);
        $write!([S: ByteStream] WriteHalf<'_, S>);
    };
}

#[cfg(feature = "futures-io")]
mod of_futures {
    use super::super::bytes::Stream as _;
    use super::{
        ByteStream, Context, IoSlice, OwnedReadHalf, OwnedWriteHalf, Pin, Poll, ReadHalf,
        TcpStream, UnixStream, WriteHalf, io,
    };
    use futures_io::{AsyncRead, AsyncWrite};
    use std::io::IoSliceMut;

    macro_rules! reads {
        ([$($of:tt)*] $type:ty) => {
            impl<$($of)*> AsyncRead for $type {
                fn poll_read(
                    self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buffer: &mut [u8],
                ) -> Poll<io::Result<usize>> {
                    self.io().poll_read(cx, buffer)
                }

                fn poll_read_vectored(
                    self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buffers: &mut [IoSliceMut<'_>],
                ) -> Poll<io::Result<usize>> {
                    self.io().poll_read_vectored(cx, buffers)
                }
            }
        };
    }

    macro_rules! writes {
        ([$($of:tt)*] $type:ty) => {
            impl<$($of)*> AsyncWrite for $type {
                fn poll_write(
                    self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buffer: &[u8],
                ) -> Poll<io::Result<usize>> {
                    self.io().poll_write(cx, buffer)
                }

                fn poll_write_vectored(
                    self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buffers: &[IoSlice<'_>],
                ) -> Poll<io::Result<usize>> {
                    self.io().poll_write_vectored(cx, buffers)
                }

                fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                    Poll::Ready(Ok(()))
                }

                fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                    Poll::Ready(self.io().close())
                }
            }
        };
    }

    for_all!(reads, writes);
}

#[cfg(feature = "tokio-io")]
mod of_tokio {
    use super::super::bytes::Stream as _;
    use super::{
        ByteStream, Context, IoSlice, OwnedReadHalf, OwnedWriteHalf, Pin, Poll, ReadHalf,
        TcpStream, UnixStream, WriteHalf, io,
    };
    use std::task::ready;
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    macro_rules! reads {
        ([$($of:tt)*] $type:ty) => {
            impl<$($of)*> AsyncRead for $type {
                fn poll_read(
                    self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buffer: &mut ReadBuf<'_>,
                ) -> Poll<io::Result<()>> {
                    // SAFETY: only bytes that were read are written there.
                    let room = unsafe { buffer.unfilled_mut() };
                    let read = ready!(self.io().poll_read_uninit(cx, room))?;
                    // SAFETY: the read has initialized this many bytes.
                    unsafe { buffer.assume_init(read) };
                    buffer.advance(read);
                    Poll::Ready(Ok(()))
                }
            }
        };
    }

    macro_rules! writes {
        ([$($of:tt)*] $type:ty) => {
            impl<$($of)*> AsyncWrite for $type {
                fn poll_write(
                    self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buffer: &[u8],
                ) -> Poll<io::Result<usize>> {
                    self.io().poll_write(cx, buffer)
                }

                fn poll_write_vectored(
                    self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buffers: &[IoSlice<'_>],
                ) -> Poll<io::Result<usize>> {
                    self.io().poll_write_vectored(cx, buffers)
                }

                fn is_write_vectored(&self) -> bool {
                    true
                }

                fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                    Poll::Ready(Ok(()))
                }

                fn poll_shutdown(
                    self: Pin<&mut Self>,
                    _cx: &mut Context<'_>,
                ) -> Poll<io::Result<()>> {
                    Poll::Ready(self.io().close())
                }
            }
        };
    }

    for_all!(reads, writes);
}
