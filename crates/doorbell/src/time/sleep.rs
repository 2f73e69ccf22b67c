//! [`Sleep`]: a future that waits until a moment.

use super::Instant;
use crate::{ambient, coop};
use doorbell_core::mailbox::Gone;
use doorbell_core::wheel::Window;
use doorbell_core::worker::timer::{Fired, Polled, RawTimer, Reset};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A future that is ready at its deadline, never before. See [`sleep`].
///
/// It is `Send`, `Sync` and `Unpin`. [`Sleep::reset`] gives it a new deadline in place.
///
/// # Panics
/// If it has to wait and is polled on a thread without a runtime, or after the runtime has ended.
#[must_use = "a sleep does nothing before it is polled"]
#[derive(Debug)]
pub struct Sleep {
    deadline: Instant,
    slack: Duration,
    state: SleepState,
}

#[derive(Debug)]
enum SleepState {
    /// Not polled since it was made by [`sleep_until`] or reset.
    New,
    /// Made by [`sleep`] and not polled yet: its deadline lay ahead then, so the first poll does not read the
    /// clock.
    Ahead,
    Armed(RawTimer),
    /// Armed for the deadline by a reset, and not polled since.
    Moved(RawTimer),
    /// Armed for an earlier time, from before a reset away from the timer's worker: the task that it wakes polls the
    /// sleep, which arms it anew. It is woken by `latest_ns`.
    Early {
        timer: RawTimer,
        latest_ns: u64,
    },
    Done,
}

/// Waits for `duration`, counted from this call. A time beyond the range of the clock (584 years) never comes. If
/// the deadline has passed before the first poll, the sleep is ready once the worker has looked at its timers. A
/// sleep of zero is ready at once.
///
/// A sleep may be made on a thread without a runtime. Only the poll needs one:
///
/// ```
/// let sleep = doorbell::time::sleep(std::time::Duration::from_millis(1));
/// doorbell::Builder::new().cores(1).build()?.block_on(sleep);
/// # Ok::<(), doorbell::BuildError>(())
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    let mut sleep = sleep_until(Instant::after(duration));
    sleep.state = if duration.is_zero() {
        SleepState::Done
    } else {
        SleepState::Ahead
    };
    sleep
}

/// Waits until `deadline`. If that has passed, the sleep is ready at the first poll, which takes one from the
/// [budget](crate::coop) of the poll. If none is left, it is ready in a later poll.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        deadline,
        slack: Duration::ZERO,
        state: SleepState::New,
    }
}

impl Sleep {
    /// Allows the sleep to be ready up to `slack` later, so that it costs fewer wake-ups. From the deadline on, its
    /// worker fires it while the worker runs tasks. A worker that idles wakes for it at the deadline rounded up to a
    /// multiple of `slack`, so that timers with the same slack share wake-ups. The default is zero: as exact as the OS
    /// allows.
    ///
    /// If the rounded time is beyond the range of the clock, as with [`Duration::MAX`], no worker wakes for the sleep.
    /// It fires with the first look at its worker's timers from its deadline on: of that worker while it runs tasks, or
    /// for the sake of a second timer of that worker. Without such a look it stays pending. Where the clock is paused,
    /// [`advance`](super::advance()) looks at the timers of all workers.
    ///
    /// If the sleep has been polled and is not ready, this is a [reset](Sleep::reset) to the same deadline.
    pub fn slack(mut self, slack: Duration) -> Sleep {
        let latest_ns = self.latest_ns();
        self.slack = slack;
        if !matches!(self.state, SleepState::Ahead | SleepState::Done) {
            self.arm_again(latest_ns);
        }
        self
    }

    /// The moment at which it is ready, without slack.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The slack that [`Sleep::slack`] set.
    pub(super) fn slack_allowed(&self) -> Duration {
        self.slack
    }

    /// Whether a poll has found the deadline passed. A sleep that has not been polled since its deadline is
    /// not elapsed, unless it was a sleep of zero.
    pub fn is_elapsed(&self) -> bool {
        matches!(self.state, SleepState::Done)
    }

