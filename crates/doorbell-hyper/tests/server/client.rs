//! The pooled client of hyper-util with `DoorbellConnector`.

use crate::common::{Hello, bind, hello, within};
use doorbell::sync::CancellationToken;
use doorbell_hyper::{
    ConnectError, DoorbellConnector, DoorbellExecutor, DoorbellTimer, HttpInfo, Served, Server,
};
use futures::FutureExt;
use http_body_util::{BodyExt, Empty};
use hyper::Uri;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;
use tower_service::Service;

type Pooled = Client<DoorbellConnector, Empty<Bytes>>;

fn client() -> Pooled {
    Client::builder(DoorbellExecutor)
        .timer(DoorbellTimer)
        .pool_timer(DoorbellTimer)
        .build(DoorbellConnector::new())
}

async fn get(client: &Pooled, uri: Uri) -> Bytes {
    let answer = client.get(uri).await.unwrap();
    answer.into_body().collect().await.unwrap().to_bytes()
}

/// Makes ten requests to that host, then ends the server. Returns what the server did.
async fn ask_ten_times(host: &str) -> Served {
    let (listener, address) = bind();
    let end = CancellationToken::new();
    let server = Server::new(listener).shutdown_on(end.clone().cancelled_owned());
    let server = doorbell::spawn(server.serve(hello));
    let client = client();
    let uri: Uri = format!("http://{host}:{}/", address.port())
        .parse()
        .unwrap();
    for _ in 0..10 {
        assert_eq!(get(&client, uri.clone()).await, Hello::TEXT);
    }
    end.cancel();
    server.await.unwrap().unwrap()
}

/// A task of the client returns the connection to the pool, so the next request may come before that.
fn assert_used_again(served: &Served) {
    assert!((1..=5).contains(&served.accepted), "{served:?}");
}

#[doorbell::test]
async fn a_pooled_client_uses_one_connection_again_and_again() {
    let served = within(ask_ten_times("127.0.0.1")).await;
    assert_used_again(&served);
    assert_eq!(served.cut, 0);
}

#[doorbell::test]
async fn a_name_is_looked_up() {
    // The name may have two addresses; the server listens on one of them.
    let served = within(ask_ten_times("localhost")).await;
    assert_used_again(&served);
}

#[doorbell::test]
async fn each_way_to_fail_has_its_error() {
    let (listener, address) = bind();
    drop(listener);
    let client = client();
    let refused = async |uri: String| {
        let error = client.get(uri.parse().unwrap()).await.unwrap_err();
        let source = error.source().unwrap();
        source
            .downcast_ref::<ConnectError>()
            .map(|it| format!("{it:?}"))
    };
    let refused = async |uri: String| within(refused(uri)).await.unwrap();
    let nobody = refused(format!("http://{address}/")).await;
    assert!(nobody.starts_with("Refused"), "{nobody}");
    let scheme = refused(format!("https://{address}/")).await;
    assert!(scheme.starts_with("Scheme"), "{scheme}");
    let unknown = refused("http://no-such-host.invalid/".to_owned()).await;
    assert!(unknown.starts_with("Lookup"), "{unknown}");
}

#[test]
fn outside_of_a_runtime_is_an_error_that_says_so() {
    let connect = |uri| DoorbellConnector::new().call(Uri::from_static(uri));
    let name = connect("http://localhost/").now_or_never();
    let error = name.expect("nothing to wait for").unwrap_err();
    assert!(matches!(error, ConnectError::Lookup { .. }), "{error:?}");
    assert!(error.to_string().contains("inside block_on"), "{error}");
}

#[doorbell::test]
async fn a_connection_has_the_address_that_was_chosen_and_tells_both() {
    let (listener, address) = bind();
    let server = doorbell::spawn(Server::new(listener).serve(hello));
    let local: IpAddr = [127, 0, 0, 2].into();
    let connector = DoorbellConnector::new().local_address(Some(local));
    let connector = connector.connect_timeout(Some(Duration::from_secs(20)));
    let client: Pooled = Client::builder(DoorbellExecutor).build(connector);
    let uri: Uri = format!("http://{address}/").parse().unwrap();
    let answer = within(client.get(uri)).await.unwrap();
    let info = answer.extensions().get::<HttpInfo>().unwrap();
    assert_eq!(info.remote_addr(), address);
    assert_eq!(info.local_addr().ip(), local);
    // There is no connection to an address of the other kind.
    let mut connector = DoorbellConnector::new().local_address(Some([0; 16].into()));
    let uri: Uri = format!("http://{address}/").parse().unwrap();
    let error = within(connector.call(uri)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Lookup { .. }), "{error}");
    server.abort();
}
