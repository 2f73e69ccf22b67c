//! What programs use of tokio and tokio-util themselves.

use futures_util::{SinkExt, StreamExt};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::codec::{Framed, LinesCodec};
use tokio_util::sync::CancellationToken;

const STEP: Duration = Duration::from_millis(5);

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_join_set_of_tokio_gives_its_ends_and_aborts_the_rest() {
    let mut set = JoinSet::new();
    for number in 0..8 {
        set.spawn(async move {
            sleep(STEP).await;
            number
        });
    }
    set.spawn_blocking(|| 8);
    let waits = set.spawn(std::future::pending());
    let mut sum = 0;
    for _ in 0..9 {
        sum += set.join_next().await.unwrap().unwrap();
    }
    assert_eq!(sum, 36);
    waits.abort();
    assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
    assert!(set.join_next().await.is_none());
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn timeouts_intervals_and_macros_of_tokio() {
    assert!(timeout(STEP, std::future::pending::<()>()).await.is_err());
    assert_eq!(timeout(super::LONG, async { 7 }).await.unwrap(), 7);

    let started = Instant::now();
    let mut ticks = interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..4 {
        ticks.tick().await;
    }
    assert!(started.elapsed() >= 3 * STEP);

    let (sends, mut receives) = tokio::sync::mpsc::channel(1);
    let task = doorbell::spawn(async move {
        sleep(STEP).await;
        sends.send(7).await
    });
    let received = tokio::select! {
        received = receives.recv() => received,
        () = sleep(super::LONG) => None,
    };
    assert_eq!(received, Some(7));
    let (sent, ()) = tokio::join!(task, sleep(STEP));
    sent.unwrap().unwrap();
}

/// Passes one connection on to another address, as proxies do.
async fn proxy(listener: TcpListener, to: std::net::SocketAddr) -> std::io::Result<(u64, u64)> {
    let (mut client, _) = listener.accept().await?;
    let mut server = TcpStream::connect(to).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn sockets_of_tokio_under_a_codec_and_behind_a_proxy() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = server.local_addr().unwrap();
    let echoed = doorbell::spawn(async move {
        let (stream, _) = server.accept().await.unwrap();
        let (sink, lines) = Framed::new(stream, LinesCodec::new()).split::<String>();
        lines.forward(sink).await
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let proxied = doorbell::spawn(proxy(listener, to));
    let stream = TcpStream::connect(address).await.unwrap();
    let mut lines = Framed::new(stream, LinesCodec::new());
    for line in ["one", "two"] {
        lines.send(line).await.unwrap();
        assert_eq!(lines.next().await.unwrap().unwrap(), line);
    }
    drop(lines);
    echoed.await.unwrap().unwrap();
    assert_eq!(proxied.await.unwrap().unwrap(), (8, 8));
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn datagrams_and_unix_sockets_of_tokio() {
    let one = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = other.local_addr().unwrap();
    let sent = doorbell::spawn(async move { one.send_to(b"hello", to).await });
    let mut buffer = [0; 16];
    let (length, _) = other.recv_from(&mut buffer).await.unwrap();
    assert_eq!(&buffer[..length], b"hello");
    assert_eq!(sent.await.unwrap().unwrap(), 5);

    let (mut one, mut other) = UnixStream::pair().unwrap();
    let wrote = doorbell::spawn(async move { one.write_all(b"hello").await });
    let mut back = String::new();
    other.read_to_string(&mut back).await.unwrap();
    wrote.await.unwrap().unwrap();
    assert_eq!(back, "hello");
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_cancellation_token_ends_tasks_of_both_runtimes() {
    let token = CancellationToken::new();
    let until = |token: CancellationToken| async move {
        let waited = token.run_until_cancelled(sleep(super::LONG)).await;
        assert!(waited.is_none());
    };
    let here = doorbell::spawn(until(token.child_token()));
    let there = tokio::spawn(until(token.child_token()));
    sleep(STEP).await;
    token.cancel();
    here.await.unwrap();
    there.await.unwrap();
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_local_set_of_tokio_runs_its_tasks_in_a_task_of_doorbell() {
    let ran = doorbell::spawn_local_on(0, || async {
        let set = LocalSet::new();
        let all = set.run_until(async {
            let shared = std::rc::Rc::new(7);
            let local = tokio::task::spawn_local(async move {
                sleep(STEP).await;
                *shared
            });
            local.await.unwrap()
        });
        all.await
    });
    assert_eq!(ran.await.unwrap(), 7);
}
