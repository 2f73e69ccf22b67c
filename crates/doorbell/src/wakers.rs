//! Wakers of a user's that another crate keeps for this one.
//!
//! Where such a waker panics, that crate may end the process, or lose the wakes that follow. It may also
//! call the waker while it holds a lock. So it gets a waker of this module in its place.

use crossbeam_channel::{Receiver, Sender, unbounded};
use doorbell_core::quiet::{Quiet, drop_quietly};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// Panics in waking or dropping it go no further.
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

/// Polls something of another crate with a waker that never panics.
pub(crate) fn contained<R>(cx: &Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
    let waker = Waker::from(Arc::new(Contained(Quiet::of(cx.waker().clone()))));
    poll(&mut Context::from_waker(&waker))
}

/// Wakers that were called or dropped while a crate held its lock, and wait until it has let go.
#[derive(Debug)]
pub(crate) struct Later {
    sender: Sender<Told>,
    told: Receiver<Told>,
}

enum Told {
    Wake(Arc<Deferred>),
    Drop(Waker),
}

/// Woken or dropped, it leaves that to [`Later::tell`].
struct Deferred {
    waker: Option<Waker>,
    later: Sender<Told>,
}

impl Wake for Deferred {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Nobody hears it only where `Later` is gone, and with it all that anybody waits for.
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

    /// Polls something of another crate with a waker whose calls wait for [`Later::tell`].
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

    /// Calls the wakers that wait for it. After each step at which the crate may have called one. Panics
    /// of theirs go no further.
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
