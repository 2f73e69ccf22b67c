//! Timers that threads outside of a scheduler arm: any worker of it may take them.

use super::Scheduler;
use crate::link::Node;
use crate::mailbox::{Posted, Pushed};
use crate::scheduler::Member;
use doorbell_machine::Machine;
use std::ptr::NonNull;

impl<M: Machine> Scheduler<M> {
    /// Posts a timer that any worker may take in its next pass. Asks `prefer` for a pass if it is idle, else
    /// another idle worker. If none is idle, asks `prefer`, and the first worker that makes a pass takes the timer.
    ///
    /// # Panics
    /// As for [`Remote::post`].
    ///
    /// # Safety
    /// As for [`Remote::post`]; the node is one of a timer that is not armed yet.
    pub(crate) unsafe fn post_timer(&self, prefer: &Member<M>, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        match unsafe { self.timers().push(node) } {
            Pushed::First | Pushed::Behind => {}
            Pushed::Closed => return Posted::Closed,
            Pushed::Twice => panic!("a timer was posted twice"),
        }
        // Either this sees a worker in the idle set, or that worker's last look sees the timer.
        M::fence_recheck();
        self.find_idle(prefer).request_pass();
        Posted::Yes
    }
}
