//! The watch: what workers do for one that is stuck in a poll. See README.md in this folder.

mod ask;
mod lapsed;
mod limits;
mod observe;
mod remedy;
mod watchdog;

pub(super) use limits::{LONG_NS, WATCHED_NS};
#[cfg(test)]
pub(super) use limits::{OVERDUE_BUSY_NS, POLLS_BETWEEN_THEFTS, SOON_NS};
#[cfg(test)]
pub(super) use observe::Observation;

use crate::scheduler::idle::Searchers;
use observe::Observed;
use std::cell::Cell;

/// What a worker knows as one that looks after others.
#[derive(Debug)]
pub(super) struct Watch {
    /// What was seen of each worker at the last look at which it was listed in the work set.
    observed: Box<[Cell<Observed>]>,
    /// The worker was claimed since it parked last, maybe to be a watchdog.
    owes_look: Cell<bool>,
    /// It is no watchdog, but sleeps until the timer of a worker in a long poll is overdue.
    looks_later: Cell<bool>,
    /// As a watchdog: the time from its last look to the next, and until when it stays one.
    interval_ns: Cell<u64>,
    stays_until_ns: Cell<u64>,
    /// The workers that were counted as searching at its last look as a watchdog, and the time of that look.
    searchers: Searchers,
    searchers_ns: Cell<u64>,
    /// When it last looked at the others while it had work of its own.
    busy_look_ns: Cell<u64>,
    /// It was idle, and has made no pass since.
    was_idle: Cell<bool>,
    /// It took a task from a worker that was stuck: from this count of its polls on it looks for the next one. 0 if not.
    next_theft: Cell<u64>,
}

impl Watch {
    /// For a scheduler with so many workers.
    pub(super) fn new(workers: usize) -> Self {
        Watch {
            observed: (0..workers).map(|_| Cell::default()).collect(),
            owes_look: Cell::new(false),
            looks_later: Cell::new(false),
            interval_ns: Cell::new(limits::SOON_NS),
            stays_until_ns: Cell::new(0),
            searchers: Searchers::new(workers),
            searchers_ns: Cell::new(0),
            busy_look_ns: Cell::new(0),
            was_idle: Cell::new(true),
            next_theft: Cell::new(0),
        }
    }

    /// Whether the scheduler has other workers.
    pub(super) fn has_others(&self) -> bool {
        self.observed.len() > 1
    }

    /// The worker was claimed.
    pub(super) fn note_claimed(&self) {
        self.owes_look.set(true);
    }

    /// The worker was idle.
    pub(super) fn note_idle(&self) {
        self.was_idle.set(true);
    }

    /// As if the last look for lapsed searches had been then.
    #[cfg(test)]
    pub(super) fn set_searchers_ns(&self, ns: u64) {
        self.searchers_ns.set(ns);
    }
}
