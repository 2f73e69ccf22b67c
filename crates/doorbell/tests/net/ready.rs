//! What a descriptor is ready for, and guards that say when it is not any more.

use doorbell::net::{
    AsyncFd, Interest, Ready, TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixStream,
};
use doorbell::{Builder, Runtime};
use futures::FutureExt;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{SendFlags, send};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

fn runtime() -> Runtime {
    Builder::new().cores(1).build().unwrap()
}

fn counter() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

fn add(fd: &OwnedFd) {
    rustix::io::write(fd, &1_u64.to_ne_bytes()).unwrap();
}

fn take(fd: &OwnedFd) -> io::Result<usize> {
    Ok(rustix::io::read(fd, &mut [0; 8])?)
}

async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ours = TcpStream::connect(address).await.unwrap();
    (ours, listener.accept().await.unwrap().0)
}

#[test]
fn interests_and_readiness_are_sets() {
    let both = Interest::READABLE | Interest::WRITABLE;
    assert!(both.is_readable() && both.is_writable() && !both.is_priority());
    assert_eq!(both.remove(Interest::READABLE), Some(Interest::WRITABLE));
    assert_eq!(both.remove(both), None);
    assert_eq!(format!("{both:?}"), r#"{"READABLE", "WRITABLE"}"#);
    let ready = Ready::READABLE | Ready::WRITE_CLOSED;
    assert!(ready.is_readable() && ready.is_writable() && ready.is_write_closed());
    assert!((ready - Ready::READABLE - Ready::WRITE_CLOSED).is_empty());
    assert_eq!(ready & Ready::READABLE, Ready::READABLE);
    assert!(Ready::ALL.is_error() && Ready::ALL.is_priority() && Ready::EMPTY.is_empty());
}

#[test]
fn sockets_say_what_they_are_ready_for() {
    let runtime = runtime();
    let task = runtime.spawn(async {
        let (ours, theirs) = tcp().await;
        let both = Interest::READABLE | Interest::WRITABLE;
        assert_eq!(ours.ready(both).await.unwrap(), Ready::WRITABLE);
        assert!(ours.ready(Interest::READABLE).now_or_never().is_none());
        theirs.write_all(b"x").await.unwrap();
        let ready = ours.ready(Interest::READABLE).await.unwrap();
        assert!(ready.is_readable() && !ready.is_writable() && !ready.is_read_closed());
        // It stays so until a syscall says that it would wait.
        let read = || (&ours_std(&ours)).read(&mut [0; 4]);
        assert_eq!(ours.try_io(Interest::READABLE, read).unwrap(), 1);
        ours.ready(Interest::READABLE).await.unwrap();
        let nothing = ours.try_io(Interest::READABLE, read).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert!(ours.ready(Interest::READABLE).now_or_never().is_none());
        theirs.write_all(b"y").await.unwrap();
        assert_eq!(ours.async_io(Interest::READABLE, read).await.unwrap(), 1);
        drop(theirs);
        while !ours.ready(both).await.unwrap().is_read_closed() {
            doorbell::yield_now().await;
        }
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(ours.ready(both).await.unwrap().is_writable());
        let (mut reads, mut writes) = ours.into_split();
        assert!(
            writes
                .ready(Interest::WRITABLE)
                .await
                .unwrap()
                .is_writable()
        );
        assert!(reads.ready(Interest::READABLE).now_or_never().is_none());
        drop((reads.read(&mut []), writes.write(&[])));
        let ours = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(ours.ready(both).await.unwrap().is_writable());
        let (ours, _theirs) = UnixDatagram::pair().unwrap();
        assert!(ours.ready(both).await.unwrap().is_writable());
    });
    runtime.block_on(task).unwrap();
}

/// The same socket, for a syscall by hand.
fn ours_std(stream: &TcpStream) -> std::net::TcpStream {
    use std::os::fd::AsFd;
    stream.as_fd().try_clone_to_owned().unwrap().into()
}

#[test]
fn urgent_data_and_errors_have_interests_of_their_own() {
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = tcp().await;
        assert!(ours.ready(Interest::PRIORITY).now_or_never().is_none());
        send(&theirs, b"!", SendFlags::OOB).unwrap();
        let ready = ours.ready(Interest::PRIORITY).await.unwrap();
        assert!(ready.is_priority() && !ready.is_error());
        assert!(ours.ready(Interest::ERROR).now_or_never().is_none());
        theirs.set_zero_linger().unwrap();
        drop(theirs);
        let ready = ours.ready(Interest::ERROR).await.unwrap();
        assert_eq!(ready, Ready::ERROR);
    });
}

