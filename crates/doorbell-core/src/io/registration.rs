//! The registration: what a task holds of a descriptor.

use super::Station;
use super::driver::{Driver, Refused};
use super::interest::Interest;
use super::place::Place;
use super::source::{Source, gone};
use super::word::Event;
use doorbell_machine::{Machine, Poller, PollerError};
use std::io;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// A machine's name of a descriptor. The holder of a name guarantees that the descriptor stays open as long
/// as it is registered.
pub type Fd<M> = <<M as Machine>::Poller as Poller<M>>::Fd;

/// Why a descriptor was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// There was no poller yet, and the OS gave none.
    #[error(transparent)]
    Poller(#[from] PollerError),
    /// The OS cannot wait for the descriptor.
    #[error(
        "the OS does not wait for this descriptor: {source}; it is no socket, pipe or the like, it \
         is registered already, or there are too many (fs.epoll.max_user_watches)"
    )]
    Refused {
        /// The error of the OS.
        source: io::Error,
    },
    /// The workers have ended.
    #[error("the runtime has ended, or is about to")]
    WorkerGone,
}

/// The error of the OS, with its number, if there is one; or [`gone`].
impl From<RegisterError> for io::Error {
    fn from(error: RegisterError) -> io::Error {
        match error {
            RegisterError::Poller(error) => error.into(),
            RegisterError::Refused { source } => source,
            RegisterError::WorkerGone => gone(),
        }
    }
}

/// A descriptor is registered with the driver of a scheduler until this is dropped, which any thread may do.
/// Drop it before the descriptor is closed.
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
    /// Registers a descriptor with the scheduler of that station. A socket must be connected or connecting before:
    /// otherwise it counts as closed.
    ///
    /// # Errors
    /// [`RegisterError`] says why it was not registered.
    pub fn new(station: S, fd: Fd<M>) -> Result<Self, RegisterError> {
        let poller = station.driver().open_poller()?;
        let source = Driver::register(&station, poller, fd).map_err(|refused| match refused {
            Refused::Shut => {
                // The poller may have been opened after the workers' last step, which closes it.
                station.driver().close_poller();
                RegisterError::WorkerGone
            }
            Refused::Os(source) => RegisterError::Refused { source },
        })?;
        Ok(Registration {
            station,
            source,
            fd,
        })
    }

    /// The scheduler that it is registered with.
    pub fn station(&self) -> &S {
        &self.station
    }
}

/// Waiting, while tasks may use other registrations of the same descriptor.
impl<M: Machine, S: Station<M>> Registration<M, S> {
    /// As [`Source::poll_io`]; if it has to wait, turns on the events of a muted descriptor.
    ///
    /// # Errors
    /// As there, and the error of the OS if the events cannot be turned on.
    pub fn poll_io<R>(
        &self,
        cx: &Context<'_>,
        interest: impl Into<Interest>,
        f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.heard((**self).poll_io(cx, interest, f))
    }

    /// As [`Source::poll_io_in`]; if it has to wait, turns on the events of a muted descriptor.
    ///
    /// # Errors
    /// As there, and the error of the OS if the events cannot be turned on.
    pub fn poll_io_in<'a, R>(
        &'a self,
        cx: &Context<'_>,
        interest: impl Into<Interest>,
        place: &mut Place<'a>,
        f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.heard((**self).poll_io_in(cx, interest, place, f))
    }

    /// As [`Source::poll_ready_in`]; if it has to wait, turns on the events of a muted descriptor.
    ///
    /// # Errors
    /// [`gone`] if the workers have ended; the error of the OS if the events cannot be turned on.
    pub fn poll_ready_in<'a>(
        &'a self,
        cx: &Context<'_>,
        interest: impl Into<Interest>,
        place: &mut Place<'a>,
    ) -> Poll<io::Result<Event>> {
        let polled = (**self).poll_ready_in(cx, interest, place);
        self.heard(polled.map(|event| self.used(event)))
    }

    /// Turns events on for a task that waits.
    fn heard<R>(&self, polled: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if polled.is_pending()
            && let Err(error) = self.unmute()
        {
            return Poll::Ready(Err(error));
        }
        polled
    }

    /// A task acts upon this event.
    fn used(&self, event: Event) -> io::Result<Event> {
        if event.is_shut() {
            return Err(gone());
        }
        self.note_used(event);
        Ok(event)
    }

    fn unmute(&self) -> io::Result<()> {
        if !self.take_muted() {
            return Ok(());
        }
        let turned_on = self.set_muted(false);
        if turned_on.is_err() {
            self.stays_muted();
        }
        turned_on
    }

    fn set_muted(&self, is_muted: bool) -> io::Result<()> {
        let poller = self.station.driver().poller();
        let poller = poller.expect("it was opened before the registration was made");
        let token = self.source.as_ptr().expose_provenance() as u64;
        poller.set_muted(self.fd, token, is_muted)
    }

    /// Call this while a task waits on another registration of the same descriptor. If no task waits on this
    /// one, or has acted upon its last events, they wake a worker for nothing: they are turned off, until a
    /// task waits again by [`Registration::poll_io`] or [`Registration::poll_io_in`]. Other ways to wait do
    /// not turn them on.
    pub fn mute_if_in_vain(&self) {
        // In this order, so that a thread that turns them on comes after the note that they are off.
        if self.is_in_vain() && self.set_muted(true).is_ok() && self.has_muted() {
            // A task has begun to wait meanwhile. On an error it was woken, and its poll returns the error.
            let _ = self.unmute();
        }
    }
}

impl<M: Machine, S: Station<M>> std::ops::Deref for Registration<M, S> {
    type Target = Source<M>;

    fn deref(&self) -> &Source<M> {
        // SAFETY: a sweeper frees it only after this was dropped.
        unsafe { self.source.as_ref() }
    }
}

impl<M: Machine, S: Station<M>> Drop for Registration<M, S> {
    fn drop(&mut self) {
        Driver::deregister(&self.station, self.source, self.fd);
    }
}
