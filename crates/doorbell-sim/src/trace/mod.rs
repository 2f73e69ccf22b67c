//! What happened in a run, as a file that Chrome's and Perfetto's viewers show.
//!
//! A process per core and a thread in it per worker; slices for what the worker does (runs, spins, is
//! parked), instants for what it does to others, and an arrow from each post to where it ran.
//!
//! The events go out as they come: what is kept is one state per worker and what was posted and has
//! not run yet.

mod chrome;
mod machine;
#[cfg(test)]
mod tests;

pub use chrome::ChromeTrace;
pub use machine::{MachineTrace, post_note, run_note};

/// One thing that happened on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// When, by the worker's own clock. It never runs backwards on one worker.
    pub at_ns: u64,
    /// The core on which the worker is.
    pub core: u32,
    /// The worker, by a number of its own in the run.
    pub worker: u32,
    /// What it was.
    pub what: What<'a>,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// From now on the worker is in this state.
    State(State),
    /// It set NOTIFY of another worker: no syscall.
    Notify {
        /// Whose.
        of: u32,
    },
    /// It rang another worker: a syscall.
    Ring {
        /// Which.
        of: u32,
    },
    /// It posted an item.
    Post {
        /// The item, by a number that is free again once it ran.
        item: u64,
    },
    /// It ran an item that was posted.
    Run {
        /// The item.
        item: u64,
    },
    /// Anything else that is worth an instant.
    Instant {
        /// In a few words.
        name: &'a str,
    },
}

/// What a worker does, over a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has its CPU and works.
    Running,
    /// It has its CPU and spins on its line.
    Spinning,
    /// It could run, but another thread has the CPU.
    Waiting,
    /// It is blocked until a ring or a deadline.
    Parked,
    /// Its thread has ended.
    Ended,
}

impl State {
    /// Its name in the file; none where nothing is drawn.
    fn name(self) -> Option<&'static str> {
        match self {
            State::Running => Some("running"),
            State::Spinning => Some("spinning"),
            State::Waiting => Some("waiting for the CPU"),
            State::Parked => Some("parked"),
            State::Ended => None,
        }
    }
}
