//! The scheduler: the workers that share tasks, and the handle that keeps it in memory. See README.md.
//!
//! All remote halves of a scheduler lie in one allocation, so from one of them a thread can reach the others
//! (to steal, to wake an idle worker). The allocation is freed with its last [`RemoteRef`]. Each task has one,
//! so counting them must not cost a write to a line that all workers share: a worker's thread keeps a
//! stock of shares, from which it gives and into which it takes without a read-modify-write.

mod common;
pub mod idle;
mod member;
mod offer;
pub mod offline;
mod placement;
pub mod push;
mod rest;
pub mod telemetry;
mod timers;
mod turns;

use crate::class::Class;
use crate::group::Groups;
use crate::io::Driver;
use crate::mailbox::Mailbox;
use crate::scheduler::idle::{Cores, IdleSet, WorkSet};
use crate::scheduler::push::Push;
use crate::scheduler::telemetry::Telemetry;
use crate::switches::SwitchWord;
use crate::task::{ABOVE_MAX, Schedule, SchedulerId};
use crate::tree::Tree;
use crate::wheel::Sleepers;
use crate::worker::remote::RemoteSpec;
use crate::worker::remote::core_use::Occupant;
pub(crate) use common::AnyWorker;
use doorbell_machine::{Line, Machine, Ordering, Word};
pub use member::Member;
pub(crate) use placement::{IsBehind, Placed};
pub use rest::Rest;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
pub use turns::Turns;

/// How many shares a worker draws at once. When it has three times as many, it gives two thirds back.
const STOCK: u64 = 256;

/// The settings of a scheduler.
#[derive(Debug)]
pub struct SchedulerSpec<M: Machine> {
    /// The class of its workers.
    pub class: Class,
    /// In which order its workers run their tasks.
    pub turns: Turns,
    /// Records its tasks, if anything does.
    pub telemetry: Option<Arc<Telemetry<M>>>,
    /// One worker of each scheduler above it, the highest last. Those schedulers run the tasks of this one that
    /// their own tasks await. Three at most.
    pub above: Vec<RemoteRef<M>>,
    /// Its part in the words that say which schedulers use a core. `None` if there is no other scheduler.
    pub core_use: Option<Occupant<M>>,
    /// The cores of its workers, shared with the other schedulers of the runtime. `None` if there is no other: then
    /// they are made of the workers' distances.
    pub cores: Option<Arc<Cores<M>>>,
    /// For tests: with a seed, a worker takes one of the first eight tasks of its queues at random, among those of one
    /// rank. Tasks of groups keep their turns.
    pub shuffle: Option<u64>,
}

impl<M: Machine> SchedulerSpec<M> {
    /// The settings of a scheduler below those that these workers belong to.
    pub fn below(above: Vec<RemoteRef<M>>) -> Self {
        SchedulerSpec {
            above,
            ..SchedulerSpec::default()
        }
    }
}

impl<M: Machine> Default for SchedulerSpec<M> {
    fn default() -> Self {
        SchedulerSpec {
            class: Class::default(),
            turns: Turns::ByArrival,
            telemetry: None,
            above: Vec::new(),
            core_use: None,
            cores: None,
            shuffle: None,
        }
    }
}

/// The other workers, nearest first.
fn others_by_distance(
    worker: usize,
    workers: usize,
    distance: &dyn Fn(usize, usize) -> u32,
) -> Box<[u32]> {
    let mut others: Vec<usize> = (1..workers).map(|step| (worker + step) % workers).collect();
    // A stable sort: among equally distant workers each thief begins at its next neighbour. This spreads the thieves.
    others.sort_by_key(|other| distance(worker, *other));
    others.into_iter().map(|other| other as u32).collect()
}

/// The workers of one runtime that share tasks.
pub struct Scheduler<M: Machine> {
    shares: M::Line<M::U64>,
    class: Class,
    turns: Turns,
    remotes: NonNull<[Member<M>]>,
    /// For each worker, the other workers, nearest first.
    orders: Box<[Box<[u32]>]>,
    idle: IdleSet<M>,
    work: WorkSet<M>,
    /// What any worker may deliver; see [`common`].
    common: M::Line<Mailbox<M>>,
    /// Which worker looks after the timers of sleeping ones.
    tree: Option<Tree<M>>,
    /// How many workers are on.
    on: M::Line<M::U32>,
    /// Records its tasks, if anything does.
    telemetry: Option<Arc<Telemetry<M>>>,
    /// One worker of each scheduler above, which may await tasks of this one, the highest last. Those schedulers
    /// are kept in memory as long as this one.
    above: Vec<RemoteRef<M>>,
    groups: Groups<M>,
    /// `None` where tasks run by arrival, or the worker is alone.
    push: Option<Push<M>>,
    /// The seed of shuffled turns, if its workers shuffle them.
    shuffle: Option<u64>,
}

