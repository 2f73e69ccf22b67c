//! [`Progress`]: what a connection is doing, and what it owes to its client.

use super::connection::Shared;
use crossbeam_utils::atomic::AtomicCell;
use futures_util::task::AtomicWaker;
use std::sync::Arc;
use std::task::Waker;

/// What a connection is doing. HTTP/2 has phases of its own and is never in [`Phase::Head`]: bytes that come
/// while no request is open may be a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// The HTTP version is not known yet.
    New,
    /// Part of a request's head was read.
    Head,
    /// A request was read, and may be in flight.
    Busy,
    /// No request is in flight, and nothing is owed to the client.
    Idle,
    /// Like [`Phase::Busy`], over HTTP/2.
    Busy2,
    /// Like [`Phase::Idle`], over HTTP/2.
    Idle2,
}

/// Whether the socket takes what hyper wants to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Socket {
    /// It took everything in the last poll of the connection.
    Free,
    /// It has not taken all.
    Full,
    /// It was full, and has taken everything since; the poll of the connection that wrote this goes on. h2
    /// flushes each frame before it writes the next one, so the socket may be full again at the end of the poll.
    Flushed,
}

/// The state of a connection, shared by its task, its IO, its service, each request in flight, and each piece
/// of an answer that hyper has not written. The task, the IO and the service write `phase`; one task polls
/// all three.
#[derive(Debug)]
pub(super) struct Progress {
    shared: Arc<Shared>,
    /// Wakes the connection's task.
    task: AtomicWaker,
    /// Whether the connection must leave if it is idle.
    is_asked: AtomicCell<bool>,
    /// While it is idle: since when, in milliseconds of the server.
    idle_since: AtomicCell<u64>,
    phase: AtomicCell<Phase>,
    /// Number of requests read so far; it wraps.
    begun: AtomicCell<u32>,
    /// Number of [`InFlight`].
    requests: AtomicCell<usize>,
    /// Number of pieces of answers that hyper or h2 holds.
    pieces: AtomicCell<usize>,
    /// Number of bytes of these pieces that were written so far; it wraps.
    taken: AtomicCell<u64>,
    /// The task and the IO write it.
    socket: AtomicCell<Socket>,
    /// Number of bytes that the socket took so far; it wraps.
    written: AtomicCell<u64>,
    /// How many of them the client had acknowledged when the socket last took nothing.
    acknowledged: AtomicCell<u64>,
    /// Over HTTP/2 the number of the head that has begun and is not complete; 0 if there is none.
    open_head: AtomicCell<u32>,
}

/// What a client has taken so far, of a connection that owes it something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Bytes of answers that were written.
    answers: u64,
    /// Bytes that the client has acknowledged, if the socket is blocked. Otherwise they tell nothing: over
    /// HTTP/2 a client may acknowledge answers to its pings, and take nothing of an answer.
    acknowledged: Option<u64>,
}

impl Taken {
    /// How many bytes the client has taken since `before`.
    pub(super) fn since(self, before: Taken) -> u64 {
        let answers = self.answers.wrapping_sub(before.answers);
        let both = self.acknowledged.zip(before.acknowledged);
        answers.max(both.map_or(0, |(now, before)| now.wrapping_sub(before)))
    }
}

