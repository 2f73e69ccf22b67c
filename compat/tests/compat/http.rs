//! `axum::serve` itself, axum's server-sent events, layers of tower-http, and hyper-util's client.

use axum::Router;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;
use tower_http::services::ServeDir;
use tower_http::timeout::TimeoutLayer;

async fn serve(app: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(doorbell::spawn(async { axum::serve(listener, app).await }));
    address
}

pub(super) fn client() -> Client<HttpConnector, Empty<Bytes>> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_millis(50))
        .build_http()
}

pub(super) async fn fetch(
    client: &Client<HttpConnector, Empty<Bytes>>,
    address: SocketAddr,
    path: &str,
) -> hyper::Response<Incoming> {
    let url = format!("http://{address}{path}").parse().unwrap();
    client.get(url).await.unwrap()
}

pub(super) async fn text(response: hyper::Response<Incoming>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

pub(super) async fn events() -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let first = stream::iter([Ok(Event::default().data("first"))]);
    let keep_alive = KeepAlive::new().interval(Duration::from_millis(10));
    Sse::new(first.chain(stream::pending())).keep_alive(keep_alive.text("still here"))
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn axum_sse_keeps_a_client_alive() {
    let address = serve(Router::new().route("/events", get(events))).await;
    hears_events(fetch(&client(), address, "/events").await).await;
}

/// Waits for the first event, and for three lines that keep the client alive.
pub(super) async fn hears_events(response: hyper::Response<Incoming>) {
    let mut body = response.into_body();
    let mut seen = String::new();
    while !(seen.contains("data: first") && seen.matches(": still here").count() >= 3) {
        let frame = body.frame().await.unwrap().unwrap();
        seen += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
    }
}

pub(super) async fn slow() -> &'static str {
    tokio::time::sleep(super::LONG).await;
    "late"
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn tower_http_ends_a_slow_handler() {
    let layer =
        TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_millis(20));
    let app = Router::new().route("/", get(slow)).layer(layer);
    let answer = fetch(&client(), serve(app).await, "/").await;
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn tower_http_serves_files() {
    let folder = tempfile::tempdir().unwrap();
    let long = "text".repeat(50_000);
    std::fs::write(folder.path().join("file.txt"), &long).unwrap();
    let address = serve(Router::new().fallback_service(ServeDir::new(folder.path()))).await;
    let client = client();
    assert_eq!(text(fetch(&client, address, "/file.txt").await).await, long);
    let missing = fetch(&client, address, "/none.txt").await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn the_pooled_client_of_hyper_util_is_shared_by_tasks() {
    let app = Router::new().route("/", get(|| async { "here" }));
    let address = serve(app).await;
    let client = client();
    for _ in 0..2 {
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let client = client.clone();
                doorbell::spawn(async move { text(fetch(&client, address, "/").await).await })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), "here");
        }
        // Longer than the pool keeps an idle connection.
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn axum_serve_answers_what_is_in_flight_when_it_is_told_to_end() {
    let (enters, mut entered) = tokio::sync::mpsc::channel(1);
    let (ends, end) = tokio::sync::oneshot::channel();
    let handler = move || async move {
        enters.send(()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        "answered"
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = doorbell::spawn(async {
        let serve = axum::serve(listener, Router::new().route("/", get(handler)));
        serve
            .with_graceful_shutdown(async { end.await.unwrap() })
            .await
    });
    let asked = doorbell::spawn(async move { text(fetch(&client(), address, "/").await).await });
    entered.recv().await.unwrap();
    ends.send(()).unwrap();
    assert_eq!(asked.await.unwrap(), "answered");
    served.await.unwrap().unwrap();
}
