//! Hooks: closures of the user. They are called when a worker begins, ends or parks, when a task is spawned, polled or
//! ends, and when a poll takes long.

use super::stalls::{StallEvent, StallPlan};
use super::{Telemetry, TelemetryPlan};
use crate::quiet::drop_quietly;
use doorbell_machine::{Counter, Machine};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

/// Called on a worker, with the number of that worker.
pub type WorkerHook = Arc<dyn Fn(usize) + Send + Sync>;

/// Called with a task that is spawned, polled or ends.
pub type TaskHook = Arc<dyn Fn(&TaskEvent<'_>) + Send + Sync>;

/// A task that is spawned, polled or ends.
///
/// ```
/// # use doorbell_core::scheduler::telemetry::TaskEvent;
/// fn show(task: &TaskEvent<'_>) {
///     println!("{:x} {:?} {:?} {}", task.id, task.name, task.worker, task.spawned_at);
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TaskEvent<'a> {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: Option<&'a str>,
    /// The worker of the task's scheduler that calls the hook; `None` on any other thread.
    pub worker: Option<usize>,
    /// The call that spawned it.
    pub spawned_at: &'static Location<'static>,
}

/// The hooks of a scheduler. Each field says when its hook is called.
///
/// ```
/// use doorbell_core::scheduler::telemetry::Hooks;
///
/// assert!(Hooks::default().is_empty());
/// ```
#[derive(Clone, Default)]
pub struct Hooks {
    /// A worker has begun, and has run nothing yet.
    pub worker_start: Option<WorkerHook>,
    /// A worker is about to end, and has dropped all its tasks.
    pub worker_stop: Option<WorkerHook>,
    /// A worker is about to block.
    pub before_park: Option<WorkerHook>,
    /// A worker has blocked, or did not need to. Called once for each `before_park`.
    pub after_unpark: Option<WorkerHook>,
    /// A task is spawned; it cannot run before the hook returns.
    pub task_spawn: Option<TaskHook>,
    /// A task has ended. A task that awaits it sees that only after the hook has returned.
    pub task_finish: Option<TaskHook>,
    /// A task is about to be polled.
    pub before_poll: Option<TaskHook>,
    /// A poll has ended. The task may be complete.
    pub after_poll: Option<TaskHook>,
    /// A poll takes long and still goes on. Called on a thread that is no worker: see
    /// [`StallReporter`](super::StallReporter).
    pub stall: Option<StallPlan>,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("worker_start", &self.worker_start.is_some())
            .field("worker_stop", &self.worker_stop.is_some())
            .field("before_park", &self.before_park.is_some())
            .field("after_unpark", &self.after_unpark.is_some())
            .field("task_spawn", &self.task_spawn.is_some())
            .field("task_finish", &self.task_finish.is_some())
            .field("before_poll", &self.before_poll.is_some())
            .field("after_poll", &self.after_poll.is_some())
            .field("stall", &self.stall)
            .finish()
    }
}

impl Hooks {
    /// Whether there are no hooks.
    pub fn is_empty(&self) -> bool {
        let workers = [
            &self.worker_start,
            &self.worker_stop,
            &self.before_park,
            &self.after_unpark,
        ];
        workers.iter().all(|hook| hook.is_none()) && !self.of_tasks()
    }

    /// Whether there is a hook for tasks or polls.
    fn of_tasks(&self) -> bool {
        let tasks = [
            &self.task_spawn,
            &self.task_finish,
            &self.before_poll,
            &self.after_poll,
        ];
        tasks.iter().any(|hook| hook.is_some()) || self.stall.is_some()
    }
}

impl TelemetryPlan {
    /// Whether something is recorded for each task.
    pub(super) fn is_of_tasks(&self) -> bool {
        self.long_poll_ns.is_some() || self.hooks.of_tasks()
    }
}

impl<M: Machine> Telemetry<M> {
    /// Calls a hook, if there is one. Catches and counts a panic of the hook.
    fn guard<H: ?Sized>(&self, hook: Option<&Arc<H>>, call: impl FnOnce(&H)) {
        let Some(hook) = hook else { return };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| call(hook))) {
            self.hook_panics.add_shared(1);
            drop_quietly(payload);
        }
    }

    /// Calls a hook of a worker.
    pub(crate) fn call_worker_hook(
        &self,
        which: impl FnOnce(&Hooks) -> Option<&WorkerHook>,
        worker: usize,
    ) {
        self.guard(which(&self.plan.hooks), |hook| hook(worker));
    }

    /// Calls the hook for a task that is spawned.
    pub(crate) fn task_spawned(&self, task: &TaskEvent<'_>) {
        self.guard(self.plan.hooks.task_spawn.as_ref(), |hook| hook(task));
    }

    /// Calls the hook for a task that has ended.
    pub(crate) fn task_finished(&self, task: &TaskEvent<'_>) {
        self.guard(self.plan.hooks.task_finish.as_ref(), |hook| hook(task));
    }

    /// Calls the hook for a task that is about to be polled.
    pub(crate) fn before_poll<'a>(&self, task: impl FnOnce() -> TaskEvent<'a>) {
        self.guard(self.plan.hooks.before_poll.as_ref(), |hook| hook(&task()));
    }

    /// Calls the hook for a task whose poll has ended.
    pub(crate) fn after_poll<'a>(&self, task: impl FnOnce() -> TaskEvent<'a>) {
        self.guard(self.plan.hooks.after_poll.as_ref(), |hook| hook(&task()));
    }

    /// Calls the hook for what takes long and still goes on.
    pub(super) fn stalled(&self, stall: &StallEvent) {
        let hook = self.plan.hooks.stall.as_ref().map(|plan| &plan.hook);
        self.guard(hook, |hook| hook(stall));
    }

    /// How many hooks have panicked.
    pub fn hook_panics(&self) -> u64 {
        self.hook_panics.get()
    }
}
