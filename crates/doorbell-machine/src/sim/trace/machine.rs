//! Converts events of the simulated machine to those of a trace.

use std::io::{self, Write};

use crate::sim::{self, EventKind};

use super::{ChromeTrace, Event, State, What};

/// A trace of a run of the simulated machine, whose sink passes on every event.
///
/// Memory accesses are left out: most events are accesses, and their effects show in other events.
#[derive(Debug)]
pub struct MachineTrace<W> {
    chrome: ChromeTrace<W>,
}

impl<W: Write> MachineTrace<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// An error of `out`.
    pub fn begin(out: W) -> io::Result<Self> {
        let chrome = ChromeTrace::begin(out)?;
        Ok(Self { chrome })
    }

    /// Writes an event that the trace shows.
    ///
    /// # Errors
    /// An error of the file.
    pub fn record(&mut self, event: &sim::Event) -> io::Result<()> {
        let Some(what) = what(event) else {
            return Ok(());
        };
        self.chrome.event(&Event {
            at_ns: event.time_ns,
            core: event.cpu,
            worker: event.thread,
            what,
        })
    }

    /// Writes a span of a thread, such as the poll of a task: on which CPU and thread, from when to when, and what.
    ///
    /// # Errors
    /// An error of the file.
    pub fn span(&mut self, at: (u32, u32), times_ns: (u64, u64), name: &str) -> io::Result<()> {
        self.chrome.span(at, times_ns, name)
    }

    /// Marks the moment at which a run failed.
    ///
    /// # Errors
    /// An error of the file.
    pub fn mark(&mut self, at_ns: u64, name: &str) -> io::Result<()> {
        self.chrome.mark(at_ns, name)
    }

    /// Names the threads (their names are known at the end of the run) and ends the file.
    ///
    /// # Errors
    /// An error of the file.
    pub fn finish(mut self, threads: &[sim::ThreadReport]) -> io::Result<W> {
        for (number, thread) in threads.iter().enumerate() {
            let (core, worker) = (thread.cpu as u32, number as u32);
            self.chrome.name_worker(core, worker, &thread.name)?;
            let spans = format!("{}: polls", thread.name);
            self.chrome.name_spans(core, worker, &spans)?;
        }
        self.chrome.finish()
    }
}

/// The note by which a program records that it posted an item, for [`sim::note`].
#[must_use]
pub fn post_note(item: u32) -> u32 {
    item << 1
}

/// The note that the item runs.
#[must_use]
pub fn run_note(item: u32) -> u32 {
    item << 1 | 1
}

pub(in crate::sim) fn what(event: &sim::Event) -> Option<What<'static>> {
    let item = u64::from(event.line >> 1);
    Some(match event.kind {
        EventKind::Dispatch | EventKind::SpinEnd => What::State(State::Running),
        EventKind::Spin => What::State(State::Spinning),
        EventKind::Preempt => What::State(State::Waiting),
        EventKind::Park | EventKind::Sleep | EventKind::Join => What::State(State::Parked),
        EventKind::End => What::State(State::Ended),
        EventKind::Ring if event.line == u32::MAX => What::Instant {
            name: "ring: no thread sleeps",
        },
        EventKind::Ring => What::Ring { of: event.line },
        EventKind::Note if event.line == post_note(event.line >> 1) => What::Post { item },
        EventKind::Note => What::Run { item },
        EventKind::Unpark => What::Instant {
            name: match event.line {
                0 => "woken by a ring",
                1 => "woken by its deadline",
                3 => "woken by descriptors",
                _ => "woken for no reason",
            },
        },
        EventKind::Fault => What::Instant {
            name: match event.line {
                0 => "fault: taken off its CPU",
                1 => "fault: the clock jumps",
                2 => "fault: a late wake",
                3 => "fault: a spurious wake",
                _ => "fault: a CPU takes no interrupts",
            },
        },
        EventKind::Start | EventKind::Policy | EventKind::Ready => What::Instant {
            name: event.kind.name(),
        },
        EventKind::Load
        | EventKind::Store
        | EventKind::Rmw
        | EventKind::Drain
        | EventKind::Fence
        | EventKind::Read
        | EventKind::Write
        | EventKind::Clock
        | EventKind::Relax
        | EventKind::Syscall
        | EventKind::Work => return None,
    })
}
