//! Futures that rely on what a wake must bring, and handles that are asked again and again.

use super::scheduler::Workers;
use doorbell_core::task::Join;
use doorbell_machine::{Cell, Machine, Sim, sim};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// Memory that one thread writes before it wakes another, which reads it then.
struct Note<const BUG: u8>(<Sim<BUG> as Machine>::Cell<u64>);

// SAFETY: all simulated threads are one thread of the OS; and whether an order stands between
// their accesses is what is tested with this.
unsafe impl<const BUG: u8> Send for Note<BUG> {}
// SAFETY: as for Send.
unsafe impl<const BUG: u8> Sync for Note<BUG> {}

impl<const BUG: u8> Note<BUG> {
    fn write(&self, value: u64) {
        // SAFETY: nobody else is at it: the machine fails the run otherwise.
        self.0.with_mut(|it| unsafe { *it = value });
    }

    fn read(&self) -> u64 {
        // SAFETY: as above.
        self.0.with(|it| unsafe { *it })
    }
}

/// Writes the note and wakes: when it is dropped, so also on a worker that ends before it runs.
struct Teller<const BUG: u8> {
    note: Arc<Note<BUG>>,
    number: u64,
    waker: Option<Waker>,
}

impl<const BUG: u8> Drop for Teller<BUG> {
    fn drop(&mut self) {
        self.note.write(self.number);
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}

/// Ready at its second poll. Nothing but the wake says that the note was written, so it must be the
/// only thing in its task or `block_on` that gives wakers away.
pub(super) struct Told<const BUG: u8, F> {
    note: Arc<Note<BUG>>,
    number: u64,
    /// Has somebody drop what it is given.
    tell: Option<F>,
}

impl<const BUG: u8, F> Told<BUG, F> {
    /// `tell` is given what must be dropped, anywhere and at any time.
    pub(super) fn new(tell: F) -> Self {
        Told {
            note: Arc::new(Note(Cell::new(0))),
            number: sim::random() | 1,
            tell: Some(tell),
        }
    }
}

impl<const BUG: u8, F: FnOnce(Box<dyn Send>) + Unpin> Future for Told<BUG, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(tell) = self.tell.take() {
            tell(Box::new(Teller {
                note: Arc::clone(&self.note),
                number: self.number,
                waker: Some(cx.waker().clone()),
            }));
            return Poll::Pending;
        }
        if self.note.read() != self.number {
            sim::fail("lost: a wake came without what was written before it");
        }
        Poll::Ready(())
    }
}

/// A waker that is like no other one.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Asks a handle some times, each time for somebody else, before it is awaited.
pub(super) struct Asked(pub(super) Join<()>, pub(super) u64);

impl Future for Asked {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while self.1 > 0 {
            self.1 -= 1;
            let other = Waker::from(Arc::new(Nobody));
            let polled = Pin::new(&mut self.0).poll(&mut Context::from_waker(&other));
            if polled.is_ready() {
                return Poll::Ready(());
            }
            sim::work(sim::random() % 300);
        }
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

/// At most two workers of a scheduler are watchdogs at any time, and at most one of a scheduler of two.
pub(super) fn check_watchdogs<const BUG: u8>(workers: &Workers<BUG>) {
    let most = workers.cores().saturating_sub(1).clamp(1, 2) as u64;
    for counts in workers.counts().chunks(workers.cores()) {
        let begun: u64 = counts.iter().map(|it| it.watchdogs).sum();
        let ended: u64 = counts.iter().map(|it| it.watchdogs_ended).sum();
        if begun > ended + most {
            sim::fail(format!("watchdogs: {} at a time", begun - ended));
        }
    }
}
