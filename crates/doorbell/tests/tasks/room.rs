//! Mailboxes with a limit: calls wait or are refused, wakes and tasks never.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::eventually;
use crate::hostile;
use crate::shuffled::Builder;
use doorbell::{BuildError, CallError, CoreId, Runtime, call::Call};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Far longer than anything should take, so that a loaded machine passes.
const LONG: Duration = Duration::from_secs(30);

/// A runtime whose core 0 is inside a poll until told to end it.
fn held(limit: usize) -> (Runtime, mpsc::Sender<()>) {
    let rt = Builder::new()
        .cores(2)
        .mailbox_limit(limit)
        .build()
        .unwrap();
    let (go, gate) = mpsc::channel::<()>();
    let (began, begun) = mpsc::channel();
    drop(rt.task().on(0).spawn(async move {
        began.send(()).unwrap();
        let _ = gate.recv();
    }));
    begun.recv().unwrap();
    (rt, go)
}

#[test]
fn a_full_mailbox_refuses_and_loses_nothing() {
    let (rt, go) = held(3);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = || {
        let ran = Arc::clone(&ran);
        move || {
            ran.fetch_add(1, SeqCst);
        }
    };
    let mut calls = vec![rt.try_call_on(0, count()).unwrap()];
    rt.post_on(0, count()).unwrap();
    calls.push(rt.try_call_on(0, count()).unwrap());
    let full = rt.try_call_on(0, count()).unwrap_err();
    assert!(matches!(full, CallError::Full { core } if core == CoreId::new(0)));
    assert!(full.to_string().contains("mailbox_limit"), "{full}");
    assert!(matches!(
        rt.post_on(0, count()),
        Err(CallError::Full { .. })
    ));
    // Another core has room of its own, and tasks and wakes need no room.
    rt.block_on(rt.try_call_on(1, || ()).unwrap()).unwrap();
    let pinned = rt.task().on(0).spawn(async {});
    // One that waits for room, one whose result is not awaited, and one that is given up.
    let waits = rt.call_on(0, count());
    rt.call_on(0, count()).detach();
    drop(rt.call_on(0, count()));
    assert_eq!(ran.load(SeqCst), 0);
    drop(go);
    for call in calls {
        rt.block_on(call).unwrap();
    }
    rt.block_on(waits).unwrap();
    rt.block_on(pinned).unwrap();
    while ran.load(SeqCst) < 5 {
        std::thread::yield_now();
    }
    // All places are free again.
    let again: Vec<_> = (0..3).map(|_| rt.call_on(0, count())).collect();
    for call in again {
        rt.block_on(call).unwrap();
    }
    assert_eq!(ran.load(SeqCst), 8);
}

#[test]
fn blocking_callers_wait_for_room() {
    let (rt, go) = held(1);
    let first = rt.try_call_on(0, || ()).unwrap();
    std::thread::scope(|scope| {
        let callers = [(); 4].map(|()| scope.spawn(|| rt.call_blocking(0, || 7).unwrap()));
        drop(go);
        for caller in callers {
            assert_eq!(caller.join().unwrap(), 7);
        }
    });
    rt.block_on(first).unwrap();
}

#[test]
fn a_withdrawn_call_gives_its_place_back() {
    let (rt, go) = held(1);
    drop(rt.try_call_on(0, || ()).unwrap());
    assert!(
        rt.try_call_on(0, || ()).is_err(),
        "until the core has dropped it"
    );
    drop(go);
    rt.block_on(rt.call_on(0, || ())).unwrap();
}

#[test]
fn a_mailbox_without_room_is_refused() {
    let error = Builder::new().mailbox_limit(0).build().unwrap_err();
    assert!(matches!(error, BuildError::NoRoom));
}

/// A waker that counts, and then calls its closure.
struct Calls<F>(AtomicUsize, F);

impl<F: Fn() + Send + Sync + 'static> Calls<F> {
    fn new(f: F) -> Arc<Self> {
        Arc::new(Calls(AtomicUsize::new(0), f))
    }
}

impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
        (self.1)();
    }
}

/// Makes the call wait for room.
fn wait<F: Fn() + Send + Sync + 'static>(call: &mut Call<i32>, waker: &Arc<Calls<F>>) {
    let waker = Waker::from(Arc::clone(waker));
    let polled = Pin::new(call).poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Pending));
}

