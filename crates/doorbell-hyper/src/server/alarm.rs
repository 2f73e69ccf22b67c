//! [`Alarm`]: the timeouts of a connection.

use super::limits::Limits;
use super::progress::{Phase, Progress, Taken};
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

/// What to do with the connection.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The connection has time left.
    Wait,
    /// Poll the connection and look again: that shows whether the client has taken more.
    Again,
    /// Ask the client to leave.
    Close,
    /// Drop the connection. No request is in flight.
    Drop,
    /// Drop the connection with its requests in flight.
    Cut,
}

/// Measures how long a connection has been in its phase. The timer is not armed for each request: when it
/// fires, it is armed again for the time that is left.
#[derive(Debug)]
pub(super) struct Alarm {
    progress: Arc<Progress>,
    /// The phase at the last look.
    seen: Phase,
    /// The number of requests that had been read at the last look.
    begun: u32,
    /// The start of that phase, or of the last request. A first head, and the first idle time over HTTP/2,
    /// start with the connection.
    since: Instant,
    /// When the client was asked to leave.
    leaving: Option<Instant>,
    /// Over HTTP/2: the head that has begun and is not complete, and since when.
    head: Option<(u32, Instant)>,
    /// Boxed, since this is rare.
    owing: Option<Box<Owing>>,
    sleep: Sleep,
    /// The deadline of `sleep`, while it is armed for the current waker.
    armed: Option<Instant>,
}

/// The client does not take what it is sent as fast as it comes.
#[derive(Debug)]
struct Owing {
    since: Instant,
    /// What it had taken then.
    first: Taken,
    /// When it had last taken something, and what it had taken then.
    moved: Instant,
    last: Taken,
    /// Whether the connection was polled for a look at what the client has taken.
    is_fresh: bool,
}

impl Alarm {
    pub(super) fn new(progress: Arc<Progress>) -> Self {
        let now = Instant::now();
        Alarm {
            seen: progress.phase(),
            begun: 0,
            progress,
            since: now,
            leaving: None,
            head: None,
            owing: None,
            sleep: sleep_until(now).slack(SLACK),
            armed: None,
        }
    }

    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
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
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, limits: &Limits) -> Verdict {
        loop {
            let now = Instant::now();
            self.see(now);
            if self.must_go() {
                return Verdict::Close;
            }
            let Some((deadline, verdict)) = self.deadline(now, limits) else {
                return Verdict::Wait;
            };
            if deadline <= now {
                if let (Verdict::Again, Some(owing)) = (verdict, &mut self.owing) {
                    owing.is_fresh = true;
                }
                return verdict;
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

    /// Whether it is idle, and another client needs its place.
    fn must_go(&self) -> bool {
        match self.seen {
            Phase::Idle | Phase::Idle2 => self.leaving.is_none() && self.progress.must_go(),
            _ => {
                self.progress.stays();
                false
            }
        }
    }

    /// Notes what the connection is doing.
    fn see(&mut self, now: Instant) {
        let mut phase = self.progress.phase();
        let idle = match phase {
            Phase::Busy => Some(Phase::Idle),
            Phase::Busy2 => Some(Phase::Idle2),
            _ => None,
        };
        if let Some(idle) = idle
            && !self.progress.in_flight()
        {
            let since_ms = self.progress.shared().millis(now);
            self.progress.rests(idle, since_ms);
            (phase, self.since) = (idle, now);
        }
        let begun = self.progress.begun();
        // The first head must be complete in time, not only begin.
        if (phase != self.seen && self.seen != Phase::New) || begun != self.begun {
            self.since = now;
        }
        (self.seen, self.begun) = (phase, begun);
        self.see_head(now);
        self.see_owing(now);
    }

    fn see_head(&mut self, now: Instant) {
        let open = self.progress.open_head();
        if open == 0 {
            self.head = None;
        } else if self.head.is_none_or(|(number, _)| number != open) {
            self.head = Some((open, now));
        }
    }

    fn see_owing(&mut self, now: Instant) {
        let Some(taken) = self.progress.owes() else {
            self.owing = None;
            return;
        };
        let owing = self.owing.get_or_insert_with(|| {
            Box::new(Owing {
                since: now,
                first: taken,
                moved: now,
                last: taken,
                is_fresh: false,
            })
        });
        if taken.since(owing.last) > 0 {
            (owing.moved, owing.last, owing.is_fresh) = (now, taken, false);
        }
    }

    /// When the connection must be looked at again, and what to do then if nothing has changed.
    fn deadline(&self, now: Instant, limits: &Limits) -> Option<(Instant, Verdict)> {
        let by_phase = match self.seen {
            Phase::New | Phase::Head => self.for_head(limits),
            Phase::Busy | Phase::Busy2 => self.for_request(now, limits),
            Phase::Idle | Phase::Idle2 => self.for_idle(limits),
        };
        let head = limits.header.zip(self.head);
        let head = head.map(|(limit, (_, since))| (since + limit, self.drop_or_cut()));
        [by_phase, head, self.for_client(limits)]
            .into_iter()
            .flatten()
            .min_by_key(|(deadline, _)| *deadline)
    }

    fn drop_or_cut(&self) -> Verdict {
        match self.seen {
            Phase::Busy | Phase::Busy2 => Verdict::Cut,
            _ => Verdict::Drop,
        }
    }

    /// A client that was asked to leave may still complete a head, if it is quick.
    fn for_head(&self, limits: &Limits) -> Option<(Instant, Verdict)> {
        let by_limit = limits.header.map(|limit| self.since + limit);
        let by_leave = self.leaving.map(|leaving| leaving + LEAVE);
        let deadline = by_limit.into_iter().chain(by_leave).min()?;
        Some((deadline, Verdict::Drop))
    }

    fn for_request(&self, now: Instant, limits: &Limits) -> Option<(Instant, Verdict)> {
        // Over HTTP/2 each request has a timer of its own.
        let by_limit = limits.request.filter(|_| self.seen == Phase::Busy);
        let by_limit = by_limit.map(|limit| (self.since + limit, Verdict::Cut));
        // Another task may end the last request over HTTP/2 without a poll of the connection.
        let look = match self.leaving {
            Some(_) => Some(LOOK_MIN),
            None => limits.keep_alive.map(|it| it.max(LOOK_MIN)),
        };
        let look = look.map(|look| (now + look, Verdict::Wait));
        let both = by_limit.into_iter().chain(look);
        both.min_by_key(|(deadline, _)| *deadline)
    }

    fn for_idle(&self, limits: &Limits) -> Option<(Instant, Verdict)> {
        Some(match self.leaving {
            Some(leaving) => (self.since.max(leaving) + LEAVE, Verdict::Drop),
            None => (self.since + limits.keep_alive?, Verdict::Close),
        })
    }

    /// The client must take something of what is owed to it, now and then and fast enough.
    fn for_client(&self, limits: &Limits) -> Option<(Instant, Verdict)> {
        let owing = self.owing.as_ref()?;
        // While the socket takes what it is given, streams that move nothing are reset first, each for itself.
        let is_late = self.seen == Phase::Busy2 && !self.progress.is_blocked();
        let more = if is_late { LEAVE } else { Duration::ZERO };
        let by_limit = limits.write.map(|limit| owing.moved + limit + more);
        let taken = owing.last.since(owing.first);
        let by_rate = limits.time_for(taken).map(|time| owing.since + time);
        let deadline = by_limit.into_iter().chain(by_rate).min()?;
        let verdict = if owing.is_fresh {
            self.drop_or_cut()
        } else {
            Verdict::Again
        };
        Some((deadline, verdict))
    }
}
