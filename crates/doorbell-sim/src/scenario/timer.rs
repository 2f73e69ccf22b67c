//! A sleep on the worker's wheel.

use super::ledger::Ledger;
use super::scheduler::Workers;
use doorbell_core::scheduler::RemoteRef;
use doorbell_core::wheel::{Clock, Window};
use doorbell_core::worker::timer::{Fired, Polled, RawTimer};
use doorbell_machine::Sim;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Timers that are due at the same time as others are due at a multiple of this.
const TOGETHER_NS: u64 = 100_000;

/// Ready when it is due. The output is `false` if the worker of its timer ended first.
pub(crate) struct Sleep<const BUG: u8> {
    remote: RemoteRef<Sim<BUG>>,
    clock: Arc<Clock<Sim<BUG>>>,
    window: Window,
    timer: Option<RawTimer>,
    ledger: Arc<Ledger>,
}

impl<const BUG: u8> Sleep<BUG> {
    /// A sleep of `for_ns` from now on; on this worker's wheel if the caller is no worker.
    pub(crate) fn new(workers: &Workers<BUG>, worker: usize, for_ns: u64) -> Self {
        Sleep {
            remote: workers.remote(worker).clone(),
            window: Window::at(workers.clock.now_ns().saturating_add(for_ns)),
            clock: Arc::clone(&workers.clock),
            timer: None,
            ledger: Arc::clone(&workers.ledger),
        }
    }

    /// The same, which may be ready later.
    pub(super) fn slack(mut self, slack_ns: u64) -> Self {
        let slack = Duration::from_nanos(slack_ns);
        self.window = Window::with_slack(self.window.from_ns, slack);
        self
    }

    /// The same, which is due at a time at which others are due too.
    pub(super) fn with_others(mut self) -> Self {
        self.window = Window::at(self.window.from_ns.next_multiple_of(TOGETHER_NS));
        self
    }

    fn unfired(&self) -> Poll<bool> {
        self.ledger.note_unfired();
        Poll::Ready(false)
    }

    /// A sleep until then, by the workers' clock.
    pub(super) fn until(workers: &Workers<BUG>, worker: usize, window: impl Into<Window>) -> Self {
        Sleep {
            window: window.into(),
            ..Sleep::new(workers, worker, 0)
        }
    }
}

impl<const BUG: u8> Future for Sleep<BUG> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            if self.timer.is_none() {
                match RawTimer::arm(&self.remote, self.window, cx.waker()) {
                    Ok(timer) => self.timer = Some(timer),
                    Err(_) => return self.unfired(),
                }
            }
            let polled = self.timer.as_mut().map(|timer| timer.poll(cx));
            match polled {
                None | Some(Polled::Elsewhere) => self.timer = None,
                Some(Polled::Pending) => return Poll::Pending,
                Some(Polled::Ready(Fired::WorkerGone)) => return self.unfired(),
                Some(Polled::Ready(Fired::Due)) => {
                    let stands = self.clock.is_frozen();
                    self.ledger
                        .note_timer(self.window, self.clock.now_ns(), stands);
                    return Poll::Ready(true);
                }
            }
        }
    }
}
