//! h2spec, the conformance test of HTTP/2, run against this server and against the same service under
//! tokio. The same cases must pass.
//!
//! If the program `h2spec` is not installed, the test prints that and checks nothing. With
//! `DOORBELL_H2SPEC_INSTALL=1`, as in CI, it is installed below the target folder by `go install`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::net::TcpListener;
use doorbell_hyper::Server;
use http_body_util::Full;
use hyper::body::{Body, Bytes};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The variable with the program's path, if it is neither in PATH nor where this test installs it.
const VARIABLE: &str = "DOORBELL_H2SPEC";

/// The variable that requests its installation.
const INSTALL: &str = "DOORBELL_H2SPEC_INSTALL";

/// Its later tags are not valid versions for the Go module proxy.
const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

/// The number of its cases.
const CASES: usize = 145;

/// The number of cases that may fail on both. They expect a FIN where closing a socket with unread bytes
/// sends a reset. Which of the two comes is a race, so they may also pass.
const FAIL: usize = 2;

/// How long an answer takes. Frames right behind a request then find its stream open, as h2spec expects.
const LATE: Duration = Duration::from_millis(20);

/// The number of tries: on a busy machine some cases time out.
const TRIES: usize = 4;

fn runs(program: &Path) -> bool {
    let run = Command::new(program).arg("--version").output();
    run.is_ok_and(|it| it.status.success())
}

/// The program, installed below the target folder if that is possible.
fn h2spec() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tools");
    let installed = tools.join("h2spec");
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let places = named
        .into_iter()
        .chain(["h2spec".into(), installed.clone()]);
    if let Some(found) = places.into_iter().find(|place| runs(place)) {
        return Some(found);
    }
    std::env::var_os(INSTALL)?;
    let install = Command::new("go")
        .args(["install", MODULE])
        .env("GOBIN", &tools)
        // Everything is written below this folder, so it can be deleted.
        .env("GOPATH", tools.join("go"))
        .env("GOCACHE", tools.join("go-cache"))
        // Built soon: for its few seconds without C and without optimization.
        .env("CGO_ENABLED", "0")
        .env(
            "GOFLAGS",
            "-modcacherw -buildvcs=false '-gcflags=all=-N -l'",
        )
        .status();
    (install.is_ok() && runs(&installed)).then_some(installed)
}

/// Its report on a server.
#[derive(Debug)]
struct Report {
    cases: BTreeSet<String>,
    failed: BTreeSet<String>,
}

impl Report {
    /// Combines two reports on the same server: a case that passed once counts as passed.
    fn and(self, other: &Report) -> Report {
        assert_eq!(self.cases, other.cases);
        Report {
            cases: self.cases,
            failed: &self.failed & &other.failed,
        }
    }
}

/// Greets after [`LATE`].
fn late<B: Body + 'static, W: Future<Output = ()> + Send>(
    wait: impl Fn(Duration) -> W + Clone + Send,
) -> impl Service<Request<B>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send> {
    service_fn(move |_: Request<B>| {
        let wait = wait.clone();
        async move {
            wait(LATE).await;
            Ok(Response::new(Full::from("hello, world")))
        }
    })
}

fn report(program: &Path, server: &str, address: SocketAddr) -> Report {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("h2spec-{server}.xml"));
    let _ = std::fs::remove_file(&file);
    let run = Command::new(program)
        .args(["--host", &address.ip().to_string()])
        .args(["--port", &address.port().to_string()])
        .args(["--timeout", "3"])
        .arg("--junit-report")
        .arg(&file)
        .output()
        .unwrap();
    // Its exit status fails if any case does; the report has the details.
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&run.stderr)));
    let mut report = Report {
        cases: BTreeSet::new(),
        failed: BTreeSet::new(),
    };
    for case in text.split("<testcase ").skip(1) {
        let (attributes, rest) = case.split_once('>').unwrap();
        let of = |name: &str| {
            let value = attributes.split(&format!("{name}=\"")).nth(1);
            value.unwrap().split('"').next().unwrap().to_owned()
        };
        let name = format!("{} {}", of("package"), of("classname"));
        let inside = rest.split("</testcase>").next().unwrap();
        if inside.contains("<failure") || inside.contains("<error") {
            report.failed.insert(name.clone());
        }
        assert!(report.cases.insert(name.clone()), "twice: {name}");
    }
    report
}

fn on_doorbell(program: &Path) -> Report {
    let runtime = doorbell::Builder::new().cores(2).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let service = || late(doorbell::time::sleep);
    let task = runtime.spawn(Server::new(listener).serve(service));
    let report = report(program, "doorbell", address);
    assert!(!task.is_finished(), "the server has ended");
    report
}

fn on_tokio(program: &Path) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let connection = auto::Builder::new(TokioExecutor::new());
                let (io, service) = (TokioIo::new(stream), late(tokio::time::sleep));
                drop(connection.serve_connection(io, service).await);
            });
        }
    });
    report(program, "tokio", address)
}

#[test]
fn the_same_cases_of_h2spec_pass_as_on_tokio() {
    let Some(program) = h2spec() else {
        println!(
            "\nskipped: no program h2spec in PATH or {VARIABLE}; set {INSTALL}=1 to have go install it"
        );
        return;
    };
    let (mut ours, mut theirs) = (on_doorbell(&program), on_tokio(&program));
    for _ in 1..TRIES {
        println!(
            "{} cases, failed: {:?}, {:?}",
            ours.cases.len(),
            ours.failed,
            theirs.failed
        );
        if ours.failed == theirs.failed && ours.failed.len() <= FAIL {
            break;
        }
        ours = ours.and(&on_doorbell(&program));
        theirs = theirs.and(&on_tokio(&program));
    }
    assert_eq!((ours.cases.len(), theirs.cases.len()), (CASES, CASES));
    assert_eq!(ours.failed, theirs.failed, "ours and tokio's");
    assert!(ours.failed.len() <= FAIL, "{:?}", ours.failed);
}
