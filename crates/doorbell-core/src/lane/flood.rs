//! A flood: descriptors become ready so often that to be woken for each costs more than the work. See
//! README.md in this folder.

use super::Lane;
use crate::io::Station as _;
use crate::mailbox::Front;
use doorbell_machine::{Counter, Machine};
use std::cell::Cell;

/// Over how long it is counted how often descriptors become ready.
const WINDOW_NS: u64 = 2_000_000;

/// So many within that are a flood: one each 100 us.
const BEGINS_AT: u64 = 20;

/// It goes on as long as there are so many, and for so long behind them: a lane that the OS let wait
/// counts few.
const ENDS_BELOW: u64 = 8;
const LASTS_NS: u64 = 10_000_000;

/// Looks that are put off have to bring so many on average: fewer come from one or two clients that wait
/// for their answers, who would be slowed down.
const PER_LOOK: u64 = 3;

/// Where they did not for so many windows, none is put off for a while.
const VAIN_WINDOWS: u32 = 5;
const PAUSE_NS: u64 = 100_000_000;

/// Twice as long each time, up to so many times.
const PAUSE_DOUBLES: u32 = 6;

/// A lane that sleeps for no longer need not be rung for what waits at others: a sentinel may come no
/// sooner.
const NAP_MAX_NS: u64 = super::SENTINEL_MAX_NS;

/// So often the number of sleeps doubles in which whatever comes wakes the lane.
const LIGHT_DOUBLES: u32 = 4;

/// When a look is due that was brought forward: a time that is over, and no other look's.
const EARLY_NS: u64 = 1;

/// How often descriptors become ready.
#[derive(Debug)]
pub(super) struct Flood {
    /// When the window began, and since then: the events, and the looks that were put off.
    began_ns: Cell<u64>,
    events: Cell<u64>,
    looks: Cell<u64>,
    /// What those looks have brought.
    brought: Cell<u64>,
    /// When the last one came.
    event_ns: Cell<u64>,
    /// When the last one came of those that were often enough; 0 while there is no flood.
    last_ns: Cell<u64>,
    /// At whose descriptors to look next: so many places behind this lane.
    turn: Cell<usize>,
    /// Whether the lane runs before all others.
    goes_first: bool,
    /// For how long looks are put off, of such a lane; 0 of others, and if none is to be put off.
    spacing_ns: u64,
    /// Whether they are.
    puts_off: Cell<bool>,
    /// Until when the next one is, from the first sleep behind the last one on; else 0.
    due_ns: Cell<u64>,
    /// How many looks that were brought forward brought none, one after the other, up to a limit.
    early_vain: Cell<u32>,
    /// In so many sleeps whatever comes is to wake the lane, which disturbs nobody.
    light_sleeps: Cell<u32>,
    /// For how many windows they have brought few.
    vain: Cell<u32>,
    /// How often that has ended in a pause, one after the other.
    pauses: Cell<u32>,
    /// Until when they are not.
    pause_until_ns: Cell<u64>,
}

impl Flood {
    pub(super) fn new(spacing_ns: u64) -> Self {
        Flood {
            began_ns: Cell::new(0),
            events: Cell::new(0),
            looks: Cell::new(0),
            brought: Cell::new(0),
            event_ns: Cell::new(0),
            last_ns: Cell::new(0),
            turn: Cell::new(0),
            goes_first: spacing_ns > 0,
            spacing_ns,
            puts_off: Cell::new(false),
            due_ns: Cell::new(0),
            early_vain: Cell::new(0),
            light_sleeps: Cell::new(0),
            vain: Cell::new(0),
            pauses: Cell::new(0),
            pause_until_ns: Cell::new(0),
        }
    }

