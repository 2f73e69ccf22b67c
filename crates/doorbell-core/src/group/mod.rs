//! Groups: tasks that share the CPU time of a scheduler by weight. See README.md in this folder.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | the words that workers share: groups, their times, their queues |
//! | `choice.rs` | the arithmetic: which group is next |
//! | `worker.rs` | what a worker keeps |

mod choice;
#[cfg(test)]
mod loom;
#[cfg(test)]
mod tests;
mod worker;

pub use choice::{DEFAULT_WEIGHT, WEIGHT_MAX};
pub(crate) use worker::{LOOKS_MAX, WorkerGroups, members};

use crate::queue::{Queue, Ready};
use choice::{Account, Choice, choose, moves_present, step};
use doorbell_machine::{Line, Machine, Ordering, PtrWord, Word};
use std::cell::Cell;

/// The group of tasks that were given no group.
pub const DEFAULT: u8 = 0;

/// The most groups of a scheduler, the default one included: a worker's set of them is one word.
const GROUPS_MAX: usize = 64;
const _: () = assert!(GROUPS_MAX == u64::BITS as usize && GROUPS_MAX <= u8::MAX as usize + 1);

/// The most tasks in the ring buffer of a group's queue on one worker; more go to its backlog.
const RING_MAX: usize = 32;

/// Workers time their polls for this long after a task of a group ran anywhere.
const SEEN_NS: u64 = 100_000_000;

/// The note that a task of a group ran is renewed only when it is older than this: all workers share its
/// line.
const SEEN_STEP_NS: u64 = 10_000_000;

/// The groups of a scheduler; a null word until the first one is opened.
pub struct Groups<M: Machine>(M::Ptr<Table<M>>);

// SAFETY: the table is Sync, written before its address is published, and freed when this is dropped.
unsafe impl<M: Machine> Sync for Groups<M> {}
// SAFETY: as for Sync.
unsafe impl<M: Machine> Send for Groups<M> {}

impl<M: Machine> Default for Groups<M> {
    fn default() -> Self {
        Groups(M::Ptr::new(std::ptr::null_mut()))
    }
}

impl<M: Machine> std::fmt::Debug for Groups<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let opened = self.table().map_or(0, Table::opened);
        f.debug_struct("Groups").field("opened", &opened).finish()
    }
}

impl<M: Machine> Groups<M> {
    /// The most groups that may be open at a time, the default one not included.
    pub const ROOM: usize = room::<M>() - 1;

    /// Opens the group with this number, 1 to [`Groups::ROOM`], or gives the number to a new group. Numbers
    /// are opened in order.
    ///
    /// # Panics
    /// If the number is out of this range or of this order, or the weight is not 1 to [`WEIGHT_MAX`].
    ///
    /// # Safety
    /// One call at a time; `workers` is the number of workers of the scheduler; the group has no task.
    pub unsafe fn open(&self, workers: usize, group: u8, weight: u32) {
        assert!((1..=WEIGHT_MAX).contains(&weight), "no such weight");
        if self.table().is_none() {
            let table = Box::into_raw(Box::new(Table::new(workers)));
            // ORDER: Release pairs with the Acquire in `table`: the table's contents.
            self.0.store(table, Ordering::Release);
        }
        let table = self.table().expect("made above, or before");
        table.open(workers, usize::from(group), weight);
    }

    /// Counts a task of an open group that is about to be launched; see
    /// [`About::group`](crate::task::About::group).
    pub fn reserve(&self, group: u8) {
        if let Some(slot) = self.table().and_then(|table| table.slot(group)) {
            slot.join();
        }
    }

    /// Whether the group has no task. This stays true until [`Groups::reserve`] is called for it.
    pub fn is_unused(&self, group: u8) -> bool {
        let slot = self.table().and_then(|table| table.slot(group));
        slot.is_none_or(OpenGroup::is_unused)
    }

    #[inline(always)]
    pub(crate) fn table(&self) -> Option<&Table<M>> {
        // ORDER: Acquire pairs with the Release in `open`.
        let table = self.0.load(Ordering::Acquire);
        // SAFETY: made in `open`, and freed when this is dropped.
        unsafe { table.as_ref() }
    }

