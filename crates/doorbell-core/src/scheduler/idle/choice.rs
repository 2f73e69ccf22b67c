//! The order in which idle workers are chosen.
//!
//! 1. The worker that the work prefers, if its core is free of other classes.
//! 2. A CPU with nothing running: first one all of whose siblings idle too, then any. The nearest group comes first.
//! 3. A CPU on which only the Batch worker runs.
//! 4. Any idle worker. A higher class may hold its CPU for now, or it takes the CPU from a Fair worker.
//!
//! Whether a worker spins or sleeps does not matter. To learn it, each caller would read a line of each candidate, and
//! many callers at once would slow down the threads that notify those workers.
//!
//! Within a group the caller begins at the n-th candidate, where n is the number of its own CPU, or of the worker that
//! has tasks for others. So callers on different CPUs mostly begin at different candidates.

use super::IdleSet;
use super::cores::{BitPlace, Free};
use doorbell_machine::Machine;

/// Where a caller looks for an idle worker.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The worker that is tried first.
    pub near: usize,
    /// A number that differs among callers that choose at the same moment.
    pub spread: usize,
}

impl Wish {
    /// The wish of a worker that has tasks for others.
    pub fn of(worker: usize) -> Self {
        Wish {
            near: worker,
            spread: worker,
        }
    }
}

/// Which workers a caller may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// All that are idle.
    Idle,
    /// Not those that search: they look for work anyway.
    Resting,
}

/// How free a core must be.
#[derive(Clone, Copy, Debug)]
enum Level {
    /// Nothing runs on any hardware thread of the core.
    Whole,
    /// Nothing else runs on this hardware thread.
    Free,
    /// Nothing but the Batch worker runs there.
    BesideBatch,
    Any,
}

/// The levels of each round over all groups.
const ROUNDS: [&[Level]; 3] = [
    &[Level::Whole, Level::Free],
    &[Level::BesideBatch],
    &[Level::Any],
];

/// What came of a group.
enum Taken {
    /// This worker was taken.
    Yes(usize),
    /// Its idle workers come in a later round.
    NotYet,
    /// It has none that can be chosen.
    Nobody,
}

/// One search for an idle worker.
pub(super) struct Choice<'a, M: Machine> {
    pub(super) set: &'a IdleSet<M>,
    pub(super) wish: Wish,
    pub(super) which: Which,
    /// Whether a worker fits.
    pub(super) fits: &'a dyn Fn(usize) -> bool,
}

impl<M: Machine> Choice<'_, M> {
    /// Calls `takes` with one idle worker after the other, in the order given above, until it returns `true`. Returns
    /// that worker.
    pub(super) fn make(&self, takes: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        let cores = &self.set.cores;
        let near = cores.place(self.wish.near);
        for levels in ROUNDS {
            let mut any_left = false;
            for group in cores.order(near.group) {
                match self.take_in(*group, near, levels, takes) {
                    Taken::Yes(worker) => return Some(worker),
                    Taken::NotYet => any_left = true,
                    Taken::Nobody => {}
                }
            }
            if !any_left {
                return None;
            }
        }
        None
    }

    /// The nearest idle worker on whose core nothing runs. `None` if there is none, or if the worker of the wish is one.
    pub(super) fn find_whole(&self) -> Option<usize> {
        let cores = &self.set.cores;
        let near = cores.place(self.wish.near);
        for group in cores.order(near.group) {
            let whole = self.open(*group, Level::Whole, cores.free(*group, self.set.class));
            if *group == near.group && whole & 1 << near.slot != 0 {
                return None;
            }
            if let Some(slot) = self.pick(*group, whole) {
                return Some(cores.worker(*group, slot));
            }
        }
        None
    }

    /// Tries each candidate of a group, once in each round.
    fn take_in(
        &self,
        group: usize,
        near: BitPlace,
        levels: &[Level],
        takes: &mut dyn FnMut(usize) -> bool,
    ) -> Taken {
        let (cores, mut tried) = (&self.set.cores, 0);
        loop {
            let free = cores.free(group, self.set.class);
            let open = |level| self.open(group, level, free) & !tried;
            if open(Level::Any) == 0 {
                return Taken::Nobody;
            }
            let preferred = || {
                let is_open = group == near.group && open(Level::Free) & 1 << near.slot != 0;
                (is_open && (self.fits)(self.wish.near)).then_some(near.slot)
            };
            let of_levels = || {
                levels
                    .iter()
                    .find_map(|level| self.pick(group, open(*level)))
            };
            let Some(slot) = preferred().or_else(of_levels) else {
                return Taken::NotYet;
            };
            let worker = cores.worker(group, slot);
            if takes(worker) {
                return Taken::Yes(worker);
            }
            tried |= 1 << slot;
        }
    }

    /// The workers of a group that may be chosen, one bit per slot.
    fn open(&self, group: usize, level: Level, free: Free) -> u16 {
        let of_level = match level {
            Level::Whole => self.set.cores.whole(group, free.idle & !free.others),
            Level::Free => free.idle & !free.others,
            Level::BesideBatch => free.idle & !free.others_but_batch,
            Level::Any => free.idle,
        };
        match self.which {
            Which::Idle => of_level,
            Which::Resting => of_level & !free.searching,
        }
    }

    /// The first slot that fits, from the caller's own place on.
    fn pick(&self, group: usize, open: u16) -> Option<usize> {
        let candidates = open.count_ones();
        let first = (self.wish.spread as u32).checked_rem(candidates)?;
        let mut slots = (0..candidates).map(|more| nth(open, (first + more) % candidates));
        slots.find(|slot| (self.fits)(self.set.cores.worker(group, *slot)))
    }
}

/// The n-th set bit of a word that has more than n.
fn nth(bits: u16, n: u32) -> usize {
    let rest = (0..n).fold(bits, |bits, _| bits & (bits - 1));
    rest.trailing_zeros() as usize
}
