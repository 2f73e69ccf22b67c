//! [`AsyncFd`].

use super::Direction;
use super::io::Io;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

/// Any descriptor that the OS can wait for, and syscalls on it that a task waits for: a pipe, an
/// `eventfd`, a `timerfd`, an `inotify`, a socket of another kind.
///
/// The descriptor must be one that does not block (`O_NONBLOCK`); this does not make it so. It is
/// registered when a task has to wait for the first time. The OS waits for no file and no folder: with
/// them, that wait is an error which says so.
///
/// Several tasks share one of these by `&`. Two of them, or one and a socket of this module, on the same
/// descriptor may fall to the same worker: then the wait of the second is an error
/// ([`AlreadyRegistered`](super::AlreadyRegistered), of kind [`io::ErrorKind::AlreadyExists`]). A
/// duplicate of the descriptor, as by `try_clone`, may have its own.
///
/// ```
/// use doorbell::net::{AsyncFd, Direction};
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
///
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let (ours, mut theirs) = UnixStream::pair()?;
/// ours.set_nonblocking(true)?;
/// let ours = AsyncFd::new(ours);
/// let reader = doorbell::spawn(async move {
///     let mut buffer = [0; 16];
///     let read = |mut socket: &UnixStream| socket.read(&mut buffer);
///     ours.async_io(Direction::Read, read).await
/// });
/// theirs.write_all(b"hello")?;
/// assert_eq!(reader.await.unwrap()?, 5);
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct AsyncFd<T: AsFd> {
    io: Io<T>,
}

impl<T: AsFd> AsyncFd<T> {
    /// Of a descriptor that does not block.
    pub fn new(inner: T) -> AsyncFd<T> {
        AsyncFd { io: Io::new(inner) }
    }

    /// What has the descriptor.
    pub fn get_ref(&self) -> &T {
        self.io.get()
    }

    /// What has the descriptor, which no runtime knows any more.
    pub fn into_inner(self) -> T {
        self.io.into_inner()
    }

    /// Calls `f`, which makes a syscall in that direction, at once and then whenever it may succeed,
    /// until it does not say [`io::ErrorKind::WouldBlock`]. Each of several tasks that wait is woken.
    /// Dropped before it is ready, nothing waits any more.
    ///
    /// # Errors
    /// Those of `f`; that the OS does not wait for this descriptor; that it waits for it already, for
    /// another object; that there is no runtime to wait in.
    pub async fn async_io<R>(
        &self,
        direction: Direction,
        f: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.io(direction, f).await
    }

    /// As [`AsyncFd::async_io`]; of several tasks that poll so in one direction the last one is woken.
    ///
    /// # Errors
    /// As for [`AsyncFd::async_io`].
    pub fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        f: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.io.poll_io(cx, direction, f)
    }

    /// Calls `f` once. If it says [`io::ErrorKind::WouldBlock`], the next [`AsyncFd::readable`] or
    /// [`AsyncFd::writable`] waits for something new: syscalls after those go through here.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn try_io<R>(
        &self,
        direction: Direction,
        f: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.try_io(direction, f)
    }

    /// Waits until it may be readable, or closed. It stays so until a syscall by [`AsyncFd::try_io`] or
    /// one of the others would have to wait.
    ///
    /// # Errors
    /// That the OS does not wait for this descriptor; that it waits for it already, for another object;
    /// that there is no runtime to wait in.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await
    }

    /// Waits until it may be writable, or closed. As for [`AsyncFd::readable`].
    ///
    /// # Errors
    /// As for [`AsyncFd::readable`].
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
    }

    /// Ready as [`AsyncFd::readable`] or [`AsyncFd::writable`] is.
    ///
    /// # Errors
    /// As for [`AsyncFd::readable`].
    pub fn poll_ready(&self, cx: &mut Context<'_>, direction: Direction) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, direction)
    }
}

impl<T: AsFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}
