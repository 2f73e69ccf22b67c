//! The bell: a worker's status word. See README.md in this folder for the protocol.
//!
//! | bit | name | set by | cleared by |
//! |---|---|---|---|
//! | 0 | `NOTIFY` | a notifier: the worker is to look | the worker, before it takes its mailbox |
//! | 1 | `RESCHED` | a notifier that wants a pass | the worker, together with `NOTIFY` |
//! | 2 | `SPINNING` | the worker | the worker |
//! | 3 | `PARKED` | the worker | the worker |
//! | 4 | `LOW` | a notifier below the worker's class, with `NOTIFY`: it will ring | a notifier that is not below, and rings too; the worker, with `PARKED` |
//! | 5 | `TWICE` | a second notifier below, which rings too | together with `LOW` |
//!
//! The worker is *running* while bits 2 and 3 are clear. All changes are read-modify-writes, so
//! all threads see them in one order.

#[cfg(test)]
mod loom;
#[cfg(test)]
mod tests;

use crate::class::Standing;
use doorbell_machine::{
    Bug, Machine, Mark, Ordering, ParkEnd, Parker, PollEvents, Poller, WaitEnd, Word,
};

const NOTIFY: u32 = 1 << 0;
const RESCHED: u32 = 1 << 1;
const SPINNING: u32 = 1 << 2;
const PARKED: u32 = 1 << 3;
const LOW: u32 = 1 << 4;
const TWICE: u32 = 1 << 5;
const PROMISES: u32 = LOW | TWICE;
const SIGNALS: u32 = NOTIFY | RESCHED;
const IDLE: u32 = SPINNING | PARKED;

// The table above: six bits, none shared.
const _: () = assert!(NOTIFY + RESCHED + SPINNING + PARKED + LOW + TWICE == 0b11_1111);
const _: () = assert!(SIGNALS & IDLE == 0 && PROMISES & (SIGNALS | IDLE) == 0);

/// What a notifier asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kick {
    /// Look at the mailbox.
    Take,
    /// Look at the mailbox, and make a pass.
    Pass,
}

impl Kick {
    const fn bits(self) -> u32 {
        match self {
            Kick::Take => NOTIFY,
            Kick::Pass => NOTIFY | RESCHED,
        }
    }
}

/// What a notifier found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notified {
    /// The worker runs and looks by itself before it idles; the signal stays latched.
    Running,
    /// The worker spins and has seen the word change: nothing more to do.
    Spinning,
    /// The worker is parked, and this notifier must ring.
    MustRing,
    /// The worker is parked. Another notifier has promised to ring, but it is of a lower class and may lose its
    /// CPU: this notifier must ring too.
    MustHelp,
    /// Another notifier was first, and does what is to be done.
    Already,
}

/// What a poster sees when it only looks.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The worker runs: it looks at its mailbox before it idles.
    Running,
    /// The worker spins on this line: it has seen the push.
    Spinning,
    /// The worker was notified and has not looked yet.
    Notified,
    /// The worker is parked and was notified, by a notifier of a lower class that has promised to ring.
    NotifiedFromBelow,
    /// The worker is parked and was not notified.
    Parked,
}

/// The signals that were set when the worker cleared them.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// The worker was notified.
    pub notified: bool,
    /// A pass was asked for.
    pub pass: bool,
}

impl Signals {
    const fn of(word: u32) -> Self {
        Signals {
            notified: word & NOTIFY != 0,
            pass: word & RESCHED != 0,
        }
    }

    /// The union of two sets.
    pub fn and(self, other: Signals) -> Signals {
        Signals {
            notified: self.notified || other.notified,
            pass: self.pass || other.pass,
        }
    }
}

/// How a worker's announcement went.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// Done; the worker now looks at its mailbox once more.
    Yes,
    /// A signal was set before: the worker has something to do first. The word is unchanged.
    Signalled,
}

/// What a worker does now, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerState {
    /// It runs tasks or looks for work.
    Running,
    /// It spins on its bell: a notification reaches it without a syscall.
    Spinning,
    /// Its thread is blocked, or about to be.
    Parked,
}

/// The status word of a worker, or of another thread that waits.
#[derive(Debug)]
pub struct Bell<M: Machine> {
    word: M::U32,
}

impl<M: Machine> Default for Bell<M> {
    fn default() -> Self {
        Bell {
            word: M::U32::new(0),
        }
    }
}

/// The notifiers' side.
impl<M: Machine> Bell<M> {
    /// Signals the worker. On [`Notified::MustRing`] the caller must ring the parker, since no other notifier
    /// will; on [`Notified::MustHelp`] it must ring too.
    #[inline]
    pub fn notify(&self, kick: Kick, from: Standing) -> Notified {
        if from == Standing::Below {
            return self.notify_from_below(kick);
        }
        // ORDER: Release pairs with the Acquire of the worker's clearing (`acknowledge`,
        // `end_idle`) and spinning: the worker then sees what the caller did before. Acquire pairs
        // with the Release of its announcement: a notifier that must ring sees where it sleeps.
        let before = self.word.fetch_or(kick.bits(), Ordering::AcqRel);
        if before & LOW != 0 {
            self.help(from)
        } else {
            Self::found(before)
        }
    }

