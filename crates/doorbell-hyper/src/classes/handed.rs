//! The answer of a handler that runs in another class: its head and its body.

use super::body::Handed;
use super::chain::{Frames, Heard, Rest, chain};
use super::handler::Handler;
use doorbell::{Class, SpawnError, error::NoRuntime};
use futures_channel::oneshot;
use hyper::body::{Body, Frame, SizeHint};
use hyper::service::Service;
use hyper::{Request, Response};
use pin_project_lite::pin_project;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Why a handler gave no answer, or its answer's body ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerError {
    /// The handler or the body returned this error.
    #[error(transparent)]
    Failed(BoxError),
    /// The handler's task panicked, or the runtime has ended.
    #[error("the task of the request's handler has panicked, or its runtime has ended")]
    Gone,
    /// The handler's task was not started.
    #[error("the request's handler was not started")]
    NotStarted(#[source] SpawnError),
    /// There is no runtime to start the handler's task in.
    #[error("the request's handler was not started")]
    NoRuntime(#[from] NoRuntime),
}

/// A handler's answer, with the frame of its body that was ready at once.
struct Answer<D> {
    head: Response<()>,
    first: Option<Frame<D>>,
    hint: SizeHint,
    /// The rest of the body, unless `first` is all.
    rest: Option<Rest<D>>,
}

pin_project! {
    /// The future of a handler's answer.
    #[project = AnsweringParts]
    pub struct Answering<F, B: Body> {
        #[pin]
        way: Way<F, B>,
    }
}

pin_project! {
    #[project = WayParts]
    enum Way<F, B: Body> {
        Here { #[pin] answer: F },
        Elsewhere { answer: oneshot::Receiver<Result<Answer<B::Data>, HandlerError>>, handler: Option<Handler> },
        NotStarted { error: Option<HandlerError> },
    }
}

impl<F, B: Body> fmt::Debug for Answering<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}

impl<F, B> Answering<F, B>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError> + Send,
{
    /// The handler runs in the caller's task.
    pub(super) fn here(answer: F) -> Self {
        Answering {
            way: Way::Here { answer },
        }
    }

    /// The handler runs in a task of class `class`.
    pub(super) fn elsewhere<S, R>(class: Class, service: S, request: Request<R>) -> Self
    where
        R: Send + 'static,
        S: Service<Request<R>, Response = Response<B>, Future = F> + Send + 'static,
        F: Future<Output = Result<Response<B>, S::Error>> + Send,
        S::Error: Into<BoxError> + Send,
    {
        // The answer does not come by the task's join handle: a connection of a higher class that awaited it
        // would raise the handler to its own class.
        let (sender, answer) = oneshot::channel();
        let handled = async move {
            match service.call(request).await {
                Ok(response) => send(response, sender).await,
                // The receiver is dropped only if the client is gone.
                Err(error) => drop(sender.send(Err(HandlerError::Failed(error.into())))),
            }
        };
        let way = match Handler::start(class, handled) {
            Ok(handler) => Way::Elsewhere {
                answer,
                handler: Some(handler),
            },
            Err(error) => Way::NotStarted { error: Some(error) },
        };
        Answering { way }
    }
}

/// Sends the answer, and then the rest of its body, as fast as the connection takes it.
async fn send<B>(
    response: Response<B>,
    sender: oneshot::Sender<Result<Answer<B::Data>, HandlerError>>,
) where
    B: Body,
    B::Error: Into<BoxError>,
{
    let (parts, body) = response.into_parts();
    let hint = body.size_hint();
    // Pinned, since it is polled here and in `send_rest`.
    let mut body = Box::pin(body);
    let first = first_of(body.as_mut()).await;
    let is_all = match &first {
        First::Frame(_) => body.is_end_stream(),
        First::End => true,
        First::Later | First::Failed(_) => false,
    };
    let (frames, rest) = if is_all {
        (None, None)
    } else {
        let (frames, rest) = chain();
        (Some(frames), Some(rest))
    };
    let (first, failed) = match first {
        First::Frame(frame) => (Some(frame), None),
        First::Failed(error) => (None, Some(error)),
        First::End | First::Later => (None, None),
    };
    let head = Response::from_parts(parts, ());
    let answer = Answer {
        head,
        first,
        hint,
        rest,
    };
    if sender.send(Ok(answer)).is_err() {
        return;
    }
    let Some(frames) = frames else { return };
    match failed {
        Some(error) => frames.fail(HandlerError::Failed(error.into())),
        None => send_rest(body.as_mut(), frames).await,
    }
}

/// Sends the rest of a body, each frame when the connection asks for it.
async fn send_rest<B>(mut body: Pin<&mut B>, mut frames: Frames<B::Data>)
where
    B: Body,
    B::Error: Into<BoxError>,
{
    loop {
        match frames.asked().await {
            Heard::Asks(asks) => frames = asks,
            Heard::Gone => return,
        }
        match poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            None => return frames.end(),
            Some(Err(error)) => return frames.fail(HandlerError::Failed(error.into())),
            Some(Ok(frame)) => frames = frames.send(frame),
        }
    }
}

/// What a body has ready at once.
enum First<D, E> {
    Frame(Frame<D>),
    End,
    Later,
    Failed(E),
}

async fn first_of<B: Body>(mut body: Pin<&mut B>) -> First<B::Data, B::Error> {
    if body.is_end_stream() {
        return First::End;
    }
    poll_fn(|cx| {
        Poll::Ready(match body.as_mut().poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => First::Frame(frame),
            Poll::Ready(Some(Err(error))) => First::Failed(error),
            Poll::Ready(None) => First::End,
            Poll::Pending => First::Later,
        })
    })
    .await
}

impl<F, B, E> Future for Answering<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Body,
{
    type Output = Result<Response<Handed<B>>, HandlerError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (answer, handler) = match self.project().way.project() {
            WayParts::Here { answer } => {
                let answered = ready!(answer.poll(cx));
                return Poll::Ready(match answered {
                    Ok(response) => Ok(response.map(Handed::here)),
                    Err(error) => Err(HandlerError::Failed(error.into())),
                });
            }
            WayParts::NotStarted { error } => {
                let error = error.take().expect("polled after it was ready");
                return Poll::Ready(Err(error));
            }
            WayParts::Elsewhere { answer, handler } => (answer, handler),
        };
        if let Some(handler) = handler {
            ready!(handler.poll_started(cx))?;
        }
        let answer = match ready!(Pin::new(answer).poll(cx)) {
            Ok(answer) => answer?,
            // The task dropped the sender.
            Err(oneshot::Canceled) => return Poll::Ready(Err(HandlerError::Gone)),
        };
        let handler = handler.take().expect("polled after it was ready");
        let body = Handed::elsewhere(answer.first, answer.hint, answer.rest, handler);
        Poll::Ready(Ok(answer.head.map(|()| body)))
    }
}
