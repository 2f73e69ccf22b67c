//! doorbell's own server with what axum and tower-http do by tokio.

use super::http::{client, events, fetch, hears_events, slow, text};
use axum::Router;
use axum::extract::ConnectInfo;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::routing::get;
use doorbell_hyper::Server;
use futures_util::{SinkExt, StreamExt};
use std::net::SocketAddr;
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;
use tower_http::services::ServeDir;
use tower_http::timeout::TimeoutLayer;

fn serve(app: Router) -> SocketAddr {
    let listener = doorbell::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(doorbell::spawn(Server::new(listener).connection_info(true).serve_tower(app)));
    address
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if socket.send(message).await.is_err() {
            return;
        }
    }
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_web_socket_of_axum_over_doorbells_server() {
    let upgrade = async |upgrade: WebSocketUpgrade| upgrade.on_upgrade(echo);
    let address = serve(Router::new().route("/", get(upgrade)));
    let url = format!("ws://{address}/");
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    for word in ["one", "two"] {
        socket.send(Message::text(word)).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(word));
    }
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn axum_sse_keeps_a_client_of_doorbells_server_alive() {
    let address = serve(Router::new().route("/events", get(events)));
    hears_events(fetch(&client(), address, "/events").await).await;
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn layers_of_tower_http_in_doorbells_server() {
    let folder = tempfile::tempdir().unwrap();
    let long = "text".repeat(50_000);
    std::fs::write(folder.path().join("file.txt"), &long).unwrap();
    let limit = Duration::from_millis(20);
    let late = Router::new()
        .route("/slow", get(slow))
        .layer(TimeoutLayer::with_status_code(
            StatusCode::REQUEST_TIMEOUT,
            limit,
        ));
    let address = serve(late.fallback_service(ServeDir::new(folder.path())));
    let client = client();
    let answer = fetch(&client, address, "/slow").await;
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(text(fetch(&client, address, "/file.txt").await).await, long);
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn the_peers_address_reaches_a_handler_of_axum() {
    let peer = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.ip().to_string();
    let address = serve(Router::new().route("/", get(peer)));
    assert_eq!(
        text(fetch(&client(), address, "/").await).await,
        "127.0.0.1"
    );
}
