//! The source: what the runtime keeps of a descriptor, its word and its waiters.

use super::interest::Interest;
use super::place::{Place, Wait};
use super::waiters::Waiters;
use super::word::{Cleared, Delivered, Event, ReadyWord, Shut};
use doorbell_machine::{Bug, Cell, Machine, Ordering, Readiness, Word};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// After so many events that no task has acted upon, a registration that no task waits for is muted.
const IN_VAIN: u64 = 4;

/// What a wait does that an event has ended, if nothing is ready any more: another task was quicker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnEvent {
    /// It waits on, in its turn: the caller wants what the event has brought.
    Look,
    /// It ends: the caller wants to know that there was an event.
    End,
}

/// A descriptor that is registered. The driver makes it and frees it.
pub struct Source<M: Machine> {
    word: ReadyWord<M>,
    waiters: Waiters<M>,
    /// The tick at which a task last tried a syscall.
    used: M::U64,
    /// The mute word: 1 from when its events were turned off until a thread is to turn them on again.
    muted: M::U32,
    pub(super) links: super::links::SourceLinks<M>,
    /// Whether the driver has not freed it; looked at in models only, where nothing is freed before
    /// the driver goes, so that a checker sees who comes too late.
    is_alive: M::Cell<bool>,
}

// SAFETY: not Sync by themselves are the links, which have a protocol of their own, and `is_alive`, which
// only a thread writes that has the source alone.
unsafe impl<M: Machine> Send for Source<M> {}
// SAFETY: as above.
unsafe impl<M: Machine> Sync for Source<M> {}

impl<M: Machine> std::fmt::Debug for Source<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("word", &self.word)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Source<M> {
    pub(super) fn new() -> Self {
        Source {
            word: ReadyWord::new(),
            waiters: Waiters::new(),
            used: M::U64::new(0),
            muted: M::U32::new(0),
            links: super::links::SourceLinks::default(),
            is_alive: M::Cell::new(true),
        }
    }

    /// The word now.
    pub fn look(&self) -> Event {
        self.word.look()
    }

    /// Ready if the descriptor is ready for some of that, or shut. If not, the waker of `cx` is woken when it
    /// is. If several tasks ask this way to write alone, or for anything else, the last one is woken.
    pub fn poll_ready(&self, cx: &Context<'_>, interest: impl Into<Interest>) -> Poll<Event> {
        self.wait(cx, interest.into(), None)
    }

    /// As [`Source::poll_ready`], but not ready for what is known since `acted`, which the caller has acted upon
    /// in vain.
    fn wait(&self, cx: &Context<'_>, interest: Interest, acted: Option<Event>) -> Poll<Event> {
        let wanted = interest.wanted();
        let event = self.word.look();
        if event.is_news(wanted, acted) {
            return Poll::Ready(event);
        }
        self.waiters.arm_slot(interest, cx.waker());
        self.look_again(wanted, acted)
    }

    /// Looks again after a cell was armed: no other thread acts on an event that came before the arming.
    fn look_again(&self, wanted: Readiness, acted: Option<Event>) -> Poll<Event> {
        if M::breaks(Bug::IoArmBlind) {
            return Poll::Pending;
        }
        let event = self.word.look();
        if event.is_news(wanted, acted) {
            return Poll::Ready(event);
        }
        Poll::Pending
    }

    /// Notes that the descriptor is not ready for that: a syscall that was made after `event` was
    /// seen would have had to wait. A closed direction stays closed.
    pub fn clear(&self, event: Event, interest: impl Into<Interest>) -> Cleared {
        self.word.clear(event, interest.into().wanted())
    }

    /// As [`Source::clear`], after the syscall returned [`io::ErrorKind::WouldBlock`]. If the interest is of one
    /// direction, it clears what was closed too, because the OS has shown that it is open: a FIFO whose last
    /// writer left can get another one.
    pub fn clear_all(&self, event: Event, interest: impl Into<Interest>) -> Cleared {
        let interest = interest.into();
        if interest.is_one_way() {
            self.word.clear_all(event, interest.wanted())
        } else {
            self.word.clear(event, interest.wanted())
        }
    }

