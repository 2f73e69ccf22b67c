//! Socket operations that the standard library does not have.

use super::os;
use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixStream};
use std::path::Path;
use std::time::Duration;

/// As many connections may wait to be accepted as the OS allows: it takes its own limit for a larger number.
const BACKLOG: i32 = i32::MAX;

/// Accepts a connection as a non-blocking stream; returns the peer's address too. One syscall, if the OS
/// gives the address with it.
///
/// # Errors
/// The OS's error; [`io::ErrorKind::WouldBlock`] if no connection waits.
pub fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes the address and its length there, and the descriptor is new.
    let accepted = unsafe {
        SockAddr::try_init(|from, len| {
            os::opened(libc::accept4(listener.as_raw_fd(), from.cast(), len, flags))
        })
    };
    let (socket, from) = accepted?;
    let stream = TcpStream::from(socket);
    let from = from.as_socket().map_or_else(|| stream.peer_addr(), Ok)?;
    Ok((stream, from))
}

/// A non-blocking socket without an address.
///
/// # Errors
/// The OS's error.
pub fn new_socket(family: Family, kind: Kind) -> io::Result<OwnedFd> {
    #[cfg(feature = "sim")]
    crate::sim::refuse_os()?;
    let family = match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
        Family::Unix => Domain::UNIX,
    };
    let kind = match kind {
        Kind::Stream => Type::STREAM,
        Kind::Datagram => Type::DGRAM,
    };
    Ok(Socket::new(family, kind.nonblocking(), None)?.into())
}

/// The addresses that a socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Paths, and abstract names.
    Unix,
}

/// What a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes, over a connection.
    Stream,
    /// Datagrams.
    Datagram,
}

/// Gives a socket its address.
///
/// # Errors
/// The OS's error.
pub fn bind(socket: impl AsFd, address: SocketAddr) -> io::Result<()> {
    SockRef::from(&socket).bind(&address.into())
}

/// As [`bind`], of a Unix socket.
///
/// # Errors
/// The OS's error; [`io::ErrorKind::InvalidInput`] if it is the address of a socket without a name.
pub fn bind_unix(socket: impl AsFd, address: &UnixAddr) -> io::Result<()> {
    SockRef::from(&socket).bind(&named(address)?)
}

/// The address of an IP socket.
///
/// # Errors
/// The OS's error.
pub fn local_addr(socket: impl AsFd) -> io::Result<SocketAddr> {
    let address = SockRef::from(&socket).local_addr()?;
    address
        .as_socket()
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Begins to connect a non-blocking socket. It is connected once it is writable, unless it has an error then.
///
/// # Errors
/// The OS's error.
pub fn begin_to_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = match address {
        SocketAddr::V4(_) => Family::V4,
        SocketAddr::V6(_) => Family::V6,
    };
    begin_to_connect_by(new_socket(family, Kind::Stream)?, address)
}

/// As [`begin_to_connect`], by this socket.
///
/// # Errors
/// The OS's error.
pub fn begin_to_connect_by(socket: OwnedFd, address: SocketAddr) -> io::Result<TcpStream> {
    match SockRef::from(&socket).connect(&address.into()) {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {
            Err(error)
        }
        _ => Ok(TcpStream::from(socket)),
    }
}

/// The address of a Unix socket that a path names. A path that begins with a zero byte is an abstract name: that
/// of a socket without a file.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if the path is too long, or has a zero byte elsewhere.
pub fn unix_address(path: &Path) -> io::Result<UnixAddr> {
    match path.as_os_str().as_bytes().strip_prefix(b"\0") {
        Some(name) => UnixAddr::from_abstract_name(name),
        None => UnixAddr::from_pathname(path),
    }
}

/// Connects to the listener at that address; the stream is non-blocking.
///
/// # Errors
/// The OS's error; [`io::ErrorKind::WouldBlock`] if too many connections wait there to be accepted;
/// [`io::ErrorKind::InvalidInput`] if it is the address of a socket without a name.
pub fn connect_unix(address: &UnixAddr) -> io::Result<UnixStream> {
    let socket = new_socket(Family::Unix, Kind::Stream)?;
    connect_unix_by(&socket, address)?;
    Ok(UnixStream::from(socket))
}

/// As [`connect_unix`], by this socket.
///
/// # Errors
/// As for [`connect_unix`].
pub fn connect_unix_by(socket: impl AsFd, address: &UnixAddr) -> io::Result<()> {
    SockRef::from(&socket).connect(&named(address)?)
}