    /// Whether there is one.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.last_ns.get() != 0
    }

    /// Whether a sleep in which looks are put off is short.
    pub(super) fn naps_briefly(&self) -> bool {
        self.spacing_ns <= NAP_MAX_NS
    }

    /// So many descriptors were ready, or none.
    fn count(&self, events: usize, now_ns: u64) {
        let events = u64::try_from(events).unwrap_or(u64::MAX);
        let took_ns = now_ns.saturating_sub(self.began_ns.get());
        if took_ns >= WINDOW_NS {
            self.end_window(now_ns, took_ns);
            self.began_ns.set(now_ns);
            self.events.set(0);
            self.looks.set(0);
            self.brought.set(0);
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
        // A window lasts until somebody looks.
        if now_ns.saturating_sub(self.last_ns.get()) >= LASTS_NS {
            self.last_ns.set(0);
            self.vain.set(0);
        }
        if let Some(per_look) = self.brought.get().checked_div(self.looks.get()) {
            self.weigh(per_look, now_ns);
        }
        let is_paused = now_ns < self.pause_until_ns.get();
        self.puts_off
            .set(self.spacing_ns > 0 && self.is_on() && !is_paused);
    }

    /// Looks that were put off have brought so many on average.
    fn weigh(&self, per_look: u64, now_ns: u64) {
        if per_look >= PER_LOOK {
            self.vain.set(0);
            self.pauses.set(0);
            return;
        }
        self.vain.set(self.vain.get() + 1);
        if self.vain.get() == VAIN_WINDOWS {
            self.vain.set(0);
            let pauses = self.pauses.get().min(PAUSE_DOUBLES);
            self.pauses.set(pauses + 1);
            self.pause_until_ns
                .set(now_ns.saturating_add(PAUSE_NS << pauses));
        }
    }

    /// The lane is about to sleep: until when it looks at no descriptor, if looks are put off.
    #[inline]
    fn put_off(&self, now_ns: impl FnOnce() -> u64) -> Option<u64> {
        let light_sleeps = self.light_sleeps.get();
        if !self.puts_off.get() || light_sleeps > 0 {
            self.light_sleeps.set(light_sleeps.saturating_sub(1));
            self.due_ns.set(0);
            return None;
        }
        if self.due_ns.get() == 0 {
            self.due_ns.set(now_ns().saturating_add(self.spacing_ns));
        }
        Some(self.due_ns.get())
    }

    /// Whether a look that was put off is due.
    #[inline]
    fn is_due(&self, now_ns: impl FnOnce() -> u64) -> bool {
        self.due_ns.get() != 0 && self.due_ns.get() <= now_ns()
    }

    /// A look that was put off is due now, if it was not before: nobody else wants the CPU.
    pub(super) fn bring_forward(&self, now_ns: u64) {
        if now_ns < self.due_ns.get() {
            self.due_ns.set(EARLY_NS);
        }
    }

    /// Whether that is so of the look that is due.
    pub(super) fn is_brought_forward(&self) -> bool {
        self.due_ns.get() == EARLY_NS
    }

    /// A look was made early. Nobody wants the CPU: if it has brought none, one is woken for each that comes.
    fn weigh_early(&self, events: usize) {
        if events > 0 {
            self.early_vain.set(0);
            return;
        }
        let vain = self.early_vain.get();
        self.light_sleeps.set(1 << vain);
        self.early_vain.set((vain + 1).min(LIGHT_DOUBLES));
    }

    /// It was made, and has brought so many.
    fn end_look(&self, events: usize, now_ns: u64) {
        let is_early = self.is_brought_forward();
        self.due_ns.set(0);
        self.count(events, now_ns);
        if is_early {
            // It had nobody wait for its time.
            return self.weigh_early(events);
        }
        self.looks.set(self.looks.get() + 1);
        let events = u64::try_from(events).unwrap_or(u64::MAX);
        self.brought.set(self.brought.get().saturating_add(events));
    }
}

