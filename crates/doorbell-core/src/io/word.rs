//! The word of a descriptor: what it is ready for, and how many events there were.

use doorbell_machine::{Bug, Machine, Ordering, Readiness, Word};

/// The runtime, or the registration, is gone.
const SHUT: u64 = 1 << 6;

/// One event.
const TICK: u64 = 1 << 8;

/// What [`ReadyWord::clear`] leaves: a closed direction stays closed.
const CLOSED: Readiness = Readiness::READ_CLOSED.and(Readiness::WRITE_CLOSED);

// The table below: readiness ends where SHUT begins, and the ticks begin two bits above SHUT.
const _: () = assert!(Readiness::ALL.bits() as u64 == SHUT - 1);
const _: () = assert!(SHUT << 2 == TICK);

/// The word of a descriptor.
///
/// | bits | name | set by | cleared by |
/// |---|---|---|---|
/// | 0–5 | readiness, as in [`Readiness`] | an event | a task whose syscall would have waited, if no event came since |
/// | 6 | `SHUT` | the registration that goes, or the first worker that ends | never |
/// | 7 | zero | | |
/// | 8–63 | tick | each event adds one | |
#[derive(Debug)]
pub(super) struct ReadyWord<M: Machine>(M::U64);

/// What is known of a descriptor at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    tick: u64,
    readiness: Readiness,
    is_shut: bool,
}

impl Event {
    fn of(word: u64) -> Self {
        Event {
            tick: word / TICK,
            readiness: Readiness::from_bits(word as u8),
            is_shut: word & SHUT != 0,
        }
    }

    /// What the descriptor is known to be ready for.
    pub fn readiness(self) -> Readiness {
        self.readiness
    }

    /// How many events there were, modulo 2⁵⁶.
    pub(super) fn tick(self) -> u64 {
        self.tick
    }

    /// Whether no more events will come: a worker has ended, or its registration is gone.
    pub fn is_shut(self) -> bool {
        self.is_shut
    }

    /// Whether this ends a wait for `wanted` of a task that has acted upon `acted` in vain.
    pub(super) fn is_news(self, wanted: Readiness, acted: Option<Event>) -> bool {
        let is_old = acted.is_some_and(|acted| acted.tick == self.tick);
        self.is_shut || (!is_old && self.concerns(wanted))
    }

    /// Whether this ends a wait for `wanted`.
    pub(super) fn concerns(self, wanted: Readiness) -> bool {
        self.is_shut || !self.readiness.within(wanted).is_empty()
    }
}

/// How an event went.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    /// It is in the word; the caller must wake those that wait for some of this.
    Yes(Readiness),
    /// The word is shut and unchanged.
    Shut,
}

/// How a clearing went.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// Done: when it is ready again, a new event says so.
    Yes,
    /// An event came since: nothing was cleared, try again.
    Newer,
}

/// Whether a call of [`ReadyWord::shut`] was the first.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shut {
    /// It was.
    Now,
    /// It was shut already.
    Already,
}

impl<M: Machine> ReadyWord<M> {
    pub(super) fn new() -> Self {
        ReadyWord(M::U64::new(0))
    }

    pub(super) fn look(&self) -> Event {
        // ORDER: Acquire pairs with the Release of `deliver`: what its thread did before is visible, also if
        // the word was changed since, because only read-modify-writes change it. After an arming, the
        // fence of that orders this.
        Event::of(self.0.load(Ordering::Acquire))
    }

    /// Notes an event. A pending error counts as readable and as writable, because both a read and a write
    /// will report it.
    pub(super) fn deliver(&self, readiness: Readiness) -> Delivered {
        let said = if readiness.has(Readiness::ERROR) {
            readiness.and(Readiness::READABLE).and(Readiness::WRITABLE)
        } else {
            readiness
        };
        // ORDER: Relaxed; a first guess, the exchange below decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & SHUT != 0 {
                return Delivered::Shut;
            }
            let new = seen.wrapping_add(TICK) | u64::from(said.bits());
            // ORDER: Release pairs with the Acquire of `look`. Relaxed on failure: only the next guess.
            match self
                .0
                .compare_exchange(seen, new, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return Delivered::Yes(said),
                Err(now) => seen = now,
            }
        }
    }

    /// Clears `what`, except what is closed. The caller has seen `event` before the syscall that would have
    /// had to wait.
    pub(super) fn clear(&self, event: Event, what: Readiness) -> Cleared {
        self.clear_all(event, what.without(CLOSED))
    }

    /// As [`ReadyWord::clear`], and clears what is closed too: the syscall has shown that it is open.
    pub(super) fn clear_all(&self, event: Event, what: Readiness) -> Cleared {
        // An error concerns both directions, so it is cleared with either.
        let what = u64::from(what.and(Readiness::ERROR).bits());
        // ORDER: Relaxed; a first guess, the exchange below decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen / TICK != event.tick && !M::breaks(Bug::IoClearBlind) {
                return Cleared::Newer;
            }
            // ORDER: Relaxed; it publishes nothing. A read-modify-write, so a later look still acquires the
            // event before it.
            match self
                .0
                .compare_exchange(seen, seen & !what, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Cleared::Yes,
                Err(now) => seen = now,
            }
        }
    }

    /// Sets `SHUT`: from here on no event is noted.
    pub(super) fn shut(&self) -> Shut {
        // ORDER: Relaxed as in `clear_all`, and a read-modify-write also for the fence after it.
        if self.0.fetch_or(SHUT, Ordering::Relaxed) & SHUT == 0 {
            Shut::Now
        } else {
            Shut::Already
        }
    }
}
