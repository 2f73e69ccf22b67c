//! [`UnixStream`].

use super::Direction;
use super::bytes::{ByteStream, Stream};
use super::intervals::again_at_intervals;
use super::io::Io;
use super::methods::{peek_methods, read_methods, write_methods};
use super::ready::interest_methods;
use super::sockets::connected_methods;
use doorbell_machine::host::net;
use std::future::pending;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::unix::net::{self as std_unix, SocketAddr};
use std::path::Path;
use std::task::{Context, Poll};

pub use doorbell_machine::host::net::PeerCred;

/// A connection of Unix sockets. Reading and writing take `&self`, so several tasks may use it at a time.
/// Each task that waits in `read`, `write` and the like is woken. Of the tasks that wait by the `poll_…`
/// forms in one direction, only the last one is woken.
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
    /// Connects to the listener at `path`. A path that begins with a zero byte is an abstract name: that of a
    /// socket without a file. While the listener's queue is full, this tries again at intervals that grow from
    /// 1 ms to 50 ms, because the OS does not report room there.
    ///
    /// # Errors
    /// The OS's error. An error if it has to wait and the thread has no runtime.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&net::unix_address(path.as_ref())?).await
    }

    /// As [`UnixStream::connect`], to the listener at an address.
    ///
    /// # Errors
    /// As for [`UnixStream::connect`].
    pub async fn connect_addr(address: &SocketAddr) -> io::Result<UnixStream> {
        let connect = || net::connect_unix(address);
        let connected = again_at_intervals(connect, pending::<io::Result<()>>);
        Ok(UnixStream::of(connected.await?))
    }

    /// Makes two sockets that are connected to each other.
    ///
    /// # Errors
    /// The OS's error.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (ours, theirs) = std_unix::UnixStream::pair()?;
        let theirs = UnixStream::from_std(theirs)?;
        Ok((UnixStream::from_std(ours)?, theirs))
    }

    read_methods!([]);
    peek_methods!([]);
    write_methods!([]);
    interest_methods!();

    /// Shuts down reading, writing or both.
    ///
    /// # Errors
    /// The OS's error.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.shutdown(how)
    }

    /// The process and user of the other end: of an accepted connection those that connected, of a connection
    /// to a listener those that listen, of a [pair](UnixStream::pair) those that made it.
    ///
    /// # Errors
    /// The OS's error.
    pub fn peer_cred(&self) -> io::Result<PeerCred> {
        net::peer_cred(self.io.get())
    }
}

impl Stream for UnixStream {
    type Inner = std_unix::UnixStream;

    fn io(&self) -> &Io<std_unix::UnixStream> {
        &self.io
    }
}

impl ByteStream for UnixStream {}

impl AsRef<UnixStream> for UnixStream {
    fn as_ref(&self) -> &UnixStream {
        self
    }
}

connected_methods!(UnixStream(std_unix::UnixStream), SocketAddr);
