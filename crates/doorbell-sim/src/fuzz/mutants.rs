//! The mutants that the scenarios are to notice.
//!
//! Each is a build of all protocols of its own, which takes long, so they come with the feature
//! `mutants` only. Not in the list are those whose broken ordering no x86 shows, whatever a seed
//! does: a store that is Relaxed instead of Release, a fence behind a read-modify-write. The model
//! checker kills them.

use super::Mutant;

/// The mutants.
#[cfg(not(feature = "mutants"))]
pub const MUTANTS: &[Mutant] = &[];

/// The mutants.
#[cfg(feature = "mutants")]
pub const MUTANTS: &[Mutant] = &with_feature::LIST;

#[cfg(feature = "mutants")]
mod with_feature {
    use doorbell_machine::Bug;
    use doorbell_machine::sim::Memory;

    use super::super::shapes::shapes;
    use super::Mutant;

    /// A mutant that is wrong under every memory model.
    macro_rules! mutants {
        ($($bug:ident),+ $(,)?) => {
            [$(Mutant {
                bug: Bug::$bug,
                memory: Memory::Sc,
                shapes: &const { shapes::<{ Bug::$bug as u8 }>() },
            }),+]
        };
    }

    pub(super) const LIST: [Mutant; 15] = mutants![
        BellClearAfterTake,
        BellNoRecheck,
        BellAnnounceBlind,
        BellNoRing,
        MailboxNoStalledRule,
        MailboxPushBlind,
        TaskForgetWake,
        TaskSubmitWhileRunning,
        TaskJoinWakerBlind,
        TaskSeizeRunning,
        TaskLeaveForgotten,
        CallSleepSilently,
        WheelFireBlind,
        QueueClaimBlind,
        IdleClaimBlind,
    ];
}
