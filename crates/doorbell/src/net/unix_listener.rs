//! [`UnixListener`].

use super::io::Io;
use super::sockets::socket_methods;
use super::{Direction, UnixStream};
use doorbell_machine::host::net;
use std::io;
use std::os::unix::net::{self as std_unix, SocketAddr};
use std::path::Path;
use std::task::{Context, Poll};

/// A Unix socket that accepts connections. Each task that waits in [`accept`](UnixListener::accept) is woken.
/// Of the tasks that wait by [`UnixListener::poll_accept`], only the last one is woken.
#[derive(Debug)]
pub struct UnixListener {
    io: Io<std_unix::UnixListener>,
}

fn accept(listener: &std_unix::UnixListener) -> io::Result<(UnixStream, SocketAddr)> {
    let (stream, from) = listener.accept()?;
    Ok((UnixStream::from_std(stream)?, from))
}

impl UnixListener {
    /// Listens at a new file at `path`. Dropping the listener does not delete the file. A path that begins with a
    /// zero byte is an abstract name: that of a socket without a file.
    ///
    /// # Errors
    /// The OS's error, for example if the file exists.
    ///
    /// ```
    /// use doorbell::net::{UnixListener, UnixStream};
    ///
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let name = format!("\0doorbell-example-{}", std::process::id());
    /// let listener = UnixListener::bind(&name)?;
    /// let _stream = UnixStream::connect(&name).await?;
    /// listener.accept().await?;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&net::unix_address(path.as_ref())?)
    }

    /// As [`UnixListener::bind`], at an address.
    ///
    /// # Errors
    /// As for [`UnixListener::bind`].
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixListener> {
        let listener = UnixListener::from_std(std_unix::UnixListener::bind_addr(address)?)?;
        // Not what the standard library asks for.
        listener.set_backlog(u32::MAX)?;
        Ok(listener)
    }

    /// Accepts a connection. Returns it with the address of the other end. If the future is dropped before it
    /// is ready, no connection has been taken.
    ///
    /// # Errors
    /// The OS's error. After some errors, such as too many open descriptors, a later call may succeed. An
    /// error if it has to wait and the thread has no runtime.
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

    /// Sets how many connections may wait to be accepted. The OS takes its own limit (`net.core.somaxconn`) for
    /// a larger number; that is also the number of a new listener. For more, `connect` waits.
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_backlog(&self, most: u32) -> io::Result<()> {
        net::listen_by(self.io.get(), most)
    }

    /// Returns whether a connection waits to be accepted: see
    /// [`TcpListener::has_waiting`](super::TcpListener::has_waiting).
    ///
    /// # Errors
    /// The OS's error.
    pub fn has_waiting(&self) -> io::Result<bool> {
        net::is_readable(self.io.get())
    }
}

socket_methods!(UnixListener(std_unix::UnixListener), SocketAddr);
