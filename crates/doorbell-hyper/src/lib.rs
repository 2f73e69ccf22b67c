//! HTTP on doorbell with [hyper](https://hyper.rs): an HTTP/1 and HTTP/2 server for hyper's services, axum
//! and tonic, and the IO, executor, timer and connector that hyper asks of a runtime.
//!
//! ```no_run
//! use doorbell::net::TcpListener;
//! # use http_body_util::Full;
//! use hyper::body::Bytes;
//! use hyper::{Response, service::service_fn};
//! use std::convert::Infallible;
//!
//! #[doorbell::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let listener = TcpListener::bind("127.0.0.1:8080")?;
//!     let hello = || service_fn(async |_| {
//!         Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello, world"))))
//!     });
//!     doorbell_hyper::serve(listener, hello).await?;
//!     Ok(())
//! }
//! ```
//!
//! # axum
//! One call serves a `Router`. It needs no default feature of axum and no tokio runtime:
//!
//! ```no_run
//! use axum::{Router, extract::Path, routing::get};
//! use doorbell::net::TcpListener;
//! use doorbell_hyper::Server;
//!
//! #[doorbell::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let hello = async |Path(who): Path<String>| format!("hello, {who}");
//!     let router = Router::new().route("/{who}", get(hello));
//!     let listener = TcpListener::bind("127.0.0.1:8080")?;
//!     Server::new(listener).serve_tower(router).await?;
//!     Ok(())
//! }
//! ```
//!
//! Handlers use doorbell's timers, sockets and `spawn`. Code that calls those of tokio (`tokio::time`,
//! `tokio::net`, `tokio::spawn`) needs the crate `doorbell-tokio`. `tokio::sync` works without it.
//!
//! With [`Server::connection_info`] the address of the client is in the request's extensions ([`ConnectionInfo`]). With
//! the feature `axum`, axum's own extractor works then, without `into_make_service_with_connect_info`:
//!
//! ```no_run
//! use axum::{Router, extract::ConnectInfo, routing::get};
//! use std::net::SocketAddr;
//!
//! # async fn serve(listener: doorbell::net::TcpListener) -> Result<(), doorbell_hyper::ServeError> {
//! let peer = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| format!("hello, {peer}");
//! let router = Router::new().route("/", get(peer));
//! doorbell_hyper::Server::new(listener).connection_info(true).serve_tower(router).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # tonic
//! The same call serves `Routes`. Enable tonic's feature `router`, not `transport` or `server`, which are for
//! tokio's own server:
//!
//! ```no_run
//! use doorbell::net::TcpListener;
//! use doorbell_hyper::Server;
//! use tonic::service::Routes;
//!
//! #[doorbell::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let (reporter, health) = tonic_health::server::health_reporter();
//!     let routes = Routes::new(health);
//!     let listener = TcpListener::bind("127.0.0.1:50051")?;
//!     Server::new(listener).serve_tower(routes).await?;
//! #   drop(reporter);
//!     Ok(())
//! }
//! ```
//!
//! # Upgrades
//! `hyper::upgrade::on` resolves once the answer is written (`101`, or `2xx` to `CONNECT`). Await it in a
//! task that the handler spawns; that task inherits the handler's class. The upgraded connection first yields
//! the bytes that the client sent after its request. For a `WebSocket` crate, wrap the connection in
//! `TokioIo` of `hyper-util`, or get the [`TcpStream`](doorbell::net::TcpStream) itself by [`ServerIo`].
//! axum's extractor `WebSocketUpgrade` spawns on tokio's runtime, so it panics without `doorbell-tokio`.
//! Without it, pass the request to `hyper::upgrade::on` instead:
//!
//! ```
//! use axum::extract::Request;
//! use axum::http::{StatusCode, header};
//! use axum::response::IntoResponse;
//!
//! async fn upgrade(request: Request) -> impl IntoResponse {
//!     let upgraded = hyper::upgrade::on(request);
//!     drop(doorbell::spawn(async move {
//!         if let Ok(connection) = upgraded.await {
//!             // Another protocol begins.
//!             drop(connection);
//!         }
//!     }));
//!     let fields = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "another")];
//!     (StatusCode::SWITCHING_PROTOCOLS, fields)
//! }
//! # let router: axum::Router = axum::Router::new().route("/", axum::routing::any(upgrade));
//! ```
//!
//! # Urgent connections
//! A server's connections have the class of the task that awaits it. If urgent and other requests share a port,
//! and urgent ones must not wait for a poll that computes, await a server with [classes](Server::classes) in
//! class Rt: `doorbell::task().class(Class::rt(50)).spawn(server.serve_tower(router))`. Its connections read and
//! write in class Rt, and the handlers run in the classes of their routes (a test compares the fastest tenth:
//! `an_answer_on_a_connection_in_class_rt_waits_for_no_poll_of_fair`). What clients send there takes CPU time
//! from class Fair, up to `Builder::rt_budget`: set it where the port is public. A server with only urgent
//! requests, such as metrics and probes, can be spawned in class Rt and listen on its own port. Its connections do not wait
//! for polls of class Fair. How soon they get a CPU depends on the OS
//! ([`Handle::policies`](doorbell::Handle::policies)) and on
//! [`Builder::rt_budget`](doorbell::Builder::rt_budget).
//!
//! ```no_run
//! use axum::{Router, routing::get};
//! use doorbell::{Class, net::TcpListener};
//! use doorbell_hyper::Server;
//!
//! #[doorbell::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let probes = Router::new().route("/healthz", get(async || "ok"));
//!     let probes = Server::new(TcpListener::bind("127.0.0.1:8081")?).serve_tower(probes);
//!     let probes = doorbell::task().class(Class::rt(50)).spawn(probes);
//!     let all_else = Router::new().route("/", get(async || "hello, world"));
//!     let listener = TcpListener::bind("127.0.0.1:8080")?;
//!     Server::new(listener).serve_tower(all_else).await?;
//!     probes.abort();
//!     Ok(())
//! }
//! ```
//!
//! Do not expose the urgent port to the public: a flood of requests there takes CPU time from all of class
//! Fair, up to [`Builder::rt_budget`](doorbell::Builder::rt_budget).
//!
//! # How a server ends
//! When the future given to [`shutdown_on`](Server::shutdown_on) is ready, the server stops accepting, closes
//! idle connections, and waits for requests in flight and upgraded connections for up to
//! [`drain_timeout`](Server::drain_timeout) (default: 30 s). Then it drops the remaining connections, except
//! upgraded ones. [`ServerEnd`], which a connection has ([`ConnectionInfo::server_end`]), tells of the end to
//! handlers whose answer would go on for ever, and to tasks with an upgraded connection.
//!
//! ```
//! use doorbell::net::TcpListener;
//! use doorbell::sync::CancellationToken;
//! use doorbell_hyper::Server;
//! use std::time::Duration;
//! # use axum::Router;
//!
//! # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
//! # let listener = TcpListener::bind("127.0.0.1:0")?;
//! # let router: Router = Router::new();
//! let end = CancellationToken::new();
//! let server = Server::new(listener)
//!     .connection_limit(10_000.try_into()?)
//!     .shutdown_on(end.clone().cancelled_owned())
//!     .drain_timeout(Duration::from_secs(10));
//! let server = doorbell::spawn(server.serve_tower(router));
//! end.cancel();
//! let served = server.await??;
//! println!("{} connections, {} of them cut", served.accepted, served.cut);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # Limits
//! | what a client may not do for ever | setting | default |
//! |---|---|---|
//! | send the head of a request | [`header_timeout`](Server::header_timeout) | 30 s |
//! | let a handler wait for the next bytes of a body | [`body_timeout`](Server::body_timeout) | 60 s |
//! | take nothing of what it is sent | [`write_timeout`](Server::write_timeout) | 60 s |
//! | be slow | [`minimum_rate`](Server::minimum_rate) | no limit |
//! | have one request | [`request_timeout`](Server::request_timeout) | no limit |
//! | be idle | [`keep_alive_timeout`](Server::keep_alive_timeout) | 75 s |
//!
//! With the defaults an answer may go on for ever, as server-sent events and streams in both directions do,
//! and pause as long as it likes.
//!
//! Of each answer over HTTP/2 the server holds less than 64 KiB and one frame beyond what the stream's window
//! has room for. hyper asks for that frame before it knows whether there is room. It allows 200 requests at a time
//! (`max_concurrent_streams`). So if no frame is longer than 64 KiB, a connection whose client takes nothing holds
//! less than 200 × 128 KiB = 25 MiB, for as long as [`write_timeout`](Server::write_timeout) says. Over HTTP/1
//! hyper holds up to 408 KiB and one frame (`max_buf_size`) beyond what the socket has room for.
//!
//! # Unix sockets
//! A [`UnixListener`](doorbell::net::UnixListener) in place of a `TcpListener` serves them. Handlers learn the
//! client's process and user by [`ConnectionInfo::peer_cred`].
//!
//! # TLS
//! With the feature `tls`, `TlsListener` makes a TLS listener of a `TcpListener` or `UnixListener`, by
//! [rustls](https://docs.rs/rustls). Clients choose HTTP/2 by ALPN. Choose rustls's cryptography by its
//! features: depend on `rustls` with `ring` or `aws-lc-rs`, and with `tls12` if clients need TLS 1.2.
//! `doorbell_hyper::rustls` is the same crate.
//!
//! # Features
//! * `server` (default): [`Server`] and [`serve`].
//! * `tower` (default): `Server::serve_tower`.
//! * `axum`: axum's extractor `ConnectInfo<SocketAddr>` works. axum's feature `tokio`, which has it, depends on
//!   tokio's sockets and runtime, but uses none.
//! * `tls`: `TlsListener`. It depends on tokio's traits, not on its runtime.
//! * `client`: `DoorbellConnector`, for the pooled client of `hyper-util`. That client depends on tokio's
//!   sockets, but opens none.
//!
//! [`DoorbellIo`], [`DoorbellExecutor`] and [`DoorbellTimer`] are always there.

