//! The workers of one class, one for each core, and how the OS schedules them.

use crate::policy_hook::PolicyHooks;
use crate::{ClassKind, CoreId};
use async_lock::OnceCell;
use doorbell_core::worker::WorkerShared;
use doorbell_machine::{
    Counter, Machine, Ordering, Parker, Policy, PolicyError, ThreadError, Word,
};
use std::fmt;
use std::io;
use std::sync::Arc;

/// Pause between two looks, where the thread cannot wait in the OS.
const LOOK_NS: u64 = 10_000;

/// Whether a class was opened by this call.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// This call started its workers.
    Now,
    /// Its workers had been started before, or there are none and will be none.
    Before,
}

/// Why the workers of a class were not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// The OS refused a thread.
    Refused(io::ErrorKind),
    /// The runtime has ended.
    RuntimeGone,
}

impl From<ThreadError> for OpenError {
    fn from(error: ThreadError) -> Self {
        OpenError::Refused(error.kind())
    }
}

/// The workers of one class.
#[derive(Debug)]
pub(crate) struct ClassWorkers<M: Machine> {
    pub(crate) kind: ClassKind,
    pub(crate) workers: Box<[Arc<WorkerShared<M>>]>,
    /// How the OS schedules each worker; empty until the worker has begun.
    pub(crate) obtained: Box<[OnceCell<Obtained>]>,
    /// Number of workers that have a thread. They are started from core 0 on.
    begun: M::U32,
    /// 1 once all workers have a thread.
    open: M::U32,
    /// 1 once a worker has called the hooks `refused`.
    told: M::U32,
    refused: PolicyHooks,
    /// Number of panics of `refused`.
    pub(crate) hook_panics: M::Counter,
}

impl<M: Machine> ClassWorkers<M> {
    pub(crate) fn new(
        kind: ClassKind,
        workers: impl Iterator<Item = Arc<WorkerShared<M>>>,
        is_open: bool,
        refused: &PolicyHooks,
    ) -> Self {
        let workers: Box<[_]> = workers.collect();
        let obtained = workers.iter().map(|_| OnceCell::new()).collect();
        ClassWorkers {
            kind,
            workers,
            obtained,
            begun: M::U32::new(0),
            open: M::U32::new(u32::from(is_open)),
            told: M::U32::new(0),
            refused: refused.clone(),
            hook_panics: M::Counter::default(),
        }
    }

    /// Whether all workers have a thread.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        // ORDER: Acquire pairs with the Release of `set_open`: the threads were started.
        self.open.load(Ordering::Acquire) != 0
    }

    pub(crate) fn set_open(&self) {
        // ORDER: Release pairs with the Acquire of `is_open`.
        self.open.store(1, Ordering::Release);
    }

    /// Number of workers that have a thread. They are started from core 0 on.
    pub(crate) fn begun(&self) -> usize {
        // ORDER: Acquire pairs with the Release of `set_begun`: the threads were started.
        self.begun.load(Ordering::Acquire) as usize
    }

    /// Callers exclude each other.
    pub(crate) fn set_begun(&self, workers: usize) {
        // ORDER: Release pairs with the Acquire of `begun`.
        self.begun.store(workers as u32, Ordering::Release);
    }

    /// The policies of all workers that have a thread. This waits for a worker that has not asked the OS yet.
    /// A worker asks first, before it calls a user's code.
    pub(crate) fn policies(&self) -> impl Iterator<Item = WorkerPolicy> {
        let begun = self.begun();
        (0..self.workers.len()).filter_map(move |core| {
            // A worker may run its hook before the thread that started it has counted it.
            if core < begun {
                self.wait_for(core);
            }
            self.policy(core)
        })
    }

    /// Waits until the worker has asked the OS.
    fn wait_for(&self, core: usize) {
        if M::OS_THREADS {
            let _ = self.obtained[core].wait_blocking();
            return;
        }
        let (word, parker) = (M::U32::new(0), M::Parker::new());
        while self.obtained[core].get().is_none() {
            let _ = parker.park(&word, 0, Some(M::now_ns() + LOOK_NS));
        }
    }

    fn policy(&self, core: usize) -> Option<WorkerPolicy> {
        let obtained = self.obtained[core].get()?;
        Some(WorkerPolicy {
            core: CoreId::new(core),
            class: self.kind,
            obtained: *obtained,
        })
    }

    /// Calls the hooks, once for the class, if this worker got less than it asked for. Fair workers ask for
    /// nothing.
    pub(crate) fn tell_if_refused(&self, core: usize) {
        let policy = self.policy(core).filter(|policy| !policy.is_as_wanted());
        let Some(policy) = policy.filter(|_| self.kind != ClassKind::Fair) else {
            return;
        };
        // ORDER: Relaxed; this only decides which worker calls the hooks, and publishes nothing.
        let told = self.told.swap(1, Ordering::Relaxed) != 0;
        if !told {
            self.hook_panics.add_shared(self.refused.call(&policy));
        }
    }
}

