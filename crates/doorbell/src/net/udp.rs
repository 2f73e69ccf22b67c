//! [`UdpSocket`].

use super::addresses::addresses_of;
use super::datagrams::{datagram_methods, operations};
use super::io::Io;
use super::options::{ip_option_methods, option_methods, std_option_methods};
use super::ready::interest_methods;
use super::sockets::connected_methods;
use super::{Direction, NoAddress, ToSocketAddrs, lookup_host};
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

    datagram_methods!(SocketAddr);

    operations! {
        /// As [`UdpSocket::recv`], but leaves the datagram in the socket.
        ///
        /// # Errors
        /// As there.
        Read peek poll_peek try_peek(buffer: &mut [u8]) -> usize = |socket| socket.peek(buffer);

        /// As [`UdpSocket::recv_from`], but leaves the datagram in the socket.
        ///
        /// # Errors
        /// As there.
        Read peek_from poll_peek_from try_peek_from(buffer: &mut [u8]) -> (usize, SocketAddr) =
            |socket| socket.peek_from(buffer);

        /// The sender of the next datagram, which stays in the socket.
        ///
        /// # Errors
        /// As for [`UdpSocket::recv`].
        Read peek_sender poll_peek_sender try_peek_sender() -> SocketAddr = net::peek_sender;
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    ip_option_methods!();
    std_option_methods! {
        "whether datagrams to IPv4 multicast groups also come back to this machine (`IP_MULTICAST_LOOP`)"
            bool: multicast_loop_v4 set_multicast_loop_v4;
        "how many routers a datagram to an IPv4 multicast group may pass (`IP_MULTICAST_TTL`)"
            u32: multicast_ttl_v4 set_multicast_ttl_v4;
        "whether datagrams to IPv6 multicast groups also come back to this machine (`IPV6_MULTICAST_LOOP`)"
            bool: multicast_loop_v6 set_multicast_loop_v6;
        "whether the socket may send to broadcast addresses (`SO_BROADCAST`)"
            bool: broadcast set_broadcast;
        "the time to live of datagrams: how many routers a datagram may pass (`IP_TTL`)"
            u32: ttl set_ttl;
    }
    interest_methods!();

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
}

connected_methods!(UdpSocket(std_net::UdpSocket), SocketAddr);