    /// As [`Bell::notify`], for a notifier of a lower class. Together with the signal it says so, because the
    /// worker's class must not wait for its ring.
    #[cold]
    fn notify_from_below(&self, kick: Kick) -> Notified {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let promised = if seen & (PARKED | NOTIFY) == PARKED {
                LOW
            } else if seen & PROMISES == LOW && !M::breaks(Bug::BellTrustsBelow) {
                TWICE
            } else {
                // No other notifier relies on this one.
                0
            };
            let next = seen | kick.bits() | promised;
            // ORDER: AcqRel as in `notify`; Relaxed on failure: only the next guess.
            match self
                .word
                .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) if promised == TWICE => return Self::must_help(),
                Ok(_) => return Self::found(seen),
                Err(now) => seen = now,
            }
        }
    }

    /// A look has shown that a notifier of a lower class has promised to ring. No other notifier relies on it:
    /// of those that come later, the first of a lower class rings too, and so does the first that is not.
    #[cold]
    pub fn help(&self, from: Standing) -> Notified {
        if M::breaks(Bug::BellTrustsBelow) {
            return Notified::Already;
        }
        if from == Standing::Below {
            // ORDER: Relaxed; a first guess, the exchange decides.
            return match self.word.load(Ordering::Relaxed) & PROMISES {
                LOW => self.notify_from_below(Kick::Take),
                _ => Notified::Already,
            };
        }
        if M::breaks(Bug::BellHelpBlind) {
            // ORDER: none that helps; this is the mutant, with which two notifiers may find the bit.
            let before = self.word.load(Ordering::Relaxed);
            if before & LOW != 0 {
                // ORDER: none that helps; this is the mutant, and the bit may be gone.
                self.word.fetch_and(!PROMISES, Ordering::Relaxed);
                return Notified::MustHelp;
            }
            return Notified::Already;
        }
        // ORDER: Acquire as in `notify`: this notifier sees where the worker sleeps. The fence or the
        // exchange before the look that led here has published the push. A read-modify-write, so that
        // only one of several notifiers finds the bit.
        if self.word.fetch_and(!PROMISES, Ordering::Acquire) & LOW == 0 {
            // A notifier that is not below rings, or the worker has woken up.
            return Notified::Already;
        }
        Self::must_help()
    }

    fn must_help() -> Notified {
        M::mark(Mark::BellMustHelp);
        Notified::MustHelp
    }

    #[inline]
    fn found(before: u32) -> Notified {
        if before & NOTIFY != 0 {
            M::mark(Mark::BellAlready);
            Notified::Already
        } else if before & PARKED != 0 && !M::breaks(Bug::BellNoRing) {
            M::mark(Mark::BellMustRing);
            Notified::MustRing
        } else if before & SPINNING != 0 {
            Notified::Spinning
        } else {
            Notified::Running
        }
    }

    /// Looks without signalling. After a push, a [`fence_recheck`](Machine::fence_recheck) must stand
    /// between the push and this look.
    #[inline]
    pub fn look(&self) -> Look {
        // ORDER: Relaxed; the poster's fence and the worker's fence_announce order it: either
        // this sees the announcement, or the worker sees the push.
        let word = self.word.load(Ordering::Relaxed);
        if word & LOW != 0 {
            Look::NotifiedFromBelow
        } else if word & NOTIFY != 0 {
            Look::Notified
        } else if word & PARKED != 0 {
            Look::Parked
        } else if word & SPINNING != 0 {
            Look::Spinning
        } else {
            Look::Running
        }
    }

    /// What the worker does now. The answer may be outdated at once.
    pub fn state(&self) -> WorkerState {
        // ORDER: Relaxed; for people, tests and guesses, no protocol relies on it.
        let word = self.word.load(Ordering::Relaxed);
        if word & PARKED != 0 {
            WorkerState::Parked
        } else if word & SPINNING != 0 {
            WorkerState::Spinning
        } else {
            WorkerState::Running
        }
    }

    /// Whether the worker is parked and was told nothing.
    pub(crate) fn is_quiescent(&self) -> bool {
        // ORDER: Acquire pairs with the Release of the worker's announcement: a thread that sees it parked anew
        // sees that it was awake; unshown because what it keeps after this look is an exchange of the
        // clock's word, and an exchange of the model reads the newest value in any case.
        self.word.load(Ordering::Acquire) == PARKED
    }

    /// Wakes the thread of a parked worker: one syscall.
    pub fn ring(&self, parker: &M::Parker) {
        parker.ring(&self.word);
    }
}

/// The worker's side. Only the worker's own thread calls these.
impl<M: Machine> Bell<M> {
    /// Whether a signal is set. One load, of a line that stays in the worker's cache until another thread
    /// posts.
    #[inline]
    pub fn signalled(&self) -> bool {
        // ORDER: Relaxed; a hint, `acknowledge` follows with Acquire.
        self.word.load(Ordering::Relaxed) & SIGNALS != 0
    }

