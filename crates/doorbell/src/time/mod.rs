//! Sleeping, timeouts and intervals.
//!
//! Times are nanoseconds, exact where no slack is given. A timer lives in the wheel of the worker
//! that polls it first; arming and dropping one there takes no lock and no syscall.
//!
//! Contract: *the worker is not inside a poll ⇒ a timer fires at its time or later by at most its
//! slack and one wake of a thread; never before its time.* A worker looks at its timers at every
//! pass and at least every eighth poll.
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
