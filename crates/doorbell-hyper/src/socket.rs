//! [`Socket`]: the sockets that hyper can use by [`DoorbellIo`](crate::DoorbellIo).

use doorbell::net::{TcpStream, UnixStream};
use std::sync::Arc;

/// A stream socket of doorbell, or what owns or borrows one.
pub trait Socket {
    /// The socket.
    fn socket(&self) -> SocketRef<'_>;
}

/// A stream socket of doorbell.
#[derive(Debug)]
pub enum SocketRef<'a> {
    /// Of TCP.
    Tcp(&'a TcpStream),
    /// A Unix socket.
    Unix(&'a UnixStream),
}

/// Calls a method that both kinds of sockets have.
macro_rules! with_socket {
    ($socket:expr, $name:ident => $call:expr) => {
        match $crate::socket::Socket::socket(&$socket) {
            $crate::socket::SocketRef::Tcp($name) => $call,
            $crate::socket::SocketRef::Unix($name) => $call,
        }
    };
}

pub(crate) use with_socket;

impl Socket for TcpStream {
    fn socket(&self) -> SocketRef<'_> {
        SocketRef::Tcp(self)
    }
}

impl Socket for UnixStream {
    fn socket(&self) -> SocketRef<'_> {
        SocketRef::Unix(self)
    }
}

impl<T: Socket> Socket for &T {
    fn socket(&self) -> SocketRef<'_> {
        T::socket(self)
    }
}

impl<T: Socket> Socket for Arc<T> {
    fn socket(&self) -> SocketRef<'_> {
        T::socket(self)
    }
}

impl<T: Socket> Socket for Box<T> {
    fn socket(&self) -> SocketRef<'_> {
        T::socket(self)
    }
}
