//! An [axum](https://docs.rs/axum) app on doorbell: urgent, ordinary and background (Batch) requests side by side.
//!
//! | file | what it does |
//! |---|---|
//! | `main.rs` | the command line, and what goes wrong |
//! | `routes.rs` | the routes, and the class that each one's requests run in |
//! | `compute.rs` | work for the CPU of a known length |
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
/// `/` greets. `/compute` computes for 5 ms, inside the handler, as people write it; `/batch` does the same where
/// nobody else wants the CPU. `/healthz` is urgent, and usually answered within a millisecond while the others compute.
/// `/metrics` counts.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
struct Options {
    /// Where to listen: an address and a port, of which 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: String,

    /// How many cores to use [default: all that this process may use]
    #[arg(long, value_name = "NUMBER")]
    cores: Option<usize>,

    /// Waits for the end of standard input after all has ended: tests look at what is left
    #[arg(long, hide = true)]
    linger: bool,
}

/// Why the app did not run to its end.
#[derive(Debug, thiserror::Error)]
enum ClinicError {
    /// The address is not to be had.
    #[error("cannot listen at {address}: {source}; {}", what_to_do(source))]
    Listen {
        /// The one asked for.
        address: String,
        /// What the OS said.
        source: io::Error,
    },
    /// No runtime.
    #[error("cannot start the runtime: {0}")]
    Runtime(#[from] doorbell::BuildError),
    /// Signals cannot be waited for.
    #[error(
        "cannot wait for signals: {0}; is the limit of descriptors or threads too low (ulimit -n, -u)?"
    )]
    Signals(io::Error),
    /// The listening socket is of no use.
    #[error("cannot serve: {0}")]
    Serve(#[from] doorbell_hyper::ServeError),
    /// Nobody reads what is printed.
    #[error("cannot print where it listens: {0}; is standard output closed?")]
    Print(io::Error),
}

/// What helps against an address that is not to be had.
fn what_to_do(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has that port (`ss -ltnp` names it): end it, or choose another port by --listen, 0 for any free one"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 are for privileged programs: choose another one by --listen"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: choose 127.0.0.1 for itself alone, or 0.0.0.0 for everybody"
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
    // Before it says where it listens: whoever reads that may signal at once.
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

/// Says where it listens, at once also where the output is no terminal.
fn say(address: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "listening on http://{address}")?;
    out.flush()
}
