//! [`Counting`]: a service whose requests count as in flight until their answers are written.

use super::account::{Account, InFlight, Piece};
use super::progress::{Phase, Progress};
use super::request_body::{Answered, RequestBody};
use super::{ConnectionInfo, tasks};
use crate::ending::Ending;
use doorbell::coop::consume_budget;
use http_body::{Body, Frame, SizeHint};
use hyper::body::{Buf, Bytes, Incoming};
use hyper::header::HeaderMap;
use hyper::service::Service;
use hyper::{Request, Response, Version};
use pin_project_lite::pin_project;
use std::io::IoSlice;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The service of a connection, which counts its requests in flight.
#[derive(Debug)]
pub(super) struct Counting<S> {
    service: S,
    progress: Arc<Progress>,
    /// Of the answers over HTTP/1.
    account: Arc<Account>,
    /// For the extensions of each request.
    info: Option<ConnectionInfo>,
}

impl<S> Counting<S> {
    pub(super) fn new(service: S, progress: &Arc<Progress>, info: Option<ConnectionInfo>) -> Self {
        Counting {
            service,
            progress: Arc::clone(progress),
            account: Account::new(Arc::clone(progress), false),
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

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let is_two = request.version() == Version::HTTP_2;
        let phase = if is_two { Phase::Busy2 } else { Phase::Busy };
        self.progress.begins(phase);
        let in_flight = if is_two {
            InFlight::two(&self.progress)
        } else {
            InFlight::new(Arc::clone(&self.account))
        };
        if let Some(info) = &self.info {
            let extensions = request.extensions_mut();
            extensions.insert(info.clone());
            #[cfg(feature = "axum")]
            if let Some(peer) = info.peer_addr() {
                extensions.insert(axum::extract::ConnectInfo(peer));
            }
        }
        let mut answered = None;
        let request = request.map(|incoming| {
            let limits = self.progress.shared().limits();
            let (body, told) = RequestBody::new(incoming, limits);
            answered = told;
            body
        });
        let answer = Box::pin(self.service.call(request));
        if is_two {
            tasks::has_next(in_flight.clone());
        }
        Answering {
            in_flight: Some(in_flight),
            answered,
            answer,
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
        let in_flight = in_flight.expect("polled after it was ready");
        Poll::Ready(Ok(answer.map(|body| Counted {
            body,
            ending: Ending::default(),
            len: 0,
            end: None,
            in_flight,
        })))
    }
}

pin_project! {
    /// The body of an answer. Its request is in flight until this and its data are dropped.
    pub(super) struct Counted<B> {
        #[pin]
        body: B,
        ending: Ending,
        // Number of bytes of data so far.
        len: u64,
        // The end of the body, with its trailers, if hyper does not have it yet. Boxed: hyper moves an answer several
        // times.
        end: Option<Option<Box<HeaderMap>>>,
        in_flight: InFlight,
    }
}

/// What [`Body::poll_frame`] returns.
type PolledFrame<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

/// The next frame that is not empty, or the last one. hyper would at once ask for the one behind an empty frame, within
/// the same poll, and h2 would keep them all.
fn poll_whole<B: Body>(mut body: Pin<&mut B>, cx: &mut Context<'_>) -> PolledFrame<B> {
    loop {
        let frame = ready!(body.as_mut().poll_frame(cx));
        let is_empty =
            |frame: &Frame<B::Data>| frame.data_ref().is_some_and(|it| !it.has_remaining());
        let is_skipped =
            matches!(&frame, Some(Ok(frame)) if is_empty(frame)) && !body.is_end_stream();
        if !is_skipped {
            return Poll::Ready(frame);
        }
        ready!(pin!(consume_budget()).poll(cx));
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
        let account = this.in_flight.account();
        if this.end.is_none() {
            ready!(this.ending.note(account.poll_room(cx), cx));
            let frame = this.ending.note(poll_whole(this.body, cx), cx);
            let frame = match ready!(frame).transpose() {
                Ok(frame) => frame.map(Frame::into_trailers),
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            *this.end = Some(match frame {
                Some(Ok(trailers)) => Some(Box::new(trailers)),
                Some(Err(data)) => {
                    let owed = data.map_data(|data| {
                        *this.len += data.remaining() as u64;
                        let piece = this.in_flight.piece(data.remaining());
                        Owed { data, piece }
                    });
                    return Poll::Ready(Some(Ok(owed)));
                }
                None => None,
            });
        }
        ready!(this.ending.note(account.poll_end(cx, *this.len), cx));
        Poll::Ready(this.end.take().flatten().map(|it| Ok(Frame::trailers(*it))))
    }

    fn is_end_stream(&self) -> bool {
        let is_held_back = self.in_flight.account().holds_end_back(self.len);
        self.end.is_none() && self.body.is_end_stream() && !is_held_back
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
    piece: Piece,
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
        self.piece.advance(count);
        self.data.advance(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        self.piece.advance(count);
        self.data.copy_to_bytes(count)
    }
}
