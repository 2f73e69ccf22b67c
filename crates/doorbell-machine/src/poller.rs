//! Descriptors: which of them are ready, and how a thread waits for them and for its bell at once.

use crate::Machine;
use std::fmt::Debug;
use std::io;

/// What a descriptor is ready for.
///
/// | bit | name | Linux says |
/// |---|---|---|
/// | 0 | [`READABLE`](Readiness::READABLE) | `EPOLLIN` |
/// | 1 | [`WRITABLE`](Readiness::WRITABLE) | `EPOLLOUT` |
/// | 2 | [`READ_CLOSED`](Readiness::READ_CLOSED) | `EPOLLRDHUP`, `EPOLLHUP` |
/// | 3 | [`WRITE_CLOSED`](Readiness::WRITE_CLOSED) | `EPOLLHUP` |
/// | 4 | [`ERROR`](Readiness::ERROR) | `EPOLLERR` |
/// | 5 | [`PRIORITY`](Readiness::PRIORITY) | `EPOLLPRI` |
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Readiness(u8);

// The table above: six bits from the lowest up, none shared.
const _: () = assert!(
    Readiness::READABLE.0
        + Readiness::WRITABLE.0
        + Readiness::READ_CLOSED.0
        + Readiness::WRITE_CLOSED.0
        + Readiness::ERROR.0
        + Readiness::PRIORITY.0
        == Readiness::ALL.0
);

impl Readiness {
    /// Nothing.
    pub const EMPTY: Readiness = Readiness(0);
    /// There is something to read or to accept.
    pub const READABLE: Readiness = Readiness(1 << 0);
    /// There is room to write, or a connection is established.
    pub const WRITABLE: Readiness = Readiness(1 << 1);
    /// Nothing will arrive beyond what can be read now.
    pub const READ_CLOSED: Readiness = Readiness(1 << 2);
    /// Nothing that is written will arrive.
    pub const WRITE_CLOSED: Readiness = Readiness(1 << 3);
    /// An error is pending, and the next call returns it.
    pub const ERROR: Readiness = Readiness(1 << 4);
    /// There is urgent data to read.
    pub const PRIORITY: Readiness = Readiness(1 << 5);
    /// All six.
    pub const ALL: Readiness = Readiness(0b11_1111);

    /// The union of two sets.
    #[must_use]
    pub const fn and(self, other: Readiness) -> Readiness {
        Readiness(self.0 | other.0)
    }

    /// The intersection of two sets.
    #[must_use]
    pub const fn within(self, other: Readiness) -> Readiness {
        Readiness(self.0 & other.0)
    }

    /// This set without the other.
    #[must_use]
    pub const fn without(self, other: Readiness) -> Readiness {
        Readiness(self.0 & !other.0)
    }

    /// Whether this set contains all of the other.
    #[must_use]
    pub const fn has(self, other: Readiness) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set as the bits of the table.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set with these bits of the table; other bits are ignored.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Readiness {
        Readiness(bits & Self::ALL.0)
    }
}

impl Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [(Readiness, &str); 6] = [
            (Readiness::READABLE, "READABLE"),
            (Readiness::WRITABLE, "WRITABLE"),
            (Readiness::READ_CLOSED, "READ_CLOSED"),
            (Readiness::WRITE_CLOSED, "WRITE_CLOSED"),
            (Readiness::ERROR, "ERROR"),
            (Readiness::PRIORITY, "PRIORITY"),
        ];
        let names = NAMES.iter().filter(|(bit, _)| self.has(*bit));
        f.debug_set().entries(names.map(|(_, name)| name)).finish()
    }
}

/// The buffer of a thread that polls, for what one poll finds.
pub struct PollEvents {
    found: Box<[(u64, Readiness); PollEvents::CAPACITY]>,
    len: usize,
}

impl PollEvents {
    /// The most events that one poll takes.
    pub const CAPACITY: usize = 256;

    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        PollEvents {
            found: Box::new([(0, Readiness::EMPTY); Self::CAPACITY]),
            len: 0,
        }
    }

    /// The events found: the token that the descriptor was added with, and what it is ready for.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Readiness)> + '_ {
        self.found[..self.len].iter().copied()
    }

    /// Whether no event was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many events were found.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer is full, so that another poll may find more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len == Self::CAPACITY
    }

    /// Empties the buffer, as a poll does first.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds an event; a full buffer drops it.
    pub fn push(&mut self, token: u64, readiness: Readiness) {
        if let Some(place) = self.found.get_mut(self.len) {
            *place = (token, readiness);
            self.len += 1;
        }
    }
}

impl Default for PollEvents {
    fn default() -> Self {
        PollEvents::new()
    }
}

impl Debug for PollEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Why [`Poller::wait`] returned. The buffer may hold events in any case but [`WaitEnd::Changed`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The last test found the word changed: the thread did not block, and nothing was polled.
    Changed,
    /// Another thread rang, now or since the last wait.
    Rung,
    /// No thread rang, and there are events.
    Ready,
    /// The deadline passed.
    Deadline,
    /// The OS returned for another reason, another thread took the events, or the poller is closed.
    Spurious,
}

