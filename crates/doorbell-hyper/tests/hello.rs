//! A server that greets, asked by a plain client.

use doorbell::net::{TcpListener, TcpStream};
use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::service::service_fn;
use std::convert::Infallible;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";

#[doorbell::test]
async fn it_greets_again_and_again_on_one_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let hello = || {
        service_fn(async |_| {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello, world"))))
        })
    };
    let server = doorbell::spawn(doorbell_hyper::serve(listener, hello));
    let stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..100 {
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello, world") {
            let mut some = [0; 512];
            let read = stream.read(&mut some).await.unwrap();
            assert!(read > 0, "it closed: {answer:?}");
            answer.extend_from_slice(&some[..read]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    server.abort();
}
