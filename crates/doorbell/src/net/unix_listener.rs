//! [`UnixListener`].

use super::io::Io;
use super::{Direction, UnixStream};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{self as std_unix, SocketAddr};
use std::path::Path;
use std::task::{Context, Poll};

/// A socket that takes connections from this computer. Each of several tasks that
/// [`accept`](UnixListener::accept) is woken; of those that do so by [`UnixListener::poll_accept`] the
/// last one is.
#[derive(Debug)]
pub struct UnixListener {
    io: Io<std_unix::UnixListener>,
}

fn accept(listener: &std_unix::UnixListener) -> io::Result<(UnixStream, SocketAddr)> {
    let (stream, from) = listener.accept()?;
    Ok((UnixStream::from_std(stream)?, from))
}

impl UnixListener {
    /// Listens at a new file at that path, which is not deleted with it.
    ///
    /// # Errors
    /// What the OS said: for one, that there is such a file.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        UnixListener::from_std(std_unix::UnixListener::bind(path)?)
    }

    /// Of a listener of the standard library.
    ///
    /// # Errors
    /// If the OS does not let it not block.
    pub fn from_std(listener: std_unix::UnixListener) -> io::Result<UnixListener> {
        listener.set_nonblocking(true)?;
        let io = Io::new(listener);
        Ok(UnixListener { io })
    }

    /// As the standard library has it; it still does not block. No runtime knows it any more.
    #[must_use]
    pub fn into_std(self) -> std_unix::UnixListener {
        self.io.into_inner()
    }

    /// The next connection, and where it comes from. Dropped before it is ready, it has taken none.
    ///
    /// # Errors
    /// What the OS said: also that there are too many descriptors, after which the next one may
    /// succeed; or that there is no runtime to wait in.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        self.io.io(Direction::Read, accept).await
    }

    /// As [`UnixListener::accept`].
    ///
    /// # Errors
    /// As for [`UnixListener::accept`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        self.io.poll_io(cx, Direction::Read, accept)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the OS said.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().local_addr()
    }
}

impl TryFrom<std_unix::UnixListener> for UnixListener {
    type Error = io::Error;

    /// As [`UnixListener::from_std`].
    fn try_from(listener: std_unix::UnixListener) -> io::Result<UnixListener> {
        UnixListener::from_std(listener)
    }
}

impl AsFd for UnixListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}
