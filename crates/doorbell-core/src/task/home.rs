//! A task's home worker: the worker that first took its own node from a queue. It keeps the task in its list until
//! the task is complete, wherever the task runs.

use super::cell::TaskRef;
use super::schedule::Schedule;
use doorbell_machine::Cell as _;
use std::cell::Cell;

/// The tasks whose home worker this is and which have not left the list. Only the worker's own thread uses it.
#[derive(Debug)]
pub(crate) struct TaskList<M: Schedule> {
    /// Linked through the tasks' headers.
    newest: Cell<Option<TaskRef<M>>>,
    len: Cell<usize>,
}

impl<M: Schedule> Default for TaskList<M> {
    fn default() -> Self {
        TaskList {
            newest: Cell::new(None),
            len: Cell::new(0),
        }
    }
}

impl<M: Schedule> TaskList<M> {
    /// The number of tasks.
    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }

    /// The task that entered last.
    pub(crate) fn newest(&self) -> Option<TaskRef<M>> {
        self.newest.get()
    }

    /// The tasks, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TaskRef<M>> {
        std::iter::successors(self.newest.get(), |task| {
            // SAFETY: the worker owns the links of the tasks in its list, and they are alive.
            task.header().links.with(|links| unsafe { (*links).older })
        })
    }

    /// Adds a task that is in no list.
    pub(crate) fn enter(&self, task: TaskRef<M>) {
        let older = self.newest.replace(Some(task));
        self.len.set(self.len.get() + 1);
        // SAFETY: the worker owns the links of its tasks.
        task.header()
            .links
            .with_mut(|links| unsafe { (*links).older = older });
        if let Some(older) = older {
            // SAFETY: as above; another task's links.
            older
                .header()
                .links
                .with_mut(|links| unsafe { (*links).newer = Some(task) });
        }
    }

    /// Removes a task that is in this list.
    pub(crate) fn remove(&self, task: TaskRef<M>) {
        // SAFETY: as in `enter`.
        let (newer, older) = task
            .header()
            .links
            .with_mut(|links| unsafe { ((*links).newer.take(), (*links).older.take()) });
        self.len.set(self.len.get() - 1);
        match newer {
            // SAFETY: as in `enter`.
            Some(newer) => newer
                .header()
                .links
                .with_mut(|links| unsafe { (*links).older = older }),
            None => self.newest.set(older),
        }
        if let Some(older) = older {
            // SAFETY: as in `enter`.
            older
                .header()
                .links
                .with_mut(|links| unsafe { (*links).newer = newer });
        }
    }
}

impl<M: Schedule> TaskRef<M> {
    /// Makes `worker` the task's home worker, if it has none yet. Returns whether it had none. The caller has taken
    /// the own node from a queue.
    #[inline]
    pub(crate) fn settle(self, worker: u16) -> bool {
        self.header().home.with_mut(|home| {
            // SAFETY: only the worker that has taken the own node accesses it. A worker above that polls the task
            // reads it only if the task is not behind: then the own node has been taken, and this is over.
            let home = unsafe { &mut *home };
            home.is_none().then(|| *home = Some(worker)).is_some()
        })
    }

    /// Whether it has a home worker. The caller has taken the own node from a queue.
    pub(crate) fn has_settled(self) -> bool {
        // SAFETY: as in `settle`.
        self.header().home.with(|home| unsafe { (*home).is_some() })
    }

    /// The number of the home worker, if its list still has the task. The caller has the worker's reference.
    #[inline]
    pub(crate) fn home(self) -> Option<usize> {
        // SAFETY: the worker that first took the own node has written it, before the caller got the worker's
        // reference. It does not change after that.
        let home = self.header().home.with(|home| unsafe { *home });
        let listed = home.filter(|_| !self.header().state.is_seized());
        listed.map(usize::from)
    }
}
