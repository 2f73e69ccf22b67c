//! [`Open`]: how many connections of a server are open.

use super::connection::Shared;
use super::progress::Progress;
use crossbeam_utils::atomic::AtomicCell;
use futures_util::task::AtomicWaker;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// How many connections of a server are open, and which of its ends its accepting task waits for.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// Number of tasks of connections.
    tasks: AtomicCell<usize>,
    /// Number of sockets. An upgraded connection has one, and no task.
    sockets: AtomicCell<usize>,
    /// Number of sockets that were closed so far; it wraps.
    closed: AtomicCell<usize>,
    /// Whether the next connection that becomes idle must go.
    wants_room: AtomicCell<bool>,
    /// The accepting task.
    waiting: AtomicWaker,
}

impl Open {
    pub(super) fn tasks(&self) -> usize {
        self.tasks.load()
    }

    pub(super) fn sockets(&self) -> usize {
        self.sockets.load()
    }

    pub(super) fn closed(&self) -> usize {
        self.closed.load()
    }

    /// Waits until the condition holds. Only the accepting task may wait.
    pub(super) async fn until(&self, is_it: impl Fn(&Open) -> bool) {
        poll_fn(|cx| {
            self.waiting.register(cx.waker());
            if is_it(self) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Tells whether the next connection that becomes idle must go.
    pub(super) fn want_room(&self, wants: bool) {
        if self.wants_room.load() != wants {
            self.wants_room.store(wants);
        }
    }

    /// Whether the caller, an idle connection, must go. True for one caller.
    pub(super) fn takes_room(&self) -> bool {
        self.wants_room.load() && self.wants_room.swap(false)
    }
}

/// The task of a connection is there until this is dropped.
#[derive(Debug)]
pub(super) struct OpenTask(Arc<Progress>);

impl OpenTask {
    pub(super) fn new(progress: Arc<Progress>) -> OpenTask {
        progress.shared().open().tasks.fetch_add(1);
        OpenTask(progress)
    }
}

impl Drop for OpenTask {
    fn drop(&mut self) {
        // A waker keeps the memory of its task.
        self.0.forget_waker();
        let open = self.0.shared().open();
        open.tasks.fetch_sub(1);
        open.waiting.wake();
    }
}

/// A socket counts as open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenSocket(Arc<Shared>);

impl OpenSocket {
    pub(super) fn new(shared: &Arc<Shared>) -> OpenSocket {
        shared.open().sockets.fetch_add(1);
        OpenSocket(Arc::clone(shared))
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        let open = self.0.open();
        open.sockets.fetch_sub(1);
        open.closed.fetch_add(1);
        open.waiting.wake();
    }
}
