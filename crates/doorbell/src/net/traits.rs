//! The read and write traits of `futures-io` and `tokio`, for streams, references to them and their halves; and
//! buffers of `bytes`.

use super::bytes::ByteStream;
use super::pipe::{Receiver, Sender};
use super::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, TcpStream, UnixStream, WriteHalf};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Calls the macro `$read` for each type that reads, and `$write` for each type that writes.
macro_rules! for_all {
    ($read:ident, $write:ident) => {
        $read!([] TcpStream);
        $read!([] UnixStream);
        $read!([] &TcpStream);
        $read!([] &UnixStream);
        $read!([] Receiver);
        $read!([S: ByteStream] OwnedReadHalf<S>);
        $read!([S: ByteStream] ReadHalf<'_, S>);
        $write!([] TcpStream);
        $write!([] UnixStream);
        $write!([] &TcpStream);
        $write!([] &UnixStream);
        $write!([] Sender);
        $write!([S: ByteStream] OwnedWriteHalf<S>);
        $write!([S: ByteStream] WriteHalf<'_, S>);
    };
}

#[cfg(feature = "futures-io")]
mod of_futures {
    use super::super::bytes::Stream as _;
    use super::{
        ByteStream, Context, IoSlice, OwnedReadHalf, OwnedWriteHalf, Pin, Poll, ReadHalf, Receiver,
        Sender, TcpStream, UnixStream, WriteHalf, io,
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
pub(super) use buffers::fill;

/// Reads into the room that a `bytes::BufMut` has.
#[cfg(feature = "tokio-io")]
mod buffers {
    use super::super::{Direction, UdpSocket, UnixDatagram};
    use bytes::BufMut;
    use doorbell_machine::host::net;
    use std::io;
    use std::mem::MaybeUninit;

    /// Reads into the room of the buffer. `read` says how many bytes it has filled, from the front.
    pub(in super::super) fn fill<B: BufMut, R>(
        buffer: &mut B,
        read: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, R)>,
    ) -> io::Result<(usize, R)> {
        // SAFETY: only bytes that were read are written there.
        let room = unsafe { buffer.chunk_mut().as_uninit_slice_mut() };
        let read = read(room)?;
        // SAFETY: the read has initialized this many bytes of the room.
        unsafe { buffer.advance_mut(read.0) };
        Ok(read)
    }

    /// The methods of a socket for datagrams: its type, that of addresses, and how it reads.
    macro_rules! datagrams {
        ($socket:ty, $address:ty, $read_from:path) => {
            impl $socket {
                /// As `recv`, into the room that a `bytes::BufMut` has: for a `Vec`, its spare capacity, at least
                /// 64 bytes if there is none. Bytes that do not fit are lost.
                ///
                /// # Errors
                /// As for `recv`.
                pub async fn recv_buf<B: BufMut>(&self, buffer: &mut B) -> io::Result<usize> {
                    let recv = |socket: &_| fill(buffer, |room| Ok((net::read(socket, room)?, ())));
                    let (read, ()) = self.io.io(Direction::Read, recv).await?;
                    Ok(read)
                }

                /// As `recv_buf`, but returns an error instead of waiting.
                ///
                /// # Errors
                /// As for `try_recv`.
                pub fn try_recv_buf<B: BufMut>(&self, buffer: &mut B) -> io::Result<usize> {
                    let recv = |socket: &_| fill(buffer, |room| Ok((net::read(socket, room)?, ())));
                    let (read, ()) = self.io.try_io(Direction::Read, recv)?;
                    Ok(read)
                }

                /// As `recv_buf`, and returns the sender's address too.
                ///
                /// # Errors
                /// As for `recv_from`.
                pub async fn recv_buf_from<B: BufMut>(
                    &self,
                    buffer: &mut B,
                ) -> io::Result<(usize, $address)> {
                    let recv = |socket: &_| fill(buffer, |room| $read_from(socket, room));
                    self.io.io(Direction::Read, recv).await
                }

                /// As `recv_buf_from`, but returns an error instead of waiting.
                ///
                /// # Errors
                /// As for `try_recv_from`.
                pub fn try_recv_buf_from<B: BufMut>(
                    &self,
                    buffer: &mut B,
                ) -> io::Result<(usize, $address)> {
                    let recv = |socket: &_| fill(buffer, |room| $read_from(socket, room));
                    self.io.try_io(Direction::Read, recv)
                }
            }
        };
    }

    datagrams!(UdpSocket, std::net::SocketAddr, net::read_from);
    datagrams!(
        UnixDatagram,
        std::os::unix::net::SocketAddr,
        net::read_from_unix
    );
}

#[cfg(feature = "tokio-io")]
mod of_tokio {
    use super::super::bytes::Stream as _;
    use super::{
        ByteStream, Context, IoSlice, OwnedReadHalf, OwnedWriteHalf, Pin, Poll, ReadHalf, Receiver,
        Sender, TcpStream, UnixStream, WriteHalf, io,
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
