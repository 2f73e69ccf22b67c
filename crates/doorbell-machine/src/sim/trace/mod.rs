//! A run as a file for the viewers of Chrome and Perfetto.
//!
//! Each core is a process and each worker a thread in it. Slices show what the worker does (runs, spins, is
//! parked), instants what it does to others, and an arrow leads from each post to the run of its item.
//!
//! Events are written as they come. The writer keeps one state per worker and the posted items that have
//! not run.

mod chrome;
mod machine;
#[cfg(test)]
mod tests;

pub use chrome::ChromeTrace;
pub(super) use machine::what;
pub use machine::{MachineTrace, post_note, run_note};

/// One thing that happened on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The time by the worker's own clock. It never runs backwards on one worker.
    pub at_ns: u64,
    /// The worker's core.
    pub core: u32,
    /// The worker's number, unique in the run.
    pub worker: u32,
    /// What it was.
    pub what: What<'a>,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// From now on the worker is in this state.
    State(State),
    /// It set NOTIFY in another worker's bell: no syscall.
    Notify {
        /// The other worker.
        of: u32,
    },
    /// It rang another worker: a syscall.
    Ring {
        /// The other worker.
        of: u32,
    },
    /// It posted an item.
    Post {
        /// The item's number. It can be used again once the item ran.
        item: u64,
    },
    /// It ran an item that was posted.
    Run {
        /// The item.
        item: u64,
    },
    /// Any other event that deserves an instant.
    Instant {
        /// Its name, a few words.
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
    /// Its name in the file; `None` if it is not drawn.
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
