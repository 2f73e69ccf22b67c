//! [`TcpStream`].

use super::bytes::{ByteStream, Bytes, Stream};
use super::io::Io;
use super::methods::{read_methods, write_methods};
use super::{Direction, NoAddress, ToSocketAddrs, lookup_host};
use doorbell_machine::host::net;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{self as std_net, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};
use std::time::Duration;

/// A connection. Reading and writing go by `&`, so that several tasks may do so at a time: each that
/// waits in `read`, `write` and the like is woken. Of those that wait by the `poll_…` forms in one
/// direction the last one is.
///
/// Options that are not here can be set by `socket2::SockRef::from(&stream)`.
#[derive(Debug)]
pub struct TcpStream {
    io: Io<std_net::TcpStream>,
}

impl TcpStream {
    /// Connects to the first of the addresses that takes the connection. A name is looked up on a
    /// thread for [closures that block](crate::spawn_blocking()).
    ///
    /// # Errors
    /// What the OS said of the last address; [`NoAddress`] if there is none; that the name is not
    /// known; that there is no runtime to wait in.
    ///
    /// ```no_run
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let stream = doorbell::net::TcpStream::connect("example.org:80").await?;
    /// stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn connect(addresses: impl ToSocketAddrs) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, NoAddress);
        for address in lookup_host(addresses).await? {
            match TcpStream::connect_to(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::of(net::begin_to_connect(address)?);
        let stands = |stream: &std_net::TcpStream| {
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            match stream.peer_addr() {
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                other => other.map(drop),
            }
        };
        stream.io.io(Direction::Write, stands).await?;
        Ok(stream)
    }

    /// Of a stream of the standard library, which is connected.
    ///
    /// # Errors
    /// If the OS does not let it not block.
    pub fn from_std(stream: std_net::TcpStream) -> io::Result<TcpStream> {
        stream.set_nonblocking(true)?;
        Ok(TcpStream::of(stream))
    }

    pub(super) fn of(stream: std_net::TcpStream) -> TcpStream {
        TcpStream {
            io: Io::new(stream),
        }
    }

    /// As the standard library has it; it still does not block. No runtime knows it any more: it can
    /// go to another one by [`TcpStream::from_std`].
    #[must_use]
    pub fn into_std(self) -> std_net::TcpStream {
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

    /// Whether small writes go out at once.
    ///
    /// # Errors
    /// What the OS said.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.io.get().set_nodelay(nodelay)
    }

    /// As [`TcpStream::set_nodelay`] has set it.
    ///
    /// # Errors
    /// What the OS said.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.io.get().nodelay()
    }

    /// What becomes of bytes that were not sent when it is closed: by `None` the OS sends them still,
    /// as it does unless told; by a time above zero the drop of the stream *waits* for that, and the
    /// worker with it; by zero they are thrown away, and the other end learns of a reset.
    ///
    /// # Errors
    /// What the OS said.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        net::set_linger(self.io.get(), time)
    }

    /// As [`TcpStream::set_linger`] has set it, in whole seconds.
    ///
    /// # Errors
    /// What the OS said.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        net::linger(self.io.get())
    }

    /// Has the OS ask the other end whether it is still there when nothing came for so long, in whole
    /// seconds; `None` for never, as it is unless told.
    ///
    /// # Errors
    /// What the OS said: a time below a second is refused.
    pub fn set_keepalive(&self, after: Option<Duration>) -> io::Result<()> {
        net::set_keepalive(self.io.get(), after)
    }

    /// As [`TcpStream::set_keepalive`] has set it.
    ///
    /// # Errors
    /// What the OS said.
    pub fn keepalive(&self) -> io::Result<Option<Duration>> {
        net::keepalive(self.io.get())
    }

    /// Over how many routers a packet may go.
    ///
    /// # Errors
    /// What the OS said.
    pub fn set_ttl(&self, hops: u32) -> io::Result<()> {
        self.io.get().set_ttl(hops)
    }

    /// As [`TcpStream::set_ttl`] has set it.
    ///
    /// # Errors
    /// What the OS said.
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.get().ttl()
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

impl Stream for TcpStream {
    type Inner = std_net::TcpStream;

    fn io(&self) -> &Io<std_net::TcpStream> {
        &self.io
    }
}

impl ByteStream for TcpStream {}

impl TryFrom<std_net::TcpStream> for TcpStream {
    type Error = io::Error;

    /// As [`TcpStream::from_std`].
    fn try_from(stream: std_net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(stream)
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}

impl AsRef<TcpStream> for TcpStream {
    fn as_ref(&self) -> &TcpStream {
        self
    }
}
