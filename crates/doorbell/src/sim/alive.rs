//! [`Alive`]: the tasks of a run that have not ended, for the message of a run without an end.

#![allow(
    clippy::disallowed_types,
    reason = "held for a moment by the runtime's own hooks, and no thread of the simulation is switched meanwhile"
)]

use crate::{Builder, TaskId, metrics::TaskInfo};
use doorbell_machine::sim;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many tasks a failure shows.
const SHOWN: usize = 8;

/// The tasks of the current run that have been spawned and have not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Alive(Arc<Mutex<Tasks>>);

#[derive(Debug, Default)]
struct Tasks {
    /// How many were spawned so far.
    spawned: u64,
    /// By their numbers. A task that is spawned later may have the number of one that has ended.
    by_id: BTreeMap<TaskId, Task>,
}

#[derive(Debug)]
struct Task {
    /// In the order of their spawns.
    order: u64,
    name: Option<String>,
    spawned_at: &'static Location<'static>,
    spawned_ns: u64,
}

impl Alive {
    /// Begins a run, without tasks.
    pub(super) fn begin(&self) {
        *self.tasks() = Tasks::default();
    }

    /// Has the runtime of this builder report its tasks.
    pub(super) fn watch(&self, builder: Builder) -> Builder {
        let (spawned, ended) = (self.clone(), self.clone());
        let builder = builder.on_task_spawn(move |task| spawned.add(*task));
        builder.on_task_finish(move |task| _ = ended.tasks().by_id.remove(&task.id()))
    }

    fn add(&self, task: TaskInfo<'_>) {
        let mut tasks = self.tasks();
        tasks.spawned += 1;
        let added = Task {
            order: tasks.spawned,
            name: task.name().map(str::to_owned),
            spawned_at: task.spawned_at(),
            spawned_ns: sim::time_ns(),
        };
        tasks.by_id.insert(task.id(), added);
    }

    /// The oldest tasks, on a line each, at the end of a run that ended at this time.
    pub(super) fn shown(&self, end_ns: u64) -> String {
        let tasks = self.tasks();
        let mut oldest: Vec<&Task> = tasks.by_id.values().collect();
        oldest.sort_by_key(|task| task.order);
        let mut text = String::new();
        for task in oldest.iter().take(SHOWN) {
            let name = task.name.as_ref().map(|name| format!(" `{name}`"));
            let age = Duration::from_nanos(end_ns.saturating_sub(task.spawned_ns));
            let (name, place) = (name.unwrap_or_default(), task.spawned_at);
            let _ = write!(
                text,
                "\n  a task{name}, spawned at {place} {age:?} ago, has not ended"
            );
        }
        if let Some(more @ 1..) = oldest.len().checked_sub(SHOWN) {
            let _ = write!(text, "\n  nor have {more} more tasks");
        }
        text
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
