//! The driver: the descriptors of a scheduler's tasks, and the poller in which at most one of its workers sleeps. It brings
//! events to their sources, and frees the sources of descriptors that went.

use super::links::{SourceList, Stack, StackPushed};
use super::registration::Fd;
use super::source::Source;
use super::{Rouse, Station};
use crate::bell::Bell;
use doorbell_machine::{
    Bug, Counter, Line, Machine, Ordering, PollEvents, Poller, PollerError, PtrWord, WaitEnd, Word,
};
use std::io;
use std::ptr::{NonNull, null_mut};

/// After every so many sources that were given up, a worker is told, because all may sleep.
const GONE_TELLS: u32 = 256;

/// The numbers of the links that the two stacks use.
const FRESH: usize = 0;
const GONE: usize = 1;

/// Nobody keeps the poller.
const NOBODY: u32 = 0;

/// The last sweep has left nothing.
const SWEPT: u32 = 0;
/// The last sweep has left something, because a visitor was there.
const LEFT: u32 = 1;
/// A thread sweeps.
const SWEEPING: u32 = 2;
/// A worker has ended: nobody begins to sweep any more.
const ENDED: u32 = 3;

/// The words that any thread writes.
#[derive(Debug)]
struct DriverShared<M: Machine> {
    /// Descriptors that are registered, muted ones too.
    count: M::U32,
    /// The keeper's number plus one, or [`NOBODY`].
    keeper: M::U32,
    /// How many threads are between a poll and the end of their work on its events.
    visitors: M::U32,
    /// Whether a worker sweeps: [`SWEPT`], [`LEFT`], [`SWEEPING`] or [`ENDED`].
    sweep: M::U32,
    /// How many sources were given up.
    gone: M::U32,
}

/// The descriptors of a scheduler's tasks.
pub struct Driver<M: Machine> {
    shared: M::Line<DriverShared<M>>,
    /// From a box, and never replaced; null until it is opened. It is no `OnceLock`, because in one of those a thread may
    /// have to wait for a thread that it has preempted.
    poller: M::Ptr<M::Poller>,
    /// How many workers have not ended.
    workers: M::U32,
    fresh: Stack<M, FRESH>,
    gone: Stack<M, GONE>,
    /// The sweeper's: what was taken out of `fresh`.
    known: SourceList<M>,
    /// The sweeper's: what was taken out of `gone`, and out of `known`.
    leaving: SourceList<M>,
    /// Of a model: what would have been freed.
    buried: SourceList<M>,
    stranded: M::Counter,
}

// SAFETY: only the sweeper uses the lists, and one thread at a time sweeps. The protocol of
// this folder guards the rest.
unsafe impl<M: Machine> Send for Driver<M> {}
// SAFETY: as above.
unsafe impl<M: Machine> Sync for Driver<M> {}

impl<M: Machine> std::fmt::Debug for Driver<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("shared", &*self.shared)
            .field("stranded", &self.stranded)
            .finish_non_exhaustive()
    }
}

/// What a sweep did.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// There was nothing to free.
    Nothing,
    /// So many sources were freed.
    Freed(usize),
    /// A visitor is there, or another thread sweeps: sweep again later. After a worker has ended it is always this.
    Later,
}

/// A thread that may hold events. Nothing is freed until it leaves.
struct DriverVisit<'a, M: Machine>(&'a Driver<M>);

impl<M: Machine> Drop for DriverVisit<'_, M> {
    fn drop(&mut self) {
        // ORDER: Release pairs with the Acquire of the load in `sweep`: what the visitor did with
        // sources comes before their end.
        self.0.shared.visitors.fetch_sub(1, Ordering::Release);
    }
}

/// The right to sleep in the poller, which one worker at a time has. Its holder is awake before this is dropped, and after
/// that some worker that is awake looks, or becomes the keeper before it sleeps.
#[derive(Debug)]
pub struct Keeper<'a, M: Machine>(&'a Driver<M>);

