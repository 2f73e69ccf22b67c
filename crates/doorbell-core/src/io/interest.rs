//! What a task waits for at a descriptor.

use doorbell_machine::Readiness;
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To read, or to accept.
    Read = 0,
    /// To write, or to connect.
    Write = 1,
}

/// What a task waits for: one of the constants, or several of them by `|`. A [`Direction`] is an interest too.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interest(Readiness);

impl Interest {
    /// There is something to read or to accept, or nothing more will come.
    pub const READABLE: Interest = Interest(Readiness::READABLE);
    /// There is room to write, or nothing that is written will arrive.
    pub const WRITABLE: Interest = Interest(Readiness::WRITABLE);
    /// There is urgent data to read, or nothing more will come.
    pub const PRIORITY: Interest = Interest(Readiness::PRIORITY);
    /// An error is pending.
    pub const ERROR: Interest = Interest(Readiness::ERROR);

    /// Both: as `|`, for constants.
    #[must_use]
    #[allow(
        clippy::should_implement_trait,
        reason = "named as tokio names it; `|` is there too"
    )]
    pub const fn add(self, other: Interest) -> Interest {
        Interest(self.0.and(other.0))
    }

    /// This without the other; `None` if nothing is left.
    pub const fn remove(self, other: Interest) -> Option<Interest> {
        let left = self.0.without(other.0);
        if left.is_empty() {
            return None;
        }
        Some(Interest(left))
    }

    /// Whether it includes [`Interest::READABLE`].
    pub const fn is_readable(self) -> bool {
        self.0.has(Readiness::READABLE)
    }

    /// Whether it includes [`Interest::WRITABLE`].
    pub const fn is_writable(self) -> bool {
        self.0.has(Readiness::WRITABLE)
    }

    /// Whether it includes [`Interest::PRIORITY`].
    pub const fn is_priority(self) -> bool {
        self.0.has(Readiness::PRIORITY)
    }

    /// Whether it includes [`Interest::ERROR`].
    pub const fn is_error(self) -> bool {
        self.0.has(Readiness::ERROR)
    }

    /// The readiness that ends a wait for it: also the closing after which it never comes.
    pub const fn wanted(self) -> Readiness {
        let reads = Readiness::READABLE.and(Readiness::PRIORITY);
        let mut wanted = self.0;
        if !self.0.within(reads).is_empty() {
            wanted = wanted.and(Readiness::READ_CLOSED);
        }
        if self.is_writable() {
            wanted = wanted.and(Readiness::WRITE_CLOSED);
        }
        wanted
    }

    /// Whether a syscall for it that would have to wait shows which direction is open: one that only reads, or only
    /// writes.
    pub(super) fn is_one_way(self) -> bool {
        let ways = self.0.without(Readiness::ERROR);
        ways == Readiness::READABLE || ways == Readiness::WRITABLE
    }

    /// Whose slot a task waits in that asks by `poll_…`: the writers' only if it wants nothing else.
    pub(super) fn slot(self) -> Direction {
        if self == Interest::WRITABLE {
            Direction::Write
        } else {
            Direction::Read
        }
    }
}

impl From<Direction> for Interest {
    fn from(direction: Direction) -> Interest {
        match direction {
            Direction::Read => Interest::READABLE,
            Direction::Write => Interest::WRITABLE,
        }
    }
}

impl BitOr for Interest {
    type Output = Interest;

    fn bitor(self, other: Interest) -> Interest {
        self.add(other)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Interest) {
        *self = self.add(other);
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
