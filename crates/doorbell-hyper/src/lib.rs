//! HTTP on doorbell, by [hyper](https://hyper.rs): a server of HTTP/1 and HTTP/2, for hyper's
//! services, axum and tonic; and hyper's IO, executor, timer and connector.
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
//! A `Router` is served by one call. axum needs none of its default features for it, and no runtime
//! of tokio:
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
//! What a handler takes from tokio's runtime (`tokio::time`, `tokio::net`, `tokio::spawn`) is not
//! there; use doorbell's. `tokio::sync` works.
//!
//! # tonic
//! So are `Routes` (tonic's feature `router`; `transport` and `server` are for tokio's own server):
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
//! `hyper::upgrade::on` resolves after the answer was written (`101`, or `2xx` to `CONNECT`). Await it in a task that the
//! handler spawns; the task inherits the handler's class. What the client sent behind its request is read first.
//! For crates of `WebSocket` there is `TokioIo` of `hyper-util` around it, or [`ServerIo`] to have the
//! [`TcpStream`](doorbell::net::TcpStream) itself. axum's own extractor `WebSocketUpgrade` spawns on tokio's runtime, and
//! so panics here; a handler can take hyper's `OnUpgrade` out of the request's extensions instead:
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
//! # Two servers, the urgent one on its own port
//! A server's connections have the class of the task that awaits it. So a server whose every request is urgent, metrics and
//! probes say, is spawned in class Rt and listens on its own port. Its connections do not queue behind polls of class Fair. How
//! soon they get a CPU depends on the OS ([`Handle::policies`](doorbell::Handle::policies)) and on
//! [`Builder::rt_budget`](doorbell::Builder::rt_budget). On one port with others, [`Server::classes`] tells the class of each
//! request.
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
//! A flood of requests on the urgent port goes before all of class Fair, up to
//! [`Builder::rt_budget`](doorbell::Builder::rt_budget): keep that port from the public.
//!
//! # How a server ends
//! When the future given to [`shutdown_on`](Server::shutdown_on) is ready, the server accepts no more, closes idle
//! connections, and answers requests in flight for up to [`drain_timeout`](Server::drain_timeout) (30 s unless told). What is
//! not done by then is dropped:
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
//! # TLS
//! The server speaks none; behind a proxy that does it needs none. To do it yourself, accept from a
//! [`TcpListener`](doorbell::net::TcpListener), hand each stream to a crate of TLS by the traits it
//! knows (features `tokio-io` and `futures-io` of doorbell), and give what comes out of it, in
//! `hyper_util`'s `TokioIo`, to a builder of hyper's with [`DoorbellExecutor`] and [`DoorbellTimer`].
//!
//! # Features
//! * `server` (default): [`Server`] and [`serve`].
//! * `tower` (default): `Server::serve_tower`.
//! * `client`: `DoorbellConnector`, for the pooled client of `hyper-util`; it brings in tokio's
//!   sockets, which nothing opens.
//!
//! Without any of them there are [`DoorbellIo`], [`DoorbellExecutor`] and [`DoorbellTimer`].

#[cfg(feature = "server")]
mod classes;
#[cfg(feature = "client")]
mod connector;
#[cfg(feature = "server")]
mod ending;
mod executor;
mod io;
#[cfg(feature = "server")]
mod server;
mod timer;

#[cfg(feature = "server")]
pub use classes::{Answering, ByClass, Handed, HandlerError};
#[cfg(feature = "client")]
pub use connector::{ConnectError, Connecting, DoorbellConnector};
pub use executor::DoorbellExecutor;
pub use io::DoorbellIo;
#[cfg(feature = "server")]
pub use server::{ClassServer, ServeError, Served, Server, ServerIo, serve};
pub use timer::DoorbellTimer;
