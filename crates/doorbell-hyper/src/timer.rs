//! [`DoorbellTimer`].

use doorbell::time::{self, Instant, StdInstant};
use hyper::rt::{Sleep, Timer};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// hyper's timers, kept in the workers' timer wheels.
#[derive(Clone, Copy, Debug, Default)]
pub struct DoorbellTimer;

impl Timer for DoorbellTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(DoorbellSleep(time::sleep(duration)))
    }

    fn sleep_until(&self, deadline: StdInstant) -> Pin<Box<dyn Sleep>> {
        Box::pin(DoorbellSleep(time::sleep_until(Instant::from_std(
            deadline,
        ))))
    }

    fn now(&self) -> StdInstant {
        Instant::now().into_std()
    }

    /// Resets the timer in place, without a new allocation.
    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: StdInstant) {
        match sleep.as_mut().downcast_mut_pin::<DoorbellSleep>() {
            Some(sleep) => sleep.get_mut().0.reset(Instant::from_std(new_deadline)),
            // Another `Timer` made it.
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

#[derive(Debug)]
struct DoorbellSleep(time::Sleep);

impl Future for DoorbellSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.get_mut().0).poll(cx)
    }
}

impl Sleep for DoorbellSleep {}
