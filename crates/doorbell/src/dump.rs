//! [`Handle::dump`]: lists the tasks of a runtime and what they do.

use crate::call_on::{Call, post_to_class};
use crate::handle::Handle;
use crate::{
    CallError, Class, ClassKind, CoreId, TaskId, TaskName, ambient, call::ManyResults,
    error::BlockOnError,
};
use doorbell_core::task::Phase;
use doorbell_core::worker::TaskSeen;
use std::time::Duration;

/// What a task does when it is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskState {
    /// The task waits for a wake.
    Idle,
    /// The task was woken, and waits for its poll.
    Queued,
    /// A worker polls the task.
    Running,
}

/// A task that has been polled and is not complete: see [`Handle::dump`].
#[derive(Clone, Debug)]
pub struct TaskDump {
    seen: TaskSeen,
    state: TaskState,
}

impl TaskDump {
    fn of(seen: TaskSeen) -> Option<Self> {
        let state = match seen.phase {
            Phase::Idle => TaskState::Idle,
            Phase::Queued => TaskState::Queued,
            Phase::Running => TaskState::Running,
            Phase::Complete => return None,
        };
        Some(TaskDump { seen, state })
    }

    /// The number of the task. [`Handle::dump`] has an example.
    pub fn id(&self) -> TaskId {
        TaskId::new(self.seen.id)
    }

    /// The name of the task, if it was given one. [`Handle::dump`] has an example.
    pub fn name(&self) -> Option<&str> {
        self.seen.name.as_ref().map(TaskName::as_str)
    }

    /// What the task did. [`Handle::dump`] has an example.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// The core on which the task ran last, or runs. [`Handle::dump`] has an example.
    pub fn core(&self) -> CoreId {
        CoreId::new(self.seen.last)
    }

    /// The core on which the task ran first. The worker of that core has the task in its list.
    /// [`Handle::dump`] has an example.
    pub fn home(&self) -> CoreId {
        CoreId::new(self.seen.home)
    }

    /// How long ago the task was spawned. `None` without [`Builder::poll_times`](crate::Builder::poll_times).
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).poll_times(true).build()?;
    /// let tasks = runtime.block_on(runtime.spawn(async {
    ///     doorbell::Handle::current().dump().await
    /// }))?;
    /// assert!(tasks[0].age().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn age(&self) -> Option<Duration> {
        self.seen.age_ns.map(Duration::from_nanos)
    }
}

/// The tasks in the list of the calling worker.
fn here() -> Vec<TaskSeen> {
    ambient::with_worker(|worker| worker.map(|worker| worker.handle().inner().tasks_here()))
        .unwrap_or_default()
}

/// The tasks of all workers that answered. A worker that has ended has no tasks.
fn together(workers: ManyResults<Vec<TaskSeen>>) -> Vec<TaskDump> {
    workers
        .into_iter()
        .flat_map(Result::unwrap_or_default)
        .filter_map(TaskDump::of)
        .collect()
}

/// Adds the answers of these calls.
async fn add(all: &mut Vec<TaskDump>, workers: Vec<Call<Vec<TaskSeen>>>) {
    for worker in workers {
        let seen = worker.await.unwrap_or_default();
        all.extend(seen.into_iter().filter_map(TaskDump::of));
    }
}

impl Handle {
    /// Lists the tasks that have been polled at least once and are not complete: class by class, by their
    /// home cores, the newest first. Tasks that have never been polled are missing.
    ///
    /// A call has each worker walk its own list. So nothing is locked, and every task is listed once,
    /// wherever it runs. But the dump waits for a worker that is inside a long poll, and the tasks of
    /// different workers are not seen at the same moment. To find a stuck worker without waiting for it, use
    /// [`WorkerMetrics::current_poll`](crate::metrics::WorkerMetrics::current_poll).
    ///
    /// The list is empty if the runtime is gone. The calls are posted before this returns. Dropping the
    /// future withdraws them.
    ///
    /// ```
    /// use doorbell::{CoreId, Handle, metrics::TaskState};
    ///
    /// # #[doorbell::main(cores = 2)]
    /// # async fn main() {
    /// let wait = doorbell::task().name("wait").on(1).spawn(std::future::pending::<()>());
    /// doorbell::task().on(1).spawn(async {}).await.unwrap();
    /// let tasks = Handle::current().dump().await;
    /// let task = tasks.iter().find(|task| task.name() == Some("wait")).unwrap();
    /// assert_eq!((task.id(), task.state()), (wait.id(), TaskState::Idle));
    /// assert_eq!((task.core(), task.home()), (CoreId::new(1), CoreId::new(1)));
    /// # }
    /// ```
    pub fn dump(&self) -> impl Future<Output = Vec<TaskDump>> + Send + use<> {
        let workers = self.call_all(|_| here());
        let others = self.others();
        async move {
            let mut all = workers.await.map(together).unwrap_or_default();
            add(&mut all, others).await;
            all
        }
    }

    /// Calls the workers of the other classes that have been started.
    fn others(&self) -> Vec<Call<Vec<TaskSeen>>> {
        let kinds = self.inner().opened().into_iter();
        let kinds = kinds.filter(|kind| *kind != ClassKind::Fair);
        kinds
            .flat_map(|kind| (0..self.cores()).map(move |core| (core, Class::any_of(kind))))
            .map(|(core, class)| post_to_class(self, core, class, here))
            .collect()
    }

    /// As [`Handle::dump`], but blocks the calling thread until every worker has answered. For threads that
    /// are not workers.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(2).build()?;
    /// assert_eq!(runtime.dump_blocking()?.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CallError::InsideWorker`] if the caller is a worker.
    pub fn dump_blocking(&self) -> Result<Vec<TaskDump>, CallError> {
        let mut all = self.call_all_blocking(|_| here()).map(together)?;
        let others = add(&mut all, self.others());
        match self.try_block_on(others) {
            Ok(()) => Ok(all),
            Err(BlockOnError::InsideWorker) => Err(CallError::InsideWorker),
        }
    }
}
