//! Calls that a thread waits for, on this computer.

// Tests on real threads, outside of any model.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{CallFailed, INLINE_BYTES, SPIN_NS};
use crate::scheduler::Member;
use crate::testing::{Idler, Inbox, call, remote};
use crate::worker::Local;
use doorbell_machine::{Counter, Host, Machine};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Runs a worker on this thread until `calls` calls have run, while `caller` makes them on a
/// thread of its own.
fn with_worker<R: Send>(
    calls: u64,
    spins: bool,
    caller: impl FnOnce(&Member<Host>) -> R + Send,
) -> R {
    let remote = remote::<Host>();
    let local = Local::new(remote.clone());
    let idler = Idler::new(&local, spins);
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // A test that fails must not leave the worker waiting.
            let result = catch_unwind(AssertUnwindSafe(|| caller(&remote)));
            // The worker idles until the caller is done, which is told by one more call.
            assert!(call(&remote, || done.store(1, Relaxed)).is_ok());
            result
        });
        local.enter(|| idler.until(|| done.load(Relaxed) == 1));
        idler.assert_rings_are_paid_for();
        assert!(
            remote.counts().rings.get() <= calls + 1,
            "one ring per call at most"
        );
        thread
            .join()
            .unwrap()
            .unwrap_or_else(|payload| resume_unwind(payload))
    })
}

/// A call whose closure and result have those sizes.
fn sized<const IN: usize, const OUT: usize>(remote: &Member<Host>) {
    let sent = std::array::from_fn::<u8, IN, _>(|i| i as u8);
    let kept = sent;
    let got = call(remote, move || {
        assert_eq!(sent, std::array::from_fn::<u8, IN, _>(|i| i as u8));
        std::array::from_fn::<u8, OUT, _>(|i| sent.get(i).map_or(0xA5, |byte| byte ^ 0xFF))
    });
    let Ok(got) = got else {
        panic!("the worker is there")
    };
    let expected = std::array::from_fn(|i| kept.get(i).map_or(0xA5, |byte| byte ^ 0xFF));
    assert_eq!(got, expected);
}

#[test]
fn miri_closures_and_results_of_any_size() {
    with_worker(9, false, |remote| {
        sized::<0, 0>(remote);
        sized::<1, 0>(remote);
        sized::<0, 1>(remote);
        // Just inline, and just not: the closure is what fills the room, then the result.
        sized::<INLINE_BYTES, 0>(remote);
        sized::<{ INLINE_BYTES + 1 }, 0>(remote);
        sized::<0, { INLINE_BYTES - 8 }>(remote);
        sized::<0, INLINE_BYTES>(remote);
        sized::<0, { INLINE_BYTES + 1 }>(remote);
        sized::<300, 300>(remote);
    });
}

#[test]
fn a_closure_of_a_larger_alignment() {
    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Wide(u8);
    let result = with_worker(1, true, |remote| {
        let wide = Wide(3);
        let sent = call(remote, move || {
            // The closure may be moved, its captures stay aligned.
            let wide = std::hint::black_box(wide);
            (std::ptr::from_ref(&wide).addr() % 64, Wide(wide.0 + 1))
        });
        sent.map(|(rest, wide)| (rest, wide.0)).ok()
    });
    assert_eq!(result, Some((0, 4)));
}

#[test]
fn miri_what_a_closure_owns_is_dropped_once_where_it_ran() {
    let owned = Arc::new(5_usize);
    let theirs = Arc::clone(&owned);
    let result = with_worker(1, false, move |remote| {
        let returned = Arc::clone(&theirs);
        let result = call(remote, move || {
            drop(theirs);
            returned
        });
        result.ok()
    });
    assert_eq!(Arc::strong_count(&owned), 2);
    drop(result.expect("the worker is there"));
    assert_eq!(Arc::strong_count(&owned), 1);
}

#[test]
fn miri_d9_a_result_on_the_callers_stack_and_the_frame_gone_right_after() {
    fn frame(remote: &Member<Host>, i: usize) -> usize {
        let (mut seen, local) = ([0; 16], [i; 16]);
        let sum = call(remote, || {
            seen = local;
            local.iter().sum::<usize>()
        });
        let sum = sum.ok().expect("the worker is there");
        assert_eq!(seen, local);
        sum
    }
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    for spins in [true, false] {
        with_worker(rounds as u64, spins, |remote| {
            for i in 0..rounds {
                assert_eq!(frame(remote, i), 16 * i);
            }
        });
    }
}

