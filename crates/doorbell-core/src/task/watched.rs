//! Tasks whose crew records something of them.

use super::cell::TaskRef;
use super::local::Local;
use doorbell_machine::Machine;
use std::task::Poll;

impl<M: Machine> TaskRef<M> {
    /// Polls a task that has extras. The caller has RUNNING.
    pub(super) fn poll_watched(self, local: &Local<M>) -> Poll<()> {
        let Some(watchers) = local.front().crew().watchers() else {
            return self.poll();
        };
        let woken_ns = self.extras().map_or(0, super::extras::Extras::woken_ns);
        let name = || Some(self.extras()?.name()?.as_str());
        watchers.time_poll(local.front().lane(), woken_ns, name, || self.poll())
    }

    /// The task is about to be queued. The caller is the one that queues it.
    #[inline]
    pub(super) fn note_wake(self) {
        if self.header().has_extras
            && let Some(extras) = self.extras()
        {
            extras.note_wake();
        }
    }
}