    /// Calls `f`, which makes a non-blocking syscall, each time that it may succeed, until it
    /// returns something other than [`io::ErrorKind::WouldBlock`]. Waits as [`Source::poll_ready`] does.
    ///
    /// # Errors
    /// Those of `f`; and [`gone`] if the workers have ended.
    pub fn poll_io<R>(
        &self,
        cx: &Context<'_>,
        interest: impl Into<Interest>,
        f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let interest = interest.into();
        self.poll_by(interest, |acted| self.wait(cx, interest, acted), f)
    }

    /// As [`Source::poll_io`], but waits in a place of its own: if several tasks do, each is woken.
    ///
    /// # Errors
    /// As for [`Source::poll_io`].
    pub fn poll_io_in<'a, R>(
        &'a self,
        cx: &Context<'_>,
        interest: impl Into<Interest>,
        place: &mut Place<'a>,
        f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let interest = interest.into();
        let wanted = interest.wanted();
        let ready = |acted| self.wait_in(cx, wanted, place, OnEvent::Look, acted);
        self.poll_by(interest, ready, f)
    }

    /// As [`Source::poll_ready`], but waits in a place of its own: if several tasks do, each is woken. The event
    /// that wakes it ends the wait, also if a task that was woken by the same event has cleared the word since.
    pub fn poll_ready_in<'a>(
        &'a self,
        cx: &Context<'_>,
        interest: impl Into<Interest>,
        place: &mut Place<'a>,
    ) -> Poll<Event> {
        self.wait_in(cx, interest.into().wanted(), place, OnEvent::End, None)
    }

    fn poll_by<R>(
        &self,
        interest: Interest,
        mut ready: impl FnMut(Option<Event>) -> Poll<Event>,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let mut acted = None;
        loop {
            let event = ready!(ready(acted));
            if event.is_shut() {
                return Poll::Ready(Err(gone()));
            }
            self.note_used(event);
            match f() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match self.clear_all(event, interest) {
                        Cleared::Yes | Cleared::Newer => {}
                    }
                    // What is closed may still be known: it does not end the wait once more.
                    acted = Some(event);
                }
                result => return Poll::Ready(result),
            }
        }
    }

    pub(super) fn note_used(&self, event: Event) {
        // ORDER: Relaxed; the number of events in vain is a guess.
        if self.used.load(Ordering::Relaxed) != event.tick() {
            // ORDER: Relaxed, as above.
            self.used.store(event.tick(), Ordering::Relaxed);
        }
    }

    /// Whether no task waits, and none has acted upon the last [`IN_VAIN`] events.
    pub(super) fn is_in_vain(&self) -> bool {
        // ORDER: Relaxed, as in `note_used`.
        let used = self.used.load(Ordering::Relaxed);
        let unused = self.word.look().tick().wrapping_sub(used);
        unused >= IN_VAIN && !self.waiters.any()
    }

    /// Notes that its events are off. Returns whether a task waits that may not have seen that.
    pub(super) fn has_muted(&self) -> bool {
        // ORDER: Release pairs with the Acquire of `take_muted`. A read-modify-write for the fence after it.
        // With an arming and its fence this is store buffering: either this sees the waiting task, or
        // that task sees this, in `take_muted`.
        self.muted.swap(1, Ordering::Release);
        M::fence_recheck();
        !M::breaks(Bug::IoMuteBlind) && self.waiters.any()
    }

    /// Whether its events are off. A caller that gets `true` must turn them on. Call it after an arming and its
    /// fence.
    pub(super) fn take_muted(&self) -> bool {
        // ORDER: Relaxed, after the fence. Then Acquire pairs with the Release of `has_muted`: of several waiting
        // tasks one gets `true`, and comes after the thread that turned the events off.
        self.muted.load(Ordering::Relaxed) != 0 && self.muted.swap(0, Ordering::Acquire) != 0
    }

    /// The events could not be turned on: wakes all that wait, whose next poll returns the error.
    pub(super) fn stays_muted(&self) {
        // ORDER: Release pairs with the Acquire of `take_muted`: the next thread that tries comes after this one,
        // and so after the thread that turned the events off.
        self.muted.store(1, Ordering::Release);
        self.waiters.wake(Readiness::ALL);
    }

    /// Ready if it is ready for some of `wanted`, or shut. If not, the waker of `cx` waits in that place. `acted` as
    /// in [`Source::wait`].
    fn wait_in<'a>(
        &'a self,
        cx: &Context<'_>,
        wanted: Readiness,
        place: &mut Place<'a>,
        on_event: OnEvent,
        acted: Option<Event>,
    ) -> Poll<Event> {
        let event = self.word.look();
        let polled = if event.is_news(wanted, acted) {
            Poll::Ready(event)
        } else {
            let mine = std::ptr::from_ref(self).addr();
            match place.go_on(mine, wanted, cx.waker()) {
                Wait::Pending => self.look_again(wanted, acted),
                Wait::Ended if on_event == OnEvent::End => Poll::Ready(self.word.look()),
                Wait::Ended | Wait::New => {
                    let armed = self.waiters.arm_spare(place.turn(mine), wanted, cx.waker());
                    place.begin(mine, (armed.cell, armed.turn));
                    self.look_again(wanted, acted)
                }
            }
        };
        if polled.is_ready() {
            place.disarm();
        }
        polled
    }

    /// A future that waits, in a place of its own, until the descriptor is ready for some of `interest`.
    pub fn readiness(&self, interest: Interest) -> WhenReady<'_, M> {
        WhenReady {
            source: self,
            wanted: interest.wanted(),
            place: Place::default(),
        }
    }

    /// An event came: notes it, and wakes the tasks that wait for it.
    pub(super) fn deliver(&self, readiness: Readiness) {
        if M::MODEL {
            // SAFETY: only the driver writes it, after all threads that may deliver have left.
            let is_alive = self.is_alive.with(|it| unsafe { *it });
            assert!(is_alive, "an event for what was freed");
        }
        let Delivered::Yes(said) = self.word.deliver(readiness) else {
            return;
        };
        if !M::breaks(Bug::IoNoEventFence) {
            // Partner: the fence after an arming (`HeldCell::arm`).
            M::fence_recheck();
        }
        self.waiters.wake(said);
    }

    /// The workers have ended: no event will come, and all waiting tasks are woken.
    pub(super) fn shut(&self) {
        if self.word.shut() == Shut::Now {
            // As for an event.
            M::fence_recheck();
            self.waiters.wake(Readiness::ALL);
        }
    }

    /// The registration ends: drops the wakers, and wakes no task any more.
    pub(super) fn leave(&self) {
        match self.word.shut() {
            Shut::Now | Shut::Already => self.waiters.forget(),
        }
    }

    /// The driver is about to free it.
    pub(super) fn end(&self) {
        if M::MODEL {
            // SAFETY: the driver has just made sure that no other thread has it.
            self.is_alive.with_mut(|it| unsafe { *it = false });
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize) {
        self.waiters.count()
    }
}

/// The runtime that waits for the descriptor of a socket has ended, or is about to: the source of the
/// [`io::Error`] of an operation that would have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the runtime that waits for the descriptor has ended, or is about to; into_std and from_std make an object that \
     another runtime can wait for"
)]
pub struct RuntimeEnded;

/// The error of a task that waits for a descriptor whose workers have ended: [`RuntimeEnded`].
pub fn gone() -> io::Error {
    io::Error::other(RuntimeEnded)
}

/// The future of [`Source::readiness`]. Its drop leaves no waker behind.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct WhenReady<'a, M: Machine> {
    source: &'a Source<M>,
    wanted: Readiness,
    place: Place<'a>,
}

impl<M: Machine> Future for WhenReady<'_, M> {
    type Output = Event;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Event> {
        let it = self.get_mut();
        it.source
            .wait_in(cx, it.wanted, &mut it.place, OnEvent::End, None)
    }
}
