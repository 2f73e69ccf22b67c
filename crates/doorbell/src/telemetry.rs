//! The builder's settings for recordings and hooks.

use crate::policy_hook::PolicyHooks;
use crate::poll_times::LONG_POLL;
use doorbell_core::scheduler::telemetry::Hooks;
use std::time::Duration;

/// What a runtime records, and which hooks it calls.
#[derive(Clone, Debug)]
pub(crate) struct TelemetryOptions {
    pub(crate) poll_times: bool,
    pub(crate) long_poll: Duration,
    pub(crate) hooks: Hooks,
    pub(crate) policy_refused: PolicyHooks,
}

impl Default for TelemetryOptions {
    fn default() -> Self {
        TelemetryOptions {
            poll_times: false,
            long_poll: LONG_POLL,
            hooks: Hooks::default(),
            policy_refused: PolicyHooks::default(),
        }
    }
}

impl TelemetryOptions {
    pub(crate) fn plan(&self) -> doorbell_core::scheduler::telemetry::TelemetryPlan {
        let long_ns = u64::try_from(self.long_poll.as_nanos()).unwrap_or(u64::MAX);
        doorbell_core::scheduler::telemetry::TelemetryPlan {
            long_poll_ns: self.poll_times.then_some(long_ns),
            hooks: self.hooks.clone(),
        }
    }
}
