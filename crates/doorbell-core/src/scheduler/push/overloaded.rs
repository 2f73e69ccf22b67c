//! Which workers are overloaded, by which rank, and how many words say so. See README.md.
//!
//! A word has 8 workers, 8 bits each, like one of the priority map:
//!
//! | value of a byte | meaning |
//! |---|---|
//! | 0 | no task that other workers may run waits behind a poll or a call of the worker |
//! | 1 to 99 | the worker is overloaded: no such task of a higher rank waits there; one of this rank may be gone |

use super::bytes::{GROUP_WORDS, bits, byte};
use crate::scheduler::idle::Cores;
use doorbell_machine::{Bug, Line, Machine, Ordering, Word};
use std::sync::Arc;

/// Whether a byte is zero after [`Overloaded::clear`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// It is.
    Yes,
    /// A task still waits, so the byte was set again. While it was zero, a worker may have lowered without seeing it. A
    /// poster therefore looks once more for a worker that runs lower, as after [`Overloaded::set`].
    SetAgain,
}

/// Which workers have a task waiting behind a poll. A worker that begins a poll, or parks, reads one count, and the
/// words only while it is not zero.
pub struct Overloaded<M: Machine> {
    cores: Arc<Cores<M>>,
    groups: Box<[M::Line<[M::U64; GROUP_WORDS]>]>,
    /// The number of words that are not zero, and for a moment more than that; never fewer
    /// (`the_count_is_not_zero_while_a_byte_is_set`).
    nonzero: M::Line<M::U32>,
}

impl<M: Machine> std::fmt::Debug for Overloaded<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overloaded").finish_non_exhaustive()
    }
}

impl<M: Machine> Overloaded<M> {
    /// None of these workers is overloaded.
    pub fn new(cores: &Arc<Cores<M>>) -> Self {
        let line = |_| M::Line::new(|| std::array::from_fn(|_| M::U64::new(0)));
        Overloaded {
            cores: Arc::clone(cores),
            groups: (0..cores.groups()).map(line).collect(),
            nonzero: M::Line::new(|| M::U32::new(0)),
        }
    }

    /// The worker's word, and the shift of its byte.
    fn word(&self, worker: usize) -> (&M::U64, u32) {
        let at = self.cores.place(worker);
        (&self.groups[at.group][at.word()], at.shift())
    }

