//! [`Limits`]: how long a client may take.

use doorbell::time::Duration;
use std::num::NonZeroU64;

/// How long a client may be slower than the minimum rate.
const GRACE: Duration = Duration::from_secs(5);

/// The limits of a server's connections: see [`Server`](crate::Server). `None` means no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) header: Option<Duration>,
    pub(super) keep_alive: Option<Duration>,
    pub(super) body: Option<Duration>,
    pub(super) write: Option<Duration>,
    pub(super) request: Option<Duration>,
    /// In bytes per second.
    pub(super) rate: Option<NonZeroU64>,
}

impl Limits {
    pub(super) const DEFAULT: Limits = Limits {
        header: Some(Duration::from_secs(30)),
        keep_alive: Some(Duration::from_secs(75)),
        body: Some(Duration::from_secs(60)),
        write: Some(Duration::from_secs(60)),
        request: None,
        rate: None,
    };

    /// How long the client may take for this many bytes.
    pub(super) fn time_for(&self, bytes: u64) -> Option<Duration> {
        let rate = self.rate?.get();
        let millis = u128::from(bytes) * 1_000 / u128::from(rate);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        Some(GRACE.saturating_add(Duration::from_millis(millis)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_allows_a_time_beyond_the_grace() {
        let mut limits = Limits::DEFAULT;
        assert_eq!(limits.time_for(1), None);
        limits.rate = NonZeroU64::new(1_000);
        let ms = Duration::from_millis;
        assert_eq!(limits.time_for(0), Some(GRACE));
        assert_eq!(limits.time_for(2_500), Some(GRACE + ms(2_500)));
        limits.rate = NonZeroU64::new(1);
        assert_eq!(limits.time_for(u64::MAX), Some(GRACE + ms(u64::MAX)));
    }
}
