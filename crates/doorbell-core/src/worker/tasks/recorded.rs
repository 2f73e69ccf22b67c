//! Tasks whose scheduler records something of them.

use crate::scheduler::Scheduler;
use crate::scheduler::telemetry::{Polled, TaskEvent};
use crate::task::extras::{Extras, Name};
use crate::task::{Phase, TaskRef};
use crate::worker::Local;
use doorbell_machine::Machine;
use std::task::Poll;

impl<M: Machine> TaskRef<M> {
    /// Polls a task that has extras. The caller has RUNNING.
    pub(crate) fn poll_recorded(self, local: &Local<M>) -> Poll<()> {
        let Some(telemetry) = local.remote().scheduler().telemetry() else {
            return self.poll_plain(local);
        };
        let worker = local.remote().worker();
        let current = self.extras().and_then(|extras| {
            let polled = Polled {
                task: self.id(),
                rank: self.header().rank,
                spawned_at: extras.spawned_at(),
            };
            telemetry.begin_poll(worker, local.remote().pulse(), polled)
        });
        let woken_ns = self.extras().map_or(0, Extras::woken_ns);
        let name = || Some(self.extras()?.name()?.as_str());
        let polled = telemetry.time_poll(worker, woken_ns, name, || self.poll_plain(local));
        if let Some(current) = current {
            current.end();
        }
        polled
    }

    /// The task is spawned, and nobody but the caller has it.
    pub(crate) fn note_spawn(self) {
        if let Some(telemetry) = self.scheduler().telemetry() {
            telemetry.task_spawned(&self.event());
        }
    }

    /// Its output is stored. The caller has RUNNING.
    #[cold]
    pub(crate) fn note_finish(self) {
        if let Some(telemetry) = self.scheduler().telemetry() {
            telemetry.task_finished(&self.event());
        }
    }

    fn scheduler(&self) -> &Scheduler<M> {
        self.last().scheduler()
    }

    /// Its number.
    pub(crate) fn id(self) -> u64 {
        self.as_raw().addr().get() as u64
    }

    fn event(&self) -> TaskEvent<'_> {
        let worker = Local::<M>::with_current(|local| {
            let local = local.filter(|local| local.is_of(self.scheduler()))?;
            Some(local.remote().worker())
        });
        TaskEvent {
            id: self.id(),
            name: self.name().map(Name::as_str),
            worker,
        }
    }

    /// The task is about to be queued. The caller is the one that queues it.
    #[inline]
    pub(crate) fn note_wake(self) {
        if self.header().has_extras()
            && let Some(extras) = self.extras()
        {
            extras.note_wake();
        }
    }
}

/// A task, as its home worker sees it.
///
/// ```
/// # use doorbell_core::worker::TaskSeen;
/// fn show(task: &TaskSeen) {
///     println!("{:x} {:?} {:?} {} {}", task.id, task.name, task.phase, task.last, task.home);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct TaskSeen {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: Option<Name>,
    /// What it does.
    pub phase: Phase,
    /// The worker that ran it last, or runs it.
    pub last: usize,
    /// The worker that ran it first, in whose list it is.
    pub home: usize,
    /// How long ago it was spawned, where times are recorded.
    pub age_ns: Option<u64>,
}

impl<M: Machine> Local<M> {
    /// The tasks of this worker's list, the newest first: those that ran here first and have not left
    /// it. Some may be complete that ended elsewhere. On the worker's own thread.
    pub fn tasks(&self) -> Vec<TaskSeen> {
        let see = |task: TaskRef<M>| TaskSeen {
            id: task.id(),
            name: task.name().cloned(),
            phase: task.phase(),
            last: task.last().worker(),
            home: self.remote().worker(),
            age_ns: task.extras().and_then(Extras::age_ns),
        };
        self.tasks.iter().map(see).collect()
    }
}