    /// Gives it a new deadline, whether it was ready or not. A task that waits for it is woken at the new
    /// deadline. If its timer is not armed on the calling worker, the task is also woken before: at the old
    /// deadline, or at once if the new one is earlier. It then finds the sleep pending, and waits on. If that
    /// worker is inside a long poll, the wake at once comes after it.
    ///
    /// If the new deadline has passed, the next poll finds the sleep ready.
    pub fn reset(&mut self, deadline: Instant) {
        let latest_ns = self.latest_ns();
        self.deadline = deadline;
        self.arm_again(latest_ns);
    }

    /// By when the task that waits is woken.
    fn latest_ns(&self) -> u64 {
        match &self.state {
            SleepState::Early { latest_ns, .. } => *latest_ns,
            _ => self.window().latest_ns,
        }
    }

    /// Deadline or slack have changed. The task that waits was to be woken by `latest_ns`.
    fn arm_again(&mut self, latest_ns: u64) {
        use SleepState::{Ahead, Armed, Done, Early, Moved, New};
        let window = self.window();
        self.state = match std::mem::replace(&mut self.state, New) {
            New | Ahead | Done => New,
            Armed(mut timer) | Moved(mut timer) | Early { mut timer, .. } => {
                if timer.reset(window) == Reset::Done {
                    Moved(timer)
                } else if latest_ns <= window.latest_ns {
                    Early { timer, latest_ns }
                } else {
                    timer.rouse();
                    New
                }
            }
        };
    }

    #[inline]
    fn window(&self) -> Window {
        Window::with_slack(self.deadline.ns(), self.slack)
    }
}

/// Arms a timer in the current runtime; `None` if the deadline has passed: see
/// [`Ambient::arm_timer`](ambient::Ambient::arm_timer).
#[track_caller]
fn arm(window: Window, is_ahead: bool, waker: &Waker) -> Option<RawTimer> {
    let current = ambient::expect_current();
    let armed = current.handle().inner().arm_timer(window, is_ahead, waker);
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

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let has_waited = matches!(
            self.state,
            SleepState::Armed(_) | SleepState::Moved(_) | SleepState::Early { .. }
        );
        let polled = self.poll_time(cx);
        // A sleep that has waited is not held up by the budget: other futures of its task may spend all of it
        // in each poll, and a deadline beside them would never come.
        if polled.is_ready() && !has_waited {
            return coop::allow(cx);
        }
        polled
    }
}

impl Sleep {
    /// The first poll since a reset: whether the deadline has passed, which the worker has not looked at yet.
    fn look_after_reset(&mut self) {
        if let SleepState::Moved(timer) = std::mem::replace(&mut self.state, SleepState::Done)
            && Instant::now() < self.deadline
        {
            self.state = SleepState::Armed(timer);
        }
    }

    /// As `poll`, without counting against the poll budget.
    #[track_caller]
    pub(super) fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let SleepState::Moved(_) = self.state {
            self.look_after_reset();
        }
        match &mut self.state {
            SleepState::Done => return Poll::Ready(()),
            SleepState::New | SleepState::Ahead | SleepState::Early { .. } => {}
            SleepState::Armed(timer) | SleepState::Moved(timer) => match timer.poll(cx) {
                Polled::Pending => return Poll::Pending,
                Polled::Ready(Fired::Due) => {
                    self.state = SleepState::Done;
                    return Poll::Ready(());
                }
                // This thread cannot change the timer's waker, or its worker has ended: it is armed again here.
                Polled::Ready(Fired::WorkerGone) | Polled::Elsewhere => {}
            },
        }
        // Drop an old timer before arming the new one on this worker.
        let is_ahead = matches!(self.state, SleepState::Ahead);
        self.state = SleepState::New;
        let Some(timer) = arm(self.window(), is_ahead, cx.waker()) else {
            self.state = SleepState::Done;
            return Poll::Ready(());
        };
        self.state = SleepState::Armed(timer);
        Poll::Pending
    }
}
