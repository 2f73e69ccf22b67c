//! [`Locks`]: which task holds a [`Mutex`](crate::sync::Mutex), and which wait for it, for the message of a run without an
//! end. Nothing here is a step of the simulation.

use super::alive::Alive;
use crate::TaskId;
use doorbell_core::worker::Local;
use doorbell_machine::{Sim, sim};
use std::collections::BTreeMap;

/// The locks that are held or waited for, by their addresses.
#[derive(Debug, Default)]
pub(super) struct Locks(BTreeMap<usize, Lock>);

#[derive(Debug, Default)]
struct Lock {
    holder: Option<Holder>,
    waiting: Vec<TaskId>,
}

/// What holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Task(TaskId),
    /// Code outside of tasks, such as the program itself.
    NoTask,
}

impl Locks {
    /// How many locks a task holds.
    pub(super) fn held_by(&self, task: TaskId) -> usize {
        let holders = self.0.values().filter_map(|lock| lock.holder);
        holders
            .filter(|holder| *holder == Holder::Task(task))
            .count()
    }

    /// The holder of the lock that a task waits for.
    pub(super) fn waited_for_by(&self, task: TaskId) -> Option<Holder> {
        let mut locks = self.0.values();
        locks.find(|lock| lock.waiting.contains(&task))?.holder
    }
}

/// The caller has the lock at this address.
pub(crate) fn taken(lock: usize) {
    on(lock, |lock, task| {
        lock.holder = Some(task.map_or(Holder::NoTask, Holder::Task));
        lock.waiting.retain(|waits| Some(*waits) != task);
    });
}

/// The caller waits for it. Returns the number of its task.
pub(crate) fn waited_for(lock: usize) -> Option<TaskId> {
    on(lock, |lock, task| {
        let task = task?;
        if !lock.waiting.contains(&task) {
            lock.waiting.push(task);
        }
        Some(task)
    })
    .flatten()
}

/// A task that waited for it does so no longer.
pub(crate) fn given_up(lock: usize, task: Option<TaskId>) {
    on(lock, |lock, _| {
        lock.waiting.retain(|waits| Some(*waits) != task);
    });
}

/// Its holder lets go of it.
pub(crate) fn let_go(lock: usize) {
    on(lock, |lock, _| lock.holder = None);
}

fn on<R>(lock: usize, change: impl FnOnce(&mut Lock, Option<TaskId>) -> R) -> Option<R> {
    let alive = sim::kept::<Alive>()?;
    let task = sim::unseen(|| Local::<Sim>::with_current(|worker| worker.and_then(Local::task_id)));
    Some(alive.change_locks(|locks| {
        let it = locks.0.entry(lock).or_default();
        let result = change(it, task.map(TaskId::new));
        if it.holder.is_none() && it.waiting.is_empty() {
            locks.0.remove(&lock);
        }
        result
    }))
}
