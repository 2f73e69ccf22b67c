//! What is recorded of a run: the steps of the worker and of the bringer.

use super::arrival::{NOTE_CAME, NOTE_COMES};
use doorbell_machine::sim::{Event, EventKind};

/// The worker is about to be woken and to fall asleep again.
pub(super) const NOTE_WAKES: u32 = NOTE_CAME + 1;

/// A step of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) event: u64,
    pub(super) time_ns: u64,
    pub(super) kind: EventKind,
}

/// What was recorded of a run.
#[derive(Debug)]
pub(super) struct Seen {
    /// The worker's thread.
    thread: u32,
    events: u64,
    is_woken: bool,
    /// The worker's steps, from its wake until the arrival.
    pub(super) worker: Vec<Step>,
    /// The thread that brings the arrival, while it does so.
    pub(super) bringer: Option<u32>,
    has_come: bool,
    /// The bringer's steps.
    pub(super) brought: Vec<Step>,
    /// The threads that were stopped.
    pub(super) stopped: Vec<u32>,
}

impl Seen {
    pub(super) fn new(thread: u32) -> Self {
        Seen {
            thread,
            events: 0,
            is_woken: false,
            worker: Vec::new(),
            bringer: None,
            has_come: false,
            brought: Vec::new(),
            stopped: Vec::new(),
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.events += 1;
        match (event.kind, event.line) {
            (EventKind::Fault, 0) => self.stopped.push(event.thread),
            (EventKind::Note, NOTE_WAKES) => self.is_woken = true,
            (EventKind::Note, NOTE_COMES) => self.bringer = Some(event.thread),
            (EventKind::Note, NOTE_CAME) => self.has_come = true,
            _ => {}
        }
        // These events are no steps: a thread cannot be stopped after them.
        let is_step = !matches!(
            event.kind,
            EventKind::Drain
                | EventKind::Dispatch
                | EventKind::Preempt
                | EventKind::Fault
                | EventKind::Spin
                | EventKind::End
        );
        let step = Step {
            event: self.events,
            time_ns: event.time_ns,
            kind: event.kind,
        };
        if is_step && event.thread == self.thread && self.is_woken && self.bringer.is_none() {
            self.worker.push(step);
        }
        if is_step && self.bringer == Some(event.thread) && !self.has_come {
            self.brought.push(step);
        }
    }
}
