//! A flood: descriptors become ready so often that a worker which waits for a CPU probably has ready ones. Another
//! worker that is about to park takes what is ready there. See README.md in this folder.

use super::Worker;
use crate::io::Station as _;
use crate::scheduler::Member;
use doorbell_machine::{Counter, Machine};
use std::cell::Cell;

/// Events are counted over at least this long.
const WINDOW_NS: u64 = 2_000_000;

/// A flood begins at this many events per window: one per 100 µs.
const BEGINS_AT: u64 = 20;

/// A flood lasts while a window has this many events, and for a while after the last of them: a worker that had to
/// wait for a CPU counts few events.
const ENDS_BELOW: u64 = 8;
const LASTS_NS: u64 = 10_000_000;

/// How often descriptors become ready.
#[derive(Debug)]
pub(super) struct Flood {
    /// When the window began, and the events since then.
    began_ns: Cell<u64>,
    events: Cell<u64>,
    /// When the last event came.
    event_ns: Cell<u64>,
    /// When the last event of a window with enough events came; 0 while there is no flood.
    last_ns: Cell<u64>,
    /// Whose descriptors to look at next: the distance from this worker.
    turn: Cell<usize>,
    /// Whether the OS runs this worker before all other threads.
    goes_first: bool,
}

impl Flood {
    pub(super) fn new() -> Self {
        Flood {
            began_ns: Cell::new(0),
            events: Cell::new(0),
            event_ns: Cell::new(0),
            last_ns: Cell::new(0),
            turn: Cell::new(0),
            goes_first: false,
        }
    }

    /// Says that there is a flood just now.
    #[cfg(test)]
    pub(super) fn begin(&self, now_ns: u64) {
        self.last_ns.set(now_ns);
    }

    /// Whether there is a flood.
    #[inline]
    fn is_on(&self) -> bool {
        self.last_ns.get() != 0
    }

    /// Counts the descriptors that a look found ready, which may be 0.
    fn count(&self, events: usize, now_ns: u64) {
        let events = u64::try_from(events).unwrap_or(u64::MAX);
        let took_ns = now_ns.saturating_sub(self.began_ns.get());
        if took_ns >= WINDOW_NS {
            self.end_window(now_ns, took_ns);
            self.began_ns.set(now_ns);
            self.events.set(0);
        }
        if events > 0 {
            self.event_ns.set(now_ns);
            self.events.set(self.events.get().saturating_add(events));
        }
    }

    fn end_window(&self, now_ns: u64, took_ns: u64) {
        let least = if self.is_on() { ENDS_BELOW } else { BEGINS_AT };
        let had = u128::from(self.events.get()) * u128::from(WINDOW_NS);
        if had >= u128::from(least) * u128::from(took_ns) {
            self.last_ns.set(self.event_ns.get().max(1));
        }
        // A window lasts until the next call of `count`.
        if now_ns.saturating_sub(self.last_ns.get()) >= LASTS_NS {
            self.last_ns.set(0);
        }
    }
}

impl<M: Machine> Worker<M> {
    /// Marks a worker that the OS runs before all other threads. The other workers of its scheduler do not wait for a
    /// CPU either, so in a flood it does not look at their descriptors before it sleeps.
    #[must_use]
    pub fn before_others(mut self) -> Self {
        self.flood.goes_first = true;
        self
    }

    /// Notes how many descriptors were found ready.
    pub(super) fn note_ready(&self, events: usize) {
        if events > 0 {
            self.flood.count(events, M::now_ns());
        }
    }

    /// In a flood, before it sleeps: takes what is ready at one other worker, whose thread may be waiting for a CPU.
    /// Returns whether that brought tasks here.
    pub(super) fn looks_further(&self) -> bool {
        // The others run before all other threads too, and do not wait for a CPU.
        let goes_first = self.flood.goes_first;
        if !self.flood.is_on() || goes_first || !self.has_others() || self.shared.clock.is_frozen()
        {
            return false;
        }
        let remote = self.shared.remote();
        let remotes = remote.scheduler().remotes();
        let turn = self.flood.turn.get() % (remotes.len() - 1);
        self.flood.turn.set(turn + 1);
        let other: &Member<M> = &remotes[(remote.worker() + 1 + turn) % remotes.len()];
        if !other.driver().has_sources() {
            return false;
        }
        let found = self.look_at(other);
        // Also if it found none: otherwise the flood would last until an event comes.
        self.flood.count(found, M::now_ns());
        let found = u64::try_from(found).unwrap_or(u64::MAX);
        self.shared.tally.ready_for_others.add_owned(found);
        found > 0 && !self.local.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{BEGINS_AT, ENDS_BELOW, Flood, LASTS_NS, WINDOW_NS};

    struct Stand {
        flood: Flood,
        now_ns: u64,
    }

    impl Stand {
        fn new() -> Self {
            let (flood, now_ns) = (Flood::new(), 10 * WINDOW_NS);
            flood.count(0, now_ns);
            Stand { flood, now_ns }
        }

        /// A window with so many events, one at a time. Whether there is a flood behind it.
        fn window(&mut self, events: u64) -> bool {
            (0..events).for_each(|_| self.flood.count(1, self.now_ns));
            self.now_ns += WINDOW_NS;
            self.flood.count(0, self.now_ns);
            self.flood.is_on()
        }
    }

    #[test]
    fn a_flood_begins_at_an_event_each_100_us_and_ends_a_while_after_there_were_far_fewer() {
        let mut it = Stand::new();
        assert!(!it.window(BEGINS_AT - 1));
        assert!(it.window(BEGINS_AT));
        assert!((0..20).all(|_| it.window(ENDS_BELOW)));
        let few = (0..20).take_while(|_| it.window(ENDS_BELOW - 1)).count() as u64;
        // The last of those that were often enough came as the window began.
        assert_eq!(few, LASTS_NS / WINDOW_NS - 2);
        assert!(!it.window(ENDS_BELOW));
    }

    #[test]
    fn events_are_counted_by_the_time_that_they_took() {
        let mut it = Stand::new();
        it.flood.count(5 * BEGINS_AT as usize, it.now_ns);
        it.now_ns += 9 * WINDOW_NS;
        assert!(!it.window(0), "ten windows had as many as five may");
        it.flood.count(usize::MAX, it.now_ns);
        it.flood.count(usize::MAX, it.now_ns);
        assert!(it.window(0));
        it.flood.count(1, 0);
        assert!(it.flood.is_on(), "the clock has leapt back");
        it.flood.count(usize::MAX, it.now_ns);
        it.now_ns = u64::MAX - WINDOW_NS;
        assert!(!it.window(0), "a flood that was over long ago");
    }
}
