//! When a worker calls the user's hooks.

use super::Worker;
use crate::scheduler::telemetry::{Hooks, WorkerHook};
use doorbell_machine::Machine;

impl<M: Machine> Worker<M> {
    pub(super) fn call_hook(&self, which: impl FnOnce(&Hooks) -> Option<&WorkerHook>) {
        let remote = self.shared.remote();
        if let Some(telemetry) = remote.scheduler().telemetry() {
            telemetry.call_worker_hook(which, remote.worker());
        }
    }

    pub(super) fn has_started(&self) {
        self.call_hook(|hooks| hooks.worker_start.as_ref());
    }

    pub(super) fn has_stopped(&self) {
        self.call_hook(|hooks| hooks.worker_stop.as_ref());
    }
}
