//! [`UdpSocket`].

use super::addresses::addresses_of;
use super::io::Io;
use super::options::{ip_option_methods, option_methods};
use super::ready::interest_methods;
use super::{Direction, NoAddress, ToSocketAddrs, lookup_host};
use crate::here::refuse_os;
use doorbell_machine::host::net;
use std::io;
use std::net::{self as std_net, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

/// A UDP socket. All methods take `&self`, so several tasks may use it at a time, and each task that waits is
/// woken. Of the tasks that wait by the `poll_…` forms in one direction, only the last one is woken.
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
    pub(super) io: Io<std_net::UdpSocket>,
}

impl UdpSocket {
    /// Makes a socket that is bound to the first available of the addresses. A name is looked up on the
    /// calling thread, which blocks meanwhile.
    ///
    /// # Errors
    /// The OS's error, for example if the address is in use.
    pub fn bind(addresses: impl std_net::ToSocketAddrs) -> io::Result<UdpSocket> {
        UdpSocket::from_std(std_net::UdpSocket::bind(addresses)?)
    }

    /// Takes over a socket of the standard library, and makes it non-blocking.
    ///
    /// # Errors
    /// If the OS refuses to make it non-blocking.
    pub fn from_std(socket: std_net::UdpSocket) -> io::Result<UdpSocket> {
        refuse_os()?;
        socket.set_nonblocking(true)?;
        let io = Io::new(socket);
        Ok(UdpSocket { io })
    }

    /// Turns this into a socket of the standard library, which stays non-blocking. It is registered with no
    /// runtime any more.
    #[must_use]
    pub fn into_std(self) -> std_net::UdpSocket {
        self.io.into_inner()
    }

    /// Connects the socket to the first of the addresses that the OS accepts: it then sends to this address,
    /// and receives from it only. A name is looked up on a thread for [blocking
    /// closures](crate::spawn_blocking()).
    ///
    /// # Errors
    /// The OS's error for the last address; [`NoAddress`] if the list is empty; an error if a name cannot be
    /// looked up.
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

    /// Sends a datagram to the connected address. Returns the number of bytes sent.
    ///
    /// # Errors
    /// The OS's error, which may concern an earlier datagram, for example one that was refused. An error if
    /// it has to wait and the thread has no runtime.
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