#[test]
fn a_caller_that_fell_asleep_is_woken() {
    // The callee starts only after the caller has stopped spinning for a long time.
    let remote = remote::<Host>();
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| call(&remote, || 7).ok());
        while remote.mailbox_is_empty() {
            std::thread::yield_now();
        }
        let start_ns = Host::now_ns();
        while Host::now_ns() < start_ns + 40 * SPIN_NS {
            std::thread::yield_now();
        }
        let inbox = Inbox::default();
        // SAFETY: this thread is the worker.
        assert_eq!(unsafe { remote.serve(&inbox) }.delivered, 1);
        assert_eq!(caller.join().unwrap(), Some(7));
    });
}

#[test]
fn a_call_to_a_worker_that_is_gone_gives_the_closure_back() {
    let remote = remote::<Host>();
    assert!(remote.close().is_empty());
    let (owned, ran) = (Arc::new(()), Cell::new(0));
    for large in [false, true] {
        let held = Arc::clone(&owned);
        let room = [0_u8; 100];
        let count = |by: u32| ran.set(ran.get() + by);
        let failed = if large {
            let f = move || {
                drop(held);
                room.len() as u32
            };
            call(&remote, f).map_err(|failed| match failed {
                CallFailed::Gone(f) => f(),
                CallFailed::Panicked(payload) => panic!("{payload}"),
            })
        } else {
            let f = move || {
                drop(held);
                1
            };
            call(&remote, f).map_err(|failed| match failed {
                CallFailed::Gone(f) => f(),
                CallFailed::Panicked(payload) => panic!("{payload}"),
            })
        };
        // It comes back whole: it can be called here, and drops what it owns.
        count(failed.unwrap_err());
        assert_eq!(Arc::strong_count(&owned), 1);
    }
    assert_eq!(ran.get(), 101);
    assert_eq!(remote.counts().rings.get(), 0);
}

#[test]
fn a_panic_reaches_the_caller_and_the_worker_goes_on() {
    let owned = Arc::new(());
    with_worker(3, true, |remote| {
        for large in [false, true] {
            let (held, room) = (Arc::clone(&owned), [7_u8; 100]);
            let failed = if large {
                call(remote, move || -> usize {
                    assert_eq!(Arc::strong_count(&held), 2);
                    resume_unwind(Box::new(format!("{} bytes", room.len())))
                })
                .err()
                .map(|failed| matches_panic(&failed, "100 bytes"))
            } else {
                call(remote, move || -> usize {
                    assert_eq!(Arc::strong_count(&held), 2);
                    resume_unwind(Box::new("small"))
                })
                .err()
                .map(|failed| matches_panic(&failed, "small"))
            };
            assert_eq!(failed, Some(true));
            assert_eq!(Arc::strong_count(&owned), 1);
        }
        assert!(matches!(call(remote, || 1), Ok(1)));
    });
}

fn matches_panic<F>(failed: &CallFailed<F>, text: &str) -> bool {
    match failed {
        CallFailed::Panicked(payload) => payload.message() == Some(text),
        CallFailed::Gone(_) => false,
    }
}

#[test]
fn many_callers_each_get_their_own_result() {
    let (callers, each) = (4, 2_000);
    let remote = remote::<Host>();
    let local = Local::new(remote.clone());
    let idler = Idler::new(&local, false);
    let ran = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for caller in 0..callers {
            let (remote, ran) = (&remote, &ran);
            scope.spawn(move || {
                for i in 0..each {
                    let got = call(remote, || {
                        ran.fetch_add(1, Relaxed);
                        caller * each + i
                    });
                    assert!(matches!(got, Ok(value) if value == caller * each + i));
                }
            });
        }
        local.enter(|| idler.until(|| ran.load(Relaxed) == callers * each));
    });
    assert_eq!(ran.load(Relaxed), callers * each);
    idler.assert_rings_are_paid_for();
    assert!(remote.counts().rings.get() <= (callers * each) as u64);
}
