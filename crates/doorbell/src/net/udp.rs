//! [`UdpSocket`].

use super::addresses::addresses_of;
use super::io::Io;
use super::{Direction, NoAddress, ToSocketAddrs, lookup_host};
use std::io;
use std::net::{self as std_net, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

/// A socket that sends and receives datagrams. All goes by `&`, so that several tasks may do so at a
/// time, and each that waits is woken; of those that wait by the `poll_…` forms in one direction the last
/// one is.
///
/// ```
/// use doorbell::net::UdpSocket;
///
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let server = UdpSocket::bind("127.0.0.1:0")?;
/// let client = UdpSocket::bind("127.0.0.1:0")?;
/// client.send_to(b"ping", server.local_addr()?).await?;
/// let mut buffer = [0; 16];
/// let (read, from) = server.recv_from(&mut buffer).await?;
/// assert_eq!((&buffer[..read], from), (&b"ping"[..], client.local_addr()?));
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    io: Io<std_net::UdpSocket>,
}

impl UdpSocket {
    /// A socket at the first of the addresses that can be had. A name is looked up by the calling
    /// thread, which waits for it.
    ///
    /// # Errors
    /// What the OS said: for one, that somebody has the address.
    pub fn bind(addresses: impl std_net::ToSocketAddrs) -> io::Result<UdpSocket> {
        UdpSocket::from_std(std_net::UdpSocket::bind(addresses)?)
    }

    /// Of a socket of the standard library.
    ///
    /// # Errors
    /// If the OS does not let it not block.
    pub fn from_std(socket: std_net::UdpSocket) -> io::Result<UdpSocket> {
        socket.set_nonblocking(true)?;
        let io = Io::new(socket);
        Ok(UdpSocket { io })
    }

    /// As the standard library has it; it still does not block. No runtime knows it any more.
    #[must_use]
    pub fn into_std(self) -> std_net::UdpSocket {
        self.io.into_inner()
    }

    /// Sends to the first of these addresses that can be had, and receives from it only. A name is
    /// looked up on a thread for [closures that block](crate::spawn_blocking()).
    ///
    /// # Errors
    /// What the OS said of the last address; [`NoAddress`] if there is none; that the name is not known.
    pub async fn connect(&self, addresses: impl ToSocketAddrs) -> io::Result<()> {
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, NoAddress);
        for address in lookup_host(addresses).await? {
            match self.io.get().connect(address) {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Sends a datagram to whom it is connected to; how many bytes.
    ///
    /// # Errors
    /// What the OS said: also of an earlier datagram, as that nobody received it. That there is no
    /// runtime to wait in.
    pub async fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        let send = |socket: &std_net::UdpSocket| socket.send(datagram);
        self.io.io(Direction::Write, send).await
    }

    /// As [`UdpSocket::send`].
    ///
    /// # Errors
    /// As for [`UdpSocket::send`].
    pub fn poll_send(&self, cx: &mut Context<'_>, datagram: &[u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll_io(cx, Direction::Write, |socket| socket.send(datagram))
    }

    /// As [`UdpSocket::send`], if there is room.
    ///
    /// # Errors
    /// As for [`UdpSocket::send`]; [`io::ErrorKind::WouldBlock`].
    pub fn try_send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.io
            .try_io(Direction::Write, |socket| socket.send(datagram))
    }