impl<M: Machine> Drop for Keeper<'_, M> {
    fn drop(&mut self) {
        if !M::breaks(Bug::IoNeverLeft) {
            // ORDER: Relaxed; it publishes nothing, and `end_idle` has the fence that `note_registered` pairs with.
            self.0.shared.keeper.store(NOBODY, Ordering::Relaxed);
        }
    }
}

impl<M: Machine> Keeper<'_, M> {
    /// Sleeps in the poller, and brings the events to their sources. The worker must have announced that it parks. When the
    /// thread is awake, gives up the right and calls `awake`, before any waker is woken. Never returns
    /// [`WaitEnd::Spurious`].
    ///
    /// # Panics
    /// If there is no poller.
    pub fn park(
        self,
        bell: &Bell<M>,
        until_ns: Option<u64>,
        events: &mut PollEvents,
        awake: impl FnOnce(),
    ) -> WaitEnd {
        let driver = self.0;
        let poller = driver.poller().expect("there were descriptors");
        let visit = driver.visit();
        let ended = bell.park_polling(poller, until_ns, events);
        drop(self);
        awake();
        DriverVisit::deliver(&visit, events);
        ended
    }
}

impl<M: Machine> Driver<M> {
    /// The driver of so many workers.
    pub fn new(workers: u32) -> Self {
        Driver {
            shared: M::Line::new(|| DriverShared {
                count: M::U32::new(0),
                keeper: M::U32::new(NOBODY),
                visitors: M::U32::new(0),
                sweep: M::U32::new(SWEPT),
                gone: M::U32::new(0),
            }),
            poller: M::Ptr::new(null_mut()),
            workers: M::U32::new(workers),
            fresh: Stack::default(),
            gone: Stack::default(),
            known: SourceList::default(),
            leaving: SourceList::default(),
            buried: SourceList::default(),
            stranded: M::Counter::default(),
        }
    }
}

/// What any thread may call.
impl<M: Machine> Driver<M> {
    /// Whether there are descriptors, so that a worker may sleep in the poller.
    pub fn has_sources(&self) -> bool {
        // ORDER: Acquire pairs with the add in `note_registered`: the poller is open. A worker that was the keeper has the
        // fence of `end_idle` before this.
        self.shared.count.load(Ordering::Acquire) != 0
    }

    /// Whether a worker sleeps in the poller, or is about to.
    pub fn is_kept(&self) -> bool {
        self.keeper().is_some()
    }

    /// Whether descriptors wait, and no worker sleeps in the poller.
    pub fn lacks_keeper(&self) -> bool {
        self.has_sources() && !self.is_kept()
    }

    /// The worker that sleeps in the poller, or is about to.
    pub fn keeper(&self) -> Option<usize> {
        // ORDER: Relaxed; a notifier that must ring has acquired the announcement after the exchange in `try_keep`, by the
        // read-modify-write that told it to ring.
        let keeper = self.shared.keeper.load(Ordering::Relaxed);
        keeper.checked_sub(1).map(|worker| worker as usize)
    }

    /// The poller, if it was opened.
    pub fn poller(&self) -> Option<&M::Poller> {
        // ORDER: Acquire pairs with the Release of `open_poller`: the poller's contents; unshown because those of a model
        // stand behind a lock of its own.
        let poller = self.poller.load(Ordering::Acquire);
        // SAFETY: null, or leaked for the life of the driver.
        unsafe { poller.as_ref() }
    }

    /// Opens the poller, unless it is open. Any thread may call this; none waits for another.
    pub(super) fn open_poller(&self) -> Result<&M::Poller, PollerError> {
        if let Some(poller) = self.poller() {
            return Ok(poller);
        }
        let mine = Box::into_raw(Box::new(M::Poller::open()?));
        loop {
            // ORDER: Release pairs with the Acquire of `poller`. Acquire on failure pairs with the Release of the
            // thread that was faster; unshown because the contents of a model's poller stand behind a lock of its own.
            let placed = self.poller.compare_exchange_weak(
                null_mut(),
                mine,
                Ordering::Release,
                Ordering::Acquire,
            );
            match placed {
                // SAFETY: leaked above, for the life of the driver.
                Ok(_) => return Ok(unsafe { &*mine }),
                Err(theirs) if theirs.is_null() => {}
                Err(theirs) => {
                    // SAFETY: leaked above, and no other thread has seen it.
                    drop(unsafe { Box::from_raw(mine) });
                    // SAFETY: as in `poller`; it is not null.
                    return Ok(unsafe { &*theirs });
                }
            }
        }
    }

