//! A server that greets, asked by plain sockets and by hyper's client.

mod common;

use common::{Hello, REQUEST, answer, ask_2, bind, client_2, hello, request};
use doorbell::net::TcpStream;
use doorbell_hyper::{DoorbellIo, Server};
use http_body_util::BodyExt;
use hyper::client::conn::http1;

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

#[doorbell::test]
async fn the_client_of_hyper_speaks_http_1_with_it() {
    let (listener, address) = bind();
    let server = doorbell::spawn(Server::new(listener).serve(hello));
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut client, connection) = http1::handshake(DoorbellIo::new(stream)).await.unwrap();
    let connection = doorbell::spawn(connection);
    for _ in 0..10 {
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
