//! [`UnixStream`].

use super::Direction;
use super::bytes::{ByteStream, Bytes, Stream};
use super::intervals::again_at_intervals;
use super::io::Io;
use super::methods::{read_methods, write_methods};
use doorbell_machine::host::net;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{self as std_unix, SocketAddr};
use std::path::Path;
use std::task::{Context, Poll};

pub use doorbell_machine::host::net::PeerCred;

/// A connection on this computer. Reading and writing go by `&`, so that several tasks may do so at a
/// time: each that waits in `read`, `write` and the like is woken. Of those that wait by the `poll_…`
/// forms in one direction the last one is.
///
/// ```
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let (ours, theirs) = doorbell::net::UnixStream::pair()?;
/// ours.write_all(b"hello").await?;
/// let mut hello = [0; 5];
/// theirs.read_exact(&mut hello).await?;
/// assert_eq!(&hello, b"hello");
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct UnixStream {
    io: Io<std_unix::UnixStream>,
}

impl UnixStream {
    /// Connects to the listener at that path. One that has too many connections which were not accepted
    /// is tried again, at intervals that grow to 50 ms.
    ///
    /// # Errors
    /// What the OS said, or that there is no runtime to wait in.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        let connect = || net::connect_unix(path.as_ref());
        Ok(UnixStream::of(again_at_intervals(connect).await?))
    }

    /// Two that are connected to each other.
    ///
    /// # Errors
    /// What the OS said.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (ours, theirs) = std_unix::UnixStream::pair()?;
        let theirs = UnixStream::from_std(theirs)?;
        Ok((UnixStream::from_std(ours)?, theirs))
    }

    /// Of a stream of the standard library.
    ///
    /// # Errors
    /// If the OS does not let it not block.
    pub fn from_std(stream: std_unix::UnixStream) -> io::Result<UnixStream> {
        stream.set_nonblocking(true)?;
        Ok(UnixStream::of(stream))
    }

    fn of(stream: std_unix::UnixStream) -> UnixStream {
        let io = Io::new(stream);
        UnixStream { io }
    }

    /// As the standard library has it; it still does not block. No runtime knows it any more: it can
    /// go to another one by [`UnixStream::from_std`].
    #[must_use]
    pub fn into_std(self) -> std_unix::UnixStream {
        self.io.into_inner()
    }

    read_methods!([]);
    write_methods!([]);

    /// Closes one direction, or both.
    ///
    /// # Errors
    /// What the OS said.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.shutdown(how)
    }

    /// Who made the other end; of a connection that was accepted, who connected, and of one that was
    /// connected, who listens.
    ///
    /// # Errors
    /// What the OS said.
    pub fn peer_cred(&self) -> io::Result<PeerCred> {
        net::peer_cred(self.io.get())
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

    /// That of the other end.
    ///
    /// # Errors
    /// What the OS said.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().peer_addr()
    }
}

impl Stream for UnixStream {
    type Inner = std_unix::UnixStream;

    fn io(&self) -> &Io<std_unix::UnixStream> {
        &self.io
    }
}

impl ByteStream for UnixStream {}

impl TryFrom<std_unix::UnixStream> for UnixStream {
    type Error = io::Error;

    /// As [`UnixStream::from_std`].
    fn try_from(stream: std_unix::UnixStream) -> io::Result<UnixStream> {
        UnixStream::from_std(stream)
    }
}

impl AsFd for UnixStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}

impl AsRef<UnixStream> for UnixStream {
    fn as_ref(&self) -> &UnixStream {
        self
    }
}