// SAFETY: the remote halves are Sync and are freed with the scheduler.
unsafe impl<M: Machine> Sync for Scheduler<M> {}
// SAFETY: as for Sync.
unsafe impl<M: Machine> Send for Scheduler<M> {}

impl<M: Machine> std::fmt::Debug for Scheduler<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("workers", &self.remotes().len())
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Scheduler<M> {
    /// A scheduler with this many workers. Returns the remote half of each. `distance` says how far one worker is
    /// from another; a worker looks for work at the nearest first.
    #[allow(
        clippy::new_ret_no_self,
        reason = "a scheduler lives as long as its remotes are referred to"
    )]
    pub fn new(
        workers: usize,
        switches: &Arc<SwitchWord<M::Counter>>,
        distance: impl Fn(usize, usize) -> u32,
    ) -> Vec<RemoteRef<M>> {
        Self::described(workers, switches, SchedulerSpec::default(), distance)
    }

    /// As [`Scheduler::new`], with these settings.
    ///
    /// # Panics
    /// If more than three schedulers are above it, or the cores are not those of so many workers.
    pub fn described(
        workers: usize,
        switches: &Arc<SwitchWord<M::Counter>>,
        spec: SchedulerSpec<M>,
        distance: impl Fn(usize, usize) -> u32,
    ) -> Vec<RemoteRef<M>> {
        Self::described_by(workers, switches, spec, &distance)
    }

    /// As [`Scheduler::described`]; compiled once for the distances of all callers.
    fn described_by(
        workers: usize,
        switches: &Arc<SwitchWord<M::Counter>>,
        spec: SchedulerSpec<M>,
        distance: &dyn Fn(usize, usize) -> u32,
    ) -> Vec<RemoteRef<M>> {
        M::prepare_fences();
        let SchedulerSpec {
            class,
            turns,
            telemetry,
            above,
            core_use,
            cores,
            shuffle,
        } = spec;
        let cores = cores.unwrap_or_else(|| Cores::of_one_class(workers, distance));
        assert_eq!(
            cores.workers(),
            workers,
            "the cores are those of other workers"
        );
        assert!(
            above.len() <= ABOVE_MAX,
            "a scheduler is below three at most"
        );
        let place =
            NonNull::from(Box::leak(Box::<Scheduler<M>>::new_uninit())).cast::<Scheduler<M>>();
        let rank_of = turns.rank_of();
        let driver = Arc::new(Driver::new(workers as u32));
        let remotes: Box<[Member<M>]> = (0..workers)
            .map(|worker| {
                let spec = RemoteSpec {
                    class,
                    worker,
                    switches: Arc::clone(switches),
                    driver: Arc::clone(&driver),
                    rank_of,
                    core_use: core_use.clone(),
                };
                Member::new(spec, place)
            })
            .collect();
        let scheduler = Scheduler {
            shares: M::Line::new(|| M::U64::new(workers as u64)),
            class,
            turns,
            remotes: NonNull::from(Box::leak(remotes)),
            orders: (0..workers)
                .map(|worker| others_by_distance(worker, workers, distance))
                .collect(),
            idle: IdleSet::new(&cores, class),
            work: WorkSet::new(&cores),
            common: M::Line::new(Mailbox::default),
            tree: timers::tree_of(class, workers, distance),
            on: M::Line::new(|| M::U32::new(workers as u32)),
            telemetry,
            above,
            groups: Groups::default(),
            push: Push::of(&cores, rank_of),
            shuffle,
        };
        // SAFETY: allocated above for a scheduler, and no other thread has it yet.
        unsafe { place.write(scheduler) };
        // SAFETY: written above; it lives until its last share is dropped.
        let remotes = unsafe { place.as_ref() }.remotes();
        // Each of these owns one of the shares that the count began with.
        let owned = |remote| RemoteRef(NonNull::from(remote));
        remotes.iter().map(owned).collect()
    }

    /// The remote halves of all its workers.
    #[inline]
    pub fn remotes(&self) -> &[Member<M>] {
        // SAFETY: allocated in `described_by`, freed with the scheduler.
        unsafe { self.remotes.as_ref() }
    }

    /// The seed of shuffled turns, if its workers shuffle them.
    pub(crate) fn shuffle(&self) -> Option<u64> {
        self.shuffle
    }

    /// The identity of the scheduler.
    #[inline]
    pub(crate) fn id(&self) -> SchedulerId {
        std::ptr::from_ref(self).cast()
    }

    /// The class of its workers.
    #[inline]
    pub fn class(&self) -> Class {
        self.class
    }

    /// One worker of each scheduler above it, the highest last.
    #[inline]
    pub(crate) fn above(&self) -> &[RemoteRef<M>] {
        &self.above
    }

    /// Records its tasks; `None` if nothing does.
    #[inline]
    pub fn telemetry(&self) -> Option<&Telemetry<M>> {
        self.telemetry.as_deref()
    }

    /// The groups of its tasks.
    #[inline]
    pub fn groups(&self) -> &Groups<M> {
        &self.groups
    }

    /// Which of its workers are idle.
    #[inline]
    pub fn idle(&self) -> &IdleSet<M> {
        &self.idle
    }

    /// Which of its workers may have tasks that others can take.
    #[inline]
    pub fn work(&self) -> &WorkSet<M> {
        &self.work
    }

    /// In which order its workers run their tasks.
    #[inline]
    pub(crate) fn turns(&self) -> Turns {
        self.turns
    }

    /// What its workers know of each other's ranks; `None` where tasks run by arrival, or the worker is alone.
    #[inline]
    pub(crate) fn push(&self) -> Option<&Push<M>> {
        self.push.as_ref()
    }

    /// Whether a worker has the push token: others that park may rely on its round. A hint.
    pub fn push_is_under_way(&self) -> bool {
        self.push().is_some_and(|push| push.token.is_held())
    }

    pub(crate) fn on(&self) -> &M::U32 {
        &self.on
    }

    /// The other workers, in the order in which `worker` looks at them: nearest first.
    pub fn others(&self, worker: usize) -> impl Iterator<Item = &Member<M>> {
        self.orders[worker]
            .iter()
            .map(|other| &self.remotes()[*other as usize])
    }

    /// # Safety
    /// The caller has `count` shares, and uses none of them after this.
    unsafe fn give_back(scheduler: NonNull<Scheduler<M>>, count: u64) {
        // SAFETY: the caller's shares keep it alive until here.
        // ORDER: Release: what this holder did comes before the scheduler is freed. It pairs with the Acquire of
        // the last holder, which sees what all others did.
        let before = unsafe { scheduler.as_ref() }
            .shares
            .fetch_sub(count, Ordering::AcqRel);
        debug_assert!(before >= count);
        if before == count {
            // SAFETY: it was the last share; allocated in `described_by` as a box.
            drop(unsafe { Box::from_raw(scheduler.as_ptr()) });
        }
    }
}

