//! The counts of a worker, and how they are read.

use crate::worker::RemoteCounts;
use doorbell_machine::Counter;

macro_rules! counts {
    (
        own { $($(#[$doc:meta])* $own:ident),+ $(,)? }
        remote { $($(#[$remote_doc:meta])* $remote:ident),+ $(,)? }
    ) => {
        /// The counts that the worker itself writes.
        #[derive(Debug, Default)]
        pub struct WorkerTally<C> {
            $($(#[$doc])* pub $own: C,)+
        }

        /// All counts of a worker since it began, read at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerCounts {
            $($(#[$doc])* pub $own: u64,)+
            $($(#[$remote_doc])* pub $remote: u64,)+
        }

        impl WorkerCounts {
            pub(super) fn of<C: Counter>(own: &WorkerTally<C>, remote: &RemoteCounts<C>) -> Self {
                WorkerCounts {
                    $($own: own.$own.get(),)+
                    $($remote: remote.$remote.get(),)+
                }
            }

            /// What was counted since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &WorkerCounts) -> WorkerCounts {
                WorkerCounts {
                    $($own: self.$own.wrapping_sub(earlier.$own),)+
                    $($remote: self.$remote.wrapping_sub(earlier.$remote),)+
                }
            }
        }
    };
}

counts! {
    own {
        /// Takes of the mailbox that found something.
        takes,
        /// Calls, wakes and tasks delivered by them.
        delivered,
        /// Polls of tasks.
        polls,
        /// Passes: full looks at every queue, timers and descriptors.
        passes,
        /// Times that the worker began to spin.
        spins,
        /// Times that a spinning worker was notified.
        notified,
        /// Times that the worker's thread went to block.
        parks,
        /// Times that it was about to block, and found a post, work at another worker, or a timer that was due.
        parks_avoided,
        /// Parks that a ring ended.
        unparks_rung,
        /// Parks that the last test of the OS ended before the thread slept.
        unparks_last_test,
        /// Parks that ended because their time had come: that of a timer, or of a look at other workers.
        unparks_deadline,
        /// Parks that a descriptor ended.
        unparks_ready,
        /// Timers that fired.
        timers_fired,
        /// Of those, timers of other workers that were stuck in long polls.
        timers_for_stuck,
        /// Of those, timers of other workers that slept, or that were set aside (`timer_pull=on`).
        timers_pulled,
        /// Visits of sleeping workers' wheels that another thread was in. The worker comes back 20 us later.
        pulls_refused,
        /// Such visits that cost a membarrier, because the worker was awake: it had just woken, or was set aside.
        pulls_fenced,
        /// Parks until the first timer of all workers that ended for nothing: another worker had woken and fired it.
        duties_ended,
        /// Times that it set a stuck worker aside, and looked after sleepers in its place.
        set_aside,
        /// Nanoseconds that it spun in vain: the quiet time at the end of spins that nothing ended.
        spun_vain_ns,
        /// Times that a spinning worker noticed that the OS had given its CPU to another thread.
        preemptions,
        /// Searches for work at other workers.
        searches,
        /// Of those, the ones that took tasks.
        thefts,
        /// Tasks taken from other workers, where their number was known.
        stolen,
        /// Times that the worker was idle and a waker claimed it.
        claims,
        /// Times that the worker became a watchdog.
        watchdogs,
        /// Times that it stopped being one.
        watchdogs_ended,
        /// Times that it slept although it had something to do, because its budget was used up.
        throttles,
        /// Nanoseconds of those sleeps.
        throttled_ns,
    }
    remote {
        /// Wake syscalls made to this worker.
        rings,
        /// Of those, the ones that the worker did not need: it was spinning, running, or parked and rung
        /// already (only the switches `always_ring` and `base` make them).
        rings_awake,
        /// Of all rings, those made in place of a thread of a lower class that had notified the worker
        /// and was about to ring it.
        rings_helped,
        /// Times that a poster notified the worker in place of an earlier, stalled poster.
        rings_for_stalled,
        /// Tasks that were left to this worker although it was chosen as idle: another task lay there already, or
        /// it had begun to run something else.
        stacked,
        /// How often the callers of tasks that came to this worker had tried another one before, which seemed idle, and
        /// lost it to a third caller.
        claims_lost,
        /// Tasks whose timers this worker fired for another one (`timers_pulled`), and that it sent to an idle worker
        /// because another task waited here. That worker is mostly the one that slept: it wakes for its timer after
        /// all.
        pulls_placed,
        /// Posted closures without a waiting caller that panicked.
        posts_panicked,
    }
}
