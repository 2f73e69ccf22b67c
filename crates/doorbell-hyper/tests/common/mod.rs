//! What the tests of the server share.

#![allow(dead_code, reason = "each test takes what it needs")]

use doorbell::JoinHandle;
use doorbell::net::{TcpListener, TcpStream};
use doorbell_hyper::{DoorbellExecutor, DoorbellIo};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2;
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

/// What the future gives; panics where it takes so long that it hangs.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let long = std::time::Duration::from_mins(1);
    let it = doorbell::time::timeout(long, future).await;
    it.expect("it came to no end within a minute")
}

/// A client of HTTP/2, and what becomes of its connection.
pub(crate) async fn client_2(address: SocketAddr) -> (Client2, JoinHandle<hyper::Result<()>>) {
    let io = DoorbellIo::new(TcpStream::connect(address).await.unwrap());
    let (client, connection) = http2::handshake(DoorbellExecutor, io).await.unwrap();
    (client, doorbell::spawn(connection))
}

/// Asks, without a body.
pub(crate) type Client2 = http2::SendRequest<Empty<Bytes>>;

/// A request for hyper's clients.
pub(crate) fn request(path: &str) -> Request<Empty<Bytes>> {
    let uri = format!("http://here{path}");
    Request::get(uri).body(Empty::new()).unwrap()
}

/// Asks over HTTP/2 and takes the answer.
pub(crate) async fn ask_2(client: &Client2, path: &str) -> hyper::Result<Bytes> {
    let answer = client.clone().send_request(request(path)).await?;
    Ok(answer.into_body().collect().await?.to_bytes())
}
