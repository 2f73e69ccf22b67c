//! How Linux schedules the calling thread: `sched_setattr(2)` and `sched_getattr(2)`.
//!
//! Linux has slices of `SCHED_OTHER` threads since 6.12. An older kernel accepts a slice and ignores it, so
//! callers read the policy back.

use crate::{Policy, PolicyError};
use std::io;

/// The first version of the kernel's structure, which all kernels accept.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Threads that this thread starts begin under `SCHED_OTHER` with the default slice, because its urgency is
/// not meant for them. A thread without privileges cannot clear this flag.
const RESET_ON_FORK: u64 = 1;

const SIZE: u32 = 48;
const _: () = assert!(size_of::<SchedAttr>() == SIZE as usize);

const OTHER: u32 = libc::SCHED_OTHER.cast_unsigned();
const FIFO: u32 = libc::SCHED_FIFO.cast_unsigned();
const IDLE: u32 = libc::SCHED_IDLE.cast_unsigned();

impl SchedAttr {
    fn of(policy: Policy) -> Self {
        let mut attr = SchedAttr {
            size: SIZE,
            ..SchedAttr::default()
        };
        match policy {
            Policy::Fifo { priority } => {
                attr.policy = FIFO;
                attr.flags = RESET_ON_FORK;
                attr.priority = priority.into();
            }
            Policy::Other { nice, slice_ns } => {
                attr.policy = OTHER;
                attr.nice = nice.into();
                attr.runtime_ns = slice_ns.unwrap_or(0);
                if slice_ns.is_some() {
                    attr.flags = RESET_ON_FORK;
                }
            }
            Policy::Idle => attr.policy = IDLE,
        }
        attr
    }

    fn policy(&self) -> Option<Policy> {
        match self.policy {
            FIFO => Some(Policy::Fifo {
                priority: u8::try_from(self.priority).ok()?,
            }),
            OTHER => Some(Policy::Other {
                nice: i8::try_from(self.nice).ok()?,
                slice_ns: (self.runtime_ns != 0).then_some(self.runtime_ns),
            }),
            IDLE => Some(Policy::Idle),
            _ => None,
        }
    }
}

pub(super) fn set(policy: Policy) -> Result<(), PolicyError> {
    let attr = SchedAttr::of(policy);
    // SAFETY: the call reads `attr.size` bytes of `attr`, and only changes how the calling thread (0) is
    // scheduled.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if done == 0 {
        Ok(())
    } else {
        let source = io::Error::last_os_error();
        Err(PolicyError::Refused { policy, source })
    }
}

pub(super) fn get() -> Result<Policy, PolicyError> {
    let mut attr = SchedAttr::default();
    // SAFETY: the call writes at most `SIZE` bytes, the size of `attr`.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, SIZE, 0) };
    let source = if done == 0 {
        match attr.policy() {
            Some(policy) => return Ok(policy),
            None => io::ErrorKind::Unsupported.into(),
        }
    } else {
        io::Error::last_os_error()
    };
    Err(PolicyError::Unknown { source })
}

#[cfg(test)]
mod tests {
    use super::{get, set};
    use crate::{Policy, PolicyError};

    /// Runs `f` on a new thread, so that it changes only that thread's policy.
    fn apart<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
        std::thread::spawn(f).join().expect("it does not panic")
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no scheduling policies")]
    fn an_idle_thread_is_read_back_as_one() {
        let got = apart(|| {
            set(Policy::Idle)?;
            get()
        });
        assert_eq!(got.expect("no privilege is needed"), Policy::Idle);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no scheduling policies")]
    fn a_slice_is_read_back_or_not_known() {
        let (before, after) = apart(|| {
            let before = get()?;
            let Policy::Other { nice, .. } = before else {
                return Ok((before, before));
            };
            let slice_ns = Some(5_000_000);
            set(Policy::Other { nice, slice_ns })?;
            Ok::<_, PolicyError>((before, get()?))
        })
        .expect("no privilege is needed");
        let (Policy::Other { slice_ns: old, .. }, Policy::Other { slice_ns: new, .. }) =
            (before, after)
        else {
            return;
        };
        // Kernels before 6.12 ignore it.
        assert!(new == Some(5_000_000) || new == old, "{before} {after}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no scheduling policies")]
    fn fifo_is_obtained_or_refused_with_the_reason() {
        let fifo = Policy::Fifo { priority: 1 };
        match apart(move || set(fifo).and_then(|()| get())) {
            Ok(got) => assert_eq!(got, fifo),
            Err(error) => {
                assert!(matches!(error, PolicyError::Refused { .. }), "{error}");
                assert!(error.to_string().contains("SCHED_FIFO 1"), "{error}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no scheduling policies")]
    fn what_a_fifo_thread_starts_is_none() {
        let child = apart(|| {
            // Without the privilege there is nothing to test.
            set(Policy::Fifo { priority: 1 }).ok().map(|()| apart(get))
        });
        if let Some(child) = child {
            let child = child.expect("it is read");
            assert!(matches!(child, Policy::Other { .. }), "{child}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no scheduling policies")]
    fn what_a_thread_with_a_slice_starts_has_not_that_slice() {
        let (before, mine, child) = apart(|| {
            let before = get()?;
            set(before.sooner())?;
            Ok::<_, PolicyError>((before, get()?, apart(get)?))
        })
        .expect("no privilege is needed");
        // Kernels before 6.12 have no slices, and both policies are equal.
        assert!(mine == before || child != mine, "{before} {mine} {child}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no scheduling policies")]
    fn what_no_kernel_takes_is_refused() {
        let error = set(Policy::Fifo { priority: 200 }).expect_err("1 to 99");
        assert!(matches!(error, PolicyError::Refused { .. }), "{error}");
    }
}
