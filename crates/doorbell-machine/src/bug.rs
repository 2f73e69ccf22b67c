//! The mutants: lines of protocols that can be broken on purpose, to show that a checker notices.

/// One line of a protocol that can be broken. The line asks the machine whether it is
/// ([`Machine::breaks`](crate::Machine::breaks)). On the host the answer is always `false`, and the
/// compiler removes the broken branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// Nothing is broken.
    None = 0,
    /// bell: the worker clears the signals only after it has looked at what they announce: the mailbox and
    /// the request to close.
    BellClearAfterTake,
    /// bell: a worker parks without another look at its mailbox after the announcement.
    BellNoRecheck,
    /// bell: a worker that ends idling clears its word by a store, not an exchange, and ignores the signals.
    BellAnnounceBlind,
    /// bell: the fence between the worker's announcement and its look at the mailbox is gone.
    BellNoAnnounceFence,
    /// bell: the notifier does not ring although the worker was parked.
    BellNoRing,
    /// bell: a notifier relies on the ring that a notifier of a lower class has promised.
    BellTrustsBelow,
    /// bell: two notifiers both ring in place of one of a lower class.
    BellHelpBlind,
    /// mailbox: the fence between the push and the look at the bell is gone.
    MailboxNoRecheckFence,
    /// mailbox: a post that finds the mailbox non-empty never looks at the bell.
    MailboxNoStalledRule,
    /// mailbox: the push does not publish the node's content.
    MailboxPushRelaxed,
    /// mailbox: a post overwrites the head instead of comparing it.
    MailboxPushBlind,
    /// task: the end of a poll forgets a wake that came during the poll.
    TaskForgetWake,
    /// task: a wake submits a task although a worker polls it.
    TaskSubmitWhileRunning,
    /// task: the join side replaces its waker without taking the cell back first.
    TaskJoinWakerBlind,
    /// task: a worker that ends drops a future that another worker is polling.
    TaskSeizeRunning,
    /// task: a reference that could not be handed to the home worker is forgotten.
    TaskLeaveForgotten,
    /// task: a wake does not raise a task that is awaited from above.
    TaskRaiseForgotten,
    /// task: a waker of a lower class marks the task as scheduled before a worker has queued it.
    TaskNotedFromBelow,
    /// task: the end of a poll does not check whether the task was cancelled.
    TaskPauseBlind,
    /// task: a task is raised although its raised node is in a queue.
    TaskRaisedTwice,
    /// lock: the keeper leaves the line without checking whether there is more to do.
    LockLeaveBlind,
    /// call: the blocking caller falls asleep without telling the callee.
    CallSleepSilently,
    /// call: the completion does not publish the result.
    CallDoneRelaxed,
    /// call: the callee touches the call again after it has said DONE.
    CallTouchAfterDone,
    /// call: a worker touches the block of a call to many cores after its own call has ended.
    ManyTouchAfterEnd,
    /// wheel: the worker hands a timer to its handle without checking whether the handle is gone.
    WheelFireBlind,
    /// wheel: the fence after the worker's note that it is inside its wheel is gone.
    WheelGateNoFence,
    /// wheel: a paused clock advances without a look whether workers were notified.
    QuiescenceWithoutALook,
    /// wheel: a paused clock advances although a worker became busy and idle again since the look at the
    /// workers.
    QuiescenceNoEpoch,
    /// wheel: a thread that becomes busy while a paused clock advances does not wait for the new time.
    QuiescenceNoWait,
    /// queue: a push does not publish the node and its slot.
    QueuePushRelaxed,
    /// queue: a taker moves the head without comparing it.
    QueueClaimBlind,
    /// queue: an owner that sorts takes all nodes out without comparing the head.
    QueueSortBlind,
    /// idle: the fence between a worker's idle bit and its last look for work is gone.
    IdleNoAnnounceFence,
    /// idle: the fence between a worker's queueing of tasks that it got and its look for an idle worker is
    /// gone.
    IdleNoSurplusFence,
    /// idle: a waker clears the idle bit by a load and a store.
    IdleClaimBlind,
    /// idle: a waker takes a worker for its task by a load and a store.
    IdleTakeBlind,
    /// idle: nobody wakes a worker that was taken for a task that does not come.
    IdleTakeNeverRevoked,
    /// placement: a task is pushed to a worker that was idle although another task lies there.
    PlacePushesBehind,
    /// placement: nobody looks whether the worker began to run something else before the push.
    PlaceKeepsLostLate,
    /// idle: a worker becomes the watchdog by a load and a store.
    IdleWatchdogBlind,
    /// idle: a worker unlists itself from the work set without another look at its inject queue.
    IdleUnlistBlind,
    /// idle: the fence between the unlisting and that look is gone.
    IdleNoUnlistFence,
    /// io: readiness is cleared although a newer event came since the look at it.
    IoClearBlind,
    /// io: a task that has armed its waker does not look again for an event.
    IoArmBlind,
    /// io: the fence between the arming and that look is gone.
    IoNoArmFence,
    /// io: the fence between an event and the look at the wakers is gone.
    IoNoEventFence,
    /// io: an event leaves a cell alone in which a wait is about to go on.
    IoHeldBlind,
    /// io: the worker frees descriptors' memory that a visitor may still use.
    IoSweepBlind,
    /// io: the fence between a new descriptor and the look for a keeper is gone.
    IoNoNoteFence,
    /// io: a keeper that wakes does not give up its right.
    IoNeverLeft,
    /// io: a worker that falls asleep does not look again whether the poller has a keeper.
    IoSleepsUnkept,
    /// io: a descriptor is muted without checking whether a task has begun to wait for it.
    IoMuteBlind,
    /// spin: a spinning worker that finds tasks at its descriptors steals nevertheless.
    SpinStealsFull,
    /// idle: a claimed worker that gets no CPU counts as searching until it runs.
    IdleClaimNeverLapses,
    /// place: a caller of a lower class claims workers.
    PlaceClaimsFromBelow,
    /// scheduler: a single task from another worker of the scheduler is not offered, although the worker that
    /// got it is inside a poll.
    SchedulerPushUnoffered,
    /// scheduler: a task from outside is not offered, although the worker that got it is inside a poll.
    SchedulerPostUnoffered,
    /// rt: a worker under poll with one movable task behind it does not count as overloaded.
    RtLeavesOneWaiting,
    /// worker: the stall thread takes all polls of a worker for one.
    WorkerStallOfAnyPoll,
    /// worker: the fence between a poll's number and the look whether the stall thread sleeps is gone.
    WorkerStallNoFence,
    /// tree: an exchange of a branch's word does not count its sequence.
    TreeNoSequence,
    /// tree: a climb takes a branch for what it made of it, without reading it again.
    TreeClimbBlind,
    /// tree: a climb stops at an inactive branch that stays inactive, although a deadline there has changed.
    TreeStopsEarly,
    /// tree: a report takes the worker for asleep, although it may have woken since the visit.
    TreeReportBlind,
    /// tree: a worker becomes the sentry by a load and a store.
    TreeSentryBlind,
    /// tree: a sentry that has woken stays the sentry.
    TreeSentryStays,
    /// wheel: the fence between a worker's wake and its look whether a visitor has its lent wheel is gone.
    WheelTakeBackNoFence,
    /// wheel: the fence between a visitor's mark in the gate and its look whether the wheel is lent is gone.
    WheelVisitNoFence,
    /// pull: the fence between a worker's leave of the tree and its look for a worker that began to run is gone.
    PullLeavesNoFence,
    /// pull: a worker that has ended leaves what a visitor noted meanwhile in the tree.
    PullEndsEarly,
    /// pull: the last worker that falls asleep does not stay up for the timers of the others.
    PullForgetsDuty,
    /// pull: a migrator does not look for timers of sleepers between its polls and in its spin.
    PullNeverLooks,
    /// pull: a visitor does not tell the tree what a sleeper's wheel has next.
    PullReportsNothing,
    /// pull: a stuck worker is not set aside.
    PullTrustsStuck,
    /// timer: with `timer_pull=base`, a timer is refused because the worker that seemed awake has ended.
    TimerRefusedByOther,
    /// task: a worker that touches its list of tasks makes no fence, so a visitor may be there.
    TaskListNoFence,
    /// timer: a worker that sleeps wakes for a timer with slack at its deadline.
    TimerWakesAtDeadline,
    /// timer: a worker that was woken for nothing fires timers that may still wait.
    IdleWorkerFiresEarly,
    /// wheel: a worker wakes in time for the timers of the first slot only, where those have slack.
    WheelWakesForFirstSlot,
    /// push: an overloaded byte is cleared without another look at what waits.
    PushClearBlind,
    /// push: an overloaded word is counted only after it says that a worker is overloaded.
    PushCountsLate,
    /// push: the fence between an overloaded byte and the look for a worker that runs lower is gone.
    PushNoPostFence,
    /// push: the fence between a changed rank and the look at the count is gone.
    PushNoLowerFence,
    /// push: the holder ends by an exchange that compares nothing, and so ignores a tell since its last round began.
    PushEndBlind,
    /// push: a watchdog that parks relies on the token's holder.
    PushWatchdogRelies,
    /// push: the holder of the token gives up without the fence in front of its look for what is left.
    PushGivesUpBlind,
    /// push: a poster does not look again for a worker that runs lower.
    PushNoSecondLook,
    /// push: a worker begins a poll without a look at what waits elsewhere.
    PushNoLook,
    /// push: a worker takes the common mailbox in its passes only, and not before each poll.
    PushPassTakesParcels,
    /// worker: a busy worker makes a pass after a number of polls, however long they take.
    BusyLooksByCount,
    /// worker: a task that woke itself in its own poll goes in line with what is ready.
    DeferredInLine,
    /// worker: the deferred queue gets no turn while other tasks are ready.
    DeferredStarves,
}

