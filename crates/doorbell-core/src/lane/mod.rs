//! The loop of a lane: take, run, pass, watch, park. See README.md in this folder.

mod counts;
#[cfg(test)]
mod loom;
#[cfg(test)]
mod tests;

pub use counts::{LaneCounts, LaneTally};

use crate::bell::{Announced, LaneState};
use crate::mailbox::{Front, Served};
use crate::switches::SwitchWord;
use crate::task::Local;
use crate::wheel::Clock;
use doorbell_machine::{Bug, Counter, Line, Machine, Ordering, ParkEnd, Watched, Word};
use std::cell::Cell;
use std::sync::Arc;

/// How many tasks run at most between two passes.
const POLLS_PER_PASS: usize = 64;

/// How many tasks run at most between two looks at the clock, if there are timers.
const POLLS_PER_CLOCK: usize = 8;

/// A lane that is kept watching by calls makes a pass when this much time has gone by, looked
/// at every [`TAKES_PER_CLOCK`] takes, so that what only a pass does (balancing) is still done.
const PASS_INTERVAL_NS: u64 = 1_000_000;

/// How many times a watching lane serves calls before it reads the clock for that.
const TAKES_PER_CLOCK: u32 = 64;

/// A watching lane that took nothing but calls that nobody waits for, twice in a row and fewer
/// than this, lets more of them come before it looks again: about half a microsecond.
const FLOOD_TAKE: u64 = 64;
const FLOOD_PAUSE: u32 = 32;

/// A watching lane that is posted nothing for so long returns the parcels that it holds.
const HOLD_NS: u64 = 20_000;

/// What is fixed when a lane is made.
#[derive(Clone, Copy, Debug)]
pub struct LaneConfig {
    /// How long an idle lane watches its bell before it parks.
    pub watch_ns: u64,
}

/// The part of a lane that others reach: posters by the front, people by the counts.
pub struct LaneShared<M: Machine> {
    front: Arc<Front<M>>,
    tally: M::Line<LaneTally<M::Counter>>,
    closing: M::U32,
    taken: M::U32,
    config: LaneConfig,
    clock: Arc<Clock<M>>,
}

impl<M: Machine> std::fmt::Debug for LaneShared<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneShared")
            .field("front", &self.front)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> LaneShared<M> {
    /// A lane that no thread runs yet; posts wait in its mailbox.
    pub fn new(config: LaneConfig, switches: Arc<SwitchWord<M::Counter>>) -> Self {
        Self::with_clock(config, switches, Arc::new(Clock::default()))
    }

    /// A lane whose timers go by that clock.
    pub fn with_clock(
        config: LaneConfig,
        switches: Arc<SwitchWord<M::Counter>>,
        clock: Arc<Clock<M>>,
    ) -> Self {
        LaneShared {
            clock,
            front: Arc::new(Front::new(switches)),
            tally: M::Line::new(LaneTally::default),
            closing: M::U32::new(0),
            taken: M::U32::new(0),
            config,
        }
    }

    /// Where to post.
    #[inline]
    pub fn front(&self) -> &Arc<Front<M>> {
        &self.front
    }

    /// What the lane does now.
    pub fn state(&self) -> LaneState {
        self.front.state()
    }

    /// All counts of this lane, also those that its posters keep.
    pub fn counts(&self) -> LaneCounts {
        LaneCounts::of(&self.tally, self.front.counts())
    }

    /// Asks the lane to end. It does after the current poll.
    pub fn close(&self) {
        // ORDER: Release, and the read-modify-write of the bell behind it: a lane that sees
        // the request for a pass sees this.
        self.closing.store(1, Ordering::Release);
        self.front.request_pass();
    }

    fn is_closing(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `close`.
        self.closing.load(Ordering::Acquire) != 0
    }
}

/// Evidence that a pass found nothing to run: only with it a lane may idle.
#[derive(Debug)]
struct NothingRunnable(());

