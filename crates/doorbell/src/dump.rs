//! [`Handle::dump`]: which tasks there are, and what they do.

use crate::call::{Call, post_to_class};
use crate::handle::Handle;
use crate::{
    BlockOnError, CallError, Class, ClassKind, CoreId, ManyResults, TaskId, TaskName, ambient,
};
use doorbell_core::task::{Phase, TaskSeen};
use std::time::Duration;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskState {
    /// It waits for a wake.
    Idle,
    /// It was woken, and waits for its poll.
    Queued,
    /// It is polled.
    Running,
}

/// A task that has run and is not complete: see [`Handle::dump`].
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

    /// Its number. [`Handle::dump`] has an example.
    pub fn id(&self) -> TaskId {
        TaskId::new(self.seen.id)
    }

    /// Its name, if it was given one. [`Handle::dump`] has an example.
    pub fn name(&self) -> Option<&str> {
        self.seen.name.as_ref().map(TaskName::as_str)
    }

    /// What it did. [`Handle::dump`] has an example.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// The core that it ran on last, or runs on. [`Handle::dump`] has an example.
    pub fn core(&self) -> CoreId {
        CoreId::new(self.seen.last)
    }

    /// The core that it ran on first, in whose list it is. [`Handle::dump`] has an example.
    pub fn home(&self) -> CoreId {
        CoreId::new(self.seen.home)
    }

    /// How long ago it was spawned. `None` without
    /// [`Builder::poll_times`](crate::Builder::poll_times).
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

/// The tasks of the worker that the caller is.
fn here() -> Vec<TaskSeen> {
    ambient::with_worker(|worker| worker.map(|worker| worker.handle().inner().tasks_here()))
        .unwrap_or_default()
}

/// A worker that has ended has no tasks.
fn together(workers: ManyResults<Vec<TaskSeen>>) -> Vec<TaskDump> {
    workers
        .into_iter()
        .flat_map(Result::unwrap_or_default)
        .filter_map(TaskDump::of)
        .collect()
}

/// Adds what other workers answer.
async fn add(all: &mut Vec<TaskDump>, workers: Vec<Call<Vec<TaskSeen>>>) {
    for worker in workers {
        let seen = worker.await.unwrap_or_default();
        all.extend(seen.into_iter().filter_map(TaskDump::of));
    }
}

impl Handle {
    /// Lists the tasks that have run at least once and are not complete, by their home cores, the
    /// newest first, class after class. Tasks that never ran are missing.
    ///
    /// Each core is called and walks its own list, so nothing is locked, and every task is in it
    /// once, wherever it runs. It also means that the dump waits for a core that is inside a long
    /// poll, and that tasks of different cores are not seen at the same moment. To find out which
    /// core is stuck without waiting for it: [`WorkerMetrics::current_poll`](crate::WorkerMetrics::current_poll).
    ///
    /// It is empty if the runtime is gone. The calls are posted when this returns; dropping the
    /// future withdraws them.
    ///
    /// ```
    /// use doorbell::{CoreId, Handle, TaskState};
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

    /// Asks the workers of the other classes that have begun.
    fn others(&self) -> Vec<Call<Vec<TaskSeen>>> {
        let kinds = self.inner().opened().into_iter();
        let kinds = kinds.filter(|kind| *kind != ClassKind::Fair);
        kinds
            .flat_map(|kind| (0..self.cores()).map(move |core| (core, Class::any_of(kind))))
            .map(|(core, class)| post_to_class(self, core, class, here))
            .collect()
    }

    /// As [`Handle::dump`], for threads that are no worker: blocks until every core has answered.
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
