//! [`TcpListener`].

use super::io::Io;
use super::options::std_option_methods;
use super::sockets::socket_methods;
use super::{Direction, NoAddress, TcpStream, ToSocketAddrs, lookup_host};
use crate::{CoreId, Handle};
use doorbell_machine::host::net::{self, Sharing};
use std::io;
use std::net::{self as std_net, SocketAddr};
use std::task::{Context, Poll};

pub use doorbell_machine::host::net::Backlog;

/// A TCP socket that accepts connections. Each task that waits in [`accept`](TcpListener::accept) is woken.
/// Of the tasks that wait by [`TcpListener::poll_accept`], only the last one is woken.
#[derive(Debug)]
pub struct TcpListener {
    io: Io<std_net::TcpListener>,
}

impl TcpListener {
    /// Listens at the first available of the addresses. A name is looked up on the calling thread, which
    /// blocks meanwhile. On a worker, use [`TcpListener::bind_name`] for names.
    ///
    /// As many connections may wait to be accepted as the OS allows (`net.core.somaxconn`), with
    /// [`TcpListener::set_backlog`] fewer.
    ///
    /// # Errors
    /// The OS's error for the last address, for example if it is in use; [`NoAddress`] if the list is empty.
    pub fn bind(addresses: impl std_net::ToSocketAddrs) -> io::Result<TcpListener> {
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, NoAddress);
        for address in addresses.to_socket_addrs()? {
            match net::listen(address, Sharing::Alone) {
                Ok(listener) => return Ok(TcpListener::of(listener)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// As [`TcpListener::bind`], but a name is looked up on a thread for [blocking
    /// closures](crate::spawn_blocking()).
    ///
    /// # Errors
    /// As for [`TcpListener::bind`]; [`NoAddress`] if no address was found; an error if a name cannot be
    /// looked up, or if the thread has no runtime to do so.
    pub async fn bind_name(name: impl ToSocketAddrs) -> io::Result<TcpListener> {
        let found: Vec<SocketAddr> = lookup_host(name).await?.collect();
        TcpListener::bind(&*found)
    }

    /// Makes one listener for each core of the current runtime that is on, all at one address. The OS
    /// distributes the connections among them (`SO_REUSEPORT`). With a task on each core that accepts from
    /// its listener, no connection crosses cores, and cores do not contend for one queue.
    ///
    /// Accept from every listener: a connection that the OS has given to one waits there. With port 0 all
    /// listeners have the port that the OS chooses for the first. Other processes of the same user can share
    /// the address if they set `SO_REUSEPORT` too.
    ///
    /// # Errors
    /// The OS's error, for example if the address is in use by a socket that does not share it. An error if
    /// the thread has no runtime.
    ///
    /// ```
    /// use doorbell::net::{TcpListener, TcpStream};
    ///
    /// # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
    /// let listeners = TcpListener::bind_per_core("127.0.0.1:0".parse().unwrap())?;
    /// let address = listeners[0].1.local_addr()?;
    /// for (core, listener) in listeners {
    ///     doorbell::task().on(core).spawn(async move {
    ///         while let Ok((stream, _)) = listener.accept().await {
    ///             doorbell::task().on(core).spawn(async move { stream.write_all(b"hello").await });
    ///         }
    ///     });
    /// }
    /// let mut hello = [0; 5];
    /// TcpStream::connect(address).await?.read_exact(&mut hello).await?;
    /// assert_eq!(&hello, b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn bind_per_core(mut address: SocketAddr) -> io::Result<Vec<(CoreId, TcpListener)>> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let cores = (0..runtime.cores()).map(CoreId::new);
        let mut listeners = Vec::new();
        for core in cores.filter(|core| runtime.core_is_online(*core)) {
            let listener = TcpListener::of(net::listen(address, Sharing::Shared)?);
            address = listener.local_addr()?;
            listeners.push((core, listener));
        }
        Ok(listeners)
    }

    /// Accepts a connection. Returns it with the address of the other end. If the future is dropped before it
    /// is ready, no connection has been taken.
    ///
    /// # Errors
    /// The OS's error. After some errors, such as too many open descriptors, a later call may succeed. An
    /// error if it has to wait and the thread has no runtime.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, from) = self.io.io(Direction::Read, net::accept).await?;
        Ok((TcpStream::of(stream), from))
    }

    /// As [`TcpListener::accept`].
    ///
    /// # Errors
    /// As for [`TcpListener::accept`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = self.io.poll_io(cx, Direction::Read, net::accept);
        accepted.map_ok(|(stream, from)| (TcpStream::of(stream), from))
    }

    /// Returns whether a connection waits to be accepted. If the process is out of descriptors, an accept fails
    /// also where none waits, and this tells the difference.
    ///
    /// # Errors
    /// The OS's error.
    pub fn has_waiting(&self) -> io::Result<bool> {
        net::is_readable(self.io.get())
    }

    /// Sets how many connections may wait to be accepted. The OS takes its own limit (`net.core.somaxconn`) for
    /// a larger number; that is also the number of a new listener. A connection for which there is no room is
    /// tried again by its client, after a second or more.
    ///
    /// # Errors
    /// The OS's error.
    pub fn set_backlog(&self, most: u32) -> io::Result<()> {
        net::listen_by(self.io.get(), most)
    }

    /// How many connections wait to be accepted, and how many packets of others found no room.
    ///
    /// # Errors
    /// The OS's error.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let listener = doorbell::net::TcpListener::bind("127.0.0.1:0")?;
    /// let _waits = doorbell::net::TcpStream::connect(listener.local_addr()?).await?;
    /// let backlog = listener.backlog()?;
    /// assert_eq!((backlog.waiting, backlog.dropped), (1, 0));
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn backlog(&self) -> io::Result<Backlog> {
        net::backlog(self.io.get())
    }

    std_option_methods! {
        "the time to live of packets of accepted connections: how many routers a packet may pass (`IP_TTL`)"
            u32: ttl set_ttl;
    }
}

socket_methods!(TcpListener(std_net::TcpListener), SocketAddr);
