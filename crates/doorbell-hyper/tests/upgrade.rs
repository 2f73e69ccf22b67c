//! Upgraded connections: no sent byte is lost, and they belong to the code that took them.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod common;
mod plain;
#[path = "../../doorbell/tests/shuffled/mod.rs"]
mod shuffled;

use common::{ask_2, client_2, within};
use doorbell::net::TcpListener;
use doorbell::sync::CancellationToken;
use doorbell::time::sleep;
use doorbell::{Class, ClassKind, JoinHandle, Runtime, current_class};
use doorbell_hyper::{ConnectionInfo, RequestBody, ServeError, Served, Server, ServerIo};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, UPGRADE};
use hyper::rt::{Read, ReadBuf, Write};
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response, StatusCode, Version};
use plain::{Client, LONG, alone};
use shuffled::Builder;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than a test's timeout, and shorter than any wait of a test.
const WHILE: Duration = Duration::from_millis(300);
const BRIEF: Duration = Duration::from_millis(250);

/// What the handlers share.
#[derive(Debug, Default)]
struct Seen {
    /// The class of each echo.
    classes: Mutex<Vec<ClassKind>>,
    /// Requests for `/late`, which are answered when `go` says so.
    late: AtomicUsize,
    go: CancellationToken,
}

async fn read(io: &mut Upgraded, bytes: &mut [u8]) -> io::Result<usize> {
    let mut buffer = ReadBuf::new(bytes);
    poll_fn(|cx| Pin::new(&mut *io).poll_read(cx, buffer.unfilled())).await?;
    Ok(buffer.filled().len())
}

async fn write_all(io: &mut Upgraded, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = poll_fn(|cx| Pin::new(&mut *io).poll_write(cx, bytes)).await?;
        bytes = &bytes[written..];
    }
    poll_fn(|cx| Pin::new(&mut *io).poll_flush(cx)).await
}

/// Echoes everything until the client has closed its direction.
async fn echo(mut io: Upgraded) -> io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match read(&mut io, &mut bytes).await? {
            0 => return Ok(()),
            count => write_all(&mut io, &bytes[..count]).await?,
        }
    }
}

/// Like [`echo`], on the socket itself.
async fn echo_of_socket(io: Upgraded) -> io::Result<()> {
    let parts = io.downcast::<ServerIo>().expect("it is the server's");
    parts.io.get().write_all(&parts.read_buf).await?;
    let socket = parts.io.into_inner();
    let mut bytes = [0; 4096];
    loop {
        match socket.read(&mut bytes).await? {
            0 => return Ok(()),
            count => socket.write_all(&bytes[..count]).await?,
        }
    }
}

/// Routes such as `/fair/echo`, `/rt/socket` and `/batch/late`; `plain` does not upgrade.
async fn handle(
    mut request: Request<RequestBody>,
    seen: Arc<Seen>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let what = request.uri().path().rsplit('/').next().unwrap().to_owned();
    let is_tunnel = request.method() == Method::CONNECT;
    assert_eq!(
        is_tunnel,
        request.version() == Version::HTTP_2 && what != "plain"
    );
    if what == "plain" {
        return Ok(Response::new(Empty::new()));
    }
    let upgrading = hyper::upgrade::on(&mut request);
    let end = request
        .extensions()
        .get::<ConnectionInfo>()
        .unwrap()
        .server_end();
    if what == "late" {
        seen.late.fetch_add(1, SeqCst);
        seen.go.clone().cancelled_owned().await;
    }
    drop(doorbell::spawn(async move {
        let upgraded = upgrading.await.unwrap();
        seen.classes
            .lock()
            .unwrap()
            .push(current_class().unwrap().kind());
        let echoed = match what.as_str() {
            "socket" => echo_of_socket(upgraded).await,
            "polite" => {
                end.cancelled().await;
                let mut upgraded = upgraded;
                write_all(&mut upgraded, b"goodbye").await
            }
            _ => echo(upgraded).await,
        };
        if !is_tunnel {
            echoed.unwrap();
        }
    }));
    let answer = Response::builder();
    let answer = if is_tunnel {
        answer
    } else {
        let answer = answer.status(StatusCode::SWITCHING_PROTOCOLS);
        answer.header(CONNECTION, "upgrade").header(UPGRADE, "echo")
    };
    Ok(answer.body(Empty::new()).unwrap())
}