impl Progress {
    pub(super) fn new(shared: Arc<Shared>) -> Arc<Progress> {
        Arc::new(Progress {
            shared,
            task: AtomicWaker::new(),
            is_asked: AtomicCell::new(false),
            idle_since: AtomicCell::new(0),
            phase: AtomicCell::new(Phase::New),
            begun: AtomicCell::new(0),
            requests: AtomicCell::new(0),
            pieces: AtomicCell::new(0),
            taken: AtomicCell::new(0),
            socket: AtomicCell::new(Socket::Free),
            written: AtomicCell::new(0),
            acknowledged: AtomicCell::new(0),
            open_head: AtomicCell::new(0),
        })
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Notes the waker of the connection's task.
    pub(super) fn has_waker(&self, waker: &Waker) {
        self.task.register(waker);
    }

    /// Notes that the task has ended.
    pub(super) fn forget_waker(&self) {
        drop(self.task.take());
    }

    /// Notes that no request is in flight any more.
    pub(super) fn rests(&self, idle: Phase, since_ms: u64) {
        self.idle_since.store(since_ms);
        self.set(idle);
    }

    /// Since when it has been idle, in milliseconds of the server, unless it was asked to leave.
    pub(super) fn idle_since(&self) -> Option<u64> {
        let is_idle = matches!(self.phase(), Phase::Idle | Phase::Idle2);
        (is_idle && !self.is_asked.load()).then(|| self.idle_since.load())
    }

    /// Asks the connection to leave, if it is still idle when its task is polled.
    pub(super) fn ask(&self) {
        self.is_asked.store(true);
        self.task.wake();
    }

    /// Whether the connection must leave. The caller knows that it is idle.
    pub(super) fn must_go(&self) -> bool {
        self.is_asked.load() || self.shared.open().takes_room()
    }

    /// Notes that it is not idle: a demand to leave has come too late.
    pub(super) fn stays(&self) {
        if self.is_asked.load() {
            self.is_asked.store(false);
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.load()
    }

    pub(super) fn set(&self, phase: Phase) {
        self.phase.store(phase);
    }

    /// Notes that a request was read.
    pub(super) fn begins(&self, busy: Phase) {
        self.set(busy);
        self.begun.fetch_add(1);
    }

    /// Number of requests read so far; it wraps.
    pub(super) fn begun(&self) -> u32 {
        self.begun.load()
    }

    /// Whether a request is in flight: its handler runs, or its answer is not written to the socket. A
    /// request that another task has just ended may still count.
    pub(super) fn in_flight(&self) -> bool {
        self.requests.load() > 0 || self.owes().is_some()
    }

    /// What the client has taken so far; `None` if it has taken all that there is.
    pub(super) fn owes(&self) -> Option<Taken> {
        let has_pieces = self.pieces.load() > 0;
        let is_blocked = self.is_blocked();
        (has_pieces || is_blocked).then(|| Taken {
            answers: self.taken.load(),
            acknowledged: is_blocked.then(|| self.acknowledged.load()),
        })
    }

    pub(super) fn request_begins(&self) {
        self.requests.fetch_add(1);
    }

    pub(super) fn request_ends(&self) {
        self.requests.fetch_sub(1);
    }

    pub(super) fn piece_begins(&self) {
        self.pieces.fetch_add(1);
    }

    pub(super) fn piece_ends(&self) {
        self.pieces.fetch_sub(1);
    }

    /// Number of [`InFlight`]: at least one for each request.
    pub(super) fn requests(&self) -> usize {
        self.requests.load()
    }

    /// Number of bytes of answers that were written so far; it wraps.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load()
    }

    /// Notes that so many bytes of an answer were written.
    pub(super) fn took(&self, count: usize) {
        self.taken.fetch_add(count as u64);
    }

    /// Whether the socket has not taken all that hyper wanted to write. It stays so until a poll of the connection ends
    /// with nothing left to write.
    pub(super) fn is_blocked(&self) -> bool {
        self.socket.load() != Socket::Free
    }

    /// Notes bytes from the client, over HTTP/1.
    pub(super) fn heard(&self, bytes: &[u8]) {
        if self.phase() == Phase::Idle && !bytes.is_empty() {
            self.set(Phase::Head);
        }
    }

    /// Notes that the socket took bytes.
    pub(super) fn wrote(&self, count: usize) {
        self.written.fetch_add(count as u64);
    }

    /// Notes that the socket takes nothing now. `acknowledged` tells how many bytes the client has
    /// acknowledged, by the number that was written.
    pub(super) fn blocks(&self, acknowledged: impl FnOnce(u64) -> u64) {
        self.acknowledged.store(acknowledged(self.written.load()));
        self.socket.store(Socket::Full);
    }

    /// Notes that the socket took everything.
    pub(super) fn flushed(&self) {
        if self.socket.load() == Socket::Full {
            self.socket.store(Socket::Flushed);
        }
    }

    /// Notes that a poll of the connection has ended.
    pub(super) fn polled(&self) {
        if self.socket.load() == Socket::Flushed {
            self.socket.store(Socket::Free);
        }
    }

    /// Notes whether a head over HTTP/2 has begun and is not complete.
    pub(super) fn set_open_head(&self, number: u32) {
        if self.open_head.load() != number {
            self.open_head.store(number);
        }
    }

    /// The number of the head over HTTP/2 that has begun and is not complete; 0 if there is none.
    pub(super) fn open_head(&self) -> u32 {
        self.open_head.load()
    }
}