    /// A task of this rank (0 counts as 1) waits at the worker, which is inside a poll or a call: the task was pushed
    /// before this call. Keeps a higher rank that is there. Makes a read-modify-write even if it changes nothing, and a
    /// fence. A poster looks after this call once more for a worker that runs lower: either it finds a worker that
    /// lowered meanwhile, or that worker finds this rank by [`Overloaded::waits_above`].
    pub fn set(&self, worker: usize, rank: u8) {
        let (word, shift) = self.word(worker);
        let late = M::breaks(Bug::PushCountsLate);
        let mut counted = false;
        // ORDER: Relaxed; the exchange decides.
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            // Counted before the word says so. Otherwise a second poster, which finds the word nonzero, would rely on
            // a count that the first one has not made yet.
            if seen == 0 && !counted && !late {
                self.count_one_more();
                counted = true;
            }
            let highest = byte(seen, shift).max(rank).max(1);
            let next = seen & !bits(u8::MAX, shift) | bits(highest, shift);
            // ORDER: Release pairs with the Acquire of `clear`, which then sees the push, and with the fence of another
            // poster after its own exchange, which then sees the count. Relaxed on failure: only the next guess.
            match word.compare_exchange(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        if late && seen == 0 {
            self.count_one_more();
        }
        // Store buffering, with the fence of a worker that lowers (`PriorityMap::publish`, `IdleSet::enter`) and its
        // look at the count.
        if !M::breaks(Bug::PushNoPostFence) {
            M::fence_recheck();
        }
        if counted && seen != 0 {
            // Another poster has made the word nonzero, and counted it.
            self.count_one_less();
        }
    }

    /// Nothing above this rank waits at the worker, or nothing at all if it is 0: lowers the byte to it, then asks
    /// `what_waits` for the highest rank that waits there now, 0 for none, and sets that if it is higher. `what_waits`
    /// gets the rank before, which it may return if it does not know better; it is not called if the byte was not
    /// higher. Any thread may call this: the worker itself before a poll and before it sleeps, a thread that has taken
    /// tasks from the worker, and a poster that finds its task gone after its [`Overloaded::set`].
    pub fn lower(&self, worker: usize, rank: u8, what_waits: impl FnOnce(u8) -> u8) -> Cleared {
        let (word, shift) = self.word(worker);
        // ORDER: Relaxed; the exchange decides.
        let mut seen = word.load(Ordering::Relaxed);
        let next = loop {
            if byte(seen, shift) <= rank {
                return Cleared::Yes;
            }
            let next = seen & !bits(u8::MAX, shift) | bits(rank, shift);
            // ORDER: Acquire pairs with the Release of `set`: if this lowers a byte, `what_waits` sees the push before
            // that, and the word was counted before it is counted no more. No fence: each poster makes a
            // read-modify-write of this word, and one that comes later sets the byte again. Relaxed on failure: only
            // the next guess.
            match word.compare_exchange(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break next,
                Err(now) => seen = now,
            }
        };
        if next == 0 {
            self.count_one_less();
        }
        if M::breaks(Bug::PushClearBlind) {
            return Cleared::Yes;
        }
        let waits = what_waits(byte(seen, shift));
        if waits <= rank {
            return Cleared::Yes;
        }
        self.set(worker, waits);
        Cleared::SetAgain
    }

    /// [`Overloaded::lower`] to 0: nothing waits at the worker.
    pub fn clear(&self, worker: usize, what_waits: impl FnOnce(u8) -> u8) -> Cleared {
        self.lower(worker, 0, what_waits)
    }

    fn count_one_more(&self) {
        // ORDER: Relaxed; the Release of the word comes after it. A worker that lowers reads it after its fence.
        self.nonzero.fetch_add(1, Ordering::Relaxed);
    }

    fn count_one_less(&self) {
        // ORDER: Relaxed; after the Acquire of `clear`, or the fence of `set`: the word was counted before.
        self.nonzero.fetch_sub(1, Ordering::Relaxed);
    }

    /// The rank by which the worker is overloaded; 0 if it is not.
    pub fn rank(&self, worker: usize) -> u8 {
        let (word, shift) = self.word(worker);
        // ORDER: Relaxed; a hint, or after the fence of a worker that parks.
        byte(word.load(Ordering::Relaxed), shift)
    }

    /// Whether any worker may be overloaded: one load.
    #[inline]
    pub fn any(&self) -> bool {
        // ORDER: Relaxed; after the fence of the worker that lowers, or a hint.
        self.nonzero.load(Ordering::Relaxed) != 0
    }

    /// Whether a task of a higher rank than this may wait at a worker other than `own`. This is one load while no
    /// worker is overloaded; otherwise it reads the words. A worker that lowers has a fence before this.
    #[inline]
    pub fn waits_above(&self, own: usize, rank: u8) -> bool {
        self.any() && self.finds_above(own, rank)
    }

    fn finds_above(&self, own: usize, rank: u8) -> bool {
        let own = self.cores.place(own);
        let is_above = |group: usize, at: usize, word: &M::U64| {
            let is_own = (group, at) == (own.group, own.word());
            let mask = if is_own {
                !bits(u8::MAX, own.shift())
            } else {
                u64::MAX
            };
            // ORDER: Relaxed; as in `any`.
            let seen = word.load(Ordering::Relaxed) & mask;
            seen != 0 && seen.to_le_bytes().iter().any(|waits| *waits > rank)
        };
        let mut groups = self.groups.iter().enumerate();
        groups.any(|(group, line)| {
            let mut words = line.iter().enumerate();
            words.any(|(at, word)| is_above(group, at, word))
        })
    }

    /// The overloaded workers, nearest to `near` first, and the rank by which each is. Reads each word once, when it
    /// comes to its group.
    pub fn among(&self, near: usize) -> impl Iterator<Item = (usize, u8)> {
        let cores = &*self.cores;
        let groups = cores.order(cores.place(near).group).iter();
        groups.flat_map(move |group| {
            // ORDER: Relaxed; after the fence of a worker that lowers or parks, or a hint.
            let words = self.groups[*group]
                .each_ref()
                .map(|word| word.load(Ordering::Relaxed));
            cores
                .members(*group, 0)
                .map(move |(worker, at)| (worker, byte(words[at.word()], at.shift())))
                .filter(|(_, rank)| *rank != 0)
        })
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> u32 {
        self.nonzero.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cleared, Cores, Overloaded};
    use crate::scheduler::idle::tests::cores_of;
    use doorbell_machine::Host;

    /// Three groups of two workers.
    fn overloaded() -> Overloaded<Host> {
        let far = |one: usize, other: usize| (one / 2).abs_diff(other / 2) as u32;
        Overloaded::new(&Cores::of_one_class(6, |one, other| 1 + far(one, other)))
    }

    #[test]
    fn a_word_is_counted_once_however_many_of_it_are_overloaded() {
        let it = Overloaded::<Host>::new(&cores_of(9));
        assert!(!it.any());
        for worker in [0, 1, 1, 8] {
            it.set(worker, 50);
        }
        assert_eq!(it.count(), 2);
        assert_eq!((it.rank(1), it.rank(2)), (50, 0));
        for worker in [0, 1] {
            assert!(it.any());
            assert_eq!(it.clear(worker, |_| 0), Cleared::Yes);
        }
        assert_eq!(it.count(), 1);
        assert_eq!(it.clear(1, |_| 50), Cleared::Yes, "it was zero before");
        assert_eq!(it.clear(8, |_| 0), Cleared::Yes);
        assert!(!it.any());
    }

    #[test]
    fn the_highest_rank_stays_until_it_is_cleared() {
        let it = overloaded();
        for rank in [0, 50, 99, 1] {
            it.set(3, rank);
            assert!(it.rank(3) >= 1);
        }
        assert_eq!(it.rank(3), 99);
        assert_eq!(it.clear(3, |before| before - 1), Cleared::SetAgain);
        assert_eq!(it.rank(3), 98);
        assert_eq!(it.clear(3, |_| 1), Cleared::SetAgain);
        assert_eq!((it.rank(2), it.rank(3), it.count()), (0, 1, 1));
    }

    #[test]
    fn a_worker_looks_for_what_is_above_its_rank_elsewhere() {
        let it = overloaded();
        assert!(!it.waits_above(0, 0));
        it.set(3, 50);
        assert!(it.waits_above(2, 49) && it.waits_above(0, 0) && it.waits_above(5, 1));
        assert!(!it.waits_above(2, 50), "not above");
        assert!(!it.waits_above(3, 1), "its own");
        it.set(4, 51);
        assert!(it.waits_above(3, 50));
    }

    #[test]
    fn the_nearest_overloaded_workers_come_first() {
        let it = overloaded();
        for worker in [0, 3, 4, 5] {
            it.set(worker, 10 + worker as u8);
        }
        let all: Vec<_> = it.among(5).collect();
        assert_eq!(all, [(4, 14), (5, 15), (3, 13), (0, 10)]);
        assert_eq!(it.among(1).next(), Some((0, 10)));
    }
}
