//! What a worker brings to its tasks between two polls: what its descriptors, its timers and the workers of
//! lower classes have for them. Where nothing else waits there it runs such a task next, so nobody is
//! asked to look after it.

use super::Local;
use doorbell_machine::Machine;
use std::cell::Cell;

impl<M: Machine> Local<M> {
    /// Calls `f`, which wakes tasks: no poll and no call, which may take long.
    pub(crate) fn bring<R>(&self, f: impl FnOnce() -> R) -> R {
        /// Also where a waker panics.
        struct Brings<'a>(&'a Cell<bool>);
        impl Drop for Brings<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        self.brings.set(true);
        let _brings = Brings(&self.brings);
        f()
    }

    /// As [`Local::bring`], of what came by mail, if there is a worker. Calls that were taken with it go first:
    /// they are to be short.
    pub(crate) fn bring_mail<R>(f: impl FnOnce() -> R) -> R {
        Local::<M>::with_current(|local| match local {
            Some(local) => local.bring(f),
            None => f(),
        })
    }

    /// One task was pushed, behind a fence. Something else goes before it, and may take long: the poll
    /// or call that has pushed it, or what waits here already. Then the others are told of it.
    pub(in crate::worker) fn leave_to_itself(&self) {
        if !self.brings.get() || self.runs_another_first() {
            self.remote.scheduler().offer_one(self.remote.worker());
        }
    }

    /// Whether something else may have its turn before the one task that can move.
    fn runs_another_first(&self) -> bool {
        let pinned = || !self.ready().is_empty() || self.has_pinned_of_groups();
        self.stolen.get().is_some() || pinned() || self.remote.pending()
    }
}
