//! [`Alive`]: the tasks of a run that have not ended, for the message of a run without an end.

#![allow(
    clippy::disallowed_types,
    reason = "held for a moment by the runtime's own hooks, and no thread of the simulation is switched meanwhile"
)]

use super::locks::{Holder, Locks};
use crate::{Builder, TaskId, metrics::TaskInfo};
use doorbell_machine::sim::{self, Witness};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many tasks a failure shows.
const SHOWN: usize = 20;

/// The tasks of the current run that have been spawned and have not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Alive(Arc<Mutex<Tasks>>);

#[derive(Debug, Default)]
struct Tasks {
    /// How many were spawned so far.
    spawned: u64,
    /// By their numbers. A task that is spawned later may have the number of one that has ended.
    by_id: BTreeMap<TaskId, Task>,
    locks: Locks,
}

#[derive(Debug)]
struct Task {
    /// In the order of their spawns.
    order: u64,
    name: Option<String>,
    spawned_at: &'static Location<'static>,
    spawned_ns: u64,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_ref().map(|name| format!(" `{name}`"));
        let (name, place) = (name.unwrap_or_default(), self.spawned_at);
        write!(f, "task{name}, spawned at {place}")
    }
}

impl Alive {
    /// Begins a run, without tasks.
    pub(super) fn begin(&self) {
        *self.tasks() = Tasks::default();
        sim::keep(Arc::new(self.clone()));
    }

    pub(super) fn change_locks<R>(&self, change: impl FnOnce(&mut Locks) -> R) -> R {
        change(&mut self.tasks().locks)
    }

    /// Has the runtime of this builder report its tasks, and to a witness their polls. The hooks of polls are there in each
    /// run: they make steps, and a run with a witness is the same run as one without.
    pub(super) fn watch(&self, builder: Builder, witness: Option<Witness>) -> Builder {
        let (spawned, finished) = (self.clone(), self.clone());
        let (begun, ended) = (witness.clone(), witness);
        builder
            .on_task_spawn(move |task| spawned.add(*task))
            .on_task_finish(move |task| _ = finished.tasks().by_id.remove(&task.id()))
            .on_before_task_poll(move |task| {
                let Some(witness) = &begun else { return };
                let name = task.name().map(|name| format!(" `{name}`"));
                let (name, place) = (name.unwrap_or_default(), task.spawned_at());
                witness.begin(format!("polls the task{name} of {place}"));
            })
            .on_after_task_poll(move |_| ended.iter().for_each(Witness::end))
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
        let mut oldest: Vec<_> = tasks.by_id.iter().collect();
        oldest.sort_by_key(|(_, task)| task.order);
        let mut text = String::new();
        for (id, task) in oldest.iter().take(SHOWN) {
            let age = Duration::from_nanos(end_ns.saturating_sub(task.spawned_ns));
            let _ = write!(text, "\n  a {task} {age:?} ago, has not ended");
            match tasks.locks.held_by(**id) {
                0 => {}
                1 => text.push_str("; it holds a `sync::Mutex`"),
                several => _ = write!(text, "; it holds {several} of `sync::Mutex`"),
            }
            if let Some(holder) = tasks.locks.waited_for_by(**id) {
                let known = match holder {
                    Holder::Task(holder) => tasks.by_id.get(&holder),
                    Holder::NoTask => None,
                };
                let holder = known.map_or_else(
                    || "code outside of tasks".to_owned(),
                    |task| format!("the {task}"),
                );
                let _ = write!(
                    text,
                    "; it waits for a `sync::Mutex` that is held by {holder}"
                );
            }
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
