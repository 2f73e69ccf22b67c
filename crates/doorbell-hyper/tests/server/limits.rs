//! Limits of requests in flight, and what lives on although they are set.

use crate::common::{Hello, REQUEST, Site, answer, ask, ask_2, client_2, closes, within};
use doorbell::net::TcpStream;
use doorbell::spawn;
use doorbell::time::{Duration, Instant, sleep};
use doorbell_hyper::{BodyError, DoorbellExecutor, DoorbellIo};
use doorbell_hyper::{RequestBody, Server};
use futures::channel::mpsc;
use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;

const SHORT: Duration = Duration::from_millis(200);

type Body = UnsyncBoxBody<Bytes, BodyError>;

fn full(text: impl Into<Bytes>) -> Response<Body> {
    Response::new(
        Full::new(text.into())
            .map_err(|it| match it {})
            .boxed_unsync(),
    )
}

/// `/` greets when it has the whole body, and says so if that came too slowly. `/echo` answers at once, with
/// what comes. `/events` sends something now and then; `/slow` waits.
async fn handle(request: Request<RequestBody>) -> Result<Response<Body>, Infallible> {
    Ok(match request.uri().path() {
        "/echo" => Response::new(request.into_body().boxed_unsync()),
        "/events" => {
            let events = stream::unfold(0, |count| async move {
                sleep(3 * SHORT).await;
                (count < 3).then(|| (Ok(Frame::data(Bytes::from("event;"))), count + 1))
            });
            Response::new(StreamBody::new(events).boxed_unsync())
        }
        "/slow" => {
            sleep(Duration::from_secs(120)).await;
            full("late")
        }
        _ => match request.into_body().collect().await {
            Ok(_) => full(Hello::TEXT),
            Err(error) => full(format!("{error}; hello, world")),
        },
    })
}

impl Site {
    fn start(with: impl FnOnce(Server) -> Server) -> Site {
        Site::of(with, |server| spawn(server.serve(|| service_fn(handle))))
    }

    async fn connect(&self, text: &[u8]) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text).await.unwrap();
        stream
    }

    /// A client over HTTP/2, whose requests have the frames of a channel.
    async fn two(&self) -> http2::SendRequest<StreamBody<Frames>> {
        let io = DoorbellIo::new(TcpStream::connect(self.address).await.unwrap());
        let (client, connection) = http2::handshake(DoorbellExecutor, io).await.unwrap();
        drop(spawn(connection));
        client
    }
}

type Frames = mpsc::UnboundedReceiver<Result<Frame<Bytes>, Infallible>>;

type Sender = mpsc::UnboundedSender<Result<Frame<Bytes>, Infallible>>;

/// Sends a frame of data.
fn send(to: &Sender, data: &'static str) {
    to.unbounded_send(Ok(Frame::data(Bytes::from(data))))
        .unwrap();
}

/// A request whose body comes from the sender.
fn post(path: &str) -> (Request<StreamBody<Frames>>, Sender) {
    let (sender, frames) = mpsc::unbounded();
    let request = Request::post(format!("http://here{path}"));
    (request.body(StreamBody::new(frames)).unwrap(), sender)
}

const POST: &[u8] = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 10\r\n\r\n";

#[doorbell::test]
async fn a_body_that_does_not_come_ends_with_an_error() {
    let site = Site::start(|server| server.body_timeout(Some(SHORT)));
    let nothing = site.connect(POST).await;
    let some = site.connect(&[POST, b"abc"].concat()).await;
    let two = site.two().await;
    let (request, frames) = post("/");
    send(&frames, "abc");
    let asked = spawn(async move {
        let answer = two.clone().send_request(request).await.unwrap();
        answer.into_body().collect().await.unwrap().to_bytes()
    });
    for stream in [nothing, some] {
        let answer = within(answer(&stream)).await;
        assert!(answer.contains("body_timeout"), "{answer}");
        within(closes(&stream)).await;
    }
    let answer = within(asked).await.unwrap();
    assert!(answer.starts_with(b"the client sent nothing"), "{answer:?}");
    drop(frames);
    // These were answered, not dropped.
    assert_eq!(site.end().await.timed_out, 0);
}

#[doorbell::test]
async fn a_body_that_comes_with_short_pauses_is_received() {
    let site = Site::start(|server| server.body_timeout(Some(10 * SHORT)));
    let stream = site.connect(POST).await;
    let start = Instant::now();
    for _ in 0..10 {
        sleep(2 * SHORT).await;
        stream.write_all(b"x").await.unwrap();
    }
    assert!(start.elapsed() > 10 * SHORT);
    let answer = within(answer(&stream)).await;
    assert!(answer.ends_with("\r\n\r\nhello, world"), "{answer}");
}

