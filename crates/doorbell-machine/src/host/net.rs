//! Sockets, in the few ways that the standard library does not have.

use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, connect,
};
use rustix::net::{RecvFlags, recv, socket_with};
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// How many connections may wait to be accepted, as the standard library has it.
const BACKLOG: i32 = 128;

/// Accepts a connection that does not block; where it comes from. One syscall.
///
/// # Errors
/// What the OS said; [`io::ErrorKind::WouldBlock`] if nobody waits.
pub fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (socket, from) = acceptfrom_with(listener, FLAGS)?;
    let from = from.and_then(|from: SocketAddrAny| SocketAddr::try_from(from).ok());
    let stream = TcpStream::from(socket);
    let from = from.map_or_else(|| stream.peer_addr(), Ok)?;
    Ok((stream, from))
}

/// A socket that does not block and is about to be connected: it stands when it can be written to,
/// unless it has an error.
///
/// # Errors
/// What the OS said.
pub fn begin_to_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, FLAGS, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(TcpStream::from(socket))
}

/// A connection, which does not block, to the listener at that path.
///
/// # Errors
/// What the OS said; [`io::ErrorKind::WouldBlock`] if too many wait there to be accepted.
pub fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// A listener that does not block, one of several of this process that share an address: the OS
/// gives each connection to one of them.
///
/// # Errors
/// What the OS said: also that somebody has the address who does not share it.
pub fn listen_shared(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // As the standard library does: connections of one that has ended do not keep the address.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Reads into memory that was not written to; how many bytes, from the front.
///
/// # Errors
/// What the OS said.
pub fn read(socket: impl AsFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let ((read, _), _) = recv(socket, buffer, RecvFlags::empty())?;
    Ok(read.len())
}

/// Reads from a socket, and leaves there what it read.
///
/// # Errors
/// What the OS said.
pub fn peek(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (read, _) = recv(socket, buffer, RecvFlags::PEEK)?;
    Ok(read)
}

/// Closes one direction of a connection, or both.
///
/// # Errors
/// What the OS said.
pub fn shutdown(socket: impl AsFd, how: Shutdown) -> io::Result<()> {
    SockRef::from(&socket).shutdown(how)
}

/// What a closed connection does with what was not sent: `None` sends it behind the close, a time
/// has the close wait for it so long, and zero throws it away and resets the connection.
///
/// # Errors
/// What the OS said.
pub fn set_linger(socket: impl AsFd, time: Option<Duration>) -> io::Result<()> {
    SockRef::from(&socket).set_linger(time)
}

/// As [`set_linger`] has set it, in whole seconds.
///
/// # Errors
/// What the OS said.
pub fn linger(socket: impl AsFd) -> io::Result<Option<Duration>> {
    SockRef::from(&socket).linger()
}

/// Whether the OS asks the other end if it is still there, when nothing has come for so long.
///
/// # Errors
/// What the OS said.
pub fn set_keepalive(socket: impl AsFd, after: Option<Duration>) -> io::Result<()> {
    let socket = SockRef::from(&socket);
    match after {
        Some(after) => socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(after)),
        None => socket.set_keepalive(false),
    }
}

/// As [`set_keepalive`] has set it.
///
/// # Errors
/// What the OS said.
pub fn keepalive(socket: impl AsFd) -> io::Result<Option<Duration>> {
    let socket = SockRef::from(&socket);
    let is_on = socket.keepalive()?;
    is_on.then(|| socket.tcp_keepalive_time()).transpose()
}

/// Who made the other end of a Unix connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerCred {
    /// Its process, if this process can see that.
    pub pid: Option<i32>,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Who made the other end of a Unix connection, or called `listen` there.
///
/// # Errors
/// What the OS said.
pub fn peer_cred(socket: impl AsFd) -> io::Result<PeerCred> {
    // Not rustix's: its type has no room for a process of another namespace, of which the OS says 0.
    let mut cred = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most so many bytes there, and any bytes are a `ucred`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut cred).cast(),
            &raw mut len,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PeerCred {
        pid: (cred.pid != 0).then_some(cred.pid),
        uid: cred.uid,
        gid: cred.gid,
    })
}
