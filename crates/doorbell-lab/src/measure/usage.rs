//! The resource use of this process, from `getrusage`.

use std::io::Error;
use std::mem::MaybeUninit;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// What all threads of this process, running or ended, have used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Their CPU time, in user and kernel mode.
    pub(crate) cpu: Duration,
    /// How often a thread left a CPU to wait. Each time ends with a wake-up.
    pub(crate) voluntary_switches: u64,
    /// How often a thread had to leave a CPU to another thread.
    pub(crate) involuntary_switches: u64,
}

impl Usage {
    /// The use until now.
    pub(crate) fn now() -> Result<Self> {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the pointer is valid for writing one `rusage`, and the call writes nothing else.
        let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        if status != 0 {
            return Err(Error::last_os_error()).context("getrusage");
        }
        // SAFETY: the call succeeded, so it has filled the structure.
        let usage = unsafe { usage.assume_init() };
        Ok(Self {
            cpu: duration_of(usage.ru_utime) + duration_of(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        })
    }

    /// What was used since `earlier`.
    #[must_use]
    pub(crate) fn since(self, earlier: Self) -> Self {
        let voluntary = self.voluntary_switches - earlier.voluntary_switches;
        let involuntary = self.involuntary_switches - earlier.involuntary_switches;
        Self {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            voluntary_switches: voluntary,
            involuntary_switches: involuntary,
        }
    }
}

fn duration_of(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_blocking_thread_is_counted_while_it_lives() {
        let before = Usage::now().expect("getrusage works");
        let (request, requests) = mpsc::sync_channel::<()>(0);
        let (reply, replies) = mpsc::sync_channel::<()>(0);
        let callee = thread::spawn(move || {
            while requests.recv().is_ok() {
                thread::sleep(std::time::Duration::from_micros(10));
                reply.send(()).expect("the caller waits");
            }
        });
        for _ in 0..50 {
            request.send(()).expect("the callee waits");
            replies.recv().expect("the callee answers");
        }
        // Every sleep is a switch of the callee, which still runs here.
        let used = Usage::now().expect("getrusage works").since(before);
        assert!(used.voluntary_switches >= 50, "{used:?}");
        drop(request);
        callee.join().expect("the callee ends");
    }

    #[test]
    fn what_was_used_before_is_taken_off() {
        let before = Usage {
            cpu: Duration::from_millis(5),
            voluntary_switches: 3,
            involuntary_switches: 1,
        };
        let after = Usage {
            cpu: Duration::from_millis(9),
            voluntary_switches: 10,
            involuntary_switches: 1,
        };
        let used = after.since(before);
        assert_eq!(used.cpu, Duration::from_millis(4));
        assert_eq!((used.voluntary_switches, used.involuntary_switches), (7, 0));
    }
}
