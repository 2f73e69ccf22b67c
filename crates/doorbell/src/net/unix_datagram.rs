//! [`UnixDatagram`].

use super::Direction;
use super::intervals::again_at_intervals;
use super::io::Io;
use super::ready::interest_methods;
use crate::here::refuse_os;
use doorbell_machine::host::net;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
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

    /// Takes over a socket of the standard library, and makes it non-blocking.
    ///
    /// # Errors
    /// If the OS refuses to make it non-blocking.
    pub fn from_std(socket: std_unix::UnixDatagram) -> io::Result<UnixDatagram> {
        refuse_os()?;
        socket.set_nonblocking(true)?;
        let io = Io::new(socket);
        Ok(UnixDatagram { io })
    }

    /// Turns this into a socket of the standard library, which stays non-blocking. It is registered with no
    /// runtime any more.
    #[must_use]
    pub fn into_std(self) -> std_unix::UnixDatagram {
        self.io.into_inner()
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

    /// Sends a datagram to the connected socket. Returns the number of bytes sent.
    ///
    /// # Errors
    /// The OS's error. An error if it has to wait and the thread has no runtime.
    pub async fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        let send = |socket: &std_unix::UnixDatagram| net::write(socket, datagram);
        self.io.io(Direction::Write, send).await
    }

    /// As [`UnixDatagram::send`].
    ///
    /// # Errors
    /// As for [`UnixDatagram::send`].
    pub fn poll_send(&self, cx: &mut Context<'_>, datagram: &[u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll_io(cx, Direction::Write, |socket| net::write(socket, datagram))
    }

    /// As [`UnixDatagram::send`], but returns an error instead of waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] instead of waiting; the OS's error.
    pub fn try_send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.io
            .try_io(Direction::Write, |socket| net::write(socket, datagram))
    }

    /// Receives a datagram. Returns the number of bytes. Bytes that do not fit into `buffer` are lost.
    ///
    /// # Errors
    /// The OS's error. An error if it has to wait and the thread has no runtime.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let recv = |socket: &std_unix::UnixDatagram| socket.recv(buffer);
        self.io.io(Direction::Read, recv).await
    }

    /// As [`UnixDatagram::recv`].
    ///
    /// # Errors
    /// As for [`UnixDatagram::recv`].
    pub fn poll_recv(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll_io(cx, Direction::Read, |socket| socket.recv(buffer))
    }

    /// As [`UnixDatagram::recv`], but returns an error instead of waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] instead of waiting; the OS's error.
    pub fn try_recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.io
            .try_io(Direction::Read, |socket| socket.recv(buffer))
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

    /// Receives a datagram. Returns the number of bytes and the sender's address. Bytes that do not fit into
    /// `buffer` are lost.
    ///
    /// # Errors
    /// The OS's error. An error if it has to wait and the thread has no runtime.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let recv = |socket: &std_unix::UnixDatagram| socket.recv_from(buffer);
        self.io.io(Direction::Read, recv).await
    }

    /// As [`UnixDatagram::recv_from`].
    ///
    /// # Errors
    /// As for [`UnixDatagram::recv_from`].
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.io
            .poll_io(cx, Direction::Read, |socket| socket.recv_from(buffer))
    }

    /// As [`UnixDatagram::recv_from`], but returns an error instead of waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] instead of waiting; the OS's error.
    pub fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io
            .try_io(Direction::Read, |socket| socket.recv_from(buffer))
    }

    interest_methods!();

    /// Waits until there may be a datagram. Then use [`UnixDatagram::try_recv`] and the like.
    ///
    /// # Errors
    /// The thread has no runtime, or the OS refuses to wait for the socket.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await.map(drop)
    }

    /// Waits until there may be room to send. Then use [`UnixDatagram::try_send`] and the like.
    ///
    /// # Errors
    /// The thread has no runtime, or the OS refuses to wait for the socket.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await.map(drop)
    }

    /// Ready when there may be a datagram. Of several tasks that poll this, only the last one is woken.
    ///
    /// # Errors
    /// As for [`UnixDatagram::readable`].
    pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, Direction::Read)
    }

    /// Ready when there may be room to send. Of several tasks that poll this, only the last one is woken.
    ///
    /// # Errors
    /// As for [`UnixDatagram::readable`].
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, Direction::Write)
    }

    /// Shuts down reading, writing or both.
    ///
    /// # Errors
    /// The OS's error.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.get().shutdown(how)
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

impl TryFrom<std_unix::UnixDatagram> for UnixDatagram {
    type Error = io::Error;

    /// As [`UnixDatagram::from_std`].
    fn try_from(socket: std_unix::UnixDatagram) -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(socket)
    }
}

impl AsFd for UnixDatagram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}