    /// Wakes the keeper.
    pub fn ring(&self) {
        if let Some(poller) = self.poller() {
            poller.ring();
        }
    }

    /// Counts a descriptor that is about to be added, before the caller looks whether anybody keeps the poller. Returns how
    /// many there were before.
    fn note_registered(&self) -> u32 {
        // ORDER: Release pairs with the Acquire of `has_sources`: the poller is open. A read-modify-write
        // for the fence after it. With a keeper that leaves, and the fence of its `end_idle`, this is store buffering: either
        // that worker sees the count before it sleeps again, or the caller sees that nobody keeps the poller.
        let before = self.shared.count.fetch_add(1, Ordering::Release);
        if !M::breaks(Bug::IoNoNoteFence) {
            M::fence_recheck();
        }
        before
    }

    /// Makes a source for a descriptor, and adds the descriptor to the poller, which is open.
    pub(super) fn register<S: Station<M>>(
        station: &S,
        poller: &M::Poller,
        fd: Fd<M>,
    ) -> Result<NonNull<Source<M>>, Refused> {
        let driver = station.driver();
        let source = NonNull::from(Box::leak(Box::new(Source::new())));
        // SAFETY: it hangs nowhere yet, and only a sweeper frees it.
        match unsafe { driver.fresh.push(source) } {
            StackPushed::Yes => {}
            StackPushed::Closed => {
                // SAFETY: leaked above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(source.as_ptr()) });
                return Err(Refused::Shut);
            }
        }
        let before = driver.note_registered();
        let token = source.as_ptr().expose_provenance() as u64;
        if let Err(error) = poller.add(fd, token) {
            // SAFETY: alive until it is given up.
            let is_shut = unsafe { source.as_ref() }.look().is_shut();
            driver.give_up(station, source);
            // The workers may have ended meanwhile, and closed the poller.
            return Err(if is_shut {
                Refused::Shut
            } else {
                Refused::Os(error)
            });
        }
        if !driver.is_kept() {
            station.rouse(if before == 0 {
                Rouse::First
            } else {
                Rouse::Another
            });
        }
        Ok(source)
    }

    /// Ends a registration. The caller must not use the source afterwards.
    pub(super) fn deregister<S: Station<M>>(station: &S, source: NonNull<Source<M>>, fd: Fd<M>) {
        let driver = station.driver();
        // SAFETY: alive until it is given up.
        unsafe { source.as_ref() }.leave();
        let poller = driver.poller();
        if poller.is_some_and(|poller| poller.remove(fd).is_ok()) {
            driver.give_up(station, source);
        } else {
            // The OS may still know it under a copy of the descriptor, and report its token: the source
            // stays as long as the driver.
            driver.stranded.add_shared(1);
            driver.note_deregistered();
        }
    }

    fn note_deregistered(&self) {
        // ORDER: Relaxed; a worker that reads a count that is too high parks in the poller without need.
        self.shared.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Hands the source to the next sweeper. No poll that begins from here on reports its token.
    fn give_up<S: Station<M>>(&self, station: &S, source: NonNull<Source<M>>) {
        // SAFETY: pushed once for each source, and only a sweeper frees it.
        match unsafe { self.gone.push(source) } {
            StackPushed::Yes | StackPushed::Closed => {}
        }
        self.note_deregistered();
        // ORDER: Relaxed; only a count.
        let gone = self.shared.gone.fetch_add(1, Ordering::Relaxed);
        if gone % GONE_TELLS == GONE_TELLS - 1 {
            station.rouse(Rouse::Sweep);
        }
    }

    /// How many sources are stranded: the poller did not give up their descriptors, so they stay until the
    /// driver goes.
    pub fn stranded(&self) -> u64 {
        self.stranded.get()
    }

    fn visit(&self) -> DriverVisit<'_, M> {
        // ORDER: Relaxed, before the poll, which the poller puts in one order with the removal of a
        // descriptor, as a lock does. If the poll comes first, this is seen by the load in `sweep`, which
        // is after the removal. Else the poll does not say the token.
        self.shared.visitors.fetch_add(1, Ordering::Relaxed);
        DriverVisit(self)
    }

