//! [`ServeError`] and [`Served`].

use doorbell::{JoinError, NoRuntime, SpawnError};
use std::io;

/// Why a server has ended that nobody told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It was awaited outside of a runtime.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    /// The runtime has ended meanwhile.
    #[error("the runtime has ended, and its server with it")]
    RuntimeEnded,
    /// The OS refused what a server with [`classes`](crate::Server::classes) needs: the workers of class Rt, or
    /// the descriptors by which they look after those of class Fair.
    #[error(transparent)]
    Class(#[from] SpawnError),
    /// The listener is of no use: what the OS said.
    #[error("the listener takes no connections: {0}; bind another one")]
    Listener(#[source] io::Error),
}

impl ServeError {
    /// Of a task that has ended without a result. A panic goes on here.
    pub(super) fn of_join(error: JoinError) -> ServeError {
        match error.try_into_panic() {
            Ok(payload) => std::panic::resume_unwind(payload),
            Err(_) => ServeError::RuntimeEnded,
        }
    }
}

/// What a server has done until it was told to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Served {
    /// Connections that were accepted.
    pub accepted: u64,
    /// How often the OS refused to give one, as for too many descriptors.
    pub refused: u64,
    /// Connections that were open at the signal and ended by themselves.
    pub drained: u64,
    /// Connections that were still open at the end of the drain timeout, and were dropped.
    pub cut: u64,
}

/// What to do after `accept` has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterRefusal {
    /// That connection is lost, and the next one may be there.
    Next,
    /// Something has run out, which takes a while to come back.
    Pause,
    /// The worker that looked for the listener has ended.
    RuntimeEnded,
    /// It is no listener any more.
    End,
}

impl AfterRefusal {
    pub(super) fn of(error: &io::Error) -> AfterRefusal {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::ConnectionAborted
            | Kind::ConnectionReset
            | Kind::HostUnreachable
            | Kind::Interrupted
            | Kind::NetworkDown
            | Kind::NetworkUnreachable
            | Kind::NotConnected
            | Kind::TimedOut => AfterRefusal::Next,
            // What the OS says has a number.
            Kind::Other if error.raw_os_error().is_none() => AfterRefusal::RuntimeEnded,
            Kind::InvalidInput => AfterRefusal::End,
            // EMFILE, ENFILE, ENOBUFS, ENOMEM, and what nobody knows.
            _ => AfterRefusal::Pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_answer() {
        let of = |number| AfterRefusal::of(&io::Error::from_raw_os_error(number));
        // EMFILE, ENFILE, ENOBUFS, ENOMEM.
        for number in [24, 23, 105, 12] {
            assert_eq!(of(number), AfterRefusal::Pause, "{number}");
        }
        // ECONNABORTED, ECONNRESET, EINTR, ENETDOWN, EHOSTUNREACH.
        for number in [103, 104, 4, 100, 113] {
            assert_eq!(of(number), AfterRefusal::Next, "{number}");
        }
        // EINVAL: shut down.
        assert_eq!(of(22), AfterRefusal::End);
        assert_eq!(
            AfterRefusal::of(&io::Error::other(NoRuntime)),
            AfterRefusal::RuntimeEnded
        );
    }
}
