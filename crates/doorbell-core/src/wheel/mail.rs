//! A timer that no worker armed itself: any worker of the scheduler takes it.

use crate::mailbox::{Posted, Pushed};
use crate::node::Node;
use crate::scheduler::Scheduler;
use crate::worker::Remote;
use doorbell_machine::Machine;
use std::ptr::NonNull;

impl<M: Machine> Scheduler<M> {
    /// Posts a timer that any worker may take in its next pass, and tells `prefer` of it if that one is
    /// idle, else an idle worker. If none is, the first worker that comes to a pass takes it.
    ///
    /// # Panics
    /// As for [`Remote::post`].
    ///
    /// # Safety
    /// As for [`Remote::post`]; the node is that of a timer which is not armed yet.
    pub(crate) unsafe fn post_timer(&self, prefer: &Remote<M>, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        match unsafe { self.timers().push(node) } {
            Pushed::First | Pushed::Behind => {}
            Pushed::Closed => return Posted::Closed,
            Pushed::Twice => panic!("a timer was posted twice"),
        }
        // Either this sees a worker in the idle set, or that worker's last look sees the timer.
        M::fence_recheck();
        self.place(prefer).request_pass();
        Posted::Yes
    }
}
