//! The common mailbox of a scheduler, for what any one of its workers may deliver: timers that threads outside the
//! scheduler arm, movable timers of a worker whose wheel has a visitor, and parcels that find no idle worker. It is not
//! one worker's, because that worker may be inside a long poll.
//!
//! A worker takes it in each pass, before it parks, and, where tasks run by rank, before each poll. What it brings is
//! short to deliver: a timer is armed here, and a task that is woken here is queued like any other.

use super::Scheduler;
use crate::link::Node;
use crate::mailbox::{Mailbox, Post, Posted, Pushed};
use crate::scheduler::Member;
use crate::worker::remote::posted_twice;
use doorbell_machine::Machine;
use std::ptr::NonNull;

impl<M: Machine> Scheduler<M> {
    /// The mailbox of what any worker may deliver.
    #[inline]
    pub(crate) fn common(&self) -> &Mailbox<M> {
        &self.common
    }
}

/// Any worker of the scheduler, to post to. Asks this one for a pass if it is idle, else another idle worker. If none
/// is idle, asks this one, and the first worker that looks takes what was posted.
pub(crate) struct AnyWorker<'a, M: Machine>(pub(crate) &'a Member<M>);

impl<M: Machine> AnyWorker<'_, M> {
    fn tell(&self, pushed: Pushed) -> Posted {
        match pushed {
            Pushed::First | Pushed::Behind => {}
            Pushed::Closed => return Posted::Closed,
            Pushed::Twice => posted_twice(),
        }
        // Either this sees a worker in the idle set, or that worker's last look sees what was posted.
        M::fence_recheck();
        self.0.scheduler().find_idle(self.0).request_pass();
        Posted::Yes
    }
}

// SAFETY: of the workers that take the common mailbox, one gets the node, and delivers it.
unsafe impl<M: Machine> Post<M> for AnyWorker<'_, M> {
    unsafe fn post(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        self.tell(unsafe { self.0.scheduler().common.push(node) })
    }

    unsafe fn post_entered(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        self.tell(unsafe { self.0.scheduler().common.push_entered(node) })
    }
}
