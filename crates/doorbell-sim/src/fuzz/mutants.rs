//! All mutants: which of them the simulator can notice, and why it cannot notice the others.
//!
//! Each mutant that it can notice needs its own build of all protocols, which takes long. So the shapes
//! with mutants are built only with the feature `mutants`.

use super::Shape;
use doorbell_machine::Bug;
use doorbell_machine::sim::Memory;

/// A mutant, and whether the simulator can notice it.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// The broken line.
    pub bug: Bug,
    /// Whether it can show in the simulator.
    pub shown: Shown,
    /// The shapes it is run through, on a machine with that mutant. Empty without the feature `mutants`,
    /// and for a mutant that cannot show.
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

/// Why a missing light fence does not show.
const LIGHT: &str = "on x86 the light fence only restrains the compiler; loom kills it";
const FENCE: &str =
    "the fence stands after a read-modify-write, which is the barrier on x86; loom kills it";

/// Why a deadline of a worker that has ended does not show.
const END: &str = "all workers of a scenario end together; loom kills it";

/// Why a missing second look by a worker need not show.
const UNLIST: &str =
    "the listed worker finds the work itself before it sleeps; only help is missed; loom kills it";

/// Why the order in which classes help each other does not show.
const BELOW: &str =
    "it shows where a worker stays suspended between two steps, or two meet there; loom kills it";

/// Why mutants of tasks awaited from above do not show.
const ABOVE: &str = "no task of the scenarios is awaited from above; loom kills it";

/// Why mutants of raised tasks do not show.
const RAISED: &str = "it shows only if both nodes of a task meet within a few steps; loom kills it";

/// Why mutants of the lock between tasks do not show.
const LOCK: &str = "no task of the scenarios uses a lock; loom kills it";

/// Why mutants of descriptors do not show.
const IO: &str = "not hunted since the scenarios have descriptors; loom kills it";

/// Why a blind take does not show.
const TAKE: &str = "the push decides once more; loom kills it";

/// Why mutants of claims do not show.
const CLAIM: &str =
    "a second task on one worker is stolen from there; `scenario/tests/claims.rs` counts it";

/// Why mutants of stall reports do not show.
const STALLS: &str = "the scenarios have no hook; `scenario/tests/stalls.rs` kills it";

/// Why the mutant of a report does not show.
const TREE_REPORT: &str = "not hunted; loom kills it";

/// Why mutants of timers with slack do not show.
const SLACK: &str = "not hunted; `scenario/tests/slack.rs` kills it";

/// Why a timer that is refused does not show.
const PLACED: &str = "it needs two workers of which one ends first; loom kills it";

/// Why mutants of the words of push among urgent workers do not show.
const PUSH: &str = "not hunted since the scenarios compare ranks of two workers; loom kills it";

/// Why a worker that leaves parcels to its next pass does not show.
const PARCELS: &str = "urgent workers are seldom all busy where others wake their tasks; `scenario/tests/push.rs` kills it";

/// Why a lost tell does not show.
const TOKEN: &str = "a watchdog looks 250 us later; loom kills it";

/// Why a watchdog that relies on a holder does not show.
const RELIES: &str = "it needs a holder without a CPU; `scenario/tests/push.rs` kills it";

/// The shapes, built with the mutant of this number.
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

/// The list: each mutant and the memory model under which it shows.
macro_rules! mutants {
    ($($bug:ident: $kind:ident $($why:expr)?),+ $(,)?) => {
        &[$(mutant!($bug $kind $($why)?)),+]
    };
}

