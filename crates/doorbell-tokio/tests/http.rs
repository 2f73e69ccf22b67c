//! reqwest and axum's WebSocket, each with a real peer.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use axum::Router;
use axum::extract::Path;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::routing::get;
use futures_util::{SinkExt, StreamExt};
use std::net::SocketAddr;
use std::time::Duration;
use tokio_tungstenite::tungstenite;

async fn echo(mut socket: WebSocket) {
    // As a handler that is written for tokio.
    while let Some(Ok(message)) = socket.recv().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if let Message::Text(text) = message
            && socket.send(Message::Text(text)).await.is_err()
        {
            return;
        }
    }
}

async fn slow() -> &'static str {
    tokio::time::sleep(Duration::from_secs(600)).await;
    "late"
}

/// `axum::serve` itself, in a task of doorbell.
async fn serve() -> SocketAddr {
    let app = Router::new()
        .route(
            "/echo",
            get(|upgrade: WebSocketUpgrade| async { upgrade.on_upgrade(echo) }),
        )
        .route("/slow", get(slow))
        .route(
            "/page/{name}",
            get(|Path(name): Path<String>| async { name }),
        );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(doorbell::spawn(async { axum::serve(listener, app).await }));
    address
}

async fn fetch(client: reqwest::Client, url: String) -> reqwest::Result<String> {
    client
        .get(url)
        .send()
        .await?
        .error_for_status()?
        .text()
        .await
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn pages_are_fetched_by_reqwest_side_by_side_in_tasks_of_all_classes() {
    let address = serve().await;
    let client = reqwest::Client::new();
    let classes = [
        doorbell::Class::FAIR,
        doorbell::Class::rt(1),
        doorbell::Class::BATCH,
    ];
    let fetches: Vec<_> = (0..30)
        .map(|number| {
            let fetched = fetch(client.clone(), format!("http://{address}/page/{number}"));
            doorbell::task().class(classes[number % 3]).spawn(fetched)
        })
        .collect();
    for (number, fetched) in fetches.into_iter().enumerate() {
        assert_eq!(fetched.await.unwrap().unwrap(), number.to_string());
    }
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_timeout_of_reqwest_ends_a_request() {
    let address = serve().await;
    let client = reqwest::Client::builder()
        .timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    let error = fetch(client, format!("http://{address}/slow"))
        .await
        .unwrap_err();
    assert!(error.is_timeout(), "{error}");
}

async fn echoes(address: SocketAddr) {
    let url = format!("ws://{address}/echo");
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    for word in ["one", "two"] {
        let message = tungstenite::Message::text(word);
        socket.send(message.clone()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), message);
    }
    socket.close(None).await.unwrap();
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_web_socket_of_axum_echoes() {
    let address = serve().await;
    let clients: Vec<_> = (0..8).map(|_| doorbell::spawn(echoes(address))).collect();
    for client in clients {
        client.await.unwrap();
    }
}
