//! Reading and writing of sockets that carry a stream of bytes.

use super::io::{Io, Registered};
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

/// A socket of the standard library that carries bytes.
pub trait Bytes: AsFd + Debug + Send + Sync + 'static {
    /// Whether a read that returns fewer bytes than asked for has taken all that had arrived.
    const SHORT_IS_ALL: bool;
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
    let total = buffers
        .iter()
        .fold(0, |total: usize, buffer| total.saturating_add(buffer.len()));
    if buffers.len() < 2 || total > FLAT_MAX {
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
    direction: Direction,
    asked: usize,
    f: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    let event = registered.map(Registered::look);
    let done = f()?;
    if let (Some(registered), Some(event)) = (registered, event)
        && done > 0
        && done < asked
        && short_is_all::<T>(direction, event)
    {
        registered.clear(event, direction);
    }
    Ok(done)
}

impl<T: Bytes> Io<T> {
    pub(super) fn poll_read_uninit(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        self.poll_at(cx, Direction::Read, None, |socket, registered| {
            moved::<T>(registered, Direction::Read, buffer.len(), || {
                net::read(socket, buffer)
            })
        })
    }

    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_at(cx, Direction::Read, None, |socket, registered| {
            moved::<T>(registered, Direction::Read, buffer.len(), || {
                net::read_into(socket, buffer)
            })
        })
    }

    pub(super) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_at(cx, Direction::Write, None, |socket, registered| {
            moved::<T>(registered, Direction::Write, buffer.len(), || {
                net::write(socket, buffer)
            })
        })
    }

    /// A short read clears no readiness here: of very many buffers the OS uses only some.
    pub(super) fn poll_read_vectored(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Direction::Read, |socket| {
            net::read_slices(socket, buffers)
        })
    }

    /// As for [`Io::poll_read_vectored`].
    pub(super) fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Direction::Write, |socket| write_slices(socket, buffers))
    }

    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut place = Place::default();
        poll_fn(|cx| {
            self.poll_at(cx, Direction::Read, Some(&mut place), |socket, known| {
                moved::<T>(known, Direction::Read, buffer.len(), || {
                    net::read_into(socket, buffer)
                })
            })
        })
        .await
    }

    pub(super) async fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let read = |socket: &T| net::read_slices(socket, buffers);
        self.io(Direction::Read, read).await
    }

    pub(super) async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.io(Direction::Read, |socket| net::peek(socket, buffer))
            .await
    }

    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_io(Direction::Read, |socket| net::read_into(socket, buffer))
    }

    pub(super) fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.try_io(Direction::Read, |socket| net::read_slices(socket, buffers))
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
        poll_fn(|cx| {
            self.poll_at(cx, Direction::Write, Some(&mut place), |socket, known| {
                moved::<T>(known, Direction::Write, buffer.len(), || {
                    net::write(socket, buffer)
                })
            })
        })
        .await
    }

    pub(super) async fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let write = |socket: &T| write_slices(socket, buffers);
        self.io(Direction::Write, write).await
    }

    pub(super) fn try_write(&self, buffer: &[u8]) -> io::Result<usize> {
        self.try_io(Direction::Write, |socket| net::write(socket, buffer))
    }

    pub(super) fn try_write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_io(Direction::Write, |socket| write_slices(socket, buffers))
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
        net::shutdown(self.get(), how)
    }

    /// Shuts down writing. A connection that the other end has closed is no error.
    pub(super) fn close(&self) -> io::Result<()> {
        match self.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        }
    }
}
