//! A task's home worker: the worker that first took its own node from a queue. It keeps the task in its list until
//! the task is complete, wherever the task runs.
//!
//! The worker touches its list without a lock. While its runtime ends, the thread that ends it may visit the list of a
//! worker that is inside a long poll ([`TaskList::visit`]), and seize the tasks there:
//!
//! | word | value | meaning |
//! |---|---|---|
//! | `inside` | 1 | the worker touches its list |
//! | `visited` | 0 `FREE` | the worker's |
//! | | 1 `VISITED` | a visitor's |
//! | | 2 `AWAITED` | a visitor's, and the worker, which ends, sleeps until the visitor has left |
//!
//! Store buffering, as at the gate of a wheel: the worker says that it is inside and looks at `visited`; the visitor
//! marks that word and looks whether the worker is inside. With a fence on both sides at least one of them sees the
//! other, and the one that does steps back. The worker's fence is the light one: the visitor pays. A worker that steps
//! back does not wait: it cancels the task that was to enter, or leaves the worker's reference of the complete one to
//! the thread that seizes it (`State::leave`). Only a worker that ends waits.

use super::cell::TaskRef;
use super::schedule::Schedule;
use crate::mailbox::Batch;
use doorbell_machine::{Bug, Cell as _, Fenced, Ordering, Parker, Word};
use std::num::NonZeroU16;

/// The number of a home worker, which starts at 0. In two bytes although there may be none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home(NonZeroU16);

impl Home {
    fn of(worker: u16) -> Self {
        let number = worker.checked_add(1).and_then(NonZeroU16::new);
        Home(number.expect("a scheduler has fewer workers"))
    }

    fn worker(self) -> usize {
        usize::from(self.0.get() - 1)
    }
}

const FREE: u32 = 0;
const VISITED: u32 = 1;
const AWAITED: u32 = 2;
const _: () = assert!(FREE < VISITED && VISITED < AWAITED);

/// The tasks whose home worker this is and which have not left the list. The worker's thread uses it, or a visitor.
pub(crate) struct TaskList<M: Schedule> {
    inside: M::U32,
    visited: M::U32,
    listed: M::Cell<Listed<M>>,
}

/// What the list has.
pub(crate) struct Listed<M: Schedule> {
    /// Linked through the tasks' headers.
    newest: Option<TaskRef<M>>,
    len: usize,
    /// What visitors took out of the mailbox and left to the worker.
    pub(crate) mail: Vec<Batch<M>>,
}

// SAFETY: only the worker uses `listed`, or one visitor at a time, while the worker does not; see above.
unsafe impl<M: Schedule> Sync for TaskList<M> {}
// SAFETY: as for Sync. A visitor leaves the tasks in it whose future may not leave the worker's thread.
unsafe impl<M: Schedule> Send for TaskList<M> {}

impl<M: Schedule> Default for TaskList<M> {
    fn default() -> Self {
        TaskList {
            inside: M::U32::new(0),
            visited: M::U32::new(FREE),
            listed: M::Cell::new(Listed {
                newest: None,
                len: 0,
                mail: Vec::new(),
            }),
        }
    }
}

/// A visitor has the list for as long as this is there.
struct ListVisit<'a, M: Schedule> {
    list: &'a TaskList<M>,
    /// The parker of the worker whose list it is.
    parker: &'a M::Parker,
}

impl<M: Schedule> Drop for ListVisit<'_, M> {
    fn drop(&mut self) {
        let word = &self.list.visited;
        // ORDER: Release pairs with the Acquire of the worker's look: what the visitor did is visible.
        if word.swap(FREE, Ordering::Release) == AWAITED {
            self.parker.ring(word);
        }
    }
}

