//! [`RequestBody`].

use super::limits::Limits;
use crossbeam_utils::atomic::AtomicCell;
use doorbell::time::{Duration, Instant, Sleep, sleep_until};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Frames shorter than this many bytes are copied: half of hyper's smallest read buffer, which has 8 KiB. While a
/// connection reads by such buffers, frames that a handler keeps take at most about twice the memory of their
/// bytes. hyper's buffer grows with a fast client, up to `max_buf_size`; a longer frame that is kept may then
/// keep more.
const COPY_BELOW: usize = 4096;

/// Why a request's body ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The connection ended, or the client broke the protocol or reset the request.
    #[error("the body of the request did not come whole")]
    Broken(#[source] hyper::Error),
    /// The handler waited longer for the client than [`Server::body_timeout`](crate::Server::body_timeout)
    /// allows.
    #[error("the client sent nothing of the request's body for {}; Server::body_timeout sets that limit", seconds(*.after))]
    TimedOut {
        /// The limit.
        after: Duration,
    },
    /// The client was slower than [`Server::minimum_rate`](crate::Server::minimum_rate) allows.
    #[error("the client sent {received} bytes of the request's body in {}, less than Server::minimum_rate", seconds(*.waited))]
    TooSlow {
        /// The number of bytes that came.
        received: u64,
        /// How long the handler waited for them.
        waited: Duration,
    },
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The body of a request that a [`Server`](crate::Server) received.
///
/// A handler may keep the data frames: a short frame is a copy, and does not keep the buffer of 8 KiB or more
/// alive into which its bytes were read. Over HTTP/1 that matters most: hyper begins a new buffer for each
/// read while somebody keeps a part of the last one.
///
/// It ends with an error if the client is slower than the server's limits allow, for as long as the handler
/// has given no answer.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    /// `None` if there is no body, no limit, or no limit any more.
    watch: Option<Box<Watch>>,
}

impl RequestBody {
    /// The body, and what must be told when the request is answered.
    pub(super) fn new(incoming: Incoming, limits: &Limits) -> (RequestBody, Option<Answered>) {
        let is_limited = limits.body.is_some() || limits.rate.is_some();
        let watch = (is_limited && !incoming.is_end_stream()).then(|| Watch::new(limits));
        let answered = watch.as_ref().map(|watch| watch.answered.clone());
        (RequestBody { incoming, watch }, answered)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.incoming).poll_frame(cx) else {
            if this
                .watch
                .as_ref()
                .is_some_and(|watch| watch.answered.is_set())
            {
                this.watch = None;
            }
            return match &mut this.watch {
                Some(watch) => watch.poll(cx).map(|error| Some(Err(error))),
                None => Poll::Pending,
            };
        };
        let frame = frame.map(|frame| match frame {
            Ok(frame) => Ok(frame.map_data(unpinned)),
            Err(error) => Err(BodyError::Broken(error)),
        });
        if let Some(watch) = &mut this.watch
            && let Some(Ok(frame)) = &frame
        {
            watch.received(frame.data_ref().map_or(0, Bytes::len));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// The same bytes, in memory of about their own size.
fn unpinned(data: Bytes) -> Bytes {
    if data.len() < COPY_BELOW {
        Bytes::copy_from_slice(&data)
    } else {
        data
    }
}

/// Whether the handler has answered: then it may read the rest of the body as slowly as both ends like.
#[derive(Clone, Debug)]
pub(super) struct Answered(Arc<AtomicCell<bool>>);

impl Answered {
    pub(super) fn set(&self) {
        self.0.store(true);
    }

    fn is_set(&self) -> bool {
        self.0.load()
    }
}

/// Measures how long a handler waits for a body.
#[derive(Debug)]
struct Watch {
    timeout: Option<Duration>,
    limits: Limits,
    answered: Answered,
    /// When the handler began to wait for the next frame.
    since: Option<Instant>,
    /// How long it waited for all frames before.
    waited: Duration,
    received: u64,
    /// Armed when the handler first has to wait.
    sleep: Option<Sleep>,
}

impl Watch {
    fn new(limits: &Limits) -> Box<Watch> {
        Box::new(Watch {
            timeout: limits.body,
            limits: *limits,
            answered: Answered(Arc::new(AtomicCell::new(false))),
            since: None,
            waited: Duration::ZERO,
            received: 0,
            sleep: None,
        })
    }

    /// Notes that a frame came.
    fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
        if let Some(since) = self.since.take() {
            self.waited += Instant::now() - since;
        }
    }

    /// Ready when the handler has waited too long. Wakes the task then.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        loop {
            let now = Instant::now();
            let since = *self.since.get_or_insert(now);
            let waited = now - since;
            if let Some(after) = self.timeout.filter(|limit| waited >= *limit) {
                return Poll::Ready(BodyError::TimedOut { after });
            }
            let all = self.waited + waited;
            let allowed = self.limits.time_for(self.received);
            if allowed.is_some_and(|allowed| all >= allowed) {
                return Poll::Ready(BodyError::TooSlow {
                    received: self.received,
                    waited: all,
                });
            }
            let left = [
                self.timeout.map(|limit| limit.saturating_sub(waited)),
                allowed.map(|allowed| allowed.saturating_sub(all)),
            ];
            let Some(left) = left.into_iter().flatten().min() else {
                return Poll::Pending;
            };
            // The timer is not armed for each frame: when it fires, it is armed again for the time left.
            let sleep = self.sleep.get_or_insert_with(|| sleep_until(now + left));
            if Pin::new(&mut *sleep).poll(cx).is_pending() {
                return Poll::Pending;
            }
            sleep.reset(now + left);
            if Pin::new(sleep).poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, COPY_BELOW, unpinned};

    #[test]
    fn short_data_leaves_its_block_and_long_data_is_not_copied() {
        let block = Bytes::from(vec![b'x'; 2 * COPY_BELOW]);
        let part = |length: usize| {
            let part = unpinned(block.slice(..length));
            let range = block.as_ptr_range();
            (part == block[..length], range.contains(&part.as_ptr()))
        };
        assert_eq!(part(1), (true, false));
        assert_eq!(part(COPY_BELOW - 1), (true, false));
        assert_eq!(part(COPY_BELOW), (true, true));
    }
}