/// The server used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Server,
    ClassServer,
}

const BOTH: [By; 2] = [By::Server, By::ClassServer];

/// A running server.
struct Echoes {
    runtime: Runtime,
    address: SocketAddr,
    seen: Arc<Seen>,
    task: JoinHandle<Result<Served, ServeError>>,
    end: CancellationToken,
}

impl Echoes {
    fn start(by: By, with: impl FnOnce(Server) -> Server) -> Echoes {
        let runtime = Builder::new().cores(2).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, end) = (Arc::new(Seen::default()), CancellationToken::new());
        let server = with(Server::new(listener).connection_info(true))
            .shutdown_on(end.clone().cancelled_owned());
        let theirs = Arc::clone(&seen);
        let service = move || {
            let seen = Arc::clone(&theirs);
            service_fn(move |request| handle(request, Arc::clone(&seen)))
        };
        let task = match by {
            By::Server => runtime.spawn(server.serve(service)),
            By::ClassServer => {
                let server =
                    server.classes(|request| match request.uri().path().split('/').nth(1) {
                        Some("rt") => Class::rt(60),
                        Some("batch") => Class::BATCH,
                        _ => Class::FAIR,
                    });
                runtime.spawn(server.serve(service))
            }
        };
        Echoes {
            runtime,
            address,
            seen,
            task,
            end,
        }
    }

    fn end(self) -> Served {
        self.end.cancel();
        self.runtime.block_on(self.task).unwrap().unwrap()
    }

    /// Requests an upgrade, and sends more right behind it.
    fn ask(&self, path: &str, early: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: here\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n"
        );
        stream
            .write_all(&[head.as_bytes(), early].concat())
            .unwrap();
        stream
    }

    /// The same, until the answer.
    fn upgrade(&self, path: &str, early: &[u8]) -> TcpStream {
        let mut stream = self.ask(path, early);
        assert_switched(&mut stream);
        stream
    }
}

/// Reads exactly the answer's head.
fn assert_switched(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("\r\nupgrade: echo\r\n"), "{head}");
    // When its server ends, hyper adds `close`.
    let connection = head.lines().find_map(|it| it.strip_prefix("connection: "));
    assert!(connection.unwrap().starts_with("upgrade"), "{head}");
}

fn assert_heard(stream: &mut TcpStream, text: &[u8]) {
    let mut heard = vec![0; text.len()];
    stream.read_exact(&mut heard).unwrap();
    assert!(heard == text, "{} bytes", text.len());
}

fn assert_echoes(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).unwrap();
    assert_heard(stream, text);
}