fn named(address: &UnixAddr) -> io::Result<SockAddr> {
    match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => SockAddr::unix(path),
        (None, Some(name)) => SockAddr::unix(OsStr::from_bytes(&[b"\0", name].concat())),
        (None, None) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Whether a listener shares its address with others (`SO_REUSEPORT`): the OS gives each connection to one of
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It has the address alone.
    Alone,
    /// It shares it.
    Shared,
}

/// A non-blocking listener. As many connections may wait there as the OS allows.
///
/// # Errors
/// The OS's error, for example that a listener that does not share has the address.
pub fn listen(address: SocketAddr, sharing: Sharing) -> io::Result<TcpListener> {
    #[cfg(feature = "sim")]
    crate::sim::refuse_os()?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // As the standard library does: connections of an earlier listener do not keep the address busy.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sharing == Sharing::Shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Makes a socket listen. So many connections may wait there; the OS takes its own limit for a larger number. Of
/// a socket that listens already, this changes the number.
///
/// # Errors
/// The OS's error.
pub fn listen_by(socket: impl AsFd, most: u32) -> io::Result<()> {
    let most = i32::try_from(most).unwrap_or(BACKLOG);
    SockRef::from(&socket).listen(most)
}

/// The connections that wait at a TCP listener to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// How many wait now.
    pub waiting: u32,
    /// How many may wait.
    pub most: u32,
    /// How many packets the listener has dropped, nearly all because as many connections waited as may. The
    /// client sends such a packet again after a second or more. Counted modulo 2³².
    pub dropped: u32,
}

