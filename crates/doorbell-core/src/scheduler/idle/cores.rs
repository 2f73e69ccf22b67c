//! Which workers lie near each other, and the words that say which of them are idle. All schedulers of a runtime share
//! this: they have a worker on each of the same cores.
//!
//! A *group* is up to 16 workers whose cores share a last-level cache; a larger cache has several groups. Each group
//! has one line, with one word per class. The bits of a word, by the slot of the worker in its group:
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0 to 15 | `IDLE` | the worker has nothing to do, and can be taken |
//! | 16 to 31 | `COUNTED` | the worker is counted as searching: it was claimed, or searches by itself |
//! | 32 to 47 | `STARTED` | the worker has begun to run. Before that it is on no CPU: its core is free of that class |

use crate::class::Class;
use doorbell_machine::{Line, Machine, Ordering, Word};
use std::sync::Arc;

/// Workers of a group at most.
pub(in crate::scheduler) const GROUP_MAX: usize = 16;

/// The bits of a word, by its first worker.
pub(super) const IDLE: u64 = 1;
pub(super) const COUNTED: u64 = IDLE << GROUP_MAX;
pub(super) const STARTED: u64 = COUNTED << GROUP_MAX;
const _: () =
    assert!(COUNTED == 1 << 16 && STARTED == 1 << 32 && 3 * GROUP_MAX <= u64::BITS as usize);

/// How many hardware threads a core can have. More workers that are this near to each other mean that nothing is
/// known of their cores, as where workers are not bound.
const SMT_MAX: usize = 8;

/// The distance of two workers whose cores share a last-level cache; hardware threads of one core are nearer.
const SAME_CACHE: u32 = 1;

/// How many classes there are.
const CLASSES: usize = 3;
const _: () =
    assert!(Class::Batch as usize == 0 && Class::Fair as usize == 1 && Class::Rt as usize == 2);

/// Where a worker's bits are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::scheduler) struct BitPlace {
    pub(in crate::scheduler) group: usize,
    pub(in crate::scheduler) slot: usize,
}

/// Workers whose cores share a last-level cache.
#[derive(Debug)]
struct Group {
    /// The worker in each slot.
    workers: Box<[usize]>,
    /// For each slot, the slots of the workers of the same core, its own among them.
    siblings: Box<[u16]>,
    /// All groups, nearest first; this one is the first.
    order: Box<[usize]>,
}

/// Which cores are free of other classes; one bit per slot of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Free {
    /// The idle workers of the own class.
    pub(super) idle: u16,
    /// Those of them that search.
    pub(super) searching: u16,
    /// The slots on whose cores a worker of another class runs.
    pub(super) others: u16,
    /// The slots on whose cores a worker of another class than Batch runs.
    pub(super) others_but_batch: u16,
}

/// The groups of a runtime's workers, and their idle words.
pub struct Cores<M: Machine> {
    places: Box<[BitPlace]>,
    groups: Box<[Group]>,
    /// Whether schedulers of several classes share this.
    is_shared: bool,
    /// For each group, one word per class.
    words: Box<[M::Line<[M::U64; CLASSES]>]>,
}

impl<M: Machine> std::fmt::Debug for Cores<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cores").field(&self.groups).finish()
    }
}

impl<M: Machine> Cores<M> {
    /// The groups of `workers` workers, for the schedulers of a runtime. `distance` says how far one worker is from
    /// another: 0 on one core, 1 if their cores share a last-level cache, more if not.
    #[must_use]
    pub fn new(workers: usize, distance: impl Fn(usize, usize) -> u32) -> Arc<Self> {
        Self::shared(workers, &distance, true)
    }

    /// As `new`, for a runtime with one scheduler.
    pub(in crate::scheduler) fn of_one_class(
        workers: usize,
        distance: impl Fn(usize, usize) -> u32,
    ) -> Arc<Self> {
        Self::shared(workers, &distance, false)
    }

    fn shared(
        workers: usize,
        distance: &dyn Fn(usize, usize) -> u32,
        is_shared: bool,
    ) -> Arc<Self> {
        let (places, groups) = lay_out(workers, distance);
        Arc::new(Cores {
            is_shared,
            words: groups
                .iter()
                .map(|_| M::Line::new(|| std::array::from_fn(|_| M::U64::new(0))))
                .collect(),
            groups,
            places,
        })
    }

    /// How many workers there are.
    pub(in crate::scheduler) fn workers(&self) -> usize {
        self.places.len()
    }

    /// How many groups there are.
    pub(in crate::scheduler) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Where the bits of a worker are.
    #[inline]
    pub(in crate::scheduler) fn place(&self, worker: usize) -> BitPlace {
        self.places[worker]
    }

    /// The worker in a slot of a group.
    pub(in crate::scheduler) fn worker(&self, group: usize, slot: usize) -> usize {
        self.groups[group].workers[slot]
    }