    /// As [`UdpSocket::send`], but returns an error instead of waiting.
    ///
    /// # Errors
    /// As for [`UdpSocket::send`]; [`io::ErrorKind::WouldBlock`] if there is no room.
    pub fn try_send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.io
            .try_io(Direction::Write, |socket| socket.send(datagram))
    }

    /// Receives a datagram from the connected address. Returns the number of bytes. Bytes that do not fit
    /// into `buffer` are lost.
    ///
    /// # Errors
    /// The OS's error, which may concern a datagram that was sent before, for example one that was refused.
    /// An error if it has to wait and the thread has no runtime.
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

    /// As [`UdpSocket::recv`], but returns an error instead of waiting.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`]; [`io::ErrorKind::WouldBlock`] if there is no datagram.
    pub fn try_recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.io
            .try_io(Direction::Read, |socket| socket.recv(buffer))
    }

    /// Sends a datagram to the first of these addresses. Returns the number of bytes sent. A name is looked
    /// up on a thread for [blocking closures](crate::spawn_blocking()). A single address needs no allocation.
    ///
    /// # Errors
    /// As for [`UdpSocket::send`]; [`NoAddress`] if the list is empty; an error if a name cannot be looked
    /// up.
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

    /// As [`UdpSocket::send_to`], but returns an error instead of waiting.
    ///
    /// # Errors
    /// As for [`UdpSocket::send`]; [`io::ErrorKind::WouldBlock`] if there is no room.
    pub fn try_send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.io
            .try_io(Direction::Write, |socket| socket.send_to(datagram, to))
    }

    /// Receives a datagram. Returns the number of bytes and the sender's address. Bytes that do not fit into
    /// `buffer` are lost. If the future is dropped before it is ready, no datagram has been taken.
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

    /// As [`UdpSocket::recv_from`], but returns an error instead of waiting.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`]; [`io::ErrorKind::WouldBlock`] if there is no datagram.
    pub fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io
            .try_io(Direction::Read, |socket| socket.recv_from(buffer))
    }

    /// As [`UdpSocket::recv`], but leaves the datagram in the socket.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`].
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let peek = |socket: &std_net::UdpSocket| socket.peek(buffer);
        self.io.io(Direction::Read, peek).await
    }

    /// As [`UdpSocket::peek`].
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`].
    pub fn poll_peek(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll_io(cx, Direction::Read, |socket| socket.peek(buffer))
    }

    /// As [`UdpSocket::peek`], but returns an error instead of waiting.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`]; [`io::ErrorKind::WouldBlock`] if there is no datagram.
    pub fn try_peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.io
            .try_io(Direction::Read, |socket| socket.peek(buffer))
    }

    /// As [`UdpSocket::peek_from`].
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`].
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.io
            .poll_io(cx, Direction::Read, |socket| socket.peek_from(buffer))
    }

    /// As [`UdpSocket::peek_from`], but returns an error instead of waiting.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`]; [`io::ErrorKind::WouldBlock`] if there is no datagram.
    pub fn try_peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io
            .try_io(Direction::Read, |socket| socket.peek_from(buffer))
    }

    /// The sender of the next datagram, which stays in the socket.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`].
    pub async fn peek_sender(&self) -> io::Result<SocketAddr> {
        self.io.io(Direction::Read, net::peek_sender).await
    }

    /// As [`UdpSocket::peek_sender`].
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`].
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.io.poll_io(cx, Direction::Read, net::peek_sender)
    }

    /// As [`UdpSocket::peek_sender`], but returns an error instead of waiting.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`]; [`io::ErrorKind::WouldBlock`] if there is no datagram.
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.io.try_io(Direction::Read, net::peek_sender)
    }

    /// As [`UdpSocket::recv_from`], but leaves the datagram in the socket.
    ///
    /// # Errors
    /// As for [`UdpSocket::recv`].
    pub async fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let peek = |socket: &std_net::UdpSocket| socket.peek_from(buffer);
        self.io.io(Direction::Read, peek).await
    }

    /// Waits until there may be a datagram. Then use [`UdpSocket::try_recv`] and the like.
    ///
    /// # Errors
    /// The thread has no runtime, or the OS refuses to wait for the socket.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await.map(drop)
    }

    /// Waits until there may be room to send. Then use [`UdpSocket::try_send`] and the like.
    ///
    /// # Errors
    /// The thread has no runtime, or the OS refuses to wait for the socket.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await.map(drop)
    }

    /// Ready when there may be a datagram. Of several tasks that poll this, only the last one is woken.
    ///
    /// # Errors
    /// As for [`UdpSocket::readable`].
    pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, Direction::Read)
    }

    /// Ready when there may be room to send. Of several tasks that poll this, only the last one is woken.
    ///
    /// # Errors
    /// As for [`UdpSocket::readable`].
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, Direction::Write)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    ip_option_methods!();
    interest_methods!();

    /// Sets whether datagrams to IPv4 multicast groups also come back to this machine (`IP_MULTICAST_LOOP`).
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.io.get().set_multicast_loop_v4(on)
    }

    /// The value that [`UdpSocket::set_multicast_loop_v4`] sets.
    ///
    /// # Errors
    /// The OS's error.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.io.get().multicast_loop_v4()
    }

    /// Sets how many routers a datagram to an IPv4 multicast group may pass (`IP_MULTICAST_TTL`).
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_multicast_ttl_v4(&self, hops: u32) -> io::Result<()> {
        self.io.get().set_multicast_ttl_v4(hops)
    }

    /// The value that [`UdpSocket::set_multicast_ttl_v4`] sets.
    ///
    /// # Errors
    /// The OS's error.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.io.get().multicast_ttl_v4()
    }

    /// As [`UdpSocket::set_multicast_loop_v4`], for IPv6.
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.io.get().set_multicast_loop_v6(on)
    }

    /// The value that [`UdpSocket::set_multicast_loop_v6`] sets.
    ///
    /// # Errors
    /// The OS's error.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.io.get().multicast_loop_v6()
    }

    /// Sets whether the socket may send to broadcast addresses (`SO_BROADCAST`).
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_broadcast(&self, may: bool) -> io::Result<()> {
        self.io.get().set_broadcast(may)
    }

    /// The value that [`UdpSocket::set_broadcast`] sets.
    ///
    /// # Errors
    /// The OS's error.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.io.get().broadcast()
    }

    /// Sets the time to live of datagrams: how many routers a datagram may pass (`IP_TTL`).
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_ttl(&self, hops: u32) -> io::Result<()> {
        self.io.get().set_ttl(hops)
    }

    /// The value that [`UdpSocket::set_ttl`] sets.
    ///
    /// # Errors
    /// The OS's error.
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.get().ttl()
    }

    /// Joins an IPv4 multicast group, on the interface with the address `interface`.
    ///
    /// # Errors
    /// The OS's error.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.get().join_multicast_v4(&group, &interface)
    }

    /// Leaves a group that [`UdpSocket::join_multicast_v4`] joined.
    ///
    /// # Errors
    /// The OS's error.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.get().leave_multicast_v4(&group, &interface)
    }

    /// Joins an IPv6 multicast group, on the interface with the index `interface`.
    ///
    /// # Errors
    /// The OS's error.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.get().join_multicast_v6(group, interface)
    }

    /// Leaves a group that [`UdpSocket::join_multicast_v6`] joined.
    ///
    /// # Errors
    /// The OS's error.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.get().leave_multicast_v6(group, interface)
    }

    /// Takes the pending error of the socket (`SO_ERROR`), if there is one.
    ///
    /// # Errors
    /// The OS's error for this query.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.get().take_error()
    }

    /// The local address.
    ///
    /// # Errors
    /// The OS's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().local_addr()
    }

    /// The address to which the socket is connected.
    ///
    /// # Errors
    /// The OS's error, also if the socket is not connected.
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