    /// Whether a task of a group other than the default one waits where others may take it from this worker.
    #[inline]
    pub(crate) fn has_queued(&self, worker: usize) -> bool {
        self.table().is_some_and(|table| table.has_queued(worker))
    }

    /// About how many such tasks wait there.
    pub(crate) fn queued_len(&self, worker: usize) -> u64 {
        let Some(table) = self.table() else { return 0 };
        let places = table
            .numbers()
            .filter_map(|group| table.place(group, worker));
        places.map(|place| place.queue.len()).sum()
    }
}

impl<M: Machine> Drop for Groups<M> {
    fn drop(&mut self) {
        // ORDER: Relaxed; the caller has it exclusively.
        let table = self.0.load(Ordering::Relaxed);
        if !table.is_null() {
            // SAFETY: made in `open` as a box.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

const fn room<M: Machine>() -> usize {
    // A model with small ring buffers has few groups too.
    let room = M::RING_CAPACITY / 4;
    if room < 4 {
        4
    } else if room > GROUPS_MAX {
        GROUPS_MAX
    } else {
        room
    }
}

/// The groups of a scheduler: the words that its workers share.
pub(crate) struct Table<M: Machine> {
    slots: Box<[M::Ptr<OpenGroup<M>>]>,
    /// How many slots there are, in order from the first.
    opened: M::U32,
    /// About the virtual time that was chosen last.
    present: M::Line<M::U64>,
    /// About when a task of a group other than the default one ran last; 0 if none did.
    seen_ns: M::Line<M::U64>,
}

/// One group.
pub(crate) struct OpenGroup<M: Machine> {
    words: M::Line<GroupWords<M>>,
    /// One for each worker.
    places: Box<[WorkerQueues<M>]>,
}

struct GroupWords<M: Machine> {
    /// The group's virtual time.
    time: M::U64,
    /// When a poll of one of its tasks ended last.
    ran_ns: M::U64,
    weight: M::U32,
    /// How many tasks the group has.
    tasks: M::U32,
}

/// What one worker keeps for one group.
pub(crate) struct WorkerQueues<M: Machine> {
    /// Tasks that may run anywhere. Those of the default group are in the remote half's queue instead.
    pub(crate) queue: Queue<M>,
    /// Pinned tasks. Only the worker's thread touches this.
    pinned: Ready<M>,
    /// The remainder of the last division by the weight. Only the worker's thread touches this.
    rest: Cell<u64>,
}

// SAFETY: the fields of a place that are not Sync are used on its worker's thread only. Unsafe functions give
// access to them, and their callers guarantee the thread.
unsafe impl<M: Machine> Sync for WorkerQueues<M> {}
// SAFETY: as for Sync; the nodes in it belong to tasks, which are Send.
unsafe impl<M: Machine> Send for WorkerQueues<M> {}

impl<M: Machine> WorkerQueues<M> {
    fn new(capacity: usize) -> Self {
        WorkerQueues {
            queue: Queue::new(capacity),
            pinned: Ready::default(),
            rest: Cell::new(0),
        }
    }

    /// The pinned tasks.
    ///
    /// # Safety
    /// The caller runs on the thread of the place's worker.
    #[inline]
    pub(crate) unsafe fn pinned(&self) -> &Ready<M> {
        &self.pinned
    }
}

impl<M: Machine> OpenGroup<M> {
    fn new(workers: usize, weight: u32, capacity: usize) -> Self {
        OpenGroup {
            words: M::Line::new(|| GroupWords {
                time: M::U64::new(0),
                ran_ns: M::U64::new(0),
                weight: M::U32::new(weight),
                tasks: M::U32::new(0),
            }),
            places: (0..workers).map(|_| WorkerQueues::new(capacity)).collect(),
        }
    }

    #[inline]
    pub(crate) fn place(&self, worker: usize) -> &WorkerQueues<M> {
        &self.places[worker]
    }

    #[inline]
    fn account(&self) -> Account {
        // ORDER: Relaxed; a choice may use an older value.
        let time = self.words.time.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let ran_ns = self.words.ran_ns.load(Ordering::Relaxed);
        Account {
            time,
            weight: self.weight(),
            ran_ns,
        }
    }

    fn weight(&self) -> u32 {
        // ORDER: Relaxed; it changes only while the group has no task.
        self.words.weight.load(Ordering::Relaxed)
    }

    /// Counts one task more.
    pub(crate) fn join(&self) {
        // ORDER: Relaxed; the caller is a task of the group, or holds the lock under which numbers are given
        // away.
        self.words.tasks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one task less.
    pub(crate) fn leave(&self) {
        // ORDER: Release pairs with the Acquire in `is_unused`: the task is in no queue of the group.
        self.words.tasks.fetch_sub(1, Ordering::Release);
    }

    fn is_unused(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `leave`.
        self.words.tasks.load(Ordering::Acquire) == 0
    }

    /// Sets the virtual time to `time`, unless another worker has changed it since it was `seen`.
    fn lift(&self, seen: u64, time: u64) {
        if seen != time {
            // ORDER: Relaxed; only the value matters. If it fails, another worker has lifted or charged the
            // group, and the next choice sees that.
            let _ =
                self.words
                    .time
                    .compare_exchange(seen, time, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl<M: Machine> Table<M> {
    fn new(workers: usize) -> Self {
        let table = Table {
            slots: (0..room::<M>())
                .map(|_| M::Ptr::new(std::ptr::null_mut()))
                .collect(),
            opened: M::U32::new(0),
            present: M::Line::new(|| M::U64::new(0)),
            seen_ns: M::Line::new(|| M::U64::new(0)),
        };
        // The default group's queues in here are not used, so they have the smallest size.
        table.add(0, OpenGroup::new(workers, DEFAULT_WEIGHT, 1));
        table
    }

    fn open(&self, workers: usize, group: usize, weight: u32) {
        assert!(
            (1..self.slots.len().min(self.opened() + 1)).contains(&group),
            "groups are opened in order"
        );
        if group == self.opened() {
            let capacity = M::RING_CAPACITY.min(RING_MAX);
            self.add(group, OpenGroup::new(workers, weight, capacity));
        }
        let slot = self.slot(group as u8).expect("opened above, or before");
        // ORDER: Relaxed; the group's tasks are launched after this.
        slot.words.weight.store(weight, Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        slot.words.time.store(self.present(), Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        slot.words.ran_ns.store(0, Ordering::Relaxed);
    }

    fn add(&self, at: usize, slot: OpenGroup<M>) {
        let slot = Box::into_raw(Box::new(slot));
        // ORDER: Release pairs with the Acquire in `slot`: the slot's contents.
        self.slots[at].store(slot, Ordering::Release);
        // ORDER: Relaxed; a reader that finds no address at a number skips it, as if it had read earlier.
        self.opened.store(at as u32 + 1, Ordering::Relaxed);
    }

    /// How many groups are open, the default one included.
    #[inline]
    pub(crate) fn opened(&self) -> usize {
        // ORDER: Relaxed; `slot` acquires the contents.
        self.opened.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub(crate) fn slot(&self, group: u8) -> Option<&OpenGroup<M>> {
        // ORDER: Acquire pairs with the Release in `add`.
        let slot = self.slots.get(usize::from(group))?.load(Ordering::Acquire);
        // SAFETY: made in `add`, and freed with the table.
        unsafe { slot.as_ref() }
    }

    /// What a worker keeps for a group; `None` for the default one and for one that is not open.
    #[inline]
    pub(crate) fn place(&self, group: u8, worker: usize) -> Option<&WorkerQueues<M>> {
        (group != DEFAULT)
            .then(|| self.slot(group))
            .flatten()
            .map(|slot| slot.place(worker))
    }

    /// The numbers of all open groups but the default one.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u8> {
        1..self.opened() as u8
    }

    fn has_queued(&self, worker: usize) -> bool {
        self.numbers()
            .filter_map(|group| self.place(group, worker))
            .any(|place| !place.queue.is_empty())
    }

    fn present(&self) -> u64 {
        // ORDER: Relaxed; a choice may use an older value.
        self.present.load(Ordering::Relaxed)
    }

    /// Which of these groups is next.
    pub(crate) fn choose(&self, groups: impl Iterator<Item = u8>, now_ns: u64) -> Option<Choice> {
        let known = groups.filter_map(|group| Some((group, self.slot(group)?.account())));
        choose(known, self.present(), now_ns)
    }

    /// A task of the chosen group is about to run: stores the lifted time, and moves the present.
    pub(crate) fn begin(&self, choice: Choice) {
        if let Some(slot) = self.slot(choice.group) {
            slot.lift(choice.seen, choice.time);
        }
        let present = self.present();
        if moves_present(present, choice.time) {
            // ORDER: Relaxed; only the value matters. If it fails, another worker has moved the present, and
            // the next choice goes on from there.
            let _ = self.present.compare_exchange(
                present,
                choice.time,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// Charges a group for a poll that ended on a worker.
    ///
    /// # Safety
    /// The caller runs on the thread of that worker.
    pub(crate) unsafe fn charge(&self, group: u8, worker: usize, from_ns: u64, now_ns: u64) {
        let Some(slot) = self.slot(group) else { return };
        let place = slot.place(worker);
        // At least 1 ns: where the clock stands still, the group that polls must not stay first forever.
        let ran_ns = now_ns.saturating_sub(from_ns).max(1);
        let (steps, rest) = step(ran_ns, slot.weight(), place.rest.get());
        place.rest.set(rest);
        // ORDER: Relaxed; a sum.
        slot.words.time.fetch_add(steps, Ordering::Relaxed);
        // ORDER: Relaxed; a hint for the choices of all workers.
        slot.words.ran_ns.store(now_ns, Ordering::Relaxed);
        if group == DEFAULT {
            return;
        }
        // ORDER: Relaxed; a note for workers without tasks of groups.
        let seen_ns = self.seen_ns.load(Ordering::Relaxed);
        if now_ns.saturating_sub(seen_ns) > SEEN_STEP_NS {
            // ORDER: Relaxed; as above.
            self.seen_ns.store(now_ns.max(1), Ordering::Relaxed);
        }
    }

    /// Whether a task of a group other than the default one ran lately.
    pub(crate) fn is_lively(&self, now_ns: u64) -> bool {
        // ORDER: Relaxed; as in `charge`.
        let seen_ns = self.seen_ns.load(Ordering::Relaxed);
        seen_ns != 0 && now_ns.saturating_sub(seen_ns) < SEEN_NS
    }

    /// Whether a group is so far behind the present that a worker should fetch a task of it.
    pub(crate) fn is_behind(&self, group: u8) -> bool {
        let account = self.slot(group).map(OpenGroup::account);
        account.is_some_and(|account| account.is_behind(self.present()))
    }

    /// All open groups, sorted by virtual time, and how many they are.
    pub(crate) fn in_order(&self) -> ([u8; GROUPS_MAX], usize) {
        let (present, opened) = (self.present(), self.opened());
        // Each time is read once, because other workers change it during the sort.
        let mut known = [(0, DEFAULT); GROUPS_MAX];
        for (group, known) in known.iter_mut().enumerate().take(opened) {
            let group = group as u8;
            let time = self.slot(group).map_or(present, |slot| slot.account().time);
            *known = (time.wrapping_sub(present).cast_signed(), group);
        }
        known[..opened].sort_unstable();
        (known.map(|(_, group)| group), opened)
    }
}

impl<M: Machine> Drop for Table<M> {
    fn drop(&mut self) {
        for slot in &self.slots {
            // ORDER: Relaxed; the caller has it exclusively.
            let slot = slot.load(Ordering::Relaxed);
            if !slot.is_null() {
                // SAFETY: made in `add` as a box.
                drop(unsafe { Box::from_raw(slot) });
            }
        }
    }
}
