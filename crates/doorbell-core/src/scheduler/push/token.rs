//! The push token: of all workers that lower, one moves the waiting tasks of overloaded workers. See README.md.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0 | `TOLD` | a worker has lowered since the last round began |
//! | 1 to 31 | | zero |
//! | 32 to 63 | [`Generation`] | odd: a holder has the token; even: it is free. It only counts up, and wraps |

use doorbell_machine::{Bug, Line, Machine, Ordering, Word};
use std::cell::Cell;

const TOLD: u64 = 1;
const GENERATION_SHIFT: u32 = 32;
const _: () = assert!(TOLD < 1 << GENERATION_SHIFT && GENERATION_SHIFT + u32::BITS == u64::BITS);

/// A holder that has had the token for this long may get no CPU: a teller takes the token over.
pub const LATE_NS: u64 = 250_000;

/// One hold of the token: from the moment that a thread takes it until it is given back, or taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u32);

impl Generation {
    const fn of(word: u64) -> Self {
        Generation((word >> GENERATION_SHIFT) as u32)
    }

    const fn word(self) -> u64 {
        (self.0 as u64) << GENERATION_SHIFT
    }

    const fn after(self, steps: u32) -> Self {
        Generation(self.0.wrapping_add(steps))
    }

    const fn is_held(self) -> bool {
        self.0 % 2 == 1
    }
}

/// What becomes of a tell.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The caller has the token: it begins a round, and owes the end.
    Holder(Generation),
    /// Another thread has the token, and begins a round after this.
    Noted(Generation),
}

/// Whether a round began.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// It did. The holder visits the overloaded workers.
    Begun,
    /// The token was taken over. The caller posts what it has in hand, and stops.
    Lost,
}

/// Whether a hold ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It did. The token is free.
    Ended,
    /// A worker has told since the last round began: the holder begins another round.
    Again,
    /// As [`Round::Lost`].
    Lost,
}

/// The token of a scheduler. It guards nothing: two holders are safe. It keeps the workers that tell at one moment
/// from visiting the same overloaded worker all at once.
pub struct PushToken<M: Machine> {
    word: M::Line<M::U64>,
}

impl<M: Machine> Default for PushToken<M> {
    fn default() -> Self {
        PushToken {
            word: M::Line::new(|| M::U64::new(0)),
        }
    }
}

impl<M: Machine> std::fmt::Debug for PushToken<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PushToken")
            .field("holder", &self.holder())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> PushToken<M> {
    /// The holder, if there is one.
    pub fn holder(&self) -> Option<Generation> {
        // ORDER: Relaxed; a hint, for watchdogs and reports.
        let seen = Generation::of(self.word.load(Ordering::Relaxed));
        seen.is_held().then_some(seen)
    }

    /// A worker has lowered, behind its fence, and some worker is overloaded. Takes the token if it is free. Otherwise
    /// notes the tell, and only reads the word if another worker has noted one for the same round.
    pub fn tell(&self) -> Told {
        // ORDER: Relaxed, here and below; store buffering. A teller that reads an old TOLD relies on the fence of
        // `begin_round` behind the exchange that cleared it: that round sees what the teller published before its own
        // fence.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let generation = Generation::of(seen);
            let (next, told) = if generation.is_held() {
                (seen | TOLD, Told::Noted(generation))
            } else {
                let own = generation.after(1);
                (own.word() | TOLD, Told::Holder(own))
            };
            if next == seen {
                return told;
            }
            // ORDER: Relaxed, as above; on failure another teller, or the holder, has moved the token.
            match self
                .word
                .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return told,
                Err(now) => seen = now,
            }
        }
    }

    /// The holder of this generation seems to get no CPU: takes the token over, with what was told to that holder. If
    /// that hold is over, this is a [`PushToken::tell`].
    pub fn take_over(&self, late: Generation) -> Told {
        // ORDER: Relaxed, here and below; as in `tell`.
        let mut seen = self.word.load(Ordering::Relaxed);
        while Generation::of(seen) == late {
            let own = late.after(2);
            // ORDER: Relaxed, as above.
            match self.word.compare_exchange(
                seen,
                own.word() | TOLD,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Told::Holder(own),
                Err(now) => seen = now,
            }
        }
        self.tell()
    }

    /// The holder begins a round: it answers every tell so far, so it reads ranks, idle workers and overloaded workers
    /// after this.
    pub fn begin_round(&self, own: Generation) -> Round {
        if M::breaks(Bug::PushLateBegins) {
            // ORDER: the mutant; a late holder takes a tell that was meant for the next one.
            let seen = self.word.fetch_and(!TOLD, Ordering::Relaxed);
            M::fence_recheck();
            return if Generation::of(seen) == own {
                Round::Begun
            } else {
                Round::Lost
            };
        }
        let mut seen = own.word() | TOLD;
        loop {
            // ORDER: Relaxed, and a read-modify-write for the fence behind it.
            match self
                .word
                .compare_exchange(seen, own.word(), Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) if Generation::of(now) == own => seen = now,
                Err(_) => return Round::Lost,
            }
        }
        // Store buffering, with the fence of a worker that lowers and its look at TOLD.
        M::fence_recheck();
        Round::Begun
    }

    /// The holder has nothing left to move, and ends if no worker has told since its last round began.
    pub fn end(&self, own: Generation) -> End {
        if M::breaks(Bug::PushEndBlind) {
            // ORDER: the mutant; a tell since the last round is lost.
            self.word.swap(own.after(1).word(), Ordering::Relaxed);
            return End::Ended;
        }
        // ORDER: Relaxed; the word has one order, so of this and a tell the second sees the first. It publishes
        // nothing.
        let ended = self.word.compare_exchange(
            own.word(),
            own.after(1).word(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        match ended {
            Ok(_) => End::Ended,
            Err(now) if Generation::of(now) == own => End::Again,
            Err(now) if M::breaks(Bug::PushLateEnds) && Generation::of(now).is_held() => {
                let after = Generation::of(now).after(1);
                // ORDER: the mutant; a late holder ends the hold of another.
                self.word.swap(after.word(), Ordering::Relaxed);
                End::Ended
            }
            Err(_) => End::Lost,
        }
    }

    /// The holder ends although it was told, because it has made enough rounds. It makes an offer after this, on behalf
    /// of those that told it.
    pub fn end_although_told(&self, own: Generation) -> End {
        let mut seen = own.word();
        loop {
            let next = own.after(1).word();
            // ORDER: Relaxed, as in `end`.
            match self
                .word
                .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return End::Ended,
                Err(now) if Generation::of(now) == own => seen = now,
                Err(_) => return End::Lost,
            }
        }
    }
}

