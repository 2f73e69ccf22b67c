//! How a worker looks at the descriptors of its own tasks, or of another worker. See README.md in the folder `io`.

use super::Worker;
use crate::io::{Driver, Station as _, Swept};
use crate::scheduler::Member;
use doorbell_machine::{Machine, Parker as _, PollEvents, Poller as _};
use std::cell::{Cell, RefCell};

/// State of a worker's looks at descriptors.
#[derive(Debug)]
pub(super) struct Looks {
    /// Buffer for ready events, from the first look on.
    events: RefCell<Option<PollEvents>>,
    /// A descriptor ended the last park, and nothing was posted since.
    after_ready: Cell<bool>,
}

impl Looks {
    pub(super) fn new() -> Self {
        Looks {
            events: RefCell::new(None),
            after_ready: Cell::new(false),
        }
    }

    /// Notes that a descriptor ended a park, or that something was posted since.
    pub(super) fn set_after_ready(&self, after_ready: bool) {
        self.after_ready.set(after_ready);
    }

    /// Calls `f` with the buffer for events. It is not borrowed meanwhile: `f` runs wakers, which are foreign code.
    pub(super) fn with_events<R>(&self, f: impl FnOnce(&mut PollEvents) -> R) -> R {
        let mut events = self.events.take().unwrap_or_default();
        let result = f(&mut events);
        self.events.replace(Some(events));
        result
    }
}

impl<M: Machine> Worker<M> {
    /// Whether its tasks have descriptors.
    pub(super) fn has_sources(&self) -> bool {
        self.shared.remote().driver().has_sources()
    }

    /// Whether the worker probably waits for a descriptor, which spinning does not see.
    pub(super) fn waits_for_descriptors(&self) -> bool {
        self.looks.after_ready.get() && self.spinning.governor().parks() && self.has_sources()
    }

    /// Frees the descriptors that are gone.
    pub(super) fn free_descriptors(&self) {
        let remote = self.shared.remote();
        if remote.parker().poller().is_none() {
            return;
        }
        // SAFETY: this is the worker's own thread.
        match unsafe { remote.driver().sweep() } {
            Swept::Nothing | Swept::Freed(_) | Swept::Later => {}
        }
    }

    /// Wakes the tasks whose descriptors are ready. Returns whether any was.
    pub(super) fn look_at_descriptors(&self) -> bool {
        self.look_at(self.shared.remote()) > 0
    }

    pub(super) fn look_at(&self, remote: &Member<M>) -> usize {
        let look = |events: &mut _| self.local.bring(|| Driver::look(remote, events));
        self.looks.with_events(look)
    }

    /// The worker ends: no event will come.
    pub(super) fn shut_descriptors(&self) {
        // SAFETY: this is the worker's own thread.
        unsafe { self.shared.remote().driver().shut() };
    }

    /// The worker will not park again: returns the poller to the OS now, since a handle or a waker may keep the
    /// worker's remote half for ever.
    pub(super) fn close_poller(&self) {
        if let Some(poller) = self.shared.remote().parker().poller() {
            poller.close();
        }
    }
}
