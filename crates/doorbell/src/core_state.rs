//! Taking cores off and putting them back while the runtime runs.

use crate::class_workers::{OpenError, Opened};
use crate::coop::consume_budget;
use crate::handle::Handle;
use crate::task::launch_call;
use crate::{Class, ClassKind, CoreId, error::ThreadError};
use doorbell_core::task::{Join, Once};

/// Why a core was not taken off or put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// The runtime has no core of that number.
    #[error("there is no core {core}: the runtime has cores 0 to {last}", last = .cores - 1)]
    NoSuchCore {
        /// The core asked for.
        core: CoreId,
        /// Number of cores of the runtime.
        cores: usize,
    },
    /// The core is the last one that is on.
    #[error(
        "core {core} is the last one that is on; put another one back first, or drop the runtime"
    )]
    LastOne {
        /// The core asked for.
        core: CoreId,
    },
    /// The runtime is going away or gone.
    #[error("the runtime is gone")]
    RuntimeGone,
    /// The core was taken off or put back, but the OS refused to bind its worker to other CPUs. The worker
    /// keeps the CPUs that it had.
    #[error(
        "core {core} was switched, but the OS does not let its worker move to other CPUs ({kind}); look whether the affinity mask or the cpuset of the process has become smaller"
    )]
    Bind {
        /// The core.
        core: CoreId,
        /// What the OS said.
        kind: std::io::ErrorKind,
    },
}

impl CoreError {
    fn of_bind(core: CoreId, error: &ThreadError) -> Self {
        let kind = error.kind();
        CoreError::Bind { core, kind }
    }
}

