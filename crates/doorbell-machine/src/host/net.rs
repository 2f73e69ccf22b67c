//! Sockets, in the few ways that the standard library does not have.

use rustix::net::{
    AddressFamily, SocketAddrAny, SocketFlags, SocketType, acceptfrom_with, connect,
};
use rustix::net::{recv, socket_with};
use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

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

/// Reads into memory that was not written to; how many bytes, from the front.
///
/// # Errors
/// What the OS said.
pub fn read(socket: impl AsFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let ((read, _), _) = recv(socket, buffer, rustix::net::RecvFlags::empty())?;
    Ok(read.len())
}
