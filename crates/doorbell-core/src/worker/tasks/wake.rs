//! Wakes: a task that is woken or cancelled is queued by the caller, where the caller may queue it.

use crate::scheduler::Scheduler;
use crate::task::TaskRef;
use crate::task::state::Wake;
use crate::task::state_delegate::For;
use crate::task::state_inheritance::Above;
use doorbell_machine::{Bug, Machine};

impl<M: Machine> TaskRef<M> {
    /// Wakes it. The caller holds a reference.
    #[inline]
    pub(crate) fn wake(self) {
        match self.scheduler_above() {
            None => {
                self.follow(self.header().state.wake(), || self.submit());
                self.rescue();
            }
            Some(scheduler) => self.delegate(scheduler, For::Poll),
        }
    }

    /// Notes that the task is to be cancelled, and has a worker do it. The caller holds a reference.
    pub(crate) fn cancel(self) {
        match self.scheduler_above() {
            None => self.follow(self.header().state.cancel(), || self.submit()),
            Some(scheduler) => self.delegate(scheduler, For::Cancel),
        }
    }

    /// Does what a wake said, the own node by `submit`. The caller holds a reference.
    #[inline]
    pub(crate) fn follow(self, woken: Wake, submit: impl FnOnce()) {
        match woken {
            Wake::Nothing => {}
            Wake::Submit => submit(),
            Wake::Raise { submit: submits } => {
                if !M::breaks(Bug::TaskRaiseForgotten) {
                    let _ = self.raise(Above::default());
                }
                if submits {
                    submit();
                }
            }
        }
    }

    /// Raises a rescuable task, which was woken or spawned just now, to the worker that the caller is, if that
    /// rescues. The caller holds a reference.
    #[inline]
    pub(crate) fn rescue(self) {
        if self.header().is_rescuable() {
            let _ = self.rescue_now();
        }
    }

    /// The scheduler that would run it, if the calling thread is below that: its own, or the highest from
    /// where it is awaited.
    #[inline]
    pub(crate) fn scheduler_above(&self) -> Option<&Scheduler<M>> {
        let scheduler = if self.header().has_raised_node() {
            self.scheduler_at(self.header().state.awaited_from())
        } else {
            self.last().scheduler()
        };
        scheduler.is_above_caller().then_some(scheduler)
    }
}
