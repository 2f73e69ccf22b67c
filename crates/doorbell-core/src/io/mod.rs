//! Descriptors: which tasks are woken when one is ready, and when its memory may be freed. See README.md.
//!
//! A task holds a [`Registration`] of a descriptor. Behind it is a [`Source`]: the descriptor's word and
//! waiters. Each worker has a [`Driver`], which brings the events of the worker's poller to the sources. Any
//! thread may ask it to.

mod cell;
mod driver;
mod interest;
mod links;
#[cfg(test)]
mod loom;
mod place;
mod registration;
mod source;
#[cfg(test)]
mod tests;
mod waiters;
mod word;

pub use driver::{Driver, ParkChoice, Swept};
pub use interest::{Direction, Interest};
pub use place::Place;
pub use registration::{Fd, RegisterError, Registration};
pub use source::{RuntimeEnded, Source, WhenReady, gone};
pub use word::{Cleared, Event};

use crate::bell::{Bell, Kick, Notified};
use crate::class::Standing;
use doorbell_machine::Machine;

/// The part of a worker that its descriptors need.
///
/// # Safety
/// Bell, parker and driver are the same for the life of the value and of all its clones. The driver lives as
/// long as any of these, no other station has it, and only this driver adds to the poller of the
/// parker.
pub unsafe trait Station<M: Machine> {
    /// The worker's bell.
    fn bell(&self) -> &Bell<M>;
    /// The parker that the worker parks in.
    fn parker(&self) -> &M::Parker;
    /// The worker's driver.
    fn driver(&self) -> &Driver<M>;
    /// Notifies the worker, and rings it if needed.
    fn notify(&self) {
        match self.bell().notify(Kick::Take, Standing::Level) {
            Notified::MustRing | Notified::MustHelp => self.bell().ring(self.parker()),
            Notified::Running | Notified::Spinning | Notified::Already => {}
        }
    }
    /// The worker got its first descriptor, and seems to run. It may be stuck, and no watchdog had a reason to
    /// look at it before.
    fn note_first(&self) {}
}

// SAFETY: as for the station that the `Arc` points to, and keeps alive.
unsafe impl<M: Machine, S: Station<M>> Station<M> for std::sync::Arc<S> {
    fn bell(&self) -> &Bell<M> {
        S::bell(self)
    }
    fn parker(&self) -> &M::Parker {
        S::parker(self)
    }
    fn driver(&self) -> &Driver<M> {
        S::driver(self)
    }
    fn notify(&self) {
        S::notify(self);
    }
    fn note_first(&self) {
        S::note_first(self);
    }
}
