//! The priority map: which rank each worker runs. See README.md.
//!
//! A word has 8 workers, 8 bits each:
//!
//! | value of a byte | name | meaning |
//! |---|---|---|
//! | 0 | [`NONE_YET`] | the worker has begun no poll yet |
//! | 1 to 99 | | the rank of the poll under way, or of the last one |
//! | 255 | [`TAKES_NOTHING`] | the worker is throttled: it takes no task |
//!
//! A worker that idles keeps its byte; the idle set says that it idles.

use super::bytes::{GROUP_WORDS, bits, byte};
use crate::scheduler::idle::{BitPlace, Cores};
use doorbell_machine::{Bug, Line, Machine, Ordering, Word};
use std::cell::Cell;
use std::sync::Arc;

/// Byte of a worker that has begun no poll yet.
pub const NONE_YET: u8 = 0;

/// Byte of a throttled worker: it takes no task. A worker that is off keeps its byte; posters ask `Member::is_off`.
pub const TAKES_NOTHING: u8 = u8::MAX;

/// How a worker's published rank has changed.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The rank is as before: nothing was written, and there was no fence.
    Same,
    /// It runs higher. A poster that saw the old rank may have posted a task here that this worker does not run next.
    /// Other workers find that task by the overloaded byte.
    Higher,
    /// It runs lower. Its next look by `Overloaded::waits_above` misses no task of a poster that saw the old rank.
    Lower,
}

/// The rank that a worker has published. Only that worker's thread has this.
#[derive(Debug)]
pub struct OwnRank {
    at: BitPlace,
    byte: Cell<u8>,
}

/// The rank that each worker runs.
pub struct PriorityMap<M: Machine> {
    cores: Arc<Cores<M>>,
    groups: Box<[M::Line<[M::U64; GROUP_WORDS]>]>,
}

impl<M: Machine> std::fmt::Debug for PriorityMap<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PriorityMap").finish_non_exhaustive()
    }
}

impl<M: Machine> PriorityMap<M> {
    /// The map of these workers, none of which has begun a poll.
    pub fn new(cores: &Arc<Cores<M>>) -> Self {
        let line = |_| M::Line::new(|| [u64::from(NONE_YET); GROUP_WORDS].map(M::U64::new));
        PriorityMap {
            cores: Arc::clone(cores),
            groups: (0..cores.groups()).map(line).collect(),
        }
    }

    /// The worker's own side of the map. A worker has one at a time.
    pub fn own(&self, worker: usize) -> OwnRank {
        OwnRank {
            at: self.cores.place(worker),
            byte: Cell::new(self.rank(worker)),
        }
    }

    /// The worker begins a poll of this rank, or takes nothing from now on ([`TAKES_NOTHING`]). If the rank is a new
    /// one, writes it and makes a fence. Returns how the rank has changed.
    #[inline]
    pub fn publish(&self, own: &OwnRank, rank: u8) -> Change {
        if own.byte.get() == rank {
            return Change::Same;
        }
        self.publish_now(own, rank)
    }

    fn publish_now(&self, own: &OwnRank, rank: u8) -> Change {
        let before = own.byte.replace(rank);
        let shift = own.at.shift();
        // The difference, since the other bytes of the word change meanwhile. Only the owner writes its byte, so the
        // sum carries nothing into the next one.
        let difference = bits(rank, shift).wrapping_sub(bits(before, shift));
        // ORDER: Relaxed, and a read-modify-write for the fence after it.
        let word =
            self.groups[own.at.group][own.at.word()].fetch_add(difference, Ordering::Relaxed);
        let found = byte(word, shift);
        debug_assert_eq!(found, before, "a worker has one own rank at a time");
        // Store buffering. Of a worker that lowers, with `Overloaded::set` and its fence: either this worker sees the
        // count, or the poster sees this rank. Of a worker that runs higher, with the push of a poster and the same
        // fence: either a look at the inject queue after this sees the task, or the poster sees this rank. (The worker
        // makes no such look: others find the task.)
        if !M::breaks(Bug::PushNoLowerFence) {
            M::fence_announce();
        }
        if rank < before {
            Change::Lower
        } else {
            Change::Higher
        }
    }