impl<M: Machine> Drop for Scheduler<M> {
    fn drop(&mut self) {
        // SAFETY: allocated in `described_by` as a box, and no thread refers to a remote half any more.
        drop(unsafe { Box::from_raw(self.remotes.as_ptr()) });
    }
}

/// A share of a scheduler. It leads to one worker's remote half, and keeps the whole scheduler in memory.
pub struct RemoteRef<M: Machine>(NonNull<Member<M>>);

// SAFETY: a share of something that is Send and Sync.
unsafe impl<M: Machine> Send for RemoteRef<M> {}
// SAFETY: as for Send.
unsafe impl<M: Machine> Sync for RemoteRef<M> {}

impl<M: Machine> std::fmt::Debug for RemoteRef<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}

impl<M: Machine> std::ops::Deref for RemoteRef<M> {
    type Target = Member<M>;

    #[inline(always)]
    fn deref(&self) -> &Member<M> {
        // SAFETY: this share keeps the scheduler alive, and the remote half with it.
        unsafe { self.0.as_ref() }
    }
}

impl<M: Machine> RemoteRef<M> {
    /// The remote half of a new worker, the only one of its scheduler.
    ///
    /// # Panics
    /// Never: a scheduler of one has one remote half.
    pub fn alone(switches: &Arc<SwitchWord<M::Counter>>) -> Self {
        let mut remotes = Scheduler::new(1, switches, |_, _| 0);
        remotes.pop().expect("a scheduler of one has one remote")
    }

