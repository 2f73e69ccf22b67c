//! Reading into no room, and writing nothing, is done at once, whatever the socket's state.

#![cfg(all(feature = "futures-io", feature = "tokio-io"))]

use doorbell::Builder;
use doorbell::net::{TcpListener, TcpStream, UnixStream};
use futures::FutureExt;
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::Poll;

/// What each form returned in its only poll; `None` if it waits.
type Outcomes = Vec<(&'static str, Option<io::Result<usize>>)>;

macro_rules! outcomes {
    ($all:ident: $($name:literal $future:expr),* $(,)?) => {
        $($all.push(($name, $future.now_or_never()));)*
    };
}

/// The forms that streams and halves have in common.
macro_rules! inherent {
    ($all:ident $reads:ident $writes:ident) => {
        outcomes!($all:
            "read" $reads.read(&mut []),
            "read_vectored of none" $reads.read_vectored(&mut []),
            "read_vectored" $reads.read_vectored(&mut [IoSliceMut::new(&mut []), IoSliceMut::new(&mut [])]),
            "peek" $reads.peek(&mut []),
            "try_read" async { $reads.try_read(&mut []) },
            "try_read_vectored" async { $reads.try_read_vectored(&mut [IoSliceMut::new(&mut [])]) },
            "poll_read" poll_fn(|cx| $reads.poll_read(cx, &mut [])),
            "poll_read_uninit" poll_fn(|cx| $reads.poll_read_uninit(cx, &mut [])),
            "poll_read_vectored" poll_fn(|cx| $reads.poll_read_vectored(cx, &mut [])),
            "write" $writes.write(&[]),
            "write_vectored of none" $writes.write_vectored(&[]),
            "write_vectored" $writes.write_vectored(&[IoSlice::new(&[]), IoSlice::new(&[])]),
            "try_write" async { $writes.try_write(&[]) },
            "try_write_vectored" async { $writes.try_write_vectored(&[]) },
            "poll_write" poll_fn(|cx| $writes.poll_write(cx, &[])),
            "poll_write_vectored" poll_fn(|cx| $writes.poll_write_vectored(cx, &[])),
        );
    };
}

/// The traits of other crates.
macro_rules! traits {
    ($all:ident $reads:ident $writes:ident) => {
        outcomes!($all:
            "tokio read" poll_fn(|cx| {
                use doorbell::io::tokio::{AsyncRead, ReadBuf};
                let read = AsyncRead::poll_read(Pin::new(&mut $reads), cx, &mut ReadBuf::new(&mut []));
                read.map_ok(|()| 0)
            }),
            "tokio write" poll_fn(|cx| {
                doorbell::io::tokio::AsyncWrite::poll_write(Pin::new(&mut $writes), cx, &[])
            }),
            "tokio write_vectored" poll_fn(|cx| {
                doorbell::io::tokio::AsyncWrite::poll_write_vectored(Pin::new(&mut $writes), cx, &[])
            }),
            "futures read" poll_fn(|cx| {
                doorbell::io::futures::AsyncRead::poll_read(Pin::new(&mut $reads), cx, &mut [])
            }),
            "futures read_vectored" poll_fn(|cx| {
                doorbell::io::futures::AsyncRead::poll_read_vectored(Pin::new(&mut $reads), cx, &mut [])
            }),
            "futures write" poll_fn(|cx| {
                doorbell::io::futures::AsyncWrite::poll_write(Pin::new(&mut $writes), cx, &[])
            }),
            "futures write_vectored" poll_fn(|cx| {
                doorbell::io::futures::AsyncWrite::poll_write_vectored(Pin::new(&mut $writes), cx, &[])
            }),
        );
    };
}

fn assert_done(what: &str, outcomes: &Outcomes) {
    let is_done = |outcome: &Option<io::Result<usize>>| matches!(outcome, Some(Ok(0)));
    let others: Vec<_> = outcomes.iter().filter(|(_, it)| !is_done(it)).collect();
    let count = others.len();
    assert!(others.is_empty(), "{what}, {count} forms: {others:?}");
}

/// Leaves no room to write, and nothing to read, in a stream that is registered.
macro_rules! fill {
    ($stream:ident) => {
        while $stream.try_write(&[0; 16_384]).is_ok() {}
        let waits = poll_fn(|cx| Poll::Ready($stream.poll_write(cx, &[0]).is_pending())).await;
        assert!(waits && $stream.try_read(&mut [0]).is_err());
        assert!(poll_fn(|cx| Poll::Ready($stream.poll_read(cx, &mut [0]).is_pending())).await);
    };
}

macro_rules! check {
    ($what:literal $stream:ident) => {
        fill!($stream);
        let mut all = Outcomes::new();
        inherent!(all $stream $stream);
        let mut own = &mut $stream;
        traits!(all own own);
        assert_done($what, &all);
        let mut all = Outcomes::new();
        let (mut reads, mut writes) = $stream.split();
        inherent!(all reads writes);
        traits!(all reads writes);
        assert_done(concat!($what, ", borrowed halves"), &all);
        let mut all = Outcomes::new();
        let (mut reads, mut writes) = $stream.into_split();
        inherent!(all reads writes);
        traits!(all reads writes);
        assert_done(concat!($what, ", owned halves"), &all);
    };
}

#[test]
fn n2_no_bytes_are_moved_at_once() {
    let runtime = Builder::new().cores(1).build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut tcp = TcpStream::connect(address).await.unwrap();
        let _theirs = listener.accept().await.unwrap();
        check!("TCP" tcp);
        doorbell::yield_now().await;
        let (mut unix, _theirs) = UnixStream::pair().unwrap();
        check!("Unix" unix);
    });
}

#[test]
fn n2_moving_no_bytes_counts_in_the_budget() {
    let runtime = Builder::new().cores(1).build().unwrap();
    runtime.block_on(async {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut done = 0;
        while let Some(read) = ours.read(&mut []).now_or_never() {
            assert_eq!(read.unwrap(), 0);
            done += 1;
            assert!(done <= 128, "a loop of these never yields");
        }
        assert_eq!(done, 128);
    });
}
