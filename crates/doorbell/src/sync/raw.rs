//! The lock in a [`Mutex`](super::Mutex): one of the machine on which it was made.

use doorbell_core::lock;
use doorbell_machine::Host;

#[cfg(not(feature = "sim"))]
pub(super) type RawLock = lock::RawLock<Host>;

#[cfg(not(feature = "sim"))]
pub(super) type Wait = lock::Wait<Host>;

/// The state of a future that will wait for this lock.
#[cfg(not(feature = "sim"))]
pub(super) fn wait_of(_lock: &RawLock) -> Wait {
    Wait::default()
}

#[cfg(feature = "sim")]
pub(super) use either::{RawLock, Wait, wait_of};

#[cfg(feature = "sim")]
mod either {
    use super::{Host, lock};
    use crate::here::Simulated;
    use doorbell_core::lock::TryLock;
    use doorbell_machine::sim::{self, seeds};
    use std::task::{Context, Poll};

    /// A lock of this computer or of a simulated machine.
    #[derive(Debug)]
    pub(in super::super) enum RawLock {
        Host(lock::RawLock<Host>),
        Sim(lock::RawLock<Simulated>),
    }

    /// The state of a future that waits for it.
    #[derive(Debug)]
    pub(in super::super) enum Wait {
        Host(lock::Wait<Host>),
        /// With the task that has polled it last.
        Sim(lock::Wait<Simulated>, Option<u64>),
    }

    pub(in super::super) fn wait_of(lock: &RawLock) -> Wait {
        match lock {
            RawLock::Host(_) => Wait::Host(lock::Wait::default()),
            RawLock::Sim(_) => Wait::Sim(lock::Wait::default(), None),
        }
    }

    impl Default for RawLock {
        fn default() -> Self {
            if sim::is_inside() {
                RawLock::Sim(lock::RawLock::default())
            } else {
                RawLock::Host(lock::RawLock::default())
            }
        }
    }

    impl RawLock {
        pub(in super::super) fn try_lock(&self) -> TryLock {
            match self {
                RawLock::Host(raw) => raw.try_lock(),
                RawLock::Sim(raw) => {
                    let tried = raw.try_lock();
                    if tried == TryLock::Locked {
                        seeds::taken(self.address());
                    }
                    tried
                }
            }
        }

        pub(in super::super) fn poll_lock(
            &self,
            wait: &mut Wait,
            urgency: u8,
            cx: &mut Context<'_>,
        ) -> Poll<()> {
            match (self, wait) {
                (RawLock::Host(raw), Wait::Host(wait)) => raw.poll_lock(wait, urgency, cx),
                (RawLock::Sim(raw), Wait::Sim(wait, task)) => {
                    let polled = raw.poll_lock(wait, urgency, cx);
                    match polled {
                        Poll::Ready(()) => seeds::taken(self.address()),
                        Poll::Pending => *task = seeds::waited_for(self.address()),
                    }
                    polled
                }
                _ => unreachable!("a wait is made for its lock"),
            }
        }

        pub(in super::super) fn withdraw(&self, wait: &mut Wait) {
            match (self, wait) {
                (RawLock::Host(raw), Wait::Host(wait)) => raw.withdraw(wait),
                (RawLock::Sim(raw), Wait::Sim(wait, task)) => {
                    seeds::given_up(self.address(), task.take());
                    raw.withdraw(wait);
                }
                _ => unreachable!("a wait is made for its lock"),
            }
        }

        /// # Safety
        /// The caller has the lock.
        pub(in super::super) unsafe fn unlock(&self) {
            match self {
                // SAFETY: passed on from the caller.
                RawLock::Host(raw) => unsafe { raw.unlock() },
                RawLock::Sim(raw) => {
                    seeds::let_go(self.address());
                    // SAFETY: passed on from the caller.
                    unsafe { raw.unlock() }
                }
            }
        }

        fn address(&self) -> usize {
            std::ptr::from_ref(self).addr()
        }
    }
}
