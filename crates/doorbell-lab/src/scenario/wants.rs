//! What threads request of the OS's scheduler.

use doorbell_machine::{Host, Machine, Policy};

/// The default of urgent workers.
const PRIORITY: u8 = 10;
/// Above that of every contestant, so that the waker's own delay is not measured.
const WAKER_PRIORITY: u8 = 20;
/// The longest slice that Linux grants.
const LONG_SLICE_NS: u64 = 20_000_000;
/// Far less than a full share.
const LOW_NICE: i8 = 10;

/// A thread's request to the OS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// No request.
    AsIs,
    /// To run before all ordinary threads.
    First,
    /// To run even before those.
    Waker,
    /// To run before all ordinary threads, at this real-time priority.
    Priority(u8),
    /// To run soon, by the shortest slice.
    Sooner,
    /// To run for long, by a long slice.
    Longer,
    /// A small share.
    Nice,
    /// To run only on an otherwise idle CPU.
    Idle,
}

impl Want {
    /// The policy for a thread that is scheduled like the calling one.
    fn policy(self) -> Policy {
        let now = Host::policy().unwrap_or_default();
        match (self, now) {
            (Want::First, _) => Policy::Fifo { priority: PRIORITY },
            (Want::Waker, _) => Policy::Fifo {
                priority: WAKER_PRIORITY,
            },
            (Want::Priority(priority), _) => Policy::Fifo { priority },
            (Want::Sooner, _) => now.sooner(),
            (Want::Longer, Policy::Other { nice, .. }) => Policy::Other {
                nice,
                slice_ns: Some(LONG_SLICE_NS),
            },
            (Want::Nice, Policy::Other { slice_ns, .. }) => Policy::Other {
                nice: LOW_NICE,
                slice_ns,
            },
            (Want::Idle, _) => Policy::Idle,
            (Want::AsIs | Want::Longer | Want::Nice, _) => now,
        }
    }

    /// Requests it for the calling thread. If real-time priority is refused, it requests the shortest slice
    /// instead.
    pub(super) fn ask(self) {
        let refused = self != Want::AsIs && Host::set_policy(self.policy()).is_err();
        if refused && matches!(self, Want::First | Want::Waker | Want::Priority(_)) {
            Want::Sooner.ask();
        }
    }

    /// Whether a thread of this program gets it: an old kernel accepts a slice but ignores it.
    pub(super) fn is_given(self) -> bool {
        let tried = std::thread::spawn(move || {
            let wanted = self.policy();
            let _ = Host::set_policy(wanted);
            Host::policy().is_ok_and(|got| got == wanted)
        });
        tried.join().unwrap_or(false)
    }
}

/// A note for the reader if urgent workers get no real-time priority.
pub(super) fn refused() -> Option<String> {
    (!Want::First.is_given()).then(|| {
        "SCHED_FIFO is refused, so urgent workers have a slice of 100 us instead; `doorbell info` says why \
         and what to do"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_no_privilege_is_given() {
        for want in [Want::AsIs, Want::Nice, Want::Idle] {
            assert!(want.is_given(), "{want:?}");
        }
    }

    #[test]
    fn who_may_not_go_first_goes_sooner() {
        let got = std::thread::spawn(|| {
            Want::First.ask();
            Host::policy().expect("it is read")
        });
        let got = got.join().expect("it does not panic");
        let first = Policy::Fifo { priority: PRIORITY };
        let given = Want::First.is_given();
        assert_eq!(got == first, given, "{got}");
    }
}