    /// A new share that leads to a remote half, which is alive.
    #[inline]
    pub(crate) fn of(remote: &Member<M>) -> Self {
        M::with_stock(remote.scheduler().id(), |stock| match stock {
            Some(stock) => stock.draw(),
            // ORDER: Relaxed; the caller's own share keeps the scheduler alive.
            None => drop(remote.scheduler().shares.fetch_add(1, Ordering::Relaxed)),
        });
        RemoteRef(NonNull::from(remote))
    }

    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut Member<M> {
        self.0.as_ptr()
    }

    /// Turns the share into an address. The caller must turn it back with [`RemoteRef::from_raw`].
    pub(crate) fn into_raw(self) -> *mut Member<M> {
        let remote = self.0.as_ptr();
        std::mem::forget(self);
        remote
    }

    /// # Safety
    /// The caller has a share of the scheduler of `remote`, by [`RemoteRef::into_raw`] of any of its remote
    /// halves, and gives it to the new value.
    pub(crate) unsafe fn from_raw(remote: *mut Member<M>) -> Self {
        // SAFETY: the remote half of a scheduler that is alive.
        RemoteRef(unsafe { NonNull::new_unchecked(remote) })
    }
}

impl<M: Machine> Clone for RemoteRef<M> {
    #[inline]
    fn clone(&self) -> Self {
        RemoteRef::of(self)
    }
}

impl<M: Machine> Drop for RemoteRef<M> {
    #[inline]
    fn drop(&mut self) {
        let scheduler = self.scheduler_ptr();
        M::with_stock(scheduler.as_ptr().cast(), |stock| match stock {
            Some(stock) => stock.keep(),
            // SAFETY: this share is dropped here, and not used again.
            None => unsafe { Scheduler::give_back(scheduler, 1) },
        });
    }
}

impl<M: Machine> Sleepers for RemoteRef<M> {
    fn count(&self) -> usize {
        self.scheduler().remotes().len()
    }

    fn are_quiescent(&self) -> bool {
        let mut remotes = self.scheduler().remotes().iter();
        remotes.all(|remote| remote.bell().is_quiescent())
    }

    fn wake(&self, worker: usize) {
        self.scheduler().remotes()[worker].request_pass();
    }
}

/// Shares of the scheduler that a worker's thread has drawn ahead and that no [`RemoteRef`] has yet.
#[derive(Debug)]
pub(crate) struct Stock<M: Machine> {
    scheduler: NonNull<Scheduler<M>>,
    count: Cell<u64>,
}

impl<M: Machine> Stock<M> {
    /// An empty stock. [`Stock::close`] must empty it while its worker still has a share.
    pub(crate) fn new(remote: &RemoteRef<M>) -> Self {
        Stock {
            scheduler: remote.scheduler_ptr(),
            count: Cell::new(0),
        }
    }

    /// Takes one share out. If there is none, draws [`STOCK`] new ones first.
    #[inline]
    fn draw(&self) {
        if self.count.get() == 0 {
            // SAFETY: the worker holds a share of its scheduler.
            // ORDER: Relaxed, as in `RemoteRef::of`.
            unsafe { self.scheduler.as_ref() }
                .shares
                .fetch_add(STOCK, Ordering::Relaxed);
            self.count.set(STOCK);
        }
        self.count.set(self.count.get() - 1);
    }

    /// Puts one share in. If there are three times [`STOCK`] then, gives two thirds of them back.
    #[inline]
    fn keep(&self) {
        self.count.set(self.count.get() + 1);
        if self.count.get() >= 3 * STOCK {
            self.count.set(self.count.get() - 2 * STOCK);
            // SAFETY: these shares were in this stock; the worker holds more.
            unsafe { Scheduler::give_back(self.scheduler, 2 * STOCK) };
        }
    }

    /// Gives all shares back. The worker holds a share of its own while this runs.
    pub(crate) fn close(&self) {
        let count = self.count.take();
        if count > 0 {
            // SAFETY: these shares were in this stock; the worker holds one more.
            unsafe { Scheduler::give_back(self.scheduler, count) };
        }
    }
}

#[cfg(test)]
impl<M: Machine> RemoteRef<M> {
    /// How many shares of the scheduler there are, the workers' stocks included.
    pub(crate) fn shares(&self) -> u64 {
        // ORDER: Relaxed; tests read it where no other thread writes it.
        self.scheduler().shares.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
impl<M: Machine> Stock<M> {
    /// How many shares it has.
    pub(crate) fn len(&self) -> u64 {
        self.count.get()
    }
}

#[cfg(test)]
mod loom;
#[cfg(test)]
mod tests;