/// What waits at a listener.
///
/// # Errors
/// The OS's error.
pub fn backlog(listener: impl AsFd) -> io::Result<Backlog> {
    // Where `SO_MEMINFO` has the packets that were dropped (`SK_MEMINFO_DROPS`).
    const DROPS: usize = 8;
    let fd = listener.as_fd();
    // Fields of a `tcp_info` of a listener: `tcpi_unacked` and `tcpi_sacked`.
    let info: libc::tcp_info = option(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    let memory: [u32; DROPS + 1] = option(fd, libc::SOL_SOCKET, libc::SO_MEMINFO)?;
    Ok(Backlog {
        waiting: info.tcpi_unacked,
        most: info.tcpi_sacked,
        dropped: memory[DROPS],
    })
}

/// Values that any bytes make valid.
///
/// # Safety
/// So it is for this type.
unsafe trait Plain: Sized {}
// SAFETY: numbers.
unsafe impl Plain for libc::tcp_info {}
// SAFETY: numbers.
unsafe impl Plain for libc::ucred {}
// SAFETY: numbers.
unsafe impl<const N: usize> Plain for [u32; N] {}

/// An option of a socket. What an older kernel does not know of it is zero.
fn option<T: Plain>(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes there.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed or written by the kernel, and any bytes are valid.
    Ok(unsafe { value.assume_init() })
}

/// Sends bytes, or one datagram, to the other end; returns how many bytes went. If that end is closed, this is
/// an error and no signal, whatever the process does with `SIGPIPE`.
///
/// # Errors
/// The OS's error.
pub fn write(socket: impl AsFd, buffer: &[u8]) -> io::Result<usize> {
    SockRef::from(&socket).send_with_flags(buffer, libc::MSG_NOSIGNAL)
}

/// As [`write()`], from several buffers in order. Of very many it sends only some.
///
/// # Errors
/// The OS's error.
pub fn write_slices(socket: impl AsFd, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    // Without the empty ones in front: of these alone nothing would go.
    let empty = buffers.iter().take_while(|buffer| buffer.is_empty());
    let buffers = &buffers[empty.count()..];
    let buffers = &buffers[..buffers.len().min(os::BUFFERS_MAX)];
    SockRef::from(&socket).send_vectored_with_flags(buffers, libc::MSG_NOSIGNAL)
}

/// Reads into several buffers in order; returns how many bytes they got. Of very many it fills only some.
///
/// # Errors
/// The OS's error.
pub fn read_slices(socket: impl AsFd, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    os::read_slices(socket.as_fd(), buffers)
}

/// Reads into initialised memory; returns how many bytes it filled, from the front.
///
/// # Errors
/// The OS's error.
pub fn read_into(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes what is initialised.
    read(socket, unsafe { os::may_be_uninit(buffer) })
}

/// Reads into uninitialised memory; returns how many bytes it filled, from the front.
///
/// # Errors
/// The OS's error.
pub fn read(socket: impl AsFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    SockRef::from(&socket).recv(buffer)
}

/// The sender of the next datagram, which stays in the socket.
///
/// # Errors
/// The OS's error.
pub fn peek_sender(socket: &UdpSocket) -> io::Result<SocketAddr> {
    let sender = SockRef::from(socket).peek_sender()?;
    sender
        .as_socket()
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Reads a datagram into uninitialised memory; returns how many bytes it filled, from the front, and the sender.
///
/// # Errors
/// The OS's error.
pub fn read_from(
    socket: &UdpSocket,
    buffer: &mut [MaybeUninit<u8>],
) -> io::Result<(usize, SocketAddr)> {
    let (read, from) = SockRef::from(socket).recv_from(buffer)?;
    let from = from.as_socket();
    Ok((read, from.ok_or(io::ErrorKind::InvalidInput)?))
}

/// As [`read_from`], of a Unix socket.
///
/// # Errors
/// The OS's error.
pub fn read_from_unix(
    socket: &UnixDatagram,
    buffer: &mut [MaybeUninit<u8>],
) -> io::Result<(usize, UnixAddr)> {
    let (read, from) = SockRef::from(socket).recv_from(buffer)?;
    let from = match (from.as_abstract_namespace(), from.as_pathname()) {
        (Some(name), _) => UnixAddr::from_abstract_name(name),
        (None, Some(path)) => UnixAddr::from_pathname(path),
        // The address of a socket without a name.
        (None, None) => UnixAddr::from_pathname(""),
    };
    Ok((read, from?))
}

/// Reads from a socket without taking the data out.
///
/// # Errors
/// The OS's error.
pub fn peek(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes what is initialised.
    SockRef::from(&socket).peek(unsafe { os::may_be_uninit(buffer) })
}

/// Closes one direction of a connection, or both.
///
/// # Errors
/// The OS's error.
pub fn shutdown(socket: impl AsFd, how: Shutdown) -> io::Result<()> {
    SockRef::from(&socket).shutdown(how)
}

/// Sets what closing a connection does with unsent data (`SO_LINGER`). `None`: the OS sends it after the
/// close. A time: the close waits at most that long until it is sent. Zero: the OS discards it and resets the
/// connection.
///
/// # Errors
/// The OS's error.
pub fn set_linger(socket: impl AsFd, time: Option<Duration>) -> io::Result<()> {
    SockRef::from(&socket).set_linger(time)
}

/// What [`set_linger`] has set, in whole seconds.
///
/// # Errors
/// The OS's error.
pub fn linger(socket: impl AsFd) -> io::Result<Option<Duration>> {
    SockRef::from(&socket).linger()
}

/// Makes the OS probe the peer after that time without data (`SO_KEEPALIVE`); `None` turns the probes off.
///
/// # Errors
/// The OS's error.
pub fn set_keepalive(socket: impl AsFd, after: Option<Duration>) -> io::Result<()> {
    let socket = SockRef::from(&socket);
    match after {
        Some(after) => socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(after)),
        None => socket.set_keepalive(false),
    }
}

/// What [`set_keepalive`] has set.
///
/// # Errors
/// The OS's error.
pub fn keepalive(socket: impl AsFd) -> io::Result<Option<Duration>> {
    let socket = SockRef::from(&socket);
    let is_on = socket.keepalive()?;
    is_on.then(|| socket.tcp_keepalive_time()).transpose()
}

/// The process that made the other end of a Unix connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerCred {
    /// Its process id, if this process can see it.
    pub pid: Option<i32>,
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
}

/// The process that connected the other end of a Unix connection, or called `listen` there.
///
/// # Errors
/// The OS's error.
pub fn peer_cred(socket: impl AsFd) -> io::Result<PeerCred> {
    // The OS gives 0 for a process of another namespace.
    let cred: libc::ucred = option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED)?;
    Ok(PeerCred {
        pid: (cred.pid != 0).then_some(cred.pid),
        uid: cred.uid,
        gid: cred.gid,
    })
}

/// Number of bytes that were written to a TCP socket, and that the other end has not acknowledged.
///
/// # Errors
/// The OS's error.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: for this request the kernel writes one `c_int` there, which outlives the call.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Whether a descriptor is readable now; for a listener, whether a connection waits to be accepted.
///
/// # Errors
/// The OS's error.
pub fn is_readable(socket: impl AsFd) -> io::Result<bool> {
    let mut polled = libc::pollfd {
        fd: socket.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the kernel writes to this one, which outlives the call.
    let ready = unsafe { libc::poll(&raw mut polled, 1, 0) };
    Ok(os::counted(ready as isize)? > 0)
}
