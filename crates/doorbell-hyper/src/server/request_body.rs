//! [`RequestBody`].

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Frames shorter than this many bytes are copied. That is half of hyper's smallest read buffer, so whoever
/// keeps frames keeps at most about twice the memory of what they hold.
const COPY_BELOW: usize = 4096;

/// The body of a request that a [`Server`](crate::Server) received.
///
/// A handler may keep the data frames: a short frame is a copy, and does not keep the buffer of 8 KiB or more
/// alive into which its bytes were read. Over HTTP/1 that matters most: hyper begins a new buffer for each
/// read while somebody keeps a part of the last one.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming) -> RequestBody {
        RequestBody { incoming }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(unpinned))))
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
