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

/// The hooks of a scheduler. Each field says when its hooks are called: all of them, in this order.
///
/// ```
/// use doorbell_core::scheduler::telemetry::Hooks;
///
/// assert!(Hooks::default().is_empty());
/// ```
#[derive(Clone, Default)]
pub struct Hooks {
    /// A worker has begun, and has run nothing yet.
    pub worker_start: Vec<WorkerHook>,
    /// A worker is about to end, and has dropped all its tasks.
    pub worker_stop: Vec<WorkerHook>,
    /// A worker is about to block.
    pub before_park: Vec<WorkerHook>,
    /// A worker has blocked, or did not need to. Called once for each `before_park`.
    pub after_unpark: Vec<WorkerHook>,
    /// A task is spawned; it cannot run before the hook returns.
    pub task_spawn: Vec<TaskHook>,
    /// A task has ended. A task that awaits it sees that only after the hook has returned.
    pub task_finish: Vec<TaskHook>,
    /// A task is about to be polled.
    pub before_poll: Vec<TaskHook>,
    /// A poll has ended. The task may be complete.
    pub after_poll: Vec<TaskHook>,
    /// A poll takes long and still goes on. Called on a thread that is no worker: see
    /// [`StallReporter`](super::StallReporter).
    pub stall: Vec<StallPlan>,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("worker_start", &self.worker_start.len())
            .field("worker_stop", &self.worker_stop.len())
            .field("before_park", &self.before_park.len())
            .field("after_unpark", &self.after_unpark.len())
            .field("task_spawn", &self.task_spawn.len())
            .field("task_finish", &self.task_finish.len())
            .field("before_poll", &self.before_poll.len())
            .field("after_poll", &self.after_poll.len())
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
        workers.iter().all(|hooks| hooks.is_empty()) && !self.of_tasks()
    }

    /// Whether there is a hook for tasks or polls.
    fn of_tasks(&self) -> bool {
        let tasks = [
            &self.task_spawn,
            &self.task_finish,
            &self.before_poll,
            &self.after_poll,
        ];
        tasks.iter().any(|hooks| !hooks.is_empty()) || !self.stall.is_empty()
    }
}

impl TelemetryPlan {
    /// Whether something is recorded for each task.
    pub(super) fn is_of_tasks(&self) -> bool {
        self.long_poll_ns.is_some() || self.hooks.of_tasks()
    }
}

impl<M: Machine> Telemetry<M> {
    /// Calls a hook. Catches and counts its panic.
    fn guard(&self, call: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| M::user(call))) {
            self.hook_panics.add_shared(1);
            drop_quietly(payload);
        }
    }

    /// Calls hooks of a worker.
    pub(crate) fn call_worker_hooks(
        &self,
        which: impl FnOnce(&Hooks) -> &[WorkerHook],
        worker: usize,
    ) {
        for hook in which(&self.plan.hooks) {
            self.guard(|| hook(worker));
        }
    }

    fn call_task_hooks(&self, hooks: &[TaskHook], task: &TaskEvent<'_>) {
        for hook in hooks {
            self.guard(|| hook(task));
        }
    }

    /// Calls the hooks for a task that is spawned.
    pub(crate) fn task_spawned(&self, task: &TaskEvent<'_>) {
        self.call_task_hooks(&self.plan.hooks.task_spawn, task);
    }

    /// Calls the hooks for a task that has ended.
    pub(crate) fn task_finished(&self, task: &TaskEvent<'_>) {
        self.call_task_hooks(&self.plan.hooks.task_finish, task);
    }

    /// Calls the hooks for a task that is about to be polled.
    pub(crate) fn before_poll<'a>(&self, task: impl FnOnce() -> TaskEvent<'a>) {
        let hooks = &self.plan.hooks.before_poll;
        if !hooks.is_empty() {
            self.call_task_hooks(hooks, &task());
        }
    }

    /// Calls the hooks for a task whose poll has ended.
    pub(crate) fn after_poll<'a>(&self, task: impl FnOnce() -> TaskEvent<'a>) {
        let hooks = &self.plan.hooks.after_poll;
        if !hooks.is_empty() {
            self.call_task_hooks(hooks, &task());
        }
    }

    /// Calls the hooks for what takes long and still goes on: those for which it has lasted long enough.
    pub(super) fn stalled(&self, stall: &StallEvent) {
        for plan in &self.plan.hooks.stall {
            if stall.lasted_ns() >= plan.after_ns {
                self.guard(|| (plan.hook)(stall));
            }
        }
    }

    /// How many hooks have panicked.
    pub fn hook_panics(&self) -> u64 {
        self.hook_panics.get()
    }
}
