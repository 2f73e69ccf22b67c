//! The driver: what a worker does for its descriptors. It brings events to their sources, and frees the
//! sources of descriptors that went.

use super::Station;
use super::links::{SourceList, Stack, StackPushed};
use super::registration::Fd;
use super::source::Source;
use crate::bell::Look;
use doorbell_machine::{
    Bug, Counter, Line, Machine, Mark, Ordering, ParkIn, Parker, PollEvents, Poller, WaitEnd, Word,
};
use std::io;
use std::ptr::NonNull;

/// After every so many sources that were given up, the worker is told, because it may sleep.
const GONE_TELLS: u32 = 256;

/// The numbers of the links that the two stacks use.
const FRESH: usize = 0;
const GONE: usize = 1;

/// The words that any thread writes.
#[derive(Debug)]
struct DriverShared<M: Machine> {
    /// Descriptors that are registered, without those that are [muted](super::Registration::mute_if_in_vain).
    count: M::U32,
    /// How many threads are between a poll and the end of their work on its events.
    visitors: M::U32,
    /// How many sources were given up since the worker was started.
    gone: M::U32,
}

/// The descriptors of a worker.
pub struct Driver<M: Machine> {
    shared: M::Line<DriverShared<M>>,
    fresh: Stack<M, FRESH>,
    gone: Stack<M, GONE>,
    /// The worker's: what was taken out of `fresh`.
    kept: SourceList<M>,
    /// The worker's: what was taken out of `gone`, and out of `kept`.
    leaving: SourceList<M>,
    /// Of a model: what would have been freed.
    buried: SourceList<M>,
    stranded: M::Counter,
}

// SAFETY: only the worker uses the lists, as the callers of the unsafe functions promise. The protocol of
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

/// Whether the form in which a worker has chosen to park is still right.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkChoice {
    /// It is.
    Stands,
    /// A descriptor was registered since: start over.
    Outdated,
}

/// What a sweep did.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// There was nothing to free.
    Nothing,
    /// So many sources were freed.
    Freed(usize),
    /// A visitor is there: sweep again later.
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

impl<M: Machine> Default for Driver<M> {
    fn default() -> Self {
        Driver {
            shared: M::Line::new(|| DriverShared {
                count: M::U32::new(0),
                visitors: M::U32::new(0),
                gone: M::U32::new(0),
            }),
            fresh: Stack::default(),
            gone: Stack::default(),
            kept: SourceList::default(),
            leaving: SourceList::default(),
            buried: SourceList::default(),
            stranded: M::Counter::default(),
        }
    }
}

/// What any thread may call.
impl<M: Machine> Driver<M> {
    /// Whether the worker has descriptors, and so parks in its poller.
    pub fn has_sources(&self) -> bool {
        // ORDER: Acquire pairs with the add in `note_registered`: the poller is open. After an
        // announcement, the fence of that orders it.
        self.shared.count.load(Ordering::Acquire) != 0
    }

    /// Counts a descriptor that is about to be added, before the caller looks at the bell. Returns how many
    /// there were before.
    fn note_registered(&self) -> u32 {
        // ORDER: Release pairs with the Acquire of `has_sources`: the poller is open. A read-modify-write
        // for the fence after it. With the worker's announcement and its fence this is store buffering:
        // either the worker sees the count, or `tell_worker` sees the announcement.
        let before = self.shared.count.fetch_add(1, Ordering::Release);
        if !M::breaks(Bug::IoNoNoteFence) {
            M::fence_recheck();
        }
        before
    }

    /// Tells the worker of a new descriptor, after [`Driver::note_registered`], which returned `before`. A worker
    /// that is parked on its word alone, or about to be, must park in its poller. If this is the first
    /// descriptor, a worker that spins must look at its poller too, and for one that runs a watchdog is asked
    /// for.
    fn tell_worker<S: Station<M>>(station: &S, before: u32) {
        let sleeps_unsignalled =
            station.bell().is_quiescent() && station.parker().chosen() == ParkIn::Word;
        if sleeps_unsignalled || (before == 0 && station.bell().look() == Look::Spinning) {
            station.notify();
        } else if before == 0 {
            station.note_first();
        }
    }

