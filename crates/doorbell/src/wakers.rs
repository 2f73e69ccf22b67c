//! Wrappers for a user's wakers that are handed to another crate.
//!
//! If such a waker panics, the other crate may end the process or lose later wakes. It may also call the
//! waker while it holds a lock. So it gets a waker of this module instead.

use crossbeam_channel::{Receiver, Sender, unbounded};
use doorbell_core::quiet::{Quiet, drop_quietly};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// A waker whose panics, when woken or dropped, are caught.
struct Contained(Quiet<Waker>);

impl Wake for Contained {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        wake_quietly(&self.0);
    }
}

fn wake_quietly(waker: &Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake_by_ref())) {
        drop_quietly(payload);
    }
}

/// Calls `poll`, which polls a future of another crate, with a waker that never panics.
pub(crate) fn contained<R>(cx: &Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
    let waker = Waker::from(Arc::new(Contained(Quiet::of(cx.waker().clone()))));
    poll(&mut Context::from_waker(&waker))
}

/// Wakers that another crate called or dropped, maybe under its lock. [`Later::tell`] calls or drops them
/// afterwards.
#[derive(Debug)]
pub(crate) struct Later {
    sender: Sender<Told>,
    told: Receiver<Told>,
}

enum Told {
    Wake(Arc<Deferred>),
    Drop(Waker),
}

/// A waker that leaves its wakes and its drop to [`Later::tell`].
struct Deferred {
    waker: Option<Waker>,
    later: Sender<Told>,
}

impl Wake for Deferred {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Fails only after `Later` was dropped; then no task waits any more.
        let _ = self.later.send(Told::Wake(Arc::clone(self)));
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take()
            && let Err(refused) = self.later.send(Told::Drop(waker))
        {
            drop_quietly(refused);
        }
    }
}

impl Later {
    pub(crate) fn new() -> Self {
        let (sender, told) = unbounded();
        Later { sender, told }
    }

    /// Calls `poll`, which polls a future of another crate, with a waker whose calls wait for
    /// [`Later::tell`].
    pub(crate) fn poll<R>(&self, cx: &Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let waker = Waker::from(Arc::new(Deferred {
            waker: Some(cx.waker().clone()),
            later: self.sender.clone(),
        }));
        let polled = poll(&mut Context::from_waker(&waker));
        drop(waker);
        self.tell();
        polled
    }

    /// Calls or drops the wakers that wait for it, and catches their panics. To be called after each step in
    /// which the other crate may have called a waker.
    pub(crate) fn tell(&self) {
        while let Ok(told) = self.told.try_recv() {
            match told {
                Told::Wake(deferred) => deferred.waker.iter().for_each(wake_quietly),
                Told::Drop(waker) => drop_quietly(waker),
            }
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.tell();
    }
}
