//! A channel for the frames of a body, from its handler to its connection, one at a time.
//!
//! It is a chain of one-shot channels. These only try their locks, so neither end ever waits for the other,
//! which may be of a lower class and lose its CPU at any step. A channel for many messages spins or takes a
//! lock while the other end is inside a send.

use super::handed::HandlerError;
use futures_channel::oneshot;
use hyper::body::Frame;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// One message, with the channel for the next one.
enum Link<D> {
    Frame {
        frame: Frame<D>,
        next: oneshot::Receiver<Link<D>>,
        /// Dropped when the frame is taken.
        taken: oneshot::Sender<()>,
    },
    Failed(HandlerError),
    End,
}

/// The handler's end.
pub(super) struct Frames<D>(oneshot::Sender<Link<D>>);

/// The connection's end.
pub(super) struct Rest<D>(oneshot::Receiver<Link<D>>);

/// Whether the other end still receives.
#[must_use]
pub(super) enum Sent<D> {
    /// The frame was taken; the next one goes here.
    Taken(Frames<D>),
    /// The connection's end is gone.
    Unheard,
}

pub(super) fn chain<D>() -> (Frames<D>, Rest<D>) {
    let (sender, receiver) = oneshot::channel();
    (Frames(sender), Rest(receiver))
}

impl<D> Frames<D> {
    /// Sends a frame, and waits until the connection takes it.
    pub(super) async fn send(self, frame: Frame<D>) -> Sent<D> {
        let (sender, next) = oneshot::channel();
        let (taken, is_taken) = oneshot::channel();
        if self.0.send(Link::Frame { frame, next, taken }).is_err() {
            return Sent::Unheard;
        }
        // Nothing is ever sent here: the drop of `taken` ends the wait. If the connection's end is gone, the
        // next send says so.
        let _ = is_taken.await;
        Sent::Taken(Frames(sender))
    }

    pub(super) fn fail(self, error: HandlerError) {
        let _ = self.0.send(Link::Failed(error));
    }

    pub(super) fn end(self) {
        let _ = self.0.send(Link::End);
    }
}

impl<D> Rest<D> {
    /// The next frame; `None` at the end. Do not poll again after `None` or an error.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<D>, HandlerError>>> {
        let link = match ready!(Pin::new(&mut self.0).poll(cx)) {
            Ok(link) => link,
            Err(oneshot::Canceled) => Link::Failed(HandlerError::Gone),
        };
        Poll::Ready(match link {
            Link::Frame { frame, next, taken } => {
                self.0 = next;
                drop(taken);
                Some(Ok(frame))
            }
            Link::Failed(error) => Some(Err(error)),
            Link::End => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{HandlerError, Sent, chain};
    use futures::FutureExt as _;
    use futures::future::poll_fn;
    use hyper::body::Frame;

    #[test]
    fn frames_come_in_order_each_when_the_last_was_taken() {
        let (frames, mut rest) = chain::<&[u8]>();
        let mut sending = Box::pin(async {
            let Sent::Taken(frames) = frames.send(Frame::data(b"one")).await else {
                panic!("it is heard");
            };
            let Sent::Taken(frames) = frames.send(Frame::data(b"two")).await else {
                panic!("it is heard");
            };
            frames.end();
        });
        let mut next = || poll_fn(|cx| rest.poll_next(cx)).now_or_never();
        assert!(next().is_none());
        for expected in [b"one", b"two"] {
            assert!((&mut sending).now_or_never().is_none(), "not taken yet");
            let frame = next().unwrap().unwrap().unwrap();
            assert_eq!(*frame.data_ref().unwrap(), expected);
        }
        assert!(next().is_none());
        assert!((&mut sending).now_or_never().is_some());
        assert!(next().unwrap().is_none());
    }

    #[test]
    fn who_goes_is_noticed_at_the_other_end() {
        let (frames, mut rest) = chain::<&[u8]>();
        drop(frames);
        let gone = poll_fn(|cx| rest.poll_next(cx)).now_or_never().unwrap();
        assert!(matches!(gone, Some(Err(HandlerError::Gone))));
        let (frames, rest) = chain::<&[u8]>();
        drop(rest);
        let sent = frames.send(Frame::data(b"one")).now_or_never().unwrap();
        assert!(matches!(sent, Sent::Unheard));
        let (frames, rest) = chain::<&[u8]>();
        let mut sending = Box::pin(frames.send(Frame::data(b"one")));
        assert!((&mut sending).now_or_never().is_none());
        drop(rest);
        let Some(Sent::Taken(frames)) = sending.now_or_never() else {
            panic!("it was sent before");
        };
        let sent = frames.send(Frame::data(b"two")).now_or_never().unwrap();
        assert!(matches!(sent, Sent::Unheard));
    }
}