    /// Makes a source for a descriptor, and adds the descriptor to the poller, which is open.
    pub(super) fn register<S: Station<M>>(
        station: &S,
        poller: &M::Poller,
        fd: Fd<M>,
    ) -> Result<NonNull<Source<M>>, Refused> {
        let driver = station.driver();
        let source = NonNull::from(Box::leak(Box::new(Source::new())));
        // SAFETY: it hangs nowhere yet, and only the worker frees it.
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
            // The worker may have ended meanwhile, and closed the poller.
            return Err(if is_shut {
                Refused::Shut
            } else {
                Refused::Os(error)
            });
        }
        Self::tell_worker(station, before);
        Ok(source)
    }

    /// Ends a registration. The caller must not use the source afterwards.
    pub(super) fn deregister<S: Station<M>>(station: &S, source: NonNull<Source<M>>, fd: Fd<M>) {
        let driver = station.driver();
        // SAFETY: alive until it is given up.
        unsafe { source.as_ref() }.leave();
        let poller = station.parker().poller();
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

    /// Hands the source to the worker to be freed. No poll that begins from here on reports its token.
    fn give_up<S: Station<M>>(&self, station: &S, source: NonNull<Source<M>>) {
        // SAFETY: pushed once for each source, and only the worker frees it.
        match unsafe { self.gone.push(source) } {
            StackPushed::Yes | StackPushed::Closed => {}
        }
        self.note_deregistered();
        // ORDER: Relaxed; only a count.
        let gone = self.shared.gone.fetch_add(1, Ordering::Relaxed);
        if gone % GONE_TELLS == GONE_TELLS - 1 {
            station.notify();
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
    pub fn look<S: Station<M>>(station: &S, events: &mut PollEvents) -> usize {
        let driver = station.driver();
        let Some(poller) = station.parker().poller().filter(|_| driver.has_sources()) else {
            return 0;
        };
        let visit = driver.visit();
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

/// What only the worker calls.
impl<M: Machine> Driver<M> {
    /// Chooses, before the worker announces that it parks, the form in which it will.
    pub fn choose<S: Station<M>>(station: &S) -> ParkIn {
        let form = if station.driver().has_sources() {
            ParkIn::Poller
        } else {
            ParkIn::Word
        };
        station.parker().choose(form);
        form
    }

    /// Whether, after the announcement and its fence, the worker may park in the form that it chose.
    pub fn check(&self, form: ParkIn) -> ParkChoice {
        if form == ParkIn::Word && self.has_sources() && !M::breaks(Bug::IoParkBlind) {
            M::mark(Mark::IoFirstBeforePark);
            return ParkChoice::Outdated;
        }
        ParkChoice::Stands
    }

    /// Parks in the poller, and brings the events to their sources. The worker must have chosen and announced
    /// that. Never returns [`WaitEnd::Spurious`].
    pub fn park<S: Station<M>>(
        station: &S,
        until_ns: Option<u64>,
        events: &mut PollEvents,
    ) -> WaitEnd {
        Self::park_then(station, until_ns, events, || {})
    }

    /// As [`Driver::park`]; calls `awake` when the thread is awake, before any waker is woken.
    pub fn park_then<S: Station<M>>(
        station: &S,
        until_ns: Option<u64>,
        events: &mut PollEvents,
        awake: impl FnOnce(),
    ) -> WaitEnd {
        let visit = station.driver().visit();
        let ended = station
            .bell()
            .park_polling(station.parker(), until_ns, events);
        awake();
        DriverVisit::deliver(&visit, events);
        ended
    }

    /// Frees the sources that went, unless a visitor is there. Cheap when there are none.
    ///
    /// # Safety
    /// The caller is the thread of the worker.
    pub unsafe fn sweep(&self) -> Swept {
        // A source that went was registered before, so after `keep` it is in `kept`.
        let taken = (!self.gone.is_empty()).then(|| self.gone.take());
        if let Some(taken) = taken {
            // SAFETY: the caller is the worker.
            unsafe { self.keep(self.fresh.take()) };
            for source in taken {
                // SAFETY: as above; each is in `kept`, and went once.
                unsafe { self.kept.remove(source) };
                // SAFETY: as above.
                unsafe { self.leaving.push(source) };
            }
        }
        if self.leaving.is_empty() {
            return Swept::Nothing;
        }
        // ORDER: Acquire pairs with the Release of visitors that left. It can miss a visitor's add only if that
        // visitor's poll comes after the removal of what was taken above.
        let visitors = self.shared.visitors.load(Ordering::Acquire);
        if visitors != 0 && !M::breaks(Bug::IoSweepBlind) {
            return Swept::Later;
        }
        let mut count = 0;
        // SAFETY: the caller is the worker.
        while let Some(source) = unsafe { self.leaving.take_first() } {
            // SAFETY: no other thread has it any more, and no poll will report its token.
            unsafe { self.free(source) };
            count += 1;
        }
        Swept::Freed(count)
    }

    /// # Safety
    /// As for [`Driver::sweep`].
    unsafe fn keep(&self, fresh: impl Iterator<Item = NonNull<Source<M>>>) {
        for source in fresh {
            // SAFETY: the caller is the worker; taken, so in no list yet.
            unsafe { self.kept.push(source) };
        }
    }

    /// # Safety
    /// As for [`Driver::sweep`]; no other thread has the source, and it is in no list.
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

    /// The worker ends: refuses registrations from here on, and wakes all waiting tasks. The sources
    /// stay until the driver goes.
    ///
    /// # Safety
    /// As for [`Driver::sweep`].
    pub unsafe fn shut(&self) {
        // Wakers are foreign code; as a visitor this thread frees nothing meanwhile.
        let _visit = self.visit();
        // SAFETY: the caller is the worker.
        unsafe { self.keep(self.fresh.close()) };
        // SAFETY: as above.
        for source in unsafe { self.kept.iter() } {
            // SAFETY: what is in the list is alive.
            unsafe { source.as_ref() }.shut();
        }
    }
}

impl<M: Machine> Drop for Driver<M> {
    fn drop(&mut self) {
        let fresh = self.fresh.close();
        // SAFETY: no other thread has the driver, so this one stands in for the worker.
        unsafe { self.keep(fresh) };
        for list in [&self.kept, &self.leaving, &self.buried] {
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
    /// The worker has ended.
    Shut,
    /// The error of the OS.
    Os(io::Error),
}