    /// Brings the events that are there to their sources, without waiting. Returns how many there were; if the
    /// buffer was filled, there may be more. Any thread may call this.
    pub fn look(&self, events: &mut PollEvents) -> usize {
        let Some(poller) = self.poller().filter(|_| self.has_sources()) else {
            return 0;
        };
        let visit = self.visit();
        poller.poll(events);
        DriverVisit::deliver(&visit, events);
        events.len()
    }
}

impl<M: Machine> DriverVisit<'_, M> {
    /// Events of a poll of this visit.
    fn deliver(_inside: &Self, events: &PollEvents) {
        for (token, readiness) in events.iter() {
            let source = std::ptr::with_exposed_provenance::<Source<M>>(token as usize);
            // SAFETY: only `register` adds to the poller, and its tokens are sources. They are not freed
            // while this visitor is inside, whose poll has reported the token.
            unsafe { &*source }.deliver(readiness);
        }
    }
}

/// What only workers call.
impl<M: Machine> Driver<M> {
    /// Makes the worker the keeper, if there are descriptors and no other worker is. Call it before the worker announces that
    /// it parks: a thread that must ring sees where it sleeps.
    pub fn try_keep(&self, worker: usize) -> Option<Keeper<'_, M>> {
        if !self.lacks_keeper() {
            return None;
        }
        // ORDER: Relaxed; a read-modify-write, so that of two workers one becomes the keeper. It publishes nothing.
        let kept = self.shared.keeper.compare_exchange(
            NOBODY,
            worker as u32 + 1,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        kept.is_ok().then(|| Keeper(self))
    }

    /// Frees the sources that went, unless a visitor is there or another thread sweeps. Cheap when there are none.
    pub fn sweep(&self) -> Swept {
        // ORDER: Relaxed; a hint, the exchange decides.
        let state = self.shared.sweep.load(Ordering::Relaxed);
        match state {
            SWEPT if self.gone.is_empty() => return Swept::Nothing,
            SWEPT | LEFT => {}
            _ => return Swept::Later,
        }
        // ORDER: Acquire pairs with the Release of the last sweeper: its lists. A read-modify-write, so of two threads one is
        // refused.
        if self
            .change_sweep(state, SWEEPING, Ordering::Acquire)
            .is_err()
        {
            return Swept::Later;
        }
        // SAFETY: of all threads this one sweeps.
        let swept = unsafe { self.sweep_alone() };
        let state = if swept == Swept::Later { LEFT } else { SWEPT };
        // ORDER: Release pairs with the Acquire of the next sweeper, or of the worker that ends.
        if self
            .change_sweep(SWEEPING, state, Ordering::Release)
            .is_err()
        {
            // A worker has ended meanwhile, and has left this to the sweeper.
            // SAFETY: of all threads this one swept, and nobody sweeps any more.
            unsafe { self.shut() };
        }
        swept
    }

    fn change_sweep(&self, from: u32, to: u32, order: Ordering) -> Result<u32, u32> {
        let sweep = &self.shared.sweep;
        // ORDER: that of the caller. Relaxed on failure: nothing of the other thread is used then.
        sweep.compare_exchange(from, to, order, Ordering::Relaxed)
    }

    /// # Safety
    /// No other thread sweeps.
    unsafe fn sweep_alone(&self) -> Swept {
        let taken = self.gone.take();
        // A source that went was registered before, so after `take_in` it is in `known`.
        // SAFETY: the caller's promise.
        unsafe { self.take_in(self.fresh.take()) };
        for source in taken {
            // SAFETY: as above; each is in `known`, and went once.
            unsafe { self.known.remove(source) };
            // SAFETY: as above.
            unsafe { self.leaving.push(source) };
        }
        // ORDER: Acquire pairs with the Release of visitors that left. It can miss a visitor's add only if that
        // visitor's poll comes after the removal of what was taken above.
        let visitors = self.shared.visitors.load(Ordering::Acquire);
        if visitors != 0 && !M::breaks(Bug::IoSweepBlind) {
            return Swept::Later;
        }
        let mut count = 0;
        // SAFETY: as above.
        while let Some(source) = unsafe { self.leaving.take_first() } {
            // SAFETY: no other thread has it any more, and no poll will report its token.
            unsafe { self.free(source) };
            count += 1;
        }
        Swept::Freed(count)
    }