    /// How many workers a group has.
    pub(in crate::scheduler) fn slots(&self, group: usize) -> usize {
        self.groups[group].workers.len()
    }

    /// The workers of a group with their places, by slot from `first` on and then from the beginning.
    pub(in crate::scheduler) fn members(
        &self,
        group: usize,
        first: usize,
    ) -> impl Iterator<Item = (usize, BitPlace)> {
        let slots = self.slots(group);
        (0..slots).map(move |step| {
            let slot = (first + step) % slots;
            (self.worker(group, slot), BitPlace { group, slot })
        })
    }

    /// All groups, nearest first from this one on.
    pub(in crate::scheduler) fn order(&self, group: usize) -> &[usize] {
        &self.groups[group].order
    }

    /// The word of a group and a class.
    #[inline]
    pub(super) fn word(&self, group: usize, class: Class) -> &M::U64 {
        &self.words[group][class as usize]
    }

    /// Which workers of a group are idle, and on which of their cores other classes run. A hint: each word is read
    /// once.
    pub(super) fn free(&self, group: usize, class: Class) -> Free {
        // ORDER: Relaxed; a hint, the read-modify-write of a claim decides.
        let load = |of: Class| self.word(group, of).load(Ordering::Relaxed);
        let own = load(class);
        let busy = |of: Class| {
            if self.is_shared && of != class {
                busy(load(of))
            } else {
                0
            }
        };
        let others_but_batch = busy(Class::Rt) | busy(Class::Fair);
        Free {
            idle: own as u16,
            searching: (own / COUNTED) as u16,
            others: others_but_batch | busy(Class::Batch),
            others_but_batch,
        }
    }

    /// The slots of a group whose workers of a class have begun to run and are not idle. A hint.
    pub(super) fn awake(&self, group: usize, class: Class) -> u16 {
        // ORDER: Relaxed; a hint, as in `free`.
        busy(self.word(group, class).load(Ordering::Relaxed))
    }

    /// The slots whose core has all its hardware threads in `slots`.
    pub(super) fn whole(&self, group: usize, slots: u16) -> u16 {
        let siblings = self.groups[group].siblings.iter().enumerate();
        siblings
            .filter(|(_, of_core)| **of_core & !slots == 0)
            .fold(0, |whole, (slot, _)| whole | 1 << slot)
    }
}

/// The workers of a word that have begun to run and are not idle.
const fn busy(word: u64) -> u16 {
    (word / STARTED) as u16 & !(word as u16)
}

/// Where each worker's bits are, and the groups. Each caller has a distance of its own type; this is compiled once for
/// all of them.
fn lay_out(
    workers: usize,
    distance: &dyn Fn(usize, usize) -> u32,
) -> (Box<[BitPlace]>, Box<[Group]>) {
    let members = groups_of(workers, distance);
    let mut places = vec![BitPlace::default(); workers].into_boxed_slice();
    for (group, members) in members.iter().enumerate() {
        for (slot, worker) in members.iter().enumerate() {
            places[*worker] = BitPlace { group, slot };
        }
    }
    let between = |one: usize, other: usize| distance(members[one][0], members[other][0]);
    let group = |at: usize| {
        let mut order: Box<[usize]> = (0..members.len())
            .map(|step| (at + step) % members.len())
            .collect();
        // A stable sort: among equally distant groups each begins at its next neighbour.
        order[1..].sort_by_key(|other| between(at, *other));
        let of_core = |one: &usize| slots_where(&members[at], |other| distance(*one, other) == 0);
        Group {
            siblings: members[at]
                .iter()
                .map(|one| alone_if_unknown(*one, &members[at], of_core(one)))
                .collect(),
            workers: members[at].clone().into_boxed_slice(),
            order,
        }
    };
    (places, (0..members.len()).map(group).collect())
}

/// The slots of a group whose workers fit.
fn slots_where(members: &[usize], fits: impl Fn(usize) -> bool) -> u16 {
    let fitting = members
        .iter()
        .enumerate()
        .filter(|(_, worker)| fits(**worker));
    fitting.fold(0, |slots, (slot, _)| slots | 1 << slot)
}

/// The slots of a worker's core; only its own if they are so many that nothing is known of cores.
fn alone_if_unknown(worker: usize, members: &[usize], of_core: u16) -> u16 {
    let own = slots_where(members, |other| other == worker);
    if of_core.count_ones() as usize > SMT_MAX {
        own
    } else {
        own | of_core
    }
}

/// The workers by last-level cache, in groups of about equal size. They keep the workers of one core together if the
/// cores of a cache have the same number of hardware threads, a power of two.
fn groups_of(workers: usize, distance: &dyn Fn(usize, usize) -> u32) -> Vec<Vec<usize>> {
    let mut caches: Vec<Vec<usize>> = Vec::new();
    for worker in 0..workers {
        let near = caches
            .iter_mut()
            .find(|cache| distance(cache[0], worker) <= SAME_CACHE);
        match near {
            Some(cache) => cache.push(worker),
            None => caches.push(vec![worker]),
        }
    }
    caches
        .into_iter()
        .flat_map(|cache| split(&cache, distance))
        .collect()
}

