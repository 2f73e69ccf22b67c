//! Tasks whose crew records something of them.

use super::cell::TaskRef;
use super::local::Local;
use crate::crew::Crew;
use crate::lane::TaskEvent;
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

    /// The task is spawned, and nobody but the caller has it.
    pub(super) fn note_spawn(self) {
        if let Some(watchers) = self.crew().watchers() {
            watchers.task_spawned(&self.event());
        }
    }

    /// Its output is stored. The caller has RUNNING.
    #[cold]
    pub(super) fn note_finish(self) {
        if let Some(watchers) = self.crew().watchers() {
            watchers.task_finished(&self.event());
        }
    }

    fn crew(&self) -> &Crew<M> {
        self.header().front.crew()
    }

    /// Its number.
    pub(super) fn id(self) -> u64 {
        self.as_raw().addr().get() as u64
    }

    fn event(&self) -> TaskEvent<'_> {
        let lane = Local::<M>::with_current(|local| {
            let local = local.filter(|local| local.is_of(self.crew()))?;
            Some(local.front().lane())
        });
        TaskEvent {
            id: self.id(),
            name: self.name().map(super::Name::as_str),
            lane,
        }
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
