//! [`ClassServer`].

use super::{ConnectionInfo, Listener, RequestBody, ServeError, Served, Server};
use crate::ByClass;
use crate::classes::ClassOf;
use doorbell::net::TcpListener;
use doorbell::{Class, Handle};
use hyper::body::Body;
use hyper::service::Service;
use hyper::{Request, Response};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A server that runs the handler of each request in the class of its route: see [`Server::classes`].
#[must_use = "nothing is served before `serve` is awaited"]
pub struct ClassServer<L = TcpListener> {
    server: Server<L>,
    class_of: Arc<ClassOf<RequestBody>>,
}

impl<L: fmt::Debug> fmt::Debug for ClassServer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassServer")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl<L: Listener> Server<L> {
    /// Runs the handler of each request in the class that `class_of` returns for the request's head, as
    /// [`ByClass`] does. Connections have the class of the task that awaits the server, usually Fair.
    /// Over HTTP/1, handlers of that class run in the connection's task; over HTTP/2 each request has a task of
    /// its own in that class.
    ///
    /// An urgent handler preempts what computes, but the tasks of the connections, mostly Fair, accept the
    /// connection, read the request and write the answer. Contract, for HTTP/1: *no Fair poll takes longer than p,
    /// at most 10 ms, the last polls of the worker took more than about a microsecond, and the last four polls of
    /// the connection were short ⇒ a worker reads the request within p + 200 µs plus the time of the tasks that
    /// were ready before it, and begins to write the answer that long after the handler made it; if other tasks
    /// with short polls are always ready, each takes p, 20 µs and two of their polls longer.* The times in µs are
    /// those of a simulated machine. Over HTTP/2 each request is a new task, and waits for the first polls of the
    /// requests before it.
    ///
    /// A poll is short if it takes less than 200 µs of CPU time, or less than an eighth of the last one of a task
    /// that computes: beside handlers that compute for 5 ms, less than 0.6 ms. Tasks with short polls go in turn
    /// with the connection. A connection whose own handlers computed in place counts as long until four polls of
    /// it were short. If a Fair worker is idle, it usually takes what waits behind one that is inside a
    /// long poll. While all others sleep, sockets may wait for the end of the first long poll of a task.
    ///
    /// If urgent requests must not even wait for one poll, await the server in class Rt. Its connections then
    /// read and write there, and handlers of class Fair are tasks of their own. That costs a Fair route two
    /// wakes. All that clients send is read and parsed in class Rt, and takes that CPU time from class Fair, up to
    /// [`Builder::rt_budget`](doorbell::Builder::rt_budget). Handlers of class Rt run in place there over HTTP/1, so
    /// they must be short: one of 5 ms holds up all connections of its worker. Or serve urgent requests on a port of
    /// their own ([crate docs](crate#urgent-connections)).
    ///
    /// The workers of class Rt start before the first connection is accepted. Those of class Batch start with
    /// the first request of that class, as [`ByClass`] says. To start them earlier, call
    /// [`Handle::open_class`](doorbell::Handle::open_class).
    ///
    /// ```no_run
    /// use doorbell::{Class, Handle};
    /// use doorbell_hyper::Server;
    /// # async fn serve(listener: doorbell::net::TcpListener, router: axum::Router) {
    /// let server = Server::new(listener).classes(|request| match request.uri().path() {
    ///     "/healthz" => Class::rt(50),
    ///     "/report" => Class::BATCH,
    ///     _ => Class::FAIR,
    /// });
    /// # #[cfg(feature = "tower")]
    /// server.serve_tower(router).await.unwrap();
    /// # }
    /// ```
    pub fn classes(
        self,
        class_of: impl Fn(&Request<RequestBody>) -> Class + Send + Sync + 'static,
    ) -> ClassServer<L> {
        ClassServer {
            server: self,
            class_of: Arc::new(class_of),
        }
    }
}

impl<L: Listener> ClassServer<L> {
    /// Like [`Server::serve`]. A handler of another class runs on a clone of its connection's service.
    ///
    /// # Errors
    /// As for [`Server::serve`].
    ///
    /// # Panics
    /// If `make_service` does.
    pub async fn serve<F, S, B>(self, make_service: F) -> Result<Served, ServeError>
    where
        F: Fn() -> S + Send + 'static,
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    {
        self.serve_with(move |_| make_service()).await
    }

    /// Like [`Server::serve_with`]. A handler of another class runs on a clone of its connection's service.
    ///
    /// # Errors
    /// As for [`Server::serve`].
    ///
    /// # Panics
    /// If `make_service` does.
    pub async fn serve_with<F, S, B>(self, make_service: F) -> Result<Served, ServeError>
    where
        F: Fn(&ConnectionInfo) -> S + Send + 'static,
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    {
        Handle::try_current()?.open_class(Class::rt(1))?;
        let class_of = self.class_of;
        let by_class = move |info: &_| ByClass::shared(make_service(info), Arc::clone(&class_of));
        self.server.serve_with(by_class).await
    }

    /// Like [`Server::serve_tower`].
    ///
    /// # Errors
    /// As for [`Server::serve`].
    #[cfg(feature = "tower")]
    pub async fn serve_tower<S, B>(self, service: S) -> Result<Served, ServeError>
    where
        S: tower_service::Service<Request<RequestBody>, Response = Response<B>>
            + Clone
            + Send
            + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    {
        let make_service = move || hyper_util::service::TowerToHyperService::new(service.clone());
        self.serve(make_service).await
    }
}
