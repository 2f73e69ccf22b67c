//! What a lane counts, and how it is read.

use crate::mailbox::FrontCounts;
use doorbell_machine::Counter;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The counts that the lane itself writes.
        #[derive(Debug, Default)]
        pub struct LaneTally<C> {
            $($(#[$doc])* pub $name: C,)+
        }

        /// All counts of a lane at one moment, since the lane began.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct LaneCounts {
            $($(#[$doc])* pub $name: u64,)+
            /// Wake syscalls made to this lane.
            pub rings: u64,
            /// Of those, the ones to a lane that did not need it: watching, running, or parked
            /// and rung already (only the switches `always_ring` and `base` make them).
            pub rings_awake: u64,
            /// Of all, those in place of a thread of a lower class, which has told the lane and was
            /// about to ring it.
            pub rings_helped: u64,
            /// Posters that told the lane in place of one that was stalled in front of them.
            pub rescues: u64,
            /// Closures that nobody waited for and that panicked.
            pub posts_panicked: u64,
        }

        impl LaneCounts {
            pub(super) fn of<C: Counter>(own: &LaneTally<C>, front: &FrontCounts<C>) -> Self {
                LaneCounts {
                    $($name: own.$name.get(),)+
                    rings: front.rings.get(),
                    rings_awake: front.rings_awake.get(),
                    rings_helped: front.rings_helped.get(),
                    rescues: front.rescues.get(),
                    posts_panicked: front.posts_panicked.get(),
                }
            }

            /// What was counted since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &LaneCounts) -> LaneCounts {
                LaneCounts {
                    $($name: self.$name.wrapping_sub(earlier.$name),)+
                    rings: self.rings.wrapping_sub(earlier.rings),
                    rings_awake: self.rings_awake.wrapping_sub(earlier.rings_awake),
                    rings_helped: self.rings_helped.wrapping_sub(earlier.rings_helped),
                    rescues: self.rescues.wrapping_sub(earlier.rescues),
                    posts_panicked: self.posts_panicked.wrapping_sub(earlier.posts_panicked),
                }
            }
        }
    };
}

counts! {
    /// Takes of the mailbox that found something.
    takes,
    /// Calls, wakes and tasks delivered by them.
    delivered,
    /// Polls of tasks.
    polls,
    /// Full runs of the scheduler.
    passes,
    /// Times that the lane began to watch.
    watches,
    /// Times that a watching lane was notified.
    notified,
    /// Times that the lane's thread went to block.
    parks,
    /// Times that it was about to, and found a post, work at another lane or a timer that was due.
    parks_avoided,
    /// Parks that a ring ended.
    unparks_rung,
    /// Parks that the last test ended before the thread slept.
    unparks_last_test,
    /// Parks that a time ended: a timer's, or that of a look.
    unparks_deadline,
    /// Parks that a descriptor ended.
    unparks_ready,
    /// Timers that fired.
    timers_fired,
    /// Of those, the timers of other lanes, which were stuck in long polls.
    timers_for_stuck,
    /// Descriptors of other lanes, which were stuck in long polls, that were found ready.
    ready_for_stuck,
    /// Descriptors of other lanes that were found ready under a flood.
    ready_for_others,
    /// Looks at descriptors that were put off under a flood: it was not woken for each.
    looks_put_off,
    /// Of those, the ones that were made sooner, since nobody else wanted the CPU.
    looks_ushered,
    /// Nanoseconds that it watched in vain: it parked after them.
    watched_vain_ns,
    /// Times that a watching lane noticed that the OS had given its CPU to somebody else.
    preemptions,
    /// Searches for work at other lanes.
    searches,
    /// Of those, the ones that found some.
    thefts,
    /// Of those, the ones at lanes that the watchdog had found stuck.
    thefts_for_stuck,
    /// Tasks that were taken from other lanes, where their number was known.
    stolen,
    /// Times that the lane was idle and was claimed by somebody who had work for it.
    claims,
    /// Times that the lane became the sentinel.
    sentinels,
    /// Times that it was so no more.
    sentinels_ended,
    /// Times that it slept although there was something to do, since its budget was used up.
    rests,
    /// Nanoseconds of those.
    rested_ns,
}
