//! An [axum](https://docs.rs/axum) app on doorbell: urgent, ordinary and background (Batch) requests side by side.
//!
//! | file | what it does |
//! |---|---|
//! | `main.rs` | the command line, and what goes wrong |
//! | `routes.rs` | the routes, and the class of each route's requests |
//! | `compute.rs` | CPU work of a known length |
//! | `counts.rs` | the text of `/metrics` |
//! | `serve.rs` | the server, from its first connection to its last |
//! | `stop.rs` | SIGTERM and SIGINT |

mod compute;
mod counts;
mod routes;
mod serve;
mod stop;

use clap::Parser;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

/// Serves HTTP until SIGTERM or SIGINT, and then until requests in flight are answered, for 30 s at most.
///
/// `/` greets. `/compute` computes for 5 ms inside the handler; `/batch` does the same only on otherwise
/// idle CPUs. `/healthz` is urgent, and is usually answered within a millisecond while the others compute.
/// `/metrics` shows counts.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
struct Options {
    /// Where to listen: an address and a port (0 for any free port)
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: String,

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
    #[error("cannot listen at {address}: {source}; {}", what_to_do(source))]
    Listen {
        /// The address requested.
        address: String,
        /// The OS's error.
        source: io::Error,
    },
    /// The runtime could not be started.
    #[error("cannot start the runtime: {0}")]
    Runtime(#[from] doorbell::BuildError),
    /// The app cannot wait for signals.
    #[error(
        "cannot wait for signals: {0}; is the limit of descriptors or threads too low (ulimit -n, -u)?"
    )]
    Signals(io::Error),
    /// The listening socket failed.
    #[error("cannot serve: {0}")]
    Serve(#[from] doorbell_hyper::ServeError),
    /// The address could not be printed.
    #[error("cannot print where it listens: {0}; is standard output closed?")]
    Print(io::Error),
}

/// What to do about an address that is not available.
fn what_to_do(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has that port (`ss -ltnp` names it): end it, or choose another port by --listen, 0 for any free one"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 are for privileged programs: choose another one by --listen"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: choose 127.0.0.1 for this machine only, or 0.0.0.0 for all addresses"
        }
        _ => "--listen takes an address and a port, as 127.0.0.1:8080",
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
    let listener = TcpListener::bind(&options.listen);
    let listen_error = |source| ClinicError::Listen {
        address: options.listen.clone(),
        source,
    };
    let listener = listener.map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    // Before the address is printed: its reader may send a signal at once.
    let (watch, stopped) = stop::watch().map_err(ClinicError::Signals)?;
    let runtime = build(options)?;
    let listener = doorbell::net::TcpListener::from_std(listener).map_err(listen_error)?;
    say(address).map_err(ClinicError::Print)?;
    let served = runtime.block_on(serve::serve(listener, stopped));
    drop(runtime);
    drop(watch);
    if options.linger {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
    }
    served?;
    Ok(())
}

fn build(options: &Options) -> Result<doorbell::Runtime, doorbell::BuildError> {
    let builder = doorbell::Builder::new().name("clinic");
    match options.cores {
        Some(cores) => builder.cores(cores),
        None => builder,
    }
    .build()
}

/// Prints the address, and flushes, which matters if the output is not a terminal.
fn say(address: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "listening on http://{address}")?;
    out.flush()
}
