//! Tasks that are served while their worker is stuck in a long poll.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::net::UnixStream;
use doorbell::{Builder, Runtime, rescue};
use std::future::poll_fn;
use std::io::Write as _;
use std::os::unix::net::UnixStream as Theirs;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(20);

/// A runtime with one core, so that no other worker helps its Fair worker.
fn runtime() -> Runtime {
    let runtime = Builder::new().cores(1).build().unwrap();
    runtime.open_rescue().unwrap();
    runtime
}

/// A task that reads bytes and reports for each whether that was a rescue. Returns where to write them, and
/// its reports.
fn reads(runtime: &Runtime, rescuable: bool) -> (Theirs, Receiver<bool>) {
    let (ours, theirs) = Theirs::pair().unwrap();
    let (says, said) = channel();
    let mut task = runtime.task();
    if rescuable {
        task = task.rescuable();
    }
    drop(task.spawn(async move {
        let ours = UnixStream::from_std(ours).unwrap();
        let mut byte = [0];
        while ours.read(&mut byte).await.unwrap() == 1 {
            says.send(rescue::is_under_way()).unwrap();
        }
    }));
    (theirs, said)
}

/// Lets its worker run it once, so that it waits.
fn waits(theirs: &mut Theirs, said: &Receiver<bool>) {
    theirs.write_all(b"a").unwrap();
    assert!(!said.recv_timeout(LONG).unwrap(), "nothing is stuck");
}

/// Keeps the Fair worker inside one poll until the sender is dropped.
fn stuck(runtime: &Runtime) -> Sender<()> {
    let (release, released) = channel();
    let (begins, begun) = channel();
    drop(runtime.spawn(async move {
        begins.send(()).unwrap();
        let _ = released.recv_timeout(LONG);
    }));
    begun.recv_timeout(LONG).unwrap();
    release
}

#[test]
fn a_rescuable_task_reads_while_its_worker_is_stuck() {
    let runtime = runtime();
    let (mut theirs, said) = reads(&runtime, true);
    waits(&mut theirs, &said);
    for _ in 0..3 {
        let release = stuck(&runtime);
        for _ in 0..10 {
            theirs.write_all(b"b").unwrap();
            assert!(said.recv_timeout(LONG).unwrap(), "its worker is stuck");
        }
        drop(release);
        // It still belongs to its worker.
        runtime.block_on(runtime.spawn(async {})).unwrap();
        waits(&mut theirs, &said);
    }
}

#[test]
fn one_that_is_not_waits_for_its_worker() {
    let runtime = runtime();
    let (mut theirs, said) = reads(&runtime, false);
    let (mut others, heard) = reads(&runtime, true);
    waits(&mut theirs, &said);
    waits(&mut others, &heard);
    let release = stuck(&runtime);
    theirs.write_all(b"b").unwrap();
    others.write_all(b"b").unwrap();
    assert!(heard.recv_timeout(LONG).unwrap());
    assert!(said.try_recv().is_err(), "its worker is stuck");
    drop(release);
    assert!(!said.recv_timeout(LONG).unwrap());
}

#[test]
fn a_new_task_and_a_new_socket_of_a_rescue_are_served_too() {
    let runtime = runtime();
    let (ours, mut theirs) = Theirs::pair().unwrap();
    let (says, said) = channel();
    let (inner, mut outer) = Theirs::pair().unwrap();
    let mut inner = Some(inner);
    drop(runtime.task().rescuable().spawn(async move {
        let ours = UnixStream::from_std(ours).unwrap();
        let mut byte = [0];
        while ours.read(&mut byte).await.unwrap() == 1 {
            if byte != *b"n" {
                says.send(rescue::is_under_way()).unwrap();
                continue;
            }
            let (inner, says) = (inner.take().unwrap(), says.clone());
            drop(doorbell::task().rescuable().spawn(async move {
                let inner = UnixStream::from_std(inner).unwrap();
                says.send(rescue::is_under_way()).unwrap();
                while inner.read(&mut [0]).await.unwrap() == 1 {
                    says.send(rescue::is_under_way()).unwrap();
                }
            }));
        }
    }));
    waits(&mut theirs, &said);
    let release = stuck(&runtime);
    theirs.write_all(b"n").unwrap();
    assert!(said.recv_timeout(LONG).unwrap());
    for _ in 0..10 {
        outer.write_all(b"b").unwrap();
        assert!(said.recv_timeout(LONG).unwrap());
    }
    drop(release);
    runtime.block_on(runtime.spawn(async {})).unwrap();
    waits(&mut outer, &said);
}

#[test]
fn what_declines_waits_for_its_own_worker() {
    let runtime = runtime();
    let (says, said) = channel();
    let (ours, mut theirs) = Theirs::pair().unwrap();
    drop(runtime.task().rescuable().spawn(async move {
        let ours = UnixStream::from_std(ours).unwrap();
        let mut byte = [0];
        while ours.read(&mut byte).await.unwrap() == 1 {
            says.send(rescue::is_under_way()).unwrap();
            poll_fn(|cx| {
                if rescue::is_under_way() {
                    rescue::decline(cx);
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
            says.send(rescue::is_under_way()).unwrap();
        }
    }));
    waits(&mut theirs, &said);
    assert!(!said.recv_timeout(LONG).unwrap());
    let release = stuck(&runtime);
    theirs.write_all(b"b").unwrap();
    assert!(said.recv_timeout(LONG).unwrap());
    assert!(said.try_recv().is_err(), "its worker is stuck");
    drop(release);
    assert!(!said.recv_timeout(LONG).unwrap());
}

#[test]
fn what_lies_behind_a_poll_is_found() {
    let runtime = runtime();
    let (mut theirs, said) = reads(&runtime, true);
    waits(&mut theirs, &said);
    // It waits for no descriptor: the long poll wakes it, as its first step.
    let waker = Arc::new(Mutex::new(None::<Waker>));
    let (says, heard) = channel();
    let known = Arc::clone(&waker);
    drop(runtime.task().rescuable().spawn(poll_fn(move |cx| {
        *known.lock().unwrap() = Some(cx.waker().clone());
        says.send(rescue::is_under_way()).unwrap();
        Poll::<()>::Pending
    })));
    assert!(!heard.recv_timeout(LONG).unwrap());
    let found = runtime.spawn(async move {
        waker.lock().unwrap().take().unwrap().wake();
        // This makes the guard notice its worker.
        theirs.write_all(b"b").unwrap();
        (heard.recv_timeout(LONG), said.recv_timeout(LONG))
    });
    let found = runtime.block_on(found).unwrap();
    assert_eq!(found, (Ok(true), Ok(true)));
}

#[test]
fn a_runtime_with_guards_ends_also_while_they_serve() {
    for _ in 0..20 {
        let runtime = runtime();
        let (mut theirs, said) = reads(&runtime, true);
        waits(&mut theirs, &said);
        let release = stuck(&runtime);
        theirs.write_all(b"b").unwrap();
        assert!(said.recv_timeout(LONG).unwrap());
        theirs.write_all(b"b").unwrap();
        drop(release);
        drop(runtime);
    }
}

#[test]
fn a_paused_clock_has_no_guards() {
    let runtime = Builder::new().cores(1).start_paused(true).build().unwrap();
    runtime.open_rescue().unwrap();
    let task = runtime.task().rescuable().spawn(async {
        let start = Instant::now();
        let mut sleep = pin!(doorbell::time::sleep(Duration::from_hours(1)));
        sleep.as_mut().await;
        start.elapsed() < LONG
    });
    assert!(runtime.block_on(task).unwrap());
}
