//! [`Tasks`]: the tasks of a run that have not ended and the locks that they hold, for the message of a run without an end.
//! Nothing here is a step of the simulation.

use crate::sim::{self, world};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many tasks a failure shows.
const SHOWN: usize = 20;

/// The tasks of a run that have been spawned and have not ended. Clones are the same.
#[derive(Clone, Default)]
pub struct Tasks(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// How many were spawned so far.
    spawned: u64,
    /// By their numbers. A task that is spawned later may have the number of one that has ended.
    by_id: BTreeMap<u64, Task>,
    /// The locks that are held or waited for, by their addresses.
    locks: BTreeMap<usize, Lock>,
}

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

#[derive(Default)]
struct Lock {
    holder: Option<Holder>,
    waiting: Vec<u64>,
}

/// What holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// The task with this number.
    Task(u64),
    /// Code outside of tasks, such as the program itself.
    NoTask,
}

/// Keeps the tasks of this run, without tasks yet.
#[must_use]
pub fn keep() -> Tasks {
    let tasks = Tasks::default();
    let kept = tasks.clone();
    let _ = world::look(|world| world.tasks = kept);
    tasks
}

/// Says what a runtime broke that is at rest: an error if that is anything.
pub type Oracle = Box<dyn FnOnce() -> Result<(), String>>;

/// Asks this if all threads of this run wait for ever. It is called outside of the run, so it reads without steps.
pub fn watch(oracle: Oracle) {
    let _ = world::look(|world| world.oracle = Some(oracle));
}

/// The calling thread begins to poll this task, or no longer polls one.
pub fn polls(task: Option<u64>) {
    let _ = world::look_anyway(|world| world.threads[world.current as usize].task = task);
}

/// The task that the calling thread polls.
fn polled() -> Option<u64> {
    world::look_anyway(|world| world.threads[world.current as usize].task).flatten()
}

/// The caller has the lock at this address.
pub fn taken(lock: usize) {
    let by = polled().map_or(Holder::NoTask, Holder::Task);
    change(lock, |lock| {
        lock.holder = Some(by);
        lock.waiting.retain(|task| Holder::Task(*task) != by);
    });
}

/// The caller waits for it. Returns the number of its task.
#[must_use]
pub fn waited_for(lock: usize) -> Option<u64> {
    let by = polled()?;
    change(lock, |lock| {
        if !lock.waiting.contains(&by) {
            lock.waiting.push(by);
        }
    });
    Some(by)
}

/// A task that waited for it does so no longer.
pub fn given_up(lock: usize, by: Option<u64>) {
    change(lock, |lock| lock.waiting.retain(|task| Some(*task) != by));
}

/// Its holder lets go of it.
pub fn let_go(lock: usize) {
    change(lock, |lock| lock.holder = None);
}

fn change(lock: usize, change: impl FnOnce(&mut Lock)) {
    let Some(tasks) = world::look_anyway(|world| world.tasks.clone()) else {
        return;
    };
    let mut known = tasks.known();
    let it = known.locks.entry(lock).or_default();
    change(it);
    if it.holder.is_none() && it.waiting.is_empty() {
        known.locks.remove(&lock);
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

impl Tasks {
    /// A task was spawned.
    pub fn add(&self, id: u64, name: Option<&str>, spawned_at: &'static Location<'static>) {
        let mut known = self.known();
        known.spawned += 1;
        let added = Task {
            order: known.spawned,
            name: name.map(str::to_owned),
            spawned_at,
            spawned_ns: sim::time_ns(),
        };
        known.by_id.insert(id, added);
    }

    /// Whether all tasks that were spawned have ended.
    pub(crate) fn have_ended(&self) -> bool {
        self.known().by_id.is_empty()
    }

    /// A task has ended.
    pub fn remove(&self, id: u64) {
        self.known().by_id.remove(&id);
    }

    /// The oldest tasks, on a line each, at the end of a run that ended at this time.
    pub(crate) fn shown(&self, end_ns: u64) -> String {
        let known = self.known();
        let mut oldest: Vec<_> = known.by_id.iter().collect();
        oldest.sort_by_key(|(_, task)| task.order);
        let mut text = String::new();
        for (id, task) in oldest.iter().take(SHOWN) {
            let age = Duration::from_nanos(end_ns.saturating_sub(task.spawned_ns));
            let _ = write!(text, "\n  a {task} {age:?} ago, has not ended");
            match known.held_by(**id) {
                0 => {}
                1 => text.push_str("; it holds a `sync::Mutex`"),
                several => _ = write!(text, "; it holds {several} of `sync::Mutex`"),
            }
            if let Some(holder) = known.waited_for_by(**id) {
                let holder = known.holder(holder);
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

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// How many locks a task holds.
    fn held_by(&self, task: u64) -> usize {
        let holders = self.locks.values().filter_map(|lock| lock.holder);
        holders
            .filter(|holder| *holder == Holder::Task(task))
            .count()
    }

    /// The holder of the lock that a task waits for.
    fn waited_for_by(&self, task: u64) -> Option<Holder> {
        let mut locks = self.locks.values();
        locks.find(|lock| lock.waiting.contains(&task))?.holder
    }

    fn holder(&self, holder: Holder) -> String {
        let known = match holder {
            Holder::Task(task) => self.by_id.get(&task),
            Holder::NoTask => None,
        };
        known.map_or_else(
            || "code outside of tasks".to_owned(),
            |task| format!("the {task}"),
        )
    }
}
