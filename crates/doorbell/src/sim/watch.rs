//! The tasks of a run, told to its [`Tasks`].

use crate::Builder;
use doorbell_machine::sim::Witness;
use doorbell_machine::sim::seeds::{self, Tasks};

/// The builder of a runtime that reports its tasks and their polls, also to a witness. The hooks are there in each run: they
/// make steps, and a run with a witness is the same run as one without.
pub(super) fn watched(builder: Builder, tasks: &Tasks, witness: Option<Witness>) -> Builder {
    let (spawned, finished) = (tasks.clone(), tasks.clone());
    let (begun, ended) = (witness.clone(), witness);
    builder
        .on_task_spawn(move |task| spawned.add(task.id().as_u64(), task.name(), task.spawned_at()))
        .on_task_finish(move |task| finished.remove(task.id().as_u64()))
        .on_before_task_poll(move |task| {
            seeds::polls(Some(task.id().as_u64()));
            let Some(witness) = &begun else { return };
            let name = task.name().map(|name| format!(" `{name}`"));
            let (name, place) = (name.unwrap_or_default(), task.spawned_at());
            witness.begin(format!("polls the task{name} of {place}"));
        })
        .on_after_task_poll(move |_| {
            seeds::polls(None);
            ended.iter().for_each(Witness::end);
        })
}
