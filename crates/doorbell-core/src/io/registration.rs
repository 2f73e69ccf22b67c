//! What a task has of a descriptor.

use super::Station;
use super::driver::{Driver, Refused};
use super::source::Source;
use doorbell_machine::{Machine, Poller, PollerError, Seat};
use std::io;
use std::ptr::NonNull;

/// How a machine names a descriptor. Whoever has such a name answers for it that the descriptor
/// stays open as long as it is registered.
pub type Fd<M> = <<M as Machine>::Poller as Poller<M>>::Fd;

/// A descriptor that was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The lane had no poller yet, and got none.
    #[error(transparent)]
    Poller(#[from] PollerError),
    /// The OS does not wait for it.
    #[error(
        "the OS does not wait for this descriptor: {source}; it is no socket, pipe or the like, it \
         is registered already, or there are too many (fs.epoll.max_user_watches)"
    )]
    Refused {
        /// What the OS said.
        source: io::Error,
    },
    /// The lane has ended.
    #[error("the runtime has ended, or is about to")]
    LaneGone,
}

impl RegisterError {
    /// What the OS said, in one word.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            RegisterError::Poller(error) => error.kind(),
            RegisterError::Refused { source } => source.kind(),
            RegisterError::LaneGone => io::ErrorKind::Other,
        }
    }
}

/// A descriptor that is registered with the driver of a lane until this is dropped, on any thread.
/// It is dropped before the descriptor is closed.
pub struct Registration<M: Machine, S: Station<M>> {
    station: S,
    source: NonNull<Source<M>>,
    fd: Fd<M>,
}

// SAFETY: the source is Sync, and lives as long as this.
unsafe impl<M: Machine, S: Station<M> + Send> Send for Registration<M, S> {}
// SAFETY: as above.
unsafe impl<M: Machine, S: Station<M> + Sync> Sync for Registration<M, S> {}

impl<M: Machine, S: Station<M>> std::fmt::Debug for Registration<M, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration")
            .field("fd", &self.fd)
            .finish_non_exhaustive()
    }
}

impl<M: Machine, S: Station<M>> Registration<M, S> {
    /// Registers a descriptor with the lane of that station. A socket is connected, or about to be,
    /// first: one that is neither counts as closed.
    ///
    /// # Errors
    /// [`RegisterError`] says what keeps it from being waited for.
    pub fn new(station: S, fd: Fd<M>) -> Result<Self, RegisterError> {
        let poller = station.seat().open_poller()?;
        let source = Driver::register(&station, poller, fd).map_err(|refused| match refused {
            Refused::Shut => RegisterError::LaneGone,
            Refused::Os(source) => RegisterError::Refused { source },
        })?;
        Ok(Registration {
            station,
            source,
            fd,
        })
    }

    /// The lane that it is registered with.
    pub fn station(&self) -> &S {
        &self.station
    }
}

impl<M: Machine, S: Station<M>> std::ops::Deref for Registration<M, S> {
    type Target = Source<M>;

    fn deref(&self) -> &Source<M> {
        // SAFETY: freed by the lane after this was dropped only.
        unsafe { self.source.as_ref() }
    }
}

impl<M: Machine, S: Station<M>> Drop for Registration<M, S> {
    fn drop(&mut self) {
        Driver::deregister(&self.station, self.source, self.fd);
    }
}
