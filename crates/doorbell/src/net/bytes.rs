//! Reading and writing of sockets that carry a stream of bytes.

use super::io::Io;
use super::registrations::{Registered, Spot};
use crate::coop;
use doorbell_core::io::{Direction, Event, Place};
use doorbell_machine::Readiness;
use doorbell_machine::host::net;
use std::fmt::Debug;
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::task::{Context, Poll};

/// A type with a stream socket inside: the sealed part of [`ByteStream`].
pub trait Stream {
    /// The type of the socket in the standard library.
    type Inner: Bytes;

    /// The socket.
    fn io(&self) -> &Io<Self::Inner>;
}

/// A connection that can be split into halves: [`TcpStream`](super::TcpStream) and
/// [`UnixStream`](super::UnixStream).
pub trait ByteStream: Stream + AsFd + Debug + Send + Sync + Unpin + 'static {}

/// A descriptor that carries a stream of bytes. The syscalls are those of sockets, if a type has no others.
pub trait Bytes: AsFd + Debug + Send + Sync + 'static {
    /// Whether a read that returns fewer bytes than asked for has taken all that had arrived.
    const SHORT_IS_ALL: bool;

    /// Reads into uninitialised memory; returns how many bytes it filled, from the front.
    fn read_uninit(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        net::read(self, buffer)
    }

    /// Reads.
    fn read_into(&self, buffer: &mut [u8]) -> io::Result<usize> {
        net::read_into(self, buffer)
    }

    /// Reads into several buffers in order.
    fn read_slices(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        net::read_slices(self, buffers)
    }

    /// Writes. Raises no signal if the other end has gone.
    fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        net::write(self, buffer)
    }

    /// Writes from several buffers in order.
    fn write_slices(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        write_slices(self, buffers)
    }

    /// Closes one direction of the connection, or both.
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        net::shutdown(self, how)
    }
}

impl Bytes for std::net::TcpStream {
    const SHORT_IS_ALL: bool = true;
}

/// A read stops after bytes that came with descriptors. It also stops before bytes of another writer, if the
/// socket passes credentials. So more bytes may be there.
impl Bytes for std::os::unix::net::UnixStream {
    const SHORT_IS_ALL: bool = false;
}

/// Several buffers of up to this many bytes together are copied into one: the OS is faster with that than
/// with a list.
const FLAT_MAX: usize = 1_024;

/// Sends from several buffers in order; small ones are copied into one first.
fn write_slices(socket: impl AsFd, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    let asked = total(buffers.iter().map(|buffer| buffer.len()));
    if buffers.len() < 2 || asked > FLAT_MAX {
        return net::write_slices(socket, buffers);
    }
    let mut flat = [0; FLAT_MAX];
    let mut filled = 0;
    for buffer in buffers {
        flat[filled..][..buffer.len()].copy_from_slice(buffer);
        filled += buffer.len();
    }
    net::write(socket, &flat[..filled])
}

/// Whether a syscall that moved fewer bytes than asked for has taken all bytes, or filled all room. A read of
/// TCP also stops at urgent data.
fn short_is_all<T: Bytes>(direction: Direction, event: Event) -> bool {
    match direction {
        Direction::Read => T::SHORT_IS_ALL && !event.readiness().has(Readiness::PRIORITY),
        Direction::Write => true,
    }
}

/// Makes a syscall that moves bytes. If it shows that the next one would block, this clears the known
/// readiness.
fn moved<T: Bytes>(
    registered: Option<&dyn Registered>,
    (direction, asked): (Direction, usize),
    f: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    let event = registered.map(Registered::look);
    let done = f()?;
    if let (Some(registered), Some(event)) = (registered, event)
        && done > 0
        && done < asked
        && short_is_all::<T>(direction, event)
    {
        registered.clear(event, direction.into());
    }
    Ok(done)
}

/// How many bytes all buffers have together.
fn total(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.fold(0, usize::saturating_add)
}

impl<T: Bytes> Io<T> {
    /// Moves bytes, `asked` at most, as [`Io::poll_at`] does. No bytes are moved at once: the OS would say that
    /// they must wait.
    fn poll_bytes<'a>(
        &'a self,
        cx: &mut Context<'_>,
        spot: Spot<'_, 'a>,
        (direction, asked): (Direction, usize),
        f: impl FnMut(&T, Option<&dyn Registered>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if asked == 0 {
            return coop::allow(cx).map(|()| Ok(0));
        }
        self.poll_at(cx, direction.into(), spot, f)
    }

    fn try_bytes(
        &self,
        (direction, asked): (Direction, usize),
        f: impl FnOnce(&T) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if asked == 0 {
            return Ok(0);
        }
        self.try_io(direction, f)
    }

