//! Groups: tasks that share the CPU time of a scheduler by weight. See README.md in this folder.
//!
//! | file | holds |
//! |---|---|
//! | `choice.rs` | the arithmetic: whose turn it is |
//! | `worker.rs` | what a worker does with tasks of groups |

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

/// The group of tasks that were given none.
pub const DEFAULT: u8 = 0;

/// The most groups of a scheduler, with the default one: a worker's set of them is one word.
const GROUPS_MAX: usize = 64;
const _: () = assert!(GROUPS_MAX == u64::BITS as usize && GROUPS_MAX <= u8::MAX as usize + 1);

/// The ring of a group's queue on one worker holds so many; more go to its backlog.
const RING_MAX: usize = 32;

/// Workers take note of groups for so long after a task of one ran.
const SEEN_NS: u64 = 100_000_000;

/// How old the note of that may be, so that it is not written all the time.
const SEEN_STEP_NS: u64 = 10_000_000;

/// The groups of a scheduler; nothing until the first one is opened.
pub struct Groups<M: Machine>(M::Ptr<Table<M>>);

// SAFETY: the table is Sync, is written before its address is published, and is freed with this.
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
    /// The most that may be open at a time, without the default one.
    pub const ROOM: usize = room::<M>() - 1;

    /// Opens a group of that number, 1 to [`Groups::ROOM`], or gives it to others. Numbers are
    /// opened in order.
    ///
    /// # Panics
    /// If the number is not among these, or the weight not 1 to [`WEIGHT_MAX`].
    ///
    /// # Safety
    /// One at a time; `workers` is the number of workers of the scheduler; no task is of that group.
    pub unsafe fn open(&self, workers: usize, group: u8, weight: u32) {
        assert!((1..=WEIGHT_MAX).contains(&weight), "no such weight");
        if self.table().is_none() {
            let table = Box::into_raw(Box::new(Table::new(workers)));
            // ORDER: Release pairs with the Acquire in `table`: it is written.
            self.0.store(table, Ordering::Release);
        }
        let table = self.table().expect("made above, or before");
        table.open(workers, usize::from(group), weight);
    }

    /// A task of that group, which is open, is about to be launched; see
    /// [`About::group`](crate::task::About::group).
    pub fn reserve(&self, group: u8) {
        if let Some(slot) = self.table().and_then(|table| table.slot(group)) {
            slot.join();
        }
    }

    /// Whether no task is of that group. It stays so as long as nobody reserves one.
    pub fn is_unused(&self, group: u8) -> bool {
        let slot = self.table().and_then(|table| table.slot(group));
        slot.is_none_or(Slot::is_unused)
    }

    #[inline(always)]
    pub(crate) fn table(&self) -> Option<&Table<M>> {
        // ORDER: Acquire pairs with the Release in `open`.
        let table = self.0.load(Ordering::Acquire);
        // SAFETY: made in `open`, and there until this is dropped.
        unsafe { table.as_ref() }
    }

    /// Whether a task of a group waits in a queue of that worker that others may take from.
    #[inline]
    pub(crate) fn has_queued(&self, worker: usize) -> bool {
        self.table().is_some_and(|table| table.has_queued(worker))
    }

    /// How many such tasks wait there, about.
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
        // ORDER: Relaxed; nobody else is there.
        let table = self.0.load(Ordering::Relaxed);
        if !table.is_null() {
            // SAFETY: made in `open` as a box.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

const fn room<M: Machine>() -> usize {
    // Small where the rings are.
    let room = M::RING_CAPACITY / 4;
    if room < 4 {
        4
    } else if room > GROUPS_MAX {
        GROUPS_MAX
    } else {
        room
    }
}

/// What workers know of groups.
pub(crate) struct Table<M: Machine> {
    slots: Box<[M::Ptr<Slot<M>>]>,
    /// How many slots there are, from the first on.
    opened: M::U32,
    /// The virtual time that was chosen last, about.
    present: M::Line<M::U64>,
    /// When a task of a group ran last, about; 0 if none did.
    seen_ns: M::Line<M::U64>,
}

/// One group.
pub(crate) struct Slot<M: Machine> {
    words: M::Line<SlotWords<M>>,
    /// What each worker has of it.
    places: Box<[Place<M>]>,
}

struct SlotWords<M: Machine> {
    /// Its virtual time.
    time: M::U64,
    /// When a poll of it ended last.
    ran_ns: M::U64,
    weight: M::U32,
    /// How many tasks are of it.
    tasks: M::U32,
}

/// What one worker has of one group.
pub(crate) struct Place<M: Machine> {
    /// Tasks that may run anywhere. The default group's are in the remote half's queue.
    pub(crate) queue: Queue<M>,
    /// Pinned ones; only the worker's.
    pinned: Ready<M>,
    /// What is left of CPU time that was counted; only the worker's.
    rest: Cell<u64>,
}

// SAFETY: what is not Sync in a place is used on its worker's thread only: by unsafe functions, whose
// callers say so.
unsafe impl<M: Machine> Sync for Place<M> {}
// SAFETY: as for Sync; the nodes in it are of tasks, which are Send.
unsafe impl<M: Machine> Send for Place<M> {}

impl<M: Machine> Place<M> {
    fn new(capacity: usize) -> Self {
        Place {
            queue: Queue::new(capacity),
            pinned: Ready::default(),
            rest: Cell::new(0),
        }
    }

    /// Pinned tasks.
    ///
    /// # Safety
    /// On the thread of the worker whose place it is.
    #[inline]
    pub(crate) unsafe fn pinned(&self) -> &Ready<M> {
        &self.pinned
    }
}

impl<M: Machine> Slot<M> {
    fn new(workers: usize, weight: u32, capacity: usize) -> Self {
        Slot {
            words: M::Line::new(|| SlotWords {
                time: M::U64::new(0),
                ran_ns: M::U64::new(0),
                weight: M::U32::new(weight),
                tasks: M::U32::new(0),
            }),
            places: (0..workers).map(|_| Place::new(capacity)).collect(),
        }
    }

    #[inline]
    pub(crate) fn place(&self, worker: usize) -> &Place<M> {
        &self.places[worker]
    }

    #[inline]
    fn account(&self) -> Account {
        // ORDER: Relaxed; a choice may be made by older values.
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
        // ORDER: Relaxed; it changes only while no task is of the group.
        self.words.weight.load(Ordering::Relaxed)
    }

    /// One task more is of it.
    pub(crate) fn join(&self) {
        // ORDER: Relaxed; the caller is a task of it, or has what keeps it from being given away.
        self.words.tasks.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub(crate) fn leave(&self) {
        // ORDER: Release pairs with the Acquire in `is_unused`: the task is in no queue of it.
        self.words.tasks.fetch_sub(1, Ordering::Release);
    }

    fn is_unused(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `leave`.
        self.words.tasks.load(Ordering::Acquire) == 0
    }

    /// Its virtual time is that, unless somebody has changed it since it was `seen`.
    fn lift(&self, seen: u64, time: u64) {
        if seen != time {
            // ORDER: Relaxed; only the value matters. Failed: somebody else has lifted it, or
            // counted, and the next choice sees it.
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
        // Its queues are not used.
        table.add(0, Slot::new(workers, DEFAULT_WEIGHT, 1));
        table
    }

    fn open(&self, workers: usize, group: usize, weight: u32) {
        assert!(
            (1..self.slots.len().min(self.opened() + 1)).contains(&group),
            "groups are opened in order"
        );
        if group == self.opened() {
            let capacity = M::RING_CAPACITY.min(RING_MAX);
            self.add(group, Slot::new(workers, weight, capacity));
        }
        let slot = self.slot(group as u8).expect("opened above, or before");
        // ORDER: Relaxed; the group's tasks are launched behind this.
        slot.words.weight.store(weight, Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        slot.words.time.store(self.present(), Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        slot.words.ran_ns.store(0, Ordering::Relaxed);
    }

    fn add(&self, at: usize, slot: Slot<M>) {
        let slot = Box::into_raw(Box::new(slot));
        // ORDER: Release pairs with the Acquire in `slot`: it is written.
        self.slots[at].store(slot, Ordering::Release);
        // ORDER: Relaxed; who finds no address there passes the group by, as if it came earlier.
        self.opened.store(at as u32 + 1, Ordering::Relaxed);
    }

    /// How many groups there are, with the default one.
    #[inline]
    pub(crate) fn opened(&self) -> usize {
        // ORDER: Relaxed; `slot` acquires what is there.
        self.opened.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub(crate) fn slot(&self, group: u8) -> Option<&Slot<M>> {
        // ORDER: Acquire pairs with the Release in `add`.
        let slot = self.slots.get(usize::from(group))?.load(Ordering::Acquire);
        // SAFETY: made in `add`, and there as long as the table.
        unsafe { slot.as_ref() }
    }

    /// What a worker has of a group other than the default one.
    #[inline]
    pub(crate) fn place(&self, group: u8, worker: usize) -> Option<&Place<M>> {
        (group != DEFAULT)
            .then(|| self.slot(group))
            .flatten()
            .map(|slot| slot.place(worker))
    }

    /// All groups but the default one.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u8> {
        1..self.opened() as u8
    }

    fn has_queued(&self, worker: usize) -> bool {
        self.numbers()
            .filter_map(|group| self.place(group, worker))
            .any(|place| !place.queue.is_empty())
    }

    fn present(&self) -> u64 {
        // ORDER: Relaxed; a choice may be made by an older value.
        self.present.load(Ordering::Relaxed)
    }

    /// Which of these groups is next; they are told by number.
    pub(crate) fn choose(&self, groups: impl Iterator<Item = u8>, now_ns: u64) -> Option<Choice> {
        let known = groups.filter_map(|group| Some((group, self.slot(group)?.account())));
        choose(known, self.present(), now_ns)
    }

    /// A group was chosen, and is about to run.
    pub(crate) fn begin(&self, choice: Choice) {
        if let Some(slot) = self.slot(choice.group) {
            slot.lift(slot.account().time, choice.time);
        }
        let present = self.present();
        if moves_present(present, choice.time) {
            // ORDER: Relaxed; only the value matters. Failed: another worker has moved it, and the
            // next choice goes on from there.
            let _ = self.present.compare_exchange(
                present,
                choice.time,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// A poll of a group has ended on a worker.
    ///
    /// # Safety
    /// On the thread of that worker.
    pub(crate) unsafe fn charge(&self, group: u8, worker: usize, from_ns: u64, now_ns: u64) {
        let Some(slot) = self.slot(group) else { return };
        let place = slot.place(worker);
        // Also where the clock stood still: who polls goes on.
        let ran_ns = now_ns.saturating_sub(from_ns).max(1);
        let (steps, rest) = step(ran_ns, slot.weight(), place.rest.get());
        place.rest.set(rest);
        // ORDER: Relaxed; a sum.
        slot.words.time.fetch_add(steps, Ordering::Relaxed);
        // ORDER: Relaxed; a hint to whoever chooses.
        slot.words.ran_ns.store(now_ns, Ordering::Relaxed);
        if group == DEFAULT {
            return;
        }
        // ORDER: Relaxed; a note for workers without such tasks.
        let seen_ns = self.seen_ns.load(Ordering::Relaxed);
        if now_ns.saturating_sub(seen_ns) > SEEN_STEP_NS {
            // ORDER: Relaxed; as above.
            self.seen_ns.store(now_ns.max(1), Ordering::Relaxed);
        }
    }

    /// Whether tasks of groups ran lately.
    pub(crate) fn is_lively(&self, now_ns: u64) -> bool {
        // ORDER: Relaxed; as in `charge`.
        let seen_ns = self.seen_ns.load(Ordering::Relaxed);
        seen_ns != 0 && now_ns.saturating_sub(seen_ns) < SEEN_NS
    }

    /// Whether a group is behind the others, for want of tasks where they run.
    pub(crate) fn is_behind(&self, group: u8) -> bool {
        let account = self.slot(group).map(Slot::account);
        account.is_some_and(|account| account.is_behind(self.present()))
    }

    /// All groups, sorted by whose turn is first, and how many there are.
    pub(crate) fn in_order(&self) -> ([u8; GROUPS_MAX], usize) {
        let (present, opened) = (self.present(), self.opened());
        // Read once each: others change them while they are sorted.
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
            // ORDER: Relaxed; nobody else is there.
            let slot = slot.load(Ordering::Relaxed);
            if !slot.is_null() {
                // SAFETY: made in `add` as a box.
                drop(unsafe { Box::from_raw(slot) });
            }
        }
    }
}
