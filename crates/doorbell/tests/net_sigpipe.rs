//! A write to a connection that the other end has closed is an error, and raises no signal.
//!
//! Rust programs ignore `SIGPIPE`; programs in other languages that load Rust code do not. So each path runs in
//! a child process in which the signal has its default effect, which is to end the process.

#![cfg(all(feature = "futures-io", feature = "tokio-io"))]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::Builder;
use doorbell::net::pipe::Sender;
use doorbell::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixStream};
use rustix::event::{EventfdFlags, eventfd};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::pin::Pin;
use std::process::Command;
use std::time::Duration;

/// In child processes: the path to take.
const PATH: &str = "DOORBELL_TEST_SIGPIPE_PATH";

/// Together more than what is copied into one buffer.
const HALF: [u8; 1_024] = [1; 1_024];

fn slices() -> [IoSlice<'static>; 2] {
    [IoSlice::new(&HALF), IoSlice::new(&HALF)]
}

async fn tcp() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).await;
    drop(listener.accept().await.unwrap());
    ours.unwrap()
}

async fn unix() -> UnixStream {
    UnixStream::pair().unwrap().0
}

/// Repeats a write until it says that the connection is broken. TCP learns that from the answer to an earlier
/// write.
macro_rules! until_broken {
    ($write:expr) => {
        loop {
            match $write {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
                other => drop(other.unwrap()),
            }
            doorbell::time::sleep(Duration::from_millis(1)).await;
        }
    };
}

type Path = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

/// Each way to write to a stream.
macro_rules! paths_of {
    ($stream:ident: $($name:literal $writes:ident $write:expr),* $(,)?) => {
        [$(
            (concat!(stringify!($stream), " ", $name), || Box::pin(async {
                #[allow(unused_mut, reason = "some take `&mut self`")]
                let mut $writes = $stream().await;
                until_broken!($write);
            })),
        )*]
    };
}

macro_rules! stream_paths {
    ($stream:ident) => {
        paths_of!($stream:
            "write" s s.write(&HALF).await,
            "write_all" s s.write_all(&HALF).await,
            "try_write" s s.try_write(&HALF),
            "poll_write" s poll_fn(|cx| s.poll_write(cx, &HALF)).await,
            "write_vectored" s s.write_vectored(&slices()).await,
            "small write_vectored" s s.write_vectored(&[IoSlice::new(b"a"), IoSlice::new(b"b")]).await,
            "try_write_vectored" s s.try_write_vectored(&slices()),
            "poll_write_vectored" s poll_fn(|cx| s.poll_write_vectored(cx, &slices())).await,
            "half" s s.split().1.write_vectored(&slices()).await,
            "tokio write" s {
                use doorbell::io::tokio::AsyncWrite;
                poll_fn(|cx| AsyncWrite::poll_write(Pin::new(&mut s), cx, &HALF)).await
            },
            "tokio" s {
                use doorbell::io::tokio::AsyncWrite;
                poll_fn(|cx| AsyncWrite::poll_write_vectored(Pin::new(&mut s), cx, &slices())).await
            },
            "futures write" s {
                use doorbell::io::futures::AsyncWrite;
                poll_fn(|cx| AsyncWrite::poll_write(Pin::new(&mut s), cx, &HALF)).await
            },
            "futures" s {
                use doorbell::io::futures::AsyncWrite;
                poll_fn(|cx| AsyncWrite::poll_write_vectored(Pin::new(&mut s), cx, &slices())).await
            },
        )
    };
}

const TCP: [Path; 13] = stream_paths!(tcp);
const UNIX: [Path; 13] = stream_paths!(unix);
const OTHERS: [Path; 7] = [
    ("a pipe", || {
        Box::pin(async {
            let (sender, receiver) = doorbell::net::pipe::pipe().unwrap();
            drop(receiver);
            until_broken!(sender.write(b"x").await);
        })
    }),
    ("a pipe, after a counter", || {
        Box::pin(async {
            // The OS knows no such writes to a counter. That says nothing about pipes.
            let counter = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
            let counter = Sender::from_owned_fd_unchecked(counter).unwrap();
            assert_eq!(counter.write(&1_u64.to_ne_bytes()).await.unwrap(), 8);
            let (sender, receiver) = doorbell::net::pipe::pipe().unwrap();
            drop(receiver);
            until_broken!(sender.write(b"x").await);
        })
    }),
    ("tcp owned half", || {
        Box::pin(async {
            let mut half = tcp().await.into_split().1;
            until_broken!(half.write_vectored(&slices()).await);
        })
    }),
    ("unix owned half", || {
        Box::pin(async {
            let mut half = unix().await.into_split().1;
            until_broken!(half.write_vectored(&slices()).await);
        })
    }),
    ("a datagram after a shutdown", || {
        Box::pin(async {
            let (ours, _theirs) = UnixDatagram::pair().unwrap();
            ours.shutdown(std::net::Shutdown::Write).unwrap();
            until_broken!(ours.send(b"x").await);
            until_broken!(ours.try_send(b"x"));
            until_broken!(poll_fn(|cx| ours.poll_send(cx, b"x")).await);
        })
    }),
    ("a datagram to a name after a shutdown", || {
        Box::pin(async {
            let name = format!("doorbell-sigpipe-{}", std::process::id());
            let name = SocketAddr::from_abstract_name(name).unwrap();
            let _theirs = UnixDatagram::bind_addr(&name).unwrap();
            let ours = UnixDatagram::unbound().unwrap();
            ours.shutdown(std::net::Shutdown::Write).unwrap();
            until_broken!(ours.send_to_addr(b"x", &name).await);
        })
    }),
    ("a datagram of UDP after a shutdown", || {
        Box::pin(async {
            let theirs = UdpSocket::bind("127.0.0.1:0").unwrap();
            let to = theirs.local_addr().unwrap();
            let ours = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            ours.connect(to).unwrap();
            rustix::net::shutdown(&ours, rustix::net::Shutdown::Write).unwrap();
            let ours = UdpSocket::from_std(ours).unwrap();
            until_broken!(ours.send(b"x").await);
            until_broken!(ours.try_send(b"x"));
            until_broken!(poll_fn(|cx| ours.poll_send(cx, b"x")).await);
            until_broken!(ours.send_to(b"x", to).await);
        })
    }),
];

/// Whether the kernel writes to pipes without a signal: since Linux 6.18.
fn pipes_may_be_silent() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map(|it| it.trim().parse().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(18))
}

fn play(path: &str) {
    // SAFETY: the default effect, and no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let mut all = TCP.iter().chain(&UNIX).chain(&OTHERS);
    let (_, write) = all.find(|(name, _)| *name == path).unwrap();
    let runtime = Builder::new().cores(1).build().unwrap();
    runtime.block_on(write());
}

#[test]
fn n1_a_write_to_a_closed_connection_raises_no_signal() {
    if let Ok(path) = std::env::var(PATH) {
        return play(&path);
    }
    let test = "n1_a_write_to_a_closed_connection_raises_no_signal";
    let mut ended = Vec::new();
    for (path, _) in TCP.iter().chain(&UNIX).chain(&OTHERS) {
        if path.starts_with("a pipe") && !pipes_may_be_silent() {
            continue;
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--test-threads=1"])
            .env(PATH, path)
            .output();
        let output: io::Result<_> = output;
        let output = output.unwrap();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            ended.push(format!("{path}: {} {said}", output.status));
        }
    }
    assert!(ended.is_empty(), "{} paths: {ended:#?}", ended.len());
}