impl<M: Machine> Lane<M> {
    /// The same lane, one that runs before all others: under a flood it looks at its descriptors each so
    /// many ns, and is not woken for each. 0: it is woken for each.
    ///
    /// Contract: *a descriptor becomes ready while the lane sleeps, it runs when it is woken, its time is
    /// not used up, and no poll is long ⇒ it looks within `spacing_ns`. Looks are put off only after 2 ms
    /// in which descriptors became ready more often than each 100 us, until 10 ms after there were far
    /// fewer; where they bring fewer than 3 on average in each of 5 such windows, one after the other, not
    /// for 100 ms, and then for up to 6.4 s.* So n clients of a lane, 3 at least, who wait for each answer
    /// get n answers in that time at most, unless an usher wakes it sooner ([`Lane::run_ushered`]).
    ///
    /// Where that is at most 500 us, it is no idle lane to the others meanwhile: *a lane has two tasks or more
    /// waiting, and does not sleep ⇒ one that naps takes of them within two naps*, and not at once.
    ///
    /// Source: the moderation of interrupts by network cards.
    #[must_use]
    pub fn with_spacing(mut self, spacing_ns: u64) -> Self {
        self.flood.spacing_ns = spacing_ns;
        self.flood.goes_first |= spacing_ns > 0;
        self
    }

    /// The same lane, one that runs before all others, whatever its spacing is. The lanes of its crew do so
    /// too and wait for no CPU: under a flood it does not look at their descriptors before it sleeps.
    #[must_use]
    pub fn before_others(mut self) -> Self {
        self.flood.goes_first = true;
        self
    }

    /// So many descriptors were ready.
    pub(super) fn note_ready(&self, events: usize) {
        if events > 0 {
            self.flood.count(events, M::now_ns());
        }
    }

    /// The lane is about to sleep: until when, if it is not to be woken by its descriptors.
    pub(super) fn puts_off_until_ns(&self) -> Option<u64> {
        self.flood.put_off(M::now_ns)
    }

    /// At a pass: looks at the descriptors, if that was put off until now.
    pub(super) fn look_if_put_off(&self) {
        if self.flood.is_due(M::now_ns) {
            let tally = &self.shared.tally;
            tally.looks_put_off.add_owned(1);
            let is_early = self.flood.is_brought_forward();
            tally.looks_ushered.add_owned(u64::from(is_early));
            let found = self.look_at_own();
            self.flood.end_look(found, M::now_ns());
        }
    }

    /// Under a flood, before it sleeps: takes what is ready at one other lane, whose thread may be waiting
    /// for a CPU. Whether that brought tasks.
    pub(super) fn looks_further(&self) -> bool {
        // A lane that goes before all others does not wait for a CPU.
        let goes_first = self.flood.goes_first;
        if !self.flood.is_on() || goes_first || !self.has_others() || self.shared.clock.is_frozen()
        {
            return false;
        }
        let front = self.shared.front();
        let fronts = front.crew().fronts();
        let turn = self.flood.turn.get() % (fronts.len() - 1);
        self.flood.turn.set(turn + 1);
        let other: &Front<M> = &fronts[(front.lane() + 1 + turn) % fronts.len()];
        if !other.driver().has_sources() {
            return false;
        }
        let found = self.look_at(other);
        // Also of none: else the flood would last until there is one.
        self.flood.count(found, M::now_ns());
        let found = u64::try_from(found).unwrap_or(u64::MAX);
        self.shared.tally.ready_for_others.add_owned(found);
        found > 0 && !self.local.is_empty()
    }
}

#[cfg(test)]
impl<M: Machine> Lane<M> {
    /// The same lane in a flood from its start. If it puts off its looks for [`OVER_NS`], the flood is over
    /// with the first one.
    pub(super) fn flooded(mut self, spacing_ns: u64) -> Self {
        self.flood = Flood::new(spacing_ns);
        self.flood.last_ns.set(1);
        self.flood.puts_off.set(true);
        self
    }
}

/// After so long without an event a flood is over.
#[cfg(test)]
pub(super) const OVER_NS: u64 = 2 * LASTS_NS;

#[cfg(test)]
mod tests {
    use super::{
        BEGINS_AT, ENDS_BELOW, Flood, LASTS_NS, PAUSE_NS, PER_LOOK, VAIN_WINDOWS, WINDOW_NS,
    };

    const SPACING_NS: u64 = WINDOW_NS / 10;

    struct Stand {
        flood: Flood,
        now_ns: u64,
    }

