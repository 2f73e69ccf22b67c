//! The tasks and locks of a run, told to its [`Tasks`].

use crate::here::Simulated;
use crate::{Builder, TaskId};
use doorbell_core::worker::Local;
use doorbell_machine::sim::seeds::{self, Holder, Tasks};
use doorbell_machine::sim::{self, Witness};

/// The builder of a runtime that reports its tasks, and to a witness their polls. The hooks of polls are there in each
/// run: they make steps, and a run with a witness is the same run as one without.
pub(super) fn watched(builder: Builder, tasks: &Tasks, witness: Option<Witness>) -> Builder {
    let (spawned, finished) = (tasks.clone(), tasks.clone());
    let (begun, ended) = (witness.clone(), witness);
    builder
        .on_task_spawn(move |task| spawned.add(task.id().as_u64(), task.name(), task.spawned_at()))
        .on_task_finish(move |task| finished.remove(task.id().as_u64()))
        .on_before_task_poll(move |task| {
            let Some(witness) = &begun else { return };
            let name = task.name().map(|name| format!(" `{name}`"));
            let (name, place) = (name.unwrap_or_default(), task.spawned_at());
            witness.begin(format!("polls the task{name} of {place}"));
        })
        .on_after_task_poll(move |_| ended.iter().for_each(Witness::end))
}

/// The number of the calling task.
fn task() -> Option<u64> {
    sim::unseen(|| Local::<Simulated>::with_current(|worker| worker.and_then(Local::task_id)))
}

/// The caller has the [`Mutex`](crate::sync::Mutex) at this address.
pub(crate) fn taken(lock: usize) {
    if let Some(tasks) = seeds::kept() {
        tasks.taken(lock, task().map_or(Holder::NoTask, Holder::Task));
    }
}

/// The caller waits for it. Returns the number of its task.
pub(crate) fn waited_for(lock: usize) -> Option<TaskId> {
    let task = task()?;
    seeds::kept()?.waited_for(lock, task);
    Some(TaskId::new(task))
}

/// A task that waited for it does so no longer.
pub(crate) fn given_up(lock: usize, task: Option<TaskId>) {
    if let (Some(tasks), Some(task)) = (seeds::kept(), task) {
        tasks.given_up(lock, task.as_u64());
    }
}

/// Its holder lets go of it.
pub(crate) fn let_go(lock: usize) {
    if let Some(tasks) = seeds::kept() {
        tasks.let_go(lock);
    }
}