/// Why a poller was not opened.
#[derive(Debug, thiserror::Error)]
pub enum PollerError {
    /// The OS refused the set of descriptors.
    #[error("the OS gave no epoll instance: {source}; raise the limit on open files (ulimit -n)")]
    Set {
        /// What the OS said.
        source: io::Error,
    },
    /// The OS refused the descriptor by which the poller is rung.
    #[error("the OS gave no eventfd: {source}; raise the limit on open files (ulimit -n)")]
    Bell {
        /// What the OS said.
        source: io::Error,
    },
    /// The OS did not add that descriptor to the set.
    #[error(
        "the OS did not add the eventfd to the epoll instance: {source}; raise \
         fs.epoll.max_user_watches"
    )]
    Join {
        /// What the OS said.
        source: io::Error,
    },
}

/// The error of the OS, with its number.
impl From<PollerError> for io::Error {
    fn from(error: PollerError) -> io::Error {
        match error {
            PollerError::Set { source }
            | PollerError::Bell { source }
            | PollerError::Join { source } => source,
        }
    }
}

/// A set of descriptors that reports by edges which of them became ready. One thread at a time waits in it, its owner of
/// that moment; who calls guarantees that.
/// Any thread may poll, add, remove and ring.
///
/// An edge is delivered once, to the first thread that polls. A poller may report a descriptor that is not
/// ready, and report it repeatedly.
pub trait Poller<M: Machine>: Debug + Send + Sync + Sized {
    /// The name of a descriptor. Code that has a name guarantees that the descriptor stays open.
    type Fd: Copy + Debug + Send + Sync + 'static;

    /// The token that no descriptor may be added with.
    const TOKEN_RESERVED: u64 = u64::MAX;

    /// The name of a descriptor of the OS; `None` on a machine without an OS.
    fn name_of(_fd: std::os::fd::BorrowedFd<'static>) -> Option<Self::Fd> {
        None
    }
    /// An empty set.
    ///
    /// # Errors
    /// [`PollerError`] says which of the steps the OS refused.
    fn open() -> Result<Self, PollerError>;
    /// Adds a descriptor with the token that its events carry. If it is ready already, that is an edge.
    ///
    /// # Errors
    /// The OS's error: the descriptor is in the set already, cannot be waited for, or there are too many.
    fn add(&self, fd: Self::Fd, token: u64) -> io::Result<()>;
    /// Takes a descriptor out. A poll that begins after this does not find it.
    ///
    /// # Errors
    /// The OS's error: the descriptor is not in the set.
    fn remove(&self, fd: Self::Fd) -> io::Result<()>;
    /// Mutes a descriptor that was added with this token, so that it makes no edges, or unmutes it. If it is
    /// ready when it is unmuted, that is an edge. A muted descriptor may still report that it was closed.
    ///
    /// # Errors
    /// The OS's error: the descriptor is not in the set.
    fn set_muted(&self, fd: Self::Fd, token: u64, is_muted: bool) -> io::Result<()>;
    /// Fills the buffer with what is ready, without blocking. Any thread may call this, even while the owner
    /// waits.
    fn poll(&self, events: &mut PollEvents);
    /// Fills the buffer with what is ready. Blocks while there is nothing, if `*word == seen` at the last
    /// test, and at most until `until_ns` of [`Machine::now_ns`]. Only the owner calls this.
    ///
    /// As for a parker: *a word changed before the ring ⇒ no wait past that ring*. A ring while the owner
    /// does not wait ends its next wait.
    fn wait(
        &self,
        word: &M::U32,
        seen: u32,
        until_ns: Option<u64>,
        events: &mut PollEvents,
    ) -> WaitEnd;
    /// Ends the owner's wait, or its next one. One syscall on the host.
    fn ring(&self);
    /// Called when the owner has ended and will not wait again. Closes the OS's descriptors as soon as no
    /// other thread is inside a call. After that a poll finds nothing, a ring and a removal do nothing, and
    /// adding is an error. A machine whose pollers need no closing does nothing.
    fn close(&self) {}
}

#[cfg(test)]
mod tests {
    use super::{PollEvents, Readiness};

    #[test]
    fn a_set_says_what_is_in_it() {
        let both = Readiness::READABLE.and(Readiness::ERROR);
        assert!(both.has(Readiness::ERROR) && !both.has(Readiness::ALL));
        assert_eq!(both.without(Readiness::ERROR), Readiness::READABLE);
        assert!(both.within(Readiness::WRITABLE).is_empty());
        assert_eq!(Readiness::from_bits(u8::MAX), Readiness::ALL);
        assert_eq!(Readiness::from_bits(both.bits()), both);
        assert_eq!(format!("{both:?}"), r#"{"READABLE", "ERROR"}"#);
    }

    #[test]
    fn a_buffer_takes_what_fits() {
        let mut events = PollEvents::new();
        for token in 0..=PollEvents::CAPACITY as u64 {
            assert_eq!(events.is_full(), token == PollEvents::CAPACITY as u64);
            events.push(token, Readiness::READABLE);
        }
        assert_eq!(events.len(), PollEvents::CAPACITY);
        let last = PollEvents::CAPACITY as u64 - 1;
        assert_eq!(events.iter().last(), Some((last, Readiness::READABLE)));
        events.clear();
        assert!(events.is_empty() && events.iter().next().is_none());
    }
}
