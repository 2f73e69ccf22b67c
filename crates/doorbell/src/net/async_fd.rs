//! [`AsyncFd`].

use super::io::Io;
use super::registrations::{Seen, would_wait};
use super::{Interest, Ready};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::task::{Context, Poll};

/// Any descriptor that the OS can wait for, for tasks that wait in a syscall on it: a pipe, an `eventfd`, a
/// `timerfd`, an `inotify`, a socket of another kind.
///
/// The descriptor must be non-blocking (`O_NONBLOCK`); this type does not make it so. It is registered when a
/// task has to wait for the first time. The OS cannot wait for files and directories: waiting
/// for one returns the OS's error `EPERM`. `ENOSPC` means too many registrations (`fs.epoll.max_user_watches`),
/// `EMFILE` that the runtime got no poller (`ulimit -n`).
///
/// All methods take `&self`, so several tasks can share one `AsyncFd`. If two of them, or one and a socket of
/// this module, have the same descriptor and wait in the same class, the second wait returns an error
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

    /// As [`AsyncFd::new`], and registers the descriptor at once, in the class of this task. So an error shows
    /// here if the OS cannot wait for it.
    ///
    /// # Errors
    /// [`AsyncFdRegisterError`], with `inner`: the OS cannot wait for this descriptor; the runtime already waits for
    /// it, for another object; the thread has no runtime.
    pub fn try_new(inner: T) -> Result<AsyncFd<T>, AsyncFdRegisterError<T>> {
        let fd = AsyncFd::new(inner);
        match fd.io.register() {
            Ok(()) => Ok(fd),
            Err(cause) => Err(AsyncFdRegisterError {
                inner: fd.into_inner(),
                cause,
            }),
        }
    }

    /// The object that owns the descriptor.
    pub fn get_ref(&self) -> &T {
        self.io.get()
    }

    /// Returns the object that owns the descriptor, which is registered with no runtime any more.
    pub fn into_inner(self) -> T {
        self.io.into_inner()
    }

    /// Calls `f`, which makes a syscall, at once, and then each time when the descriptor is ready for `interest`,
    /// an [`Interest`] or a [`Direction`](super::Direction), until `f` returns something else than
    /// [`io::ErrorKind::WouldBlock`]. Each task that waits is woken. Dropping the future ends the wait.
    ///
    /// # Errors
    /// The errors of `f`. If `f` has to wait: the OS cannot wait for this descriptor; the runtime already
    /// waits for it, for another object; the thread has no runtime.
    pub async fn async_io<R>(
        &self,
        interest: impl Into<Interest>,
        f: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.io(interest, f).await
    }

    /// As [`AsyncFd::async_io`], for code that polls. Of several tasks that poll to write alone, or for anything
    /// else, only the last one is woken.
    ///
    /// # Errors
    /// As for [`AsyncFd::async_io`].
    pub fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        interest: impl Into<Interest>,
        f: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.io.poll_io(cx, interest, f)
    }

    /// Calls `f` once. If `f` returns [`io::ErrorKind::WouldBlock`], the next wait for `interest` waits for a new
    /// event. So make the syscalls that follow [`AsyncFd::readable`] and the like through this method, or
    /// through the guard.
    ///
    /// # Errors
    /// The errors of `f`.
    pub fn try_io<R>(
        &self,
        interest: impl Into<Interest>,
        f: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.try_io(interest, f)
    }

    /// Waits until the descriptor is ready for some of `interest`, and returns a guard, which says for what. It
    /// counts as ready until [`AsyncFdReadyGuard::clear_ready`], or until a syscall through one of the methods
    /// that take a closure returns [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// The OS cannot wait for this descriptor; the runtime already waits for it, for another object; the
    /// thread has no runtime.
    ///
    /// ```
    /// use doorbell::net::{AsyncFd, Interest};
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    ///
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let (ours, mut theirs) = UnixStream::pair()?;
    /// ours.set_nonblocking(true)?;
    /// let ours = AsyncFd::new(ours);
    /// theirs.write_all(b"hello")?;
    /// let mut buffer = [0; 16];
    /// let read = loop {
    ///     let mut guard = ours.ready(Interest::READABLE).await?;
    ///     // An error means that it would wait; the guard has noted that.
    ///     if let Ok(read) = guard.try_io(|fd| fd.get_ref().read(&mut buffer)) {
    ///         break read?;
    ///     }
    /// };
    /// assert_eq!(read, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn ready(&self, interest: Interest) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        self.io.ready(interest).await?;
        Ok(self.guard(interest))
    }

    /// Waits until the descriptor may be readable, or closed; otherwise as [`AsyncFd::ready`].
    ///
    /// # Errors
    /// As for [`AsyncFd::ready`].
    pub async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        self.ready(Interest::READABLE).await
    }

    /// Waits until the descriptor may be writable, or closed; otherwise as [`AsyncFd::ready`].
    ///
    /// # Errors
    /// As for [`AsyncFd::ready`].
    pub async fn writable(&self) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        self.ready(Interest::WRITABLE).await
    }

    /// As [`AsyncFd::ready`], for code that polls, without a guard. Of several tasks that poll to write alone, or
    /// for anything else, only the last one is woken.
    ///
    /// # Errors
    /// As for [`AsyncFd::ready`].
    pub fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        interest: impl Into<Interest>,
    ) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, interest)
    }

    /// As [`AsyncFd::readable`], for code that polls. Of several tasks that poll this, only the last one is woken.
    ///
    /// # Errors
    /// As for [`AsyncFd::ready`].
    pub fn poll_read_ready(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'_, T>>> {
        let ready = self.io.poll_ready(cx, Interest::READABLE);
        ready.map_ok(|()| self.guard(Interest::READABLE))
    }

    /// As [`AsyncFd::writable`], for code that polls. Of several tasks that poll this, only the last one is woken.
    ///
    /// # Errors
    /// As for [`AsyncFd::ready`].
    pub fn poll_write_ready(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'_, T>>> {
        let ready = self.io.poll_ready(cx, Interest::WRITABLE);
        ready.map_ok(|()| self.guard(Interest::WRITABLE))
    }

    fn guard(&self, interest: Interest) -> AsyncFdReadyGuard<'_, T> {
        let seen = self.io.seen();
        AsyncFdReadyGuard {
            fd: self,
            ready: Ready::of(seen.readiness(), interest),
            seen,
            interest,
        }
    }
}

