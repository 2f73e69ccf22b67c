//! Servers over TCP, Unix sockets and TLS: one and the same server, with its limits and its drain.

use crate::common::{request, within};
use axum::extract::Extension;
use axum::routing::get;
use axum::{Router, body::Body};
use doorbell::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use doorbell::sync::CancellationToken;
use doorbell::time::{sleep, timeout};
use doorbell::{Class, JoinHandle};
use doorbell_hyper::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use doorbell_hyper::rustls::{ClientConfig, RootCertStore, ServerConfig};
use doorbell_hyper::{
    ConnectionInfo, DoorbellExecutor, Listener, ServeError, Served, Server, TlsListener,
};
use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

/// A test's own certificate for `localhost`, which signs itself, and its key.
const CERTIFICATE: &[u8] = include_bytes!("../tls/certificate.pem");
const KEY: &[u8] = include_bytes!("../tls/key.pem");

/// The length of `/big`'s body: more than the sockets and rustls hold.
const BIG: usize = 8 << 20;

fn tls() -> ServerConfig {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    config.with_single_cert(vec![certificate], key).unwrap()
}

/// What carries the bytes, and whether they are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    unix: bool,
    tls: bool,
}

const KINDS: [Kind; 4] = [
    Kind {
        unix: false,
        tls: false,
    },
    Kind {
        unix: true,
        tls: false,
    },
    Kind {
        unix: false,
        tls: true,
    },
    Kind {
        unix: true,
        tls: true,
    },
];

#[derive(Clone, Debug)]
enum Address {
    Tcp(SocketAddr),
    Unix(String),
}

/// What a test sets.
#[derive(Clone, Copy, Debug)]
struct Settings {
    header: Option<Duration>,
    write: Option<Duration>,
    rate: Option<NonZeroU64>,
    limit: Option<NonZeroUsize>,
}

const DEFAULT: Settings = Settings {
    header: Some(Duration::from_secs(30)),
    write: Some(Duration::from_secs(60)),
    rate: None,
    limit: None,
};

/// What `/late` waits for.
struct Gate {
    /// Has a permit for each `/late` that has begun.
    begun: Semaphore,
    /// `/late` answers once this has a permit.
    open: Semaphore,
}

/// A running server.
struct Site {
    kind: Kind,
    address: Address,
    end: CancellationToken,
    gate: Arc<Gate>,
    task: JoinHandle<Result<Served, ServeError>>,
}

impl Site {
    fn start(kind: Kind, settings: Settings) -> Site {
        let end = CancellationToken::new();
        let gate = Arc::new(Gate {
            begun: Semaphore::new(0),
            open: Semaphore::new(0),
        });
        let (address, task) = if kind.unix {
            // An abstract name: that of a socket without a file.
            let name = format!("\0doorbell-listeners-{}-{:p}", std::process::id(), &*gate);
            let listener = UnixListener::bind(&name).unwrap();
            (
                Address::Unix(name),
                start(listener, kind, settings, &end, &gate),
            )
        } else {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            (
                Address::Tcp(address),
                start(listener, kind, settings, &end, &gate),
            )
        };
        Site {
            kind,
            address,
            end,
            gate,
            task,
        }
    }

