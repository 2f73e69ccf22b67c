//! A server that has as many connections as it may.

mod common;

use common::{Hello, REQUEST, answer, ask, ask_2, bind, client_2, closes, within};
use doorbell::JoinHandle;
use doorbell::net::TcpStream;
use doorbell::sync::CancellationToken;
use doorbell::time::{Duration, sleep, timeout};
use doorbell_hyper::{RequestBody, ServeError, Served, Server};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::net::SocketAddr;

const SHORT: Duration = Duration::from_millis(200);

struct Site {
    address: SocketAddr,
    /// `/slow` is answered when this is cancelled.
    opens: CancellationToken,
    end: CancellationToken,
    task: JoinHandle<Result<Served, ServeError>>,
}

impl Site {
    fn start(limit: usize) -> Site {
        let (listener, address) = bind();
        let (opens, end) = (CancellationToken::new(), CancellationToken::new());
        let gate = opens.clone();
        let service = move || {
            let gate = gate.clone();
            service_fn(move |request: Request<RequestBody>| {
                let gate = gate.clone();
                async move {
                    if request.uri().path() == "/slow" {
                        gate.cancelled_owned().await;
                    }
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(Hello::TEXT)))
                }
            })
        };
        let server = Server::new(listener)
            .connection_limit(limit.try_into().unwrap())
            .shutdown_on(end.clone().cancelled_owned());
        let task = doorbell::spawn(server.serve(service));
        Site {
            address,
            opens,
            end,
            task,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn slow(&self) -> TcpStream {
        let stream = self.connect().await;
        let request = b"GET /slow HTTP/1.1\r\nhost: here\r\n\r\n";
        stream.write_all(request).await.unwrap();
        stream
    }

    async fn end(self) -> Served {
        self.end.cancel();
        within(self.task).await.unwrap().unwrap()
    }
}

#[doorbell::test]
async fn the_connection_that_was_idle_longest_makes_room() {
    let site = Site::start(3);
    let (one, two, three) = (
        site.connect().await,
        site.connect().await,
        site.connect().await,
    );
    for stream in [&one, &two, &three, &one] {
        within(ask(stream)).await;
        sleep(SHORT / 10).await;
    }
    // The order is two, three, one.
    let four = site.connect().await;
    within(ask(&four)).await;
    within(closes(&two)).await;
    let five = site.connect().await;
    within(ask(&five)).await;
    within(closes(&three)).await;
    for stream in [&one, &four, &five] {
        within(ask(stream)).await;
    }
    assert_eq!(site.end().await.accepted, 5);
}

#[doorbell::test]
async fn an_idle_connection_of_http_2_makes_room_too() {
    let site = Site::start(1);
    let (client, connection) = client_2(site.address).await;
    assert_eq!(within(ask_2(&client, "/")).await.unwrap(), Hello::TEXT);
    within(ask(&site.connect().await)).await;
    within(connection).await.unwrap().unwrap();
}

#[doorbell::test]
async fn a_new_connection_of_http_2_was_idle_for_a_short_time() {
    let site = Site::start(2);
    let one = site.connect().await;
    within(ask(&one)).await;
    sleep(SHORT).await;
    let (client, _connection) = client_2(site.address).await;
    sleep(SHORT).await;
    within(ask(&site.connect().await)).await;
    within(closes(&one)).await;
    assert_eq!(within(ask_2(&client, "/")).await.unwrap(), Hello::TEXT);
}

#[doorbell::test]
async fn a_connection_with_a_request_in_flight_does_not_make_room() {
    let site = Site::start(2);
    let (one, two) = (site.slow().await, site.slow().await);
    let three = site.connect().await;
    three.write_all(REQUEST).await.unwrap();
    assert!(timeout(SHORT, answer(&three)).await.is_err());
    // The first of them that is answered makes room for it.
    site.opens.cancel();
    within(answer(&one)).await;
    within(answer(&two)).await;
    within(answer(&three)).await;
    assert_eq!(site.end().await.accepted, 3);
}

#[doorbell::test]
async fn the_signal_is_heard_while_no_room_comes() {
    let site = Site::start(1);
    let one = site.slow().await;
    sleep(SHORT).await;
    let next = site.connect().await;
    sleep(SHORT).await;
    site.end.cancel();
    within(closes(&next)).await;
    site.opens.cancel();
    within(answer(&one)).await;
    let served = site.end().await;
    assert_eq!((served.accepted, served.drained, served.cut), (1, 1, 0));
}

#[doorbell::test]
async fn many_clients_have_one_place_in_turn() {
    let site = Site::start(1);
    let clients: Vec<_> = (0..50)
        .map(|_| {
            let address = site.address;
            doorbell::spawn(async move {
                let stream = TcpStream::connect(address).await.unwrap();
                ask(&stream).await;
                // Kept open: it is for the server to close it.
                stream
            })
        })
        .collect();
    let mut open = Vec::new();
    for client in clients {
        open.push(within(client).await.unwrap());
    }
    assert_eq!(site.end().await.accepted, 50);
}
