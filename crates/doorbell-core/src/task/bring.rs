//! What a lane brings to its tasks between two polls: what its descriptors, its timers and the lanes of
//! lower classes have for them. It runs such a task next, so nobody is asked to look after it.

use super::local::Local;
use doorbell_machine::Machine;
use std::cell::Cell;

impl<M: Machine> Local<M> {
    /// Calls `f`, which wakes tasks, and with which nothing follows that may take long.
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

    /// As [`Local::bring`], of what came by mail, if there is a lane and nothing came behind it: calls
    /// may take long.
    pub(crate) fn bring_mail<R>(f: impl FnOnce() -> R) -> R {
        Local::<M>::with_current(|local| match local {
            Some(local) if local.ready().delivers_last() => local.bring(f),
            _ => f(),
        })
    }

    /// One task was pushed, behind a fence. Somebody is to look after it if the poll or call that has
    /// done so goes on for long.
    pub(super) fn leave_to_itself(&self) {
        if !self.brings.get() {
            self.front.crew().watch_over(self.front.lane());
        }
    }
}
