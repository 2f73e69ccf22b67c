//! [`Listener`] and [`Transport`]: where the connections of a server come from.

use super::ConnectionInfo;
use crate::DoorbellIo;
use doorbell::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use hyper::rt::{Read, Write};
use std::io;

/// Accepts the connections of a [`Server`](crate::Server). [`TcpListener`] and [`UnixListener`] do, and with the
/// feature `tls` a `TlsListener` around either of them.
///
/// A listener of one's own may wrap another:
///
/// ```
/// use doorbell::net::TcpListener;
/// use doorbell_hyper::{ConnectionInfo, DoorbellIo, Listener};
/// use std::io;
///
/// /// Accepts only what comes from this machine.
/// struct LocalOnly(TcpListener);
///
/// impl Listener for LocalOnly {
///     type Io = DoorbellIo;
///
///     async fn accept(&mut self) -> io::Result<(DoorbellIo, ConnectionInfo)> {
///         loop {
///             let (io, info) = Listener::accept(&mut self.0).await?;
///             if info.peer_addr().is_some_and(|peer| peer.ip().is_loopback()) {
///                 return Ok((io, info));
///             }
///         }
///     }
/// }
/// ```
pub trait Listener: Send + 'static {
    /// A connection.
    type Io: Transport;

    /// Accepts a connection. Leave what takes the client's time, such as a handshake, to the connection: the
    /// server accepts one at a time. If the future is dropped before it is ready, no connection may be lost.
    ///
    /// # Errors
    /// What accept(2) says of one connection is skipped. If it says that the OS is out of descriptors or memory,
    /// the server makes room and tries again. Any other error with a number of the OS is tried again after a
    /// pause. An error without one is the listener's own: the server ends with it
    /// ([`ServeError::Listener`](crate::ServeError::Listener)), unless its kind is one of a single connection, which is
    /// skipped too: [`ConnectionAborted`](io::ErrorKind::ConnectionAborted), `ConnectionReset`, `HostUnreachable`,
    /// `Interrupted`, `NetworkDown`, `NetworkUnreachable`, `NotConnected` or `TimedOut`. Behind 32 of those in a row the
    /// server pauses for 1 ms.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Io, ConnectionInfo)>> + Send;

    /// Whether a connection waits to be accepted. The server asks after the OS has refused an accept, to count
    /// the refusal. By default `true`.
    ///
    /// # Errors
    /// An error counts as `true`.
    fn has_waiting(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// A connection of a [`Listener`].
pub trait Transport: Read + Write + Send + Unpin + 'static {
    /// How many bytes the client has taken so far, by what its OS has acknowledged. The server asks when a write
    /// has to wait, to tell a slow client from one that takes nothing
    /// ([`write_timeout`](crate::Server::write_timeout)). `written` is the number of bytes that writes have
    /// taken so far. Only the difference between two answers matters; both numbers wrap. By default, all of
    /// them.
    fn acknowledged(&self, written: u64) -> u64 {
        written
    }
}

impl Listener for TcpListener {
    type Io = DoorbellIo<TcpStream>;

    async fn accept(&mut self) -> io::Result<(Self::Io, ConnectionInfo)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // A failure only makes answers slower.
        let _ = stream.set_nodelay(true);
        let info = ConnectionInfo::new(Some(peer), stream.local_addr().ok());
        Ok((DoorbellIo::new(stream), info))
    }

    fn has_waiting(&self) -> io::Result<bool> {
        TcpListener::has_waiting(self)
    }
}

impl Transport for DoorbellIo<TcpStream> {
    fn acknowledged(&self, written: u64) -> u64 {
        // Without the number all counts as acknowledged.
        let owed = self.get().unacknowledged().unwrap_or(0);
        written.wrapping_sub(owed as u64)
    }
}

impl Listener for UnixListener {
    type Io = DoorbellIo<UnixStream>;

    async fn accept(&mut self) -> io::Result<(Self::Io, ConnectionInfo)> {
        let (stream, _) = UnixListener::accept(self).await?;
        let info = ConnectionInfo::of_unix(stream.peer_cred().ok());
        Ok((DoorbellIo::new(stream), info))
    }

    fn has_waiting(&self) -> io::Result<bool> {
        UnixListener::has_waiting(self)
    }
}

// The OS tells how much memory of it the client has freed, which is not what it has taken.
impl Transport for DoorbellIo<UnixStream> {}
