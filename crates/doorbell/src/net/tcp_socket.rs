//! [`TcpSocket`].

use super::options::{ip_option_methods, option_methods};
use super::{TcpListener, TcpStream};
use doorbell_machine::host::net::{self, Family, Kind};
use doorbell_machine::host::socket_options;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A TCP socket that is not connected and does not listen yet, for options that must be set before.
///
/// ```
/// use doorbell::net::TcpSocket;
///
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let socket = TcpSocket::new_v4()?;
/// socket.set_reuseport(true)?;
/// socket.bind("127.0.0.1:0".parse().unwrap())?;
/// let listener = socket.listen(1_024)?;
/// let socket = TcpSocket::new_v4()?;
/// socket.set_send_buffer_size(100_000)?;
/// let stream = socket.connect(listener.local_addr()?).await?;
/// listener.accept().await?;
/// # drop(stream);
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct TcpSocket(OwnedFd);

impl TcpSocket {
    /// A socket for IPv4.
    ///
    /// # Errors
    /// The OS's error.
    pub fn new_v4() -> io::Result<TcpSocket> {
        Ok(TcpSocket(net::new_socket(Family::V4, Kind::Stream)?))
    }

    /// A socket for IPv6.
    ///
    /// # Errors
    /// The OS's error.
    pub fn new_v6() -> io::Result<TcpSocket> {
        Ok(TcpSocket(net::new_socket(Family::V6, Kind::Stream)?))
    }

    /// Takes over a socket of the standard library, which was made elsewhere and is not connected, and makes it
    /// non-blocking.
    ///
    /// # Errors
    /// If the OS refuses to make it non-blocking.
    pub fn from_std_stream(socket: std::net::TcpStream) -> io::Result<TcpSocket> {
        socket.set_nonblocking(true)?;
        Ok(TcpSocket(socket.into()))
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    option_methods! {
        "whether a new listener may have the address of an old one's connections (`SO_REUSEADDR`)"
            bool: reuseaddr set_reuseaddr;
        "whether several sockets may share an address (`SO_REUSEPORT`)"
            bool: reuseport set_reuseport;
        "whether small writes are sent at once (`TCP_NODELAY`)"
            bool: nodelay set_nodelay;
    }
    ip_option_methods!();

    /// Sets whether the OS probes the other end when nothing arrives (`SO_KEEPALIVE`). The times are those of
    /// the OS; for another one see [`TcpStream::set_keepalive`].
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        socket_options::set_is_keepalive(&self.0, keepalive)
    }

    /// The value that [`TcpSocket::set_keepalive`] sets.
    ///
    /// # Errors
    /// The OS's error.
    pub fn keepalive(&self) -> io::Result<bool> {
        socket_options::is_keepalive(&self.0)
    }

    /// Sets the size of the send buffer (`SO_SNDBUF`) in bytes. The OS doubles it, and has limits.
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        socket_options::set_send_buffer_size(&self.0, size as usize)
    }

    /// The size of the send buffer in bytes, twice what was set.
    ///
    /// # Errors
    /// The OS's error.
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        socket_options::send_buffer_size(&self.0).map(|size| size as u32)
    }

    /// Sets the size of the receive buffer (`SO_RCVBUF`) in bytes. The OS doubles it, and has limits.
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        socket_options::set_recv_buffer_size(&self.0, size as usize)
    }

    /// The size of the receive buffer in bytes, twice what was set.
    ///
    /// # Errors
    /// The OS's error.
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        socket_options::recv_buffer_size(&self.0).map(|size| size as u32)
    }

    /// As [`TcpStream::set_linger`].
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        net::set_linger(&self.0, time)
    }

    /// As [`TcpStream::set_zero_linger`].
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        net::set_linger(&self.0, Some(Duration::ZERO))
    }

    /// The value that [`TcpSocket::set_linger`] sets, in whole seconds.
    ///
    /// # Errors
    /// The OS's error.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        net::linger(&self.0)
    }

    /// Takes the pending error of the socket (`SO_ERROR`), if there is one.
    ///
    /// # Errors
    /// The OS's error for this query.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        socket_options::take_error(&self.0)
    }

    /// Gives the socket its address. Without that, the OS chooses one.
    ///
    /// # Errors
    /// The OS's error, for example if the address is in use.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        net::bind(&self.0, address)
    }

    /// The address of the socket.
    ///
    /// # Errors
    /// The OS's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        net::local_addr(&self.0)
    }

    /// Connects to this address.
    ///
    /// # Errors
    /// The OS's error. An error if it has to wait and the thread has no runtime.
    pub async fn connect(self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::once_connected(net::begin_to_connect_by(self.0, address)?).await
    }

    /// Listens. So many connections may wait to be accepted; see [`TcpListener::set_backlog`].
    ///
    /// # Errors
    /// The OS's error, for example if the address is in use.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        net::listen_by(&self.0, backlog)?;
        Ok(TcpListener::of(self.0.into()))
    }
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for TcpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl IntoRawFd for TcpSocket {
    fn into_raw_fd(self) -> RawFd {
        self.0.into_raw_fd()
    }
}

impl From<TcpSocket> for OwnedFd {
    fn from(socket: TcpSocket) -> OwnedFd {
        socket.0
    }
}
