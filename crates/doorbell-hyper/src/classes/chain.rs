//! A channel for the frames of a body, from its handler to its connection, one at a time.
//!
//! It is a chain of one-shot channels. These only try their locks, so neither end ever waits for the other,
//! which may be of a lower class and lose its CPU at any step. A channel for many messages spins or takes a
//! lock while the other end is inside a send.
//!
//! The connection's end asks for each frame, and the handler's end produces none before: a client that takes
//! nothing has one frame of each body waiting in its connection, and none here.

use super::handed::HandlerError;
use futures_channel::oneshot;
use hyper::body::Frame;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// One message.
enum Link<D> {
    Frame { frame: Frame<D>, rest: Rest<D> },
    Failed(HandlerError),
    End,
}

/// The handler's end: a frame goes to `next` when `asked` says so.
pub(super) struct Frames<D> {
    next: oneshot::Sender<Link<D>>,
    asked: oneshot::Receiver<()>,
}

/// The connection's end.
pub(super) struct Rest<D> {
    next: oneshot::Receiver<Link<D>>,
    /// `None` once it has asked for the next frame.
    ask: Option<oneshot::Sender<()>>,
}

/// Whether the other end still receives.
#[must_use]
pub(super) enum Heard<D> {
    /// It asks for a frame.
    Asks(Frames<D>),
    /// It is gone.
    Gone,
}

pub(super) fn chain<D>() -> (Frames<D>, Rest<D>) {
    let (sender, receiver) = oneshot::channel();
    let (ask, asked) = oneshot::channel();
    let frames = Frames {
        next: sender,
        asked,
    };
    let rest = Rest {
        next: receiver,
        ask: Some(ask),
    };
    (frames, rest)
}

impl<D> Frames<D> {
    /// Waits until the connection asks for a frame.
    pub(super) async fn asked(mut self) -> Heard<D> {
        match (&mut self.asked).await {
            Ok(()) => Heard::Asks(self),
            Err(oneshot::Canceled) => Heard::Gone,
        }
    }

    /// Sends a frame. The next one goes to what is returned.
    pub(super) fn send(self, frame: Frame<D>) -> Frames<D> {
        let (frames, rest) = chain();
        // If the connection's end is gone, the next wait says so.
        let _ = self.next.send(Link::Frame { frame, rest });
        frames
    }

    pub(super) fn fail(self, error: HandlerError) {
        let _ = self.next.send(Link::Failed(error));
    }

    pub(super) fn end(self) {
        let _ = self.next.send(Link::End);
    }
}

impl<D> Rest<D> {
    /// The next frame; `None` at the end. Do not poll again after `None` or an error.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<D>, HandlerError>>> {
        if let Some(ask) = self.ask.take() {
            // An error says that the handler's end has gone or needs no demand, as `next` does.
            let _ = ask.send(());
        }
        let link = match ready!(Pin::new(&mut self.next).poll(cx)) {
            Ok(link) => link,
            Err(oneshot::Canceled) => Link::Failed(HandlerError::Gone),
        };
        Poll::Ready(match link {
            Link::Frame { frame, rest } => {
                *self = rest;
                Some(Ok(frame))
            }
            Link::Failed(error) => Some(Err(error)),
            Link::End => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, HandlerError, Heard, chain};
    use futures::FutureExt as _;
    use futures::future::poll_fn;
    use hyper::body::Frame;

    /// The handler's end, if the connection's end asks now.
    fn asks<D>(asked: impl Future<Output = Heard<D>>) -> Frames<D> {
        match asked.now_or_never() {
            Some(Heard::Asks(frames)) => frames,
            Some(Heard::Gone) => panic!("it is gone"),
            None => panic!("it does not ask"),
        }
    }

    #[test]
    fn frames_come_in_order_each_when_it_is_asked_for() {
        let (frames, mut rest) = chain::<&[u8]>();
        let mut asked = Box::pin(frames.asked());
        for expected in [b"one", b"two"] {
            assert!((&mut asked).now_or_never().is_none(), "not asked for");
            assert!(poll_fn(|cx| rest.poll_next(cx)).now_or_never().is_none());
            let frames = asks(&mut asked).send(Frame::data(expected));
            let frame = poll_fn(|cx| rest.poll_next(cx)).now_or_never().unwrap();
            assert_eq!(*frame.unwrap().unwrap().data_ref().unwrap(), expected);
            asked = Box::pin(frames.asked());
        }
        assert!(poll_fn(|cx| rest.poll_next(cx)).now_or_never().is_none());
        asks(asked).end();
        let end = poll_fn(|cx| rest.poll_next(cx)).now_or_never().unwrap();
        assert!(end.is_none());
    }

    #[test]
    fn who_goes_is_noticed_at_the_other_end() {
        let (frames, mut rest) = chain::<&[u8]>();
        drop(frames);
        let gone = poll_fn(|cx| rest.poll_next(cx)).now_or_never().unwrap();
        assert!(matches!(gone, Some(Err(HandlerError::Gone))));
        let (frames, rest) = chain::<&[u8]>();
        drop(rest);
        let heard = frames.asked().now_or_never().unwrap();
        assert!(matches!(heard, Heard::Gone));
        // Also while a frame waits to be taken.
        let (frames, mut rest) = chain::<&[u8]>();
        assert!(poll_fn(|cx| rest.poll_next(cx)).now_or_never().is_none());
        let frames = asks(frames.asked()).send(Frame::data(b"one"));
        let mut asked = Box::pin(frames.asked());
        assert!((&mut asked).now_or_never().is_none());
        drop(rest);
        assert!(matches!(asked.now_or_never(), Some(Heard::Gone)));
    }
}
