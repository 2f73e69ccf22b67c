//! The work set: which lanes may have tasks that others can take, so that who looks for some reads
//! a few words and not a line or more of every lane. See README.md in this folder.

use super::WORD_LANES;
use doorbell_machine::{Bug, Line, Machine, Mark, Ordering, Word};
use std::cell::Cell;

/// One bit per lane, 64 to a word. A lane whose bit is clear has nothing in its run queue and its
/// inbox, as seen behind a fence; one whose bit is set may have something.
pub struct WorkSet<M: Machine> {
    words: Box<[M::Line<M::U64>]>,
}

impl<M: Machine> std::fmt::Debug for WorkSet<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkSet").finish_non_exhaustive()
    }
}

impl<M: Machine> WorkSet<M> {
    /// The set of a crew of so many lanes, none of which has anything.
    pub fn new(lanes: usize) -> Self {
        WorkSet {
            words: (0..lanes.div_ceil(WORD_LANES))
                .map(|_| M::Line::new(|| M::U64::new(0)))
                .collect(),
        }
    }

    fn word(&self, lane: usize) -> (&M::U64, u64) {
        (&self.words[lane / WORD_LANES], 1 << (lane % WORD_LANES))
    }

    /// Whether the lane may have something.
    pub fn holds(&self, lane: usize) -> bool {
        let (word, bit) = self.word(lane);
        // ORDER: Relaxed; behind a fence, or by the lane itself, which alone clears the bit.
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Something was put into the lane's run queue, by the lane itself, or into its inbox, and then
    /// there is a fence in front of this. Who relies on being seen has one behind it too.
    pub fn add(&self, lane: usize) {
        if !self.holds(lane) {
            self.add_anew(lane);
        }
    }

    /// As [`WorkSet::add`], and a read-modify-write also where the bit is set.
    pub fn add_anew(&self, lane: usize) {
        let (word, bit) = self.word(lane);
        // ORDER: Relaxed, and a read-modify-write for the caller's fence_recheck after it: with the
        // announcement of a lane that falls asleep and its fence_announce this is store buffering: either
        // that lane sees the bit, or the caller sees that it is idle.
        word.fetch_or(bit, Ordering::Relaxed);
    }

    /// The lane idles: its bit is cleared, unless `has_work` says then that there is something.
    /// Only the lane itself.
    pub fn remove(&self, lane: usize, has_work: impl FnOnce() -> bool) {
        if !self.holds(lane) {
            return;
        }
        let (word, bit) = self.word(lane);
        // ORDER: Relaxed, and a read-modify-write for the fence after it: with the post to an inbox and its
        // fence_recheck this is store buffering: either the poster sees the bit clear, and sets it, or
        // this lane sees the post.
        word.fetch_and(!bit, Ordering::Relaxed);
        if !M::breaks(Bug::IdleNoUnlistFence) {
            M::fence_announce();
        }
        if !M::breaks(Bug::IdleUnlistBlind) && has_work() {
            M::mark(Mark::IdleListedAgain);
            self.add(lane);
        }
    }

    /// Copies the words, behind a fence of the caller's.
    pub fn look(&self, seen: &Seen) {
        for (word, seen) in self.words.iter().zip(&seen.words) {
            // ORDER: Relaxed; behind the fence of who must not miss any, a hint to others.
            seen.set(word.load(Ordering::Relaxed));
        }
    }
}

/// A lane's copy of the [`WorkSet`], as it was at its last look.
#[derive(Debug)]
pub struct Seen {
    words: Box<[Cell<u64>]>,
}

impl Seen {
    /// A copy for a crew of so many lanes.
    pub fn new(lanes: usize) -> Self {
        Seen {
            words: (0..lanes.div_ceil(WORD_LANES))
                .map(|_| Cell::new(0))
                .collect(),
        }
    }

    /// Whether any lane may have something, the looking one among them.
    pub fn any(&self) -> bool {
        self.words.iter().any(|word| word.get() != 0)
    }

    /// Whether that lane may.
    pub fn holds(&self, lane: usize) -> bool {
        self.words[lane / WORD_LANES].get() & (1 << (lane % WORD_LANES)) != 0
    }
}
