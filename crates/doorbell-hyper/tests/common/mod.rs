//! What the tests of the server share.

#![allow(dead_code, reason = "each test takes what it needs")]

use doorbell::net::{TcpListener, TcpStream};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;

/// Over HTTP/1.
pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";

/// Greets whoever asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello;

impl Hello {
    /// What it says.
    pub(crate) const TEXT: &str = "hello, world";
}

impl Service<Request<Incoming>> for Hello {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, _: Request<Incoming>) -> Self::Future {
        ready(Ok(Response::new(Full::from(Hello::TEXT))))
    }
}

/// Makes one that greets.
pub(crate) fn hello() -> Hello {
    Hello
}

/// A listener and its address.
pub(crate) fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Reads until the greeting; panics where the connection ends before.
pub(crate) async fn answer(stream: &TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(Hello::TEXT.as_bytes()) {
        let mut some = [0; 512];
        let read = stream.read(&mut some).await.unwrap();
        assert!(
            read > 0,
            "it closed: {:?}",
            String::from_utf8_lossy(&answer)
        );
        answer.extend_from_slice(&some[..read]);
    }
    String::from_utf8(answer).unwrap()
}

/// Asks once, and takes the answer.
pub(crate) async fn ask(stream: &TcpStream) -> String {
    stream.write_all(REQUEST).await.unwrap();
    answer(stream).await
}

/// Whether the other end closes; waits for it. What was sent before is left out.
pub(crate) async fn closes(stream: &TcpStream) {
    let mut some = [0; 512];
    // An error is an end too.
    while let Ok(1..) = stream.read(&mut some).await {}
}