#[test]
fn a_waiter_whose_waker_panics_harms_no_other_call() {
    let (rt, go) = held(1);
    let first = rt.try_call_on(0, || 1).unwrap();
    let (panics, counts) = (Calls::new(|| panic!("a waker panics")), Calls::new(|| ()));
    let (mut hostile, mut next) = (rt.call_on(0, || 2), rt.call_on(0, || 3));
    wait(&mut hostile, &panics);
    wait(&mut next, &counts);
    drop(go);
    // The worker gives its place to the waiter whose waker panics.
    assert_eq!(rt.block_on(first).unwrap(), 1);
    eventually(|| panics.0.load(SeqCst) == 1);
    assert_eq!(counts.0.load(SeqCst), 0, "there is one place");
    drop(hostile);
    eventually(|| counts.0.load(SeqCst) == 1);
    assert_eq!(rt.block_on(next).unwrap(), 3);
    // As many places as before.
    eventually(|| rt.try_call_on(0, || ()).is_ok());
    assert_eq!(rt.block_on(rt.call_on(0, || 4)).unwrap(), 4);
    assert_eq!(
        (panics.0.load(SeqCst), counts.0.load(SeqCst)),
        (1, 1),
        "each is woken once"
    );
}

#[test]
fn a_waiter_whose_waker_panics_where_it_is_dropped_harms_no_other_call() {
    let (rt, go) = held(1);
    let first = rt.try_call_on(0, || 1).unwrap();
    let (mut given_up, mut waits) = (rt.call_on(0, || 2), rt.call_on(0, || 3));
    let counts = Arc::default();
    let poll = |call: &mut Call<i32>| {
        let polled = hostile::poll(&counts, |cx| Pin::new(call).poll(cx));
        assert!(matches!(polled, Poll::Pending));
        counts.dropped()
    };
    assert_eq!(poll(&mut given_up), 0);
    assert_eq!(
        poll(&mut given_up),
        1,
        "the second waker replaces the first"
    );
    drop(given_up);
    assert_eq!(poll(&mut waits), 2, "it was given up with its call");
    drop(go);
    // On the worker, the place of the first call goes to the next one, whose waker is woken and dropped.
    assert_eq!(rt.block_on(first).unwrap(), 1);
    eventually(|| (counts.woken(), counts.dropped()) == (1, 3));
    assert_eq!(rt.block_on(waits).unwrap(), 3);
    assert_eq!(rt.block_on(rt.call_on(0, || 4)).unwrap(), 4);
}

#[test]
fn the_panic_of_a_call_meets_a_waker_that_panics() {
    let (rt, go) = held(1);
    let first = rt
        .try_call_on(0, || -> i32 { panic!("a call panics") })
        .unwrap();
    let panics = Calls::new(|| panic!("a waker panics"));
    let mut hostile = rt.call_on(0, || 2);
    wait(&mut hostile, &panics);
    drop(go);
    let error = rt.block_on(first).unwrap_err();
    assert!(error.to_string().contains("a call panics"), "{error}");
    assert_eq!(rt.block_on(hostile).unwrap(), 2);
    assert_eq!(panics.0.load(SeqCst), 1);
}

#[test]
fn a_waker_may_give_up_another_wait() {
    let (rt, go) = held(1);
    let first = rt.try_call_on(0, || 1).unwrap();
    let counts = Calls::new(|| ());
    let mut other = rt.call_on(0, || 3);
    let mut waits = rt.call_on(0, || 2);
    let given_up = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&given_up);
    let gives_up = Calls::new(move || drop(theirs.lock().unwrap().take()));
    wait(&mut waits, &gives_up);
    wait(&mut other, &counts);
    *given_up.lock().unwrap() = Some(other);
    let (done, is_done) = mpsc::channel();
    let handle = rt.handle().clone();
    std::thread::spawn(move || {
        drop(go);
        let results = [first, waits].map(|call| handle.try_block_on(call).unwrap().unwrap());
        done.send(results).unwrap();
    });
    let results = is_done.recv_timeout(LONG);
    if results.is_err() {
        // Its drop would wait for the worker, which hangs.
        std::mem::forget(rt);
    }
    assert_eq!(results, Ok([1, 2]), "the worker waits for itself");
    assert!(given_up.lock().unwrap().is_none());
    assert_eq!(counts.0.load(SeqCst), 0, "it was given up");
}
