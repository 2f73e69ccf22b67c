//! How the OS schedules a thread.

use std::fmt;
use std::io;

/// How the OS schedules a thread. Source: `sched(7)`; `Documentation/scheduler/sched-eevdf.rst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// `SCHED_FIFO`: runs before all threads of other policies, until it waits or a thread of higher priority
    /// can run.
    Fifo {
        /// The higher number runs first.
        priority: u8,
    },
    /// `SCHED_OTHER`: gets its share of the CPU time, in slices.
    Other {
        /// From -20, the largest share, to 19.
        nice: i8,
        /// Its slice; a thread with a shorter slice runs sooner after it wakes. `None` for the OS's default.
        slice_ns: Option<u64>,
    },
    /// `SCHED_IDLE`: gets the smallest share, and gives way to threads of other policies at once.
    Idle,
}

/// The shortest slice that Linux gives.
pub const SLICE_NS_MIN: u64 = 100_000;

impl Policy {
    /// `SCHED_OTHER` with the nice value of this policy and the shortest slice. It is the best policy for an
    /// urgent thread that may not use `SCHED_FIFO`.
    ///
    /// ```
    /// use doorbell_machine::Policy;
    ///
    /// let soon = Policy::Idle.sooner();
    /// assert_eq!(soon, Policy::Other { nice: 0, slice_ns: Some(100_000) });
    /// ```
    #[must_use]
    pub fn sooner(self) -> Policy {
        let nice = match self {
            Policy::Other { nice, .. } => nice,
            Policy::Fifo { .. } | Policy::Idle => 0,
        };
        let slice_ns = Some(SLICE_NS_MIN);
        Policy::Other { nice, slice_ns }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy::Other {
            nice: 0,
            slice_ns: None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Policy::Fifo { priority } => write!(f, "SCHED_FIFO {priority}"),
            Policy::Other { nice, slice_ns } => {
                write!(f, "SCHED_OTHER")?;
                if nice != 0 {
                    write!(f, ", nice {nice}")?;
                }
                match slice_ns {
                    Some(slice_ns) => write!(f, ", slice {} us", slice_ns / 1_000),
                    None => Ok(()),
                }
            }
            Policy::Idle => write!(f, "SCHED_IDLE"),
        }
    }
}

/// Why a thread's policy was not changed or read.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The OS refused the policy.
    #[error("the OS does not let this thread run under {policy}: {source}")]
    Refused {
        /// What was asked for.
        policy: Policy,
        /// What the OS said.
        source: io::Error,
    },
    /// The OS did not say what the policy is, or named one that [`Policy`] does not have.
    #[error("the OS does not say how it schedules this thread: {source}")]
    Unknown {
        /// What the OS said.
        source: io::Error,
    },
}
