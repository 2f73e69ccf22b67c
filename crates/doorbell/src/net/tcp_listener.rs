//! [`TcpListener`].

use super::TcpStream;
use super::io::Io;
use doorbell_core::io::Direction;
use doorbell_machine::host::net;
use std::future::poll_fn;
use std::io;
use std::net::{self as std_net, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

/// A socket that takes connections. Of several tasks that accept by [`TcpListener::poll_accept`] the
/// last one is woken.
#[derive(Debug)]
pub struct TcpListener {
    io: Io<std_net::TcpListener>,
}

impl TcpListener {
    /// Listens at the first of the addresses that can be had. A name is looked up by the calling
    /// thread, which waits for it.
    ///
    /// # Errors
    /// What the OS said.
    pub fn bind(addresses: impl ToSocketAddrs) -> io::Result<TcpListener> {
        TcpListener::from_std(std_net::TcpListener::bind(addresses)?)
    }

    /// Of a listener of the standard library.
    ///
    /// # Errors
    /// If the OS does not let it not block.
    pub fn from_std(listener: std_net::TcpListener) -> io::Result<TcpListener> {
        listener.set_nonblocking(true)?;
        Ok(TcpListener {
            io: Io::new(listener),
        })
    }

    /// The next connection, and where it comes from.
    ///
    /// # Errors
    /// What the OS said: also that there are too many descriptors, after which the next one may
    /// succeed; or that there is no runtime to wait in.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// As [`TcpListener::accept`].
    ///
    /// # Errors
    /// As for [`TcpListener::accept`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = self
            .io
            .poll_io(cx, Direction::Read, |listener, _| net::accept(listener));
        accepted.map_ok(|(stream, from)| (TcpStream::of(stream), from))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the OS said.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().local_addr()
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}