    /// Receives a datagram from whom it is connected to; how many bytes. What does not fit is lost.
    ///
    /// # Errors
    /// What the OS said: also of a datagram that was sent before, as that nobody received it. That there
    /// is no runtime to wait in.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let recv = |socket: &std_net::UdpSocket| socket.recv(buffer);
        self.io.io(Direction::Read, recv).await
    }

    /// As [`UdpSocket::recv`].
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`].
    pub fn poll_recv(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll_io(cx, Direction::Read, |socket| socket.recv(buffer))
    }

    /// As [`UdpSocket::recv`], if there is one.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`]; [`io::ErrorKind::WouldBlock`].
    pub fn try_recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.io
            .try_io(Direction::Read, |socket| socket.recv(buffer))
    }

    /// Sends a datagram to the first of these addresses; how many bytes. A name is looked up on a thread
    /// for [closures that block](crate::spawn_blocking()). For an address nothing is allocated.
    ///
    /// # Errors
    /// As for [`UdpSocket::send`]; [`NoAddress`] if there is none; that the name is not known.
    pub async fn send_to(&self, datagram: &[u8], to: impl ToSocketAddrs) -> io::Result<usize> {
        let none = || io::Error::new(io::ErrorKind::InvalidInput, NoAddress);
        let to = addresses_of(to).await?.next().ok_or_else(none)?;
        let send = |socket: &std_net::UdpSocket| socket.send_to(datagram, to);
        self.io.io(Direction::Write, send).await
    }

    /// As [`UdpSocket::send_to`].
    ///
    /// # Errors
    /// As for [`UdpSocket::send`].
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        datagram: &[u8],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.io
            .poll_io(cx, Direction::Write, |socket| socket.send_to(datagram, to))
    }

    /// As [`UdpSocket::send_to`], if there is room.
    ///
    /// # Errors
    /// As for [`UdpSocket::send`]; [`io::ErrorKind::WouldBlock`].
    pub fn try_send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.io
            .try_io(Direction::Write, |socket| socket.send_to(datagram, to))
    }

    /// Receives a datagram: how many bytes, and from where. What does not fit is lost. Dropped before it
    /// is ready, it has taken none.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`].
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let recv = |socket: &std_net::UdpSocket| socket.recv_from(buffer);
        self.io.io(Direction::Read, recv).await
    }

    /// As [`UdpSocket::recv_from`].
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`].
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.io
            .poll_io(cx, Direction::Read, |socket| socket.recv_from(buffer))
    }

    /// As [`UdpSocket::recv_from`], if there is one.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`]; [`io::ErrorKind::WouldBlock`].
    pub fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io
            .try_io(Direction::Read, |socket| socket.recv_from(buffer))
    }

    /// As [`UdpSocket::recv`], and leaves the datagram there.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`].
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let peek = |socket: &std_net::UdpSocket| socket.peek(buffer);
        self.io.io(Direction::Read, peek).await
    }

    /// As [`UdpSocket::recv_from`], and leaves the datagram there.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`].
    pub async fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let peek = |socket: &std_net::UdpSocket| socket.peek_from(buffer);
        self.io.io(Direction::Read, peek).await
    }

    /// Waits until there may be a datagram: then [`UdpSocket::try_recv`] and its like.
    ///
    /// # Errors
    /// That there is no runtime to wait in.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await
    }

    /// Waits until there may be room: then [`UdpSocket::try_send`] and its like.
    ///
    /// # Errors
    /// That there is no runtime to wait in.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
    }

    /// Whether it may send to all of a network.
    ///
    /// # Errors
    /// What the OS said.
    pub fn set_broadcast(&self, may: bool) -> io::Result<()> {
        self.io.get().set_broadcast(may)
    }

    /// As [`UdpSocket::set_broadcast`] has set it.
    ///
    /// # Errors
    /// What the OS said.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.io.get().broadcast()
    }

    /// Over how many routers a datagram may go.
    ///
    /// # Errors
    /// What the OS said.
    pub fn set_ttl(&self, hops: u32) -> io::Result<()> {
        self.io.get().set_ttl(hops)
    }

    /// As [`UdpSocket::set_ttl`] has set it.
    ///
    /// # Errors
    /// What the OS said.
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.get().ttl()
    }

    /// Receives what is sent to that group, on the interface that has that address.
    ///
    /// # Errors
    /// What the OS said.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.get().join_multicast_v4(&group, &interface)
    }

    /// The end of [`UdpSocket::join_multicast_v4`].
    ///
    /// # Errors
    /// What the OS said.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.get().leave_multicast_v4(&group, &interface)
    }

    /// Receives what is sent to that group, on the interface with that number.
    ///
    /// # Errors
    /// What the OS said.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.get().join_multicast_v6(group, interface)
    }

    /// The end of [`UdpSocket::join_multicast_v6`].
    ///
    /// # Errors
    /// What the OS said.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.get().leave_multicast_v6(group, interface)
    }

    /// The error that is pending, which is then no more.
    ///
    /// # Errors
    /// What the OS said of this question.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.get().take_error()
    }

    /// Its own address.
    ///
    /// # Errors
    /// What the OS said.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().local_addr()
    }

    /// That of whom it is connected to.
    ///
    /// # Errors
    /// What the OS said: also that it is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().peer_addr()
    }
}

impl TryFrom<std_net::UdpSocket> for UdpSocket {
    type Error = io::Error;

    /// As [`UdpSocket::from_std`].
    fn try_from(socket: std_net::UdpSocket) -> io::Result<UdpSocket> {
        UdpSocket::from_std(socket)
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}
