//! The task that accepts.

use super::connection::{Connection, Shared};
use super::error::{AfterRefusal, ServeError, Served};
use super::request_body::RequestBody;
use async_lock::Semaphore;
use doorbell::net::TcpListener;
use doorbell::rescue;
use doorbell::time::{sleep, timeout};
use futures_channel::oneshot;
use hyper::body::Body;
use hyper::service::Service;
use hyper::{Request, Response};
use std::error::Error;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The pause after the first refusal of the OS. It doubles with each further refusal.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long to wait for connections that were cut. Their tasks end at once, except those inside a poll.
const CUT: Duration = Duration::from_secs(1);

/// Ready when the server must end.
pub(super) type Signal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Accepts the connections of a server.
pub(super) struct Acceptor<F> {
    pub(super) listener: TcpListener,
    pub(super) make_service: F,
    pub(super) shared: Arc<Shared>,
    pub(super) limit: Option<Arc<Semaphore>>,
    pub(super) signal: Option<Signal>,
    pub(super) drain_timeout: Duration,
}

impl<F, S, B> Acceptor<F>
where
    F: Fn() -> S + Send + 'static,
    S: Service<Request<RequestBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Accepts until the signal, then waits for the open connections.
    pub(super) async fn run(mut self) -> Result<Served, ServeError> {
        let mut served = Served::default();
        let (open, gone) = oneshot::channel();
        let open = Arc::new(open);
        self.accept(&open, &mut served).await?;
        drop(self.listener);
        drain(&self.shared, open, gone, self.drain_timeout, &mut served).await;
        Ok(served)
    }

    /// Accepts until the signal. Each connection has a share of `open`.
    async fn accept(&mut self, open: &Open, served: &mut Served) -> Result<(), ServeError> {
        let mut pause = PAUSE_MIN;
        loop {
            let permit = match &self.limit {
                None => None,
                Some(limit) => match unless(&mut self.signal, limit.acquire_arc()).await {
                    Some(permit) => Some(permit),
                    None => return Ok(()),
                },
            };
            let error = match unless(&mut self.signal, self.listener.accept()).await {
                None => return Ok(()),
                Some(Ok((stream, _))) => {
                    // A failure only makes answers slower.
                    let _ = stream.set_nodelay(true);
                    let shared = Arc::clone(&self.shared);
                    let tasks = shared.tasks();
                    let service = (self.make_service)();
                    let open = Arc::clone(open);
                    let connection = Connection::new(shared, stream, permit, service, open);
                    tasks.spawn(connection);
                    served.accepted += 1;
                    pause = PAUSE_MIN;
                    continue;
                }
                Some(Err(error)) => error,
            };
            match AfterRefusal::of(&error) {
                AfterRefusal::Next => {}
                AfterRefusal::Pause => {
                    served.refused += 1;
                    if unless(&mut self.signal, sleep(pause)).await.is_none() {
                        return Ok(());
                    }
                    pause = PAUSE_MAX.min(pause * 2);
                }
                AfterRefusal::RuntimeEnded => return Err(ServeError::RuntimeEnded),
                AfterRefusal::End => return Err(ServeError::Listener(error)),
            }
        }
    }
}

/// Each connection has a share of this. The receiver is woken when the last share is dropped.
pub(super) type Open = Arc<oneshot::Sender<()>>;

/// Tells the connections to end, and drops those that do not end in time.
async fn drain(
    shared: &Shared,
    open: Open,
    mut gone: oneshot::Receiver<()>,
    drain_timeout: Duration,
    served: &mut Served,
) {
    let left = Arc::downgrade(&open);
    let were = left.strong_count() as u64 - 1;
    drop(open);
    shared.stop();
    if timeout(drain_timeout, &mut gone).await.is_err() {
        served.cut = left.strong_count() as u64;
        shared.cut();
        // A connection inside a poll ends after it.
        let _ = timeout(CUT, &mut gone).await;
    }
    served.cut += shared.cut_early();
    served.drained = were - served.cut.min(were);
    served.timed_out = shared.timed_out();
}

/// The output of the future; `None` if the signal came first. A rescue does not poll the signal, which is
/// user code.
async fn unless<T>(signal: &mut Option<Signal>, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let is_rescue = rescue::is_under_way();
        if let Some(signal) = signal.as_mut().filter(|_| !is_rescue)
            && signal.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        let polled = future.as_mut().poll(cx).map(Some);
        if polled.is_pending() && is_rescue && signal.is_some() {
            // The signal may have woken the task: leave its poll to the task's own workers.
            rescue::decline(cx);
        }
        polled
    })
    .await
}
