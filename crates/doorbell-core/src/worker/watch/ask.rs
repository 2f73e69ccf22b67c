//! A worker asks others to look after what waits here: before a poll that may be long, and before it is throttled. (A
//! thread that finds work behind a poll under way asks in `scheduler/offer.rs`.)

use crate::worker::{Local, Worker};
use doorbell_machine::Machine;

impl<M: Machine> Local<M> {
    /// The last poll of the task that the worker polls now took [`WATCHED_NS`](super::WATCHED_NS). If timers, its own or
    /// its sleepers', may wait behind the poll, or descriptors, because nobody sleeps in the poller, wakes another worker.
    pub(in crate::worker) fn begin_long_poll(&self) {
        let remote = self.remote();
        remote.set_expects_long(true);
        let scheduler = remote.scheduler();
        if scheduler.remotes().len() == 1 {
            return;
        }
        // Others fire no timer of a worker that is off, and none of a paused clock.
        let mut has_timers = !self.is_off() && !self.clock().is_frozen();
        if has_timers {
            // A worker that leaves its timers to this one from now on finds it listed; others are seen here.
            self.list_behind_fence();
            let left_ns = scheduler.tree().map(|tree| tree.next_ns(remote.worker()));
            has_timers = remote.next_global_ns().min(left_ns.unwrap_or(u64::MAX)) != u64::MAX;
        }
        if has_timers || remote.driver().lacks_keeper() {
            scheduler.ask_for_look(remote.worker());
        }
    }
}

impl<M: Machine> Worker<M> {
    /// Before the first poll after an idle time, and before calls: lists this worker in the work set, for the sleepers that
    /// leave their timers to it.
    pub(in crate::worker) fn list_for_sleepers(&self) {
        self.local.set_unlisted(false);
        if self.has_others() && self.tree().is_some() {
            self.local.list_behind_fence();
        }
    }

    /// Offers others what they may take while this worker is throttled. This only saves time: a watchdog would also
    /// find a worker with work whose pulse does not move.
    pub(in crate::worker) fn leave_to_others(&self) {
        let remote = self.shared.remote();
        let has_timers = self.next_for(remote) != u64::MAX;
        if has_timers {
            // Others expire them meanwhile, as of one in a long poll.
            remote.set_expects_long(true);
            self.local.list_behind_fence();
        }
        if self.local.has_surplus() {
            remote.scheduler().offer(remote.worker());
        }
        if has_timers || remote.has_work() || remote.driver().lacks_keeper() {
            remote.scheduler().arm_watchdog(remote.worker());
        }
    }
}
