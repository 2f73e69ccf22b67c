//! [`Builder::around_threads`]: closures around all that a thread does for a runtime.

use crate::handle::Handle;
#[cfg(doc)]
use crate::metrics::Metrics;
use crate::rt::Rt;
use crate::{Builder, metrics::WorkerInfo};
use doorbell_core::quiet::{Quiet, drop_quietly};
use doorbell_machine::{Counter, Machine};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};

/// What a thread does for a runtime: see [`Builder::around_threads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThreadRole {
    /// It is a worker, until it ends.
    Worker(WorkerInfo),
    /// It runs closures of [`spawn_blocking`](crate::spawn_blocking()), until it ends.
    Blocking,
    /// It is inside [`block_on`](crate::Runtime::block_on).
    BlockOn,
    /// It ends the runtime, and drops what workers have left.
    Ending,
}

type Hook = dyn Fn(&ThreadRole, &mut dyn FnMut()) + Send + Sync;
type StartError = Box<dyn Error + Send + Sync>;
type Start = dyn Fn(&Handle) -> Result<Box<Hook>, StartError> + Send + Sync;

/// What makes the hooks of a runtime when it is built.
#[derive(Clone, Default)]
pub(crate) struct AroundPlan(Vec<Arc<Start>>);

impl std::fmt::Debug for AroundPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AroundPlan({})", self.0.len())
    }
}

impl AroundPlan {
    /// Whether there is nothing to start.
    #[cfg(feature = "sim")]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `None` if there are no hooks.
    pub(crate) fn start(&self, runtime: &Handle) -> Result<Option<Arc<Around>>, StartError> {
        let mut hooks = Vec::new();
        for start in &self.0 {
            hooks.push(Quiet::of(start(runtime)?));
        }
        Ok((!hooks.is_empty()).then(|| Arc::new(Around(hooks))))
    }
}

/// The hooks of one runtime, the outermost first. The owner and each thread that is inside of them keep them.
pub(crate) struct Around(Vec<Quiet<Box<Hook>>>);

impl std::fmt::Debug for Around {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Around({})", self.0.len())
    }
}

/// Runs `body`, which does not unwind, inside these hooks. Returns how many hooks have panicked.
fn nest(hooks: &[Quiet<Box<Hook>>], thread: &ThreadRole, body: &mut dyn FnMut()) -> u64 {
    let Some((first, inner)) = hooks.split_first() else {
        body();
        return 0;
    };
    let mut inside = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        first(thread, &mut || {
            if inside.is_none() {
                inside = Some(nest(inner, thread, body));
            }
        });
    }));
    // A hook that has not run it, or has panicked before, must not keep the thread from its work.
    let inside = inside.unwrap_or_else(|| nest(inner, thread, body));
    match outcome {
        Ok(()) => inside,
        Err(payload) => {
            drop_quietly(payload);
            inside + 1
        }
    }
}

impl<M: Machine> Rt<M> {
    /// Runs `body` inside the hooks for this thread; without them in a child process, where the runtime has ended.
    pub(crate) fn run_around<R>(&self, thread: ThreadRole, body: impl FnOnce() -> R) -> R {
        let around = self.around.get().filter(|_| !self.forked.is_child());
        // They are gone once the runtime has ended.
        let Some(around) = around.and_then(Weak::upgrade) else {
            return body();
        };
        let mut body = Some(body);
        let mut outcome = None;
        let panics = nest(&around.0, &thread, &mut || {
            outcome = body.take().map(|body| catch_unwind(AssertUnwindSafe(body)));
        });
        if panics > 0 {
            self.around_panics.add_shared(panics);
        }
        drop(around);
        match outcome.expect("run once, by a hook or after it") {
            Ok(output) => output,
            Err(payload) => resume_unwind(payload),
        }
    }
}

impl Builder {
    /// Runs all that a thread does for the runtime inside a hook, so that the hook can enter something before and leave
    /// it afterwards: the work of each worker up to the drop of its `worker_local!` values, the work of each thread for
    /// [`spawn_blocking`](crate::spawn_blocking()), each [`block_on`](crate::Runtime::block_on), and the drops of futures on
    /// the thread that ends the runtime. [`ThreadRole`] says which of these it is.
    ///
    /// Each [`Builder::build`] calls `start` once, before there are workers, and `start` returns the hook of that
    /// runtime. So the hook can own something that belongs to the runtime. It is dropped when the runtime has ended and
    /// no thread is inside the hook any more. `start` must start nothing in the runtime: threads that it causes, by
    /// [`Handle::open_class`](crate::Handle::open_class()) or by a blocking closure, are outside the hook.
    ///
    /// In a child process that fork(2) has made, the runtime has ended, and no thread enters the hook.
    ///
    /// The hook calls its second argument, which runs the thread's work and returns when the work is done. Panics of that
    /// work do not pass through the hook. If the hook does not call it, the runtime runs the work after the hook; a
    /// second call has no effect. There may be several hooks: the first one that was added is the outermost one. A
    /// panic of a hook is caught and counted ([`Metrics::hook_panics`]).
    ///
    /// # Errors
    /// An error of `start` makes [`Builder::build`] return [`BuildError::Around`](crate::BuildError::Around).
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// thread_local!(static INSIDE: Cell<bool> = Cell::default());
    ///
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .around_threads(|_runtime| {
    ///         Ok(|_: &doorbell::ThreadRole, work: &mut dyn FnMut()| {
    ///             INSIDE.set(true);
    ///             work();
    ///             INSIDE.set(false);
    ///         })
    ///     })
    ///     .build()?;
    /// assert!(runtime.block_on(runtime.spawn(async { INSIDE.get() }))?);
    /// assert!(runtime.block_on(async { INSIDE.get() }) && !INSIDE.get());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn around_threads<H>(
        mut self,
        start: impl Fn(&Handle) -> Result<H, StartError> + Send + Sync + 'static,
    ) -> Self
    where
        H: Fn(&ThreadRole, &mut dyn FnMut()) + Send + Sync + 'static,
    {
        let start = move |runtime: &Handle| -> Result<Box<Hook>, StartError> {
            Ok(Box::new(start(runtime)?))
        };
        self.around.0.push(Arc::new(start));
        self
    }
}
