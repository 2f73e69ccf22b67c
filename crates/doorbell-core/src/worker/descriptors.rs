//! How a worker looks at its scheduler's descriptors. See README.md in the folder `io`.

use super::Worker;
use crate::io::{Driver, Keeper, Swept};
use doorbell_machine::{Machine, PollEvents};
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
    fn driver(&self) -> &Driver<M> {
        self.shared.remote().driver()
    }

    /// Whether descriptors wait, and no worker sleeps in the poller: an awake one has to look.
    pub(super) fn must_look(&self) -> bool {
        self.driver().lacks_keeper()
    }

    /// Whether the worker probably waits for a descriptor, which spinning does not see.
    pub(super) fn waits_for_descriptors(&self) -> bool {
        self.looks.after_ready.get() && self.spinning.governor().parks() && self.must_look()
    }

    /// Makes this worker the keeper, if there is none.
    pub(super) fn try_keep(&self) -> Option<Keeper<'_, M>> {
        self.driver().try_keep(self.shared.remote().worker())
    }

    /// Frees the descriptors that are gone.
    pub(super) fn free_descriptors(&self) {
        match self.driver().sweep() {
            Swept::Nothing | Swept::Freed(_) | Swept::Later => {}
        }
    }

    /// Wakes the tasks whose descriptors are ready. Returns whether any was.
    pub(super) fn look_at_descriptors(&self) -> bool {
        let look = |events: &mut _| self.local.bring(|| self.driver().look(events));
        self.looks.with_events(look) > 0
    }
}
