//! [`Account`]: what hyper and h2 hold of a request's answer.

use super::progress::Progress;
use crossbeam_utils::atomic::AtomicCell;
use doorbell::time::{Duration, Instant};
use futures_util::task::AtomicWaker;
use std::sync::Arc;
use std::task::{Context, Poll};

/// While hyper and h2 hold so many bytes of an answer over HTTP/2, its handler is not asked for more. hyper asks
/// ahead: it would take one frame that the client has no room for, and another one behind it. Over HTTP/1 hyper has
/// a bound of its own.
const AHEAD: usize = 64 << 10;

/// Over HTTP/2 the end of an answer that is longer is held back until the client has room for all of it. h2
/// cannot reset a stream whose end it was given. A shorter answer ends with its last frame, which costs less.
const SHORT: u64 = 16 << 10;

/// h2 writes one frame of each answer that it may write, and then the next ones. This is longer than the
/// frames of most clients.
const TURN: u64 = 64 << 10;

/// What hyper and h2 hold of a request's answer. The request's task, its answer and the pieces of its answer
/// share this; over HTTP/1 all requests of a connection do, where nothing but `progress` is asked.
#[derive(Debug)]
pub(super) struct Account {
    progress: Arc<Progress>,
    /// Whether it came over HTTP/2.
    is_two: bool,
    /// Number of bytes that hyper and h2 hold.
    held: AtomicCell<usize>,
    /// Over HTTP/2: when some of them were last written, or when the first of them came, in milliseconds of
    /// the server.
    moved_ms: AtomicCell<u64>,
    /// How much of all answers of the connection was written by then.
    taken: AtomicCell<u64>,
    /// Wakes the task that polls the answer's body.
    room: AtomicWaker,
}

impl Account {
    pub(super) fn new(progress: Arc<Progress>, is_two: bool) -> Arc<Account> {
        Arc::new(Account {
            progress,
            is_two,
            held: AtomicCell::new(0),
            moved_ms: AtomicCell::new(0),
            taken: AtomicCell::new(0),
            room: AtomicWaker::new(),
        })
    }

    /// Notes that so many bytes are not held any more. Returns how many still are.
    fn lets_go(&self, count: usize) -> usize {
        let before = self.held.fetch_sub(count);
        let left = before - count;
        if (left < AHEAD && AHEAD <= before) || (left == 0 && count > 0) {
            self.room.wake();
        }
        left
    }

    /// Notes that the client takes something now.
    fn moves(&self) {
        if self.is_two {
            let now_ms = self.progress.shared().millis(Instant::now());
            self.moved_ms.store(now_ms);
            self.taken.store(self.progress.taken());
        }
    }

    /// Ready when the handler may be asked for more.
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_two {
            self.poll_held(cx, |held| held < AHEAD)
        } else {
            Poll::Ready(())
        }
    }

    /// Ready when hyper may be given the end of an answer that has so many bytes.
    pub(super) fn poll_end(&self, cx: &Context<'_>, len: u64) -> Poll<()> {
        if self.holds_end_back(len) {
            self.poll_held(cx, |held| held == 0)
        } else {
            Poll::Ready(())
        }
    }

    /// Whether the end of an answer that has so many bytes is held back.
    pub(super) fn holds_end_back(&self, len: u64) -> bool {
        self.is_two && len > SHORT && self.held.load() > 0
    }

    fn poll_held(&self, cx: &Context<'_>, is_met: impl Fn(usize) -> bool) -> Poll<()> {
        if is_met(self.held.load()) {
            return Poll::Ready(());
        }
        self.room.register(cx.waker());
        if is_met(self.held.load()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// When the client will have taken nothing for so long, unless it takes something before; `None` if
    /// nothing is held.
    pub(super) fn stalls_at(&self, limit: Duration) -> Option<Instant> {
        let moved_ms = self.moved_ms.load();
        let is_owed = self.is_two && self.held.load() > 0;
        is_owed.then(|| self.progress.shared().instant(moved_ms) + limit)
    }

    /// Whether the client may have room for what is held: the socket takes nothing more, and has not taken
    /// so much since this answer last moved that each answer had its turn.
    pub(super) fn waits_for_turn(&self) -> bool {
        let others = self.progress.taken().wrapping_sub(self.taken.load());
        self.progress.is_blocked() && others < TURN * self.progress.requests() as u64
    }
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Account>);

impl InFlight {
    /// One over HTTP/2, with an account of its own.
    pub(super) fn two(progress: &Arc<Progress>) -> InFlight {
        InFlight::new(Account::new(Arc::clone(progress), true))
    }

    pub(super) fn new(account: Arc<Account>) -> InFlight {
        account.progress.request_begins();
        InFlight(account)
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.0.progress
    }

    pub(super) fn account(&self) -> &Account {
        &self.0
    }

    /// A piece of this request's answer, so many bytes long, is about to be given to hyper.
    pub(super) fn piece(&self, len: usize) -> Piece {
        let account = Arc::clone(&self.0);
        account.progress.piece_begins();
        if account.held.fetch_add(len) == 0 {
            account.moves();
        }
        Piece { account, left: len }
    }
}

/// The request is in flight until both are dropped.
impl Clone for InFlight {
    fn clone(&self) -> Self {
        InFlight::new(Arc::clone(&self.0))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.progress.request_ends();
    }
}

/// A piece of an answer that hyper has not written completely.
#[derive(Debug)]
pub(super) struct Piece {
    account: Arc<Account>,
    /// How many bytes of it were not written.
    left: usize,
}

impl Piece {
    /// Notes that some of it was written.
    pub(super) fn advance(&mut self, count: usize) {
        let count = count.min(self.left);
        self.left -= count;
        self.account.progress.took(count);
        if self.account.lets_go(count) > 0 {
            self.account.moves();
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.account.lets_go(self.left);
        self.account.progress.piece_ends();
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::Shared;
    use super::super::limits::Limits;
    use super::super::protocol::Settings;
    use super::*;
    use std::task::Waker;

    #[test]
    fn only_over_http_2_is_a_handler_held_back() {
        let shared = Shared::new(Limits::DEFAULT, Settings::new());
        let progress = Progress::new(shared);
        let cx = Context::from_waker(Waker::noop());
        for is_two in [false, true] {
            let request = InFlight::new(Account::new(Arc::clone(&progress), is_two));
            let _held = request.piece(AHEAD);
            assert_eq!(request.account().poll_room(&cx).is_pending(), is_two);
        }
    }

    #[test]
    fn an_answer_waits_for_its_turn_until_a_poll_of_the_connection_ends_with_room() {
        let shared = Shared::new(Limits::DEFAULT, Settings::new());
        let progress = Progress::new(shared);
        let request = InFlight::two(&progress);
        let _held = request.piece(AHEAD);
        assert!(!request.account().waits_for_turn());
        progress.blocks(|written| written);
        assert!(request.account().waits_for_turn());
        // The next poll writes a frame and flushes it. Another worker may look at the answer now.
        progress.flushed();
        assert!(request.account().waits_for_turn());
        progress.blocks(|written| written);
        progress.polled();
        assert!(request.account().waits_for_turn());
        progress.flushed();
        progress.polled();
        assert!(!request.account().waits_for_turn());
    }
}