    /// The worker's byte: the rank of its poll under way or of its last one, [`NONE_YET`] or [`TAKES_NOTHING`]. It may
    /// change at any moment.
    pub fn rank(&self, worker: usize) -> u8 {
        let at = self.cores.place(worker);
        // ORDER: Relaxed; after the fence of `Overloaded::set`, or a hint.
        byte(
            self.groups[at.group][at.word()].load(Ordering::Relaxed),
            at.shift(),
        )
    }

    /// Of the workers that `fits` accepts, the one with the lowest byte below `rank`; `None` if no byte is below. Of
    /// equal ones it returns that of the group nearest to `near`, and within a group the first by slot, from the slot
    /// of `near` on, so that callers on different workers mostly choose different ones. The worker is not claimed: a
    /// moment later it may run higher.
    pub fn lowest_below(
        &self,
        rank: u8,
        near: usize,
        fits: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let BitPlace { group, slot } = self.cores.place(near);
        let (mut lowest, mut found) = (rank, None);
        for group in self.cores.order(group) {
            // ORDER: Relaxed; after the fence of `Overloaded::set`, or a hint.
            let words = self.groups[*group]
                .each_ref()
                .map(|word| word.load(Ordering::Relaxed));
            for (worker, at) in self.cores.members(*group, slot) {
                let runs = byte(words[at.word()], at.shift());
                if runs < lowest && fits(worker) {
                    (lowest, found) = (runs, Some(worker));
                }
            }
            if lowest == NONE_YET {
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Cores, NONE_YET, PriorityMap, TAKES_NOTHING};
    use doorbell_machine::Host;

    /// Two groups: of ten workers, and of two.
    fn map() -> PriorityMap<Host> {
        let far = |one: usize, other: usize| one / 10 != other / 10;
        PriorityMap::new(&Cores::of_one_class(12, |one, other| {
            1 + u32::from(far(one, other))
        }))
    }

    fn any(_: usize) -> bool {
        true
    }

    #[test]
    fn a_worker_changes_its_own_byte_alone() {
        let map = map();
        let owns: Vec<_> = (0..12).map(|worker| map.own(worker)).collect();
        let ranks = |worker: usize| 99 - worker as u8;
        for (worker, own) in owns.iter().enumerate() {
            assert_eq!(map.publish(own, ranks(worker)), Change::Higher);
        }
        assert_eq!(map.publish(&owns[7], TAKES_NOTHING), Change::Higher);
        assert_eq!(map.publish(&owns[8], 1), Change::Lower);
        assert_eq!(map.publish(&owns[8], 1), Change::Same);
        for worker in 0..12 {
            let expected = match worker {
                7 => TAKES_NOTHING,
                8 => 1,
                _ => ranks(worker),
            };
            assert_eq!(map.rank(worker), expected, "worker {worker}");
        }
        assert_eq!(map.publish(&owns[7], NONE_YET), Change::Lower);
        assert_eq!(map.rank(7), NONE_YET);
    }

    #[test]
    fn the_lowest_is_found_and_of_equal_ones_the_nearest() {
        let map = map();
        let owns: Vec<_> = (0..12).map(|worker| map.own(worker)).collect();
        for own in &owns {
            let _ = map.publish(own, 50);
        }
        assert_eq!(map.lowest_below(50, 0, any), None);
        assert_eq!(map.lowest_below(51, 9, any), Some(9));
        assert_eq!(map.lowest_below(51, 9, |worker| worker > 9), Some(11));
        assert_eq!(map.lowest_below(51, 10, any), Some(10));
        let _ = map.publish(&owns[3], 20);
        let _ = map.publish(&owns[11], 20);
        assert_eq!(map.lowest_below(51, 9, any), Some(3));
        assert_eq!(map.lowest_below(21, 10, any), Some(11));
        assert_eq!(map.lowest_below(20, 3, any), None);
        let _ = map.publish(&owns[11], 19);
        assert_eq!(map.lowest_below(21, 3, any), Some(11));
    }

    #[test]
    fn workers_that_take_nothing_are_never_found() {
        let map = map();
        assert_eq!(map.lowest_below(NONE_YET, 0, any), None);
        for worker in 0..12 {
            let own = |other| other / 10 == worker / 10;
            assert_eq!(map.lowest_below(99, worker, own), Some(worker));
            let _ = map.publish(&map.own(worker), TAKES_NOTHING);
        }
        assert_eq!(map.lowest_below(TAKES_NOTHING, 0, any), None);
    }
}
