//! Calls to many cores, on this computer; and what the models of them share.

// Tests on real threads, outside of any model.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Many, ManyCall, ManyTable, Outcome, launch_many};
use crate::scheduler::Member;
use crate::scheduler::RemoteRef;
use crate::testing::{Idler, Inbox, call, remote};
use crate::worker::Local;
use doorbell_machine::{Counter, Host, Machine};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

/// Calls the workers with these remote halves; they are given their indices.
pub(super) fn many<M: Machine, F, R>(remotes: &[RemoteRef<M>], f: F) -> Many<R>
where
    F: Fn(usize) -> R + Send + Sync,
    R: Send,
{
    fn table<F: Fn(usize) -> R, R>(_: &ManyCall<F, R>) -> &'static ManyTable {
        ManyCall::<F, R>::TABLE
    }
    let cores: Vec<_> = (0..remotes.len()).collect();
    let call = ManyCall::new(f, &cores);
    let (table, data) = (table(&call), call.layout());
    let remotes = remotes.iter().map(|remote| &**remote);
    // SAFETY: closure and results are Send, and outlive the calls in these tests; what is written
    // is of the table's types.
    unsafe {
        let raw = launch_many(remotes, cores.len(), table, data, |data| call.write(data));
        Many::typed::<F>(raw)
    }
}

fn serve(remote: &Member<Host>) -> u64 {
    // SAFETY: the remote half is served by this thread alone.
    unsafe { remote.serve(&Inbox::default()) }.delivered
}

fn poll<R>(many: &mut Many<R>, waker: &Waker) -> Poll<Vec<Outcome<R>>> {
    Pin::new(many).poll(&mut Context::from_waker(waker))
}

/// Counts its wakes.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn miri_results_come_in_the_order_of_the_cores() {
    let remotes: [_; 5] = std::array::from_fn(|_| remote::<Host>());
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let text = Arc::new(String::from("core "));
    let theirs = Arc::clone(&text);
    let mut calls = many(&remotes, move |core| format!("{theirs}{core}"));
    for (served, core) in [3, 0, 4, 1, 2].into_iter().enumerate() {
        assert!(poll(&mut calls, &waker).is_pending());
        assert_eq!((wakes.0.load(Relaxed), serve(&remotes[core])), (0, 1));
        assert_eq!(wakes.0.load(Relaxed), usize::from(served == 4));
    }
    let Poll::Ready(outcomes) = poll(&mut calls, &waker) else {
        panic!("all have ended");
    };
    for (core, outcome) in outcomes.into_iter().enumerate() {
        assert!(matches!(outcome, Outcome::Done(text) if text == format!("core {core}")));
    }
    assert_eq!(
        Arc::strong_count(&text),
        2,
        "the closure lives with the future"
    );
    drop(calls);
    assert_eq!(
        (Arc::strong_count(&text), Arc::strong_count(&wakes)),
        (1, 2)
    );
}

#[test]
fn miri_a_panic_is_that_cores_result_and_the_others_run() {
    let remotes: [_; 3] = std::array::from_fn(|_| remote::<Host>());
    // SAFETY: the remote half is this thread's.
    unsafe { remotes[2].close().deliver(&Inbox::default()) };
    let mut calls = many(&remotes, |core| {
        if core == 0 {
            resume_unwind(Box::new("on purpose"));
        }
        core
    });
    assert_eq!((serve(&remotes[0]), serve(&remotes[1])), (1, 1));
    let Poll::Ready(outcomes) = poll(&mut calls, Waker::noop()) else {
        panic!("all have ended");
    };
    let [Outcome::Panicked(payload), Outcome::Done(1), Outcome::Gone] = &outcomes[..] else {
        panic!("{outcomes:?}");
    };
    assert_eq!(payload.message(), Some("on purpose"));
}

#[test]
fn miri_d11_dropping_the_future_withdraws_what_has_not_begun() {
    for begun in 0..=3 {
        let remotes: [_; 3] = std::array::from_fn(|_| remote::<Host>());
        let (owned, ran) = (Arc::new([7; 20]), Arc::new(AtomicUsize::new(0)));
        let (theirs, count) = (Arc::clone(&owned), Arc::clone(&ran));
        let mut calls = many(&remotes, move |_| {
            count.fetch_add(1, Relaxed);
            Arc::clone(&theirs)
        });
        assert!(poll(&mut calls, Waker::noop()).is_pending());
        remotes[..begun].iter().for_each(|remote| _ = serve(remote));
        drop(calls);
        assert_eq!(
            Arc::strong_count(&owned) == 1,
            begun == 3,
            "until the last has ended"
        );
        remotes[begun..].iter().for_each(|remote| _ = serve(remote));
        assert_eq!((ran.load(Relaxed), Arc::strong_count(&owned)), (begun, 1));
    }
}

#[test]
fn miri_d9_a_blocking_waiter_borrows_and_its_frame_is_gone_right_after() {
    let rounds = if cfg!(miri) { 10 } else { 5_000 };
    let remote = remote::<Host>();
    let local = Local::new(remote.clone());
    let idler = Idler::new(&local, true);
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                let frame = [round; 10];
                let sum = |core| frame.iter().sum::<usize>() + core;
                let outcomes = many(std::slice::from_ref(&remote), sum).wait();
                assert!(matches!(outcomes[..], [Outcome::Done(sum)] if sum == 10 * round));
            }
            assert!(call(&remote, || done.store(1, Relaxed)).is_ok());
        });
        local.enter(|| idler.until(|| done.load(Relaxed) == 1));
    });
    idler.assert_rings_are_paid_for();
    assert!(remote.counts().rings.get() <= rounds as u64 + 1);
}

#[test]
fn miri_d10_a_waiter_that_parks_is_woken_by_the_last_of_many() {
    let workers = if cfg!(miri) { 2 } else { 4 };
    let rounds = if cfg!(miri) { 2 } else { 100 };
    for round in 0..rounds {
        let remotes: Vec<_> = (0..workers).map(|_| remote::<Host>()).collect();
        std::thread::scope(|scope| {
            for remote in &remotes {
                scope.spawn(move || {
                    // Now and then later than a waiter spins.
                    if round % 2 == 0 {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    let local = Local::new(remote.clone());
                    local.enter(|| while serve(remote) == 0 {});
                });
            }
            let outcomes = many(&remotes, |core| vec![core; 3]).wait();
            for (core, outcome) in outcomes.into_iter().enumerate() {
                assert!(matches!(outcome, Outcome::Done(list) if list == [core; 3]));
            }
        });
    }
}

#[test]
#[should_panic(expected = "polled again after it was ready")]
fn a_future_that_was_ready_is_not_polled_again() {
    let remotes = [remote::<Host>()];
    let mut calls = many(&remotes, |core| core);
    assert_eq!(serve(&remotes[0]), 1);
    assert!(poll(&mut calls, Waker::noop()).is_ready());
    let _ = poll(&mut calls, Waker::noop());
}