impl Bug {
    /// All mutants, without [`Bug::None`].
    pub const ALL: [Bug; 93] = [
        Bug::BellClearAfterTake,
        Bug::BellNoRecheck,
        Bug::BellAnnounceBlind,
        Bug::BellNoAnnounceFence,
        Bug::BellNoRing,
        Bug::BellTrustsBelow,
        Bug::BellHelpBlind,
        Bug::MailboxNoRecheckFence,
        Bug::MailboxNoStalledRule,
        Bug::MailboxPushRelaxed,
        Bug::MailboxPushBlind,
        Bug::TaskForgetWake,
        Bug::TaskSubmitWhileRunning,
        Bug::TaskJoinWakerBlind,
        Bug::TaskSeizeRunning,
        Bug::TaskLeaveForgotten,
        Bug::TaskRaiseForgotten,
        Bug::TaskNotedFromBelow,
        Bug::TaskPauseBlind,
        Bug::TaskRaisedTwice,
        Bug::LockLeaveBlind,
        Bug::CallSleepSilently,
        Bug::CallDoneRelaxed,
        Bug::CallTouchAfterDone,
        Bug::ManyTouchAfterEnd,
        Bug::WheelFireBlind,
        Bug::WheelGateNoFence,
        Bug::QuiescenceWithoutALook,
        Bug::QuiescenceNoEpoch,
        Bug::QuiescenceNoWait,
        Bug::QueuePushRelaxed,
        Bug::QueueClaimBlind,
        Bug::QueueSortBlind,
        Bug::IdleNoAnnounceFence,
        Bug::IdleNoSurplusFence,
        Bug::IdleClaimBlind,
        Bug::IdleTakeBlind,
        Bug::IdleTakeNeverRevoked,
        Bug::PlacePushesBehind,
        Bug::PlaceKeepsLostLate,
        Bug::IdleWatchdogBlind,
        Bug::IdleUnlistBlind,
        Bug::IdleNoUnlistFence,
        Bug::IoClearBlind,
        Bug::IoArmBlind,
        Bug::IoNoArmFence,
        Bug::IoNoEventFence,
        Bug::IoHeldBlind,
        Bug::IoSweepBlind,
        Bug::IoNoNoteFence,
        Bug::IoNeverLeft,
        Bug::IoSleepsUnkept,
        Bug::IoMuteBlind,
        Bug::SpinStealsFull,
        Bug::IdleClaimNeverLapses,
        Bug::PlaceClaimsFromBelow,
        Bug::SchedulerPushUnoffered,
        Bug::SchedulerPostUnoffered,
        Bug::RtLeavesOneWaiting,
        Bug::WorkerStallOfAnyPoll,
        Bug::WorkerStallNoFence,
        Bug::TreeNoSequence,
        Bug::TreeClimbBlind,
        Bug::TreeStopsEarly,
        Bug::TreeReportBlind,
        Bug::TreeSentryBlind,
        Bug::TreeSentryStays,
        Bug::WheelTakeBackNoFence,
        Bug::WheelVisitNoFence,
        Bug::PullLeavesNoFence,
        Bug::PullEndsEarly,
        Bug::PullForgetsDuty,
        Bug::PullNeverLooks,
        Bug::PullReportsNothing,
        Bug::PullTrustsStuck,
        Bug::TimerRefusedByOther,
        Bug::TaskListNoFence,
        Bug::TimerWakesAtDeadline,
        Bug::IdleWorkerFiresEarly,
        Bug::WheelWakesForFirstSlot,
        Bug::PushClearBlind,
        Bug::PushCountsLate,
        Bug::PushNoPostFence,
        Bug::PushNoLowerFence,
        Bug::PushEndBlind,
        Bug::PushWatchdogRelies,
        Bug::PushGivesUpBlind,
        Bug::PushNoSecondLook,
        Bug::PushNoLook,
        Bug::PushPassTakesParcels,
        Bug::BusyLooksByCount,
        Bug::DeferredInLine,
        Bug::DeferredStarves,
    ];

    /// The mutant with this number; [`Bug::None`] for an unused number. The inverse of `as u8`, so that a
    /// machine can have a mutant as a constant parameter.
    #[must_use]
    pub const fn from_number(number: u8) -> Bug {
        let mut i = 0;
        while i < Self::ALL.len() {
            if Self::ALL[i] as u8 == number {
                return Self::ALL[i];
            }
            i += 1;
        }
        Bug::None
    }

    /// Whether this is `other`. Unlike `==`, it is usable in constants.
    #[inline(always)]
    #[must_use]
    pub const fn is(self, other: Bug) -> bool {
        self as u8 == other as u8
    }
}

#[cfg(test)]
mod tests {
    use super::Bug;

    #[test]
    fn numbers_and_mutants_are_one_to_one() {
        for (i, bug) in Bug::ALL.into_iter().enumerate() {
            assert_eq!(bug as usize, i + 1, "{bug:?} is out of order in ALL");
            assert_eq!(Bug::from_number(bug as u8), bug);
        }
        assert_eq!(Bug::from_number(0), Bug::None);
        assert_eq!(Bug::from_number(u8::MAX), Bug::None);
    }
}
