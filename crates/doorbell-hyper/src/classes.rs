//! [`ByClass`]: the handler of each request runs in the class of its route.

mod body;
mod chain;
mod handed;
mod handler;

pub use body::Handed;
pub use handed::{Answering, HandlerError};

use crate::RequestBody;
use doorbell::Class;
use hyper::body::Body;
use hyper::service::Service;
use hyper::{Request, Response};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A service that runs the handler of each request in the class of its route. An urgent request then does not
/// wait for the computations of others, on the same port and listener.
///
/// `class_of` returns the class of a request from its head. If the class is of the connection's kind (Rt,
/// Fair or Batch), the handler runs in the connection's task over HTTP/1, and in the task that hyper makes for
/// each request over HTTP/2, as without `ByClass`; the numbers of two Rt classes do not matter. Otherwise the
/// handler runs in a task of its own, which also produces the body of the answer, a frame when hyper asks for it. A stream whose client takes nothing holds one frame of its
/// answer, as on routes of the connection's class and as with tokio. If the connection ends before the answer
/// is complete, that task is aborted at its next `await`.
///
/// Contract: *a handler's class is of another kind than its connection's ⇒ it runs on workers of its class
/// only; the connection's worker only reads, parses and writes for it, and never waits for it.* Not covered:
/// - An urgent request is read, and its answer is written, by the connection's task. If a worker of the
///   connection's class is inside a long poll, that takes until the poll ends, or until another worker of that
///   class takes the task ([`Server::classes`](crate::Server::classes) says when).
/// - Over HTTP/2 the requests of one connection share a lock of `h2`. A handler takes it briefly when it
///   reads or drops its request's body, and may lose its CPU while it has the lock.
/// - When a client goes away, the drop of its handler or answer may run on the connection's worker.
///
/// If the workers of a class have not been started, its first request makes a Fair worker start them. The
/// other tasks of that Fair worker wait meanwhile; the connections of other workers do not. To start them
/// earlier, call [`Handle::open_class`](doorbell::Handle::open_class).
///
/// ```
/// use doorbell::Class;
/// use doorbell_hyper::{ByClass, RequestBody};
/// # use http_body_util::Full;
/// # use hyper::body::Bytes;
/// # use hyper::{Request, Response, service::service_fn};
/// # use std::convert::Infallible;
///
/// let answer = service_fn(async |_: Request<RequestBody>| {
///     Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("computed"))))
/// });
/// let service = ByClass::new(answer, |request: &Request<RequestBody>| match request.uri().path() {
///     "/healthz" => Class::rt(10),
///     "/batch" => Class::BATCH,
///     _ => Class::FAIR,
/// });
/// # drop(service);
/// ```
pub struct ByClass<S, R = RequestBody> {
    service: S,
    class_of: Arc<ClassOf<R>>,
}

/// Returns the class of a request from its head.
pub(crate) type ClassOf<R> = dyn Fn(&Request<R>) -> Class + Send + Sync;

impl<S, R> ByClass<S, R> {
    /// Wraps a service; `class_of` returns the class of a request. `class_of` and the `clone` of the service
    /// run on the worker that serves the connection. Keep both short: compare and copy, do not compute.
    pub fn new(
        service: S,
        class_of: impl Fn(&Request<R>) -> Class + Send + Sync + 'static,
    ) -> Self {
        ByClass::shared(service, Arc::new(class_of))
    }

    pub(crate) fn shared(service: S, class_of: Arc<ClassOf<R>>) -> Self {
        ByClass { service, class_of }
    }
}

impl<S: Clone, R> Clone for ByClass<S, R> {
    fn clone(&self) -> Self {
        ByClass::shared(self.service.clone(), Arc::clone(&self.class_of))
    }
}

impl<S, R> fmt::Debug for ByClass<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByClass").finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<R>> for ByClass<S, R>
where
    R: Send + 'static,
    S: Service<Request<R>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>> + Send,
{
    type Response = Response<Handed<B>>;
    type Error = HandlerError;
    type Future = Answering<S::Future, B>;

    fn call(&self, request: Request<R>) -> Self::Future {
        let class = (self.class_of)(&request);
        let is_here = doorbell::current_class().is_some_and(|here| here.kind() == class.kind());
        if is_here {
            return Answering::here(self.service.call(request));
        }
        Answering::elsewhere(class, self.service.clone(), request)
    }
}
