//! Foreign wakers that panic.

#![allow(clippy::disallowed_types, reason = "tests play the outside world")]

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

/// What has happened to hostile wakers.
#[derive(Default)]
pub(crate) struct Counts {
    woken: AtomicUsize,
    dropped: AtomicUsize,
}

impl Counts {
    pub(crate) fn woken(&self) -> usize {
        self.woken.load(SeqCst)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(SeqCst)
    }
}

/// Each clone panics when it is woken and when it is dropped. Its data is an `Arc<Counts>`.
static HOSTILE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, dropped);

unsafe fn clone(counts: *const ()) -> RawWaker {
    // SAFETY: the clone has a count of its own, which its wake or drop gives back.
    unsafe { Arc::increment_strong_count(counts.cast::<Counts>()) };
    RawWaker::new(counts, &HOSTILE)
}

unsafe fn wake(counts: *const ()) {
    // SAFETY: the waker is consumed, so its count is this function's.
    let counts = unsafe { Arc::from_raw(counts.cast::<Counts>()) };
    counts.woken.fetch_add(1, SeqCst);
    panic!("a waker panics");
}

unsafe fn wake_by_ref(counts: *const ()) {
    // SAFETY: the waker keeps it alive.
    let counts = unsafe { &*counts.cast::<Counts>() };
    counts.woken.fetch_add(1, SeqCst);
    panic!("a waker panics");
}

unsafe fn dropped(counts: *const ()) {
    // SAFETY: the waker is consumed, so its count is this function's.
    let counts = unsafe { Arc::from_raw(counts.cast::<Counts>()) };
    counts.dropped.fetch_add(1, SeqCst);
    panic!("the drop of a waker panics");
}

/// Polls with a hostile waker. Its clones count in `counts`.
pub(crate) fn poll<R>(counts: &Arc<Counts>, poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
    let raw = RawWaker::new(Arc::as_ptr(counts).cast(), &HOSTILE);
    // SAFETY: it borrows the count of `counts`, so it is neither dropped nor woken by value.
    let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
    poll(&mut Context::from_waker(&waker))
}
