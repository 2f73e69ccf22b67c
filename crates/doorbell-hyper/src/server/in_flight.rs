//! [`Counting`]: a service whose requests count as in flight until hyper has taken their answers.

use super::progress::{Phase, Progress};
use super::request_body::RequestBody;
use crate::ending::Ending;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::{Method, Request, Response, Version};
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The service of a connection, which counts its requests in flight.
#[derive(Debug)]
pub(super) struct Counting<S> {
    service: S,
    progress: Arc<Progress>,
}

impl<S> Counting<S> {
    pub(super) fn new(service: S, progress: Arc<Progress>) -> Self {
        Counting { service, progress }
    }
}

impl<S, B> Service<Request<Incoming>> for Counting<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>>,
{
    type Response = Response<InFlight<B>>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.progress.set(match request.version() {
            Version::HTTP_2 => Phase::Busy2,
            _ => Phase::Busy,
        });
        let may_tunnel = request.method() == Method::CONNECT;
        Answering {
            may_tunnel: may_tunnel && request.version() == Version::HTTP_2,
            progress: Some(Arc::clone(&self.progress)),
            answer: Box::pin(self.service.call(request.map(RequestBody::new))),
        }
    }
}

pin_project! {
    /// The future of a handler's answer.
    #[derive(Debug)]
    pub(super) struct Answering<F> {
        // Boxed: hyper keeps room for this future even while no request is in flight.
        answer: Pin<Box<F>>,
        // `None` once the body has it.
        progress: Option<Arc<Progress>>,
        may_tunnel: bool,
    }
}

impl<F, B, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<InFlight<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.answer.as_mut().poll(cx))?;
        let progress = this.progress.take();
        let is_tunnel = *this.may_tunnel && answer.status().is_success();
        if let Some(progress) = progress.as_ref().filter(|_| is_tunnel) {
            progress.tunnels();
        }
        Poll::Ready(Ok(answer.map(|body| InFlight {
            body,
            ending: Ending::default(),
            _progress: progress,
        })))
    }
}

pin_project! {
    /// The body of an answer. Its request is in flight until this is dropped.
    #[derive(Debug)]
    pub(super) struct InFlight<B> {
        #[pin]
        body: B,
        ending: Ending,
        _progress: Option<Arc<Progress>>,
    }
}

impl<B: Body> Body for InFlight<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        this.ending.note(this.body.poll_frame(cx), cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