/// All mutants, in the order of [`Bug::ALL`].
pub const MUTANTS: &[Mutant] = mutants![
    BellClearAfterTake: Sc,
    BellNoRecheck: Sc,
    // A store instead of an exchange: under `sc` only race detection notices it.
    BellAnnounceBlind: Tso,
    BellNoAnnounceFence: not_here FENCE,
    BellNoRing: Sc,
    BellTrustsBelow: not_here BELOW,
    BellHelpBlind: not_here BELOW,
    MailboxNoRecheckFence: not_here FENCE,
    MailboxNoStalledRule: Sc,
    MailboxPushRelaxed: Sc,
    MailboxPushBlind: Sc,
    TaskForgetWake: Sc,
    TaskSubmitWhileRunning: Sc,
    TaskJoinWakerBlind: Sc,
    TaskSeizeRunning: Sc,
    TaskLeaveForgotten: Sc,
    TaskRaiseForgotten: not_here ABOVE,
    TaskNotedFromBelow: not_here BELOW,
    TaskPauseBlind: not_here RAISED,
    TaskRaisedTwice: not_here ABOVE,
    LockLeaveBlind: not_here LOCK,
    CallSleepSilently: Sc,
    CallDoneRelaxed: Sc,
    CallTouchAfterDone: Sc,
    ManyTouchAfterEnd: Sc,
    WheelFireBlind: Sc,
    WheelGateNoFence: not_here LIGHT,
    QuiescenceWithoutALook: Sc,
    QuiescenceNoEpoch: Sc,
    QuiescenceNoWait: Sc,
    QueuePushRelaxed: Sc,
    QueueClaimBlind: Sc,
    QueueSortBlind: Sc,
    IdleNoAnnounceFence: not_here FENCE,
    IdleNoSurplusFence: not_here FENCE,
    IdleClaimBlind: Sc,
    IdleTakeBlind: not_here TAKE,
    IdleTakeNeverRevoked: Sc,
    PlacePushesBehind: not_here CLAIM,
    PlaceKeepsLostLate: not_here CLAIM,
    IdleWatchdogBlind: Sc,
    IdleUnlistBlind: not_here UNLIST,
    IdleNoUnlistFence: not_here FENCE,
    IoClearBlind: not_here IO,
    IoArmBlind: not_here IO,
    IoNoArmFence: not_here IO,
    IoNoEventFence: not_here IO,
    IoHeldBlind: not_here IO,
    IoSweepBlind: not_here IO,
    IoNoNoteFence: not_here IO,
    IoNeverLeft: not_here IO,
    IoSleepsUnkept: not_here IO,
    IoMuteBlind: not_here IO,
    SpinStealsFull: Sc,
    IdleClaimNeverLapses: Sc,
    PlaceClaimsFromBelow: Sc,
    SchedulerPushUnoffered: Sc,
    SchedulerPostUnoffered: Sc,
    RtLeavesOneWaiting: Sc,
    WorkerStallOfAnyPoll: not_here STALLS,
    WorkerStallNoFence: not_here LIGHT,
    TreeNoSequence: Sc,
    TreeClimbBlind: Tso,
    TreeStopsEarly: Sc,
    TreeReportBlind: not_here TREE_REPORT,
    TreeSentryBlind: Sc,
    TreeSentryStays: Sc,
    WheelTakeBackNoFence: not_here FENCE,
    WheelVisitNoFence: not_here FENCE,
    PullLeavesNoFence: not_here FENCE,
    PullEndsEarly: not_here END,
    PullForgetsDuty: Sc,
    PullNeverLooks: Sc,
    PullReportsNothing: Sc,
    PullTrustsStuck: Sc,
    TimerRefusedByOther: not_here PLACED,
    TaskListNoFence: not_here LIGHT,
    TimerWakesAtDeadline: not_here SLACK,
    IdleWorkerFiresEarly: not_here SLACK,
    WheelWakesForFirstSlot: not_here SLACK,
    PushClearBlind: not_here PUSH,
    PushCountsLate: not_here PUSH,
    PushNoPostFence: not_here FENCE,
    PushNoLowerFence: not_here FENCE,
    PushEndBlind: not_here TOKEN,
    PushWatchdogRelies: not_here RELIES,
    PushGivesUpBlind: not_here FENCE,
    PushNoSecondLook: not_here PUSH,
    PushNoLook: Sc,
    PushPassTakesParcels: not_here PARCELS,
    BusyLooksByCount: Sc,
    DeferredInLine: Sc,
    DeferredStarves: Sc,
];
