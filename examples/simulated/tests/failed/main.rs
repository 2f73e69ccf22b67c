//! Runs that fail. One program, as `tests/simulated`, which has another clock for all of std.

mod failures;
mod lost;
mod smaller;
