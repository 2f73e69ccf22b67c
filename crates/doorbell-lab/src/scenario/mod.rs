//! The scenarios of `doorbell lab`, and what they share.
//!
//! A scenario names its contestants, its limit and its columns; the rounds are driven here.

pub mod busy;
pub mod call;
mod common;
mod contestant;
pub mod flood;
mod hosts;
pub mod http;
pub mod idle;
#[cfg(test)]
pub(crate) mod labels;
mod late;
mod limits;
mod options;
pub mod pingpong;
pub mod rank;
mod ranked;
mod rounds;
pub mod rt;
pub mod shootdown;
pub mod simulated;
mod slot;
pub mod spawn;
mod steps;
pub mod stuck;
mod summary;
pub mod timer_acc;
pub mod timer_cost;
pub mod timer_idle;
pub mod timer_sleepers;
mod timers;
mod trial;
pub mod urgent;
pub mod wake;
mod wake_counts;
mod wants;

pub use contestant::{Contestant, Observed, Speed, Stage};
pub use options::{Effort, Options, SimOptions};
pub use rounds::{
    Contest, Figures, LIMIT_TOLERANCE_X, LimitProbe, RETRIES_MAX, Tape, trusted_limit_ns,
};
pub use summary::summarise;
pub use trial::{Outcome, Trial, Work};
