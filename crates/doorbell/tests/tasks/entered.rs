//! What a task has entered is seen by no other task.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::shuffled::Builder;
use doorbell::net::{TcpListener, TcpStream};
use doorbell::{Handle, Runtime, yield_now};
use std::net::SocketAddr;
use std::time::Duration;

fn runtime() -> Runtime {
    Builder::new().cores(1).build().unwrap()
}

/// What shows that a task is not on `mine`.
async fn stray(mine: Handle) -> Vec<&'static str> {
    let mut stray = Vec::new();
    let here = || Handle::current().is(&mine);
    let seen = [
        ("current", here()),
        ("spawn", {
            let mine = mine.clone();
            let task = doorbell::spawn(async move { Handle::current().is(&mine) });
            task.await.unwrap_or(false)
        }),
        ("call_on", {
            let mine = mine.clone();
            let call = doorbell::call_on(0, move || Handle::current().is(&mine));
            call.await.unwrap_or(false)
        }),
        ("spawn_blocking", {
            let mine = mine.clone();
            let closure = doorbell::spawn_blocking(move || Handle::current().is(&mine));
            closure.await.unwrap_or(false)
        }),
        ("current_core", doorbell::current_core().is_some()),
        ("sleep", {
            doorbell::time::sleep(Duration::from_millis(1)).await;
            here()
        }),
    ];
    stray.extend(
        seen.iter()
            .filter(|(_, right)| !right)
            .map(|(what, _)| *what),
    );
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let to = listener.local_addr().unwrap();
    let (accepted, connected) = futures::join!(listener.accept(), TcpStream::connect(to));
    if accepted.is_err() || connected.is_err() {
        stray.push("accept");
    }
    stray
}

#[test]
fn c3_a_guard_that_a_local_task_keeps_over_an_await_is_seen_by_no_task() {
    for ends in [false, true] {
        let (mine, other) = (runtime(), runtime());
        let (here, there) = (mine.handle().clone(), other.handle().clone());
        let (leave, left) = futures::channel::oneshot::channel::<()>();
        let (enters, entered) = std::sync::mpsc::channel();
        let handle = here.clone();
        let keeps = mine.spawn_local_on(0, move || async move {
            let _entered = there.enter();
            let in_this_poll = Handle::current().is(&there);
            enters.send(()).unwrap();
            let _ = left.await;
            (in_this_poll, stray(handle).await)
        });
        entered.recv().unwrap();
        let other = (!ends).then_some(other);
        let handle = here.clone();
        let local = mine.spawn_local_on(0, move || stray(handle));
        assert_eq!(mine.block_on(local).unwrap(), [""; 0], "a local task");
        let ordinary = mine.spawn(stray(here));
        assert_eq!(mine.block_on(ordinary).unwrap(), [""; 0], "a task");
        leave.send(()).unwrap();
        let (in_this_poll, later) = mine.block_on(keeps).unwrap();
        assert!(in_this_poll);
        assert_eq!(later, [""; 0], "the task itself, in a later poll");
        drop(other);
    }
}

#[test]
fn guards_of_two_polls_are_left_in_any_order() {
    let (mine, other) = (runtime(), runtime());
    let there = other.handle().clone();
    let task = mine.spawn_local_on(0, move || async move {
        let first = there.enter();
        yield_now().await;
        let second = there.enter();
        let in_this_poll = Handle::current().is(&there);
        drop(first);
        let still = Handle::current().is(&there);
        yield_now().await;
        let later = Handle::current().is(&there);
        drop(second);
        (in_this_poll, still, later)
    });
    assert_eq!(mine.block_on(task).unwrap(), (true, true, false));
}
