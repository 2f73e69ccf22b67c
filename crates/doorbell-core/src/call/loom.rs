//! A caller that waits against its callee, in every interleaving. A spin of this machine
//! looks twice and gives up, so the caller is met both spinning and asleep.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::CallFailed;
use crate::scheduler::RemoteRef;
use crate::testing::model::{check, check_large, join_all, mutant};
use crate::testing::{Idler, call, remote};
use crate::worker::Local;
use ::loom::thread::{self, JoinHandle};
use doorbell_machine::{Cell, Loom, Machine};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Memory that the callee writes and the caller reads after the call. In a box, so that a
/// race is found on the cell and not on what lies where it was.
struct Written(Box<<Loom as Machine>::Cell<u64>>);

impl Written {
    fn new() -> Self {
        Written(Box::new(Cell::new(0)))
    }

    fn write(&self, value: u64) {
        // SAFETY: the call hands the cell from caller to callee and back, which the model
        // checks.
        self.0.with_mut(|cell| unsafe { *cell = value });
    }

    fn read(&self) -> u64 {
        // SAFETY: as above.
        self.0.with(|cell| unsafe { *cell })
    }
}

// SAFETY: see `write`.
unsafe impl Sync for Written {}

/// A thread that makes one call; counts whether it ran. Small closures travel in the slot.
fn caller(remote: &RemoteRef<Loom>, ran: &Arc<AtomicUsize>, large: bool) -> JoinHandle<()> {
    let (remote, ran) = (remote.clone(), Arc::clone(ran));
    thread::spawn(move || {
        let written = Written::new();
        let room = [3_u64; 8];
        let (count, cell) = (&*ran, &written);
        let result = if large {
            let sum = move || {
                cell.write(room.iter().sum());
                count.fetch_add(1, Relaxed);
                cell.read()
            };
            call(&remote, sum).map_err(|_| ())
        } else {
            let write = move || {
                cell.write(24);
                count.fetch_add(1, Relaxed);
                24
            };
            call(&remote, write).map_err(|_| ())
        };
        match result {
            Ok(value) => assert_eq!((value, written.read()), (24, 24)),
            Err(()) => assert_eq!(written.read(), 0, "it ran, and the worker was gone"),
        }
    })
}

/// Callers against a worker that idles until all calls have run.
fn callers_and_worker(large: &[bool]) {
    let remote = remote::<Loom>();
    let ran = Arc::new(AtomicUsize::new(0));
    let local = Local::new(remote.clone());
    let idler = Idler::new(&local, true);
    let threads: Vec<_> = large.iter().map(|l| caller(&remote, &ran, *l)).collect();
    local.enter(|| idler.until(|| ran.load(Relaxed) == large.len()));
    join_all(threads);
    assert_eq!(ran.load(Relaxed), large.len());
    idler.assert_rings_are_paid_for();
}

fn one_small() {
    callers_and_worker(&[false]);
}

fn one_large() {
    callers_and_worker(&[true]);
}

fn two_callers() {
    callers_and_worker(&[false, true]);
}

/// The worker closes meanwhile: the call runs, or its closure comes back.
fn call_against_close() {
    let remote = remote::<Loom>();
    let ran = Arc::new(AtomicUsize::new(0));
    let (gate, theirs) = (Arc::clone(&ran), remote.clone());
    let caller = thread::spawn(move || {
        let before = gate.load(Relaxed);
        match call(&theirs, || gate.fetch_add(1, Relaxed)) {
            Ok(count) => assert_eq!((count, gate.load(Relaxed)), (before, before + 1)),
            Err(CallFailed::Gone(f)) => {
                assert_eq!(f(), before, "it ran, and the worker was gone");
            }
            Err(CallFailed::Panicked(payload)) => panic!("{payload}"),
        }
    });
    let local = Local::new(remote.clone());
    local.enter(|| {
        // SAFETY: this thread is the worker.
        let _ = unsafe { remote.serve(&local) };
        local.close();
    });
    caller.join().unwrap();
    assert_eq!(ran.load(Relaxed), 1);
}

/// A closure that panics: the caller gets the payload, the callee goes on.
fn panicking_call() {
    let remote = remote::<Loom>();
    let ran = Arc::new(AtomicUsize::new(0));
    let (count, theirs) = (Arc::clone(&ran), remote.clone());
    let caller = thread::spawn(move || {
        let result = call(&theirs, || {
            count.fetch_add(1, Relaxed);
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        match result {
            Err(CallFailed::Panicked(payload)) => assert_eq!(payload.message(), Some("on purpose")),
            Ok(()) | Err(CallFailed::Gone(_)) => panic!("the panic was lost"),
        }
    });
    let local = Local::new(remote.clone());
    let idler = Idler::new(&local, false);
    local.enter(|| idler.until(|| ran.load(Relaxed) == 1));
    caller.join().unwrap();
}

#[test]
fn a_caller_sees_what_the_callee_did() {
    check(one_small);
    check(one_large);
}

#[test]
fn two_callers_each_get_their_own() {
    check_large(two_callers);
}

#[test]
fn d7_a_call_to_a_closing_worker_runs_or_comes_back() {
    check(call_against_close);
}

#[test]
fn a_panic_reaches_the_caller() {
    check(panicking_call);
}

#[test]
fn mutant_sleep_silently() {
    mutant!(CallSleepSilently, one_small);
}

#[test]
fn mutant_done_relaxed() {
    mutant!(CallDoneRelaxed, one_small);
}

#[test]
fn mutant_touch_after_done() {
    mutant!(CallTouchAfterDone, one_small);
}
