//! The idle set: which lanes have nothing to do, and who wakes one. See README.md in this folder.
//!
//! One bit per lane, 64 to a word, and the number of lanes that search. Beside it the set of those
//! that may have work (`work.rs`). A lane sets its own bit;
//! whoever clears it, a waker or the lane itself, is decided by one read-modify-write.

mod alert;
#[cfg(test)]
mod loom;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use alert::{Alert, Cares, STUCK_NS};
pub use work::{Seen, WorkSet};

use doorbell_machine::{Bug, Line, Machine, Mark, Ordering, Word};

/// Lanes per word.
const WORD_LANES: usize = 64;

/// How a lane left the set.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// By itself.
    ByItself,
    /// A waker had claimed it: it is counted as searching, and owes [`IdleSet::end_search`].
    Claimed,
}

/// Whether a lane may search.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// It is counted, and owes [`IdleSet::end_search`].
    Begun,
    /// Enough lanes search already.
    Enough,
}

/// What is left when a lane ends its search.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Searching {
    /// Others go on.
    Others,
    /// It was the last: posters that relied on it woke nobody.
    None,
}

/// Whether a lane became the crew's sentinel.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sentinel {
    /// It is, and owes [`IdleSet::end_sentinel`].
    Begun,
    /// Another lane is.
    Taken,
}

/// Whether a wish for a sentinel was taken back.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    /// It was: the caller looks whether there still is a reason for one.
    Yes,
    /// There was none.
    Nobody,
}

/// Values of the sentinel's word.
///
/// | value | name | meaning |
/// |---|---|---|
/// | 0 | `NOBODY` | no lane is the sentinel |
/// | 1 | `WANTED` | somebody has one task waiting and lanes asleep: the next lane that parks is to be it |
/// | 2 | `TAKEN` | a parked lane is |
mod sentinel {
    pub(super) const NOBODY: u32 = 0;
    pub(super) const WANTED: u32 = 1;
    pub(super) const TAKEN: u32 = 2;
    const _: () = assert!(NOBODY < WANTED && WANTED < TAKEN);
}

/// Which lanes of a crew are idle, and how many search for work.
pub struct IdleSet<M: Machine> {
    words: Box<[M::Line<M::U64>]>,
    searching: M::Line<M::U32>,
    searching_max: u32,
    sentinel: M::Line<M::U32>,
}

