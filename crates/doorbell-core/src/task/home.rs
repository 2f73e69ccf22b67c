//! The worker that ran a task first: the task is in its list until it is complete, wherever it runs.

use super::cell::TaskRef;
use super::schedule::Schedule;
use doorbell_machine::Cell as _;
use std::cell::Cell;

/// The tasks that live on a worker: those that ran there first and have not left the list. Only the worker's own thread
/// uses it.
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
    /// How many there are.
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
            // SAFETY: the worker owns the links of its tasks, and a task of its list is alive.
            task.header().links.with(|links| unsafe { (*links).older })
        })
    }

    /// Puts a task in, which is in no list.
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

    /// Takes a task out, which is in this list.
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
    /// Makes that worker the home of the task, if it has none. Whether it had none. The caller has taken its own node
    /// from a queue.
    #[inline]
    pub(crate) fn settle(self, worker: u16) -> bool {
        self.header().home.with_mut(|home| {
            // SAFETY: it is of who has taken the own node. A worker above that polls the task reads it only
            // where it finds that the task is not behind.
            let home = unsafe { &mut *home };
            home.is_none().then(|| *home = Some(worker)).is_some()
        })
    }

    /// The number of its home worker, if it is in that one's list. The caller has the worker's reference.
    #[inline]
    pub(crate) fn home(self) -> Option<usize> {
        // SAFETY: written before, by whoever had the own node then; the caller has its reference.
        let home = self.header().home.with(|home| unsafe { *home });
        let listed = home.filter(|_| !self.header().state.is_seized());
        listed.map(usize::from)
    }
}
