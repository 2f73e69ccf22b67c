//! tonic's `transport::Server` itself, and its client with timeouts and keep-alive.

use std::net::SocketAddr;
use std::time::Duration;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Endpoint, Server};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

async fn serve() -> SocketAddr {
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter
        .set_service_status("test", ServingStatus::Serving)
        .await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder()
        .timeout(super::LONG)
        .http2_keepalive_interval(Some(Duration::from_millis(20)))
        .add_service(service)
        .serve_with_incoming(TcpListenerStream::new(listener));
    drop(doorbell::spawn(server));
    address
}

fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .connect_timeout(super::LONG)
        .http2_keep_alive_interval(Duration::from_millis(20))
        .keep_alive_timeout(super::LONG)
        .keep_alive_while_idle(true)
}

fn request() -> HealthCheckRequest {
    HealthCheckRequest {
        service: "test".to_owned(),
    }
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn calls_and_a_stream_over_a_connection_that_is_kept_alive() {
    let channel = endpoint(serve().await)
        .timeout(super::LONG)
        .connect()
        .await
        .unwrap();
    for _ in 0..2 {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let mut client = HealthClient::new(channel.clone());
                doorbell::spawn(async move { client.check(request()).await })
            })
            .collect();
        for task in tasks {
            let status = task.await.unwrap().unwrap().into_inner().status;
            assert_eq!(status, ServingStatus::Serving as i32);
        }
        // Some pings long.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut watch = HealthClient::new(channel)
        .watch(request())
        .await
        .unwrap()
        .into_inner();
    let first = watch.message().await.unwrap().unwrap();
    assert_eq!(first.status, ServingStatus::Serving as i32);
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_call_ends_by_the_timeout_of_its_client() {
    // It accepts, and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let channel = endpoint(address)
        .timeout(Duration::from_millis(50))
        .connect_lazy();
    let status = HealthClient::new(channel)
        .check(request())
        .await
        .unwrap_err();
    assert!(status.message().contains("Timeout"), "{status}");
}
