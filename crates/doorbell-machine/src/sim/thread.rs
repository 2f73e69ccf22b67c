//! A simulated thread.

use super::buffer::Buffer;
use super::config::Event;
use super::lines::NOBODY;
use super::sched::Share;
use super::words::Seen;
use crate::Policy;
use crate::slots::Slots;
use corosensei::Yielder;

/// How many of its last events a thread remembers.
const LAST: usize = 16;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It could run, but does not have its CPU.
    Ready,
    /// It has its CPU.
    Runs,
    /// It has its CPU, and waits for a line to be written.
    Spins,
    /// It waits without a CPU.
    Waits(Wait),
    /// It was told to go on, and the wake is on its way.
    Wakes,
    /// It has ended.
    Ended,
}

/// What a thread without a CPU waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Parker,
    Sleep,
    Join,
    Fault,
}

impl Doing {
    /// The name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Doing::Ready => "ready",
            Doing::Runs => "runs",
            Doing::Spins => "spins",
            Doing::Waits(Wait::Parker) => "parked",
            Doing::Waits(Wait::Sleep) => "sleeps",
            Doing::Waits(Wait::Join) => "joins",
            Doing::Waits(Wait::Fault) => "descheduled",
            Doing::Wakes => "wakes",
            Doing::Ended => "ended",
        }
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Told,
    Deadline,
    Nothing,
}

/// One thread.
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) cpu: u32,
    pub(super) doing: Doing,
    /// Incremented whenever it stops waiting, so that what was scheduled to end that wait is void.
    pub(super) turn: u32,
    pub(super) why: Why,
    /// When its wait in a parker ends, by the clock of the program.
    pub(super) until_clock_ns: Option<u64>,
    /// The rest of a step in which it was interrupted.
    pub(super) left_ns: u64,
    pub(super) policy: Policy,
    pub(super) share: Share,
    /// The CPU time that it has used.
    pub(super) ran_ns: u64,
    /// By this it gives way; null until it has begun.
    pub(super) yielder: *const Yielder<(), ()>,
    pub(super) slots: Slots,
    /// How many calls of a user's code it is inside of, if those are whole ([`Config::whole_polls`](super::Config)).
    pub(super) in_user: u32,
    /// The task of the program that it polls.
    pub(super) task: Option<u64>,
    /// Ends the pool in its slot.
    pub(super) pool_end: Option<unsafe fn(*const ())>,
    /// It takes no pool any more.
    pub(super) ending: bool,
    /// The line in which the atomics lie that it makes now.
    pub(super) making: Option<u32>,
    /// It has stored since its last read-modify-write.
    pub(super) has_stored: bool,
    pub(super) buffer: Buffer,
    /// The pointer at which it looked last.
    pub(super) seen: Seen,
    /// The line on which it spins, and the next thread in the list of that line's spinners.
    pub(super) spun_on: u32,
    pub(super) next_spinner: u32,
    pub(super) joiners: Vec<u32>,
    pub(super) panicked: bool,
    last: [Option<Event>; LAST],
    count: usize,
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread")
            .field("name", &self.name)
            .field("doing", &self.doing)
            .finish_non_exhaustive()
    }
}

impl Thread {
    pub(super) fn new(name: String, cpu: u32, policy: Policy) -> Self {
        Thread {
            name,
            cpu,
            doing: Doing::Wakes,
            turn: 0,
            why: Why::Told,
            until_clock_ns: None,
            left_ns: 0,
            policy,
            share: Share::default(),
            ran_ns: 0,
            yielder: std::ptr::null(),
            seen: Seen::default(),
            slots: Slots::new(),
            in_user: 0,
            task: None,
            pool_end: None,
            ending: false,
            making: None,
            has_stored: false,
            buffer: Buffer::default(),
            spun_on: NOBODY,
            next_spinner: NOBODY,
            joiners: Vec::new(),
            panicked: false,
            last: [None; LAST],
            count: 0,
        }
    }

    #[inline]
    pub(super) fn record(&mut self, event: Event) {
        self.last[self.count % LAST] = Some(event);
        self.count += 1;
    }

    /// How many events it had.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Its last events, oldest first.
    pub(super) fn last(&self) -> Vec<Event> {
        let oldest = self.count % LAST;
        let (newer, older) = self.last.split_at(oldest);
        older.iter().chain(newer).flatten().copied().collect()
    }
}
