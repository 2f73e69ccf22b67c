//! Programs of users on simulated cores: each seed runs twice, and a failure is told with its seed and made smaller.
//!
//! Nothing here knows the runtime that the program uses: [`run()`] gets what the first simulated thread does.

mod failed;
mod repeat;
mod run;
mod setup;
mod smaller;
mod tasks;
mod verdict;

pub use failed::{Failed, Found, Problem};
pub use repeat::{Place, test};
pub use run::{Report, run};
pub use setup::{Fault, Setup};
pub use tasks::{Oracle, Tasks, given_up, keep, let_go, polls, taken, waited_for, watch};
pub use verdict::Verdict;