    /// # Safety
    /// No other thread sweeps.
    unsafe fn take_in(&self, fresh: impl Iterator<Item = NonNull<Source<M>>>) {
        for source in fresh {
            // SAFETY: the caller's promise; taken, so in no list yet.
            unsafe { self.known.push(source) };
        }
    }

    /// # Safety
    /// No other thread sweeps or has the source, and it is in no list.
    unsafe fn free(&self, source: NonNull<Source<M>>) {
        // SAFETY: alive until the box below.
        unsafe { source.as_ref() }.end();
        if M::MODEL {
            // SAFETY: the caller's promise.
            unsafe { self.buried.push(source) };
        } else {
            // SAFETY: leaked by `register`.
            drop(unsafe { Box::from_raw(source.as_ptr()) });
        }
    }

    /// A worker ends, and will not sweep, look or park again. After the first one, registrations are refused, and all
    /// waiting tasks are woken: the other workers may be inside polls that wait for these. The sources stay until the driver
    /// goes.
    pub fn end_worker(&self) {
        // ORDER: AcqRel with the read-modify-write of `close_poller`: of the last worker and a thread that has opened the
        // poller, the second one sees what the first one did; unshown because the poller of a model is never closed.
        self.workers.fetch_sub(1, Ordering::AcqRel);
        // ORDER: Acquire pairs with the Release of the last sweeper: its lists. A read-modify-write: a thread that sweeps now
        // finds it when it ends.
        let state = self.shared.sweep.swap(ENDED, Ordering::Acquire);
        if state != SWEEPING && state != ENDED {
            // SAFETY: nobody sweeps, and nobody begins to any more.
            unsafe { self.shut() };
        }
    }

    /// Refuses registrations from here on, and wakes who waits. Wakers are foreign code, but nothing is freed any more.
    ///
    /// # Safety
    /// No other thread sweeps.
    unsafe fn shut(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.take_in(self.fresh.close()) };
        // SAFETY: as above.
        for source in unsafe { self.known.iter() } {
            // SAFETY: what is in the list is alive.
            unsafe { source.as_ref() }.shut();
        }
    }

    /// Called by each worker when it has ended, and by a thread that was refused a registration. Once all workers have
    /// ended, gives the poller back to the OS: a handle or a waker may keep the driver for ever. Before, a worker may sleep
    /// in it.
    pub fn close_poller(&self) {
        // ORDER: AcqRel; see `end_worker`; unshown because the poller of a model is never closed.
        if self.workers.fetch_add(0, Ordering::AcqRel) == 0
            && let Some(poller) = self.poller()
        {
            poller.close();
        }
    }
}

impl<M: Machine> Drop for Driver<M> {
    fn drop(&mut self) {
        let fresh = self.fresh.close();
        // ORDER: Relaxed; no other thread has the driver.
        let poller = self.poller.load(Ordering::Relaxed);
        if !poller.is_null() {
            // SAFETY: from the box that `open_poller` leaked, and the driver is dropped.
            drop(unsafe { Box::from_raw(poller) });
        }
        // SAFETY: no other thread has the driver.
        unsafe { self.take_in(fresh) };
        for list in [&self.known, &self.leaving, &self.buried] {
            // SAFETY: as above.
            while let Some(source) = unsafe { list.take_first() } {
                // SAFETY: leaked by `register`; each is in one of the lists.
                drop(unsafe { Box::from_raw(source.as_ptr()) });
            }
        }
    }
}

/// Why a descriptor was not registered.
#[derive(Debug)]
pub(super) enum Refused {
    /// The workers have ended.
    Shut,
    /// The error of the OS.
    Os(io::Error),
}
