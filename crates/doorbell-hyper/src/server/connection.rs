//! The task of a connection.

use super::accept::Open;
use super::alarm::{Alarm, Times, Verdict};
use super::in_flight::Counting;
use super::progress::{Progress, ServerIo};
use super::protocol::{Protocol, Settings};
use super::tasks::Tasks;
use async_lock::{OnceCell, SemaphoreGuardArc};
use doorbell::net::TcpStream;
use hyper::body::{Body, Incoming};
use hyper::service::{HttpService, Service};
use hyper::{Request, Response};
use pin_project_lite::pin_project;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What the connections of a server share.
#[derive(Debug)]
pub(super) struct Shared {
    settings: Settings,
    times: Times,
    tasks: Tasks,
    /// Set when the connections are to end as soon as no request is in flight.
    stop: OnceCell<()>,
    /// Set when they are to end at once.
    cut: OnceCell<()>,
}

impl Shared {
    pub(super) fn new(times: Times, tasks: Tasks, half_close: bool) -> Arc<Self> {
        Arc::new(Shared {
            settings: Settings::new(tasks, half_close),
            times,
            tasks,
            stop: OnceCell::new(),
            cut: OnceCell::new(),
        })
    }

    /// How they are spawned.
    pub(super) fn tasks(&self) -> Tasks {
        self.tasks
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

    /// Ready when one of the two is set.
    fn when(self: &Arc<Self>, which: fn(&Shared) -> &OnceCell<()>) -> Told {
        let shared = Arc::clone(self);
        Box::pin(async move {
            which(&shared).wait().await;
        })
    }
}

/// Ready when the connection is told to end.
type Told = Pin<Box<dyn Future<Output = ()> + Send>>;

pin_project! {
    /// A connection that is served until it ends: the future of its task. There are as many of it as of
    /// idle clients, so it is written by hand: of what an `async fn` is called with it keeps two copies.
    pub(super) struct Connection<S>
    where
        S: HttpService<Incoming>,
    {
        #[pin]
        protocol: Protocol<S>,
        alarm: Alarm,
        leaves: bool,
        // Who is woken by `stop`: a task's waker stays the same, so that one look at it is enough.
        woken: Option<Waker>,
        // By `stop`, and once that has come, by `cut`.
        told: Option<Told>,
        awaits_cut: bool,
        shared: Arc<Shared>,
        // Behind all that is open with it.
        _open: Open,
    }
}

impl<S, B> Connection<Counting<S>>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    pub(super) fn new(
        shared: Arc<Shared>,
        stream: TcpStream,
        permit: Option<SemaphoreGuardArc>,
        service: S,
        open: Open,
    ) -> Self {
        let progress = Progress::new();
        let io = ServerIo::new(stream, Arc::clone(&progress), permit);
        let service = Counting::new(service, Arc::clone(&progress));
        Connection {
            protocol: Protocol::new(io, service),
            alarm: Alarm::new(progress),
            leaves: false,
            woken: None,
            told: None,
            awaits_cut: false,
            shared,
            _open: open,
        }
    }
}

impl<S, B> Future for Connection<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let shared = this.shared;
        loop {
            if shared.cut.is_initialized() {
                return Poll::Ready(());
            }
            let stopped = shared.stop.is_initialized();
            if stopped && !*this.leaves {
                *this.leaves = true;
                this.alarm.leaves();
                this.protocol.as_mut().graceful_shutdown();
            }
            if this.protocol.as_mut().poll(cx, &shared.settings).is_ready() {
                return Poll::Ready(());
            }
            let known = this.woken.as_ref();
            let known = known.is_some_and(|it| it.will_wake(cx.waker()));
            if !known {
                this.alarm.rearm();
            }
            match this.alarm.poll(cx, shared.times) {
                Verdict::Wait => {}
                Verdict::Drop => return Poll::Ready(()),
                Verdict::Close => {
                    *this.leaves = true;
                    this.alarm.leaves();
                    this.protocol.as_mut().graceful_shutdown();
                    continue;
                }
            }
            if stopped {
                if !std::mem::replace(this.awaits_cut, true) {
                    *this.told = None;
                }
                let cut = || shared.when(|it| &it.cut);
                return this.told.get_or_insert_with(cut).as_mut().poll(cx);
            }
            if !known {
                *this.woken = Some(cx.waker().clone());
                let stop = || shared.when(|it| &it.stop);
                let stop = this.told.get_or_insert_with(stop);
                if stop.as_mut().poll(cx).is_ready() {
                    continue;
                }
            }
            return Poll::Pending;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use hyper::body::Bytes;
    use hyper::service::service_fn;
    use std::convert::Infallible;

    /// Bytes of the task that serves with such a service.
    fn size<S, B>(_: &S) -> usize
    where
        S: Service<Request<Incoming>, Response = Response<B>>,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body,
    {
        size_of::<Connection<Counting<S>>>()
    }

    #[test]
    fn the_task_of_a_connection_is_small() {
        let hello = service_fn(async |_: Request<Incoming>| {
            let body = Full::new(Bytes::from("hello, world"));
            Ok::<_, Infallible>(Response::new(body))
        });
        let size = size(&hello);
        // Most of it is of hyper.
        assert!(size <= 1_024, "it has {size} bytes");
    }
}
