//! [`Sleep`]: a future that is ready when its time has come.

use super::Instant;
use crate::{ambient, coop};
use doorbell_core::mailbox::Gone;
use doorbell_core::worker::timer::{Fired, Polled, RawTimer, Reset};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A future that is ready when its time has come; never before. See [`sleep`].
///
/// `Send`, `Sync` and `Unpin`; it can be armed anew in place, by [`Sleep::reset`].
#[must_use = "a sleep does nothing before it is polled"]
#[derive(Debug)]
pub struct Sleep {
    deadline: Instant,
    slack: Duration,
    state: SleepState,
}

#[derive(Debug)]
enum SleepState {
    /// Not polled since it was made or reset.
    New,
    /// The same, and when it was made its time was ahead: the clock is not read again.
    Ahead,
    Armed(RawTimer),
    Done,
}

/// Waits for a duration, from now on. Times past the end of the clock's range (584 years) wait
/// for that end. One that is not polled before its time has come is ready as soon as its worker has looked at
/// its timers.
pub fn sleep(duration: Duration) -> Sleep {
    let mut sleep = sleep_until(Instant::after(duration));
    sleep.state = if duration.is_zero() {
        SleepState::Done
    } else {
        SleepState::Ahead
    };
    sleep
}

/// Waits until a moment. One that has passed is ready at the first poll. That takes one from the
/// [budget](crate::coop) of the poll; where none is left, it is ready as soon as its worker has looked at its
/// timers.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        deadline,
        slack: Duration::ZERO,
        state: SleepState::New,
    }
}

impl Sleep {
    /// Allows it to be ready up to so much later: timers with the same slack then share their
    /// wake-ups. Zero, the default, is as exact as the OS allows.
    pub fn slack(mut self, slack: Duration) -> Sleep {
        self.slack = slack;
        self
    }

    /// When it is ready, without its slack.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// By how much it may be ready later.
    pub(super) fn slack_allowed(&self) -> Duration {
        self.slack
    }

    /// Whether its time has come and it was polled since.
    pub fn is_elapsed(&self) -> bool {
        matches!(self.state, SleepState::Done)
    }

    /// Arms it for another moment, whether it was ready or not. If it was polled before on this
    /// core it stays in place, and whoever waited for it still does; otherwise poll it again.
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        let when_ns = self.when_ns();
        let kept = match &mut self.state {
            SleepState::Armed(timer) => timer.reset(when_ns) == Reset::Done,
            SleepState::New | SleepState::Ahead | SleepState::Done => false,
        };
        if !kept {
            self.state = SleepState::New;
        }
    }

    /// The deadline, or the next multiple of the slack behind it.
    #[inline]
    fn when_ns(&self) -> u64 {
        let deadline_ns = self.deadline.ns();
        match u64::try_from(self.slack.as_nanos()) {
            Ok(0) => deadline_ns,
            Ok(slack_ns) => deadline_ns.div_ceil(slack_ns).saturating_mul(slack_ns),
            Err(_) => u64::MAX,
        }
    }
}

/// Arms a timer in the current runtime, or does without: see [`Ambient::arm_timer`](ambient::Ambient::arm_timer).
#[track_caller]
fn arm(deadline_ns: Option<u64>, when_ns: u64, waker: &Waker) -> Option<RawTimer> {
    let armed = ambient::with_current(|frame| match frame {
        Some(frame) => {
            let runtime = frame.handle().inner();
            runtime.arm_timer(deadline_ns, when_ns, waker)
        }
        None => panic!("{}", crate::NoRuntime),
    });
    match armed {
        Ok(timer) => timer,
        Err(Gone) => {
            panic!(
                "a timer was polled after its runtime had ended; drop it before, or keep the runtime"
            )
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let has_waited = matches!(self.state, SleepState::Armed(_));
        let polled = self.poll_time(cx);
        // One that had to wait has given way: it is ready also where other futures of its task have spent
        // the budget, or a deadline beside them would never come.
        if polled.is_ready() && !has_waited {
            return coop::poll(cx, |_| Poll::Ready(()));
        }
        polled
    }
}

impl Sleep {
    /// Ready when its time has come, and nothing is counted.
    pub(super) fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            SleepState::Done => return Poll::Ready(()),
            SleepState::New | SleepState::Ahead => {}
            SleepState::Armed(timer) => match timer.poll(cx) {
                Polled::Pending => return Poll::Pending,
                Polled::Ready(Fired::Due) => {
                    self.state = SleepState::Done;
                    return Poll::Ready(());
                }
                // While a runtime ends, a task may be polled on a worker that is still there.
                Polled::Ready(Fired::WorkerGone) | Polled::Elsewhere => {}
            },
        }
        // First the old timer goes, if there is one; then the new one is armed here.
        let is_ahead = matches!(self.state, SleepState::Ahead);
        self.state = SleepState::New;
        let Some(timer) = arm(
            (!is_ahead).then(|| self.deadline.ns()),
            self.when_ns(),
            cx.waker(),
        ) else {
            self.state = SleepState::Done;
            return Poll::Ready(());
        };
        self.state = SleepState::Armed(timer);
        Poll::Pending
    }
}
