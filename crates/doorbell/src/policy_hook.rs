//! [`Builder::on_policy_refused`]: a hook for workers that the OS schedules otherwise than they asked for.

use crate::{Builder, WorkerPolicy};
use doorbell_core::quiet::drop_quietly;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

type Hook = dyn Fn(&WorkerPolicy) + Send + Sync;

/// The hook, if there is one.
#[derive(Clone, Default)]
pub(crate) struct PolicyHook(Option<Arc<Hook>>);

/// How a call of the hook ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The hook has returned, or there is none.
    Well,
    /// The hook has panicked.
    Panicked,
}

impl fmt::Debug for PolicyHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyHook({})", self.0.is_some())
    }
}

impl PolicyHook {
    /// Calls the hook, and catches its panic.
    pub(crate) fn call(&self, policy: &WorkerPolicy) -> Heard {
        let Some(hook) = &self.0 else {
            return Heard::Well;
        };
        match catch_unwind(AssertUnwindSafe(|| hook(policy))) {
            Ok(()) => Heard::Well,
            Err(payload) => {
                drop_quietly(payload);
                Heard::Panicked
            }
        }
    }
}

impl Builder {
    /// Calls `hook` if the OS schedules the workers of a class otherwise than they asked for: once for each
    /// class of each runtime, with the first such worker. The hook runs on that worker, before the worker
    /// runs anything else.
    ///
    /// The `Display` of [`WorkerPolicy`] says what the worker got, why, and what to do.
    /// [`Handle::policies`](crate::Handle::policies) lists all workers. The library itself never prints.
    ///
    /// A panic of the hook is caught and counted ([`Metrics::hook_panics`](crate::Metrics::hook_panics)). A
    /// second hook replaces the first.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .on_policy_refused(|worker| eprintln!("{worker}"))
    ///     .build()?;
    /// // "Rt worker of core 0: SCHED_OTHER, slice 100 us in place of SCHED_FIFO 10 (permission denied); …"
    /// runtime.block_on(runtime.task().class(doorbell::Class::rt(50)).spawn(async {}))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// With the attribute:
    ///
    /// ```
    /// #[doorbell::main(on_policy_refused = |worker| eprintln!("{worker}"))]
    /// async fn main() {}
    /// ```
    #[must_use]
    pub fn on_policy_refused(
        mut self,
        hook: impl Fn(&WorkerPolicy) + Send + Sync + 'static,
    ) -> Self {
        self.telemetry.policy_refused = PolicyHook(Some(Arc::new(hook)));
        self
    }
}
