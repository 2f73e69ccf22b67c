//! The options of child processes that scenarios start.

use std::net::SocketAddr;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

use crate::scenario::http::{ServerOptions, server_flags};

/// The longest life of such a process, in seconds.
const SECONDS_MAX: u64 = 3_600;

/// What to serve.
#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    /// A web server of `lab http`: prints its address, and ends with standard input
    #[command(after_help = "Examples:\n  \
            sleep 60 | doorbell lab-server http --who tokio --listen 127.0.0.1:8080")]
    Http(HttpServerArgs),
}

/// Which client.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Idle connections of `lab http`: prints their number, and ends with standard input
    #[command(after_help = "Examples:\n  \
            sleep 60 | doorbell lab-client http --connect 127.0.0.1:8080 --connections 1000")]
    Http(HttpClientArgs),
}

/// Options of a web server.
#[derive(Debug, Args)]
pub struct HttpServerArgs {
    /// Which server
    #[arg(long, value_name = "SERVER", value_parser = PossibleValuesParser::new(server_flags()))]
    who: String,

    /// Its address; port 0 for any
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// The work of `/compute` [default: 5 ms of this machine's CPU]
    #[arg(long, value_name = "N")]
    compute_steps: Option<u64>,

    /// In how many slices `/compute` does its work: a handler yields between them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    compute_slices: u32,

    /// End after this many seconds
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds_max: u64,

    /// First give up the privilege to run threads before all others
    #[arg(long)]
    unprivileged: bool,
}

impl HttpServerArgs {
    /// The options that these arguments amount to.
    pub fn options(&self) -> ServerOptions {
        ServerOptions {
            who: self.who.clone(),
            listen: self.listen,
            compute_steps: self.compute_steps,
            compute_slices: self.compute_slices,
            most: Duration::from_secs(self.seconds_max),
            unprivileged: self.unprivileged,
        }
    }
}

/// Options of a client that holds connections.
#[derive(Debug, Args)]
pub struct HttpClientArgs {
    /// The server
    #[arg(long, value_name = "ADDRESS")]
    pub connect: SocketAddr,

    /// How many connections; fewer if the process may not open as many descriptors
    #[arg(long, value_name = "N")]
    pub connections: u64,

    /// End after this many seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub seconds_max: u64,
}
