//! [`Builder::on_policy_refused`]: a hook for workers that the OS schedules otherwise than they asked for.

use crate::{Builder, metrics::WorkerPolicy};
use doorbell_core::quiet::drop_quietly;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

type Hook = dyn Fn(&WorkerPolicy) + Send + Sync;

/// The hooks, in the order in which they were added.
#[derive(Clone, Default)]
pub(crate) struct PolicyHooks(Vec<Arc<Hook>>);

impl fmt::Debug for PolicyHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyHooks({})", self.0.len())
    }
}

impl PolicyHooks {
    /// Calls the hooks, and catches their panics. Returns how many have panicked.
    pub(crate) fn call(&self, policy: &WorkerPolicy) -> u64 {
        let mut panics = 0;
        for hook in &self.0 {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| hook(policy))) {
                drop_quietly(payload);
                panics += 1;
            }
        }
        panics
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
    /// A panic of the hook is caught and counted ([`Metrics::hook_panics`](crate::metrics::Metrics::hook_panics)).
    /// There may be several hooks: all are called, in the order in which they were added.
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
        self.telemetry.policy_refused.0.push(Arc::new(hook));
        self
    }
}
