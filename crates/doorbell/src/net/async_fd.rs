//! [`AsyncFd`].

use super::Direction;
use super::io::Io;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::task::{Context, Poll};

/// Any descriptor that the OS can wait for, for tasks that wait in a syscall on it: a pipe, an `eventfd`, a
/// `timerfd`, an `inotify`, a socket of another kind.
///
/// The descriptor must be non-blocking (`O_NONBLOCK`); this type does not make it so. It is registered with a
/// worker when a task has to wait for the first time. The OS cannot wait for files and directories: waiting
/// for one returns the OS's error `EPERM`. `ENOSPC` means too many registrations (`fs.epoll.max_user_watches`),
/// `EMFILE` that the worker got no poller (`ulimit -n`).
///
/// All methods take `&self`, so several tasks can share one `AsyncFd`. If two of them, or one and a socket of
/// this module, have the same descriptor and wait with the same worker, the second wait returns an error
/// ([`AlreadyRegistered`](super::AlreadyRegistered), of kind [`io::ErrorKind::AlreadyExists`]). A duplicate
/// of the descriptor, for example by `try_clone`, may be registered as well.
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
    /// Takes over a descriptor, which must be non-blocking.
    pub fn new(inner: T) -> AsyncFd<T> {
        AsyncFd { io: Io::new(inner) }
    }

    /// The object that owns the descriptor.
    pub fn get_ref(&self) -> &T {
        self.io.get()
    }

    /// Returns the object that owns the descriptor, which is registered with no runtime any more.
    pub fn into_inner(self) -> T {
        self.io.into_inner()
    }

    /// Calls `f`, which makes a syscall in this direction, at once, and then each time when it may succeed,
    /// until `f` returns something else than [`io::ErrorKind::WouldBlock`]. Each task that waits is woken.
    /// Dropping the future ends the wait.
    ///
    /// # Errors
    /// The errors of `f`. If `f` has to wait: the OS cannot wait for this descriptor; the worker already
    /// waits for it, for another object; the thread has no runtime.
    pub async fn async_io<R>(
        &self,
        direction: Direction,
        f: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.io(direction, f).await
    }

    /// As [`AsyncFd::async_io`], for code that polls. Of several tasks that poll in one direction, only the
    /// last one is woken.
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

    /// Calls `f` once. If `f` returns [`io::ErrorKind::WouldBlock`], the next [`AsyncFd::readable`] or
    /// [`AsyncFd::writable`] waits for a new event. So make the syscalls that follow those two through this
    /// method.
    ///
    /// # Errors
    /// The errors of `f`.
    pub fn try_io<R>(
        &self,
        direction: Direction,
        f: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.try_io(direction, f)
    }

    /// Waits until the descriptor may be readable, or closed. It counts as readable until a syscall through
    /// [`AsyncFd::try_io`] or one of the other methods returns [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// The OS cannot wait for this descriptor; the worker already waits for it, for another object; the
    /// thread has no runtime.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await
    }

    /// Waits until the descriptor may be writable, or closed; otherwise as [`AsyncFd::readable`].
    ///
    /// # Errors
    /// As for [`AsyncFd::readable`].
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
    }

    /// As [`AsyncFd::readable`] or [`AsyncFd::writable`], for code that polls. Of several tasks that poll in
    /// one direction, only the last one is woken.
    ///
    /// # Errors
    /// As for [`AsyncFd::readable`].
    pub fn poll_ready(&self, cx: &mut Context<'_>, direction: Direction) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, direction)
    }
}

impl<T: AsFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl<T: AsFd + IntoRawFd> IntoRawFd for AsyncFd<T> {
    fn into_raw_fd(self) -> RawFd {
        self.into_inner().into_raw_fd()
    }
}

impl<T: AsFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}
