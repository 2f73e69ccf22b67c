//! The push token: of the workers that park at one moment, one scans the other workers on behalf of all. See
//! README.md.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0 | `HELD` | a worker has the token |
//! | 1 | `TOLD` | another worker has told since the last round began; set only with `HELD` |
//! | 2 to 31 | | zero |

use doorbell_machine::{Bug, Line, Machine, Ordering, Word};

/// With `rt_push=auto`, a scheduler of this many workers or more uses the token. In a smaller one each worker that
/// parks scans the others itself (decision 28).
pub const TOKEN_FROM: usize = 100;

const HELD: u32 = 1 << 0;
const TOLD: u32 = 1 << 1;
const _: () = assert!(HELD & TOLD == 0 && HELD | TOLD == 0b11);

/// The result of a tell.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The caller has the token: it begins a round, and owes the end.
    Holder,
    /// Another worker has the token, and makes a round after this, or offers what is left.
    Noted,
}

/// Whether a hold ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It did. The token is free.
    Ended,
    /// A worker has told since the last round began: the holder makes another round, or gives up.
    Again,
}

/// The token of a scheduler. It guards nothing: a worker may scan others without it. Its purpose is that workers which
/// park at one moment do not all look at the same overloaded worker at once.
pub struct PushToken<M: Machine> {
    word: M::Line<M::U32>,
}

impl<M: Machine> Default for PushToken<M> {
    fn default() -> Self {
        PushToken {
            word: M::Line::new(|| M::U32::new(0)),
        }
    }
}

impl<M: Machine> std::fmt::Debug for PushToken<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PushToken")
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> PushToken<M> {
    /// Whether a worker has it. A hint.
    pub fn is_held(&self) -> bool {
        // ORDER: Relaxed; a hint.
        self.word.load(Ordering::Relaxed) & HELD != 0
    }

    /// Takes the token if it is free. Otherwise notes the tell, or only reads the word if another worker has noted one
    /// for the same round. Call it on a worker that parks, after the fence of its entry into the idle set, while a
    /// worker is overloaded.
    pub fn tell(&self) -> Told {
        // ORDER: Relaxed, here and below; store buffering. A teller that reads an old TOLD relies on the fence of
        // `begin_round` or `give_up` after the read-modify-write that cleared it: what is looked at after that fence
        // is at least as new as what the teller saw in front of its own.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let (next, told) = if seen & HELD != 0 {
                (seen | TOLD, Told::Noted)
            } else {
                (HELD, Told::Holder)
            };
            if next == seen {
                return told;
            }
            // ORDER: Relaxed, as above; on failure another teller, or the holder, was first.
            match self
                .word
                .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return told,
                Err(now) => seen = now,
            }
        }
    }

    /// The holder begins a round, which answers all tells so far: it scans the other workers after this.
    pub fn begin_round(&self) {
        // ORDER: Relaxed, and a read-modify-write for the fence after it.
        self.word.fetch_and(!TOLD, Ordering::Relaxed);
        // Store buffering, with the fence of a worker that parks and its look at TOLD.
        M::fence_recheck();
    }

    /// The holder has found nothing, and ends if no worker has told since its last round began.
    pub fn end(&self) -> End {
        if M::breaks(Bug::PushEndBlind) {
            // ORDER: the mutant; a tell since the last round is lost.
            self.word.swap(0, Ordering::Relaxed);
            return End::Ended;
        }
        // ORDER: Relaxed; the word has one order, so of this and a tell the second sees the first. It publishes
        // nothing.
        let ended = self
            .word
            .compare_exchange(HELD, 0, Ordering::Relaxed, Ordering::Relaxed);
        ended.map_or(End::Again, |_| End::Ended)
    }

    /// The holder ends although it may have been told: it has something to run, or has made enough rounds. After this
    /// it offers what is left, on behalf of the workers that told it.
    pub fn give_up(&self) {
        // ORDER: Relaxed, and a read-modify-write for the fence after it.
        self.word.swap(0, Ordering::Relaxed);
        if !M::breaks(Bug::PushGivesUpBlind) {
            // As in `begin_round`.
            M::fence_recheck();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{End, PushToken, Told};
    use doorbell_machine::Host;

    #[test]
    fn the_first_teller_holds_it_and_answers_the_others() {
        let token = PushToken::<Host>::default();
        assert_eq!(token.tell(), Told::Holder);
        token.begin_round();
        assert_eq!([token.tell(), token.tell()], [Told::Noted; 2]);
        assert_eq!(token.end(), End::Again);
        token.begin_round();
        assert_eq!(token.end(), End::Ended);
        assert!(!token.is_held());
        assert_eq!(token.tell(), Told::Holder);
    }

    #[test]
    fn a_holder_may_give_up_although_it_was_told() {
        let token = PushToken::<Host>::default();
        assert_eq!(token.tell(), Told::Holder);
        token.begin_round();
        assert_eq!(token.tell(), Told::Noted);
        token.give_up();
        assert!(!token.is_held());
        assert_eq!(token.tell(), Told::Holder);
    }
}
