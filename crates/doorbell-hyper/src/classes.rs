//! [`ByClass`]: each request's handler runs in the class of its route.

mod body;
mod chain;
mod handed;
mod handler;

pub use body::Handed;
pub use handed::{Answering, HandlerError};

use doorbell::{Class, rescue};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A service whose handlers run each in the class of their route: what an urgent client asks for is
/// read, answered and written before what others compute, on one port, by one listener.
///
/// `class_of` tells a request's class from its head. If that is of the connection's own kind the handler runs in
/// the connection's task, as without this, whatever their numbers. Otherwise it is a task of its own, and so is
/// the body of its answer: not a line of it runs in the connection's class. If the connection ends before the
/// answer the task is aborted, at its next `await`.
///
/// While everything computes, an urgent worker may read and write for a connection ([`doorbell::rescue`]; a
/// [`Server::classes`](crate::Server::classes) has that done). Then every handler is a task of its own, and bodies
/// that the connection's own workers have begun to send wait for those.
///
/// Contract: *a handler's class is of another kind than its connection's ⇒ it runs on workers of its class only, and
/// the connection's worker does no more for it than to read, to parse and to write, and never waits for it.* And: *a
/// handler runs on workers of its class only, whichever worker serves its connection.* Not covered: over HTTP/2 the
/// requests of one connection share a lock of `h2`, which a handler takes when it reads or drops its request's body,
/// for a moment, and in which it may lose its CPU; and what is dropped of a handler, or of its answer, when its client
/// goes away.
///
/// The first request of a class whose workers have not begun has a Fair worker start them; what else that worker has
/// waits meanwhile, and connections do not. With [`Handle::open_class`](doorbell::Handle::open_class) they begin
/// before.
///
/// ```
/// use doorbell::Class;
/// use doorbell_hyper::ByClass;
/// # use http_body_util::Full;
/// # use hyper::body::{Bytes, Incoming};
/// # use hyper::{Request, Response, service::service_fn};
/// # use std::convert::Infallible;
///
/// let answer = service_fn(async |_: Request<Incoming>| {
///     Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("computed"))))
/// });
/// let service = ByClass::new(answer, |request| match request.uri().path() {
///     "/healthz" => Class::rt(10),
///     "/batch" => Class::BATCH,
///     _ => Class::FAIR,
/// });
/// # drop(service);
/// ```
pub struct ByClass<S> {
    service: S,
    class_of: Arc<ClassOf>,
}

/// Tells the class of a request from its head.
pub(crate) type ClassOf = dyn Fn(&Request<Incoming>) -> Class + Send + Sync;

impl<S> ByClass<S> {
    /// Of a service and what tells a request's class. The latter runs wherever the connection is served, also on
    /// urgent workers: it should do no more than compare. So does the clone of the service.
    pub fn new(
        service: S,
        class_of: impl Fn(&Request<Incoming>) -> Class + Send + Sync + 'static,
    ) -> Self {
        ByClass::shared(service, Arc::new(class_of))
    }

    pub(crate) fn shared(service: S, class_of: Arc<ClassOf>) -> Self {
        ByClass { service, class_of }
    }
}

impl<S: Clone> Clone for ByClass<S> {
    fn clone(&self) -> Self {
        ByClass::shared(self.service.clone(), Arc::clone(&self.class_of))
    }
}

impl<S> fmt::Debug for ByClass<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByClass").finish_non_exhaustive()
    }
}

impl<S, B> Service<Request<Incoming>> for ByClass<S>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>> + Send,
{
    type Response = Response<Handed<B>>;
    type Error = HandlerError;
    type Future = Answering<S::Future, B>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let class = (self.class_of)(&request);
        let is_here = doorbell::current_class().is_some_and(|here| here.kind() == class.kind());
        if is_here && !rescue::is_under_way() {
            return Answering::here(self.service.call(request));
        }
        Answering::elsewhere(class, self.service.clone(), request)
    }
}
