//! axum and tonic, each served by one call.

use crate::common::{ask_2, bind, client_2, within};
use axum::Router;
use axum::extract::Path;
use axum::routing::{get, post};
use doorbell_hyper::{DoorbellConnector, DoorbellExecutor, DoorbellTimer, Server};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response;
use tonic_health::pb::health_client::HealthClient;

#[doorbell::test]
async fn a_router_of_axum_is_served_over_both_versions() {
    let (listener, address) = bind();
    let router = Router::new()
        .route(
            "/hello/{who}",
            get(async |Path(who): Path<String>| format!("hello, {who}")),
        )
        .route("/twice", post(async |body: String| body.repeat(2)));
    let server = doorbell::spawn(Server::new(listener).serve_tower(router));
    let (client, _) = client_2(address).await;
    assert_eq!(
        within(ask_2(&client, "/hello/two")).await.unwrap(),
        "hello, two"
    );
    let client = Client::builder(DoorbellExecutor).build(DoorbellConnector::new());
    let ask = async |path: &str, body: Option<&'static str>| {
        let request = match body {
            Some(_) => Request::post(format!("http://{address}{path}")),
            None => Request::get(format!("http://{address}{path}")),
        };
        let body = Full::<Bytes>::from(body.unwrap_or_default());
        let answer = within(client.request(request.body(body).unwrap()))
            .await
            .unwrap();
        let status = answer.status();
        (
            status,
            answer.into_body().collect().await.unwrap().to_bytes(),
        )
    };
    assert_eq!(
        ask("/hello/one", None).await,
        (StatusCode::OK, "hello, one".into())
    );
    assert_eq!(
        ask("/twice", Some("ab")).await,
        (StatusCode::OK, "abab".into())
    );
    assert_eq!(ask("/nowhere", None).await.0, StatusCode::NOT_FOUND);
    server.abort();
}

#[doorbell::test]
async fn a_service_of_tonic_is_served() {
    let (listener, address) = bind();
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter
        .set_service_status("bells", ServingStatus::Serving)
        .await;
    let routes = Routes::new(health);
    let server = doorbell::spawn(Server::new(listener).serve_tower(routes));
    let client = Client::builder(DoorbellExecutor)
        .timer(DoorbellTimer)
        .http2_only(true)
        .build(DoorbellConnector::new());
    let origin = format!("http://{address}").parse().unwrap();
    let mut client = HealthClient::with_origin(client, origin);
    let of = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    let bells = within(client.check(of("bells")))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        bells.status(),
        health_check_response::ServingStatus::Serving
    );
    let nobody = within(client.check(of("nobody"))).await.unwrap_err();
    assert_eq!(nobody.code(), tonic::Code::NotFound);
    // A stream: the current state, and then changes.
    let mut watch = within(client.watch(of("bells")))
        .await
        .unwrap()
        .into_inner();
    let first = within(watch.message()).await.unwrap().unwrap();
    assert_eq!(
        first.status(),
        health_check_response::ServingStatus::Serving
    );
    reporter
        .set_service_status("bells", ServingStatus::NotServing)
        .await;
    let next = within(watch.message()).await.unwrap().unwrap();
    assert_eq!(
        next.status(),
        health_check_response::ServingStatus::NotServing
    );
    server.abort();
}
