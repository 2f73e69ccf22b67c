//! TCP in tasks, with real sockets.

use crate::runtime;
use doorbell::net::{TcpListener, TcpStream};
use doorbell::time::sleep;
use doorbell::{Builder, Class, ClassKind, Runtime, metrics::WorkerMetrics};
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Echoes what it receives, until the end.
async fn echo(stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1_000];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read]).await?,
        }
    }
}

/// Both ends of a connection.
async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let ours = doorbell::spawn(TcpStream::connect(address));
    let (theirs, from) = listener.accept().await?;
    let ours = ours.await.unwrap()?;
    assert_eq!(ours.local_addr()?, from);
    assert_eq!(ours.peer_addr()?, address);
    Ok((ours, theirs))
}

#[test]
fn what_is_sent_comes_back_on_many_connections() {
    const LEN: usize = 300_000;
    let runtime = runtime();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        doorbell::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(doorbell::spawn(echo(stream)));
            }
        });
        let clients: Vec<_> = (0..20)
            .map(|seed: u8| {
                doorbell::spawn(async move {
                    let stream = TcpStream::connect(address).await.unwrap();
                    let (mut reads, mut writes) = stream.into_split();
                    let sent: Vec<u8> = (0..LEN).map(|at| seed.wrapping_add(at as u8)).collect();
                    let theirs = sent.clone();
                    let writer = doorbell::spawn(async move { writes.write_all(&theirs).await });
                    let mut got = Vec::new();
                    let mut buffer = [0; 4_096];
                    loop {
                        match reads.read(&mut buffer).await.unwrap() {
                            0 => break,
                            read => got.extend_from_slice(&buffer[..read]),
                        }
                    }
                    writer.await.unwrap().unwrap();
                    assert!(got == sent, "{} of {LEN}", got.len());
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
    });
}

#[test]
fn urgent_tasks_wait_on_urgent_workers() {
    let runtime = runtime();
    runtime.block_on(async {
        let (ours, theirs) = pair().await.unwrap();
        let urgent = doorbell::task()
            .class(Class::rt(1))
            .spawn(async move { echo(theirs).await });
        for round in 0..100 {
            ours.write_all(&[round]).await.unwrap();
            let mut byte = [0];
            ours.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte, [round]);
        }
        ours.shutdown(Shutdown::Write).unwrap();
        urgent.await.unwrap().unwrap();
    });
    let metrics = runtime.metrics();
    let ready = |it: &WorkerMetrics| it.raw().unparks_ready;
    let of_rt = metrics
        .workers
        .iter()
        .filter(|it| it.class == doorbell::ClassKind::Rt);
    let ready: u64 = of_rt.map(ready).sum();
    assert!((1..=200).contains(&ready), "{ready}");
}

#[test]
fn a_thread_that_is_no_worker_waits_too() {
    let runtime = runtime();
    let (ours, theirs) = runtime.block_on(pair()).unwrap();
    let echoes = runtime.spawn(echo(theirs));
    runtime.block_on(async {
        ours.write_all(b"here").await.unwrap();
        let mut here = [0; 4];
        let peeked = ours.peek(&mut here).await.unwrap();
        assert!((1..=4).contains(&peeked));
        ours.read_exact(&mut here).await.unwrap();
        assert_eq!(&here, b"here");
    });
    drop(ours);
    runtime.block_on(echoes).unwrap().unwrap();
}

#[test]
fn it_goes_to_the_standard_library_and_back() {
    let runtime = runtime();
    let (ours, theirs) = runtime.block_on(pair()).unwrap();
    runtime.spawn(echo(theirs));
    // Registered, and then unregistered.
    let waits = runtime.block_on(async {
        let mut buffer = [0; 1];
        let mut read = pin!(ours.read(&mut buffer));
        poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx).is_pending())).await
    });
    assert!(waits);
    let mut ours = ours.into_std();
    ours.set_nonblocking(false).unwrap();
    ours.write_all(b"x").unwrap();
    let mut byte = [0];
    ours.read_exact(&mut byte).unwrap();
    let ours = TcpStream::from_std(ours).unwrap();
    ours.set_nodelay(true).unwrap();
    assert!(ours.nodelay().unwrap());
    let written = runtime.block_on(poll_fn(|cx| {
        ours.poll_write_vectored(cx, &[IoSlice::new(b"a"), IoSlice::new(b"b")])
    }));
    assert_eq!(written.unwrap(), 2);
    runtime.block_on(async {
        let mut both = [0; 2];
        ours.read_exact(&mut both).await.unwrap();
        assert_eq!(&both, b"ab");
    });
}

#[test]
fn nobody_listens_and_no_runtime_are_errors_that_say_so() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let refused = runtime().block_on(TcpStream::connect(address));
    assert_eq!(
        refused.unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let polled = listener.poll_accept(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Err(error)) = polled else {
        panic!("{polled:?}");
    };
    assert!(error.to_string().contains("inside block_on"), "{error}");
}

#[test]
fn who_waits_when_the_runtime_ends_does_not_wait_for_ever() {
    let first = runtime();
    let (ours, theirs) = first.block_on(pair()).unwrap();
    let second = runtime();
    let mut buffer = [0; 1];
    first.block_on(async {
        let mut read = pin!(ours.read(&mut buffer));
        assert!(poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx).is_pending())).await);
    });
    drop(first);
    assert!(second.block_on(ours.read(&mut buffer)).is_err());
    drop(theirs);
}

/// How often descriptors woke the urgent workers.
fn urgent_wakes(runtime: &Runtime) -> u64 {
    let workers = runtime.metrics().workers;
    let of_rt = workers.iter().filter(|it| it.class == ClassKind::Rt);
    of_rt.map(|it| it.raw().unparks_ready).sum()
}

/// Reads this many one-byte messages in a task of that class, and answers each.
async fn answers(stream: Arc<TcpStream>, class: Class, messages: u32) {
    let reads = async move {
        for _ in 0..messages {
            let mut byte = [0];
            stream.read_exact(&mut byte).await.unwrap();
            stream.write_all(&byte).await.unwrap();
        }
    };
    doorbell::task().class(class).spawn(reads).await.unwrap();
}

/// A socket is read in class Rt first and then only in Fair: then its packets wake no urgent worker. They
/// do again once it is read in Rt.
#[test]
fn packets_for_one_class_do_not_wake_the_workers_of_one_that_has_read_before() {
    const MESSAGES: u32 = 200;
    let runtime = Builder::new()
        .cores(1)
        .spin(Duration::ZERO)
        .build()
        .unwrap();
    let (ours, theirs) = runtime.block_on(pair()).unwrap();
    let theirs = Arc::new(theirs);
    // From a separate thread, so that all workers sleep between two messages.
    let asks = |class: Class, messages: u32| {
        let stream = Arc::clone(&theirs);
        let answers = runtime.spawn(answers(stream, class, messages));
        let before = urgent_wakes(&runtime);
        runtime.block_on(async {
            for _ in 0..messages {
                sleep(Duration::from_millis(1)).await;
                ours.write_all(b"x").await.unwrap();
                let mut byte = [0];
                ours.read_exact(&mut byte).await.unwrap();
            }
            answers.await.unwrap();
        });
        urgent_wakes(&runtime) - before
    };
    for _ in 0..2 {
        let urgent = asks(Class::rt(1), MESSAGES);
        assert!((10..=2 * u64::from(MESSAGES)).contains(&urgent), "{urgent}");
        let fair = asks(Class::FAIR, MESSAGES);
        assert!(
            fair <= 20,
            "{fair} wakes of urgent workers for {MESSAGES} packets of Fair"
        );
    }
}
