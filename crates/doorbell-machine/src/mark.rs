//! Marks: rare branches of the protocols. A fuzzer reports which of them it has reached.

macro_rules! marks {
    ($(#[doc = $about:literal] $name:ident),+ $(,)?) => {
        /// A rare branch. Protocol code calls [`Machine::mark`](crate::Machine::mark) in it, which does
        /// nothing except on a machine that counts such branches.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Mark {
            $(#[doc = $about] $name,)+
        }

        impl Mark {
            /// All marks.
            pub const ALL: &[Mark] = &[$(Mark::$name,)+];

            /// The branch in one line: the protocol, and what happened.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self {
                    $(Mark::$name => $about.trim_ascii(),)+
                }
            }
        }
    };
}

marks! {
    /// bell: a notifier found the worker notified already.
    BellAlready,
    /// bell: a notifier found the worker parked, and rings.
    BellMustRing,
    /// bell: a notifier rings in place of one of a lower class.
    BellMustHelp,
    /// bell: a worker was signalled before it announced that it spins.
    BellSignalledBeforeSpin,
    /// bell: a worker was signalled between its spin and its park.
    BellSignalledBeforePark,
    /// bell: the last test before the sleep found the word changed.
    BellLastTest,
    /// bell: a sleep ended although nobody had signalled, and goes on.
    BellSleptOn,
    /// mailbox: two posters met, and one tried again.
    MailboxMet,
    /// mailbox: a post found the worker gone.
    MailboxClosed,
    /// mailbox: a poster rang in place of one that was stalled in front of it.
    MailboxRungForStalled,
    /// mailbox: the last look before a park found a post.
    MailboxLastLook,
    /// queue: the ring was full, and a task went to the backlog.
    QueueBacklog,
    /// queue: the owner took part of the backlog into its ring.
    QueueRefill,
    /// queue: an urgent task went in front of others.
    QueueSorted,
    /// queue: two takers met, and one tried again.
    QueueMet,
    /// queue: a thief took the backlog of a worker.
    QueueBacklogStolen,
    /// queue: a thief took the last task of a worker that stood still.
    QueueLastStolen,
    /// task: a lower-class waker sent a second parcel, because the worker of the first one runs something else.
    TaskDelegatedTwice,
    /// idle: two claimed one worker, and one lost.
    IdleClaimLost,
    /// idle: two took one worker for a task, and one lost.
    IdleTakeLost,
    /// idle: a worker was taken for a task, slept on, and was woken by a watchdog.
    IdleTakeRevoked,
    /// idle: a worker was claimed between its spin and its park.
    IdleClaimedBeforePark,
    /// idle: a waker counted a search, and found no worker to claim.
    IdleClaimNobody,
    /// idle: the last search that ended found work for others.
    IdleLastSearch,
    /// idle: a watchdog was asked for.
    IdleWatchdogWanted,
    /// idle: a worker that was counted as searching got no CPU, and is counted no more.
    IdleClaimLapsed,
    /// idle: a worker took itself out of the work set, and found that it had got something.
    IdleListedAgain,
    /// wheel: a timer was cancelled from another thread.
    WheelCancelElsewhere,
    /// wheel: a timer fired whose handle was already gone.
    WheelFiredCancelled,
    /// wheel: timers moved to a finer level.
    WheelCascade,
    /// wheel: a timer was armed by mail.
    WheelMail,
    /// wheel: a visitor fired timers of a worker that is stuck or sleeps.
    WheelVisit,
    /// pull: a sleeper's wheel could not be entered: its worker or another visitor has it.
    PullRefused,
    /// tree: a worker that looks after sleepers was set aside, because it is stuck.
    TreeSetAside,
    /// tree: a sentry was relieved by a worker that wakes earlier.
    TreeSentryRelieved,
    /// offline: a task was handed on by a worker that is off.
    OfflineHandOn,
    /// task: a wake by a thread of a lower class went to a worker in a parcel.
    TaskDelegated,
    /// task: a task was woken while it was polled.
    TaskWokenInPoll,
}

/// A set of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u64);

impl Marks {
    /// Adds a mark.
    pub fn add(&mut self, mark: Mark) {
        self.0 |= 1 << mark as u8;
    }

    /// Whether the set contains the mark.
    #[must_use]
    pub fn has(self, mark: Mark) -> bool {
        self.0 & (1 << mark as u8) != 0
    }

    /// The union of both sets.
    #[must_use]
    pub fn and(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }
}

const _: () = assert!(Mark::ALL.len() <= 64, "a set is one word");

#[cfg(test)]
mod tests {
    use super::{Mark, Marks};

    #[test]
    fn every_mark_says_what_it_is() {
        assert_eq!(
            Mark::QueueBacklogStolen.about(),
            "queue: a thief took the backlog of a worker."
        );
        assert!(Mark::ALL.iter().all(|mark| mark.about().contains(": ")));
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut marks = Marks::default();
        marks.add(Mark::BellAlready);
        marks.add(Mark::TaskWokenInPoll);
        let held = Mark::ALL.iter().filter(|mark| marks.has(**mark));
        assert_eq!(
            held.collect::<Vec<_>>(),
            [&Mark::BellAlready, &Mark::TaskWokenInPoll]
        );
        let both = Marks::default().and(marks);
        assert_eq!(both, marks);
    }
}
