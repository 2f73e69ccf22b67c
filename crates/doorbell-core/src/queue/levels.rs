//! Where each rank ends in a backlog that is sorted by rank.

use super::Chain;
use crate::link::Node;
use doorbell_machine::Machine;
use std::ptr::NonNull;

/// More ranks than there are; one above counts as the highest.
pub(super) const RANKS: usize = 128;

/// The place of a rank in a table of all.
pub(super) fn place_of(rank: u8) -> usize {
    usize::from(rank).min(RANKS - 1)
}

/// A set of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RankSet(u128);

impl RankSet {
    pub(super) fn add(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    pub(super) fn remove(&mut self, place: usize) {
        self.0 &= !(1 << place);
    }

    pub(super) fn highest(self) -> Option<usize> {
        self.0.checked_ilog2().map(|place| place as usize)
    }

    /// The lowest of those that are not below this one.
    fn lowest_from(self, place: usize) -> Option<usize> {
        let from = self.0 >> place;
        (from != 0).then(|| place + from.trailing_zeros() as usize)
    }
}

/// The last node of each rank in a chain that is sorted: the highest rank first, equal ones as they
/// came. What it says is true of the chain that its owner has put into the backlog last: others take
/// the whole of it or nothing.
#[derive(Debug)]
pub(super) struct Levels<M: Machine> {
    there: RankSet,
    last: Box<[*mut Node<M>]>,
}

impl<M: Machine> Default for Levels<M> {
    fn default() -> Self {
        Levels {
            there: RankSet::default(),
            last: vec![std::ptr::null_mut(); RANKS].into_boxed_slice(),
        }
    }
}

impl<M: Machine> Levels<M> {
    /// The highest rank of the chain.
    pub(super) fn highest(&self) -> Option<usize> {
        self.there.highest()
    }

    /// Puts a node behind all of its rank. `chain` is the one that this is about.
    ///
    /// # Safety
    /// The node is alive, queued and nobody else's.
    pub(super) unsafe fn insert(
        &mut self,
        chain: Option<Chain<M>>,
        node: NonNull<Node<M>>,
        place: usize,
    ) -> Chain<M> {
        let before = match &chain {
            None => {
                self.there = RankSet::default();
                None
            }
            Some(_) => self.there.lowest_from(place),
        };
        self.there.add(place);
        let before = before.map(|before| self.last[before]);
        self.last[place] = node.as_ptr();
        match (chain, before.and_then(NonNull::new)) {
            // SAFETY: passed on.
            (None, _) => unsafe { Chain::one(node) },
            // SAFETY: passed on.
            (Some(chain), None) => unsafe { Chain::one(node) }.append(chain),
            // SAFETY: passed on; the table is that of this chain.
            (Some(chain), Some(before)) => unsafe { chain.insert_behind(before, node) },
        }
    }

    /// Puts a node in front of a chain in which no rank is higher.
    ///
    /// # Safety
    /// As for [`Levels::insert`].
    pub(super) unsafe fn insert_first(
        &mut self,
        chain: Option<Chain<M>>,
        node: NonNull<Node<M>>,
        place: usize,
    ) -> Chain<M> {
        // SAFETY: passed on.
        let one = unsafe { Chain::one(node) };
        let whole = match chain {
            None => {
                self.there = RankSet::default();
                one
            }
            Some(chain) => one.append(chain),
        };
        if self.highest() != Some(place) {
            self.there.add(place);
            self.last[place] = node.as_ptr();
        }
        whole
    }

    /// Takes the first node out of the chain that this is about; its rank, and the rest.
    pub(super) fn pop(&mut self, chain: Chain<M>) -> (NonNull<Node<M>>, usize, Option<Chain<M>>) {
        let place = self.highest().expect("a chain is not empty");
        let (first, rest) = chain.pop();
        if self.last[place] == first.as_ptr() {
            self.there.remove(place);
        }
        (first, place, rest)
    }
}
