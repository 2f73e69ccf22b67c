//! The mutants: lines that can be broken on purpose, so that a checker can be shown to notice.

/// One broken line of a protocol, which asks the machine whether it is broken
/// ([`Machine::breaks`](crate::Machine::breaks)). On the host none is, and the broken branch folds away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// Nothing is broken.
    None = 0,
    /// bell: the signals are cleared after what they announce was looked at: the mailbox, and
    /// the request to close.
    BellClearAfterTake,
    /// bell: a worker parks without looking at its mailbox again after announcing it.
    BellNoRecheck,
    /// bell: a parked worker clears its word by a blind store, before it takes.
    BellAnnounceBlind,
    /// bell: the fence between the worker's announcement and its look at the mailbox is gone.
    BellNoAnnounceFence,
    /// bell: the notifier does not ring although the worker was parked.
    BellNoRing,
    /// bell: NOTIFY is set without Release.
    BellNotifyRelaxed,
    /// bell: a notifier relies on the ring that one of a lower class has promised.
    BellTrustsBelow,
    /// bell: of two that ring in place of one below both do.
    BellHelpBlind,
    /// mailbox: the fence between the push and the look at the bell is gone.
    MailboxNoRecheckFence,
    /// mailbox: a post that finds the mailbox non-empty never looks at the bell.
    MailboxNoStalledRule,
    /// mailbox: the push does not publish the node's content.
    MailboxPushRelaxed,
    /// mailbox: the take does not acquire the nodes' content.
    MailboxTakeRelaxed,
    /// mailbox: a post overwrites the head instead of comparing it.
    MailboxPushBlind,
    /// task: a wake during the poll is forgotten when the poll ends.
    TaskForgetWake,
    /// task: a wake does not publish what the waker did before.
    TaskWakeRelaxed,
    /// task: a wake submits the task also while it is being polled.
    TaskSubmitWhileRunning,
    /// task: the completion does not publish the output.
    TaskCompleteRelaxed,
    /// task: the last reference is dropped without Acquire.
    TaskDropRelaxed,
    /// task: the join side replaces its waker without taking the cell back first.
    TaskJoinWakerBlind,
    /// task: a worker that ends drops a future although another worker polls it.
    TaskSeizeRunning,
    /// task: a reference that could not be handed to the home worker is forgotten.
    TaskLeaveForgotten,
    /// task: a wake does not raise a task that is awaited from above.
    TaskRaiseForgotten,
    /// task: a wake by one of a lower class is noted before a worker has it.
    TaskNotedFromBelow,
    /// task: a wake by one of a lower class does not publish what the waker did before.
    TaskDelegateRelaxed,
    /// task: who polls a task by its raised node does not acquire what the last poll did.
    TaskStartRaisedRelaxed,
    /// task: the end of a poll does not look whether the task was cancelled.
    TaskPauseBlind,
    /// task: the end of a poll does not publish what that poll did.
    TaskPauseRelaxed,
    /// task: who finds a task's own node behind does not publish that it has left its queue.
    TaskCatchUpRelaxed,
    /// task: a task is raised although its raised node is in a queue.
    TaskRaisedTwice,
    /// sweep: what lies behind the first task that is raised is kept until the next sweep.
    SweepKeepsRest,
    /// sweep: what workers refuse that have ended is forgotten.
    SweepForgetsRefused,
    /// sweep: all goes back, and nothing is raised.
    SweepRaisesNone,
    /// rescue: a worker that has used up its share goes on.
    RescueNeverPauses,
    /// lock: to let go does not publish what the lock guards.
    LockUnlockRelaxed,
    /// lock: who keeps the line leaves it without a look whether there is more to do.
    LockLeaveBlind,
    /// call: the blocking caller falls asleep without telling the callee.
    CallSleepSilently,
    /// call: the completion does not publish the result.
    CallDoneRelaxed,
    /// call: the callee touches the call again after it has said DONE.
    CallTouchAfterDone,
    /// call: parcels go back to their owner without Release.
    ParcelReturnRelaxed,
    /// call: what is out of a pool that is gone is counted without an order.
    PoolLeaveRelaxed,
    /// call: a call to many cores ends without publishing its result.
    ManyEndRelaxed,
    /// call: a worker touches the block of a call to many cores after its own call has ended.
    ManyTouchAfterEnd,
    /// wheel: the worker hands a timer to its handle without looking whether that is gone.
    WheelFireBlind,
    /// wheel: the worker says that it is inside its wheel, and the fence behind that is gone.
    WheelGateNoFence,
    /// wheel: a paused clock goes on without a look whether workers were told of more to do.
    QuiescenceWithoutALook,
    /// wheel: the last one's look at the workers holds although one of them has woken meanwhile.
    QuiescenceNoEpoch,
    /// wheel: who becomes busy while a paused clock is set does not wait for that.
    QuiescenceNoWait,
    /// queue: a push does not publish the node and its slot.
    QueuePushRelaxed,
    /// queue: a taker moves the head without comparing it.
    QueueClaimBlind,
    /// queue: an owner that sorts takes all out without comparing.
    QueueSortBlind,
    /// queue: a thief does not publish what it put into its own ring.
    QueueLootRelaxed,
    /// scheduler: a share is given back without an order.
    SchedulerGiveBackRelaxed,
    /// idle: the fence between a worker's bit and its last look for work is gone.
    IdleNoAnnounceFence,
    /// idle: the fence between the tasks that a worker has just got and its look for an idle one is gone.
    IdleNoSurplusFence,
    /// idle: a waker clears the bit by a load and a store.
    IdleClaimBlind,
    /// idle: the fence between the end of a timed check and the look at the others is gone.
    IdleNoRelyFence,
    /// idle: a worker becomes the watchdog by a load and a store.
    IdleWatchdogBlind,
    /// idle: a worker takes itself out of the work set without a look at its inject queue after it.
    IdleUnlistBlind,
    /// idle: the fence between that and the look is gone.
    IdleNoUnlistFence,
    /// worker: who asked others to look after its timers does not ask again for a nearer one.
    WorkerAsksOnce,
    /// io: readiness is cleared although an event came since it was looked at.
    IoClearBlind,
    /// io: who lets a waker wait for an event does not look for one after that.
    IoArmBlind,
    /// io: the fence between the two is gone.
    IoNoArmFence,
    /// io: the fence between an event and the look at who waits is gone.
    IoNoEventFence,
    /// io: a waker is taken without Acquire.
    IoHoldRelaxed,
    /// io: the worker frees what a visitor may still have.
    IoSweepBlind,
    /// io: a visitor leaves without Release.
    IoLeaveRelaxed,
    /// io: the fence between a new descriptor and the look at the bell is gone.
    IoNoNoteFence,
    /// io: a worker parks on its word without a look whether it got descriptors.
    IoParkBlind,
    /// io: a descriptor is muted without a look whether somebody has begun to wait for it.
    IoMuteBlind,
    /// spin: a worker that looks at its descriptors while it spins, and finds tasks, steals all the same.
    SpinStealsFull,
    /// idle: a claimed worker that gets no CPU counts as searching for as long.
    IdleClaimNeverLapses,
    /// place: a caller of a lower class claims workers.
    PlaceClaimsFromBelow,
    /// scheduler: a push to a worker that spins is offered to nobody, although that worker begins a poll.
    SchedulerPushUnoffered,
    /// scheduler: what comes from outside to a worker inside a poll is offered to nobody.
    SchedulerPostUnoffered,
    /// rt: a worker under poll does not count as overloaded with one movable task behind it.
    RtLeavesOneWaiting,
    /// worker: whoever looks for stalls takes all polls of a worker for one.
    WorkerStallOfAnyPoll,
    /// worker: the fence between the number of a poll and the look whether the thread that looks for stalls sleeps is
    /// gone.
    WorkerStallNoFence,
}