    /// Whether a pass was asked for. As [`Bell::signalled`], a hint.
    #[inline]
    pub fn wants_pass(&self) -> bool {
        // ORDER: Relaxed; a hint, `end_idle` or `acknowledge` follows with Acquire.
        self.word.load(Ordering::Relaxed) & RESCHED != 0
    }

    /// From running to spinning. On [`Announced::Yes`] the worker must look at its mailbox once
    /// more before it relies on being told.
    #[inline]
    pub fn announce_spin(&self) -> Announced {
        self.announce(0, SPINNING)
    }

    /// From spinning to parked. The same holds as for [`Bell::announce_spin`].
    #[inline]
    pub fn announce_park(&self) -> Announced {
        self.announce(SPINNING, PARKED)
    }

    #[inline]
    fn announce(&self, from: u32, to: u32) -> Announced {
        // ORDER: Release pairs with the Acquire of a notifier that must ring: it sees whether the worker keeps the poller. The
        // fence after it pairs with the poster's fence_recheck after its push: store buffering, in which
        // the fences forbid that both sides miss each other. Relaxed on failure: the worker clears the
        // signals next, by `acknowledge` or `end_idle`, which acquire.
        let announced = self
            .word
            .compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
        if announced.is_err() {
            M::mark(match to {
                SPINNING => Mark::BellSignalledBeforeSpin,
                _ => Mark::BellSignalledBeforePark,
            });
            return Announced::Signalled;
        }
        if !M::breaks(Bug::BellNoAnnounceFence) {
            M::fence_announce();
        }
        Announced::Yes
    }

    /// Clears the signals and goes on spinning, or running. The caller must take its mailbox
    /// *after* this, never before.
    #[inline]
    pub fn acknowledge(&self) -> Signals {
        // ORDER: Acquire pairs with the notifier's Release. That NOTIFY is clear publishes nothing: a
        // poster that sees it set still has its fence, and the worker the fence of its next announcement.
        Signals::of(self.word.fetch_and(!SIGNALS, Ordering::Acquire))
    }

    /// From spinning or parked to running; clears the signals too. The caller must look at its mailbox and
    /// its inject queue after this.
    #[inline]
    pub fn end_idle(&self) -> Signals {
        if M::breaks(Bug::BellAnnounceBlind) {
            // ORDER: none that helps; this is the mutant.
            self.word.store(0, Ordering::Relaxed);
            return Signals::default();
        }
        // ORDER: Acquire as in `acknowledge`. The fence after it orders this before the look at mailbox
        // and inject queue that follows: with a post and its fence_recheck this is store buffering. Either the
        // poster sees that the worker runs, or the worker sees the post. The Acquire is redundant because
        // that fence acquires as well.
        let signals = self.word.swap(0, Ordering::Acquire);
        M::fence_announce();
        Signals::of(signals)
    }

    /// Blocks until signalled or until `until_ns`. The worker must have announced it. The OS's own test of
    /// the word is the last one. Returns why the park ended, but never [`ParkEnd::Spurious`]: after that the
    /// thread parks again.
    pub fn park(&self, parker: &M::Parker, until_ns: Option<u64>) -> ParkEnd {
        loop {
            let ended = parker.park(&self.word, PARKED, until_ns);
            // ORDER: Relaxed; only whether there is a signal, `end_idle` acquires it.
            let told = self.word.load(Ordering::Relaxed) != PARKED;
            match ended {
                ParkEnd::Deadline => return ended,
                ParkEnd::Changed => {
                    M::mark(Mark::BellLastTest);
                    return ended;
                }
                ParkEnd::Rung | ParkEnd::Spurious if told => return ParkEnd::Rung,
                ParkEnd::Rung | ParkEnd::Spurious => M::mark(Mark::BellSleptOn),
            }
        }
    }

    /// As [`Bell::park`], in a poller in which no other thread waits. Descriptors that are ready end the park too; they
    /// are in `events`, whatever ended it. Never returns [`WaitEnd::Spurious`].
    pub fn park_polling(
        &self,
        poller: &M::Poller,
        until_ns: Option<u64>,
        events: &mut PollEvents,
    ) -> WaitEnd {
        loop {
            let ended = poller.wait(&self.word, PARKED, until_ns, events);
            // ORDER: Relaxed; only whether there is a signal, `end_idle` acquires it.
            let told = self.word.load(Ordering::Relaxed) != PARKED;
            match ended {
                WaitEnd::Changed => {
                    M::mark(Mark::BellLastTest);
                    return ended;
                }
                WaitEnd::Rung | WaitEnd::Spurious | WaitEnd::Ready if told => {
                    return WaitEnd::Rung;
                }
                WaitEnd::Deadline | WaitEnd::Ready => return ended,
                WaitEnd::Rung | WaitEnd::Spurious if !events.is_empty() => return WaitEnd::Ready,
                WaitEnd::Rung | WaitEnd::Spurious => M::mark(Mark::BellSleptOn),
            }
        }
    }
}
