//! The stuck set of a crew: which lanes are stuck, and where help is asked for. See README.md in this folder.
//!
//! 32 lanes to a word. Only the watchdog sets a bit.
//!
//! | bits | name | set by | cleared by |
//! |---|---|---|---|
//! | 0 to 31 | `STUCK` | the watchdog | the watchdog |
//! | 32 to 63 | `ASKED` | the watchdog, with `STUCK` | the one lane that takes the ask; the watchdog, with `STUCK` |

use doorbell_machine::{Bug, Line, Machine, Ordering, Word};

/// Lanes per word.
const LANES: usize = 32;

/// The bits of a word, by its first lane.
const STUCK: u64 = 1;
const ASKED: u64 = STUCK << LANES;

// The table above: two halves of a word, no bit shared.
const _: () = assert!(2 * LANES == u64::BITS as usize && ASKED == 1 << 32);

/// Whether a lane took an ask.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Took {
    /// It did: it looks at what waits at the stuck lane.
    Yes,
    /// Nobody asks, or another lane was faster.
    Nothing,
}

/// Which lanes of a crew are stuck.
pub(crate) struct StuckSet<M: Machine> {
    words: Box<[M::Line<M::U64>]>,
}

impl<M: Machine> std::fmt::Debug for StuckSet<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StuckSet")
            .field("any", &self.any())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> StuckSet<M> {
    /// The set of a crew of so many lanes, none of which is stuck.
    pub(crate) fn new(lanes: usize) -> Self {
        let words = lanes.div_ceil(LANES);
        StuckSet {
            words: (0..words)
                .map(|_| M::Line::new(|| M::U64::new(0)))
                .collect(),
        }
    }

    fn word(&self, lane: usize) -> (&M::U64, usize) {
        (&self.words[lane / LANES], lane % LANES)
    }

    /// Whether any lane is stuck.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        // ORDER: Relaxed; a hint. The watchdog has told a lane that must not miss it, and asks again.
        self.words
            .iter()
            .any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Whether that lane is stuck, as the watchdog has found at its last look.
    #[inline]
    pub(crate) fn is_stuck(&self, lane: usize) -> bool {
        let (word, at) = self.word(lane);
        // ORDER: Relaxed; a hint, from which the worst is that a task moves for nothing.
        word.load(Ordering::Relaxed) & (STUCK << at) != 0
    }

    /// The watchdog has found that the lane is stuck.
    pub(crate) fn mark(&self, lane: usize) {
        let (word, at) = self.word(lane);
        // ORDER: Relaxed; a hint. A read-modify-write, for the bits of the other lanes.
        word.fetch_or(STUCK << at, Ordering::Relaxed);
    }

    /// The watchdog has found that the lane goes on.
    pub(crate) fn clear(&self, lane: usize) {
        let (word, at) = self.word(lane);
        // ORDER: Relaxed, as in `mark`.
        word.fetch_and(!((STUCK | ASKED) << at), Ordering::Relaxed);
    }

    /// The watchdog asks for help at a stuck lane. It then tells a lane.
    pub(crate) fn ask(&self, lane: usize) {
        let (word, at) = self.word(lane);
        // ORDER: Release pairs with the Acquire of `take`: the lane that takes the ask sees what the watchdog saw
        // there, or something later.
        word.fetch_or((STUCK | ASKED) << at, Ordering::Release);
    }

    /// A lane takes the ask for help at a stuck lane; of several that do, one gets it.
    pub(crate) fn take(&self, lane: usize) -> Took {
        let (word, at) = self.word(lane);
        let asked = ASKED << at;
        // ORDER: Relaxed; a first guess. An ask that this misses the watchdog repeats.
        let seen = word.load(Ordering::Relaxed);
        if seen & asked == 0 {
            return Took::Nothing;
        }
        if M::BUG.is(Bug::WatchdogTakeBlind) {
            // ORDER: the mutant; asks that came since are forgotten.
            word.store(seen & !asked, Ordering::Release);
            return Took::Yes;
        }
        // ORDER: Acquire as in `ask`.
        if word.fetch_and(!asked, Ordering::Acquire) & asked == 0 {
            return Took::Nothing;
        }
        Took::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::{LANES, StuckSet, Took};
    use doorbell_machine::Host;

    #[test]
    fn one_lane_takes_an_ask_and_the_lane_stays_stuck() {
        let set = StuckSet::<Host>::new(2 * LANES + 1);
        for lane in [0, LANES - 1, LANES, 2 * LANES] {
            assert!(!set.any() && !set.is_stuck(lane));
            assert_eq!(set.take(lane), Took::Nothing);
            set.mark(lane);
            assert!(set.any() && set.is_stuck(lane));
            assert_eq!(set.take(lane), Took::Nothing, "nobody has asked");
            set.ask(lane);
            set.ask(lane);
            assert_eq!(set.take(lane), Took::Yes);
            assert_eq!(set.take(lane), Took::Nothing, "two asks are one");
            assert!(set.is_stuck(lane));
            let stuck = (0..=2 * LANES).filter(|lane| set.is_stuck(*lane));
            assert_eq!(stuck.collect::<Vec<_>>(), [lane]);
            set.ask(lane);
            set.clear(lane);
            assert_eq!(set.take(lane), Took::Nothing, "it goes on");
        }
        assert!(!set.any());
    }
}
