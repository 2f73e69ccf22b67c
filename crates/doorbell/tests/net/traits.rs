//! Streams and their halves, through the traits of other crates.

#![cfg(all(feature = "futures-io", feature = "tokio-io"))]

use crate::runtime;
use doorbell::net::{ByteStream, TcpListener, TcpStream, UnixStream};
use std::io::{IoSlice, IoSliceMut};

async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ours = TcpStream::connect(address).await.unwrap();
    (ours, listener.accept().await.unwrap().0)
}

/// Sends `said`, closes, and reads until the other end's end, through tokio's traits.
async fn by_tokio<R, W>(mut reads: R, mut writes: W, said: &[u8]) -> Vec<u8>
where
    R: doorbell::io::tokio::AsyncRead + Unpin,
    W: doorbell::io::tokio::AsyncWrite + Unpin,
{
    use doorbell::io::tokio::{AsyncReadExt, AsyncWriteExt};
    let mut heard = Vec::new();
    let write = async {
        assert!(writes.is_write_vectored());
        let (first, rest) = said.split_at(1);
        let some = writes
            .write_vectored(&[IoSlice::new(first), IoSlice::new(rest)])
            .await
            .unwrap();
        writes.write_all(&said[some..]).await.unwrap();
        writes.flush().await.unwrap();
        writes.shutdown().await.unwrap();
    };
    let (read, ()) = futures::join!(reads.read_to_end(&mut heard), write);
    read.unwrap();
    heard
}

/// The same through the traits of futures-io.
async fn by_futures<R, W>(mut reads: R, mut writes: W, said: &[u8]) -> Vec<u8>
where
    R: doorbell::io::futures::AsyncRead + Unpin,
    W: doorbell::io::futures::AsyncWrite + Unpin,
{
    use doorbell::io::futures::{AsyncReadExt, AsyncWriteExt};
    let mut heard = vec![0; 2];
    let write = async {
        let some = writes.write_vectored(&[IoSlice::new(said)]).await.unwrap();
        writes.write_all(&said[some..]).await.unwrap();
        writes.flush().await.unwrap();
        writes.close().await.unwrap();
    };
    let read = async {
        let (first, second) = heard.split_at_mut(1);
        let mut both = [IoSliceMut::new(first), IoSliceMut::new(second)];
        let some = reads.read_vectored(&mut both).await.unwrap();
        heard.truncate(some);
        reads.read_to_end(&mut heard).await.unwrap();
    };
    futures::join!(read, write);
    heard
}

/// Both ends, split into owned halves that use different traits, and then reunited.
async fn talk<S: ByteStream>(ours: (S, S), split: impl Fn(S) -> Halves<S>) {
    let said = vec![5; 200_000];
    let (one, other) = (split(ours.0), split(ours.1));
    let first = by_tokio(one.0, one.1, &said);
    let second = by_futures(other.0, other.1, b"short");
    let (short, long) = futures::join!(first, second);
    assert_eq!(short, b"short");
    assert!(long == said, "{} bytes", long.len());
}

type Halves<S> = (
    doorbell::net::OwnedReadHalf<S>,
    doorbell::net::OwnedWriteHalf<S>,
);

#[test]
fn owned_halves_have_the_traits() {
    let runtime = runtime();
    runtime.block_on(async {
        talk(tcp().await, TcpStream::into_split).await;
        talk(UnixStream::pair().unwrap(), UnixStream::into_split).await;
    });
}

#[test]
fn borrowed_halves_have_the_traits() {
    let runtime = runtime();
    runtime.block_on(async {
        let (mut ours, mut theirs) = tcp().await;
        let ((a, b), (c, d)) = (ours.split(), theirs.split());
        let (one, two) = futures::join!(by_tokio(a, b, b"one"), by_futures(c, d, b"two"));
        assert_eq!((&*one, &*two), (&b"two"[..], &b"one"[..]));
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let ((a, b), (c, d)) = (ours.split(), theirs.split());
        let (one, two) = futures::join!(by_tokio(a, b, b"one"), by_futures(c, d, b"two"));
        assert_eq!((&*one, &*two), (&b"two"[..], &b"one"[..]));
    });
}

#[test]
fn streams_have_the_traits() {
    use doorbell::io::{futures as f, tokio as t};
    let runtime = runtime();
    runtime.block_on(async {
        let (mut ours, mut theirs) = tcp().await;
        t::AsyncWriteExt::write_u16(&mut ours, 513).await.unwrap();
        let mut two = [0; 2];
        f::AsyncReadExt::read_exact(&mut theirs, &mut two)
            .await
            .unwrap();
        assert_eq!(two, [2, 1]);
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        f::AsyncWriteExt::write_all(&mut ours, &two).await.unwrap();
        f::AsyncWriteExt::close(&mut ours).await.unwrap();
        let read = t::AsyncReadExt::read_u16(&mut theirs).await.unwrap();
        assert_eq!(read, 513);
        let end = t::AsyncReadExt::read_u8(&mut theirs).await.unwrap_err();
        assert_eq!(end.kind(), std::io::ErrorKind::UnexpectedEof);
    });
}
