//! Crates of others that call tokio, each in tasks of doorbell, over `doorbell-tokio`, with a real peer.

mod grpc;
mod http;
mod os;
mod postgres;
mod redis;
mod server;
mod sqlite;
mod time;
mod tokio_itself;
mod tower;

use std::time::Duration;

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_secs(60);
