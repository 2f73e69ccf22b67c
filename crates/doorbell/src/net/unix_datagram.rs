//! [`UnixDatagram`].

use super::Direction;
use super::datagrams::datagram_methods;
use super::intervals::again_at_intervals;
use super::io::Io;
use super::ready::interest_methods;
use super::sockets::connected_methods;
use doorbell_machine::host::net;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{self as std_unix, SocketAddr};
use std::path::Path;
use std::task::{Context, Poll};

/// A Unix datagram socket. All methods take `&self`, so several tasks may use it at a time, and each task
/// that waits is woken. Of the tasks that wait by the `poll_…` forms in one direction, only the last one is
/// woken. A send waits while the receiver's queue is full.
#[derive(Debug)]
pub struct UnixDatagram {
    pub(super) io: Io<std_unix::UnixDatagram>,
}

impl UnixDatagram {
    /// Makes a socket that is bound to a new file at `path`. Dropping the socket does not delete the file. A path
    /// that begins with a zero byte is an abstract name: that of a socket without a file.
    ///
    /// # Errors
    /// The OS's error, for example if the file exists.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixDatagram> {
        UnixDatagram::bind_addr(&net::unix_address(path.as_ref())?)
    }

    /// As [`UnixDatagram::bind`], at an address.
    ///
    /// # Errors
    /// As for [`UnixDatagram::bind`].
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(std_unix::UnixDatagram::bind_addr(address)?)
    }

    /// Makes a socket without an address. It can send.
    ///
    /// # Errors
    /// The OS's error.
    pub fn unbound() -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(std_unix::UnixDatagram::unbound()?)
    }

    /// Makes two sockets that are connected to each other.
    ///
    /// # Errors
    /// The OS's error.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let (ours, theirs) = doorbell::net::UnixDatagram::pair()?;
    /// ours.send(b"ping").await?;
    /// let mut buffer = [0; 16];
    /// assert_eq!(theirs.recv(&mut buffer).await?, 4);
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (ours, theirs) = std_unix::UnixDatagram::pair()?;
        let theirs = UnixDatagram::from_std(theirs)?;
        Ok((UnixDatagram::from_std(ours)?, theirs))
    }

    /// Connects to the socket at `path`: this socket then sends to it, and receives from it only. A path that
    /// begins with a zero byte is an abstract name, here and in the other methods.
    ///
    /// # Errors
    /// The OS's error.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.connect_addr(&net::unix_address(path.as_ref())?)
    }

    /// As [`UnixDatagram::connect`], to the socket at an address.
    ///
    /// # Errors
    /// The OS's error.
    pub fn connect_addr(&self, address: &SocketAddr) -> io::Result<()> {
        self.io.get().connect_addr(address)
    }

    /// Sends a datagram to the socket at `path`. Returns the number of bytes sent.
    ///
    /// While the receiver's queue is full, this tries again when the receiver takes a datagram of this socket. If
    /// only others fill the queue, the OS reports room to connected senders alone: then this tries again at
    /// intervals that grow from 1 ms to 50 ms.
    ///
    /// # Errors
    /// The OS's error. An error if it has to wait and the thread has no runtime.
    pub async fn send_to(&self, datagram: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let to = net::unix_address(path.as_ref())?;
        self.send_to_addr(datagram, &to).await
    }

    /// As [`UnixDatagram::send_to`], to the socket at an address.
    ///
    /// # Errors
    /// As for [`UnixDatagram::send_to`].
    pub async fn send_to_addr(&self, datagram: &[u8], to: &SocketAddr) -> io::Result<usize> {
        let send = || self.try_send_to_addr(datagram, to);
        // The OS reports each datagram of this socket that a receiver takes as room to write.
        again_at_intervals(send, move || self.io.ready(Direction::Write)).await
    }

    /// As [`UnixDatagram::send_to`], but returns an error instead of waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] instead of waiting; the OS's error.
    pub fn try_send_to(&self, datagram: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.try_send_to_addr(datagram, &net::unix_address(path.as_ref())?)
    }

    /// As [`UnixDatagram::try_send_to`], to the socket at an address.
    ///
    /// # Errors
    /// As for [`UnixDatagram::try_send_to`].
    pub fn try_send_to_addr(&self, datagram: &[u8], to: &SocketAddr) -> io::Result<usize> {
        let send = |socket: &std_unix::UnixDatagram| socket.send_to_addr(datagram, to);
        self.io.try_io(Direction::Write, send)
    }

    datagram_methods!(SocketAddr);
    interest_methods!();

    /// Shuts down reading, writing or both.
    ///
    /// # Errors
    /// The OS's error.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.get().shutdown(how)
    }
}

connected_methods!(UnixDatagram(std_unix::UnixDatagram), SocketAddr);