    /// A connection without TLS.
    async fn try_connect(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match &self.address {
            Address::Tcp(address) => Box::new(TcpStream::connect(*address).await?),
            Address::Unix(name) => Box::new(UnixStream::connect(name).await?),
        })
    }

    async fn connect(&self) -> Box<dyn Stream> {
        self.try_connect().await.unwrap()
    }

    /// A connection on which HTTP begins. Over TLS the client offers this protocol.
    async fn open(&self, alpn: &str) -> Box<dyn Stream> {
        let stream = self.connect().await;
        if !self.kind.tls {
            return stream;
        }
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap())
            .unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![alpn.into()];
        let connector = TlsConnector::from(Arc::new(config));
        let name = "localhost".try_into().unwrap();
        Box::new(connector.connect(name, stream).await.unwrap())
    }

    /// Asks over HTTP/1, on a connection of its own.
    async fn ask(&self, path: &str) -> Bytes {
        let io = TokioIo::new(self.open("http/1.1").await);
        let (mut client, connection) = http1::handshake(io).await.unwrap();
        drop(doorbell::spawn(connection));
        let answer = client.send_request(request(path)).await.unwrap();
        answer.into_body().collect().await.unwrap().to_bytes()
    }

    async fn end(self) -> Served {
        self.end.cancel();
        within(self.task).await.unwrap().unwrap()
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

fn start(
    listener: impl Listener,
    kind: Kind,
    settings: Settings,
    end: &CancellationToken,
    gate: &Arc<Gate>,
) -> JoinHandle<Result<Served, ServeError>> {
    if kind.tls {
        serve(TlsListener::new(listener, tls()), settings, end, gate)
    } else {
        serve(listener, settings, end, gate)
    }
}

fn serve(
    listener: impl Listener,
    settings: Settings,
    end: &CancellationToken,
    gate: &Arc<Gate>,
) -> JoinHandle<Result<Served, ServeError>> {
    let gate = Arc::clone(gate);
    let late = async move || {
        gate.begun.add_permits(1);
        gate.open.acquire().await.unwrap().forget();
        "late"
    };
    let big = async || Body::from(vec![b'x'; BIG]);
    let router = Router::new()
        .route("/", get(told))
        .route("/batch", get(told))
        .route("/late", get(late))
        .route("/big", get(big));
    let mut server = Server::new(listener)
        .connection_info(true)
        .header_timeout(settings.header)
        .write_timeout(settings.write)
        .minimum_rate(settings.rate)
        .shutdown_on(end.clone().cancelled_owned());
    if let Some(limit) = settings.limit {
        server = server.connection_limit(limit);
    }
    let server = server.classes(|request| match request.uri().path() {
        "/batch" => Class::BATCH,
        _ => Class::FAIR,
    });
    doorbell::spawn(server.serve_tower(router))
}

/// Answers with what the server knows of the client.
async fn told(Extension(info): Extension<ConnectionInfo>) -> String {
    let mut told = Vec::new();
    if let Some((peer, local)) = info.peer_addr().zip(info.local_addr()) {
        assert_ne!(peer, local);
        told.push(format!("tcp {}", peer.ip()));
    }
    if let Some(cred) = info.peer_cred() {
        told.push(format!("unix {:?}", cred.pid));
    }
    if let Some(tls) = info.tls() {
        let alpn = str::from_utf8(tls.alpn_protocol().unwrap()).unwrap();
        assert!(tls.peer_certificates().is_empty());
        assert!(tls.protocol_version().is_some());
        told.push(format!("tls {} {alpn}", tls.server_name().unwrap()));
    }
    told.join(", ")
}

fn expected(kind: Kind, alpn: &str) -> String {
    let pid = i32::try_from(std::process::id()).ok();
    let below = if kind.unix {
        format!("unix {pid:?}")
    } else {
        "tcp 127.0.0.1".to_owned()
    };
    if kind.tls {
        format!("{below}, tls localhost {alpn}")
    } else {
        below
    }
}

#[doorbell::test(cores = 2)]
async fn each_kind_greets_over_both_versions_in_every_class_and_knows_its_client() {
    for kind in KINDS {
        let site = Site::start(kind, DEFAULT);
        for path in ["/", "/batch"] {
            let body = within(site.ask(path)).await;
            assert_eq!(body, expected(kind, "http/1.1"), "{kind:?}");
        }
        let io = TokioIo::new(within(site.open("h2")).await);
        let (client, connection) = http2::handshake(DoorbellExecutor, io).await.unwrap();
        drop(doorbell::spawn(connection));
        for path in ["/", "/batch", "/"] {
            let body = within(crate::common::ask_2(&client, path)).await.unwrap();
            assert_eq!(body, expected(kind, "h2"), "{kind:?}");
        }
        assert_eq!(within(site.ask("/big")).await.len(), BIG);
        drop(client);
        let served = site.end().await;
        assert_eq!((served.accepted, served.cut), (4, 0), "{kind:?}");
    }
}

/// The first half of a TLS client's first message.
const HALF_A_HELLO: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];

/// Connections whose handshake never ends: silent ones, and others that have begun.
async fn dawdlers(site: &Site, count: usize) -> Vec<Box<dyn Stream>> {
    let mut dawdlers = Vec::new();
    for number in 0..count {
        let mut stream = site.connect().await;
        if number % 2 == 1 {
            stream.write_all(HALF_A_HELLO).await.unwrap();
        }
        dawdlers.push(stream);
    }
    dawdlers
}

#[doorbell::test(cores = 1)]
async fn handshakes_that_never_end_hold_up_nobody_and_are_cut_after_the_header_timeout() {
    for kind in KINDS.into_iter().filter(|kind| kind.tls) {
        // They stay for as long as they are allowed to.
        let site = Site::start(
            kind,
            Settings {
                header: None,
                ..DEFAULT
            },
        );
        let held = dawdlers(&site, 50).await;
        for _ in 0..10 {
            within(site.ask("/")).await;
        }
        drop(held);
        site.end().await;
        let header = Some(Duration::from_millis(300));
        let site = Site::start(kind, Settings { header, ..DEFAULT });
        for mut dawdler in dawdlers(&site, 10).await {
            let mut rest = Vec::new();
            // An error counts as an end.
            let _ = within(dawdler.read_to_end(&mut rest)).await;
        }
        within(site.ask("/")).await;
        assert_eq!(site.end().await.cut, 0);
    }
}

