//! [`ServeError`] and [`Served`].

use doorbell::net;
use doorbell::{JoinError, SpawnError, error::NoRuntime};
use std::error::Error;
use std::io;

/// Why a server ended without its signal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server was awaited outside of a runtime.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    /// The runtime has ended, or the one that waits for the listener's descriptor.
    #[error("the runtime has ended, and its server with it")]
    RuntimeEnded,
    /// The OS did not start the threads of class Rt, which a server with [`classes`](crate::Server::classes)
    /// needs.
    #[error(transparent)]
    Class(#[from] SpawnError),
    /// The listener accepts no connections: the error of the OS, or one of the listener's own: see
    /// [`Listener::accept`](crate::Listener::accept).
    #[error("the listener takes no connections: {0}; bind another one")]
    Listener(#[source] io::Error),
}

impl ServeError {
    /// The error of a task that ended without a result. A panic of that task continues here.
    pub(super) fn of_join(error: JoinError) -> ServeError {
        match error.try_into_panic() {
            Ok(payload) => std::panic::resume_unwind(payload),
            Err(_) => ServeError::RuntimeEnded,
        }
    }
}

/// What a server did until its signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Served {
    /// Number of accepted connections.
    pub accepted: u64,
    /// Number of times that the OS refused to accept a connection that waited, for example because the process
    /// had no descriptors left.
    pub refused: u64,
    /// Number of connections that were open at the signal, upgraded ones too, and ended within the drain
    /// timeout.
    pub drained: u64,
    /// Number of connections that were dropped with a request in flight after the signal: because they were
    /// still open after the drain timeout, or reached a limit before.
    pub cut: u64,
    /// Number of upgraded connections that were still open after the drain timeout. They belong to the tasks
    /// that took them, and are not closed.
    pub outlived: u64,
    /// Number of connections, and of requests over HTTP/2, that were dropped in flight because they reached
    /// [`write_timeout`](crate::Server::write_timeout), [`request_timeout`](crate::Server::request_timeout) or
    /// [`minimum_rate`](crate::Server::minimum_rate), or the time for another request's head over HTTP/2.
    pub timed_out: u64,
}

/// What to do after `accept` has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterRefusal {
    /// Accept the next connection: only this one is lost.
    Next,
    /// Let an idle connection make room: the OS has run out of descriptors or memory.
    MakeRoom,
    /// Pause: it is not known what ails the OS.
    Pause,
    /// End: the runtime that waits for the listener's descriptor has ended.
    RuntimeEnded,
    /// End: the socket does not listen, or the worker already waits for it, for another object, or the listener has an
    /// error of its own.
    End,
}

/// Errors of the waiting connection, as accept(2) says, which have no [`io::ErrorKind`] of their own: `EPERM`,
/// `ENONET`, `EPROTO`, `ENOPROTOOPT`, `EOPNOTSUPP`, `EHOSTDOWN`. The numbers are those of Linux on x86-64 and ARM.
const OF_ONE: [i32; 6] = [1, 64, 71, 92, 95, 112];

/// The OS has run out of descriptors or memory: `ENOMEM`, `ENFILE`, `EMFILE`, `ENOBUFS`.
const OUT_OF_ROOM: [i32; 4] = [12, 23, 24, 105];

impl AfterRefusal {
    pub(super) fn of(error: &io::Error) -> AfterRefusal {
        use io::ErrorKind as Kind;
        match error.raw_os_error() {
            Some(number) if OF_ONE.contains(&number) => return AfterRefusal::Next,
            Some(number) if OUT_OF_ROOM.contains(&number) => return AfterRefusal::MakeRoom,
            _ => {}
        }
        let is_end = |source: &(dyn Error + Send + Sync + 'static)| {
            source.is::<NoRuntime>() || source.is::<net::RuntimeEnded>()
        };
        if error.get_ref().is_some_and(is_end) {
            return AfterRefusal::RuntimeEnded;
        }
        match error.kind() {
            Kind::ConnectionAborted
            | Kind::ConnectionReset
            | Kind::HostUnreachable
            | Kind::Interrupted
            | Kind::NetworkDown
            | Kind::NetworkUnreachable
            | Kind::NotConnected
            | Kind::TimedOut => AfterRefusal::Next,
            Kind::InvalidInput | Kind::AlreadyExists => AfterRefusal::End,
            // Every error of the OS has a number.
            _ if error.raw_os_error().is_none() => AfterRefusal::End,
            _ => AfterRefusal::Pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell::net::AlreadyRegistered;

    #[test]
    fn each_refusal_has_its_answer() {
        let of = |number| AfterRefusal::of(&io::Error::from_raw_os_error(number));
        for number in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM] {
            assert_eq!(of(number), AfterRefusal::MakeRoom, "{number}");
        }
        let of_one = [
            libc::ECONNABORTED,
            libc::ECONNRESET,
            libc::EHOSTDOWN,
            libc::EHOSTUNREACH,
            libc::EINTR,
            libc::ENETDOWN,
            libc::ENETUNREACH,
            libc::ENONET,
            libc::ENOPROTOOPT,
            libc::EOPNOTSUPP,
            libc::EPERM,
            libc::EPROTO,
            libc::ETIMEDOUT,
        ];
        for number in of_one {
            assert_eq!(of(number), AfterRefusal::Next, "{number}");
        }
        assert_eq!(of(libc::EIO), AfterRefusal::Pause, "unknown");
        assert_eq!(of(libc::EINVAL), AfterRefusal::End, "shut down");
        let anothers = io::Error::new(io::ErrorKind::AlreadyExists, AlreadyRegistered);
        assert_eq!(AfterRefusal::of(&anothers), AfterRefusal::End);
        let ends = [
            io::Error::other(NoRuntime),
            io::Error::other(net::RuntimeEnded),
        ];
        for error in ends {
            assert_eq!(AfterRefusal::of(&error), AfterRefusal::RuntimeEnded);
        }
    }
}
