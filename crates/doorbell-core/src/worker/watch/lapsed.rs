//! Claims and searches whose worker gets no CPU: a watchdog revokes them.

use super::limits::SOON_NS;
use crate::bell::Look;
use crate::scheduler::idle::Searching;
use crate::worker::Worker;
use doorbell_machine::{Bug, Machine, Mark};

impl<M: Machine> Worker<M> {
    /// Ends the search of each worker that has been counted as searching since this watchdog's last look, at least
    /// [`SOON_NS`] ago: that worker seems to get no CPU. If it was the last to search, wakers that relied on
    /// it woke no worker, so the watchdog scans the others after this. If it takes something, it stops being a
    /// watchdog, and wakes another worker for the rest.
    pub(in crate::worker) fn end_lapsed_searches(&self) {
        let now_ns = M::now_ns();
        if now_ns.saturating_sub(self.watch.searchers_ns.get()) < SOON_NS {
            return;
        }
        self.watch.searchers_ns.set(now_ns);
        let remote = self.shared.remote();
        let idle = remote.scheduler().idle();
        if idle.lapse_since(&self.watch.searchers, remote.worker()) == Searching::None {
            M::fence_announce();
        }
        self.wake_left_out();
    }

    /// Wakes each worker that sleeps, is not in the idle set and was not told, at this look and at the last one. Either
    /// the waker that took it lost its CPU before the post, or its claim lapsed. When it has woken, it can be claimed
    /// again.
    fn wake_left_out(&self) {
        let scheduler = self.shared.remote().scheduler();
        for other in scheduler.remotes() {
            let is_left_out = !scheduler.idle().holds(other.worker())
                && !scheduler.idle().is_searching(other.worker())
                && other.bell().look() == Look::Parked
                && !other.is_off();
            let sleep = is_left_out.then(|| other.sleeps());
            if self.watch.searchers.note_left_out(other.worker(), sleep)
                && !M::breaks(Bug::IdleTakeNeverRevoked)
            {
                M::mark(Mark::IdleTakeRevoked);
                other.request_pass();
            }
        }
    }
}
