//! [`TcpStream`].

use super::bytes::{ByteStream, Stream};
use super::io::Io;
use super::methods::{peek_methods, read_methods, write_methods};
use super::options::{ip_option_methods, option_methods, std_option_methods};
use super::ready::interest_methods;
use super::sockets::connected_methods;
use super::{Direction, NoAddress, ToSocketAddrs, lookup_host};
use crate::time::timeout;
use doorbell_machine::host::net;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{self as std_net, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};
use std::time::Duration;

/// A TCP connection. Reading and writing take `&self`, so several tasks may use it at a time. Each task that
/// waits in `read`, `write` and the like is woken. Of the tasks that wait by the `poll_…` forms in one
/// direction, only the last one is woken.
///
/// Options that are missing here can be set by `socket2::SockRef::from(&stream)`.
#[derive(Debug)]
pub struct TcpStream {
    io: Io<std_net::TcpStream>,
}

impl TcpStream {
    /// Connects to the first of the addresses that accepts the connection. A name is looked up on a thread
    /// for [blocking closures](crate::spawn_blocking()).
    ///
    /// # Errors
    /// The OS's error for the last address; [`NoAddress`] if the list is empty; an error if the name is
    /// unknown, or if the thread has no runtime.
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
            let connected = match net::begin_to_connect(address) {
                Ok(stream) => TcpStream::once_connected(stream).await,
                Err(error) => Err(error),
            };
            match connected {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// As [`TcpStream::connect`], but gives up after this time, in all, also for a name that is looked up.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after that time; otherwise as for [`TcpStream::connect`].
    ///
    /// # Panics
    /// If the thread has no runtime.
    ///
    /// ```no_run
    /// use doorbell::time::Duration;
    ///
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let within = Duration::from_secs(3);
    /// let stream = doorbell::net::TcpStream::connect_timeout("example.org:80", within).await?;
    /// # drop(stream);
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn connect_timeout(
        addresses: impl ToSocketAddrs,
        within: Duration,
    ) -> io::Result<TcpStream> {
        let connected = timeout(within, TcpStream::connect(addresses)).await;
        connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Waits until a connection that was begun stands.
    pub(super) async fn once_connected(stream: std_net::TcpStream) -> io::Result<TcpStream> {
        let stream = TcpStream::of(stream);
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

    /// Returns how many of the bytes that were written the other end's OS has not acknowledged (`SIOCOUTQ`).
    ///
    /// A write becomes possible only when much of the OS's buffer is free, which a slow reader may take long
    /// for. This number shows sooner that it reads.
    ///
    /// # Errors
    /// The OS's error.
    pub fn unacknowledged(&self) -> io::Result<usize> {
        net::unacknowledged(self.io.get())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    option_methods! {
        "whether data is acknowledged at once (`TCP_QUICKACK`); the OS may turn it off again"
            bool: quickack set_quickack;
    }
    ip_option_methods!();
    std_option_methods! {
        "whether small writes are sent at once (`TCP_NODELAY`)" bool: nodelay set_nodelay;
        "the time to live of packets: how many routers a packet may pass (`IP_TTL`)" u32: ttl set_ttl;
    }

    /// Sets what happens to unsent bytes when the stream is closed (`SO_LINGER`). The time is rounded down to
    /// whole seconds:
    ///
    /// * `None`, the default: the OS still sends them.
    /// * A time above zero: the drop of the stream *blocks its thread* until they are sent, at most for this
    ///   time. On a worker, all other tasks of the worker wait too.
    /// * Zero: they are thrown away, and the other end gets a reset.
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        net::set_linger(self.io.get(), time)
    }

    /// As [`TcpStream::set_linger`] with a time of zero: unsent bytes are thrown away when the stream is closed,
    /// and the other end gets a reset.
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        net::set_linger(self.io.get(), Some(Duration::ZERO))
    }

    /// The value that [`TcpStream::set_linger`] sets, in whole seconds.
    ///
    /// # Errors
    /// The OS's error.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        net::linger(self.io.get())
    }

    /// Has the OS probe the other end when nothing has arrived for this time, in whole seconds
    /// (`SO_KEEPALIVE`, `TCP_KEEPIDLE`). `None`, the default: never.
    ///
    /// # Errors
    /// The OS's error. It refuses a time below one second.
    pub fn set_keepalive(&self, after: Option<Duration>) -> io::Result<()> {
        net::set_keepalive(self.io.get(), after)
    }

    /// The value that [`TcpStream::set_keepalive`] sets.
    ///
    /// # Errors
    /// The OS's error.
    pub fn keepalive(&self) -> io::Result<Option<Duration>> {
        net::keepalive(self.io.get())
    }
}

impl Stream for TcpStream {
    type Inner = std_net::TcpStream;

    fn io(&self) -> &Io<std_net::TcpStream> {
        &self.io
    }
}

impl ByteStream for TcpStream {}

impl AsRef<TcpStream> for TcpStream {
    fn as_ref(&self) -> &TcpStream {
        self
    }
}

connected_methods!(TcpStream(std_net::TcpStream), SocketAddr);
