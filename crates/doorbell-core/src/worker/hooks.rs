//! When a worker calls the user's hooks.

use super::Worker;
use crate::scheduler::telemetry::{Hooks, WorkerHook};
use doorbell_machine::Machine;

impl<M: Machine> Worker<M> {
    pub(super) fn call_hooks(&self, which: impl FnOnce(&Hooks) -> &[WorkerHook]) {
        let remote = self.shared.remote();
        if let Some(telemetry) = remote.scheduler().telemetry() {
            telemetry.call_worker_hooks(which, remote.worker());
        }
    }

    pub(super) fn has_started(&self) {
        self.call_hooks(|hooks| &hooks.worker_start);
    }

    pub(super) fn has_stopped(&self) {
        self.call_hooks(|hooks| &hooks.worker_stop);
    }
}
