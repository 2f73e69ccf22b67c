//! Sleeping, timeouts and intervals.
//!
//! Times are exact to the nanosecond, except for slack that a timer allows. A timer is in the timer wheel of
//! the worker that first polls it. Arming and dropping it there takes no lock and no syscall.
//!
//! Contract: *polls of the worker are short ⇒ a timer fires at its deadline, or later by at most eight polls. If the
//! worker idles: later by at most its slack, if that has an end, and one wake of a thread.* No timer fires before its
//! deadline. (Tests: `sleeps_are_never_early`, `both_bases_are_as_a_sorted_set`.)
//!
//! ```
//! use doorbell::time::{Instant, sleep, timeout};
//! use std::time::Duration;
//!
//! # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
//! let start = Instant::now();
//! sleep(Duration::from_millis(2)).await;
//! assert!(start.elapsed() >= Duration::from_millis(2));
//!
//! let never = std::future::pending::<()>();
//! assert!(timeout(Duration::from_millis(1), never).await.is_err());
//! # });
//! ```

mod advance;
mod instant;
mod interval;
mod sleep;
mod timeout;

pub use advance::advance;
pub use doorbell_machine::host::StdInstant;
pub use instant::Instant;
pub use interval::{Interval, MissedTicks, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
pub use std::time::Duration;
pub use timeout::{Elapsed, Timeout, timeout, timeout_at};
