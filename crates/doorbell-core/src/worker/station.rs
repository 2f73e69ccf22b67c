//! A worker's remote half, as far as the worker's descriptors are concerned.

use super::Remote;
use crate::bell::Bell;
use crate::io::{Driver, Station};
use crate::scheduler::RemoteRef;
use doorbell_machine::Machine;

// SAFETY: bell, parker and driver are fields of the remote half, which stays where it is; the poller of the
// parker is reached by this driver only.
unsafe impl<M: Machine> Station<M> for Remote<M> {
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
        // The ring is counted, as those of posts are.
        self.signal();
    }
    fn note_first(&self) {
        let (scheduler, worker) = (self.scheduler(), self.worker());
        // One that idles asks for it when it has something to run.
        if scheduler.remotes().len() == 1 || !self.is_inside() || !scheduler.armed().may_be_on() {
            return;
        }
        // It may be inside a poll that goes on for long, and what it had when that began asked for
        // nobody. Only workers of the work set are looked at.
        scheduler.work().add_anew(worker);
        M::fence_recheck();
        scheduler.arm_watchdog_by(worker, 0);
    }
}

// SAFETY: another name of a remote half, which it keeps.
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