impl<M: Schedule> TaskList<M> {
    /// The worker touches its list. `None`, and nothing is done, while a visitor has it. `f` calls nothing that comes
    /// back to the list. Only the worker's own thread calls this.
    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Listed<M>) -> R) -> Option<R> {
        // ORDER: Relaxed; in front of the fence, whose partner is the visitor's.
        self.inside.store(1, Ordering::Relaxed);
        if !M::breaks(Bug::TaskListNoFence) {
            M::fence_light();
        }
        // ORDER: Acquire pairs with the Release of a visitor that leaves: what it did is visible.
        let is_free = self.visited.load(Ordering::Acquire) == FREE;
        // SAFETY: the worker is inside, and no visitor is.
        let done = is_free.then(|| self.listed.with_mut(|listed| f(unsafe { &mut *listed })));
        // ORDER: Release pairs with the Acquire of a visitor's look: what the worker did in there is visible.
        self.inside.store(0, Ordering::Release);
        done
    }

    /// As [`TaskList::with`], but waits until no visitor has the list: for a worker that ends. It sleeps, because the
    /// visitor may have lost its CPU to this worker.
    pub(crate) fn with_waiting<R>(&self, parker: &M::Parker, f: impl Fn(&mut Listed<M>) -> R) -> R {
        loop {
            if let Some(done) = self.with(&f) {
                return done;
            }
            // ORDER: Relaxed; it publishes nothing. On failure the visitor has left, or the worker has said before that it
            // waits.
            let _ = self.visited.compare_exchange(
                VISITED,
                AWAITED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            let _ = parker.park(&self.visited, AWAITED, None);
        }
    }

    /// A thread that is not the worker has the list while it runs `f`. `None`, and nothing is done, while the worker
    /// touches it, another visitor has it, or if the OS refuses the fence. `parker` is the worker's.
    pub(crate) fn visit<R>(
        &self,
        parker: &M::Parker,
        f: impl FnOnce(&mut Listed<M>) -> R,
    ) -> Option<R> {
        // ORDER: Acquire pairs with the Release of the last visitor. A read-modify-write, so of two visitors one is
        // refused. Relaxed on failure: nothing is done.
        self.visited
            .compare_exchange(FREE, VISITED, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        let visit = ListVisit { list: self, parker };
        M::fence_recheck();
        if M::fence_heavy() == Fenced::Refused {
            return None;
        }
        // ORDER: Acquire pairs with the Release of the worker that leaves.
        if self.inside.load(Ordering::Acquire) != 0 {
            return None;
        }
        // SAFETY: the worker is not inside, and sees the mark before it enters.
        let done = self.listed.with_mut(|listed| f(unsafe { &mut *listed }));
        drop(visit);
        Some(done)
    }

    /// The number of tasks; 0 while a visitor has the list.
    pub(crate) fn len(&self) -> usize {
        self.with(|listed| listed.len).unwrap_or(0)
    }

    /// Makes this worker, of that number, the home worker of a task that has none, and adds the task. Returns whether
    /// it did: not while a visitor has the list. The caller has taken the own node from a queue, or is about to put it
    /// into the worker's own queue.
    pub(crate) fn enter(&self, task: TaskRef<M>, worker: u16) -> bool {
        self.with(|listed| {
            task.set_home(worker);
            listed.add(task);
        })
        .is_some()
    }

    /// Removes a task that has entered this list. Returns whether it did: not if a visitor has seized the task, or has
    /// the list. The caller has the worker's reference.
    pub(crate) fn remove(&self, task: TaskRef<M>) -> bool {
        let removed = self.with(|listed| {
            let is_here = !task.header().state.is_seized();
            if is_here {
                listed.remove(task);
            }
            is_here
        });
        removed == Some(true)
    }
}

impl<M: Schedule> Listed<M> {
    /// Takes out the task that entered last.
    pub(crate) fn pop_newest(&mut self) -> Option<TaskRef<M>> {
        let newest = self.newest?;
        self.remove(newest);
        Some(newest)
    }

    /// The tasks, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TaskRef<M>> {
        std::iter::successors(self.newest, |task| task.older())
    }

    fn add(&mut self, task: TaskRef<M>) {
        let older = self.newest.replace(task);
        self.len += 1;
        // SAFETY: who has the list owns the links of its tasks.
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
    pub(crate) fn remove(&mut self, task: TaskRef<M>) {
        // SAFETY: as in `add`.
        let (newer, older) = task
            .header()
            .links
            .with_mut(|links| unsafe { ((*links).newer.take(), (*links).older.take()) });
        self.len -= 1;
        match newer {
            // SAFETY: as in `add`.
            Some(newer) => newer
                .header()
                .links
                .with_mut(|links| unsafe { (*links).older = older }),
            None => self.newest = older,
        }
        if let Some(older) = older {
            // SAFETY: as in `add`.
            older
                .header()
                .links
                .with_mut(|links| unsafe { (*links).newer = newer });
        }
    }
}

impl<M: Schedule> TaskRef<M> {
    /// Makes `worker` the home worker of a task that has none.
    #[inline]
    fn set_home(self, worker: u16) {
        // SAFETY: only the worker that has taken the own node accesses it. A worker above that polls the task reads it
        // only if the task is not behind: then the own node has been taken, and this is over.
        self.header()
            .home
            .with_mut(|home| unsafe { *home = Some(Home::of(worker)) });
    }

    /// The task that entered its list before this one and is still there. The caller has the list.
    fn older(self) -> Option<TaskRef<M>> {
        // SAFETY: who has the list owns the links of its tasks, and they are alive.
        self.header().links.with(|links| unsafe { (*links).older })
    }

    /// Whether it has a home worker. The caller has taken the own node from a queue.
    pub(crate) fn has_settled(self) -> bool {
        // SAFETY: as in `set_home`.
        self.header().home.with(|home| unsafe { (*home).is_some() })
    }

    /// The number of the home worker, if its list still has the task. The caller has the worker's reference.
    #[inline]
    pub(crate) fn home(self) -> Option<usize> {
        // SAFETY: the worker that first took the own node has written it, before the caller got the worker's
        // reference. It does not change after that.
        let home = self.header().home.with(|home| unsafe { *home });
        let listed = home.filter(|_| !self.header().state.is_seized());
        listed.map(Home::worker)
    }
}
