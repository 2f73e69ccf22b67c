//! How a worker that is off hands on the tasks that may run elsewhere.

use super::Local;
use crate::link::Node;
use crate::mailbox::Posted;
use crate::queue::Chain;
use crate::worker::tasks::place::place;
use doorbell_machine::{Machine, Mark};
use std::ptr::NonNull;

impl<M: Machine> Local<M> {
    /// Notices that the worker was taken off or put back. If it is off, hands on its tasks that may run elsewhere.
    /// Runs on the worker, in a call that the thread which changed it posts.
    pub fn follow(&self) {
        self.off.set(self.remote().is_off());
        if self.off.get() {
            if let Some((chain, _)) = self.remote().take_injected() {
                self.hand_on_chain(chain);
            }
            if let Some(node) = self.take_stolen() {
                let _ = self.hand_on(node);
            }
        }
        // Read anew each time: a worker that was put back meanwhile would hand on to itself.
        while self.remote().is_off() {
            let Some(node) = self.pop_movable() else {
                return;
            };
            if !self.hand_on(node) {
                // The task is in this worker's own queue again, so the loop would never end.
                return;
            }
        }
        self.off.set(false);
    }

    /// Whether the worker has noticed that it is off.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.off.get()
    }

    pub(in crate::worker) fn hand_on_chain(&self, chain: Chain<M>) {
        chain.drain(|node| {
            let _ = self.hand_on(node);
        });
    }

    /// Gives a task that is in no queue to an idle worker near to this one, else to the nearest one that is on. Returns whether another worker has it. If
    /// not, it is in this worker's own queue.
    #[must_use]
    pub(in crate::worker) fn hand_on(&self, node: NonNull<Node<M>>) -> bool {
        M::mark(Mark::OfflineHandOn);
        let scheduler = self.remote().scheduler();
        let to = scheduler.nearest_on(self.remote().worker());
        if !self.is(to) {
            // SAFETY: the node is that of a task that may run anywhere, alive until it has run.
            let posted = unsafe { place(scheduler, to, node) };
            if posted == Posted::Yes {
                return true;
            }
        }
        // Either this worker was put back and has not noticed yet, or the runtime ends. Then this worker ends the
        // task later, when it closes: the caller may be inside a wake.
        // SAFETY: as above; this is the worker's thread.
        unsafe { self.keep(node) };
        false
    }
}
