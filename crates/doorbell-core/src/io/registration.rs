//! What a task has of a descriptor.

use super::Station;
use super::driver::{Driver, Refused};
use super::place::Place;
use super::source::{Direction, Source};
use doorbell_machine::{Machine, Parker, Poller, PollerError};
use std::io;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// How a machine names a descriptor. Whoever has such a name answers for it that the descriptor
/// stays open as long as it is registered.
pub type Fd<M> = <<M as Machine>::Poller as Poller<M>>::Fd;

/// A descriptor that was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The worker had no poller yet, and got none.
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
    /// The worker has ended.
    #[error("the runtime has ended, or is about to")]
    WorkerGone,
}

impl RegisterError {
    /// What the OS said, in one word.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            RegisterError::Poller(error) => error.kind(),
            RegisterError::Refused { source } => source.kind(),
            RegisterError::WorkerGone => io::ErrorKind::Other,
        }
    }
}

/// A descriptor that is registered with the driver of a worker until this is dropped, on any thread.
/// It is dropped before the descriptor is closed.
pub struct Registration<M: Machine, S: Station<M>> {
    station: S,
    source: NonNull<Source<M>>,
    fd: Fd<M>,
    /// By [`Registration::mute`].
    is_muted: bool,
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
    /// Registers a descriptor with the worker of that station. A socket is connected, or about to be,
    /// first: one that is neither counts as closed.
    ///
    /// # Errors
    /// [`RegisterError`] says what keeps it from being waited for.
    pub fn new(station: S, fd: Fd<M>) -> Result<Self, RegisterError> {
        let poller = station.parker().open_poller()?;
        let source = Driver::register(&station, poller, fd).map_err(|refused| match refused {
            Refused::Shut => {
                // It may have been opened behind the worker's last step.
                poller.close();
                RegisterError::WorkerGone
            }
            Refused::Os(source) => RegisterError::Refused { source },
        })?;
        Ok(Registration {
            station,
            source,
            fd,
            is_muted: false,
        })
    }

    /// Has the descriptor make no more events here, or make them again. If it is ready then, that is an event. While it
    /// makes none the worker does not park in its poller for it. Not for one that
    /// [`Registration::mute_if_in_vain`] is called for.
    ///
    /// # Errors
    /// What the OS says; it is then as it was.
    pub fn mute(&mut self, is_muted: bool) -> io::Result<()> {
        if self.is_muted == is_muted {
            return Ok(());
        }
        let driver = self.station.driver();
        if is_muted {
            self.set_muted(true)?;
            driver.note_deregistered();
        } else {
            // In this order, as for a new one.
            let before = driver.note_registered();
            if let Err(error) = self.set_muted(false) {
                driver.note_deregistered();
                return Err(error);
            }
            Driver::tell_worker(&self.station, before);
        }
        self.is_muted = is_muted;
        Ok(())
    }

    /// The worker that it is registered with.
    pub fn station(&self) -> &S {
        &self.station
    }
}

/// Waiting, where other registrations of the same descriptor may be the ones that are used.
impl<M: Machine, S: Station<M>> Registration<M, S> {
    /// As [`Source::poll_io`]; has a muted descriptor make events again if it is to wait.
    ///
    /// # Errors
    /// As there, and what the OS says to that.
    pub fn poll_io<R>(
        &self,
        cx: &Context<'_>,
        direction: Direction,
        f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.heard((**self).poll_io(cx, direction, f))
    }

    /// As [`Source::poll_io_in`]; has a muted descriptor make events again if it is to wait.
    ///
    /// # Errors
    /// As there, and what the OS says to that.
    pub fn poll_io_in<'a, R>(
        &'a self,
        cx: &Context<'_>,
        direction: Direction,
        place: &mut Place<'a>,
        f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.heard((**self).poll_io_in(cx, direction, place, f))
    }

    /// Who waits is to hear of events.
    fn heard<R>(&self, polled: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if polled.is_pending()
            && let Err(error) = self.unmute()
        {
            return Poll::Ready(Err(error));
        }
        polled
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
        let poller = self.station.parker().poller();
        let poller = poller.expect("it was opened before the registration was made");
        let token = self.source.as_ptr().expose_provenance() as u64;
        poller.set_muted(self.fd, token, is_muted)
    }

    /// Another registration of the descriptor is waited for. If nobody waits for this one, and nobody has
    /// acted upon its last events, its worker is woken for nothing: it hears no more of them, until
    /// somebody waits again by [`Registration::poll_io`] or [`Registration::poll_io_in`]; other ways to
    /// wait do not turn them on.
    pub fn mute_if_in_vain(&self) {
        // In this order: who turns them on comes behind what says that they are off.
        if self.is_in_vain() && self.set_muted(true).is_ok() && self.has_muted() {
            // Somebody has begun to wait meanwhile. An error was told to it.
            let _ = self.unmute();
        }
    }
}

impl<M: Machine, S: Station<M>> std::ops::Deref for Registration<M, S> {
    type Target = Source<M>;

    fn deref(&self) -> &Source<M> {
        // SAFETY: freed by the worker after this was dropped only.
        unsafe { self.source.as_ref() }
    }
}

impl<M: Machine, S: Station<M>> Drop for Registration<M, S> {
    fn drop(&mut self) {
        if self.is_muted {
            // To deregister it takes it out of the count once more.
            self.station.driver().note_registered();
        }
        Driver::deregister(&self.station, self.source, self.fd);
    }
}
