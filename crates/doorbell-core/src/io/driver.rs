//! What a worker does for its descriptors: it brings events to them, and frees what is known of those
//! that went.

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

/// Each time that so many sources wait to be freed, the worker is told, which may sleep.
const GONE_TELLS: u32 = 256;

/// Which link of a source a stack uses.
const FRESH: usize = 0;
const GONE: usize = 1;

/// What any thread writes.
#[derive(Debug)]
struct DriverShared<M: Machine> {
    /// Descriptors that are registered, without those that are [muted](super::Registration::mute).
    count: M::U32,
    /// Threads that are between a poll and the end of what they do with its events.
    visitors: M::U32,
    /// Sources that were given up since the worker was started.
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

// SAFETY: the lists belong to the worker, says who calls what uses them; the rest is shared by the
// protocol of this folder.
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

/// Whether the form in which a worker is to park still is the right one.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkChoice {
    /// It is.
    Stands,
    /// A descriptor came since: begin anew.
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
    /// Somebody visits: later.
    Later,
}

/// A thread that may hold events. Nothing is freed until it leaves.
struct DriverVisit<'a, M: Machine>(&'a Driver<M>);

impl<M: Machine> Drop for DriverVisit<'_, M> {
    fn drop(&mut self) {
        let order = if M::breaks(Bug::IoLeaveRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        // ORDER: Release pairs with the Acquire of the load in `sweep`: what the visitor did to
        // sources lies before their end.
        self.0.shared.visitors.fetch_sub(1, order);
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

/// The side of all threads.
impl<M: Machine> Driver<M> {
    /// Whether the worker has descriptors, and so parks in its poller, unless it puts off its looks.
    pub fn has_sources(&self) -> bool {
        // ORDER: Acquire pairs with the add in `note_registered`: the poller is open. Behind an
        // announcement, the fence of that orders it.
        self.shared.count.load(Ordering::Acquire) != 0
    }

    /// Says that a descriptor is about to be added: before the caller looks at the bell. How many
    /// there were.
    pub(super) fn note_registered(&self) -> u32 {
        // ORDER: Release pairs with the Acquire of `has_sources`: the poller is open. A read-modify-write
        // for the fence behind it: with the worker's announcement and its fence this is store buffering,
        // either the worker sees the count, or `tell_worker` the announcement.
        let before = self.shared.count.fetch_add(1, Ordering::Release);
        if !M::breaks(Bug::IoNoNoteFence) {
            M::fence_recheck();
        }
        before
    }

    /// A worker that parks on its word alone, or is about to, is told to park in its poller; one that
    /// spins, to look there too, if it had no descriptors before. One that had none and runs is
    /// looked after by others from here on. Behind [`Driver::note_registered`].
    pub(super) fn tell_worker<S: Station<M>>(station: &S, before: u32) {
        let sleeps_unsignalled =
            station.bell().is_quiescent() && station.parker().chosen() == ParkIn::Word;
        if sleeps_unsignalled || (before == 0 && station.bell().look() == Look::Spinning) {
            station.notify();
        } else if before == 0 {
            station.note_first();
        }
    }

    /// Makes a source for a descriptor, and adds that to the poller, which is open.
    pub(super) fn register<S: Station<M>>(
        station: &S,
        poller: &M::Poller,
        fd: Fd<M>,
    ) -> Result<NonNull<Source<M>>, Refused> {
        let driver = station.driver();
        let source = NonNull::from(Box::leak(Box::new(Source::new())));
        // SAFETY: it hangs nowhere yet, and is freed by the worker only.
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

    /// Ends a registration. The source is not the caller's any more.
    pub(super) fn deregister<S: Station<M>>(station: &S, source: NonNull<Source<M>>, fd: Fd<M>) {
        let driver = station.driver();
        // SAFETY: alive until it is given up.
        unsafe { source.as_ref() }.leave();
        let poller = station.parker().poller();
        if poller.is_some_and(|poller| poller.remove(fd).is_ok()) {
            driver.give_up(station, source);
        } else {
            // The OS may still have it, under a descriptor that is a copy of this one, and say its
            // token: it stays as long as the poller.
            driver.stranded.add_shared(1);
            driver.note_deregistered();
        }
    }

    pub(super) fn note_deregistered(&self) {
        // ORDER: Relaxed; who reads a count that is too high parks in the poller for nothing.
        self.shared.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// The worker is to free the source, of which no poll that begins from here on will say anything.
    fn give_up<S: Station<M>>(&self, station: &S, source: NonNull<Source<M>>) {
        // SAFETY: once for each source, which the worker frees.
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

    /// How many sources the poller did not give back, so that they stay until the driver goes.
    pub fn stranded(&self) -> u64 {
        self.stranded.get()
    }

    fn visit(&self) -> DriverVisit<'_, M> {
        // ORDER: Relaxed, before the poll, which the poller puts in one order with the removal of a
        // descriptor, as a lock does. If the poll comes first, this is seen by the load in `sweep`, which
        // is behind the removal. Else the poll does not say the token.
        self.shared.visitors.fetch_add(1, Ordering::Relaxed);
        DriverVisit(self)
    }

    /// Brings what is ready to its sources, and waits for nothing; how many events that were. Any
    /// thread may call this. Where the buffer was filled, there may be more.
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
            // SAFETY: only `register` adds to the poller, and its tokens are sources, which are not
            // freed while this visitor, whose poll has said the token, is inside.
            unsafe { &*source }.deliver(readiness);
        }
    }
}

/// The side of the worker.
impl<M: Machine> Driver<M> {
    /// Says, before the worker announces that it parks, in which form it will.
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

    /// Parks in the poller, having chosen and announced that, and brings what is ready to its
    /// sources. [`WaitEnd::Spurious`] never.
    pub fn park<S: Station<M>>(
        station: &S,
        until_ns: Option<u64>,
        events: &mut PollEvents,
    ) -> WaitEnd {
        Self::park_then(station, until_ns, events, || {})
    }

    /// As [`Driver::park`]; calls `awake` when the thread is awake, before anybody is woken.
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

    /// Frees the sources that went, unless somebody visits. Cheap when there are none.
    ///
    /// # Safety
    /// The caller is the thread of the worker; so for [`Driver::shut`].
    pub unsafe fn sweep(&self) -> Swept {
        // What went was registered before: who takes it finds it in `kept`.
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
        // ORDER: Acquire pairs with the Release of visitors who left. Of the adds of visitors it misses
        // only those whose poll comes after the removal of what was taken above.
        let visitors = self.shared.visitors.load(Ordering::Acquire);
        if visitors != 0 && !M::breaks(Bug::IoSweepBlind) {
            return Swept::Later;
        }
        let mut count = 0;
        // SAFETY: the caller is the worker.
        while let Some(source) = unsafe { self.leaving.take_first() } {
            // SAFETY: nobody has it any more, and nobody will be told its token.
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
    /// As for [`Driver::sweep`]; nobody has the source, and it is in no list.
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

    /// The worker ends: nothing is registered any more, and who waits learns it. What is registered
    /// stays until the driver goes.
    ///
    /// # Safety
    /// As for [`Driver::sweep`].
    pub unsafe fn shut(&self) {
        // Who is woken is foreign code: nothing is freed meanwhile.
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
        // SAFETY: nobody else has the driver, so this thread stands for the worker.
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
    /// What the OS said.
    Os(io::Error),
}
