//! What a lane does for those that the watchdog has found stuck. See README.md in the folder `watchdog`.

use super::Lane;
use crate::mailbox::Front;
use crate::queue::Greed;
use crate::watchdog::Took;
use doorbell_machine::{Counter, Machine};

/// How many tasks a lane that helps runs before it looks again at what waits behind a stuck lane: the one that it took,
/// and one of its own.
const POLLS_PER_HELP: usize = 2;

impl<M: Machine> Lane<M> {
    /// Whether a watchdog looks after lanes that are stuck.
    #[inline]
    pub(super) fn has_watchdog(&self) -> bool {
        self.shared.front().crew().watchdog().is_some()
    }

    /// At a pass: does what waits behind the polls of stuck lanes. How many tasks this lane may run until the next
    /// pass.
    #[inline]
    pub(super) fn help_stuck(&self, polls: usize) -> usize {
        if self.shared.front().crew().stuck().any() && self.has_others() {
            self.help_now(polls)
        } else {
            polls
        }
    }

    #[cold]
    #[inline(never)]
    fn help_now(&self, polls: usize) -> usize {
        let front = self.shared.front();
        let (crew, stuck) = (front.crew(), front.crew().stuck());
        let others = crew.others(front.lane());
        let others = others.filter(|other| stuck.is_stuck(other.lane()));
        let mut robbed = false;
        for other in others {
            if stuck.take(other.lane()) == Took::Yes {
                let _ = self.expire_for(other, true);
                let _ = self.look_for(other, true);
            }
            robbed = robbed || self.rob_stuck(other);
        }
        if !robbed {
            return polls;
        }
        // What was taken here goes before what this lane had, and may take as long as there.
        self.offer_surplus();
        POLLS_PER_HELP
    }

    /// Takes one task of those that wait there. A lane that has nothing else to run takes more at once.
    fn rob_stuck(&self, other: &Front<M>) -> bool {
        let greed = if self.local.is_empty() {
            Greed::One
        } else {
            Greed::Single
        };
        let robbed = self.rob(other, greed);
        if robbed {
            self.shared.tally.thefts_for_stuck.add_owned(1);
        }
        robbed
    }
}