/// Splits the workers of one cache into groups.
fn split(cache: &[usize], distance: &dyn Fn(usize, usize) -> u32) -> Vec<Vec<usize>> {
    let first_of_core =
        |worker: usize| cache.iter().position(|other| distance(*other, worker) == 0);
    let mut sorted = cache.to_vec();
    sorted.sort_by_key(|worker| first_of_core(*worker));
    let of_core = cache
        .iter()
        .filter(|other| distance(cache[0], **other) == 0)
        .count();
    let together = if of_core > SMT_MAX {
        1
    } else {
        of_core.max(1).next_power_of_two()
    };
    let groups = cache.len().div_ceil(GROUP_MAX);
    let size = cache
        .len()
        .div_ceil(groups)
        .next_multiple_of(together)
        .min(GROUP_MAX);
    sorted.chunks(size).map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::{Class, Cores, Free, GROUP_MAX, IDLE, STARTED};
    use doorbell_machine::{Host, Machine, Ordering};
    use std::sync::Arc;

    /// Cores of two hardware threads, eight cores to a cache, numbered as Linux does: the second threads come last.
    fn smt(one: usize, other: usize) -> u32 {
        match (one % 32, other % 32) {
            (one, other) if one == other => 0,
            (one, other) if one / 8 == other / 8 => 1,
            _ => 2 + u32::from(one.abs_diff(other) > 16),
        }
    }

    fn groups<M: Machine>(cores: &Cores<M>) -> Vec<Vec<usize>> {
        cores
            .groups
            .iter()
            .map(|group| group.workers.to_vec())
            .collect()
    }

    #[test]
    fn the_members_of_a_group_come_from_a_slot_on() {
        let cores =
            Cores::<Host>::of_one_class(6, |one, other| 1 + u32::from(one % 2 != other % 2));
        let from = |first| cores.members(1, first).map(|(worker, _)| worker);
        assert_eq!(from(2).collect::<Vec<_>>(), [5, 1, 3]);
        assert_eq!(
            from(4).collect::<Vec<_>>(),
            [3, 5, 1],
            "no slot has that number"
        );
    }

    #[test]
    fn a_group_is_a_cache_with_the_threads_of_each_core_side_by_side() {
        let cores = Cores::<Host>::new(64, smt);
        let first: Vec<usize> = (0..8).flat_map(|core| [core, core + 32]).collect();
        assert_eq!((cores.groups(), &groups(&cores)[0]), (4, &first));
        assert_eq!(cores.groups[0].siblings[..4], [0b11, 0b11, 0b1100, 0b1100]);
        assert_eq!(cores.order(1), [1, 2, 3, 0], "nearest first");
        for worker in 0..64 {
            let place = cores.place(worker);
            assert_eq!(cores.worker(place.group, place.slot), worker);
        }
    }

    #[test]
    fn a_large_cache_is_split_evenly_and_nothing_is_known_of_workers_that_are_not_bound() {
        for workers in [1, 16, 17, 40, 130] {
            let cores = Cores::<Host>::new(workers, |_, _| 0);
            let sizes: Vec<usize> = groups(&cores).iter().map(Vec::len).collect();
            assert!(sizes.iter().all(|size| *size <= GROUP_MAX), "{sizes:?}");
            assert!(
                sizes[0] - sizes[sizes.len() - 1] <= GROUP_MAX / 2,
                "{sizes:?}"
            );
            assert_eq!(
                (sizes.iter().sum::<usize>(), sizes.len()),
                (workers, workers.div_ceil(GROUP_MAX))
            );
            let unknown = workers > super::SMT_MAX;
            assert_eq!(
                cores.groups[0].siblings[0].is_power_of_two(),
                unknown || workers == 1
            );
        }
        let of_two = groups(&Cores::<Host>::new(40, |one, other| {
            u32::from(one % 20 != other % 20)
        }));
        assert_eq!(
            of_two[0],
            (0..7)
                .flat_map(|core| [core, core + 20])
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_core_is_free_of_a_class_that_has_not_begun_there_or_idles() {
        let cores: Arc<Cores<Host>> = Cores::new(4, |one, other| u32::from(one != other));
        let set = |class, bits| cores.word(0, class).store(bits, Ordering::Relaxed);
        set(Class::Fair, (IDLE * 0b1111) | (STARTED * 0b1111));
        set(Class::Rt, (STARTED * 0b0011) | IDLE);
        set(Class::Batch, STARTED * 0b0100);
        let Free {
            idle,
            searching,
            others,
            others_but_batch,
        } = cores.free(0, Class::Fair);
        assert_eq!(
            (idle, searching, others, others_but_batch),
            (0b1111, 0, 0b0110, 0b0010)
        );
    }
}