impl Handle {
    /// Takes a core off, and leaves its CPU to other programs. The core is off as soon as this returns. When
    /// the future is ready, every task that was queued there and may run elsewhere is on another core.
    /// Nothing is lost.
    ///
    /// * Tasks that may run anywhere run on the other cores.
    /// * Calls that were posted before still run. Later calls, and new tasks pinned to the core, are refused
    ///   with [`CallError::CoreOffline`](crate::CallError::CoreOffline) and
    ///   [`SpawnError::CoreOffline`](crate::SpawnError::CoreOffline). [`call_all`](crate::call_all()) leaves
    ///   the core out.
    /// * Tasks that cannot leave the core (pinned and local ones) go on, on the CPUs of the cores that are
    ///   on. As in the kernel, their pinning is broken, not the task.
    ///
    /// The future waits for the current polls of the core's workers. A poll of a Batch worker may take long.
    /// Dropping the future does not put the core back.
    ///
    /// # Errors
    /// [`CoreError::NoSuchCore`], [`CoreError::LastOne`], [`CoreError::RuntimeGone`]. With
    /// [`CoreError::Bind`] the core is off, but tasks that cannot leave it still run on its CPU.
    ///
    /// ```
    /// # #[doorbell::main(cores = 2)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let handle = doorbell::Handle::current();
    /// handle.core_offline(1).await?;
    /// assert!(!handle.core_is_online(1));
    /// assert!(doorbell::call_on(1, || ()).await.is_err());
    /// assert!(handle.core_offline(0).await.is_err(), "the last one stays");
    /// handle.core_online(1).await?;
    /// assert!(doorbell::call_on(1, || ()).await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn core_offline(
        &self,
        core: impl Into<CoreId>,
    ) -> impl Future<Output = Result<(), CoreError>> + Send + 'static {
        self.set_core(core.into(), false)
    }

    /// Puts back a core that was taken off. When the future is ready, the core runs work again, on its CPU.
    ///
    /// # Errors
    /// [`CoreError::NoSuchCore`], [`CoreError::RuntimeGone`]. With [`CoreError::Bind`] the core is on, but
    /// its worker runs on the CPUs of other cores.
    pub fn core_online(
        &self,
        core: impl Into<CoreId>,
    ) -> impl Future<Output = Result<(), CoreError>> + Send + 'static {
        self.set_core(core.into(), true)
    }

    /// Whether the core is on. `false` if the runtime does not have the core.
    pub fn core_is_online(&self, core: impl Into<CoreId>) -> bool {
        let core = core.into().index();
        core < self.cores() && self.inner().is_on(core)
    }

    /// Calls a worker of the core, which follows the new state of its core.
    fn follow(&self, core: usize, class: Class) -> Join<Result<(), ThreadError>> {
        let handle = self.clone();
        let follow = Once::new(move || handle.inner().follow_core(core));
        let followed = launch_call(self, core, class, follow);
        self.inner().rouse(core);
        followed
    }

    /// Calls all workers of the core, as [`Handle::follow`] does.
    fn follow_all(&self, core: usize) -> Vec<Join<Result<(), ThreadError>>> {
        let kinds = self.inner().opened().into_iter();
        kinds
            .map(|kind| self.follow(core, Class::any_of(kind)))
            .collect()
    }

    /// Starts the workers of a class, unless they have been started.
    ///
    /// # Errors
    /// What the OS said when it did not start one of their threads; or that the runtime has ended.
    pub(crate) fn open_workers(&self, kind: ClassKind) -> Result<(), OpenError> {
        if kind == ClassKind::Batch {
            // `Ambient::open` would start the Rt workers first, but would not tell them of cores that are
            // off.
            self.open_workers(ClassKind::Rt)?;
        }
        match self.inner().open(kind)? {
            Opened::Now => self.follow_opened(kind),
            Opened::Before => {}
        }
        Ok(())
    }

    /// Tells the workers of a class that has just been opened about the cores that are off.
    fn follow_opened(&self, kind: ClassKind) {
        for core in (0..self.cores()).filter(|core| !self.inner().is_on(*core)) {
            drop(self.follow(core, Class::any_of(kind)));
        }
    }

    /// Switches the core and posts the calls to its workers at once; the future waits for these calls.
    fn set_core(
        &self,
        core: CoreId,
        on: bool,
    ) -> impl Future<Output = Result<(), CoreError>> + Send + 'static {
        let cores = self.cores();
        let posted = if core.index() >= cores {
            Err(CoreError::NoSuchCore { core, cores })
        } else if self.inner().set_on(core.index(), on).is_none() {
            Err(CoreError::LastOne { core })
        } else {
            // The workers of other cores that are off get a new set of CPUs too. If the OS refuses, they keep
            // the old one.
            for other in (0..cores).filter(|other| *other != core.index()) {
                if !self.inner().is_on(other) {
                    drop(self.follow_all(other));
                }
            }
            // Also if nothing changed: the same change by another thread may be under way.
            Ok(self.follow_all(core.index()))
        };
        let followed = async move {
            let mut ended = Ok(());
            for follow in posted? {
                // Only the end of the worker cancels this call.
                let followed = follow.await.map_err(|_| CoreError::RuntimeGone)?;
                ended = ended.and(followed.map_err(|error| CoreError::of_bind(core, &error)));
            }
            ended
        };
        async move {
            let ended = followed.await;
            consume_budget().await;
            ended
        }
    }
}

/// The cores of the runtime that are on.
pub(crate) fn online(handle: &Handle) -> impl Iterator<Item = CoreId> {
    (0..handle.cores())
        .map(CoreId::new)
        .filter(|core| handle.core_is_online(*core))
}

#[cfg(test)]
mod tests {
    use super::CoreError;
    use crate::CoreId;
    use doorbell_machine::{Host, Machine};

    #[test]
    fn a_worker_that_cannot_be_bound_says_so() {
        // No machine has this CPU.
        let refused = Host::bind_thread(&[usize::MAX]).unwrap_err();
        let error = CoreError::of_bind(CoreId::new(3), &refused);
        let kind = std::io::ErrorKind::InvalidInput;
        assert_eq!(
            error,
            CoreError::Bind {
                core: CoreId::new(3),
                kind
            }
        );
        assert!(error.to_string().contains("core 3 was switched"), "{error}");
    }
}
