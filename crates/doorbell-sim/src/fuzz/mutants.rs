//! All mutants: what the scenarios are to notice, and what they cannot.
//!
//! Each that they can is a build of all protocols of its own, which takes long, so the shapes with
//! the mutants in them come with the feature `mutants` only.

use super::Shape;
use doorbell_machine::Bug;
use doorbell_machine::sim::Memory;

/// A mutant, and how the simulator stands to it.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// The broken line.
    pub bug: Bug,
    /// Whether it can show here.
    pub shown: Shown,
    /// The shapes, on a machine with that mutant: those it is run through. None without the feature
    /// `mutants`, and none of what cannot show.
    pub shapes: &'static [Shape],
}

/// Whether a mutant can show in the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Some seed notices it under this memory model.
    Under(Memory),
    /// None can, for this reason.
    NotHere(&'static str),
}

/// Why a fence that is missing is not missed.
const LIGHT: &str = "the light fence is the compiler's alone on x86; loom kills it";
const FENCE: &str =
    "the fence stands behind a read-modify-write, which is the barrier on x86; loom kills it";

/// Why a worker's second look need not show.
const UNLIST: &str = "the worker whose bit it is finds the work itself before it sleeps; only help is missed; loom kills it";

/// Why the order in which classes help each other does not show.
const BELOW: &str =
    "it shows where a worker stays suspended between two steps, or two meet there; loom kills it";

/// Why a delegated wake does not show that publishes too little.
const DELEGATED_WAKE: &str = "the parcel publishes it, unless it is another waker's; loom kills it";

/// Why a task that is awaited from above does not show.
const ABOVE: &str = "no task of the scenarios is awaited from above; loom kills it";

/// Why a step of a raised task does not show.
const RAISED: &str = "it shows where both nodes of a task meet within a few steps; loom kills it";

/// Why the end of a poll need not show.
const PAUSE: &str = "not hunted since it is of all polls, not only of those above; loom kills it";

/// Why a lock between tasks does not show.
const LOCK: &str = "no task of the scenarios locks; loom kills it";

/// Why descriptors do not show.
const IO: &str = "not hunted since the scenarios have descriptors; loom kills it";

/// Why a timer behind a long poll does not show.
const STUCK: &str = "no oracle knows how late a timer may be behind a poll; loom kills it";

/// Why what a thief publishes does not show.
const LOOT: &str =
    "it shows where a second thief comes right behind the first one's theft; loom kills it";

/// Why the count of a scheduler's shares does not show.
const SHARES: &str = "no worker reads what is freed with the scheduler; loom kills it";

/// Why stalls do not show.
const STALLS: &str = "the scenarios have no hook; `scenario/tests/stalls.rs` kills it";

/// The shapes with the mutant of this number.
macro_rules! shapes {
    ($bug:ident) => {{
        #[cfg(feature = "mutants")]
        {
            &const { super::shapes::shapes::<{ Bug::$bug as u8 }>() }
        }
        #[cfg(not(feature = "mutants"))]
        {
            &[]
        }
    }};
}

/// One row of the list.
macro_rules! mutant {
    ($bug:ident not_here $why:expr) => {
        Mutant {
            bug: Bug::$bug,
            shown: Shown::NotHere($why),
            shapes: &[],
        }
    };
    ($bug:ident $memory:ident) => {
        Mutant {
            bug: Bug::$bug,
            shown: Shown::Under(Memory::$memory),
            shapes: shapes!($bug),
        }
    };
}

/// The list: each mutant, and under what it shows.
macro_rules! mutants {
    ($($bug:ident: $kind:ident $($why:expr)?),+ $(,)?) => {
        &[$(mutant!($bug $kind $($why)?)),+]
    };
}

/// All mutants, in the order of [`Bug::ALL`].
pub const MUTANTS: &[Mutant] = mutants![
    BellClearAfterTake: Sc,
    BellNoRecheck: Sc,
    // A store in place of an exchange: under `sc` only the look for races notices.
    BellAnnounceBlind: Tso,
    BellNoAnnounceFence: not_here FENCE,
    BellNoRing: Sc,
    BellNotifyRelaxed: Sc,
    BellTrustsBelow: not_here BELOW,
    BellHelpBlind: not_here BELOW,
    MailboxNoRecheckFence: not_here FENCE,
    MailboxNoStalledRule: Sc,
    MailboxPushRelaxed: Sc,
    MailboxTakeRelaxed: Sc,
    MailboxPushBlind: Sc,
    TaskForgetWake: Sc,
    TaskWakeRelaxed: Sc,
    TaskSubmitWhileRunning: Sc,
    TaskCompleteRelaxed: Sc,
    TaskDropRelaxed: Sc,
    TaskJoinWakerBlind: Sc,
    TaskSeizeRunning: Sc,
    TaskLeaveForgotten: Sc,
    TaskRaiseForgotten: not_here ABOVE,
    TaskNotedFromBelow: not_here BELOW,
    TaskDelegateRelaxed: not_here DELEGATED_WAKE,
    TaskStartRaisedRelaxed: not_here RAISED,
    TaskPauseBlind: not_here RAISED,
    TaskPauseRelaxed: not_here PAUSE,
    TaskCatchUpRelaxed: Sc,
    TaskRaisedTwice: Sc,
    SweepKeepsRest: Sc,
    SweepForgetsRefused: Sc,
    SweepRaisesNone: Sc,
    RescueNeverPauses: Sc,
    LockUnlockRelaxed: not_here LOCK,
    LockLeaveBlind: not_here LOCK,
    CallSleepSilently: Sc,
    CallDoneRelaxed: Sc,
    CallTouchAfterDone: Sc,
    ParcelReturnRelaxed: Sc,
    PoolLeaveRelaxed: Sc,
    ManyEndRelaxed: Sc,
    ManyTouchAfterEnd: Sc,
    WheelFireBlind: Sc,
    WheelGateNoFence: not_here LIGHT,
    QuiescenceWithoutALook: Sc,
    QuiescenceNoEpoch: Sc,
    QuiescenceNoWait: Sc,
    QueuePushRelaxed: Sc,
    QueueClaimBlind: Sc,
    QueueSortBlind: Sc,
    QueueLootRelaxed: not_here LOOT,
    SchedulerGiveBackRelaxed: not_here SHARES,
    IdleNoAnnounceFence: not_here FENCE,
    IdleNoSurplusFence: not_here FENCE,
    IdleClaimBlind: Sc,
    IdleNoRelyFence: not_here FENCE,
    IdleWatchdogBlind: Sc,
    IdleUnlistBlind: not_here UNLIST,
    IdleNoUnlistFence: not_here FENCE,
    WorkerAsksOnce: not_here STUCK,
    IoClearBlind: not_here IO,
    IoArmBlind: not_here IO,
    IoNoArmFence: not_here IO,
    IoNoEventFence: not_here IO,
    IoHoldRelaxed: not_here IO,
    IoSweepBlind: not_here IO,
    IoLeaveRelaxed: not_here IO,
    IoNoNoteFence: not_here IO,
    IoParkBlind: not_here IO,
    IoMuteBlind: not_here IO,
    SpinStealsFull: Sc,
    IdleClaimNeverLapses: Sc,
    PlaceClaimsFromBelow: Sc,
    SchedulerPushUnoffered: Sc,
    SchedulerPostUnoffered: Sc,
    RtLeavesOneWaiting: Sc,
    WorkerStallOfAnyPoll: not_here STALLS,
    WorkerStallNoFence: not_here LIGHT,
];