/// Since when a worker has found the token in the same hands. Only that worker's thread has this.
#[derive(Debug)]
pub struct HeldSince {
    generation: Cell<Generation>,
    since_ns: Cell<u64>,
}

impl Default for HeldSince {
    fn default() -> Self {
        HeldSince {
            generation: Cell::new(Generation(0)),
            since_ns: Cell::new(0),
        }
    }
}

impl HeldSince {
    /// The worker finds this holder now. Returns whether it has found the same one for [`LATE_NS`].
    #[must_use]
    pub fn is_late(&self, holder: Generation, now_ns: u64) -> bool {
        if self.generation.replace(holder) != holder {
            self.since_ns.set(now_ns);
        }
        now_ns.saturating_sub(self.since_ns.get()) >= LATE_NS
    }
}

#[cfg(test)]
mod tests {
    use super::{End, Generation, HeldSince, LATE_NS, Line, Machine, PushToken, Round, Told};
    use doorbell_machine::Host;

    #[test]
    fn the_first_teller_holds_it_and_answers_the_others() {
        let token = PushToken::<Host>::default();
        assert_eq!(token.holder(), None);
        let own = Generation(1);
        assert_eq!(token.tell(), Told::Holder(own));
        assert_eq!(token.end(own), End::Again, "it has answered nobody yet");
        assert_eq!(token.tell(), Told::Noted(own));
        assert_eq!(token.begin_round(own), Round::Begun);
        assert_eq!(token.begin_round(own), Round::Begun, "it moved something");
        assert_eq!(token.tell(), Told::Noted(own));
        assert_eq!(token.end(own), End::Again);
        assert_eq!(token.begin_round(own), Round::Begun);
        assert_eq!(token.end(own), End::Ended);
        assert_eq!(token.holder(), None);
        assert_eq!(token.tell(), Told::Holder(Generation(3)));
    }

    #[test]
    fn a_late_holder_has_lost_it_with_what_was_told() {
        let token = PushToken::<Host>::default();
        let (late, own) = (Generation(1), Generation(3));
        assert_eq!(token.tell(), Told::Holder(late));
        assert_eq!(token.begin_round(late), Round::Begun);
        assert_eq!(token.take_over(late), Told::Holder(own));
        assert_eq!(token.end(own), End::Again, "it answers for the late one");
        assert_eq!(token.take_over(late), Told::Noted(own), "one is enough");
        assert_eq!(token.begin_round(late), Round::Lost);
        assert_eq!(token.end(late), End::Lost);
        assert_eq!(token.end_although_told(late), End::Lost);
        assert_eq!(token.begin_round(own), Round::Begun);
        assert_eq!(token.end(own), End::Ended);
        assert_eq!(token.take_over(late), Told::Holder(Generation(5)));
    }

    #[test]
    fn a_holder_may_end_although_it_was_told() {
        let token = PushToken::<Host>::default();
        let own = Generation(1);
        assert_eq!(token.tell(), Told::Holder(own));
        assert_eq!(token.begin_round(own), Round::Begun);
        assert_eq!(token.tell(), Told::Noted(own));
        assert_eq!(token.end_although_told(own), End::Ended);
        assert_eq!(token.holder(), None);
        assert_eq!(token.tell(), Told::Holder(Generation(3)));
    }

    #[test]
    fn the_generation_wraps() {
        let last = Generation(u32::MAX);
        let token = PushToken::<Host> {
            word: Line::new(|| <Host as Machine>::U64::new(last.word())),
        };
        assert_eq!(token.holder(), Some(last));
        assert_eq!(token.take_over(last), Told::Holder(Generation(1)));
        assert_eq!(token.begin_round(Generation(1)), Round::Begun);
        assert_eq!(token.end(Generation(1)), End::Ended);
    }

    #[test]
    fn a_holder_is_late_after_a_while_in_the_same_hands() {
        let held = HeldSince::default();
        let (first, second) = (Generation(1), Generation(3));
        assert!(!held.is_late(first, LATE_NS));
        assert!(!held.is_late(first, 2 * LATE_NS - 1));
        assert!(held.is_late(first, 2 * LATE_NS));
        assert!(!held.is_late(second, 2 * LATE_NS));
        assert!(held.is_late(second, 3 * LATE_NS));
        assert!(!held.is_late(first, 0), "a clock that leapt back");
    }
}
