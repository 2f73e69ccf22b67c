//! Addresses, and host names that are looked up.

use crate::coop::consume_budget;
use crate::here::refuse_os;
use std::io;
use std::net::{
    self as std_net, IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6,
};

/// The list of addresses is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no address to use")]
pub struct NoAddress;

mod hidden {
    use super::SocketAddr;

    /// What a [`ToSocketAddrs`](super::ToSocketAddrs) names.
    #[derive(Debug)]
    pub enum Said {
        /// One address, without an allocation.
        One(SocketAddr),
        /// Several addresses.
        Known(Vec<SocketAddr>),
        /// `name:port`.
        Name(String),
        /// A name and a port.
        Host(String, u16),
    }

    pub trait Say {
        fn say(&self) -> Said;
    }
}

use hidden::{Said, Say};

/// Names one address or several: like the standard library's [`ToSocketAddrs`](std::net::ToSocketAddrs), but
/// a name is looked up on a thread for [blocking closures](crate::spawn_blocking()), not on the worker.
///
/// It cannot be implemented outside of this crate.
pub trait ToSocketAddrs: Say {}

/// The addresses that [`lookup_host`] found.
#[derive(Clone, Debug)]
pub struct Addresses(AddressesFound);

#[derive(Clone, Debug)]
enum AddressesFound {
    One(std::option::IntoIter<SocketAddr>),
    Many(std::vec::IntoIter<SocketAddr>),
}

impl Iterator for Addresses {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        match &mut self.0 {
            AddressesFound::One(address) => address.next(),
            AddressesFound::Many(addresses) => addresses.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            AddressesFound::One(address) => address.size_hint(),
            AddressesFound::Many(addresses) => addresses.size_hint(),
        }
    }
}

impl ExactSizeIterator for Addresses {}

impl std::iter::FusedIterator for Addresses {}

/// The addresses that `host` names. The OS looks a name up, on a thread for [blocking
/// closures](crate::spawn_blocking()). Addresses are returned at once; a single one needs no allocation.
///
/// # Errors
/// The OS's error, for example for an unknown name; [`io::ErrorKind::InvalidInput`] for a text that is no
/// `name:port`; an error if a name has to be looked up and the thread has no runtime, or the runtime is about
/// to end.
///
/// ```
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let mut found = doorbell::net::lookup_host("localhost:80").await?;
/// assert!(found.all(|address| address.ip().is_loopback()));
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub async fn lookup_host(host: impl ToSocketAddrs) -> io::Result<Addresses> {
    let found = addresses_of(host).await;
    consume_budget().await;
    found
}

/// As [`lookup_host`], without counting against the poll budget: for callers that count themselves.
pub(super) async fn addresses_of(host: impl ToSocketAddrs) -> io::Result<Addresses> {
    let found = match host.say() {
        Said::One(address) => return Ok(Addresses(AddressesFound::One(Some(address).into_iter()))),
        Said::Known(addresses) => addresses,
        Said::Name(name) => off_the_worker(name).await?,
        Said::Host(name, port) => off_the_worker((name, port)).await?,
    };
    Ok(Addresses(AddressesFound::Many(found.into_iter())))
}

async fn off_the_worker<A>(name: A) -> io::Result<Vec<SocketAddr>>
where
    A: std_net::ToSocketAddrs + Send + 'static,
{
    refuse_os()?;
    let runtime = crate::Handle::try_current().map_err(io::Error::other)?;
    let look = move || Ok(name.to_socket_addrs()?.collect());
    let looked = runtime.try_spawn_blocking(look).map_err(io::Error::other)?;
    looked.await.map_err(io::Error::other)?
}

macro_rules! known {
    ($($type:ty),*) => {$(
        impl Say for $type {
            fn say(&self) -> Said {
                Said::One(SocketAddr::from(*self))
            }
        }

        impl ToSocketAddrs for $type {}
    )*};
}

known!(
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6,
    (IpAddr, u16),
    (Ipv4Addr, u16),
    (Ipv6Addr, u16)
);

impl Say for [SocketAddr] {
    fn say(&self) -> Said {
        Said::Known(self.to_vec())
    }
}

impl ToSocketAddrs for [SocketAddr] {}

impl<const N: usize> Say for [SocketAddr; N] {
    fn say(&self) -> Said {
        self.as_slice().say()
    }
}

impl<const N: usize> ToSocketAddrs for [SocketAddr; N] {}

impl Say for Vec<SocketAddr> {
    fn say(&self) -> Said {
        self.as_slice().say()
    }
}

impl ToSocketAddrs for Vec<SocketAddr> {}

impl Say for str {
    fn say(&self) -> Said {
        match self.parse::<SocketAddr>() {
            Ok(address) => address.say(),
            Err(_) => Said::Name(self.to_owned()),
        }
    }
}

impl ToSocketAddrs for str {}

impl Say for String {
    fn say(&self) -> Said {
        self.as_str().say()
    }
}

impl ToSocketAddrs for String {}

impl Say for (&str, u16) {
    fn say(&self) -> Said {
        let (name, port) = *self;
        match name.parse::<IpAddr>() {
            Ok(ip) => (ip, port).say(),
            Err(_) => Said::Host(name.to_owned(), port),
        }
    }
}

impl ToSocketAddrs for (&str, u16) {}

impl Say for (String, u16) {
    fn say(&self) -> Said {
        (self.0.as_str(), self.1).say()
    }
}

impl ToSocketAddrs for (String, u16) {}

impl<T: Say + ?Sized> Say for &T {
    fn say(&self) -> Said {
        T::say(self)
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {}
