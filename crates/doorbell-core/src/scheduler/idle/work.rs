//! The work set: which workers may have tasks that others can take. A worker that looks for tasks reads a few words,
//! not a line or more of every worker. See ../README.md.

use super::Cores;
use super::cores::BitPlace;
use doorbell_machine::{Bug, Line, Machine, Mark, Ordering, Word};
use std::cell::Cell;
use std::sync::Arc;

/// One bit per worker, in one word for each group of the idle set. A worker whose bit is clear has nothing in its run
/// queue and its inject queue, as seen after a fence; one whose bit is set may have something.
pub struct WorkSet<M: Machine> {
    cores: Arc<Cores<M>>,
    words: Box<[M::Line<M::U32>]>,
}

impl<M: Machine> std::fmt::Debug for WorkSet<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkSet").finish_non_exhaustive()
    }
}

impl<M: Machine> WorkSet<M> {
    /// The set of a scheduler that has a worker on each of these cores. No worker has anything yet.
    pub fn new(cores: &Arc<Cores<M>>) -> Self {
        let word = |_| M::Line::new(|| M::U32::new(0));
        WorkSet {
            words: (0..cores.groups()).map(word).collect(),
            cores: Arc::clone(cores),
        }
    }

    fn word(&self, worker: usize) -> (&M::U32, u32) {
        let BitPlace { group, slot } = self.cores.place(worker);
        (&self.words[group], 1 << slot)
    }

    /// Whether the worker may have something.
    pub fn holds(&self, worker: usize) -> bool {
        let (word, bit) = self.word(worker);
        // ORDER: Relaxed; after a fence, or by the worker itself, which alone clears the bit.
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Something was put into the worker's run queue, by the worker itself, or into its inject queue. In the second
    /// case the poster makes a fence before this. A caller that relies on being seen makes one after it too.
    pub fn add(&self, worker: usize) {
        if !self.holds(worker) {
            self.add_anew(worker);
        }
    }

    /// As [`WorkSet::add`], but with a read-modify-write even if the bit is set.
    pub fn add_anew(&self, worker: usize) {
        let (word, bit) = self.word(worker);
        // ORDER: Relaxed, and a read-modify-write for the caller's fence_recheck after it: with the
        // announcement of a worker that falls asleep and its fence_announce this is store buffering: either
        // that worker sees the bit, or the caller sees that it is idle.
        word.fetch_or(bit, Ordering::Relaxed);
    }

    /// The worker idles: clears its bit, then sets it again if `has_work` finds something. Called only by the worker.
    pub fn remove(&self, worker: usize, has_work: impl FnOnce() -> bool) {
        if !self.holds(worker) {
            return;
        }
        let (word, bit) = self.word(worker);
        // ORDER: Relaxed, and a read-modify-write for the fence after it: with the post to an inject queue and its
        // fence_recheck this is store buffering: either the poster sees the bit clear, and sets it, or
        // this worker sees the post.
        word.fetch_and(!bit, Ordering::Relaxed);
        if !M::breaks(Bug::IdleNoUnlistFence) {
            M::fence_announce();
        }
        if !M::breaks(Bug::IdleUnlistBlind) && has_work() {
            M::mark(Mark::IdleListedAgain);
            self.add(worker);
        }
    }

    /// Copies the words. The caller has a fence before this if it must miss none.
    pub fn look(&self, seen: &Seen) {
        for (word, seen) in self.words.iter().zip(&seen.words) {
            // ORDER: Relaxed; after the fence of a caller that must miss none, a hint to others.
            seen.set(word.load(Ordering::Relaxed));
        }
    }

    /// Whether this worker may have had something at that look.
    pub fn held(&self, seen: &Seen, worker: usize) -> bool {
        let BitPlace { group, slot } = self.cores.place(worker);
        seen.words[group].get() & 1 << slot != 0
    }
}

/// A worker's copy of the [`WorkSet`], as of its last look.
#[derive(Debug)]
pub struct Seen {
    words: Box<[Cell<u32>]>,
}

impl Seen {
    /// A copy of that set, in which no worker has anything.
    pub fn new<M: Machine>(of: &WorkSet<M>) -> Self {
        Seen {
            words: of.words.iter().map(|_| Cell::new(0)).collect(),
        }
    }

    /// Whether any worker may have something, the looking worker included.
    pub fn any(&self) -> bool {
        self.words.iter().any(|word| word.get() != 0)
    }
}
