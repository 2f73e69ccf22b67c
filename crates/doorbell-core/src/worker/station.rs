//! Implements [`Station`] for a scheduler: its descriptors reach the workers through it.

use super::Local;
use crate::io::{Driver, Rouse, Station};
use crate::scheduler::RemoteRef;
use crate::worker::remote::Remote;
use doorbell_machine::Machine;

// SAFETY: the driver is part of the scheduler, which the reference keeps alive and in place.
unsafe impl<M: Machine> Station<M> for RemoteRef<M> {
    fn driver(&self) -> &Driver<M> {
        Remote::driver(self)
    }
    fn rouse(&self, why: Rouse) {
        let scheduler = self.scheduler();
        let is_ours = |local: &Local<M>| std::ptr::eq(local.remote().scheduler(), scheduler);
        let is_worker = || Local::with_current(|local| local.is_some_and(is_ours));
        match why {
            Rouse::Sweep => {
                let keeper = self.driver().keeper();
                let keeper = keeper.map(|keeper| &scheduler.remotes()[keeper]);
                keeper
                    .unwrap_or_else(|| scheduler.find_idle(self))
                    .request_pass();
            }
            Rouse::First | Rouse::Another if !is_worker() => {
                scheduler.find_idle(self).request_pass();
            }
            Rouse::First => scheduler.tell_one(self.worker()),
            Rouse::Another => {}
        }
    }
}