enum Pass {
    Work,
    Nothing(NothingRunnable),
    Closing,
}

/// How watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEnd {
    /// There is something to do beyond calls, or a pass is due.
    Busy,
    /// The time was over.
    Quiet,
}

/// A lane on its own thread.
#[derive(Debug)]
pub struct Lane<M: Machine> {
    shared: Arc<LaneShared<M>>,
    local: Local<M>,
    /// A timer ended the last park, and nothing was posted since: watching would burn CPU for
    /// posts that do not come.
    after_deadline: Cell<bool>,
}

impl<M: Machine> Lane<M> {
    /// The lane behind `shared`, to be run by the thread that makes it.
    ///
    /// # Panics
    /// If there is one already: a mailbox has one taker.
    pub fn new(shared: Arc<LaneShared<M>>) -> Self {
        // ORDER: Relaxed; a read-modify-write, so of two that ask one is refused.
        let taken = shared.taken.swap(1, Ordering::Relaxed);
        assert!(taken == 0, "a lane was made twice");
        let local = Local::with_clock(Arc::clone(shared.front()), Arc::clone(&shared.clock));
        Lane {
            shared,
            local,
            after_deadline: Cell::new(false),
        }
    }

    /// Runs until asked to close; then ends every task that is left.
    pub fn run(self) {
        self.local.enter(|| {
            self.cycle();
            self.local.close();
        });
    }

    fn cycle(&self) {
        loop {
            match self.pass() {
                Pass::Work => self.run_ready(),
                Pass::Nothing(evidence) => self.idle(evidence),
                Pass::Closing => return,
            }
        }
    }

    /// Takes the mailbox: calls run at once, tasks join the ready queue.
    #[inline]
    fn take(&self) -> Served {
        // SAFETY: this is the lane's own thread and ready queue.
        let served = unsafe { self.shared.front().serve(self.local.ready()) };
        if served.delivered > 0 {
            self.shared.tally.takes.add_owned(1);
            self.shared.tally.delivered.add_owned(served.delivered);
            self.after_deadline.set(false);
        }
        served
    }

    /// Runs ready tasks, at most so many that a pass is due; what is posted meanwhile is taken
    /// between two polls.
    fn run_ready(&self) {
        for poll in 1..=POLLS_PER_PASS {
            if !self.local.run_one() {
                return;
            }
            if poll % POLLS_PER_CLOCK == 0 {
                self.expire();
            }
            self.shared.tally.polls.add_owned(1);
            if self.shared.front().pending() && self.take().signals.pass {
                return;
            }
        }
    }

    /// Fires the timers that are due.
    #[inline]
    fn expire(&self) {
        let fired = self.local.expire();
        if fired > 0 {
            self.shared.tally.timers_fired.add_owned(fired);
        }
    }

    /// Looks at everything there is to look at.
    fn pass(&self) -> Pass {
        self.shared.tally.passes.add_owned(1);
        let early = M::BUG.is(Bug::BellClearAfterTake);
        let early = early.then(|| self.shared.is_closing());
        // This clears the signals, so all that they announce is looked at after it: what comes
        // later finds them clear, and the bell will not let the lane idle.
        let served = self.take();
        if early.unwrap_or_else(|| self.shared.is_closing()) {
            return Pass::Closing;
        }
        self.expire();
        // Calls that were taken have run: the lane may watch for the next ones. With the switch
        // that makes every call cost a pass, one that came just now is followed by another.
        let call_costs_pass = served.delivered > 0 && self.shared.front().kick_passes();
        if self.local.ready().is_empty() && !call_costs_pass {
            Pass::Nothing(NothingRunnable(()))
        } else {
            Pass::Work
        }
    }