/// Closes this direction. Then the other end must close without another byte.
fn assert_ends(mut stream: TcpStream) {
    stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

#[test]
fn what_was_sent_behind_the_head_is_read_first() {
    let _alone = alone();
    // No bytes, as many as come with the head, and more.
    let early: Vec<u8> = (0..30_000).map(|at| (at % 251) as u8).collect();
    for by in BOTH {
        let echoes = Echoes::start(by, |server| server);
        for (class, kind) in [
            ("batch", ClassKind::Batch),
            ("fair", ClassKind::Fair),
            ("rt", ClassKind::Rt),
        ] {
            for (what, count) in [("echo", 0), ("echo", 5), ("echo", 30_000), ("socket", 5)] {
                let mut stream = echoes.upgrade(&format!("/{class}/{what}"), &early[..count]);
                assert_heard(&mut stream, &early[..count]);
                for _ in 0..20 {
                    assert_echoes(&mut stream, &early[..16_000]);
                }
                assert_ends(stream);
                // A handler's child task has its class.
                let seen = std::mem::take(&mut *echoes.seen.classes.lock().unwrap());
                let expected = if by == By::Server {
                    ClassKind::Fair
                } else {
                    kind
                };
                assert_eq!(seen, [expected], "{by:?} {class} {what}");
            }
        }
        let served = echoes.end();
        assert_eq!((served.accepted, served.cut), (12, 0), "{by:?}");
    }
}

#[test]
fn it_counts_as_open_until_the_socket_is_taken_out() {
    let _alone = alone();
    for by in BOTH {
        let one = |server: Server| server.connection_limit(1.try_into().unwrap());
        let echoes = Echoes::start(by, one);
        let mut upgraded = echoes.upgrade("/fair/echo", b"early");
        assert_heard(&mut upgraded, b"early");
        let mut next = Client::to(echoes.address);
        next.get("/fair/plain").unwrap();
        next.stream().set_read_timeout(Some(2 * BRIEF)).unwrap();
        let answered = next.stream().peek(&mut [0]);
        let error = answered.expect_err("there is no room");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{by:?}");
        assert_echoes(&mut upgraded, b"still there");
        assert_ends(upgraded);
        next.stream().set_read_timeout(Some(LONG)).unwrap();
        assert_eq!(next.answer().unwrap().status, 200, "{by:?}");
        drop(next);
        let mut socket = echoes.upgrade("/fair/socket", b"early");
        assert_heard(&mut socket, b"early");
        let mut next = Client::to(echoes.address);
        assert_eq!(next.ask("/fair/plain").unwrap().status, 200, "{by:?}");
        assert_echoes(&mut socket, b"still there");
        assert_ends(socket);
        drop(next);
        assert_eq!(echoes.end().cut, 0, "{by:?}");
    }
}

#[test]
fn neither_timeouts_nor_the_end_of_the_server_close_it() {
    let _alone = alone();
    for by in BOTH {
        for is_dropped in [false, true] {
            let short = |server: Server| {
                let server = server.header_timeout(Some(BRIEF));
                let server = server.body_timeout(Some(BRIEF)).write_timeout(Some(BRIEF));
                let server = server.keep_alive_timeout(Some(BRIEF));
                server.request_timeout(Some(BRIEF)).drain_timeout(BRIEF)
            };
            let echoes = Echoes::start(by, short);
            let mut all = ["/fair/echo", "/rt/echo", "/fair/socket"].map(|path| {
                let mut stream = echoes.upgrade(path, b"early");
                assert_heard(&mut stream, b"early");
                stream
            });
            thread::sleep(WHILE);
            for stream in &mut all {
                assert_echoes(stream, b"behind the timeouts");
            }
            let Echoes {
                runtime, task, end, ..
            } = echoes;
            if is_dropped {
                task.abort();
                runtime.block_on(task).expect_err("it is dropped");
            } else {
                end.cancel();
                let served = runtime.block_on(task).unwrap().unwrap();
                let seen = (served.accepted, served.drained, served.cut, served.outlived);
                // The server has given one of the sockets away.
                assert_eq!(seen, (3, 0, 0, 2), "{by:?}");
            }
            for mut stream in all {
                assert_echoes(&mut stream, b"behind the server's end");
                assert_ends(stream);
            }
        }
    }
}

#[test]
fn a_request_that_is_in_flight_at_the_signal_is_still_upgraded() {
    let _alone = alone();
    for by in BOTH {
        for path in ["/fair/late", "/rt/late"] {
            let echoes = Echoes::start(by, |server| server.drain_timeout(2 * WHILE));
            let mut stream = echoes.ask(path, b"early");
            let start = Instant::now();
            while echoes.seen.late.load(SeqCst) == 0 {
                assert!(start.elapsed() < LONG);
                thread::sleep(Duration::from_millis(1));
            }
            echoes.end.cancel();
            // Until the server has heard of it. The kernel asks again after a second if the listener is closed meanwhile.
            while TcpStream::connect_timeout(&echoes.address, WHILE / 3).is_ok() {
                assert!(start.elapsed() < LONG);
                thread::sleep(Duration::from_millis(1));
            }
            echoes.seen.go.cancel();
            assert_switched(&mut stream);
            assert_heard(&mut stream, b"early");
            let served = echoes.runtime.block_on(echoes.task).unwrap().unwrap();
            assert_eq!((served.outlived, served.cut), (1, 0), "{by:?}: {served:?}");
            assert_echoes(&mut stream, b"behind the server's end");
            assert_ends(stream);
        }
    }
}

#[test]
fn a_tunnel_over_http_2_is_a_request_in_flight() {
    let _alone = alone();
    for by in BOTH {
        let short = |server: Server| {
            let server = server.header_timeout(Some(BRIEF));
            let server = server.keep_alive_timeout(Some(BRIEF));
            server.drain_timeout(WHILE)
        };
        let echoes = Echoes::start(by, short);
        let (runtime, address) = (&echoes.runtime, echoes.address);
        let tunnel = runtime.block_on(async {
            let (client, connection) = client_2(address).await;
            let asked = Request::connect("there:80").body(Empty::new()).unwrap();
            let answer = within(client.clone().send_request(asked)).await.unwrap();
            assert_eq!(answer.status(), 200);
            let mut tunnel = within(hyper::upgrade::on(answer)).await.unwrap();
            let mut heard = [0; 5];
            for _ in 0..2 {
                within(write_all(&mut tunnel, b"hello")).await.unwrap();
                within(read(&mut tunnel, &mut heard)).await.unwrap();
                assert_eq!(&heard, b"hello");
                sleep(WHILE).await;
            }
            // The connection takes more requests.
            let plain = within(ask_2(&client, "/fair/plain")).await;
            assert_eq!(plain.unwrap(), "");
            (tunnel, client, connection)
        });
        echoes.end.cancel();
        let served = runtime.block_on(echoes.task).unwrap().unwrap();
        let seen = (served.accepted, served.drained, served.cut);
        assert_eq!(seen, (1, 0, 1), "{by:?}");
        drop(tunnel);
    }
}

/// A client over HTTP/2 that opens a tunnel, and after it the end of what it sends there.
const TUNNEL: [&[u8]; 2] = [
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
      \0\0\x13\x01\x04\0\0\0\x01\x42\x07CONNECT\x41\x08there:80",
    b"\0\0\0\0\x01\0\0\0\x01",
];

#[test]
fn a_tunnel_that_has_ended_does_not_hold_the_end_of_a_server() {
    let _alone = alone();
    for by in BOTH {
        let echoes = Echoes::start(by, |server| server.drain_timeout(LONG));
        let mut client = TcpStream::connect(echoes.address).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        client.write_all(&TUNNEL.concat()).unwrap();
        // The other end closes it with the same frame.
        let mut all = Vec::new();
        while !all.ends_with(TUNNEL[1]) {
            let mut some = [0; 512];
            let count = client.read(&mut some).unwrap();
            assert!(count > 0, "it closed: {all:?}");
            all.extend_from_slice(&some[..count]);
        }
        // The client stays, although the server asks it to leave.
        let start = Instant::now();
        echoes.end.cancel();
        let served = echoes.runtime.block_on(echoes.task).unwrap().unwrap();
        let seen = (served.accepted, served.drained, served.cut);
        assert_eq!(seen, (1, 1, 0), "{by:?}");
        assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    }
}

#[test]
fn the_end_of_a_server_waits_for_it_and_its_task_is_told() {
    let _alone = alone();
    for by in BOTH {
        let echoes = Echoes::start(by, |server| server.drain_timeout(LONG));
        let mut all = ["/fair/polite", "/rt/polite", "/fair/echo"];
        all.sort_unstable();
        let [mut echo, fair, rt] = all.map(|path| echoes.upgrade(path, b""));
        // Nothing ends before the signal.
        assert_echoes(&mut echo, b"hello");
        let Echoes {
            runtime, task, end, ..
        } = echoes;
        end.cancel();
        for mut stream in [fair, rt] {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            assert_eq!(all, b"goodbye", "{by:?}");
        }
        assert!(!task.is_finished(), "one is open");
        assert_echoes(&mut echo, b"still there");
        assert_ends(echo);
        let served = runtime.block_on(task).unwrap().unwrap();
        let seen = (served.accepted, served.drained, served.cut, served.outlived);
        assert_eq!(seen, (3, 3, 0, 0), "{by:?}");
    }
}
