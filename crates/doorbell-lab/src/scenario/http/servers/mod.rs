//! The compared servers. Each runs in a process of its own, with two serving threads.
//!
//! A new server is a file in this folder that implements [`Server`], and a line in [`ALL`].

mod computation;
mod conversation;
mod doorbell;
mod epoll;
mod idle_threads;
mod pool;
mod running;
mod service;
mod tokio;
mod two_tokios;

use std::fmt::Debug;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::part::Part;
use crate::error::LabError;
pub(super) use computation::Computation;
use running::Running;

/// The serving threads of each server.
const WORKERS: usize = 2;
/// The time limit for the head of a request, in servers that have one.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How many connections may wait to be accepted; the OS may allow fewer.
const BACKLOG: i32 = 4_096;

/// The answer to `/`.
const HELLO: &str = "hello, world";
/// The answer to `/compute`, after the work.
const COMPUTED: &str = "computed";
/// The answer to `/healthz`.
const HEALTHY: &str = "ok";

/// A web server that answers on `/`, `/compute` and `/healthz`.
pub(super) trait Server: Debug + Sync {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// Its name on a command line.
    fn flag(&self) -> &'static str;

    /// The parts of the scenario in which it takes part.
    fn parts(&self) -> &'static [Part];

    /// How many listeners of the same address it needs.
    fn listeners(&self) -> usize {
        1
    }

    /// Starts serving. `work` is that of `/compute`.
    ///
    /// # Errors
    /// If a thread or a runtime cannot be started.
    fn start(&self, listeners: Vec<TcpListener>, work: Computation) -> Result<Running, LabError>;
}

/// All servers, the baseline first.
pub(super) static ALL: &[&dyn Server] = &[
    &tokio::Tokio::Handler,
    &tokio::Tokio::Bare,
    &two_tokios::TwoTokios,
    &doorbell::Doorbell::Classes,
    &doorbell::Doorbell::UrgentHello,
    &doorbell::Doorbell::OneClass,
    &epoll::RawEpoll { pool: false },
    &tokio::Tokio::Blocking,
    &tokio::Tokio::IdleThreads,
    &epoll::RawEpoll { pool: true },
];

/// The server with which the others are compared.
pub(super) const BASELINE: &str = "tokio";
/// The reference for servers that share nothing between cores.
pub(super) const TWO: &str = "two tokio runtimes";

/// The reference for tokio with computations under `SCHED_IDLE`.
pub(super) const TOKIO_IDLE_THREADS: &str = "tokio, two SCHED_IDLE threads";

/// The server that has goals.
pub(super) const OURS: &str = "doorbell";

/// The server with this name on a command line.
pub(super) fn of_flag(flag: &str) -> Option<&'static dyn Server> {
    let mut all = ALL.iter().copied();
    all.find(|server| server.flag() == flag)
}

/// Opens non-blocking listeners of one address. The OS distributes new connections among them.
///
/// # Errors
/// [`LabError::System`] if the address is not available.
pub(super) fn listeners(address: SocketAddr, count: usize) -> Result<Vec<TcpListener>, LabError> {
    let mut all: Vec<TcpListener> = Vec::with_capacity(count);
    for _ in 0..count {
        // The first listener may have been assigned a port.
        let address = all.first().map_or(Ok(address), TcpListener::local_addr);
        let listener = address.and_then(listener);
        all.push(listener.map_err(|source| LabError::System {
            what: "listening for connections",
            source,
        })?);
    }
    Ok(all)
}

fn listener(address: SocketAddr) -> std::io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_found_by_a_flag_and_has_a_name_of_its_own() {
        for (place, server) in ALL.iter().enumerate() {
            let found = of_flag(server.flag()).map(Server::name);
            assert_eq!(found, Some(server.name()));
            let earlier = &ALL[..place];
            assert!(earlier.iter().all(|other| other.name() != server.name()));
        }
        assert!(of_flag("nobody").is_none());
        assert_eq!(ALL[0].name(), BASELINE);
        for other in [TWO, TOKIO_IDLE_THREADS, OURS] {
            assert!(ALL.iter().any(|server| server.name() == other));
        }
    }

    #[test]
    fn two_listeners_share_an_address() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let both = listeners(any, 2).expect("loopback is there");
        let [one, two] = [0, 1].map(|place: usize| both[place].local_addr().expect("it has one"));
        assert_eq!(one, two);
        assert_ne!(one.port(), 0);
        let foreign = SocketAddr::from(([192, 0, 2, 1], 0));
        assert!(listeners(foreign, 1).is_err());
    }
}
