//! A body whose steps a test determines.

use super::{ENDLESS, Seen};
use doorbell::time::{Sleep, sleep};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::HeaderMap;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// The next step of a body.
#[derive(Debug)]
pub(crate) enum Step {
    Data(Bytes),
    Trailers(HeaderMap),
    /// `Pending` once, after waking its poller.
    Soon,
    /// `Pending` until a timer fires.
    Later,
    /// `Pending` forever.
    Never,
    /// Frames without end.
    Endless,
    Fail,
    Panic,
}

/// A body that takes one step after another.
#[derive(Debug)]
pub(crate) struct Pieces {
    steps: VecDeque<Step>,
    /// The length that it claims.
    length: Option<u64>,
    /// Whether it reports its end before it is polled there.
    tells_end: bool,
    timer: Option<Sleep>,
    seen: Arc<Seen>,
}

impl Pieces {
    pub(crate) fn new(seen: &Arc<Seen>, steps: impl IntoIterator<Item = Step>) -> Pieces {
        Pieces {
            steps: steps.into_iter().collect(),
            length: None,
            tells_end: false,
            timer: None,
            seen: Arc::clone(seen),
        }
    }

    /// A body of known length, like `Full`.
    pub(crate) fn known(seen: &Arc<Seen>, bytes: impl Into<Bytes>) -> Pieces {
        let bytes = bytes.into();
        let length = bytes.len() as u64;
        let steps = (length > 0).then_some(Step::Data(bytes));
        let mut body = Pieces::new(seen, steps).sized(length);
        body.tells_end = true;
        body
    }

    /// Claims this length.
    pub(crate) fn sized(mut self, length: u64) -> Pieces {
        self.length = Some(length);
        self
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.seen.body_is_polled();
        loop {
            if let Some(timer) = &mut self.timer {
                ready!(Pin::new(timer).poll(cx));
                self.timer = None;
            }
            let Some(step) = self.steps.pop_front() else {
                return Poll::Ready(None);
            };
            let frame = match step {
                Step::Data(bytes) => Ok(Frame::data(bytes)),
                Step::Trailers(fields) => Ok(Frame::trailers(fields)),
                Step::Soon => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Step::Later => {
                    self.timer = Some(sleep(Duration::from_millis(1)));
                    continue;
                }
                Step::Never => {
                    self.steps.push_front(Step::Never);
                    return Poll::Pending;
                }
                Step::Endless => {
                    self.steps.push_front(Step::Endless);
                    Ok(Frame::data(vec![b'x'; ENDLESS].into()))
                }
                Step::Fail => Err(io::Error::other("a body that fails")),
                Step::Panic => panic!("a body that panics"),
            };
            self.seen.frames.fetch_add(1, SeqCst);
            return Poll::Ready(Some(frame));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.tells_end && self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        let count = if self.steps.is_empty() {
            &self.seen.bodies_ended
        } else {
            &self.seen.bodies_cut
        };
        count.fetch_add(1, SeqCst);
    }
}
