//! [`Alarm`]: the timeouts of a connection.

use super::progress::{Phase, Progress};
use doorbell::time::{Instant, Sleep, sleep_until};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

/// Slack of the timers: alarms whose deadlines lie this close together share a wake-up.
const SLACK: Duration = Duration::from_millis(20);

/// How long a client that was asked to leave may take for it.
const LEAVE: Duration = Duration::from_secs(5);

/// Minimum time between two checks whether a request is still in flight.
const LOOK_MIN: Duration = Duration::from_secs(1);

/// How long a connection may stay in a phase: see [`Server`](crate::Server). `None` means for ever.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) header: Option<Duration>,
    pub(super) keep_alive: Option<Duration>,
}

/// What to do with the connection.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The connection has time left.
    Wait,
    /// Ask the client to leave.
    Close,
    /// Drop the connection.
    Drop,
}

/// Measures how long a connection has been in its phase. The timer is not armed for each request: when it
/// fires, it is armed again for the time that is left.
#[derive(Debug)]
pub(super) struct Alarm {
    progress: Arc<Progress>,
    /// The phase at the last look.
    seen: Phase,
    /// The start of that phase. A first head, and the first idle time over HTTP/2, start with the connection.
    since: Instant,
    /// When the client was asked to leave.
    leaving: Option<Instant>,
    sleep: Sleep,
    /// The deadline of `sleep`, while it is armed for the current waker.
    armed: Option<Instant>,
}

impl Alarm {
    pub(super) fn new(progress: Arc<Progress>) -> Self {
        let now = Instant::now();
        Alarm {
            seen: progress.phase(),
            progress,
            since: now,
            leaving: None,
            sleep: sleep_until(now).slack(SLACK),
            armed: None,
        }
    }

    /// Notes that the client was asked to leave.
    pub(super) fn leaves(&mut self) {
        self.leaving = Some(Instant::now());
    }

    /// Arms the timer again at the next poll, which has another waker.
    pub(super) fn rearm(&mut self) {
        self.armed = None;
    }

    /// Looks at the connection after its poll. Wakes the task when the next look is due.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, times: Times) -> Verdict {
        loop {
            let now = Instant::now();
            self.see(now);
            let Some(deadline) = self.deadline(now, times) else {
                return Verdict::Wait;
            };
            if deadline <= now {
                return self.too_late();
            }
            if self.armed.is_some_and(|at| now < at && at <= deadline) {
                return Verdict::Wait;
            }
            self.sleep.reset(deadline);
            self.armed = Some(deadline);
            if Pin::new(&mut self.sleep).poll(cx).is_pending() {
                return Verdict::Wait;
            }
        }
    }

    /// Notes the phase of the connection.
    fn see(&mut self, now: Instant) {
        let mut phase = self.progress.phase();
        let idle = match phase {
            Phase::Busy => Some(Phase::Idle),
            Phase::Busy2 => Some(Phase::Idle2),
            _ => None,
        };
        if let Some(idle) = idle
            && !Progress::in_flight(&self.progress)
        {
            self.progress.set(idle);
            (phase, self.since) = (idle, now);
        }
        // The first head must be complete in time, not only begin.
        if phase != self.seen && self.seen != Phase::New {
            self.since = now;
        }
        self.seen = phase;
    }

    fn deadline(&self, now: Instant, times: Times) -> Option<Instant> {
        match (self.seen, self.leaving) {
            (Phase::New | Phase::Head, _) => Some(self.since + times.header?),
            (Phase::Busy | Phase::Busy2, _) => Some(now + times.keep_alive?.max(LOOK_MIN)),
            (Phase::Idle | Phase::Idle2, Some(leaving)) => Some(self.since.max(leaving) + LEAVE),
            (Phase::Idle | Phase::Idle2, None) => Some(self.since + times.keep_alive?),
        }
    }

    fn too_late(&self) -> Verdict {
        match self.seen {
            Phase::Idle | Phase::Idle2 if self.leaving.is_none() => Verdict::Close,
            _ => Verdict::Drop,
        }
    }
}
