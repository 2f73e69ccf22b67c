//! D18: user code that panics, wherever the runtime calls it, ends neither worker nor process,
//! and everything is dropped once.

use super::{Bench, Count, WakerSlot, output, poll_once};
use crate::quiet::drop_quietly;
use crate::task::{Join, JoinError};
use crate::testing;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

/// Counts its drop, and panics in it. `resume_unwind` panics without a message on the screen.
struct Bomb(Count);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.add();
        resume_unwind(Box::new("dropped"));
    }
}

/// A payload that panics when it is dropped, with another that does.
struct Payload(Count, usize);

impl Drop for Payload {
    fn drop(&mut self) {
        self.0.add();
        if self.1 > 0 {
            resume_unwind(Box::new(Payload(self.0.clone(), self.1 - 1)));
        }
    }
}

fn message(error: JoinError) -> String {
    match error {
        JoinError::Cancelled => "cancelled".to_owned(),
        JoinError::Panicked(payload) => payload.message().unwrap_or("no text").to_owned(),
    }
}

#[track_caller]
fn assert_fails<T>(mut join: Join<T>, expected: &str) {
    match output(&mut join) {
        Ok(_) => panic!("it should have failed: {expected}"),
        Err(error) => assert_eq!(message(error), expected),
    }
}

#[test]
fn a_panic_in_a_poll_reaches_the_joiner() {
    let bench = Bench::new();
    let drops = Count::default();
    let owned = drops.on_drop();
    let joins = (
        bench.spawn(async move {
            let _owned = owned;
            resume_unwind(Box::new("poll"));
        }),
        bench.spawn(async { resume_unwind(Box::new("poll".to_owned())) }),
        bench.spawn(async { resume_unwind(Box::new(5_u8)) }),
    );
    assert_eq!(bench.run(), 3);
    assert_eq!(drops.get(), 1);
    assert_fails::<()>(joins.0, "poll");
    assert_fails::<()>(joins.1, "poll");
    let mut join: Join<()> = joins.2;
    let error = output(&mut join).unwrap_err();
    assert!(error.is_panic() && !error.is_cancelled());
    let payload = error.try_into_panic().unwrap();
    assert_eq!(payload.downcast_ref(), Some(&5_u8));
    drop(join);
    bench.end();
}

/// Notes whether its thread panics when it is dropped.
struct Notes(Arc<std::sync::Mutex<Vec<bool>>>);

impl Drop for Notes {
    fn drop(&mut self) {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(std::thread::panicking());
    }
}

#[test]
fn d26_a_future_that_panics_is_dropped_while_the_panic_unwinds() {
    let bench = Bench::new();
    let noted = Arc::default();
    let future = |panics: bool| {
        let notes = Notes(Arc::clone(&noted));
        poll_fn(move |_| {
            let _notes = &notes;
            if panics {
                resume_unwind(Box::new("poll"));
            }
            Poll::Ready(())
        })
    };
    let panics = bench.spawn(future(true));
    assert_eq!(bench.run(), 1);
    assert_eq!(*noted.lock().unwrap(), [true]);
    assert_fails(panics, "poll");
    let mut ready = bench.spawn(future(false));
    assert_eq!(bench.run(), 1);
    assert!(output(&mut ready).is_ok());
    assert_eq!(*noted.lock().unwrap(), [true, false]);
    drop(ready);
    bench.end();
}

#[test]
fn d18_a_future_that_panics_in_its_drop() {
    let bench = Bench::new();
    let (slot, drops) = (WakerSlot::default(), Count::default());
    // After it was ready; after it was cancelled; after it panicked in its poll.
    let future = |ready: bool, panics: bool| {
        let (bomb, slot) = (Bomb(drops.clone()), slot.clone());
        poll_fn(move |cx| {
            let _bomb = &bomb;
            slot.put(cx);
            if panics {
                resume_unwind(Box::new("poll"));
            }
            if ready {
                Poll::Ready(Bomb(Count::default()))
            } else {
                Poll::Pending
            }
        })
    };
    let (ready, waits, panics) = (
        bench.spawn(future(true, false)),
        bench.spawn(future(false, false)),
        bench.spawn(future(false, true)),
    );
    let closed = bench.spawn(future(false, false));
    assert_eq!(bench.run(), 4);
    assert_fails(ready, "dropped");
    // Its drop panicked while the first panic unwound.
    assert_fails(panics, "poll");
    waits.cancel();
    assert_eq!(bench.run(), 1);
    assert_fails(waits, "dropped");
    assert_eq!(drops.get(), 3);
    bench.on_worker(|| bench.local.close());
    assert_fails(closed, "dropped");
    let late = bench.spawn(future(true, false));
    assert_fails(late, "dropped");
    assert_eq!(drops.get(), 5);
    drop(slot.take());
    bench.end();
}

