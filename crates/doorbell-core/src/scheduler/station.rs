//! Implements [`Station`] for a member: the driver of its descriptors reaches the worker through it.

use super::{Member, RemoteRef};
use crate::bell::Bell;
use crate::io::{Driver, Station};
use crate::worker::remote::Remote;
use doorbell_machine::Machine;

// SAFETY: bell, parker and driver are parts of the member, which stays in place; only this driver uses
// the poller of the parker.
unsafe impl<M: Machine> Station<M> for Member<M> {
    fn bell(&self) -> &Bell<M> {
        Remote::bell(self)
    }
    fn parker(&self) -> &M::Parker {
        Remote::parker(self)
    }
    fn driver(&self) -> &Driver<M> {
        &self.driver
    }
    fn notify(&self) {
        // Counts the ring, as a post does.
        self.signal();
    }
    fn note_first(&self) {
        let (scheduler, worker) = (self.scheduler(), self.worker());
        if scheduler.remotes().len() == 1 || !self.is_inside() {
            return;
        }
        // The worker is inside a poll, which may be long.
        // A watchdog looks only at workers of the work set.
        scheduler.work().add_anew(worker);
        M::fence_recheck();
        scheduler.arm_watchdog(worker);
    }
}

// SAFETY: as for the member, which it keeps alive.
unsafe impl<M: Machine> Station<M> for RemoteRef<M> {
    fn bell(&self) -> &Bell<M> {
        Remote::bell(self)
    }
    fn parker(&self) -> &M::Parker {
        Remote::parker(self)
    }
    fn driver(&self) -> &Driver<M> {
        &self.driver
    }
    fn notify(&self) {
        Station::notify(&**self);
    }
    fn note_first(&self) {
        Station::note_first(&**self);
    }
}
