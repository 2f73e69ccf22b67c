//! The thread of the watchdog, which looks after lanes that are stuck in long polls.
//!
//! It stands beside the sentinels of the lanes until a decision says which of the two stays. Until then a runtime has it only if
//! the environment variable `DOORBELL_WATCHDOG` is set: for measurements of both by one program.

use crate::rt::{AbortOnUnwind, Rt};
use doorbell_core::crew::FrontRef;
use doorbell_core::watchdog::{Watch, Watchdog};
use doorbell_machine::{Machine, Policy, ThreadError, ThreadSpec};
use std::sync::Arc;

/// Set: the runtime has a watchdog.
const VARIABLE: &str = "DOORBELL_WATCHDOG";

/// The highest priority of the OS.
const PRIORITY_MAX: u8 = 99;

/// A watchdog for the crews of a runtime with so many cores, if it is to have one. With a paused clock lanes look after
/// each other: a thread of which the clock knows nothing is to wake none.
pub(crate) fn planned<M: Machine>(cores: usize, paused: bool) -> Option<Arc<Watchdog<M>>> {
    let is_wanted = cores > 1 && !paused && std::env::var_os(VARIABLE).is_some();
    is_wanted.then(Arc::default)
}

impl<M: Machine> Rt<M> {
    /// Starts the thread of the watchdog, if there is one. It is bound to no CPU: that of a stuck lane is as good as any.
    pub(crate) fn start_watchdog(&self) -> Option<Result<M::Thread, ThreadError>> {
        let dog = Arc::clone(self.watchdog.as_ref()?);
        let clock = Arc::clone(&self.clock);
        let lanes = self.classes.iter().map(|class| class.lanes[0].front());
        let lanes: Vec<FrontRef<M>> = lanes.cloned().collect();
        let priority = self.urgent.priority.saturating_add(1).min(PRIORITY_MAX);
        let spec = ThreadSpec {
            name: format!("{}-watchdog", self.name),
            cpu: None,
            stack_size: self.stack_size,
        };
        let body = move || {
            go_first::<M>(priority);
            let abort = AbortOnUnwind;
            Watch::new(&dog, &clock, lanes).run();
            std::mem::forget(abort);
        };
        Some(M::spawn(spec, Box::new(body)))
    }
}

/// Has the OS schedule the calling thread before the lanes that it looks after, as well as it lets.
fn go_first<M: Machine>(priority: u8) {
    let before = M::policy().unwrap_or_default();
    if M::set_policy(Policy::Fifo { priority }).is_err() {
        // The second best; without it the thread comes in its turn.
        let _ = M::set_policy(before.sooner());
    }
}