#[doorbell::test(cores = 1)]
async fn handshakes_count_for_the_connection_limit() {
    for kind in KINDS.into_iter().filter(|kind| kind.tls) {
        let settings = Settings {
            header: None,
            limit: NonZeroUsize::new(2),
            ..DEFAULT
        };
        let site = Site::start(kind, settings);
        let mut held = dawdlers(&site, 2).await;
        let mut asks = Box::pin(site.ask("/"));
        let early = timeout(Duration::from_millis(200), &mut asks).await;
        assert!(early.is_err(), "a third connection is served beside two");
        held.pop();
        within(asks).await;
        drop(held);
        assert_eq!(site.end().await.accepted, 3);
    }
}

#[doorbell::test(cores = 1)]
async fn what_is_no_handshake_ends_its_connection_and_nothing_else() {
    let site = Site::start(
        Kind {
            unix: false,
            tls: true,
        },
        DEFAULT,
    );
    let mut plain = site.connect().await;
    plain.write_all(crate::common::REQUEST).await.unwrap();
    let mut said = Vec::new();
    let _ = within(plain.read_to_end(&mut said)).await;
    // An alert of TLS, if it comes before the reset.
    assert!(said.is_empty() || said[0] == 0x15, "{said:?}");
    // One that goes in the middle.
    drop(dawdlers(&site, 2).await);
    within(site.ask("/")).await;
    site.end().await;
}

#[doorbell::test(cores = 2)]
async fn each_kind_drains_requests_in_flight_and_waits_for_no_handshake() {
    for kind in KINDS {
        let site = Site::start(kind, DEFAULT);
        let late = doorbell::spawn({
            let io = TokioIo::new(within(site.open("http/1.1")).await);
            let (mut client, connection) = http1::handshake(io).await.unwrap();
            drop(doorbell::spawn(connection));
            async move { client.send_request(request("/late")).await.unwrap() }
        });
        // Their handshakes, or their first heads, are not complete.
        let held = dawdlers(&site, 2).await;
        // All are accepted before this is.
        within(site.ask("/")).await;
        let begun = within(site.gate.begun.acquire()).await;
        begun.unwrap().forget();
        site.end.cancel();
        // It refuses connections before it has ended.
        within(async {
            while site.try_connect().await.is_ok() {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert!(!site.task.is_finished(), "{kind:?}");
        site.gate.open.add_permits(1);
        let answer = within(late).await.unwrap();
        assert_eq!(answer.headers()["connection"], "close");
        assert_eq!(
            answer.into_body().collect().await.unwrap().to_bytes(),
            "late"
        );
        let served = site.end().await;
        assert_eq!(served.cut, 0, "{kind:?}");
        assert!(served.accepted >= 4, "{kind:?}: {served:?}");
        drop(held);
    }
}

/// Requests `/big`, and takes the head of the answer.
async fn ask_big(site: &Site) -> Box<dyn Stream> {
    let mut stream = within(site.open("http/1.1")).await;
    stream
        .write_all(b"GET /big HTTP/1.1\r\nhost: here\r\n\r\n")
        .await
        .unwrap();
    stream.flush().await.unwrap();
    let mut head = [0; 15];
    within(stream.read_exact(&mut head)).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    stream
}

#[doorbell::test(cores = 2)]
async fn a_client_that_takes_nothing_is_dropped_over_each_kind() {
    for kind in KINDS {
        let write = Some(Duration::from_millis(500));
        let site = Site::start(kind, Settings { write, ..DEFAULT });
        let stream = ask_big(&site).await;
        // The server ends as soon as it has dropped the connection.
        let served = site.end().await;
        assert_eq!((served.timed_out, served.cut), (1, 1), "{kind:?}");
        drop(stream);
    }
}

/// How much of `/big` a client gets that takes this much every 20 ms, and how many connections the server cuts.
async fn slow_client(kind: Kind, settings: Settings, step: usize) -> (usize, u64) {
    let site = Site::start(kind, settings);
    let mut stream = ask_big(&site).await;
    let mut taken = 0;
    let mut some = vec![0; step];
    while let Ok(read @ 1..) = within(stream.read(&mut some)).await {
        taken += read;
        if taken >= BIG {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    drop(stream);
    (taken, site.end().await.timed_out)
}

#[doorbell::test(cores = 2)]
async fn how_fast_a_client_takes_an_answer_is_seen_through_tls() {
    let tls = Kind {
        unix: false,
        tls: true,
    };
    let plain = Kind {
        unix: false,
        tls: false,
    };
    let slow = |kind| async move {
        // Slower than this, beyond the first 5 s.
        let rate = NonZeroU64::new(100 << 20);
        let settings = Settings { rate, ..DEFAULT };
        let (taken, cut) = slow_client(kind, settings, 4 << 10).await;
        assert!(cut == 1 && taken < BIG, "{kind:?}: {taken}, {cut}");
    };
    let steady = |kind| async move {
        // It always takes something.
        let write = Some(Duration::from_secs(3));
        let settings = Settings { write, ..DEFAULT };
        let (taken, cut) = slow_client(kind, settings, 64 << 10).await;
        assert!(cut == 0 && taken >= BIG, "{kind:?}: {taken}, {cut}");
    };
    futures::join!(slow(tls), slow(plain), steady(tls), steady(plain));
}