    impl Stand {
        fn new(spacing_ns: u64) -> Self {
            let (flood, now_ns) = (Flood::new(spacing_ns), 10 * WINDOW_NS);
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

        /// A sleep without looks, if they are put off, and the look behind it. For how long it slept.
        fn look(&mut self, events: u64) -> Option<u64> {
            let from_ns = self.now_ns;
            let until_ns = self.flood.put_off(|| from_ns)?;
            assert!(!self.flood.is_due(|| until_ns - 1));
            // Rung in between, it sleeps again, to the same end.
            assert_eq!(self.flood.put_off(|| from_ns + 1), Some(until_ns));
            assert!(self.flood.is_due(|| until_ns));
            self.now_ns = until_ns;
            self.flood.end_look(events as usize, until_ns);
            assert!(!self.flood.is_due(|| u64::MAX), "it was just now");
            Some(until_ns - from_ns)
        }
    }

    #[test]
    fn a_flood_begins_at_an_event_each_100_us_and_ends_a_while_after_there_were_far_fewer() {
        let mut it = Stand::new(0);
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
        let mut it = Stand::new(0);
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

    #[test]
    fn what_wakes_the_lane_between_two_looks_does_not_speak_for_them() {
        let mut it = Stand::new(SPACING_NS);
        assert!(it.window(BEGINS_AT));
        let from_ns = it.now_ns;
        while it.look(PER_LOOK - 1).is_some() {
            it.flood.count(100, it.now_ns);
        }
        let windows = (it.now_ns - from_ns) / WINDOW_NS;
        assert!((u64::from(VAIN_WINDOWS)..=2 * u64::from(VAIN_WINDOWS)).contains(&windows));
    }

    #[test]
    fn looks_are_put_off_under_a_flood_and_only_by_a_lane_that_goes_before_others() {
        let mut it = Stand::new(SPACING_NS);
        assert!(!it.window(BEGINS_AT - 1) && it.look(1).is_none());
        assert!(it.window(BEGINS_AT));
        for _ in 0..100 {
            assert_eq!(it.look(PER_LOOK), Some(SPACING_NS));
        }
        while it.window(0) {}
        assert!(it.look(1).is_none(), "the flood is over");
        let mut ordinary = Stand::new(0);
        assert!(ordinary.window(BEGINS_AT) && ordinary.look(1).is_none());
    }

    #[test]
    fn a_look_is_made_early_and_one_that_brings_none_is_followed_by_light_sleeps() {
        let it = Stand::new(SPACING_NS);
        it.flood.puts_off.set(true);
        let early = |events| {
            assert!(it.flood.put_off(|| 10).is_some() && !it.flood.is_due(|| 11));
            it.flood.bring_forward(11);
            assert!(it.flood.is_due(|| 11) && it.flood.is_brought_forward());
            it.flood.end_look(events, 11);
            assert!(!it.flood.is_brought_forward());
            let light = (0..100).take_while(|_| it.flood.put_off(|| 12).is_none());
            let light = light.count();
            it.flood.end_look(1, 13);
            light
        };
        assert_eq!([0; 6].map(early), [1, 2, 4, 8, 16, 16]);
        assert_eq!([3, 0, 0].map(early), [0, 1, 2]);
    }

    #[test]
    fn looks_that_bring_few_are_not_put_off_for_a_while() {
        let mut it = Stand::new(SPACING_NS);
        assert!(it.window(BEGINS_AT));
        let from_ns = it.now_ns;
        while it.look(PER_LOOK - 1).is_some() {}
        let windows = (it.now_ns - from_ns) / WINDOW_NS;
        assert!((u64::from(VAIN_WINDOWS)..=2 * u64::from(VAIN_WINDOWS)).contains(&windows));
        let from_ns = it.now_ns;
        while it.window(BEGINS_AT) && it.look(0).is_none() {}
        let paused_ns = it.now_ns - from_ns;
        assert!((PAUSE_NS..=PAUSE_NS + 2 * WINDOW_NS).contains(&paused_ns));
        while it.look(PER_LOOK - 1).is_some() {}
        let from_ns = it.now_ns;
        while it.window(BEGINS_AT) && it.look(PER_LOOK).is_none() {}
        assert!(it.now_ns - from_ns >= 2 * PAUSE_NS, "twice as long");
    }
}