#[doorbell::test]
async fn a_stream_in_both_directions_may_pause() {
    let site = Site::start(|server| {
        let server = server.body_timeout(Some(SHORT)).write_timeout(Some(SHORT));
        server
            .keep_alive_timeout(Some(SHORT))
            .header_timeout(Some(SHORT))
    });
    let two = site.two().await;
    let (request, frames) = post("/echo");
    let mut answer = within(two.clone().send_request(request)).await.unwrap();
    for _ in 0..3 {
        sleep(5 * SHORT).await;
        send(&frames, "ping");
        let frame = within(answer.body_mut().frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "ping");
    }
    drop(frames);
    let rest = within(answer.into_body().collect()).await.unwrap();
    assert_eq!(rest.to_bytes(), "");
}

#[doorbell::test]
async fn events_may_be_far_apart() {
    let site = Site::start(|server| {
        let server = server.body_timeout(Some(SHORT)).write_timeout(Some(SHORT));
        server
            .keep_alive_timeout(Some(SHORT))
            .header_timeout(Some(SHORT))
    });
    let stream = site
        .connect(b"GET /events HTTP/1.1\r\nhost: here\r\n\r\n")
        .await;
    let mut all = String::new();
    while !all.ends_with("\r\n0\r\n\r\n") {
        let mut some = [0; 512];
        let count = within(stream.read(&mut some)).await.unwrap();
        assert!(count > 0, "{all}");
        all += str::from_utf8(&some[..count]).unwrap();
    }
    assert_eq!(all.matches("event;").count(), 3, "{all}");
}

#[doorbell::test]
async fn a_request_that_takes_too_long_is_dropped() {
    let site = Site::start(|server| server.request_timeout(Some(10 * SHORT)));
    let slow = site
        .connect(b"GET /slow HTTP/1.1\r\nhost: here\r\n\r\n")
        .await;
    within(closes(&slow)).await;
    let (client, _connection) = client_2(site.address).await;
    assert!(within(ask_2(&client, "/slow")).await.is_err());
    // Only the request was dropped.
    assert_eq!(within(ask_2(&client, "/")).await.unwrap(), Hello::TEXT);
    // Each request has the time for itself.
    let quick = site.connect(b"").await;
    let start = Instant::now();
    while start.elapsed() < 20 * SHORT {
        // Several, so that the connection is busy without a pause.
        quick.write_all(&REQUEST.repeat(3)).await.unwrap();
        let mut all = String::new();
        while all.matches(Hello::TEXT).count() < 3 {
            all += &within(answer(&quick)).await;
        }
        sleep(SHORT / 10).await;
    }
    within(ask(&quick)).await;
    assert_eq!(site.end().await.timed_out, 2);
}

/// The first bytes of a client over HTTP/2, with its settings, and a request for `/slow`.
const SLOW_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \0\0\0\x04\0\0\0\0\0\
    \0\0\x0f\x01\x05\0\0\0\x01\x82\x86\x44\x05/slow\x41\x04here";

#[doorbell::test]
async fn half_a_head_beside_an_open_stream_is_given_up() {
    let site = Site::start(|server| server.header_timeout(Some(SHORT)));
    let whole = site.connect(SLOW_2).await;
    for half in [
        // A part of a frame's own head, of its payload, and a head that another frame should end.
        &b"\0\0\x0f\x01"[..],
        b"\0\0\x0f\x01\x05\0\0\0\x03\x82\x86",
        b"\0\0\x01\x01\x01\0\0\0\x03\x82",
    ] {
        let stream = site.connect(&[SLOW_2, half].concat()).await;
        within(closes(&stream)).await;
    }
    // Without it the connection lives on: it answers a ping.
    let ping = b"\0\0\x08\x06\0\0\0\0\0pingpong";
    whole.write_all(ping).await.unwrap();
    within(async {
        let mut all = Vec::new();
        while !all.ends_with(b"\0\0\x08\x06\x01\0\0\0\0pingpong") {
            let mut some = [0; 512];
            let count = whole.read(&mut some).await.unwrap();
            assert!(count > 0, "{all:?}");
            all.extend_from_slice(&some[..count]);
        }
    })
    .await;
    drop(whole);
    assert_eq!(site.end().await.timed_out, 3);
}

#[doorbell::test]
async fn who_is_slower_than_the_minimum_rate_is_given_up() {
    let site = Site::start(|server| server.minimum_rate(1_000.try_into().ok()));
    let drips = site.connect(b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 9999\r\n\r\n");
    let drips = drips.await;
    let quick = site.connect(b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 9999\r\n\r\n");
    let quick = quick.await;
    let start = Instant::now();
    let sender = async {
        // The first time that the rate allows is 5 s.
        while start.elapsed() < Duration::from_secs(4) {
            sleep(SHORT).await;
            drips.write_all(b"x").await.unwrap();
            quick.write_all(&[b'x'; 400]).await.unwrap();
        }
        answer(&drips).await
    };
    let text = within(sender).await;
    assert!(text.contains("minimum_rate"), "{text}");
    assert!(start.elapsed() >= Duration::from_secs(5));
    quick.write_all(&[b'x'; 9_999]).await.unwrap();
    let text = within(answer(&quick)).await;
    assert!(text.ends_with("\r\n\r\nhello, world"), "{text}");
}