impl Bug {
    /// All mutants, without [`Bug::None`].
    pub const ALL: [Bug; 78] = [
        Bug::BellClearAfterTake,
        Bug::BellNoRecheck,
        Bug::BellAnnounceBlind,
        Bug::BellNoAnnounceFence,
        Bug::BellNoRing,
        Bug::BellNotifyRelaxed,
        Bug::BellTrustsBelow,
        Bug::BellHelpBlind,
        Bug::MailboxNoRecheckFence,
        Bug::MailboxNoStalledRule,
        Bug::MailboxPushRelaxed,
        Bug::MailboxTakeRelaxed,
        Bug::MailboxPushBlind,
        Bug::TaskForgetWake,
        Bug::TaskWakeRelaxed,
        Bug::TaskSubmitWhileRunning,
        Bug::TaskCompleteRelaxed,
        Bug::TaskDropRelaxed,
        Bug::TaskJoinWakerBlind,
        Bug::TaskSeizeRunning,
        Bug::TaskLeaveForgotten,
        Bug::TaskRaiseForgotten,
        Bug::TaskNotedFromBelow,
        Bug::TaskDelegateRelaxed,
        Bug::TaskStartRaisedRelaxed,
        Bug::TaskPauseBlind,
        Bug::TaskPauseRelaxed,
        Bug::TaskCatchUpRelaxed,
        Bug::TaskRaisedTwice,
        Bug::SweepKeepsRest,
        Bug::SweepForgetsRefused,
        Bug::SweepRaisesNone,
        Bug::RescueNeverPauses,
        Bug::LockUnlockRelaxed,
        Bug::LockLeaveBlind,
        Bug::CallSleepSilently,
        Bug::CallDoneRelaxed,
        Bug::CallTouchAfterDone,
        Bug::ParcelReturnRelaxed,
        Bug::PoolLeaveRelaxed,
        Bug::ManyEndRelaxed,
        Bug::ManyTouchAfterEnd,
        Bug::WheelFireBlind,
        Bug::WheelGateNoFence,
        Bug::QuiescenceWithoutALook,
        Bug::QuiescenceNoEpoch,
        Bug::QuiescenceNoWait,
        Bug::QueuePushRelaxed,
        Bug::QueueClaimBlind,
        Bug::QueueSortBlind,
        Bug::QueueLootRelaxed,
        Bug::SchedulerGiveBackRelaxed,
        Bug::IdleNoAnnounceFence,
        Bug::IdleNoSurplusFence,
        Bug::IdleClaimBlind,
        Bug::IdleNoRelyFence,
        Bug::IdleWatchdogBlind,
        Bug::IdleUnlistBlind,
        Bug::IdleNoUnlistFence,
        Bug::WorkerAsksOnce,
        Bug::IoClearBlind,
        Bug::IoArmBlind,
        Bug::IoNoArmFence,
        Bug::IoNoEventFence,
        Bug::IoHoldRelaxed,
        Bug::IoSweepBlind,
        Bug::IoLeaveRelaxed,
        Bug::IoNoNoteFence,
        Bug::IoParkBlind,
        Bug::IoMuteBlind,
        Bug::SpinStealsFull,
        Bug::IdleClaimNeverLapses,
        Bug::PlaceClaimsFromBelow,
        Bug::SchedulerPushUnoffered,
        Bug::SchedulerPostUnoffered,
        Bug::RtLeavesOneWaiting,
        Bug::WorkerStallOfAnyPoll,
        Bug::WorkerStallNoFence,
    ];

    /// The mutant with this number, [`Bug::None`] for a number that has none. The inverse of
    /// `as u8`, so that a machine can carry a mutant as a constant parameter.
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

    /// Whether this is `other`; usable where `==` is not, in constants.
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