/// The policy that a worker asked the OS for, and the one that it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Obtained {
    wanted: Policy,
    got: Option<Policy>,
    refused: Option<io::ErrorKind>,
}

impl Obtained {
    /// The policy that the OS reported.
    pub(crate) fn got(&self) -> Option<Policy> {
        self.got
    }

    /// Whether the worker runs under `SCHED_FIFO`: before the usual threads of its CPU, for as long as it can
    /// run.
    pub(crate) fn is_fifo(&self) -> bool {
        matches!(self.got, Some(Policy::Fifo { .. }))
    }
}

/// Asks the OS to schedule the calling thread as a worker of this class, and reads back what it got.
pub(crate) fn obtain<M: Machine>(kind: ClassKind, rt_priority: u8) -> Obtained {
    let before = M::policy().ok();
    let wanted = match kind {
        ClassKind::Rt => Policy::Fifo {
            priority: rt_priority,
        },
        // A Fair worker keeps the policy with which it was started.
        ClassKind::Fair => {
            let wanted = before.unwrap_or_default();
            return Obtained {
                wanted,
                got: before,
                refused: None,
            };
        }
        ClassKind::Batch => Policy::Idle,
    };
    let refused = match M::set_policy(wanted) {
        Ok(()) => None,
        Err(PolicyError::Refused { source, .. } | PolicyError::Unknown { source }) => {
            if kind == ClassKind::Rt {
                // Second best. An error shows in the policy that is read back below.
                let _ = M::set_policy(before.unwrap_or_default().sooner());
            }
            Some(source.kind())
        }
    };
    Obtained {
        wanted,
        got: M::policy().ok(),
        refused,
    }
}

/// How the OS schedules a worker: see [`Handle::policies`](crate::Handle::policies). Its `Display` says what
/// the worker lacks, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerPolicy {
    core: CoreId,
    class: ClassKind,
    obtained: Obtained,
}

impl WorkerPolicy {
    /// The worker's core.
    pub fn core(&self) -> CoreId {
        self.core
    }

    /// The class of the tasks that the worker runs.
    pub fn class(&self) -> ClassKind {
        self.class
    }

    /// The policy that the worker asked for.
    pub fn wanted(&self) -> Policy {
        self.obtained.wanted
    }

    /// The policy that the OS reported; `None` if the OS did not report one.
    pub fn got(&self) -> Option<Policy> {
        self.obtained.got
    }

    /// Whether the worker got the policy that it asked for.
    pub fn is_as_wanted(&self) -> bool {
        self.obtained.got == Some(self.obtained.wanted)
    }
}

impl fmt::Display for WorkerPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Obtained {
            wanted,
            got,
            refused,
        } = self.obtained;
        write!(f, "{} worker of core {}: ", self.class, self.core)?;
        match got {
            Some(got) => write!(f, "{got}")?,
            None => write!(f, "not known")?,
        }
        if self.is_as_wanted() {
            return Ok(());
        }
        write!(f, " in place of {wanted}")?;
        if let Some(refused) = refused {
            write!(f, " ({refused})")?;
        }
        if self.class == ClassKind::Rt && refused.is_some() {
            write!(
                f,
                "; give the program CAP_SYS_NICE, or a limit RLIMIT_RTPRIO above 0 (ulimit -r), and look whether its control group has a real-time share"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Obtained, WorkerPolicy};
    use crate::{ClassKind, CoreId};
    use doorbell_machine::Policy;
    use std::io::ErrorKind;

    #[test]
    fn what_is_missing_is_said_with_the_remedy() {
        let wanted = Policy::Fifo { priority: 10 };
        let of = |got, refused| WorkerPolicy {
            core: CoreId::new(3),
            class: ClassKind::Rt,
            obtained: Obtained {
                wanted,
                got,
                refused,
            },
        };
        let full = of(Some(wanted), None);
        assert!(full.is_as_wanted());
        assert_eq!(full.to_string(), "Rt worker of core 3: SCHED_FIFO 10");
        let less = of(
            Some(Policy::default().sooner()),
            Some(ErrorKind::PermissionDenied),
        );
        assert!(!less.is_as_wanted());
        let said = less.to_string();
        for part in ["SCHED_OTHER, slice 100 us", "CAP_SYS_NICE", "permission"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
