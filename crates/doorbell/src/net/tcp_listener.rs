//! [`TcpListener`].

use super::io::Io;
use super::{Direction, NoAddress, TcpStream, ToSocketAddrs, lookup_host};
use crate::{CoreId, Handle};
use doorbell_machine::host::net;
use std::io;
use std::net::{self as std_net, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

/// A socket that takes connections. Each of several tasks that [`accept`](TcpListener::accept) is
/// woken; of those that do so by [`TcpListener::poll_accept`] the last one is.
#[derive(Debug)]
pub struct TcpListener {
    io: Io<std_net::TcpListener>,
}

impl TcpListener {
    /// Listens at the first of the addresses that can be had. A name is looked up by the calling
    /// thread, which waits for it: on a worker, use [`TcpListener::bind_name`] for names.
    ///
    /// # Errors
    /// What the OS said: for one, that somebody has the address.
    pub fn bind(addresses: impl std_net::ToSocketAddrs) -> io::Result<TcpListener> {
        TcpListener::from_std(std_net::TcpListener::bind(addresses)?)
    }

    /// As [`TcpListener::bind`], but a name is looked up on a thread for [closures that
    /// block](crate::spawn_blocking()).
    ///
    /// # Errors
    /// As for [`TcpListener::bind`]; that there is no runtime to look names up in; [`NoAddress`].
    pub async fn bind_name(name: impl ToSocketAddrs) -> io::Result<TcpListener> {
        let found: Vec<SocketAddr> = lookup_host(name).await?.collect();
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, NoAddress));
        }
        TcpListener::bind(&*found)
    }

    /// A listener for each core of the current runtime that is on, all at one address, which the OS
    /// gives connections to in turn (`SO_REUSEPORT`): by a task on each core that accepts, no connection
    /// crosses cores, and no two cores contend for one queue. With port 0 all have the port that the OS
    /// chooses for the first. Each is to be accepted from: connections that the OS has given to one wait
    /// there. Other processes of the same user can share the address if they ask for that too.
    ///
    /// # Errors
    /// What the OS said: for one, that somebody has the address who does not share it. That there is no
    /// current runtime.
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
            let listener = TcpListener::of(net::listen_shared(address)?);
            address = listener.local_addr()?;
            listeners.push((core, listener));
        }
        Ok(listeners)
    }

    /// Of a listener of the standard library.
    ///
    /// # Errors
    /// If the OS does not let it not block.
    pub fn from_std(listener: std_net::TcpListener) -> io::Result<TcpListener> {
        listener.set_nonblocking(true)?;
        Ok(TcpListener::of(listener))
    }

    fn of(listener: std_net::TcpListener) -> TcpListener {
        TcpListener {
            io: Io::new(listener),
        }
    }

    /// As the standard library has it; it still does not block. No runtime knows it any more.
    #[must_use]
    pub fn into_std(self) -> std_net::TcpListener {
        self.io.into_inner()
    }

    /// The next connection, and where it comes from. Dropped before it is ready, it has taken none.
    ///
    /// # Errors
    /// What the OS said: also that there are too many descriptors, after which the next one may
    /// succeed; or that there is no runtime to wait in.
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

    /// Where it listens.
    ///
    /// # Errors
    /// What the OS said.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().local_addr()
    }

    /// Over how many routers a packet of an accepted connection may go.
    ///
    /// # Errors
    /// What the OS said.
    pub fn set_ttl(&self, hops: u32) -> io::Result<()> {
        self.io.get().set_ttl(hops)
    }

    /// As [`TcpListener::set_ttl`] has set it.
    ///
    /// # Errors
    /// What the OS said.
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.get().ttl()
    }
}

impl TryFrom<std_net::TcpListener> for TcpListener {
    type Error = io::Error;

    /// As [`TcpListener::from_std`].
    fn try_from(listener: std_net::TcpListener) -> io::Result<TcpListener> {
        TcpListener::from_std(listener)
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}