#![warn(clippy::print_stdout, clippy::print_stderr)]
#![allow(
    clippy::disallowed_macros,
    reason = "a thread-local in `server::tasks`; clippy reads this only here"
)]

#[cfg(feature = "server")]
mod classes;
#[cfg(feature = "client")]
mod connector;
#[cfg(feature = "client")]
mod dial;
#[cfg(feature = "server")]
mod ending;
mod executor;
mod io;
#[cfg(feature = "server")]
mod server;
mod socket;
mod timer;

#[cfg(feature = "server")]
pub use classes::{Answering, ByClass, Handed, HandlerError};
#[cfg(feature = "client")]
pub use connector::{ConnectError, Connecting, DoorbellConnector, HttpInfo};
pub use executor::DoorbellExecutor;
pub use io::DoorbellIo;
#[cfg(feature = "server")]
pub use server::{
    BodyError, ClassServer, ConnectionInfo, Listener, RequestBody, ServeError, Served, Server,
    ServerEnd, ServerExecutor, ServerIo, Transport, serve,
};
#[cfg(feature = "tls")]
pub use server::{TlsInfo, TlsIo, TlsListener};
pub use timer::DoorbellTimer;
#[cfg(feature = "tls")]
pub use tokio_rustls::rustls;

/// Texts of the tree whose code compiles.
#[cfg(all(doctest, feature = "tower"))]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../doorbell/README.md")]
#[doc = include_str!("../../../docs/guide/blocking.md")]
#[doc = include_str!("../../../docs/guide/calls.md")]
#[doc = include_str!("../../../docs/guide/classes.md")]
#[doc = include_str!("../../../docs/guide/first-service.md")]
#[doc = include_str!("../../../docs/guide/from-tokio.md")]
#[doc = include_str!("../../../docs/guide/long-polls.md")]
#[doc = include_str!("../../../docs/guide/observing.md")]
#[doc = include_str!("../../../docs/guide/shutdown.md")]
#[doc = include_str!("../../../docs/guide/testing.md")]
#[doc = include_str!("../../../docs/guide/timers.md")]
#[doc = include_str!("../../../docs/guide/tuning.md")]
struct Texts;
