//! [`Handed`]: the body of an answer, which a task of another class may produce.

use super::chain::Rest;
use super::handed::{BoxError, HandlerError};
use super::handler::Handler;
use crate::ending::Ending;
use hyper::body::{Body, Buf, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pin_project! {
    /// The body of an answer: either the handler's own body, or one that the handler's task sends frame by
    /// frame.
    pub struct Handed<B: Body> {
        #[pin]
        way: Way<B, B::Data>,
        ending: Ending,
    }
}

pin_project! {
    #[project = WayParts]
    enum Way<B, D> {
        Here { #[pin] body: B },
        // Boxed: hyper moves each answer several times, and most have a body of the other kind.
        Elsewhere { sent: Box<Sent<D>> },
    }
}

/// What the handler's task has sent, and will send.
struct Sent<D> {
    first: Option<Frame<D>>,
    hint: SizeHint,
    rest: Option<Rest<D>>,
    handler: Option<Handler>,
}

impl<B: Body> fmt::Debug for Handed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handed").finish_non_exhaustive()
    }
}

impl<B: Body> Handed<B> {
    pub(super) fn here(body: B) -> Self {
        Handed {
            way: Way::Here { body },
            ending: Ending::default(),
        }
    }

    /// A body that the handler's task sends: its first frame, if that is there, and then `rest`. `hint` is
    /// the size of the whole body.
    pub(super) fn elsewhere(
        first: Option<Frame<B::Data>>,
        hint: SizeHint,
        rest: Option<Rest<B::Data>>,
        handler: Handler,
    ) -> Self {
        // Without a rest, the task is about to end by itself.
        let handler = if rest.is_some() {
            Some(handler)
        } else {
            handler.let_go();
            None
        };
        Handed {
            way: Way::Elsewhere {
                sent: Box::new(Sent {
                    first,
                    hint,
                    rest,
                    handler,
                }),
            },
            ending: Ending::default(),
        }
    }
}

impl<B> Body for Handed<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = HandlerError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, HandlerError>>> {
        let this = self.project();
        let sent = match this.way.project() {
            WayParts::Here { body } => {
                let frame = ready!(this.ending.note(body.poll_frame(cx), cx));
                let failed = |error: B::Error| HandlerError::Failed(error.into());
                return Poll::Ready(frame.map(|frame| frame.map_err(failed)));
            }
            WayParts::Elsewhere { sent } => sent,
        };
        if let Some(frame) = sent.first.take() {
            reduce(&mut sent.hint, &frame);
            return Poll::Ready(Some(Ok(frame)));
        }
        let Some(receiver) = &mut sent.rest else {
            return Poll::Ready(None);
        };
        let next = ready!(this.ending.note(receiver.poll_next(cx), cx));
        if let Some(Ok(frame)) = &next {
            reduce(&mut sent.hint, frame);
        } else {
            // The task has sent its last frame, and ends by itself.
            sent.rest = None;
            if let Some(handler) = sent.handler.take() {
                handler.let_go();
            }
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        match &self.way {
            Way::Here { body } => body.is_end_stream(),
            Way::Elsewhere { sent } => sent.first.is_none() && sent.rest.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.way {
            Way::Here { body } => body.size_hint(),
            Way::Elsewhere { sent } => sent.hint,
        }
    }
}

/// Subtracts a frame from the size that is left.
fn reduce<D: Buf>(hint: &mut SizeHint, frame: &Frame<D>) {
    let Some(data) = frame.data_ref() else { return };
    let given = data.remaining() as u64;
    let mut left = SizeHint::new();
    left.set_lower(hint.lower().saturating_sub(given));
    if let Some(upper) = hint.upper() {
        left.set_upper(upper.saturating_sub(given));
    }
    *hint = left;
}

#[cfg(test)]
mod tests {
    use super::Handed;
    use crate::ending::tests::Wakes;
    use http_body_util::StreamBody;
    use hyper::body::{Body as _, Bytes, Frame};
    use std::io;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Context;

    #[test]
    fn a_body_that_had_its_connection_wait_wakes_it_at_its_end() {
        let wakes = Arc::<Wakes>::default();
        let waker = Arc::clone(&wakes).into();
        {
            let never = futures::stream::pending::<io::Result<Frame<Bytes>>>();
            let mut body = pin!(Handed::here(StreamBody::new(never)));
            let polled = body.as_mut().poll_frame(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            assert_eq!(wakes.count(), 0);
        }
        assert_eq!(wakes.count(), 1);
    }
}
