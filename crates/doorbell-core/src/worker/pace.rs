//! How a worker keeps time between its polls: when it reads the clock, and when it makes a pass.
//!
//! | what | when | worst case |
//! |---|---|---|
//! | mailbox, inject queue, requests for a pass | between any two polls | one poll |
//! | the clock | after at most [`POLLS_PER_READING`] polls; after fewer if they are longer, so about every [`READING_NS`] | 8 long polls, if tiny ones of the same queue come before them |
//! | timers of the worker and of its sleepers, groups | at each reading of the clock | as above |
//! | descriptors: a full pass; common mailbox and stuck workers in each pass | at the first reading [`LOOK_NS`] after the last one | `LOOK_NS` and one reading |
//! | by arrival: a full pass before a deferred task | if the last one is [`SLICE_NS`] old, or the last deferred slice took [`LOOK_NS`] | one deferred poll |
//!
//! By rank and by share the worker reads the clock after each poll, because a late timer or charge would change which task
//! is next.

use super::watch::LONG_NS;
use std::cell::Cell;

/// Between two passes a busy worker runs for about this long, or for one poll if that is longer. A ready
/// descriptor waits so long; a pass costs about a microsecond.
pub(super) const LOOK_NS: u64 = 100_000;

/// A slice of the deferred queue lasts for this long, or for one poll if that is longer. The worker makes a pass before it if
/// the last one is this old. It reads the clock about every [`READING_NS`], so where only tiny deferred polls run, a ready
/// socket is seen within 30 µs.
pub(super) const SLICE_NS: u64 = 20_000;

/// The worker reads the clock about this often. Not less often: this worker also fires
/// timers of sleeping workers, which would otherwise be late.
pub(super) const READING_NS: u64 = 10_000;

/// It reads the clock after at most this many polls. With what follows, a reading costs about as much as a tiny poll.
pub(super) const POLLS_PER_READING: u64 = 8;

/// After a long poll the worker times so many polls one by one, to see which task makes long ones.
const POLLS_TIMED: u64 = 64;

/// What has passed since the clock was read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) ns: u64,
    pub(super) polls: u64,
}

/// A worker's pace. Not `Sync`.
#[derive(Debug)]
pub(super) struct Pace {
    /// When the clock was read last.
    read_ns: Cell<u64>,
    /// When the last full pass was.
    looked_ns: Cell<u64>,
    /// The next pass is a full one, whenever the last one was.
    is_asked: Cell<bool>,
    /// No poll has run since the last full pass.
    is_fresh: Cell<bool>,
    /// Polls planned between two readings; halved or doubled at each.
    every: Cell<u64>,
    /// Polls since the last reading. The next one comes when `ran` reaches `until`.
    ran: Cell<u64>,
    until: Cell<u64>,
    /// How many polls are still timed one by one.
    timed: Cell<u64>,
    /// The highest value of `every`.
    most: u64,
}

impl Pace {
    /// `most`: after how many polls at most it reads the clock.
    pub(super) fn new(most: u64) -> Self {
        Pace {
            read_ns: Cell::new(0),
            looked_ns: Cell::new(0),
            is_asked: Cell::new(false),
            is_fresh: Cell::new(false),
            every: Cell::new(1),
            ran: Cell::new(0),
            until: Cell::new(1),
            timed: Cell::new(0),
            most,
        }
    }

    /// A pass begins. Returns whether it must be a full one.
    pub(super) fn begin_pass(&self, now_ns: u64) -> bool {
        self.read_ns.set(now_ns);
        self.ran.set(0);
        self.until.set(self.every.get());
        self.takes_look(now_ns)
    }

    /// Whether it is time for a look at the descriptors. If so, the worker makes it now.
    pub(super) fn takes_look(&self, now_ns: u64) -> bool {
        let is_due = self.is_due(now_ns);
        if is_due {
            self.note_look(now_ns);
        }
        is_due
    }

    /// The worker makes a full pass now.
    pub(super) fn note_look(&self, now_ns: u64) {
        self.looked_ns.set(now_ns);
        self.is_asked.set(false);
        self.is_fresh.set(true);
    }

    /// Whether it is time for a full pass.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        self.is_asked.get() || Self::is_over(self.looked_ns.get(), now_ns, LOOK_NS)
    }

    /// Whether a deferred task, whose last slice took so long, must wait for a full pass.
    pub(super) fn is_old(&self, takes_ns: u64) -> bool {
        let old_ns = if takes_ns >= LOOK_NS { 0 } else { SLICE_NS };
        !self.is_fresh.get() && Self::is_over(self.looked_ns.get(), self.read_ns.get(), old_ns)
    }

    /// Times at least so many polls one by one, to see which of them are long.
    pub(super) fn time_polls(&self, polls: u64) {
        self.timed.set(self.timed.get().max(polls));
        self.every.set(1);
        self.until.set(self.until.get().min(self.ran.get() + 1));
    }

    /// Whether so long has passed; also if the clock has leapt back.
    pub(super) fn is_over(since_ns: u64, now_ns: u64, ns: u64) -> bool {
        now_ns
            .checked_sub(since_ns)
            .is_none_or(|passed_ns| passed_ns >= ns)
    }

    /// The next pass must be a full one.
    pub(super) fn ask(&self) {
        self.is_asked.set(true);
    }

    /// As [`Pace::ask`]; it is to come after so many polls.
    pub(super) fn ask_after(&self, polls: u64) {
        self.ask();
        let until = self.ran.get().saturating_add(polls);
        self.until.set(self.until.get().min(until));
    }

    /// The worker was idle: nothing is known of the polls that come.
    pub(super) fn note_idle(&self) {
        self.every.set(1);
    }

    /// The next reading comes after the next poll: for example after calls, which take time too.
    pub(super) fn hasten(&self) {
        self.until.set(self.ran.get() + 1);
    }

    /// Counts a poll that is over. Returns whether it is time to read the clock.
    #[inline(always)]
    pub(super) fn count(&self) -> bool {
        self.is_fresh.set(false);
        let ran = self.ran.get() + 1;
        self.ran.set(ran);
        ran >= self.until.get()
    }

    /// Notes what the clock shows. Returns what has passed since it was read before.
    pub(super) fn read(&self, now_ns: u64) -> Passed {
        let before_ns = self.read_ns.replace(now_ns);
        let every = self.every.get();
        let passed = Passed {
            ns: now_ns.saturating_sub(before_ns),
            polls: self.ran.replace(0),
        };
        if passed.ns >= LONG_NS {
            self.time_polls(POLLS_TIMED);
        }
        let timed = self.timed.get();
        self.timed.set(timed.saturating_sub(passed.polls));
        let next = match passed.ns {
            _ if timed > 0 => 1,
            // Halved or doubled: a division would cost as much as the reading.
            ns if ns > READING_NS => (every / 2).max(1),
            ns if ns <= READING_NS / 2 => (2 * every).min(self.most),
            _ => every,
        };
        self.every.set(next);
        self.until.set(next);
        passed
    }

    /// When the current poll began; `None` unless the clock is read after each poll for now. Also `None` by rank, where it
    /// always is: nothing is deferred there.
    #[inline(always)]
    pub(super) fn began_ns(&self) -> Option<u64> {
        (self.every.get() == 1 && self.most > 1).then(|| self.read_ns.get())
    }
}
