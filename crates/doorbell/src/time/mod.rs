//! Sleeping, timeouts and intervals.
//!
//! Times are exact to the nanosecond, except for slack that a timer allows. A timer is in the timer wheel of
//! the worker that first polls it. Arming and dropping it there takes no lock and no syscall.
//!
//! Contract: *the worker is not inside a poll ⇒ a timer fires at its time, or later by at most its slack and
//! one wake of a thread; never before its time.* A worker looks at its timers in every pass, and at least
//! after every eighth poll.
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
