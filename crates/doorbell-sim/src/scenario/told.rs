//! Futures that rely on the ordering of a wake, and join handles that are polled repeatedly.

use super::scheduler::Workers;
use doorbell_core::task::Join;
use doorbell_machine::{Cell, Machine, Sim, sim};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// Memory that one thread writes before it wakes another thread, which then reads it.
struct Note<const BUG: u8>(<Sim<BUG> as Machine>::Cell<u64>);

// SAFETY: all simulated threads are one OS thread, and the simulator checks that accesses to the cell are
// ordered.
unsafe impl<const BUG: u8> Send for Note<BUG> {}
// SAFETY: as for Send.
unsafe impl<const BUG: u8> Sync for Note<BUG> {}

impl<const BUG: u8> Note<BUG> {
    fn write(&self, value: u64) {
        // SAFETY: no other thread accesses it; otherwise the machine fails the run.
        self.0.with_mut(|it| unsafe { *it = value });
    }

    fn read(&self) -> u64 {
        // SAFETY: as above.
        self.0.with(|it| unsafe { *it })
    }
}

/// Writes the note and wakes, both when it is dropped. So it also does so on a worker that ends before
/// running it.
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

/// Ready at its second poll. Only the wake orders the write of the note before the read. So its task or
/// `block_on` must contain nothing else that hands out its waker.
pub(super) struct Told<const BUG: u8, F> {
    note: Arc<Note<BUG>>,
    number: u64,
    /// Drops its argument on some thread.
    tell: Option<F>,
}

impl<const BUG: u8, F> Told<BUG, F> {
    /// `tell` gets a value that it must drop, on any thread and at any time.
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

/// A waker that differs from every other one.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Polls a handle some times, each time with another waker, before it is awaited.
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

/// Checks that a scheduler has at most two watchdogs, or one if it has only two workers.
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
