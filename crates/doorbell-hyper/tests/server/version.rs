//! How the first bytes determine a connection's HTTP version.

use crate::common::{REQUEST, answer, bind, closes, hello, within};
use doorbell::JoinHandle;
use doorbell::net::TcpStream;
use doorbell::sync::CancellationToken;
use doorbell::time::{Duration, sleep, timeout};
use doorbell_hyper::{RequestBody, ServeError, Served, Server};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::net::Shutdown;

/// The first bytes of an HTTP/2 client.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// An empty HTTP/2 SETTINGS frame, which must follow.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

const SHORT: Duration = Duration::from_millis(150);

type Serving = JoinHandle<Result<Served, ServeError>>;

async fn connect(with: impl FnOnce(Server) -> Server) -> (TcpStream, Serving) {
    let (listener, address) = bind();
    let server = doorbell::spawn(with(Server::new(listener)).serve(hello));
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    (stream, server)
}

/// A server without timeouts.
fn patient(server: Server) -> Server {
    server.header_timeout(None).keep_alive_timeout(None)
}

#[doorbell::test]
async fn a_preface_in_pieces_is_http_2() {
    for length in [1, 2, 3, 23] {
        let (stream, server) = connect(patient).await;
        for piece in PREFACE.chunks(length) {
            stream.write_all(piece).await.unwrap();
            sleep(Duration::from_millis(2)).await;
        }
        stream.write_all(SETTINGS).await.unwrap();
        let mut head = [0; 9];
        within(stream.read_exact(&mut head)).await.unwrap();
        assert_eq!(head[3], 4, "no settings: {head:?}");
        server.abort();
    }
}

#[doorbell::test]
async fn http_2_that_begins_in_pieces_is_idle_and_no_head() {
    let (stream, server) = connect(|it| patient(it).header_timeout(Some(SHORT))).await;
    stream.write_all(&PREFACE[..1]).await.unwrap();
    sleep(Duration::from_millis(2)).await;
    stream.write_all(&PREFACE[1..]).await.unwrap();
    stream.write_all(SETTINGS).await.unwrap();
    assert!(timeout(SHORT * 3, closes(&stream)).await.is_err());
    server.abort();
}

#[doorbell::test]
async fn a_method_that_begins_as_the_preface_is_http_1() {
    for method in ["P", "PRI", "PRIVATE", "PUT"] {
        let (stream, server) = connect(patient).await;
        stream.write_all(method.as_bytes()).await.unwrap();
        sleep(Duration::from_millis(2)).await;
        let rest = b" / HTTP/1.1\r\nhost: here\r\n\r\n";
        stream.write_all(rest).await.unwrap();
        let answer = within(answer(&stream)).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        server.abort();
    }
}

#[doorbell::test]
async fn a_body_behind_the_first_bytes_is_whole() {
    let (listener, address) = bind();
    let echo = || {
        service_fn(async |request: Request<RequestBody>| {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let text = format!(
                "{} {}hello, world",
                body.len(),
                body.iter().all(|it| *it == b'x')
            );
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
        })
    };
    let server = doorbell::spawn(Server::new(listener).serve(echo));
    // Within, at and beyond the first read, and more than hyper reads at once.
    for length in [0, 1, 100, 8_100, 8_192, 100_000] {
        let stream = TcpStream::connect(address).await.unwrap();
        let head = format!("PUT / HTTP/1.1\r\nhost: here\r\ncontent-length: {length}\r\n\r\n");
        let mut whole = head.into_bytes();
        whole.resize(whole.len() + length, b'x');
        stream.write_all(&whole).await.unwrap();
        let answer = within(answer(&stream)).await;
        assert!(answer.contains(&format!("{length} true")), "{answer}");
    }
    server.abort();
}

#[doorbell::test]
async fn who_closes_within_the_preface_is_let_go() {
    for length in [0, 1, 3, 23] {
        let (stream, server) = connect(patient).await;
        stream.write_all(&PREFACE[..length]).await.unwrap();
        sleep(Duration::from_millis(2)).await;
        stream.shutdown(Shutdown::Write).unwrap();
        within(closes(&stream)).await;
        server.abort();
    }
}

#[doorbell::test]
async fn a_preface_without_an_end_is_given_up() {
    let (stream, server) = connect(|it| patient(it).header_timeout(Some(SHORT))).await;
    stream.write_all(&PREFACE[..10]).await.unwrap();
    within(closes(&stream)).await;
    server.abort();
}

#[doorbell::test]
async fn the_end_of_a_server_waits_for_no_preface() {
    for begun in [&b""[..], b"PRI *"] {
        let end = CancellationToken::new();
        let ends = end.clone().cancelled_owned();
        let long = Duration::from_secs(300);
        let (stream, server) =
            connect(|it| patient(it).shutdown_on(ends).drain_timeout(long)).await;
        stream.write_all(begun).await.unwrap();
        // Another connection is served, so this one was accepted.
        let other = TcpStream::connect(stream.peer_addr().unwrap())
            .await
            .unwrap();
        other.write_all(REQUEST).await.unwrap();
        within(answer(&other)).await;
        drop(other);
        end.cancel();
        let served = within(server).await.unwrap().unwrap();
        assert_eq!((served.accepted, served.cut), (2, 0), "{served:?}");
        within(closes(&stream)).await;
    }
}
