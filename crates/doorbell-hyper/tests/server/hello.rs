//! A greeting server, tested with plain sockets and with hyper's client.

use crate::common::{Hello, REQUEST, answer, ask_2, bind, client_2, hello, request, within};
use doorbell::net::TcpStream;
use doorbell_hyper::{DoorbellIo, Server};
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body, Bytes, Frame};
use hyper::client::conn::http1;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

#[doorbell::test]
async fn it_greets_again_and_again_on_one_connection() {
    let (listener, address) = bind();
    let server = doorbell::spawn(doorbell_hyper::serve(listener, hello));
    let stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..100 {
        stream.write_all(REQUEST).await.unwrap();
        let answer = answer(&stream).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    server.abort();
}

#[doorbell::test]
async fn requests_that_come_byte_by_byte_and_in_bunches_are_answered() {
    let (listener, address) = bind();
    let server = doorbell::spawn(Server::new(listener).serve(hello));
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in REQUEST {
        stream.write_all(&[*byte]).await.unwrap();
        doorbell::yield_now().await;
    }
    answer(&stream).await;
    stream.write_all(&REQUEST.repeat(3)).await.unwrap();
    let mut all = String::new();
    while all.matches("hello, world").count() < 3 {
        all += &answer(&stream).await;
    }
    assert_eq!(all.matches("HTTP/1.1 200 OK").count(), 3, "{all}");
    server.abort();
}

/// Has ended by its second poll, without a wake for it: like a channel whose receiver notices the end
/// before the sender wakes it.
struct EndsMeanwhile {
    was_polled: bool,
}

impl Body for EndsMeanwhile {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if std::mem::replace(&mut self.was_polled, true) {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }
}

#[doorbell::test]
async fn a_body_that_ends_while_its_connection_is_polled_holds_up_no_request_behind_it() {
    const REQUESTS: usize = 10;
    let (listener, address) = bind();
    let service = || {
        service_fn(|_| async {
            let body = EndsMeanwhile { was_polled: false };
            Ok::<_, Infallible>(Response::new(body))
        })
    };
    let server = doorbell::spawn(Server::new(listener).serve(service));
    let stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&REQUEST.repeat(REQUESTS)).await.unwrap();
    let mut all = String::new();
    while all.matches("\r\n0\r\n\r\n").count() < REQUESTS {
        let mut some = [0; 512];
        let read = within(stream.read(&mut some)).await.unwrap();
        assert!(read > 0, "it closed: {all}");
        all += str::from_utf8(&some[..read]).unwrap();
    }
    assert_eq!(all.matches("HTTP/1.1 200 OK").count(), REQUESTS, "{all}");
    server.abort();
}

#[doorbell::test]
async fn the_client_of_hyper_speaks_http_1_with_it() {
    let (listener, address) = bind();
    let server = doorbell::spawn(Server::new(listener).serve(hello));
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut client, connection) = http1::handshake(DoorbellIo::new(stream)).await.unwrap();
    let connection = doorbell::spawn(connection);
    for _ in 0..10 {
        // The end of an answer may arrive before its connection takes the next request.
        client.ready().await.unwrap();
        let answer = client.send_request(request("/")).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, Hello::TEXT);
    }
    drop(client);
    connection.await.unwrap().unwrap();
    server.abort();
}

#[doorbell::test]
async fn the_client_of_hyper_speaks_http_2_with_the_same_port() {
    let (listener, address) = bind();
    let server = doorbell::spawn(Server::new(listener).serve(hello));
    let (client, connection) = client_2(address).await;
    let asked: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            doorbell::spawn(async move { ask_2(&client, "/").await.unwrap() })
        })
        .collect();
    for asked in asked {
        assert_eq!(asked.await.unwrap(), Hello::TEXT);
    }
    drop(client);
    connection.await.unwrap().unwrap();
    server.abort();
}