/// A descriptor that was ready. See [`AsyncFd::ready`]. It notes what happened before it was made: clearing takes
/// away no event that came since.
#[derive(Debug)]
pub struct AsyncFdReadyGuard<'a, T: AsFd> {
    fd: &'a AsyncFd<T>,
    seen: Seen,
    interest: Interest,
    ready: Ready,
}

impl<'a, T: AsFd> AsyncFdReadyGuard<'a, T> {
    /// For what the descriptor was ready. That may be nothing any more, if another task was quicker.
    pub fn ready(&self) -> Ready {
        self.ready
    }

    /// Notes that the descriptor is not ready any more for what was waited for: the next wait waits for a new
    /// event. Call this only after a syscall that was made since has shown it. What is closed stays closed.
    pub fn clear_ready(&mut self) {
        self.fd.io.clear(&self.seen, self.interest, false);
    }

    /// As [`AsyncFdReadyGuard::clear_ready`], of these alone. Others that `ready` contains, such as closings, stay.
    pub fn clear_ready_matching(&mut self, ready: Ready) {
        let interests = [
            (Ready::READABLE, Interest::READABLE),
            (Ready::WRITABLE, Interest::WRITABLE),
            (Ready::PRIORITY, Interest::PRIORITY),
            (Ready::ERROR, Interest::ERROR),
        ];
        for (of, interest) in interests {
            if ready & of == of {
                self.fd.io.clear(&self.seen, interest, false);
            }
        }
    }

    /// Keeps the descriptor as ready as it is: as if the guard were dropped.
    pub fn retain_ready(&mut self) {}

    /// Calls `f`, which makes a syscall, once. If that would wait, this notes that the descriptor is not ready any
    /// more, and returns an error.
    ///
    /// # Errors
    /// [`TryIoError`] if `f` returned [`io::ErrorKind::WouldBlock`]. Other errors of `f` are in the inner result.
    pub fn try_io<R>(
        &mut self,
        f: impl FnOnce(&'a AsyncFd<T>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        let result = f(self.fd);
        if would_wait(&result) {
            self.fd.io.clear(&self.seen, self.interest, true);
            return Err(TryIoError(()));
        }
        Ok(result)
    }

    /// The `AsyncFd` of this guard.
    pub fn get_ref(&self) -> &'a AsyncFd<T> {
        self.fd
    }

    /// The object that owns the descriptor.
    pub fn get_inner(&self) -> &'a T {
        self.fd.get_ref()
    }
}

/// The syscall would wait: see [`AsyncFdReadyGuard::try_io`].
#[derive(Debug, thiserror::Error)]
#[error("the operation would wait; wait until the descriptor is ready again")]
pub struct TryIoError(());

/// A descriptor that could not be registered: see [`AsyncFd::try_new`].
#[derive(thiserror::Error)]
#[error("{cause}")]
pub struct AsyncFdRegisterError<T> {
    inner: T,
    #[source]
    cause: io::Error,
}

impl<T> AsyncFdRegisterError<T> {
    /// The object that was to be registered, and the reason.
    pub fn into_parts(self) -> (T, io::Error) {
        (self.inner, self.cause)
    }
}

impl<T> std::fmt::Debug for AsyncFdRegisterError<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.cause, f)
    }
}

impl<T> From<AsyncFdRegisterError<T>> for io::Error {
    fn from(error: AsyncFdRegisterError<T>) -> io::Error {
        error.cause
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
