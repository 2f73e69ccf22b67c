//! The worker that ran a task first: the task is in its list until it is complete, wherever it runs.

use super::cell::TaskRef;
use super::local::Local;
use super::state::{Left, Seized};
use crate::mailbox::Posted;
use doorbell_machine::{Cell, Machine};

impl<M: Machine> TaskRef<M> {
    /// A complete task leaves its home worker's list, and the worker's reference goes.
    pub(super) fn dispose(self, local: &Local<M>) {
        // SAFETY: written before, by whoever had the own node then; the caller has its reference.
        let home = self.header().home.with(|home| unsafe { *home });
        let Some(home) = home.filter(|_| !self.header().state.is_seized()) else {
            return self.release();
        };
        // Not of this worker's scheduler, if it was raised to that.
        let home = &self.last().scheduler().remotes()[usize::from(home)];
        if local.is(home) {
            self.disown(local);
            return self.release();
        }
        // Only that worker may touch its list.
        // SAFETY: the node is in no queue, and the reference goes with it.
        match unsafe { local.send_home(home, self.node()) } {
            Posted::Yes => {}
            Posted::Closed => self.leave(),
        }
    }

    /// The caller has the worker's reference and nobody to hand it to.
    pub(super) fn leave(self) {
        match self.header().state.leave() {
            Left::ToHome => {}
            Left::ToCaller => self.release(),
        }
    }
}

/// The list of a worker's tasks: only the worker calls these.
impl<M: Machine> TaskRef<M> {
    /// Enters the worker's list, if it is in none yet. The caller has taken its own node from a queue.
    pub(super) fn adopt(self, local: &Local<M>) {
        let here = local.remote().worker() as u16;
        let first = self.header().home.with_mut(|home| {
            // SAFETY: it is of who has taken the own node. A worker above that polls the task reads it only
            // where it finds that the task is not behind.
            let home = unsafe { &mut *home };
            home.is_none().then(|| *home = Some(here)).is_some()
        });
        if !first {
            return;
        }
        let older = local.newest.replace(Some(self));
        local.count_live(1);
        // SAFETY: the worker owns the links of its tasks.
        self.header()
            .links
            .with_mut(|links| unsafe { (*links).older = older });
        if let Some(older) = older {
            // SAFETY: as above; another task's links.
            older
                .header()
                .links
                .with_mut(|links| unsafe { (*links).newer = Some(self) });
        }
    }

    /// Leaves the worker's list.
    pub(super) fn disown(self, local: &Local<M>) {
        // SAFETY: as in `adopt`.
        let (newer, older) = self
            .header()
            .links
            .with_mut(|links| unsafe { ((*links).newer.take(), (*links).older.take()) });
        local.count_live(-1);
        match newer {
            // SAFETY: as in `adopt`.
            Some(newer) => newer
                .header()
                .links
                .with_mut(|links| unsafe { (*links).older = older }),
            None => local.newest.set(older),
        }
        if let Some(older) = older {
            // SAFETY: as in `adopt`.
            older
                .header()
                .links
                .with_mut(|links| unsafe { (*links).newer = newer });
        }
    }

    /// Ends a task of a worker that closes.
    pub(super) fn end_at_close(self, local: &Local<M>) {
        self.disown(local);
        match self.header().state.seize() {
            Seized::Elsewhere => {}
            Seized::ElsewhereAndLeft => self.release(),
            Seized::Mine => {
                self.drop_future();
                self.complete();
                self.release();
            }
        }
    }
}
