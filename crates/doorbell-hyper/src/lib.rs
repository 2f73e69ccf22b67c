//! [hyper](https://hyper.rs) on doorbell: connections, an executor, a timer, and a server.
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

#[cfg(feature = "server")]
mod classes;
#[cfg(feature = "client")]
mod connector;
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
pub use server::{ClassServer, ServeError, Served, Server, serve};
pub use timer::DoorbellTimer;
