//! The times between which a timer may fire.

use std::time::Duration;

/// The times between which a timer may fire. The first look at the wheel from `from_ns` on finds it due. If nothing
/// else causes such a look, a worker wakes for it at `latest_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The timer's deadline. It never fires before.
    pub from_ns: u64,
    /// When a worker wakes for the timer, not before `from_ns`; `u64::MAX` if none does.
    pub latest_ns: u64,
}

impl Window {
    /// Of no timer.
    pub(crate) const NEVER: Window = Window::at(u64::MAX);

    /// Without slack.
    #[inline]
    pub const fn at(when_ns: u64) -> Self {
        Window {
            from_ns: when_ns,
            latest_ns: when_ns,
        }
    }

    /// Up to the next multiple of `slack`, so that timers with the same slack share a wake; without an end if that
    /// multiple is beyond the end of time.
    #[inline]
    pub fn with_slack(from_ns: u64, slack: Duration) -> Self {
        let latest_ns = match u64::try_from(slack.as_nanos()) {
            Ok(0) => from_ns,
            Ok(slack_ns) => from_ns.div_ceil(slack_ns).saturating_mul(slack_ns),
            Err(_) => u64::MAX,
        };
        Window { from_ns, latest_ns }
    }

    /// The same window where the clock shows `now_ns` already.
    #[inline]
    pub(super) fn not_before(self, now_ns: u64) -> Self {
        Window {
            from_ns: self.from_ns.max(now_ns),
            latest_ns: self.latest_ns.max(now_ns),
        }
    }

    /// For several timers together: from the first deadline on, and by the first time at which one of them needs a
    /// wake.
    #[inline]
    pub(crate) fn and(self, other: Self) -> Self {
        Window {
            from_ns: self.from_ns.min(other.from_ns),
            latest_ns: self.latest_ns.min(other.latest_ns),
        }
    }
}

/// A moment is a window without slack.
impl From<u64> for Window {
    #[inline]
    fn from(when_ns: u64) -> Self {
        Window::at(when_ns)
    }
}
