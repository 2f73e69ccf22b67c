//! The task of a connection.

use super::alarm::{Alarm, Times, Verdict};
use super::budget::{Budget, BudgetedExecutor};
use super::in_flight::Counting;
use super::progress::{Progress, ServerIo};
use crate::DoorbellTimer;
use async_lock::{OnceCell, SemaphoreGuardArc};
use doorbell::net::TcpStream;
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::server::conn::auto;
use std::error::Error;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// What the connections of a server share.
#[derive(Debug)]
pub(super) struct Shared {
    hyper: auto::Builder<BudgetedExecutor>,
    times: Times,
    budget: Option<Budget>,
    /// Set when the connections are to end as soon as no request is in flight.
    stop: OnceCell<()>,
    /// Set when they are to end at once.
    cut: OnceCell<()>,
}

impl Shared {
    pub(super) fn new(times: Times, budget: Option<Budget>, half_close: bool) -> Arc<Self> {
        let mut hyper = auto::Builder::new(BudgetedExecutor(budget));
        // hyper's own starts anew, with a new timer, at each request.
        let mut http1 = hyper.http1();
        http1.timer(DoorbellTimer).header_read_timeout(None);
        http1.half_close(half_close);
        hyper.http2().timer(DoorbellTimer);
        Arc::new(Shared {
            hyper,
            times,
            budget,
            stop: OnceCell::new(),
            cut: OnceCell::new(),
        })
    }

    /// What their tasks may take.
    pub(super) fn budget(&self) -> Option<Budget> {
        self.budget
    }

    /// Tells the connections to end as soon as no request is in flight.
    pub(super) fn stop(&self) {
        // It may have been said before.
        let _ = self.stop.set_blocking(());
    }

    /// Tells the connections to end at once.
    pub(super) fn cut(&self) {
        let _ = self.cut.set_blocking(());
        self.stop();
    }
}

/// Serves a connection until it ends.
pub(super) async fn run<S, B>(
    shared: Arc<Shared>,
    stream: TcpStream,
    permit: Option<SemaphoreGuardArc>,
    service: S,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let progress = Progress::new();
    let io = ServerIo::new(stream, Arc::clone(&progress), permit);
    let service = Counting::new(service, Arc::clone(&progress));
    let mut connection = pin!(shared.hyper.serve_connection_with_upgrades(io, service));
    let mut alarm = Alarm::new(progress, shared.times);
    let mut stop = pin!(shared.stop.wait());
    let mut cut = pin!(shared.cut.wait());
    let mut leaves = false;
    // Who is woken by `stop`: a task's waker stays the same, so that one look at it is enough.
    let mut woken: Option<Waker> = None;
    poll_fn(|cx| {
        loop {
            if shared.cut.is_initialized() {
                return Poll::Ready(());
            }
            let stopped = shared.stop.is_initialized();
            if stopped && !leaves {
                leaves = true;
                alarm.leaves();
                connection.as_mut().graceful_shutdown();
            }
            // A client that goes away in the midst of a request is no concern of the server's.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let known = woken.as_ref().is_some_and(|it| it.will_wake(cx.waker()));
            if !known {
                alarm.rearm();
            }
            match alarm.poll(cx) {
                Verdict::Wait => {}
                Verdict::Drop => return Poll::Ready(()),
                Verdict::Close => {
                    leaves = true;
                    alarm.leaves();
                    connection.as_mut().graceful_shutdown();
                    continue;
                }
            }
            if stopped {
                return cut.as_mut().poll(cx).map(drop);
            }
            if !known {
                woken = Some(cx.waker().clone());
                if stop.as_mut().poll(cx).is_ready() {
                    continue;
                }
            }
            return Poll::Pending;
        }
    })
    .await;
}
