//! The thresholds of the watch, in one table.
//!
//! | limit | value | what it decides |
//! |---|---|---|
//! | [`LONG_NS`] | 200 µs | from when on a poll is long |
//! | [`WATCHED_NS`] | 1 ms | after a poll of this length the task's next one is watched from its begin |
//! | [`SOON_NS`] | 250 µs | the next look of a parked worker, while a task waits |
//! | [`LATEST_NS`] | 500 µs | the latest look of a watchdog |
//! | [`STAYS_NS`] | 10 ms | for how long a watchdog stays one after the last task that waited |
//! | [`BUSY_EVERY_NS`] | 100 µs | how often one of the workers with work of their own looks |
//! | [`RELIEVED_NS`] | 2 ms | from when on a worker with work of its own takes deferred tasks too |
//! | [`OVERDUE_NS`] | 100 µs | how late a timer is before another worker fires it, if its worker stood still |
//! | [`OVERDUE_BUSY_NS`] | 500 µs | the same, if its worker makes progress |

/// A poll is long from this time on.
pub(in crate::worker) const LONG_NS: u64 = 200_000;

/// After a poll of this length another worker looks after what waits behind the task's next one. Not after each long one:
/// where system calls are dear, those of a connection that was idle are long, and each request would wake a second worker.
pub(in crate::worker) const WATCHED_NS: u64 = 1_000_000;

/// The shortest time to a watchdog's next look, and the time while a task waits behind a poll. After a look that finds no
/// reason the time doubles, up to [`LATEST_NS`].
pub(in crate::worker) const SOON_NS: u64 = 250_000;

/// A watchdog looks at least this often. For what is due later it looks once, then.
pub(in crate::worker) const LATEST_NS: u64 = 500_000;

/// A watchdog stays one for this long after a task waited behind a poll, so that the worker that pushes the next one need
/// not wake it.
pub(in crate::worker) const STAYS_NS: u64 = 10_000_000;

/// Of the workers with work of their own one looks at the others this often.
pub(in crate::worker) const BUSY_EVERY_NS: u64 = 100_000;

/// A worker with work of its own takes also deferred tasks from one that has been inside one poll for this long. From one
/// that is soon back it would take what that one runs next.
pub(in crate::worker) const RELIEVED_NS: u64 = 2_000_000;

/// How late a timer must be before another worker expires it. Earlier, its own worker is expected to do so.
pub(in crate::worker) const OVERDUE_NS: u64 = 100_000;

/// The same of a worker that makes progress: it reaches the timer after a few polls.
pub(in crate::worker) const OVERDUE_BUSY_NS: u64 = 500_000;

/// Polls between two thefts from one stuck worker: one of the stolen task, one of its own.
pub(in crate::worker) const POLLS_BETWEEN_THEFTS: u64 = 2;

const _: () = assert!(
    LONG_NS < SOON_NS && SOON_NS < LATEST_NS,
    "a watchdog's next look sees that a poll is long"
);
