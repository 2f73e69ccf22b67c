//! What the tests of the server share.

#![allow(dead_code, reason = "each test takes what it needs")]

use doorbell::JoinHandle;
use doorbell::net::{TcpListener, TcpStream};
use doorbell::sync::CancellationToken;
use doorbell_hyper::{DoorbellExecutor, DoorbellIo, ServeError, Served, Server};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper::service::Service;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;

/// An HTTP/1 request.
pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";

/// A service that answers every request with a greeting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello;

impl Hello {
    /// The greeting.
    pub(crate) const TEXT: &str = "hello, world";
}

impl<B> Service<Request<B>> for Hello {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, _: Request<B>) -> Self::Future {
        ready(Ok(Response::new(Full::from(Hello::TEXT))))
    }
}

/// Creates a greeting service.
pub(crate) fn hello() -> Hello {
    Hello
}

/// A listener and its address.
pub(crate) fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A server that runs until the test tells it to end.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) end: CancellationToken,
    task: JoinHandle<Result<Served, ServeError>>,
}

impl Site {
    /// A server as `with` sets it; `serve` spawns it with its service.
    pub(crate) fn of(
        with: impl FnOnce(Server) -> Server,
        serve: impl FnOnce(Server) -> JoinHandle<Result<Served, ServeError>>,
    ) -> Site {
        let (listener, address) = bind();
        let end = CancellationToken::new();
        let server = with(Server::new(listener)).shutdown_on(end.clone().cancelled_owned());
        Site {
            address,
            end,
            task: serve(server),
        }
    }

    /// Tells the server to end, and waits until it has.
    pub(crate) async fn end(self) -> Served {
        self.end.cancel();
        within(self.task).await.unwrap().unwrap()
    }
}

/// Reads until the end of the greeting; panics if the connection ends before.
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

/// Makes a request and reads the answer.
pub(crate) async fn ask(stream: &TcpStream) -> String {
    stream.write_all(REQUEST).await.unwrap();
    answer(stream).await
}

/// Waits until the other end closes, and discards what was sent before.
pub(crate) async fn closes(stream: &TcpStream) {
    let mut some = [0; 512];
    // An error counts as an end.
    while let Ok(1..) = stream.read(&mut some).await {}
}

/// The output of the future; panics if it takes so long that it counts as hung.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let long = std::time::Duration::from_secs(60);
    let it = doorbell::time::timeout(long, future).await;
    it.expect("it came to no end within a minute")
}

/// An HTTP/2 client, and the task of its connection.
pub(crate) async fn client_2(address: SocketAddr) -> (Client2, JoinHandle<hyper::Result<()>>) {
    let io = DoorbellIo::new(TcpStream::connect(address).await.unwrap());
    let (client, connection) = http2::handshake(DoorbellExecutor, io).await.unwrap();
    (client, doorbell::spawn(connection))
}

/// A client for requests without a body.
pub(crate) type Client2 = http2::SendRequest<Empty<Bytes>>;

/// A request for hyper's clients.
pub(crate) fn request(path: &str) -> Request<Empty<Bytes>> {
    let uri = format!("http://here{path}");
    Request::get(uri).body(Empty::new()).unwrap()
}

/// Makes an HTTP/2 request and reads the answer.
pub(crate) async fn ask_2(client: &Client2, path: &str) -> hyper::Result<Bytes> {
    let answer = client.clone().send_request(request(path)).await?;
    Ok(answer.into_body().collect().await?.to_bytes())
}