#[test]
fn d18_an_output_that_panics_in_its_drop() {
    let (by_handle, by_worker, by_taker) = (Count::default(), Count::default(), Count::default());
    let bench = Bench::new();
    let bomb = |count: &Count| std::future::ready(Bomb(count.clone()));
    let handle = bench.spawn(bomb(&by_handle));
    drop(bench.spawn(bomb(&by_worker)));
    let mut taker = bench.spawn(bomb(&by_taker));
    assert_eq!(bench.run(), 3);
    assert_eq!((by_handle.get(), by_worker.get()), (0, 1));
    drop(handle);
    assert_eq!(by_handle.get(), 1);
    // What the joiner took is the joiner's own.
    let mine = output(&mut taker);
    drop(taker);
    assert_eq!(by_taker.get(), 0);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(mine))).is_err());
    assert_eq!(by_taker.get(), 1);
    bench.end();
}

#[test]
fn d18_a_payload_that_panics_in_its_drop() {
    for depth in 0..5 {
        // Let go by the handle, by the worker, and by whoever joined.
        let counts: [Count; 3] = std::array::from_fn(|_| Count::default());
        let bench = Bench::new();
        let [handle, unwanted, joined] = counts.each_ref().map(|count| {
            let payload = Payload(count.clone(), depth);
            bench.spawn(async move { throw(payload) })
        });
        drop(unwanted);
        assert_eq!(bench.run(), 3);
        drop(handle);
        assert_fails_quietly(joined);
        bench.end();
        // Each drop of a payload throws the next; after a few the rest is forgotten.
        for count in counts {
            assert!((1..=depth + 1).contains(&count.get()), "{}", count.get());
            assert!(count.get() > depth.min(1));
        }
    }
}

fn throw(payload: Payload) {
    resume_unwind(Box::new(payload));
}

/// Takes the error and lets go of it the way the runtime does.
fn assert_fails_quietly(mut join: Join<()>) {
    drop_quietly(output(&mut join).unwrap_err());
}

#[test]
fn a_panic_while_the_thread_unwinds_is_not_a_second_one() {
    // The handle of a task whose output panics in its drop goes away in an unwinding thread.
    let bench = Bench::new();
    let drops = Count::default();
    let handle = bench.spawn(std::future::ready(Bomb(drops.clone())));
    bench.run();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _handle = handle;
        resume_unwind(Box::new("first"));
    }));
    assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&"first"));
    assert_eq!(drops.get(), 1);
    bench.end();
}

/// A joiner's waker that panics when woken, and when dropped.
struct PanickingWaker(Count);

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        self.0.add();
        resume_unwind(Box::new("woken"));
    }
}

impl Drop for PanickingWaker {
    fn drop(&mut self) {
        self.0.add();
        // Two panics at once would end any process; this is about the runtime's own drops.
        if !std::thread::panicking() {
            resume_unwind(Box::new("dropped"));
        }
    }
}

