//! What handlers and the makers of services learn of a connection.

use crate::common::{ask_2, bind, request, within};
use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use doorbell::net::TcpStream;
use doorbell::{Class, JoinHandle};
use doorbell_hyper::{
    ConnectionInfo, DoorbellExecutor, DoorbellIo, RequestBody, ServeError, Served, Server,
};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::net::SocketAddr;

/// Both addresses of the connection, as its client should see them.
fn text(info: &ConnectionInfo) -> String {
    let address = |address: Option<SocketAddr>| address.unwrap().to_string();
    format!(
        "{} to {}",
        address(info.peer_addr()),
        address(info.local_addr())
    )
}

/// Answers with what the request's extensions tell.
async fn answer(request: Request<RequestBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let info = request.extensions().get::<ConnectionInfo>();
    Ok(Response::new(Full::from(text(info.unwrap()))))
}

/// A connection to the server, and the addresses of both of its ends, the client's first.
async fn connect(address: SocketAddr) -> (DoorbellIo, SocketAddr, SocketAddr) {
    let stream = TcpStream::connect(address).await.unwrap();
    let ours = stream.local_addr().unwrap();
    (DoorbellIo::new(stream), ours, address)
}

/// Asks over HTTP/1 for a path, and returns the answer's body and the addresses of both ends.
async fn ask_1(address: SocketAddr, path: &str) -> (Bytes, SocketAddr, SocketAddr) {
    let (io, ours, theirs) = connect(address).await;
    let (mut client, connection) = http1::handshake(io).await.unwrap();
    drop(doorbell::spawn(connection));
    let answer = within(client.send_request(request(path))).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (body, ours, theirs)
}

#[doorbell::test]
async fn handlers_learn_both_addresses_over_both_versions_and_in_every_class() {
    let server = |class: Class| {
        let (listener, address) = bind();
        let server = Server::new(listener).connection_info(true);
        let server = server.classes(move |_| class);
        (
            doorbell::spawn(server.serve(|| service_fn(answer))),
            address,
        )
    };
    for class in [Class::FAIR, Class::BATCH] {
        let (server, address) = server(class);
        let (body, ours, theirs) = ask_1(address, "/").await;
        assert_eq!(body, format!("{ours} to {theirs}"));
        let (io, ours, theirs) = connect(address).await;
        let (client, connection) = http2::handshake(DoorbellExecutor, io).await.unwrap();
        drop(doorbell::spawn(connection));
        for _ in 0..2 {
            let body = within(ask_2(&client, "/")).await.unwrap();
            assert_eq!(body, format!("{ours} to {theirs}"));
        }
        server.abort();
    }
}

#[doorbell::test]
async fn the_maker_of_services_learns_of_the_connection_and_class_routes_do_too() {
    type Serving = JoinHandle<Result<Served, ServeError>>;
    /// Answers with what the maker was told.
    fn told(info: &ConnectionInfo) -> impl Fn(Request<RequestBody>) -> Told + Clone + use<> {
        let told = text(info);
        move |_| std::future::ready(Ok(Response::new(Full::from(told.clone()))))
    }
    type Told = std::future::Ready<Result<Response<Full<Bytes>>, Infallible>>;
    let (plain, first) = bind();
    let plain: Serving =
        doorbell::spawn(Server::new(plain).serve_with(|info: &_| service_fn(told(info))));
    let (by_class, second) = bind();
    // The route chooses by the peer.
    let class_of = |request: &Request<RequestBody>| {
        let info = request.extensions().get::<ConnectionInfo>().unwrap();
        assert!(info.peer_addr().unwrap().ip().is_loopback());
        Class::BATCH
    };
    let server = Server::new(by_class)
        .connection_info(true)
        .classes(class_of);
    let by_class: Serving = doorbell::spawn(server.serve_with(|info: &_| service_fn(told(info))));
    for address in [first, second] {
        let (body, ours, theirs) = ask_1(address, "/").await;
        assert_eq!(body, format!("{ours} to {theirs}"));
    }
    plain.abort();
    by_class.abort();
}

#[doorbell::test]
async fn the_extractor_of_axum_gets_the_peers_address() {
    let peer = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string();
    let (listener, address) = bind();
    let router = Router::new().route("/", get(peer));
    let server = Server::new(listener).connection_info(true);
    let server = doorbell::spawn(server.serve_tower(router));
    let (body, ours, _) = ask_1(address, "/").await;
    assert_eq!(body, ours.to_string());
    server.abort();
}

#[doorbell::test]
async fn requests_have_no_extension_unless_the_server_is_asked_for_it() {
    let count = async |request: Request<RequestBody>| {
        let count = request.extensions().len().to_string();
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(count)))
    };
    for (is_wanted, expected) in [(false, "0"), (true, "2")] {
        let (listener, address) = bind();
        let server = Server::new(listener).connection_info(is_wanted);
        let server = doorbell::spawn(server.serve(move || service_fn(count)));
        let (body, _, _) = ask_1(address, "/").await;
        assert_eq!(body, expected);
        server.abort();
    }
}
