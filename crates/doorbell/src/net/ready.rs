//! [`Ready`], and the methods that wait for an [`Interest`].

use doorbell_core::io::Interest;
use doorbell_machine::Readiness;
use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

/// What a descriptor may be ready for: a set of the constants. It may be empty: another task may have taken what
/// was there since the event.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Ready(Readiness);

impl Ready {
    /// Nothing.
    pub const EMPTY: Ready = Ready(Readiness::EMPTY);
    /// There is something to read or to accept.
    pub const READABLE: Ready = Ready(Readiness::READABLE);
    /// There is room to write, or a connection is established.
    pub const WRITABLE: Ready = Ready(Readiness::WRITABLE);
    /// Nothing will arrive beyond what can be read now.
    pub const READ_CLOSED: Ready = Ready(Readiness::READ_CLOSED);
    /// Nothing that is written will arrive.
    pub const WRITE_CLOSED: Ready = Ready(Readiness::WRITE_CLOSED);
    /// There is urgent data to read.
    pub const PRIORITY: Ready = Ready(Readiness::PRIORITY);
    /// An error is pending. Both reading and writing would report it.
    pub const ERROR: Ready = Ready(Readiness::ERROR);
    /// All of them.
    pub const ALL: Ready = Ready(Readiness::ALL);

    /// What of `readiness` concerns the interest.
    pub(super) fn of(readiness: Readiness, interest: Interest) -> Ready {
        Ready(readiness.within(interest.wanted()))
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Whether a read would not wait: there is something, or the end.
    pub const fn is_readable(self) -> bool {
        self.0.has(Readiness::READABLE) || self.is_read_closed()
    }

    /// Whether a write would not wait: there is room, or the connection is closed.
    pub const fn is_writable(self) -> bool {
        self.0.has(Readiness::WRITABLE) || self.is_write_closed()
    }

    /// Whether nothing will arrive beyond what can be read now.
    pub const fn is_read_closed(self) -> bool {
        self.0.has(Readiness::READ_CLOSED)
    }

    /// Whether nothing that is written will arrive.
    pub const fn is_write_closed(self) -> bool {
        self.0.has(Readiness::WRITE_CLOSED)
    }

    /// Whether there is urgent data to read.
    pub const fn is_priority(self) -> bool {
        self.0.has(Readiness::PRIORITY)
    }

    /// Whether an error is pending.
    pub const fn is_error(self) -> bool {
        self.0.has(Readiness::ERROR)
    }
}

impl BitOr for Ready {
    type Output = Ready;

    fn bitor(self, other: Ready) -> Ready {
        Ready(self.0.and(other.0))
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Ready) {
        *self = *self | other;
    }
}

impl BitAnd for Ready {
    type Output = Ready;

    fn bitand(self, other: Ready) -> Ready {
        Ready(self.0.within(other.0))
    }
}

impl Sub for Ready {
    type Output = Ready;

    fn sub(self, other: Ready) -> Ready {
        Ready(self.0.without(other.0))
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The methods that wait for an interest, for a socket with a field `io`.
macro_rules! interest_methods {
    () => {
        /// Waits until the socket is ready for some of `interest`. Returns for what; that may be nothing any
        /// more, if another task was quicker. It counts as ready until an operation would wait.
        ///
        /// # Errors
        /// The thread has no runtime, or the OS refuses to wait for the socket.
        pub async fn ready(&self, interest: crate::net::Interest) -> io::Result<crate::net::Ready> {
            self.io.ready(interest).await
        }

        /// Calls `f` once, which makes a syscall on this socket. If it returns [`io::ErrorKind::WouldBlock`],
        /// the next wait for `interest` waits for a new event.
        ///
        /// # Errors
        /// The errors of `f`.
        pub fn try_io<R>(
            &self,
            interest: crate::net::Interest,
            f: impl FnOnce() -> io::Result<R>,
        ) -> io::Result<R> {
            self.io.try_io(interest, |_| f())
        }

        /// Calls `f`, which makes a syscall on this socket, at once, and then each time when the socket is ready
        /// for some of `interest`, until `f` returns something else than [`io::ErrorKind::WouldBlock`].
        ///
        /// # Errors
        /// The errors of `f`. An error if it has to wait and the thread has no runtime.
        pub async fn async_io<R>(
            &self,
            interest: crate::net::Interest,
            mut f: impl FnMut() -> io::Result<R>,
        ) -> io::Result<R> {
            self.io.io(interest, |_| f()).await
        }
    };
}

pub(super) use interest_methods;