#[test]
fn d16_a_joiners_waker_that_panics() {
    let bench = Bench::new();
    let slot = WakerSlot::default();
    let mut tasks: Vec<Join<u8>> = (0..3)
        .map(|_| {
            let (slot, mut first) = (slot.clone(), true);
            bench.spawn(poll_fn(move |cx| {
                slot.put(cx);
                if std::mem::take(&mut first) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(1)
            }))
        })
        .collect();
    let counts: Vec<_> = tasks.iter().map(|_| Count::default()).collect();
    for (join, count) in tasks.iter_mut().zip(&counts) {
        let waker = Waker::from(Arc::new(PanickingWaker(count.clone())));
        let polled = Pin::new(join).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        // The one in the cell is the last; its drop is the runtime's.
        drop(waker);
    }
    // Replaced by another waker; dropped with its handle; woken by the worker.
    assert!(poll_once(&mut tasks[0]).is_pending());
    drop(tasks.remove(1));
    assert_eq!(
        [counts[0].get(), counts[1].get(), counts[2].get()],
        [1, 1, 0]
    );
    assert_eq!(bench.run(), 6);
    assert_eq!(counts[2].get(), 2, "woken and dropped");
    for join in &mut tasks {
        assert_eq!(output(join).unwrap(), 1);
    }
    drop((tasks, slot.take()));
    bench.end();
}

#[test]
fn d16_a_joiners_waker_that_panics_when_cloned_or_calls_back_when_dropped() {
    const PANICS: RawWakerVTable = RawWakerVTable::new(
        |_| resume_unwind(Box::new("cloned")),
        |_| {},
        |_| {},
        |_| {},
    );
    /// Wakes the very task whose handle holds it.
    struct CallsBack(WakerSlot, Count);
    impl Wake for CallsBack {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for CallsBack {
        fn drop(&mut self) {
            self.1.add();
            self.0.get().wake();
        }
    }

    let bench = Bench::new();
    let (slot, drops) = (WakerSlot::default(), Count::default());
    let mine = slot.clone();
    let mut polls_left = 3;
    let mut join = bench.spawn(poll_fn(move |cx| {
        mine.put(cx);
        polls_left -= 1;
        if polls_left == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    bench.run();
    let calls_back = Waker::from(Arc::new(CallsBack(slot.clone(), drops.clone())));
    let _ = Pin::new(&mut join).poll(&mut Context::from_waker(&calls_back));
    drop(calls_back);
    // SAFETY: the functions use no data.
    let panics = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &PANICS)) };
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let _ = Pin::new(&mut join).poll(&mut Context::from_waker(&panics));
    }));
    assert_eq!(polled.unwrap_err().downcast_ref(), Some(&"cloned"));
    assert_eq!((drops.get(), bench.run()), (0, 0));
    // The handle is as good as before; what replaces the waker drops it.
    assert!(poll_once(&mut join).is_pending());
    assert_eq!((drops.get(), bench.run()), (1, 1));
    slot.get().wake();
    assert_eq!(bench.run(), 1);
    output(&mut join).unwrap();
    drop((join, slot.take()));
    bench.end();
}

#[test]
fn d16_a_waker_left_behind_when_its_successor_could_not_be_cloned() {
    const PANICS: RawWakerVTable = RawWakerVTable::new(
        |_| resume_unwind(Box::new("cloned")),
        |_| {},
        |_| {},
        |_| {},
    );
    // The handle took the cell back, the clone panicked; then the handle goes, before or after
    // the task is complete, and with it the waker whose drop panics.
    for complete_first in [true, false] {
        let bench = Bench::new();
        let count = Count::default();
        let mut join = bench.spawn(async { 1 });
        let left = Waker::from(Arc::new(PanickingWaker(count.clone())));
        let _ = Pin::new(&mut join).poll(&mut Context::from_waker(&left));
        drop(left);
        // SAFETY: the functions use no data.
        let panics = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &PANICS)) };
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let _ = Pin::new(&mut join).poll(&mut Context::from_waker(&panics));
        }));
        assert!(polled.is_err());
        if complete_first {
            assert_eq!(bench.run(), 1);
        }
        drop(join);
        bench.run();
        assert_eq!(count.get(), 1, "dropped, and not woken");
        bench.end();
    }
}

#[test]
fn a_body_that_panics_while_it_is_made_leaves_no_task() {
    let bench = Bench::new();
    let made = catch_unwind(AssertUnwindSafe(|| {
        let make = || -> std::future::Ready<()> { resume_unwind(Box::new("making")) };
        testing::spawn(&bench.remote, make())
    }));
    assert!(made.is_err());
    assert_eq!(bench.serve(), 0);
    bench.end();
}
