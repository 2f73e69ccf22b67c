//! [`ClassServer`].

use super::{ServeError, Served, Server};
use crate::ByClass;
use crate::classes::ClassOf;
use doorbell::Class;
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A server whose requests are answered each in the class of its route: see [`Server::classes`].
#[must_use = "nothing is served before `serve` is awaited"]
pub struct ClassServer {
    server: Server,
    class_of: Arc<ClassOf>,
}

impl fmt::Debug for ClassServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassServer")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Each request's handler runs in the class that this tells from the request's head, as with
    /// [`ByClass`]. Connections have the class of the caller, mostly Fair: handlers of that class run in the
    /// connection's task.
    ///
    /// Connections, and the task that accepts, are [rescuable](doorbell::rescue): while the Fair worker of a core is
    /// stuck in long polls, its urgent worker accepts, reads, parses and writes for them, until that worker, its urgent
    /// handlers included, has run three tenths of the time. So an urgent route is answered while all workers of Fair
    /// compute. `make_service` and the clone of a service may run there, too: they should do no more than copy.
    ///
    /// The workers of class Rt begin before the first connection is accepted. Those of class Batch
    /// begin with its first request, as [`ByClass`] says, or before by
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
        mut self,
        class_of: impl Fn(&Request<Incoming>) -> Class + Send + Sync + 'static,
    ) -> ClassServer {
        self.rescuable = true;
        ClassServer {
            server: self,
            class_of: Arc::new(class_of),
        }
    }
}

impl ClassServer {
    /// As [`Server::serve`]. A handler of another class has a clone of its connection's service.
    ///
    /// # Errors
    /// As for [`Server::serve`].
    ///
    /// # Panics
    /// If `make_service` does.
    pub async fn serve<F, S, B>(self, make_service: F) -> Result<Served, ServeError>
    where
        F: Fn() -> S + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    {
        let class_of = self.class_of;
        let by_class = move || ByClass::shared(make_service(), Arc::clone(&class_of));
        self.server.serve(by_class).await
    }

    /// As [`Server::serve_tower`].
    ///
    /// # Errors
    /// As for [`Server::serve`].
    #[cfg(feature = "tower")]
    pub async fn serve_tower<S, B>(self, service: S) -> Result<Served, ServeError>
    where
        S: tower_service::Service<Request<Incoming>, Response = Response<B>>
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
