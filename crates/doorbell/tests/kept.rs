//! What a program keeps of an ended runtime keeps no descriptor open.
//!
//! A test binary of its own: it counts the descriptors of the whole process, so its only test runs alone.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::net::UdpSocket;
use doorbell::{Builder, Class, JoinHandle, Runtime};
use std::future::{pending, poll_fn};
use std::sync::mpsc::{Sender, channel};
use std::task::{Poll, Waker};

const CORES: usize = 2;

fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits for a datagram on that core and class, so the class has a poller. Sends its waker to `to`.
fn waits(runtime: &Runtime, class: Class, core: usize, to: Sender<Waker>) -> JoinHandle<()> {
    let task = runtime.task().class(class).on(core);
    task.spawn(async move {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut received = std::pin::pin!(async move { socket.recv(&mut [0; 8]).await });
        poll_fn(|cx| {
            assert!(received.as_mut().poll(cx).is_pending());
            to.send(cx.waker().clone()).unwrap();
            Poll::Ready(())
        })
        .await;
        pending::<()>().await;
    })
}

#[test]
fn a_runtime_that_has_ended_keeps_no_descriptor_whatever_is_kept_of_it() {
    let build = || Builder::new().cores(CORES).build().unwrap();
    // What is created once stays.
    drop(build());
    let before = open();

    let runtime = build();
    let (to, wakers) = channel();
    let mut kept = Vec::new();
    for class in [Class::rt(1), Class::FAIR, Class::BATCH] {
        kept.extend((0..CORES).map(|core| waits(&runtime, class, core, to.clone())));
    }
    let wakers: Vec<Waker> = wakers.iter().take(kept.len()).collect();
    // A poller and an eventfd for each class, and a socket for each task.
    assert_eq!(open(), before + 2 * 3 + kept.len());
    let handle = runtime.handle().clone();
    let finished = runtime.spawn(async {});
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    runtime.block_on(poll_fn(|cx| {
        assert!(socket.poll_recv(cx, &mut [0; 8]).is_pending());
        Poll::Ready(())
    }));
    drop(runtime);

    // One socket is still open.
    assert_eq!(open(), before + 1);
    wakers.iter().for_each(Waker::wake_by_ref);
    assert!(kept.iter().all(JoinHandle::is_finished));
    let late = UdpSocket::bind("127.0.0.1:0").unwrap();
    let received = handle.try_block_on(late.recv(&mut [0; 8])).unwrap();
    assert!(received.is_err(), "{received:?}");
    drop((socket, late));
    assert_eq!(open(), before);

    // This runtime ends without any descriptor open, and none is opened for it later.
    let runtime = build();
    let kept_too = runtime.spawn(pending::<()>());
    let handle_too = runtime.handle().clone();
    drop(runtime);
    let late = UdpSocket::bind("127.0.0.1:0").unwrap();
    let received = handle_too.try_block_on(late.recv(&mut [0; 8])).unwrap();
    assert!(received.is_err(), "{received:?}");
    drop(late);
    assert_eq!(open(), before);
    drop((kept, finished, handle, kept_too, handle_too, wakers));
    assert_eq!(open(), before);
}
