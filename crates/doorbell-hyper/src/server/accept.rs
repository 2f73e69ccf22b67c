//! The task that accepts.

use super::connection::{Connection, Shared};
use super::error::{AfterRefusal, ServeError, Served};
use super::idle::Idle;
use super::open::Open;
use super::progress::Progress;
use super::request_body::RequestBody;
use super::{ConnectionInfo, Listener};
use doorbell::time::{sleep, timeout};
use hyper::body::Body;
use hyper::service::Service;
use hyper::{Request, Response};
use std::error::Error;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The pause after the first refusal of the OS. It doubles with each further refusal.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// So many failures in a row that each concern one connection are skipped at once. Behind them comes a pause, so that a
/// listener that always fails takes a small part of a CPU only.
const SKIPPED: u32 = 32;
/// That pause.
const SKIP_PAUSE: Duration = Duration::from_millis(1);

/// After so many calls of the listener other tasks have their turn. Another task then wakes this one: a task that yields, as
/// it does when its budget is used up, runs behind all that computes. So does one whose polls are long, and a poll that
/// accepts more connections than these would be.
const IN_A_ROW: u32 = 4;

/// How long a connection that was asked to make room may take before the next one is asked.
const ROOM: Duration = Duration::from_millis(250);

/// How long to wait for connections that were cut. Their tasks end at once, except those inside a poll.
const CUT: Duration = Duration::from_secs(1);

/// Ready when the server must end.
pub(super) type Signal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Accepts the connections of a server.
pub(super) struct Acceptor<L, F> {
    pub(super) listener: L,
    pub(super) make_service: F,
    pub(super) shared: Arc<Shared>,
    pub(super) limit: Option<NonZeroUsize>,
    pub(super) idle: Idle,
    pub(super) signal: Option<Signal>,
    pub(super) drain_timeout: Duration,
}

impl<L, F, S, B> Acceptor<L, F>
where
    L: Listener,
    F: Fn(&ConnectionInfo) -> S + Send + 'static,
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
        let waits = self.accept(&mut served).await?;
        // Counted before a client can see that the server ends.
        let were = self.shared.open().sockets();
        drop((waits, self.listener));
        drain(&self.shared, were, self.drain_timeout, &mut served).await;
        Ok(served)
    }

    /// Accepts until the signal. Returns the connection that still waited for room then.
    async fn accept(&mut self, served: &mut Served) -> Result<Option<L::Io>, ServeError> {
        let (mut pause, mut skipped) = (PAUSE_MIN, 0);
        let mut row = 0;
        loop {
            // A listener of one's own may be ready without end.
            if row == IN_A_ROW {
                row = 0;
                // Not a timer: a clock that stands would end no such pause.
                let _ = doorbell::spawn(async {}).await;
            }
            row += 1;
            let error = match unless(&mut self.signal, self.listener.accept()).await {
                None => return Ok(None),
                Some(Ok((io, info))) => {
                    if self.room().await.is_none() {
                        return Ok(Some(io));
                    }
                    self.begin(io, info);
                    served.accepted += 1;
                    (pause, skipped) = (PAUSE_MIN, 0);
                    continue;
                }
                Some(Err(error)) => error,
            };
            let after = AfterRefusal::of(&error);
            match after {
                AfterRefusal::Next if skipped + 1 < SKIPPED => skipped += 1,
                AfterRefusal::Next => {
                    skipped = 0;
                    if unless(&mut self.signal, sleep(SKIP_PAUSE)).await.is_none() {
                        return Ok(None);
                    }
                }
                AfterRefusal::MakeRoom | AfterRefusal::Pause => {
                    // Without descriptors an accept is refused also where no connection waits.
                    let waits = self.listener.has_waiting().unwrap_or(true);
                    served.refused += u64::from(waits);
                    let needs_room = waits && after == AfterRefusal::MakeRoom;
                    if self.pause(pause, needs_room).await.is_none() {
                        return Ok(None);
                    }
                    pause = PAUSE_MAX.min(pause * 2);
                }
                AfterRefusal::RuntimeEnded => return Err(ServeError::RuntimeEnded),
                AfterRefusal::End => return Err(ServeError::Listener(error)),
            }
        }
    }

    /// Starts a connection.
    fn begin(&mut self, io: L::Io, info: ConnectionInfo) {
        let shared = Arc::clone(&self.shared);
        let progress = Progress::new(Arc::clone(&shared));
        self.idle
            .add(Arc::clone(&progress), shared.open().sockets());
        info.set_server(Arc::clone(&shared));
        let service = (self.make_service)(&info);
        let connection = Connection::new(shared, io, progress, service, info);
        drop(doorbell::spawn(connection));
    }

    /// Waits until one more connection may be open, for which idle ones must go. `None` if the signal came
    /// first.
    async fn room(&mut self) -> Option<()> {
        let Some(limit) = self.limit else {
            return Some(());
        };
        let shared = Arc::clone(&self.shared);
        let is_room = |open: &Open| open.sockets() < limit.get();
        while !is_room(shared.open()) {
            self.ask_for_room();
            let room = timeout(ROOM, shared.open().until(is_room));
            // An error says that the time is over: ask the next one.
            let _ = unless(&mut self.signal, room).await?;
        }
        shared.open().want_room(false);
        Some(())
    }

    /// Waits until a connection is closed, for which an idle one must go if `needs_room`. If none goes, waits for
    /// that time at most. `None` if the signal came first.
    async fn pause(&mut self, time: Duration, needs_room: bool) -> Option<()> {
        let shared = Arc::clone(&self.shared);
        let closed = shared.open().closed();
        let is_asked = needs_room && self.ask_for_room();
        let time = if is_asked { ROOM } else { time };
        let gone = timeout(time, shared.open().until(|open| open.closed() != closed));
        let _ = unless(&mut self.signal, gone).await?;
        shared.open().want_room(false);
        Some(())
    }

    /// Asks the connection to go that has been idle for the longest time, or else the next one that will be.
    /// Returns whether there is an idle one.
    fn ask_for_room(&mut self) -> bool {
        let is_asked = self.idle.ask_oldest();
        self.shared.open().want_room(!is_asked);
        is_asked
    }
}

/// Tells the connections, which were so many at the signal, to end, and drops those that do not end in time.
async fn drain(shared: &Shared, were: usize, drain_timeout: Duration, served: &mut Served) {
    let open = shared.open();
    shared.stop();
    let all = open.until(|open| open.tasks() == 0 && open.sockets() == 0);
    if timeout(drain_timeout, all).await.is_err() {
        let tasks = open.tasks();
        served.outlived = open.sockets().saturating_sub(tasks) as u64;
        served.cut = tasks as u64;
        shared.cut();
        // A connection inside a poll ends after it.
        let _ = timeout(CUT, open.until(|open| open.tasks() == 0)).await;
    }
    served.cut += shared.cut_early();
    served.drained = (were as u64).saturating_sub(served.cut + served.outlived);
    served.timed_out = shared.timed_out();
}

/// The output of the future; `None` if the signal came first.
async fn unless<T>(signal: &mut Option<Signal>, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Some(signal) = signal.as_mut()
            && signal.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        future.as_mut().poll(cx).map(Some)
    })
    .await
}
