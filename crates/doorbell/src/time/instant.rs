//! [`Instant`]: a moment of the runtime's clock.

#![allow(
    clippy::disallowed_types,
    reason = "converted to and from, never taken: the machine reads the clock"
)]

use crate::ambient;
use crate::here::on_its_machine;
use doorbell_machine::host::StdInstant;
use doorbell_machine::{Host, Machine, host};
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A moment of the current runtime's clock, in nanoseconds. On a thread without a runtime it is a moment of
/// the machine's monotonic clock. Tests can [pause](crate::Builder::start_paused) a runtime's clock.
///
/// Arithmetic saturates at zero and at [`Instant::MAX`], about 584 years after the start of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    ns: u64,
}

impl Instant {
    /// The last moment that can be represented.
    pub const MAX: Instant = Instant { ns: u64::MAX };

    /// The current moment.
    #[inline]
    pub fn now() -> Instant {
        let ns = ambient::peek(|frame| match frame {
            Some(frame) => frame.handle().inner().now_ns(),
            None => machine_now_ns(),
        });
        Instant { ns }
    }

    /// The moment at which `duration` has certainly passed, also by std's clock. The runtime's clock may lag
    /// behind that one by a few microseconds.
    #[inline]
    pub(crate) fn after(duration: Duration) -> Instant {
        let duration_ns = ns_of(duration);
        let ns = ambient::peek(|frame| match frame {
            Some(frame) => frame.handle().inner().after_ns(duration_ns),
            None => machine_now_ns()
                .saturating_add(duration_ns)
                .saturating_add(Host::LAG_NS_MAX),
        });
        Instant { ns }
    }

    pub(crate) fn ns(self) -> u64 {
        self.ns
    }

    /// The time since this moment; zero if it lies in the future.
    pub fn elapsed(self) -> Duration {
        Instant::now().duration_since(self)
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub fn duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }

    /// The time from `earlier` to this moment; `None` if `earlier` is later.
    pub fn checked_duration_since(self, earlier: Instant) -> Option<Duration> {
        self.ns.checked_sub(earlier.ns).map(Duration::from_nanos)
    }

    /// The same moment of std's clock. A moment beyond the range of that clock becomes the end of the range.
    pub fn into_std(self) -> StdInstant {
        host::std_instant(self.ns)
    }

    /// The same moment of this clock. A moment before the start of the machine becomes zero.
    pub fn from_std(instant: StdInstant) -> Instant {
        Instant {
            ns: host::ns_of(instant),
        }
    }
}

/// The time by the machine's clock, on a thread without a runtime.
#[inline]
fn machine_now_ns() -> u64 {
    on_its_machine!(M => M::now_ns())
}

pub(super) fn ns_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, duration: Duration) -> Instant {
        Instant {
            ns: self.ns.saturating_add(ns_of(duration)),
        }
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, duration: Duration) -> Instant {
        Instant {
            ns: self.ns.saturating_sub(ns_of(duration)),
        }
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl From<StdInstant> for Instant {
    fn from(instant: StdInstant) -> Instant {
        Instant::from_std(instant)
    }
}

impl From<Instant> for StdInstant {
    fn from(instant: Instant) -> StdInstant {
        instant.into_std()
    }
}
