//! How often an urgent lane looks at its descriptors under a flood.

use crate::builder::{BuildError, Builder};
use std::time::Duration;

/// Chosen with the servers of `lab http`: with 150 and 250 us the lanes interrupt their clients more often.
const SPACING: Duration = Duration::from_micros(400);

/// A flood is over when for so long there was none: nobody is to wait for longer than that lasts.
const SPACING_MAX: Duration = Duration::from_millis(10);

/// What is shorter would have the lane do nothing but sleep and look.
const SPACING_MIN: Duration = Duration::from_micros(10);

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtSpacing(Duration);

impl Default for RtSpacing {
    fn default() -> Self {
        RtSpacing(SPACING)
    }
}

impl RtSpacing {
    /// So many ns; 0 if no look is put off.
    ///
    /// # Errors
    /// [`BuildError::RtSpacing`] for what is too long.
    pub(crate) fn check(self) -> Result<u64, BuildError> {
        let RtSpacing(asked) = self;
        if asked > SPACING_MAX {
            return Err(BuildError::RtSpacing { asked });
        }
        if asked < SPACING_MIN {
            return Ok(0);
        }
        Ok(u64::try_from(asked.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Builder {
    /// Under a flood of descriptors an urgent lane that the OS lets go before all other threads of its CPU
    /// looks at them each so often, and is not woken for each: 400 µs unless told, 10 ms at most; and sooner,
    /// as soon as nobody else wants its CPU.
    /// [`Duration::ZERO`] is off, as is less than 10 µs: it is woken for each. Wrong values are reported by [`Builder::build`].
    ///
    /// Such a lane interrupts whoever uses its CPU each time that it is woken. Where that is a client on the
    /// same computer, it would do so at each request, before the client has written the next one, which
    /// halves the rate. That nobody else wants the CPU it is told by its *usher*, a thread under `SCHED_IDLE`
    /// that each such lane has; it sleeps while there is no flood, and ends with the lane.
    /// [`LaneCounts::looks_put_off`](crate::LaneCounts) counts the looks, and `looks_ushered` those of
    /// them that were made sooner.
    ///
    /// The price: while something computes on the lane's CPU, a Fair lane that watches included, three clients of the lane or more that wait for
    /// each answer get one in that time each at most. For such clients choose less, or zero, with which
    /// there is no usher either.
    ///
    /// Contract: *the lane has obtained `SCHED_FIFO` ([`Handle::policies`](crate::Handle::policies)) and runs
    /// when it is woken, its [budget](Builder::rt_budget) is not used up, no poll or call on it is long,
    /// and a descriptor becomes ready while it sleeps ⇒ it looks within this time, and with zero it is
    /// woken at once.* Looks are put off only after 2 ms in which descriptors became ready more often than
    /// each 100 µs, until the first look that is 10 ms after there were far fewer; and where they bring fewer
    /// than three on average, not for 100 ms, and for up to 6.4 s if that goes on. A timer, a call or a wake for
    /// the lane ends its sleep at once, as ever. Up to 500 µs it is not an idle lane meanwhile: what waits at
    /// other lanes it takes within two such times.
    ///
    /// A lane that did not obtain `SCHED_FIFO`, or is of another class, puts nothing off, whatever this
    /// says. What was measured and tried stands in the repository, in
    /// `docs/decisions/0021-a-flood-of-descriptors.md`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = doorbell::Builder::new().cores(1).rt_spacing(Duration::ZERO).build()?;
    /// let refused = doorbell::Builder::new().rt_spacing(Duration::from_secs(10)).build();
    /// assert!(matches!(refused, Err(doorbell::BuildError::RtSpacing { .. })));
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    #[must_use]
    pub fn rt_spacing(mut self, spacing: Duration) -> Self {
        self.rt_spacing = RtSpacing(spacing);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{RtSpacing, SPACING_MAX, SPACING_MIN};
    use crate::BuildError;
    use std::time::Duration;

    #[test]
    fn a_spacing_is_so_many_nanoseconds_and_none_is_off() {
        let of = |asked| RtSpacing(asked).check().unwrap();
        assert_eq!(of(Duration::ZERO), 0);
        assert_eq!(of(Duration::from_nanos(9_999)), 0);
        assert_eq!(of(SPACING_MIN), 10_000);
        assert_eq!(of(SPACING_MAX), 10_000_000);
        assert_eq!(RtSpacing::default().check().unwrap(), 400_000);
    }

    #[test]
    fn a_spacing_that_is_too_long_is_refused() {
        let beyond = SPACING_MAX + Duration::from_nanos(1);
        for asked in [beyond, Duration::from_secs(10), Duration::MAX] {
            let refused = RtSpacing(asked).check().unwrap_err();
            assert!(matches!(refused, BuildError::RtSpacing { asked: it } if it == asked));
            for part in ["at most 10 ms", "Duration::ZERO"] {
                assert!(refused.to_string().contains(part), "{refused}");
            }
        }
    }
}