impl<M: Machine> std::fmt::Debug for IdleSet<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdleSet")
            .field("any", &self.any())
            .field("anyone_searches", &self.anyone_searches())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> IdleSet<M> {
    /// The set of a crew of so many lanes, none of which is idle.
    pub fn new(lanes: usize) -> Self {
        IdleSet {
            words: (0..lanes.div_ceil(WORD_LANES))
                .map(|_| M::Line::new(|| M::U64::new(0)))
                .collect(),
            searching: M::Line::new(|| M::U32::new(0)),
            searching_max: u32::try_from(lanes.div_ceil(2)).unwrap_or(u32::MAX),
            sentinel: M::Line::new(|| M::U32::new(sentinel::NOBODY)),
        }
    }

    fn word(&self, lane: usize) -> (&M::U64, u64) {
        (&self.words[lane / WORD_LANES], 1 << (lane % WORD_LANES))
    }

    /// The lane is idle from here on: it may be claimed. It looks for work once more after this,
    /// and relies on being woken only then.
    pub fn enter(&self, lane: usize) {
        let (word, bit) = self.word(lane);
        // ORDER: AcqRel and the fence after it: with the push of a waker and its
        // fence_recheck this is store buffering: either the waker sees the bit, or this lane
        // sees what was pushed.
        word.fetch_or(bit, Ordering::AcqRel);
        if !M::BUG.is(Bug::IdleNoAnnounceFence) {
            M::fence_announce();
        }
    }

    /// The lane has something to do.
    pub fn leave(&self, lane: usize) -> Left {
        let (word, bit) = self.word(lane);
        // ORDER: AcqRel pairs with the claimer's: of the two one finds the bit set.
        if word.fetch_and(!bit, Ordering::AcqRel) & bit == 0 {
            Left::Claimed
        } else {
            Left::ByItself
        }
    }

    /// Whether any lane is idle.
    #[inline]
    pub fn any(&self) -> bool {
        // ORDER: Relaxed; behind the poster's fence, or a hint.
        self.words
            .iter()
            .any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// A lane that is idle, from `near` on, and is not claimed: a moment later it may be busy.
    pub fn find(&self, near: usize) -> Option<usize> {
        let (at, count) = (near / WORD_LANES, self.words.len());
        (0..=count).find_map(|step| {
            let index = (at + step) % count;
            // ORDER: Relaxed; a hint.
            let bits = self.words[index].load(Ordering::Relaxed);
            // Of the first word those from `near` on come first, the others after all words.
            let ahead = u64::MAX << (near % WORD_LANES);
            let bits = match step {
                0 => bits & ahead,
                last if last == count => bits & !ahead,
                _ => bits,
            };
            let bit = bits.trailing_zeros() as usize;
            (bits != 0).then_some(index * WORD_LANES + bit)
        })
    }

    /// Whether any lane searches.
    #[inline]
    pub fn anyone_searches(&self) -> bool {
        // ORDER: Relaxed; behind the poster's fence, or a hint.
        self.searching.load(Ordering::Relaxed) != 0
    }

    /// Claims an idle lane for the caller, who wakes it: one that `prefer` holds of if there is
    /// one, else the next from `near` on. The lane is counted as searching from here on.
    pub fn claim(&self, near: usize, prefer: impl Fn(usize) -> bool) -> Option<usize> {
        while self.any() {
            // Counted before a lane is claimed, which may come to `end_search` at once.
            self.count_searching();
            if let Some(lane) = self.claim_counted(near, &prefer) {
                return Some(lane);
            }
        }
        None
    }

    /// As [`IdleSet::claim`], but only while nobody searches.
    pub fn claim_as_first(&self, near: usize, prefer: impl Fn(usize) -> bool) -> Option<usize> {
        while self.any() {
            // ORDER: AcqRel as in `count_searching`; Relaxed on failure: somebody searches, and
            // looks again after it has ended.
            self.searching
                .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)
                .ok()?;
            if let Some(lane) = self.claim_counted(near, &prefer) {
                return Some(lane);
            }
        }
        None
    }

    /// The caller has counted one search: it goes to the lane that is claimed, or is over. `None`
    /// also where a lane became idle meanwhile: others may have relied on this search and woken
    /// nobody, so the caller looks again.
    fn claim_counted(&self, near: usize, prefer: &dyn Fn(usize) -> bool) -> Option<usize> {
        let claimed = self.try_claim(near, prefer);
        let claimed = claimed.or_else(|| self.try_claim(near, &|_| true));
        if claimed.is_none() {
            M::mark(Mark::IdleClaimNobody);
            let _ = self.end_search();
            M::fence_recheck();
        }
        claimed
    }

    fn count_searching(&self) {
        // ORDER: AcqRel pairs with itself: the count has one order.
        self.searching.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether a lane that entered is still in the set: nobody has claimed it.
    pub fn holds(&self, lane: usize) -> bool {
        let (word, bit) = self.word(lane);
        // ORDER: Relaxed; behind the fence of the lane's announcement. A claim that comes after
        // this is told to the lane through its bell.
        word.load(Ordering::Relaxed) & bit != 0
    }

    fn try_claim(&self, near: usize, want: &dyn Fn(usize) -> bool) -> Option<usize> {
        let words = self.words.len();
        let (first, from) = (near / WORD_LANES, near % WORD_LANES);
        for step in 0..words {
            let at = (first + step) % words;
            // ORDER: Relaxed; the read-modify-write below decides.
            let mut seen = self.words[at].load(Ordering::Relaxed);
            while seen != 0 {
                let turned = seen.rotate_right(from as u32);
                let bit = (turned.trailing_zeros() as usize + from) % WORD_LANES;
                seen &= !(1 << bit);
                let lane = at * WORD_LANES + bit;
                if want(lane) && self.win(lane) {
                    return Some(lane);
                }
            }
        }
        None
    }

    /// Clears the lane's bit; whether it was the caller who did.
    fn win(&self, lane: usize) -> bool {
        let (word, bit) = self.word(lane);
        if M::BUG.is(Bug::IdleClaimBlind) {
            // ORDER: the mutant; two wakers may both think that they have won.
            let seen = word.load(Ordering::Acquire);
            // ORDER: the mutant's second half; Release pairs with nothing that would help.
            word.store(seen & !bit, Ordering::Release);
            return seen & bit != 0;
        }
        // ORDER: AcqRel pairs with `leave` and with other claims: one finds the bit set, and sees
        // what the lane did before it entered.
        let won = word.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        if !won {
            M::mark(Mark::IdleClaimLost);
        }
        won
    }

    /// Whether somebody has asked for a sentinel that is not there yet.
    pub fn wants_sentinel(&self) -> bool {
        // ORDER: Relaxed; who parks by an older value leaves it to the lane that was woken for it.
        self.sentinel.load(Ordering::Relaxed) == sentinel::WANTED
    }

    /// A lane that parks would be the one that looks at stuck lanes.
    pub fn begin_sentinel(&self) -> Sentinel {
        if M::BUG.is(Bug::IdleSentinelBlind) {
            // ORDER: the mutant; two lanes may both find that nobody is.
            let seen = self.sentinel.load(Ordering::Acquire);
            // ORDER: the mutant's second half; Release pairs with nothing that would help.
            self.sentinel.store(sentinel::TAKEN, Ordering::Release);
            return match seen {
                sentinel::TAKEN => Sentinel::Taken,
                _ => Sentinel::Begun,
            };
        }
        // ORDER: AcqRel pairs with itself and with `want_sentinel`: the word has one order, and of
        // two that ask one is refused.
        if self.sentinel.swap(sentinel::TAKEN, Ordering::AcqRel) == sentinel::TAKEN {
            Sentinel::Taken
        } else {
            Sentinel::Begun
        }
    }

    /// A lane that was claimed, and has something else to do, is not to be waited for as the sentinel.
    pub fn decline_sentinel(&self) -> Declined {
        if !self.wants_sentinel() {
            return Declined::Nobody;
        }
        // ORDER: AcqRel as in `begin_sentinel`; a read-modify-write, for the fence behind it. Relaxed
        // on failure: somebody is the sentinel.
        let declined = self.sentinel.compare_exchange(
            sentinel::WANTED,
            sentinel::NOBODY,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        match declined {
            Ok(_) => Declined::Yes,
            Err(_) => Declined::Nobody,
        }
    }

    /// It is awake, and no sentinel any more. Behind this it looks once more for what others left
    /// to it.
    pub fn end_sentinel(&self) {
        // ORDER: AcqRel as in `begin_sentinel`; a read-modify-write, for the fence behind it.
        self.sentinel.swap(sentinel::NOBODY, Ordering::AcqRel);
    }

    /// A lane has one task waiting, and there may be nobody who would look after it: whether the
    /// caller is the one who wakes a lane for that. Behind the push and its fence.
    #[inline]
    pub fn lacks_sentinel(&self) -> bool {
        // ORDER: Relaxed; behind the pusher's fence: a sentinel that ends sees the push.
        self.any() && self.sentinel.load(Ordering::Relaxed) == sentinel::NOBODY
    }

    /// Claims the lane that is to be the sentinel; the caller wakes it.
    pub fn want_sentinel(&self, near: usize, prefer: impl Fn(usize) -> bool) -> Option<usize> {
        // ORDER: AcqRel as in `begin_sentinel`; Relaxed on failure: there is one, or will be.
        self.sentinel
            .compare_exchange(
                sentinel::NOBODY,
                sentinel::WANTED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .ok()?;
        M::mark(Mark::IdleSentinelWanted);
        let claimed = self.claim(near, prefer);
        if claimed.is_none() {
            // All are awake. A lane that parks looks for itself.
            // ORDER: AcqRel as in `begin_sentinel`; nothing changes if one has begun meanwhile.
            let _ = self.sentinel.compare_exchange(
                sentinel::WANTED,
                sentinel::NOBODY,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
        claimed
    }

    /// A lane that found nothing of its own begins to look at others.
    pub fn begin_search(&self) -> Search {
        // ORDER: Relaxed; a limit that those who begin at once may pass together.
        if self.searching.load(Ordering::Relaxed) >= self.searching_max {
            return Search::Enough;
        }
        self.count_searching();
        Search::Begun
    }

    /// The search is over. The last one looks for work once more, behind a fence: somebody may
    /// have relied on the search and woken nobody.
    pub fn end_search(&self) -> Searching {
        // ORDER: AcqRel as in `count_searching`.
        if self.searching.fetch_sub(1, Ordering::AcqRel) == 1 {
            Searching::None
        } else {
            Searching::Others
        }
    }
}
