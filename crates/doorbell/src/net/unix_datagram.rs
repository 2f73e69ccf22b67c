//! [`UnixDatagram`].

use super::Direction;
use super::intervals::again_at_intervals;
use super::io::Io;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{self as std_unix, SocketAddr};
use std::path::Path;
use std::task::{Context, Poll};

/// A socket that sends and receives datagrams on this computer. All goes by `&`, so that several tasks
/// may do so at a time, and each that waits is woken; of those that wait by the `poll_…` forms in one
/// direction the last one is. Who sends waits while the receiver has too much.
#[derive(Debug)]
pub struct UnixDatagram {
    io: Io<std_unix::UnixDatagram>,
}

impl UnixDatagram {
    /// A socket that a new file at that path stands for, which is not deleted with it.
    ///
    /// # Errors
    /// What the OS said: for one, that there is such a file.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(std_unix::UnixDatagram::bind(path)?)
    }

    /// A socket without an address, which can send.
    ///
    /// # Errors
    /// What the OS said.
    pub fn unbound() -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(std_unix::UnixDatagram::unbound()?)
    }

    /// Two that are connected to each other.
    ///
    /// # Errors
    /// What the OS said.
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

    /// Of a socket of the standard library.
    ///
    /// # Errors
    /// If the OS does not let it not block.
    pub fn from_std(socket: std_unix::UnixDatagram) -> io::Result<UnixDatagram> {
        socket.set_nonblocking(true)?;
        let io = Io::new(socket);
        Ok(UnixDatagram { io })
    }

    /// As the standard library has it; it still does not block. No runtime knows it any more.
    #[must_use]
    pub fn into_std(self) -> std_unix::UnixDatagram {
        self.io.into_inner()
    }

    /// Sends to the socket at that path, and receives from it only.
    ///
    /// # Errors
    /// What the OS said.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.io.get().connect(path)
    }

    /// Sends a datagram to whom it is connected to; how many bytes.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub async fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        let send = |socket: &std_unix::UnixDatagram| socket.send(datagram);
        self.io.io(Direction::Write, send).await
    }

    /// As [`UnixDatagram::send`].
    ///
    /// # Errors
    /// As for [`UnixDatagram::send`].
    pub fn poll_send(&self, cx: &mut Context<'_>, datagram: &[u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll_io(cx, Direction::Write, |socket| socket.send(datagram))
    }

    /// As [`UnixDatagram::send`], if there is room.
    ///
    /// # Errors
    /// What the OS said; [`io::ErrorKind::WouldBlock`].
    pub fn try_send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.io
            .try_io(Direction::Write, |socket| socket.send(datagram))
    }

    /// Receives a datagram; how many bytes. What does not fit is lost.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
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

    /// As [`UnixDatagram::recv`], if there is one.
    ///
    /// # Errors
    /// What the OS said; [`io::ErrorKind::WouldBlock`].
    pub fn try_recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.io
            .try_io(Direction::Read, |socket| socket.recv(buffer))
    }

    /// Sends a datagram to the socket at that path; how many bytes. While the receiver has too much, it
    /// is tried again at intervals that grow to 50 ms, since the OS says only to who is connected when
    /// there is room.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub async fn send_to(&self, datagram: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let send = || self.io.get().send_to(datagram, path.as_ref());
        again_at_intervals(send).await
    }

    /// As [`UnixDatagram::send_to`], if there is room.
    ///
    /// # Errors
    /// What the OS said; [`io::ErrorKind::WouldBlock`].
    pub fn try_send_to(&self, datagram: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let send = |socket: &std_unix::UnixDatagram| socket.send_to(datagram, path);
        self.io.try_io(Direction::Write, send)
    }

    /// Receives a datagram: how many bytes, and from where. What does not fit is lost.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let recv = |socket: &std_unix::UnixDatagram| socket.recv_from(buffer);
        self.io.io(Direction::Read, recv).await
    }

    /// As [`UnixDatagram::recv_from`], if there is one.
    ///
    /// # Errors
    /// What the OS said; [`io::ErrorKind::WouldBlock`].
    pub fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io
            .try_io(Direction::Read, |socket| socket.recv_from(buffer))
    }

    /// Waits until there may be a datagram: then [`UnixDatagram::try_recv`] and its like.
    ///
    /// # Errors
    /// That there is no runtime to wait in.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await
    }

    /// Waits until there may be room: then [`UnixDatagram::try_send`] and its like.
    ///
    /// # Errors
    /// That there is no runtime to wait in.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
    }

    /// Closes one direction, or both.
    ///
    /// # Errors
    /// What the OS said.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.get().shutdown(how)
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
