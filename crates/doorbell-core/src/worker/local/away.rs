//! A worker that was taken off: it hands on what may run elsewhere.

use super::Local;
use crate::link::Node;
use crate::mailbox::Posted;
use crate::queue::Chain;
use crate::scheduler::Origin;
use doorbell_machine::{Machine, Mark};
use std::ptr::NonNull;

impl<M: Machine> Local<M> {
    /// The worker was taken off, or put back, and does so: what may run elsewhere goes there. Called
    /// on the worker, by a call that whoever changed it posts.
    pub fn follow(&self) {
        self.off.set(self.remote().is_off());
        if self.off.get() {
            if let Some((chain, _)) = self.remote().take_injected() {
                self.hand_on_chain(chain);
            }
            if let Some(node) = self.stolen.take() {
                let _ = self.hand_on(node);
            }
        }
        // Looked at each time: put back meanwhile, it would hand on to itself.
        while self.remote().is_off() {
            let Some(node) = self.pop_movable() else {
                return;
            };
            if !self.hand_on(node) {
                // The others have ended, and this worker is about to: it would go on for ever.
                return;
            }
        }
        self.off.set(false);
    }

    /// Whether the worker is off, as it has noticed.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.off.get()
    }

    pub(in crate::worker) fn hand_on_chain(&self, chain: Chain<M>) {
        let mut rest = Some(chain);
        while let Some(chain) = rest {
            let (node, others) = chain.pop();
            // SAFETY: taken out, so it is the caller's, and alive.
            unsafe { node.as_ref() }.leave();
            let _ = self.hand_on(node);
            rest = others;
        }
    }

    /// Gives a task that is in no queue to a worker that is on. Whether another worker has it; else it is in this
    /// worker's own queue.
    #[must_use]
    pub(in crate::worker) fn hand_on(&self, node: NonNull<Node<M>>) -> bool {
        M::mark(Mark::OfflineHandOn);
        let to = self.remote().scheduler().nearest_on(self.remote().worker());
        if !self.is(to) {
            // SAFETY: the node is that of a task that may run anywhere, alive until it has run.
            let posted = unsafe { to.post_task(node, Origin::Outside) };
            if posted == Posted::Yes {
                return true;
            }
        }
        // Put back meanwhile, and not yet told; or the runtime ends, and this worker ends the task in
        // its turn: not here, inside a wake.
        // SAFETY: as above; this is the worker's thread.
        unsafe { self.keep(node) };
        false
    }
}
