//! [`Counting`]: a service whose requests count as in flight until their answers are written.

use super::ConnectionInfo;
use super::progress::{InFlight, Phase, Piece, Progress};
use super::request_body::{Answered, RequestBody};
use super::server_end::ServerEnd;
use crate::ending::Ending;
use http_body::{Body, Frame, SizeHint};
use hyper::body::{Buf, Bytes, Incoming};
use hyper::service::Service;
use hyper::{Request, Response, Version};
use pin_project_lite::pin_project;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The service of a connection, which counts its requests in flight.
#[derive(Debug)]
pub(super) struct Counting<S> {
    service: S,
    progress: Arc<Progress>,
    info: ConnectionInfo,
}

impl<S> Counting<S> {
    pub(super) fn new(service: S, progress: Arc<Progress>, info: ConnectionInfo) -> Self {
        Counting {
            service,
            progress,
            info,
        }
    }
}

impl<S, B> Service<Request<Incoming>> for Counting<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>>,
{
    type Response = Response<Counted<B>>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.progress.begins(match request.version() {
            Version::HTTP_2 => Phase::Busy2,
            _ => Phase::Busy,
        });
        let in_flight = InFlight::new(&self.progress);
        let (mut head, incoming) = request.into_parts();
        let extensions = &mut head.extensions;
        extensions.insert(ServerEnd::new(Arc::clone(&self.progress)));
        extensions.insert(self.info.clone());
        #[cfg(feature = "axum")]
        if let Some(peer) = self.info.peer_addr() {
            extensions.insert(axum::extract::ConnectInfo(peer));
        }
        let (body, answered) = RequestBody::new(incoming, self.progress.shared().limits());
        Answering {
            in_flight: Some(in_flight),
            answered,
            answer: Box::pin(self.service.call(Request::from_parts(head, body))),
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
        in_flight: Option<InFlight>,
        answered: Option<Answered>,
    }
}

impl<F, B, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<Counted<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.answer.as_mut().poll(cx))?;
        if let Some(answered) = this.answered {
            answered.set();
        }
        let in_flight = this.in_flight.take();
        Poll::Ready(Ok(answer.map(|body| Counted {
            body,
            ending: Ending::default(),
            in_flight,
        })))
    }
}

pin_project! {
    /// The body of an answer. Its request is in flight until this and its data are dropped.
    #[derive(Debug)]
    pub(super) struct Counted<B> {
        #[pin]
        body: B,
        ending: Ending,
        in_flight: Option<InFlight>,
    }
}

impl<B: Body> Body for Counted<B> {
    type Data = Owed<B::Data>;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Owed<B::Data>>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.ending.note(this.body.poll_frame(cx), cx));
        let owed = |data| Owed {
            data,
            piece: this.in_flight.as_ref().map(InFlight::piece),
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(owed))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Data of an answer. hyper and h2 hold it until they have written it, which may be long after the end of the
/// answer's body.
#[derive(Debug)]
pub(super) struct Owed<D> {
    data: D,
    piece: Option<Piece>,
}

impl<D: Buf> Buf for Owed<D> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        if let Some(piece) = &self.piece {
            piece.advance(count);
        }
        self.data.advance(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        if let Some(piece) = &self.piece {
            piece.advance(count);
        }
        self.data.copy_to_bytes(count)
    }
}
