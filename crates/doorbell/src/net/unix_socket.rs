//! [`UnixSocket`].

use super::intervals::again_at_intervals;
use super::{UnixDatagram, UnixListener, UnixStream};
use doorbell_machine::host::net::{self, Family, Kind};
use std::future::pending;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;

/// A Unix socket that is not connected and does not listen yet, to be bound or given options before.
///
/// ```
/// use doorbell::net::UnixSocket;
///
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let name = format!("\0doorbell-socket-{}", std::process::id());
/// let socket = UnixSocket::new_stream()?;
/// socket.bind(&name)?;
/// let listener = socket.listen(1_024)?;
/// let stream = UnixSocket::new_stream()?.connect(&name).await?;
/// listener.accept().await?;
/// # drop(stream);
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct UnixSocket {
    socket: OwnedFd,
    kind: Kind,
}

impl UnixSocket {
    /// A socket for a connection.
    ///
    /// # Errors
    /// The OS's error.
    pub fn new_stream() -> io::Result<UnixSocket> {
        UnixSocket::new(Kind::Stream)
    }

    /// A socket for datagrams.
    ///
    /// # Errors
    /// The OS's error.
    pub fn new_datagram() -> io::Result<UnixSocket> {
        UnixSocket::new(Kind::Datagram)
    }

    fn new(kind: Kind) -> io::Result<UnixSocket> {
        let socket = net::new_socket(Family::Unix, kind)?;
        Ok(UnixSocket { socket, kind })
    }

    /// # Errors
    /// If it is of the other kind.
    fn of_kind(self, kind: Kind) -> io::Result<OwnedFd> {
        if self.kind == kind {
            return Ok(self.socket);
        }
        let wrong = match self.kind {
            Kind::Stream => "the socket is for a connection; make it by UnixSocket::new_datagram",
            Kind::Datagram => "the socket is for datagrams; make it by UnixSocket::new_stream",
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, wrong))
    }

    /// Binds the socket to a new file at `path`. A path that begins with a zero byte is an abstract name.
    ///
    /// # Errors
    /// The OS's error, for example if the file exists.
    pub fn bind(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.bind_addr(&net::unix_address(path.as_ref())?)
    }

    /// As [`UnixSocket::bind`], to an address.
    ///
    /// # Errors
    /// As for [`UnixSocket::bind`].
    pub fn bind_addr(&self, address: &SocketAddr) -> io::Result<()> {
        net::bind_unix(&self.socket, address)
    }

    /// Listens. So many connections may wait to be accepted; see [`UnixListener::set_backlog`].
    ///
    /// # Errors
    /// The OS's error, for example if the socket was not bound; an error if it is for datagrams.
    pub fn listen(self, backlog: u32) -> io::Result<UnixListener> {
        let socket = self.of_kind(Kind::Stream)?;
        net::listen_by(&socket, backlog)?;
        UnixListener::from_std(socket.into())
    }

    /// Connects to the listener at `path`, as [`UnixStream::connect`] does.
    ///
    /// # Errors
    /// As there; an error if the socket is for datagrams.
    pub async fn connect(self, path: impl AsRef<Path>) -> io::Result<UnixStream> {
        let socket = self.of_kind(Kind::Stream)?;
        let address = net::unix_address(path.as_ref())?;
        let connect = || net::connect_unix_by(&socket, &address);
        again_at_intervals(connect, pending::<io::Result<()>>).await?;
        UnixStream::from_std(socket.into())
    }

    /// The socket, for datagrams.
    ///
    /// # Errors
    /// An error if it is for a connection.
    pub fn datagram(self) -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(self.of_kind(Kind::Datagram)?.into())
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UnixSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl IntoRawFd for UnixSocket {
    fn into_raw_fd(self) -> RawFd {
        self.socket.into_raw_fd()
    }
}

impl From<UnixSocket> for OwnedFd {
    fn from(socket: UnixSocket) -> OwnedFd {
        socket.socket
    }
}
