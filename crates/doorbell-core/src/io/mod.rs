//! Descriptors: who is told when one is ready, and when what is known of it may be freed. See README.md.
//!
//! A [`Registration`] is what a task has of a descriptor; [`Source`], behind it, its word and its
//! waiters; a [`Driver`], one for each worker, brings the events of the worker's poller to them, and may
//! be asked to by any thread.

mod cell;
mod driver;
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
pub use place::Place;
pub use registration::{Fd, RegisterError, Registration};
pub use source::{Direction, Source, WhenReady, gone};
pub use word::{Cleared, Event};

use crate::bell::{Bell, Kick, Notified};
use crate::class::Standing;
use doorbell_machine::Machine;

/// A worker, as far as its descriptors are concerned.
///
/// # Safety
/// All three are the same for the life of the value and of all its clones, the driver lives as long
/// as any of these, no other station has it, and nobody but this driver adds to the poller of the
/// parker.
pub unsafe trait Station<M: Machine> {
    /// The worker's bell.
    fn bell(&self) -> &Bell<M>;
    /// What the worker parks in.
    fn parker(&self) -> &M::Parker;
    /// What it does for descriptors.
    fn driver(&self) -> &Driver<M>;
    /// Has the worker look, and rings if it must.
    fn notify(&self) {
        match self.bell().notify(Kick::Take, Standing::Level) {
            Notified::MustRing | Notified::MustHelp => self.bell().ring(self.parker()),
            Notified::Running | Notified::Spinning | Notified::Already => {}
        }
    }
    /// It had no descriptors, was given one, and seems to run: whoever looks after workers that are
    /// stuck did not have to look at this one before.
    fn note_first(&self) {}
}

// SAFETY: an `Arc` is another name of what it points to.
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
