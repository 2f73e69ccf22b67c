//! What is seen of a run: the steps of the worker, and of whoever brings what comes.

use super::arrival::{NOTE_CAME, NOTE_COMES};
use doorbell_machine::sim::{Event, EventKind};

/// The worker is about to be woken, and goes back to sleep then.
pub(super) const NOTE_WAKES: u32 = NOTE_CAME + 1;

/// A step of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) event: u64,
    pub(super) time_ns: u64,
    pub(super) kind: EventKind,
}

/// What was seen of a run.
#[derive(Debug)]
pub(super) struct Seen {
    /// The worker's thread.
    thread: u32,
    events: u64,
    is_woken: bool,
    /// Of the worker, from when it is woken until something comes.
    pub(super) worker: Vec<Step>,
    /// Whoever brings what comes, while it does.
    pub(super) bringer: Option<u32>,
    has_come: bool,
    /// Its steps.
    pub(super) brought: Vec<Step>,
    /// Who was stopped.
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
        // What is no step: it cannot be stopped behind these.
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
