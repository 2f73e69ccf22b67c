//! Descriptors: which tasks are woken when one is ready, and when its memory may be freed. See README.md.
//!
//! A task holds a [`Registration`] of a descriptor. Behind it is a [`Source`]: the descriptor's word and
//! waiters. Each scheduler has a [`Driver`], which brings the events of its poller to the sources. Any worker may ask it to.

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

pub use driver::{Driver, Keeper, Swept};
pub use interest::{Direction, Interest};
pub use place::Place;
pub use registration::{Fd, RegisterError, Registration};
pub use source::{RuntimeEnded, Source, WhenReady, gone};
pub use word::{Cleared, Event};

use doorbell_machine::Machine;

/// Why a driver wants a pass of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rouse {
    /// The first descriptor was added, and nobody keeps the poller. If the caller is a worker, its poll may go on for long.
    First,
    /// Another descriptor was added, and nobody keeps the poller. If the caller is a worker, it looks itself.
    Another,
    /// Many sources have gone, and wait for a sweep.
    Sweep,
}

/// The part of a scheduler that its descriptors need.
///
/// # Safety
/// The driver is the same for the life of the value and of all its clones, and lives as long as any of these.
pub unsafe trait Station<M: Machine> {
    /// The scheduler's driver.
    fn driver(&self) -> &Driver<M>;
    /// Has a worker make a pass.
    fn rouse(&self, why: Rouse);
}

// SAFETY: as for the station that the `Arc` points to, and keeps alive.
unsafe impl<M: Machine, S: Station<M>> Station<M> for std::sync::Arc<S> {
    fn driver(&self) -> &Driver<M> {
        S::driver(self)
    }
    fn rouse(&self, why: Rouse) {
        S::rouse(self, why);
    }
}
