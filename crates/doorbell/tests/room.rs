//! Mailboxes with a limit: calls wait or are refused, wakes and tasks never.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{BuildError, Builder, CallError, CoreId, Runtime};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};

/// A runtime whose core 0 is inside a poll until told.
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
    // Another core has room of its own, and tasks and wakes need none.
    rt.block_on(rt.try_call_on(1, || ()).unwrap()).unwrap();
    let pinned = rt.task().on(0).spawn(async {});
    // One that waits for room, one that nobody waits for, and one that is given up.
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