#[test]
fn a_guard_clears_what_was_ready_when_it_was_made() {
    let runtime = runtime();
    // In a task: its worker alone takes events, and not while the task runs.
    let task = runtime.spawn(async {
        let fd = AsyncFd::new(counter());
        add(fd.get_ref());
        let mut guard = fd.readable().await.unwrap();
        assert!(guard.ready().is_readable());
        assert_eq!(guard.try_io(|fd| take(fd.get_ref())).unwrap().unwrap(), 8);
        guard.retain_ready();
        let mut guard = fd.readable().await.unwrap();
        assert!(
            guard.try_io(|fd| take(fd.get_ref())).is_err(),
            "it is empty"
        );
        assert!(fd.readable().now_or_never().is_none());
        // Cleared by hand.
        add(fd.get_ref());
        let mut guard = fd.ready(Interest::READABLE).await.unwrap();
        take(guard.get_inner()).unwrap();
        guard.clear_ready();
        assert!(fd.readable().now_or_never().is_none());
        // Of two things that were ready, one.
        add(fd.get_ref());
        fd.readable().await.unwrap();
        let both = Interest::READABLE | Interest::WRITABLE;
        let mut guard = fd.ready(both).await.unwrap();
        assert!(guard.ready().is_readable() && guard.ready().is_writable());
        take(guard.get_ref().get_ref()).unwrap();
        guard.clear_ready_matching(Ready::READABLE);
        assert!(fd.readable().now_or_never().is_none());
        fd.writable().await.unwrap();
        // An event that came after the guard was made stays.
        add(fd.get_ref());
        let mut guard = fd.readable().await.unwrap();
        take(fd.get_ref()).unwrap();
        add(fd.get_ref());
        doorbell::time::sleep(std::time::Duration::from_millis(20)).await;
        guard.clear_ready();
        fd.readable().await.unwrap();
        let mut guard = poll_fn(|cx| fd.poll_read_ready(cx)).await.unwrap();
        assert!(guard.try_io(|fd| take(fd.get_ref())).is_ok());
        let guard = poll_fn(|cx| fd.poll_write_ready(cx)).await.unwrap();
        assert!(guard.ready().is_writable());
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn a_descriptor_that_is_refused_comes_back_at_once() {
    let runtime = runtime();
    runtime.block_on(async {
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let refused = AsyncFd::try_new(file).unwrap_err();
        assert!(refused.to_string().contains("os error 1"), "{refused}");
        let (mut file, cause) = refused.into_parts();
        assert_eq!(cause.raw_os_error(), Some(libc::EPERM));
        file.read_exact(&mut [0]).unwrap();
        let fd = AsyncFd::try_new(counter()).unwrap();
        add(fd.get_ref());
        fd.readable().await.unwrap();
    });
    let outside = AsyncFd::try_new(counter()).unwrap_err();
    assert!(
        io::Error::from(outside)
            .to_string()
            .contains("inside block_on")
    );
}

#[test]
fn without_a_runtime_a_socket_that_has_waited_is_only_tried() {
    let runtime = runtime();
    let (ours, theirs) = UnixStream::pair().unwrap();
    // On this thread, outside of `block_on`: a fresh socket needs a runtime only to wait.
    theirs.write_all(b"ab").now_or_never().unwrap().unwrap();
    let mut byte = [0];
    assert_eq!(ours.read(&mut byte).now_or_never().unwrap().unwrap(), 1);
    assert_eq!(ours.read(&mut byte).now_or_never().unwrap().unwrap(), 1);
    let refused = ours.read(&mut byte).now_or_never().unwrap().unwrap_err();
    assert!(refused.to_string().contains("inside block_on"), "{refused}");
    runtime.block_on(async { assert!(ours.read(&mut byte).now_or_never().is_none()) });
    theirs.try_write(b"c").unwrap();
    let refused = ours.read(&mut byte).now_or_never().unwrap().unwrap_err();
    assert!(refused.to_string().contains("inside block_on"), "{refused}");
    assert_eq!(ours.try_read(&mut byte).unwrap(), 1);
}

#[test]
fn readable_counts_in_the_budget() {
    let runtime = runtime();
    let task = runtime.spawn(async {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"a").await.unwrap();
        ours.readable().await.unwrap();
        doorbell::yield_now().await;
        let ready = (0..200).take_while(|_| ours.readable().now_or_never().is_some());
        assert_eq!(ready.count(), 128);
        doorbell::yield_now().await;
        assert!(ours.readable().now_or_never().is_some());
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn n9_a_write_that_would_wait_does_not_open_what_is_closed_to_read() {
    let runtime = runtime();
    let task = runtime.spawn(async {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = AsyncFd::new(ours);
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = ours.readable().await.unwrap();
        while let Ok(written) = ours.get_ref().write(&[0; 4_096]) {
            assert!(written > 0);
        }
        let both = Interest::READABLE | Interest::WRITABLE;
        let write = |mut socket: &std::os::unix::net::UnixStream| socket.write(&[0; 4_096]);
        let full = ours.try_io(both, write).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(ours.readable().now_or_never().is_some(), "try_io");
        let mut guard = ours.ready(both).await.unwrap();
        assert!(guard.try_io(|fd| write(fd.get_ref())).is_err());
        assert!(ours.readable().now_or_never().is_some(), "the guard");
        let mut calls = 0;
        let waits = ours.async_io(both, |socket| {
            calls += 1;
            write(socket)
        });
        assert!(waits.now_or_never().is_none());
        assert!(calls < 10, "{calls} calls in one poll");
        assert!(ours.readable().now_or_never().is_some(), "async_io");
    });
    runtime.block_on(task).unwrap();
}
