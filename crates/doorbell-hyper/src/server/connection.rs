//! The task of a connection.

use super::alarm::{Alarm, Verdict};
use super::in_flight::Counting;
use super::limits::Limits;
use super::open::{Open, OpenTask};
use super::progress::Progress;
use super::protocol::{Protocol, Settings};
use super::request_body::RequestBody;
use super::server_io::ServerIo;
use super::tasks::ServerExecutor;
use super::{ConnectionInfo, Transport};
use async_lock::OnceCell;
use crossbeam_utils::atomic::AtomicCell;
use doorbell::time::{Duration, Instant};
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
    limits: Limits,
    start: Instant,
    open: Open,
    /// Set when each connection must end as soon as it has no request in flight.
    stop: OnceCell<()>,
    /// Set when every connection must end at once.
    cut: OnceCell<()>,
    /// Number of connections, and of requests over HTTP/2, that were dropped in flight for reaching a limit.
    timed_out: AtomicCell<u64>,
    /// Number of connections among them that were dropped after `stop` was set.
    cut_early: AtomicCell<u64>,
}

impl Shared {
    pub(super) fn new(limits: Limits, settings: Settings) -> Arc<Self> {
        Arc::new(Shared {
            settings,
            limits,
            start: Instant::now(),
            open: Open::default(),
            stop: OnceCell::new(),
            cut: OnceCell::new(),
            timed_out: AtomicCell::new(0),
            cut_early: AtomicCell::new(0),
        })
    }

    pub(super) fn open(&self) -> &Open {
        &self.open
    }

    /// Whether each request has what is known of its connection in its extensions.
    pub(super) fn tells_requests(&self) -> bool {
        self.settings.connection_info
    }

    /// The time in milliseconds since the server began.
    pub(super) fn millis(&self, now: Instant) -> u64 {
        u64::try_from((now - self.start).as_millis()).unwrap_or(u64::MAX)
    }

    /// The moment of [`Shared::millis`].
    pub(super) fn instant(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    /// Whether [`Shared::stop`] was called.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_initialized()
    }

    /// Waits until [`Shared::stop`] is called.
    pub(super) async fn stopped(&self) {
        self.stop.wait().await;
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Notes that something in flight was dropped for reaching a limit.
    pub(super) fn limit_reached(&self) {
        self.timed_out.fetch_add(1);
    }

    /// Notes that a connection was dropped with its requests in flight for reaching a limit.
    fn connection_limit_reached(&self) {
        self.limit_reached();
        if self.stop.is_initialized() {
            self.cut_early.fetch_add(1);
        }
    }

    /// Number of connections that were dropped after [`Shared::stop`] for reaching a limit.
    pub(super) fn cut_early(&self) -> u64 {
        self.cut_early.load()
    }

    /// How often [`Shared::limit_reached`] was called.
    pub(super) fn timed_out(&self) -> u64 {
        self.timed_out.load()
    }

    /// Tells each connection to end as soon as it has no request in flight.
    pub(super) fn stop(&self) {
        // An error says that it is set already.
        let _ = self.stop.set_blocking(());
    }

    /// Tells every connection to end at once.
    pub(super) fn cut(&self) {
        let _ = self.cut.set_blocking(());
        self.stop();
    }

    /// Ready when `stop` or `cut` is set; `which` chooses.
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
    /// The future of a connection's task. It is written by hand, since each idle client has one: an `async
    /// fn` would keep two copies of its arguments.
    pub(super) struct Connection<S, T>
    where
        S: HttpService<Incoming>,
        T: Transport,
    {
        #[pin]
        protocol: Protocol<S, T>,
        alarm: Alarm,
        leaves: bool,
        // The waker that `told` wakes for `stop`. While the task's waker stays the same, `told` is not polled
        // again.
        woken: Option<Waker>,
        // Waits for `stop`, and after that for `cut`.
        told: Option<Told>,
        awaits_cut: bool,
        shared: Arc<Shared>,
        // Last, so that everything else of the connection is dropped before it.
        _open: OpenTask,
    }
}

impl<S, T, B> Connection<Counting<S>, T>
where
    T: Transport,
    S: Service<Request<RequestBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    pub(super) fn new(
        shared: Arc<Shared>,
        io: T,
        progress: Arc<Progress>,
        service: S,
        info: ConnectionInfo,
    ) -> Self {
        let open = OpenTask::new(Arc::clone(&progress));
        let io = ServerIo::new(io, Arc::clone(&progress));
        let info = shared.tells_requests().then_some(info);
        let service = Counting::new(service, &progress, info);
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

impl<S, T, B> Future for Connection<S, T>
where
    T: Transport,
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
            let executor = || ServerExecutor {
                progress: Arc::clone(this.alarm.progress()),
            };
            let protocol = this.protocol.as_mut();
            if protocol.poll(cx, &shared.settings, executor).is_ready() {
                return Poll::Ready(());
            }
            this.alarm.progress().polled();
            let known = this.woken.as_ref();
            let known = known.is_some_and(|it| it.will_wake(cx.waker()));
            if !known {
                this.alarm.rearm();
                this.alarm.progress().has_waker(cx.waker());
            }
            match this.alarm.poll(cx, &shared.limits) {
                Verdict::Wait => {}
                Verdict::Again => continue,
                Verdict::Drop => return Poll::Ready(()),
                Verdict::Cut => {
                    shared.connection_limit_reached();
                    return Poll::Ready(());
                }
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
    use crate::DoorbellIo;
    use http_body_util::Full;
    use hyper::body::Bytes;
    use hyper::service::service_fn;
    use std::convert::Infallible;

    /// Size in bytes of the future that serves a connection with this service.
    fn size<S, B>(_: &S) -> usize
    where
        S: Service<Request<RequestBody>, Response = Response<B>>,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body,
    {
        size_of::<Connection<Counting<S>, DoorbellIo>>()
    }

    #[test]
    fn the_task_of_a_connection_is_small() {
        let hello = service_fn(async |_: Request<RequestBody>| {
            let body = Full::new(Bytes::from("hello, world"));
            Ok::<_, Infallible>(Response::new(body))
        });
        let size = size(&hello);
        // Most of it is hyper's.
        assert!(size <= 1_024, "it has {size} bytes");
    }
}
