//! Connections that take too long, and others that do not.

use crate::common::{Hello, REQUEST, answer, ask, ask_2, bind, client_2, closes, hello, within};
use doorbell::net::TcpStream;
use doorbell::time::{Duration, Instant, sleep, timeout};
use doorbell_hyper::{DoorbellIo, DoorbellTimer, RequestBody, Server};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::rt::Timer;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;

const SHORT: Duration = Duration::from_millis(150);

/// A server with these timeouts for heads and idle connections.
fn serve(header: Option<Duration>, keep_alive: Option<Duration>) -> SocketAddr {
    let (listener, address) = bind();
    let server = Server::new(listener)
        .header_timeout(header)
        .keep_alive_timeout(keep_alive);
    drop(doorbell::spawn(server.serve(hello)));
    address
}

/// Waits until the other end closes, and checks that it does not do so too early.
async fn closes_after(stream: &TcpStream, least: Duration) {
    let start = Instant::now();
    within(closes(stream)).await;
    let after = start.elapsed();
    assert!(after >= least, "after {after:?}");
}

#[doorbell::test]
async fn who_says_nothing_is_given_up() {
    let stream = TcpStream::connect(serve(Some(SHORT), None)).await.unwrap();
    // It was accepted a little earlier.
    closes_after(&stream, SHORT / 2).await;
}

#[doorbell::test]
async fn a_head_without_an_end_is_given_up() {
    let stream = TcpStream::connect(serve(Some(SHORT), None)).await.unwrap();
    stream.write_all(&REQUEST[..20]).await.unwrap();
    closes_after(&stream, SHORT / 2).await;
}

#[doorbell::test]
async fn bytes_that_trickle_in_do_not_prolong_the_time_for_a_head() {
    let stream = TcpStream::connect(serve(Some(SHORT), None)).await.unwrap();
    within(async {
        stream.write_all(b"GET / HTTP/1.1\r\nlong: ").await.unwrap();
        // An error shows that it was closed.
        while stream.write_all(b"x").await.is_ok() {
            sleep(SHORT / 10).await;
        }
    })
    .await;
}

#[doorbell::test]
async fn the_second_head_has_a_timeout_of_its_own() {
    let stream = TcpStream::connect(serve(Some(SHORT), None)).await.unwrap();
    ask(&stream).await;
    // The header timeout does not apply to an idle connection.
    sleep(SHORT * 3).await;
    ask(&stream).await;
    stream.write_all(&REQUEST[..20]).await.unwrap();
    closes_after(&stream, SHORT).await;
}

#[doorbell::test]
async fn an_idle_connection_is_closed() {
    let stream = TcpStream::connect(serve(None, Some(SHORT))).await.unwrap();
    ask(&stream).await;
    closes_after(&stream, SHORT / 2).await;
}

#[doorbell::test]
async fn an_idle_connection_of_http_2_is_closed() {
    let (client, connection) = client_2(serve(None, Some(SHORT))).await;
    assert_eq!(within(ask_2(&client, "/")).await.unwrap(), Hello::TEXT);
    within(connection).await.unwrap().unwrap();
    // A connection without any request is closed as well.
    let (_client, connection) = client_2(serve(None, Some(SHORT))).await;
    within(connection).await.unwrap().unwrap();
}

#[doorbell::test]
async fn http_2_that_has_begun_is_idle_and_no_head() {
    let (client, _connection) = client_2(serve(Some(SHORT), None)).await;
    sleep(SHORT * 3).await;
    assert_eq!(within(ask_2(&client, "/")).await.unwrap(), Hello::TEXT);
}

#[doorbell::test]
async fn a_connection_that_asks_now_and_then_lives_on() {
    let keep_alive = Duration::from_secs(2);
    let stream = TcpStream::connect(serve(None, Some(keep_alive)))
        .await
        .unwrap();
    let start = Instant::now();
    while start.elapsed() < keep_alive * 3 / 2 {
        ask(&stream).await;
        sleep(keep_alive / 20).await;
    }
    closes_after(&stream, keep_alive / 2).await;
}

