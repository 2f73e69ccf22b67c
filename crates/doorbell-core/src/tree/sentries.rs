//! The sentries: parked workers whose sleep ends no later than the earliest timer of all is due. Where everyone sleeps,
//! one is enough.

use doorbell_machine::{Bug, Line, Machine, Ordering, Word};

/// How many sentries the list holds. Where a worker supersedes a sentry, since it found an earlier timer, both are
/// listed: the later one is needed again when the earlier one has woken.
const LISTED_MAX: usize = 3;
const ENTRY_BITS: u32 = 16;
const ENTRY: u64 = (1 << ENTRY_BITS) - 1;
const SEQUENCE: u64 = 1 << 48;
const _: () = assert!(1 << (LISTED_MAX as u32 * ENTRY_BITS) == SEQUENCE);

/// The most workers that a list can name.
pub(super) const WORKERS_MAX: usize = ENTRY as usize;

/// Which workers are sentries.
///
/// | bits | name | meaning |
/// |---|---|---|
/// | 16 × i to 16 × i + 15, for i up to 2 | `ENTRY` | a worker's number plus one; 0 for none |
/// | 48 to 63 | `SEQUENCE` | one more with each exchange; it wraps around. A sentry that left and entered again is seen to have done so |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct List(u64);

impl List {
    /// The listed worker of each place, if there is one.
    fn entries(self) -> [Option<usize>; LISTED_MAX] {
        std::array::from_fn(|at| {
            let entry = self.0 >> (at as u32 * ENTRY_BITS) & ENTRY;
            (entry as usize).checked_sub(1)
        })
    }

    /// The next list, with another entry at that place.
    fn with(self, at: usize, worker: Option<usize>) -> List {
        let shift = at as u32 * ENTRY_BITS;
        let entry = worker.map_or(0, |worker| worker as u64 + 1);
        let next = self.0.wrapping_add(SEQUENCE);
        List(next & !(ENTRY << shift) | entry << shift)
    }
}

/// What a worker has for itself in the tree, in a line of its own.
pub(super) struct Own<M: Machine> {
    /// When its first global timer is due; `u64::MAX` for none.
    pub(super) deadline_ns: M::U64,
    /// Until when it sleeps as a sentry; `u64::MAX` if it is none. Only the worker writes this.
    pub(super) until_ns: M::U64,
}

impl<M: Machine> Own<M> {
    pub(super) fn new() -> Self {
        Own {
            deadline_ns: M::U64::new(u64::MAX),
            until_ns: M::U64::new(u64::MAX),
        }
    }
}

/// The list of the sentries of a tree.
pub(super) struct Sentries<M: Machine> {
    pub(super) list: M::Line<M::U64>,
}

/// Whether a worker became a sentry.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stood {
    /// It did.
    Yes,
    /// Another one sleeps no longer than this one would.
    Covered,
}

impl<M: Machine> Sentries<M> {
    pub(super) fn new() -> Self {
        Sentries {
            list: M::Line::new(|| M::U64::new(0)),
        }
    }

    /// Until when a listed worker sleeps, as its line says.
    fn until_ns(own: &[M::Line<Own<M>>], worker: Option<usize>) -> u64 {
        let Some(worker) = worker else {
            return u64::MAX;
        };
        // ORDER: Relaxed; behind the Acquire of the list, whose Release published it. That a sentry has woken, the
        // words of the branches publish: who finds everyone asleep has acquired all that woke and slept again.
        own[worker].until_ns.load(Ordering::Relaxed)
    }

    /// Whether a sentry sleeps no longer than until `at_ns`.
    pub(super) fn cover(&self, own: &[M::Line<Own<M>>], at_ns: u64) -> bool {
        Self::covers(self.read(), own, at_ns)
    }

    fn covers(list: List, own: &[M::Line<Own<M>>], at_ns: u64) -> bool {
        let listed = list.entries().into_iter();
        let mut until_ns = listed.map(|worker| Self::until_ns(own, worker));
        until_ns.any(|until_ns| until_ns <= at_ns)
    }

    fn read(&self) -> List {
        // ORDER: Acquire pairs with the Release of the worker that entered the list: until when it sleeps.
        List(self.list.load(Ordering::Acquire))
    }

    /// The worker becomes a sentry until `at_ns`, unless another one covers that time. It is none before.
    pub(super) fn stand(&self, own: &[M::Line<Own<M>>], worker: usize, at_ns: u64) -> Stood {
        loop {
            let list = self.read();
            if Self::covers(list, own, at_ns) {
                return Stood::Covered;
            }
            let mine = &own[worker].until_ns;
            // ORDER: Relaxed; published by the exchange. Until then no thread reads it: this worker is not listed.
            mine.store(at_ns, Ordering::Relaxed);
            // The first free place, else that of the sentry that sleeps longest.
            let entries = list.entries();
            let until_ns = |at: &usize| Self::until_ns(own, entries[*at]);
            let free = (0..LISTED_MAX).find(|at| entries[*at].is_none());
            let at = free.or_else(|| (0..LISTED_MAX).max_by_key(until_ns));
            if self.change(list, list.with(at.unwrap_or(0), Some(worker))) {
                return Stood::Yes;
            }
            // ORDER: Relaxed as above.
            mine.store(u64::MAX, Ordering::Relaxed);
        }
    }

    /// Exchanges the list, unless it has changed.
    fn change(&self, seen: List, mut next: List) -> bool {
        if M::breaks(Bug::TreeSentryNoSequence) {
            next.0 = (next.0 % SEQUENCE) | (seen.0 / SEQUENCE * SEQUENCE);
        }
        if M::breaks(Bug::TreeSentryBlind) {
            // ORDER: the mutant; two workers may both become sentries for one time.
            self.list.store(next.0, Ordering::Release);
            return true;
        }
        // ORDER: Release pairs with the Acquire of `read`: until when the entered worker sleeps. Relaxed on failure:
        // nothing is done.
        self.list
            .compare_exchange(seen.0, next.0, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// The worker is a sentry no longer: it is awake. Called by itself, before it is active.
    pub(super) fn leave(&self, own: &[M::Line<Own<M>>], worker: usize) {
        let mine = &own[worker].until_ns;
        // ORDER: Relaxed; its own.
        if mine.load(Ordering::Relaxed) == u64::MAX || M::breaks(Bug::TreeSentryStays) {
            return;
        }
        loop {
            let list = self.read();
            let entries = list.entries();
            let at = (0..LISTED_MAX).find(|at| entries[*at] == Some(worker));
            // It may have been dropped from a full list.
            if at.is_none_or(|at| self.change(list, list.with(at, None))) {
                break;
            }
        }
        // ORDER: Relaxed; published by the exchange of a branch's word with which the worker becomes active.
        mine.store(u64::MAX, Ordering::Relaxed);
    }
}
