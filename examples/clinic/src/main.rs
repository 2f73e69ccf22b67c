//! An [axum](https://docs.rs/axum) app on doorbell: urgent, ordinary and background (Batch) requests side by side.
//!
//! | file | what it does |
//! |---|---|
//! | `main.rs` | the command line, and what goes wrong |
//! | `routes.rs` | the routes, and the class of each route's requests |
//! | `compute.rs` | CPU work of a known length |
//! | `counts.rs` | the text of `/metrics` |
//! | `itself.rs` | reqwest, a crate that calls tokio, in a handler |
//! | `log.rs` | who asked for what |
//! | `listen.rs` | a TCP port, one with TLS, a Unix socket |
//! | `serve.rs` | the servers, from the first connection to the last |
//! | `stop.rs` | SIGTERM and SIGINT |

mod compute;
mod counts;
mod itself;
mod listen;
mod log;
mod routes;
mod serve;
mod stop;

use clap::Parser;
use listen::{CertificateError, Listeners};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use stop::Signals;

/// Serves HTTP until SIGTERM or SIGINT, and then until requests in flight are answered, for 30 s at most.
///
/// `/` greets. `/compute` computes for 5 ms inside the handler; `/batch` does the same only on otherwise
/// idle CPUs. `/healthz` is urgent: its handler preempts the others. Its connection may wait for one of their
/// polls to be read, and for one more to be answered.
/// `/self` asks `/healthz` by reqwest. `/metrics` shows counts.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
struct Options {
    /// Where to listen: an address and a port (0 for any free port)
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: String,

    /// Where to listen for HTTPS too
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        requires = "certificate",
        requires = "key"
    )]
    tls: Option<String>,

    /// The certificate of --tls, a PEM file, with those that lead to the root
    #[arg(long, value_name = "FILE", requires = "tls")]
    certificate: Option<PathBuf>,

    /// The certificate's private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls")]
    key: Option<PathBuf>,

    /// A Unix socket to listen at too: a new file, which is removed at the end
    #[arg(long, value_name = "FILE")]
    unix: Option<PathBuf>,

    /// Print a line on standard error for each request: who asked for what, and the answer's status
    #[arg(long)]
    log: bool,

    /// How many cores to use [default: all that this process may use]
    #[arg(long, value_name = "NUMBER")]
    cores: Option<usize>,

    /// At the end waits for the end of standard input: tests check what is left
    #[arg(long, hide = true)]
    linger: bool,
}

/// Why the app ended with an error.
#[derive(Debug, thiserror::Error)]
enum ClinicError {
    /// The address is not available.
    #[error("cannot listen at {address}: {source}; {}", what_to_do(source, option))]
    Listen {
        /// The address requested.
        address: String,
        /// The option that requested it.
        option: &'static str,
        /// The OS's error.
        source: io::Error,
    },
    /// The file is not available.
    #[error("cannot listen at {path}: {source}; --unix takes a new file: remove an old one if no program listens there", path = .path.display())]
    ListenUnix {
        /// The file requested.
        path: PathBuf,
        /// The OS's error.
        source: io::Error,
    },
    /// The certificate is not usable.
    #[error("cannot use the certificate {certificate} with the key {key}: {source}; both must be PEM files", certificate = .certificate.display(), key = .key.display())]
    Certificate {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong.
        source: CertificateError,
    },
    /// The client of `/self` could not be made.
    #[error("cannot ask itself: {0}; is the limit of descriptors too low (ulimit -n)?")]
    Client(#[from] reqwest::Error),
    /// The runtime could not be started.
    #[error("cannot start the runtime: {0}")]
    Runtime(#[from] doorbell::BuildError),
    /// The app cannot wait for signals.
    #[error("cannot wait for signals: {0}; is the limit of descriptors too low (ulimit -n)?")]
    Signals(io::Error),
    /// The listening socket failed.
    #[error("cannot serve: {0}")]
    Serve(#[from] doorbell_hyper::ServeError),
    /// The address could not be printed.
    #[error("cannot print where it listens: {0}; is standard output closed?")]
    Print(io::Error),
}

/// What to do about an address that is not available.
fn what_to_do(error: &io::Error, option: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "another program has that port (`ss -ltnp` names it): end it, or choose another port by {option}, 0 for any free one"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "ports below 1024 are for privileged programs: choose another one by {option}"
        ),
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: choose 127.0.0.1 for this machine only, or 0.0.0.0 for all addresses".to_owned()
        }
        _ => format!("{option} takes an address and a port, as 127.0.0.1:8080"),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("clinic: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), ClinicError> {
    let listeners = Listeners::bind(options)?;
    // Before the address is printed: its reader may send a signal at once.
    let signals = Signals::listen().map_err(ClinicError::Signals)?;
    let runtime = build(options)?;
    listeners.say().map_err(ClinicError::Print)?;
    let served = runtime.block_on(serve::serve(listeners, signals, options.log));
    drop(runtime);
    if options.linger {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
    }
    served
}

fn build(options: &Options) -> Result<doorbell::Runtime, doorbell::BuildError> {
    // With what reqwest needs of tokio.
    let builder = doorbell_tokio::builder().name("clinic");
    match options.cores {
        Some(cores) => builder.cores(cores),
        None => builder,
    }
    .build()
}