/// A server with a slow handler and short timeouts.
fn serve_slowly(takes: Duration) -> SocketAddr {
    let (listener, address) = bind();
    let slow = move || {
        service_fn(move |_: Request<RequestBody>| async move {
            sleep(takes).await;
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(Hello::TEXT)))
        })
    };
    let server = Server::new(listener)
        .header_timeout(Some(SHORT))
        .keep_alive_timeout(Some(SHORT));
    drop(doorbell::spawn(server.serve(slow)));
    address
}

#[doorbell::test]
async fn a_slow_handler_is_no_idle_connection() {
    // Longer than the time between two checks for requests in flight.
    let address = serve_slowly(Duration::from_millis(2_500));
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = client_2(address).await;
    let two = doorbell::spawn(async move { ask_2(&client, "/").await });
    within(ask(&stream)).await;
    assert_eq!(within(two).await.unwrap().unwrap(), Hello::TEXT);
    within(closes(&stream)).await;
    within(connection).await.unwrap().unwrap();
}

#[doorbell::test]
async fn who_reads_a_long_answer_slowly_is_not_idle() {
    // More than the sockets buffer, and slower than the timeouts after which an idle connection is closed
    // and cut.
    const LEN: usize = 40_000_000;
    let (listener, address) = bind();
    let long = || {
        service_fn(async |_: Request<RequestBody>| {
            let body = Full::new(Bytes::from(vec![b'x'; LEN]));
            Ok::<_, Infallible>(Response::new(body))
        })
    };
    let server = Server::new(listener).keep_alive_timeout(Some(SHORT));
    drop(doorbell::spawn(server.serve(long)));
    let stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    let mut chunk = vec![0; 50_000];
    let mut got = 0;
    within(async {
        while got < LEN {
            match stream.read(&mut chunk).await.unwrap() {
                0 => break,
                read => got += read,
            }
            sleep(Duration::from_millis(8)).await;
        }
    })
    .await;
    assert!(got >= LEN, "{got}");
}

#[doorbell::test]
async fn without_timeouts_nothing_is_closed() {
    let stream = TcpStream::connect(serve(None, None)).await.unwrap();
    stream.write_all(&REQUEST[..20]).await.unwrap();
    assert!(timeout(SHORT * 3, closes(&stream)).await.is_err());
    stream.write_all(&REQUEST[20..]).await.unwrap();
    within(answer(&stream)).await;
    assert!(timeout(SHORT * 3, closes(&stream)).await.is_err());
}

#[doorbell::test]
async fn the_header_timeout_of_hyper_itself_fires() {
    let (listener, address) = bind();
    let stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&REQUEST[..20]).await.unwrap();
    let (theirs, _) = listener.accept().await.unwrap();
    let served = http1::Builder::new()
        .timer(DoorbellTimer)
        .header_read_timeout(SHORT)
        .serve_connection(DoorbellIo::new(theirs), hello());
    let error = within(served).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
}

#[doorbell::test]
async fn a_timer_is_reset_in_place() {
    let place = |sleep: &Pin<Box<dyn hyper::rt::Sleep>>| (&raw const **sleep).cast::<u8>();
    let start = Instant::now();
    let mut sleep = DoorbellTimer.sleep(Duration::from_secs(3_600));
    let before = place(&sleep);
    assert!(futures::poll!(sleep.as_mut()).is_pending());
    DoorbellTimer.reset(&mut sleep, DoorbellTimer.now() + SHORT);
    assert_eq!(place(&sleep), before);
    within(sleep.as_mut()).await;
    assert!(start.elapsed() >= SHORT);
    // A timer that has fired can be reset.
    DoorbellTimer.reset(&mut sleep, DoorbellTimer.now() + SHORT);
    assert!(futures::poll!(sleep.as_mut()).is_pending());
    within(sleep.as_mut()).await;
    assert!(start.elapsed() >= SHORT * 2);
}
