//! Tasks on this computer. The test's own thread is the worker, unless it says otherwise.

// Tests on real threads, outside of any model.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod above;
mod calls;
mod differential;
mod names;
mod orders;
mod panics;
mod poll_refs;
mod raised;
mod spawned_at;
mod states;
mod wakes;

use super::{Join, JoinError};
use crate::scheduler::RemoteRef;
use crate::testing;
use crate::worker::Local;
use doorbell_machine::{Counter, Host};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

/// A worker that the test runs by hand, on its own thread.
struct Bench {
    remote: RemoteRef<Host>,
    local: Local<Host>,
}

impl Bench {
    fn new() -> Self {
        let remote = testing::remote::<Host>();
        let local = Local::new(remote.clone());
        Bench { remote, local }
    }

    /// Calls `f` as the worker.
    fn on_worker<R>(&self, f: impl FnOnce() -> R) -> R {
        self.local.enter(f)
    }

    fn spawn<F>(&self, future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        self.on_worker(|| testing::spawn(&self.remote, future))
    }

    /// Takes mailbox and inject queue; returns how many nodes that were.
    fn serve(&self) -> u64 {
        self.on_worker(|| {
            // SAFETY: the test's thread is the worker.
            let served = unsafe { self.remote.serve(&self.local) };
            served.delivered + self.local.gather()
        })
    }

    /// Runs what is ready until nothing is, also what comes by the mailbox; returns how many
    /// polls that were.
    fn run(&self) -> usize {
        let mut polls = 0;
        loop {
            self.serve();
            let before = polls;
            while self.on_worker(|| self.local.run_one()) {
                polls += 1;
            }
            if polls == before {
                return polls;
            }
        }
    }

    /// Ends the worker. Nothing of it is left: no task, no ring, no reference to its remote half.
    #[track_caller]
    fn end(self) {
        self.on_worker(|| self.local.close());
        assert_eq!((self.local.live(), self.local.queued()), (0, 0));
        assert_eq!(
            self.remote.counts().rings.get(),
            0,
            "the worker never parked"
        );
        drop(self.local);
        assert_eq!(self.remote.shares(), 1, "a task was not freed");
    }
}

/// Polls once with a waker that does nothing.
fn poll_once<T>(join: &mut Join<T>) -> Poll<Result<T, JoinError>> {
    Pin::new(join).poll(&mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn output<T>(join: &mut Join<T>) -> Result<T, JoinError> {
    match poll_once(join) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the task is not complete"),
    }
}

/// Counts.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn add(&self) -> usize {
        self.0.fetch_add(1, Relaxed)
    }

    fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Something whose drop is counted.
    fn on_drop(&self) -> CountsDrop {
        CountsDrop(self.clone())
    }
}

struct CountsDrop(Count);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// Where a task leaves its waker.
#[derive(Clone, Default)]
struct WakerSlot(Arc<Mutex<Option<Waker>>>);

impl WakerSlot {
    fn put(&self, cx: &Context<'_>) {
        let old = self.0.lock().unwrap().replace(cx.waker().clone());
        drop(old);
    }

    fn take(&self) -> Option<Waker> {
        self.0.lock().unwrap().take()
    }

    fn get(&self) -> Waker {
        let slot = self.0.lock().unwrap();
        slot.clone().expect("the task was polled")
    }
}

/// Never ready; leaves its waker and counts polls and its drop.
fn pending(slot: &WakerSlot, polls: &Count, drops: &Count) -> impl Future<Output = ()> + use<> {
    let (slot, polls, dropped) = (slot.clone(), polls.clone(), drops.on_drop());
    std::future::poll_fn(move |cx| {
        let _owned = &dropped;
        polls.add();
        slot.put(cx);
        Poll::Pending
    })
}

/// A header that grows by a word takes small tasks out of what allocators serve without a lock.
#[test]
fn the_header_of_a_task_is_small() {
    assert!(size_of::<super::cell::Header<Host>>() <= 80);
}
