//! Settings that turn a protocol into another one, to be measured beside it: see
//! [`Builder::switches`](crate::Builder::switches).

#[cfg(feature = "baselines")]
pub use doorbell_core::switches::{CallCoalesce, IdleClaim, IdleNotify};
pub use doorbell_core::switches::{RtPush, SwitchError, Switches, TimerPull};