    pub(super) fn poll_read_uninit(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        let what = (Direction::Read, buffer.len());
        self.poll_bytes(cx, None, what, |socket, known| {
            moved::<T>(known, what, || socket.read_uninit(buffer))
        })
    }

    fn poll_read_at<'a>(
        &'a self,
        cx: &mut Context<'_>,
        spot: Spot<'_, 'a>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let what = (Direction::Read, buffer.len());
        self.poll_bytes(cx, spot, what, |socket, known| {
            moved::<T>(known, what, || socket.read_into(buffer))
        })
    }

    fn poll_write_at<'a>(
        &'a self,
        cx: &mut Context<'_>,
        spot: Spot<'_, 'a>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let what = (Direction::Write, buffer.len());
        self.poll_bytes(cx, spot, what, |socket, known| {
            moved::<T>(known, what, || socket.write(buffer))
        })
    }

    /// A short read clears no readiness here: of very many buffers the OS uses only some.
    fn poll_read_vectored_at<'a>(
        &'a self,
        cx: &mut Context<'_>,
        spot: Spot<'_, 'a>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let asked = total(buffers.iter().map(|buffer| buffer.len()));
        self.poll_bytes(cx, spot, (Direction::Read, asked), |socket, _| {
            socket.read_slices(buffers)
        })
    }

    /// As for [`Io::poll_read_vectored_at`].
    fn poll_write_vectored_at<'a>(
        &'a self,
        cx: &mut Context<'_>,
        spot: Spot<'_, 'a>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let asked = total(buffers.iter().map(|buffer| buffer.len()));
        self.poll_bytes(cx, spot, (Direction::Write, asked), |socket, _| {
            socket.write_slices(buffers)
        })
    }

    /// The bytes stay in the socket, so a short read clears nothing.
    fn poll_peek_at<'a>(
        &'a self,
        cx: &mut Context<'_>,
        spot: Spot<'_, 'a>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let what = (Direction::Read, buffer.len());
        self.poll_bytes(cx, spot, what, |socket, _| net::peek(socket, buffer))
    }

    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_read_at(cx, None, buffer)
    }

    pub(super) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_at(cx, None, buffer)
    }

    pub(super) fn poll_read_vectored(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_read_vectored_at(cx, None, buffers)
    }

    pub(super) fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored_at(cx, None, buffers)
    }

    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut place = Place::default();
        poll_fn(|cx| self.poll_read_at(cx, Some(&mut place), buffer)).await
    }

    pub(super) async fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut place = Place::default();
        poll_fn(|cx| self.poll_read_vectored_at(cx, Some(&mut place), buffers)).await
    }

    pub(super) async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut place = Place::default();
        poll_fn(|cx| self.poll_peek_at(cx, Some(&mut place), buffer)).await
    }

    pub(super) fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_peek_at(cx, None, buffer)
    }

    pub(super) fn try_peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let what = (Direction::Read, buffer.len());
        self.try_bytes(what, |socket| net::peek(socket, buffer))
    }

    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let what = (Direction::Read, buffer.len());
        self.try_bytes(what, |socket| socket.read_into(buffer))
    }

    #[cfg(feature = "tokio-io")]
    pub(super) fn try_read_uninit(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        let what = (Direction::Read, buffer.len());
        self.try_bytes(what, |socket| socket.read_uninit(buffer))
    }

    pub(super) fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let asked = total(buffers.iter().map(|buffer| buffer.len()));
        let what = (Direction::Read, asked);
        self.try_bytes(what, |socket| socket.read_slices(buffers))
    }

    pub(super) async fn read_exact(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let read = self.read(buffer).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = &mut buffer[read..];
        }
        Ok(())
    }

    pub(super) async fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        let mut place = Place::default();
        poll_fn(|cx| self.poll_write_at(cx, Some(&mut place), buffer)).await
    }

    pub(super) async fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut place = Place::default();
        poll_fn(|cx| self.poll_write_vectored_at(cx, Some(&mut place), buffers)).await
    }

    pub(super) fn try_write(&self, buffer: &[u8]) -> io::Result<usize> {
        let what = (Direction::Write, buffer.len());
        self.try_bytes(what, |socket| socket.write(buffer))
    }

    pub(super) fn try_write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let asked = total(buffers.iter().map(|buffer| buffer.len()));
        let what = (Direction::Write, asked);
        self.try_bytes(what, |socket| socket.write_slices(buffers))
    }

    pub(super) async fn write_all(&self, mut buffer: &[u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let written = self.write(buffer).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            buffer = &buffer[written..];
        }
        Ok(())
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.get().shutdown(how)
    }

    /// Shuts down writing. A connection that the other end has closed is no error.
    pub(super) fn close(&self) -> io::Result<()> {
        match self.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        }
    }
}
