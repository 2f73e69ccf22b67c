//! Polls, wakes and ends of tasks, as telemetry records them.

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
        telemetry.before_poll(|| self.event());
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
        telemetry.after_poll(|| self.event());
        polled
    }

    /// Calls the hook for a spawned task. The caller alone has the task.
    pub(crate) fn note_spawn(self) {
        if let Some(telemetry) = self.scheduler().telemetry() {
            telemetry.task_spawned(&self.event());
        }
    }

    /// Calls the hook for a task that has ended. The caller has RUNNING.
    #[cold]
    pub(crate) fn note_finish(self) {
        if let Some(telemetry) = self.scheduler().telemetry() {
            telemetry.task_finished(&self.event());
        }
    }

    fn scheduler(&self) -> &Scheduler<M> {
        self.last().scheduler()
    }

    /// The number of the task: its address, so a later task may get the same number.
    pub(crate) fn id(self) -> u64 {
        self.as_raw().addr().get() as u64
    }

    fn event(&self) -> TaskEvent<'_> {
        let worker = Local::<M>::with_current(|local| {
            let local = local.filter(|local| local.is_of(self.scheduler()))?;
            Some(local.remote().worker())
        });
        let extras = self.extras();
        let extras = extras.expect("a task for which hooks are called has extras");
        TaskEvent {
            id: self.id(),
            name: self.name().map(Name::as_str),
            worker,
            spawned_at: extras.spawned_at(),
        }
    }

    /// Records the time of a wake, if the scheduler records times. The caller is about to queue the task.
    #[inline]
    pub(crate) fn note_wake(self) {
        if self.header().has_extras()
            && let Some(extras) = self.extras()
        {
            extras.note_wake();
        }
    }
}

/// A task in the list of its home worker.
///
/// ```
/// # use doorbell_core::worker::TaskSeen;
/// fn show(task: &TaskSeen) {
///     println!("{:x} {:?} {:?} {} {}", task.id, task.name, task.phase, task.last, task.home);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct TaskSeen {
    /// Its number: no other task that is in memory now has the same one.
    pub id: u64,
    /// Its name.
    pub name: Option<Name>,
    /// What it does now.
    pub phase: Phase,
    /// The worker that runs it, or ran it last.
    pub last: usize,
    /// The worker that ran it first.
    pub home: usize,
    /// How long ago it was spawned. `None` if the scheduler does not record times.
    pub age_ns: Option<u64>,
}

impl<M: Machine> Local<M> {
    /// The tasks of this worker's list, newest first: they ran here first. Tasks that ended on another worker may
    /// still be in it. Called on the worker's own thread.
    pub fn tasks(&self) -> Vec<TaskSeen> {
        let see = |task: TaskRef<M>| TaskSeen {
            id: task.id(),
            name: task.name().cloned(),
            phase: task.phase(),
            last: task.last().worker(),
            home: self.remote().worker(),
            age_ns: task.extras().and_then(Extras::age_ns),
        };
        let list = self.remote().task_list();
        let seen = list.with(|list| list.iter().map(see).collect());
        seen.unwrap_or_default()
    }
}