    /// Watches, then parks, until there is something to do.
    fn idle(&self, _evidence: NothingRunnable) {
        let front = self.shared.front();
        self.local.ready().returns().flush();
        match front.bell().announce_watch() {
            // The loop takes the mailbox and clears the signal.
            Announced::Signalled => return,
            Announced::Yes => {}
        }
        // A post that saw the lane running relies on the watch's first look, or on the park's
        // last one; a call that came just now is served here, without another pass.
        if self.watch() == WatchEnd::Quiet {
            self.park();
        }
        let _ = front.bell().end_idle();
    }

    /// Serves calls without a pass for as long as they keep coming.
    fn watch(&self) -> WatchEnd {
        let (shared, tally) = (&*self.shared, &self.shared.tally);
        let front = shared.front();
        let watch_ns = shared.config.watch_ns;
        if watch_ns == 0 || self.after_deadline.get() {
            return WatchEnd::Quiet;
        }
        tally.watches.add_owned(1);
        let started_ns = M::now_ns();
        // A timer that is due sooner ends the watch: the park goes on with an exact deadline.
        let due_ns = self.local.due_ns();
        let watch_ns = match due_ns {
            Some(due_ns) => watch_ns.min(due_ns.saturating_sub(shared.clock.now_ns())),
            None => watch_ns,
        };
        let mut served_count = 0_u32;
        let returns = self.local.ready().returns();
        let mut in_flood = false;
        loop {
            let hold_ns = if returns.holds() { HOLD_NS } else { u64::MAX };
            match front.watch(watch_ns.min(hold_ns)) {
                Watched::Deadline if watch_ns > hold_ns => {
                    returns.flush();
                    continue;
                }
                Watched::Deadline => return WatchEnd::Quiet,
                Watched::Changed => tally.notified.add_owned(1),
            }
            // What asked for a pass gets one: the mailbox is taken there.
            if front.bell().wants_pass() {
                return WatchEnd::Busy;
            }
            let served = self.take();
            // The request may have come since, and is cleared now.
            if served.signals.pass || !self.local.ready().is_empty() {
                return WatchEnd::Busy;
            }
            // A timer came by mail or from a call, or one is due although calls keep coming.
            if self.local.due_ns() != due_ns || self.local.is_due() {
                return WatchEnd::Busy;
            }
            // A look takes the line from those who post. Where nobody waits, look less often.
            let only_posts = served.delivered > 0 && returns.take_fresh() == served.delivered;
            if only_posts && in_flood && served.delivered < FLOOD_TAKE {
                (0..FLOOD_PAUSE).for_each(|_| M::relax());
            }
            in_flood = only_posts;
            served_count += 1;
            if served_count.is_multiple_of(TAKES_PER_CLOCK)
                && M::now_ns().saturating_sub(started_ns) >= PASS_INTERVAL_NS
            {
                return WatchEnd::Busy;
            }
        }
    }

    /// From watching to parked and back.
    fn park(&self) {
        let (front, tally) = (self.shared.front(), &self.shared.tally);
        self.local.ready().returns().flush();
        match front.bell().announce_park() {
            Announced::Signalled => return,
            Announced::Yes => {}
        }
        // A post that saw the lane watching or running relies on this look.
        if !front.mailbox_is_empty() {
            tally.parks_avoided.add_owned(1);
            return;
        }
        // Armed for now by a waker, after the last look: a frozen clock would not end the sleep.
        if self.local.is_due() {
            return;
        }
        tally.parks.add_owned(1);
        // A frozen clock does not run on while the thread sleeps.
        let until_ns = self
            .local
            .due_ns()
            .filter(|_| !self.shared.clock.is_frozen());
        match front.bell().park(front.seat(), until_ns) {
            ParkEnd::Rung => tally.unparks_rung.add_owned(1),
            // Told between the announcement and the OS's own last test.
            ParkEnd::Changed => tally.unparks_last_test.add_owned(1),
            ParkEnd::Deadline => {
                tally.unparks_deadline.add_owned(1);
                self.after_deadline.set(true);
            }
            ParkEnd::Spurious => {}
        }
    }
}
