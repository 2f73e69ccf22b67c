//! hyper's own settings of a server.

use crate::common::{Hello, REQUEST, answer, bind, client_2, closes, hello, request, within};
use doorbell::net::TcpStream;
use doorbell::spawn;
use doorbell::time::Duration;
use doorbell_hyper::{RequestBody, Server};
use http_body_util::{Empty, Full};
use hyper::body::Bytes;
use hyper::ext::Protocol;
use hyper::rt::{Read, ReadBuf, Write};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;

const SHORT: Duration = Duration::from_millis(200);

/// A greeting server.
fn start(with: impl FnOnce(Server) -> Server) -> SocketAddr {
    let (listener, address) = bind();
    drop(spawn(with(Server::new(listener)).serve(hello)));
    address
}

/// A connection that has sent this.
async fn send(address: SocketAddr, text: &[u8]) -> TcpStream {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text).await.unwrap();
    stream
}

/// All that comes until the connection is closed.
async fn all(stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut some = [0; 512];
    while let Ok(count @ 1..) = within(stream.read(&mut some)).await {
        all.extend_from_slice(&some[..count]);
    }
    all
}

#[doorbell::test]
async fn without_keep_alive_each_connection_has_one_request() {
    let address = start(|server| server.http1(|it| _ = it.keep_alive(false)));
    let all = all(&send(address, &REQUEST.repeat(2)).await).await;
    let all = String::from_utf8(all).unwrap();
    assert!(all.contains("connection: close"), "{all}");
    assert_eq!(all.matches(Hello::TEXT).count(), 1, "{all}");
}

#[doorbell::test]
async fn answers_need_no_date() {
    for with_date in [true, false] {
        let address = start(|server| {
            let server = server.http1(|it| _ = it.auto_date_header(with_date));
            server.http2(move |it| _ = it.auto_date_header(with_date))
        });
        let text = within(answer(&send(address, REQUEST).await)).await;
        assert_eq!(text.contains("date: "), with_date, "{text}");
        let (client, _connection) = client_2(address).await;
        let two = within(client.clone().send_request(request("/")))
            .await
            .unwrap();
        assert_eq!(two.headers().contains_key("date"), with_date);
    }
}

#[doorbell::test]
async fn heads_have_limits() {
    let address = start(|server| server.http1(|it| _ = it.max_headers(2).max_header_size(200)));
    let few = within(answer(&send(address, REQUEST).await)).await;
    assert!(few.starts_with("HTTP/1.1 200 "), "{few}");
    let many = b"GET / HTTP/1.1\r\nhost: here\r\na: b\r\nc: d\r\n\r\n".to_vec();
    let long = [
        b"GET /",
        &[b'x'; 300][..],
        b" HTTP/1.1\r\nhost: here\r\n\r\n",
    ]
    .concat();
    for text in [many, long] {
        let all = all(&send(address, &text).await).await;
        let all = String::from_utf8(all).unwrap();
        assert!(all.starts_with("HTTP/1.1 431 "), "{all}");
    }
}

#[doorbell::test]
async fn answers_to_pipelined_requests_may_be_written_together() {
    const REQUESTS: usize = 8;
    let address = start(|server| server.http1(|it| _ = it.pipeline_flush(true)));
    let stream = send(address, &REQUEST.repeat(REQUESTS)).await;
    let mut some = vec![0; 65_536];
    let count = within(stream.read(&mut some)).await.unwrap();
    let text = str::from_utf8(&some[..count]).unwrap();
    assert_eq!(text.matches(Hello::TEXT).count(), REQUESTS, "{text}");
}

/// The first bytes of a client over HTTP/2, with its settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[doorbell::test]
async fn streams_and_windows_of_http_2_can_be_set() {
    let address = start(|server| {
        let server = server.http2(|it| _ = it.max_concurrent_streams(7));
        server.http2(|it| {
            it.initial_stream_window_size(77_777);
            it.max_header_list_size(7_777);
        })
    });
    let stream = send(address, PREFACE).await;
    let mut head = [0; 9];
    within(stream.read_exact(&mut head)).await.unwrap();
    assert_eq!(head[3], 4, "it sends its settings first");
    let mut settings = vec![0; usize::from(head[2])];
    within(stream.read_exact(&mut settings)).await.unwrap();
    let value = |id: u8| {
        let mut all = settings.chunks_exact(6);
        let found = all.find(|it| it[..2] == [0, id]);
        found.map(|it| u32::from_be_bytes(it[2..].try_into().unwrap()))
    };
    assert_eq!([3, 4, 6].map(value), [Some(7), Some(77_777), Some(7_777)]);
}

#[doorbell::test]
async fn a_client_of_http_2_that_answers_no_ping_is_dropped() {
    let address = start(|server| {
        server.http2(|it| _ = it.keep_alive_interval(SHORT).keep_alive_timeout(SHORT))
    });
    let stream = send(address, PREFACE).await;
    within(closes(&stream)).await;
}

/// Answers extended `CONNECT` for that protocol, and greets in the tunnel.
async fn connect(mut request: Request<RequestBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::CONNECT {
        let protocol = request.extensions().get::<Protocol>().unwrap();
        assert_eq!(protocol.as_str(), "websocket");
        let upgraded = hyper::upgrade::on(&mut request);
        drop(spawn(async move {
            let mut io = upgraded.await.unwrap();
            let text = Hello::TEXT.as_bytes();
            poll_fn(|cx| Pin::new(&mut io).poll_write(cx, text))
                .await
                .unwrap();
            poll_fn(|cx| Pin::new(&mut io).poll_shutdown(cx))
                .await
                .unwrap();
        }));
    }
    Ok(Response::default())
}

#[doorbell::test]
async fn extended_connect_can_be_allowed() {
    let (listener, address) = bind();
    let server = Server::new(listener).http2(|it| _ = it.enable_connect_protocol());
    drop(spawn(server.serve(|| service_fn(connect))));
    let (client, _connection) = client_2(address).await;
    // The answer comes behind the server's settings.
    within(client.clone().send_request(request("/")))
        .await
        .unwrap();
    let asked = Request::connect("http://here/chat").extension(Protocol::from_static("websocket"));
    let asked = client
        .clone()
        .send_request(asked.body(Empty::new()).unwrap());
    let answer = within(asked).await.unwrap();
    let mut tunnel = within(hyper::upgrade::on(answer)).await.unwrap();
    let mut room = [0; 64];
    let mut buffer = ReadBuf::new(&mut room);
    within(poll_fn(|cx| {
        Pin::new(&mut tunnel).poll_read(cx, buffer.unfilled())
    }))
    .await
    .unwrap();
    assert_eq!(buffer.filled(), Hello::TEXT.as_bytes());
}
