//! The built program, tested over real sockets and ended by real signals.

mod program;

use program::{Clinic, Stream, ask};
use rustix::process::Signal;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_mins(1);

#[test]
fn every_route_answers() {
    let clinic = Clinic::start();
    let mut stream = Stream::to(&clinic);
    for (path, status, body) in [
        ("/", 200, "hello from the clinic\n"),
        ("/healthz", 200, "ok\n"),
        ("/compute", 200, "computed "),
        ("/batch", 200, "computed "),
        ("/self", 200, "/healthz says ok\n"),
        ("/nothing-here", 404, ""),
    ] {
        let answer = stream.ask(path).unwrap();
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.body.starts_with(body), "{path}: {answer:?}");
    }
    // The work is the same in every class.
    let computed = stream.ask("/compute").unwrap().body;
    assert_eq!(stream.ask("/batch").unwrap().body, computed);

    let mut metrics = stream.ask("/metrics").unwrap().body;
    for (route, count) in [
        ("/", 1),
        ("/compute", 2),
        ("/batch", 2),
        // By the test, and by the clinic itself.
        ("/healthz", 2),
        ("/self", 1),
        ("/metrics", 1),
        ("other", 1),
    ] {
        let line = format!("clinic_requests{{route=\"{route}\"}} {count}\n");
        assert!(metrics.contains(&line), "no {line} in {metrics}");
    }
    // Each in its class: the workers of Rt and Batch were started, and have polled the requests. A worker counts a
    // poll at its end, and one of Batch may have lost its CPU to whom it answered before that.
    let classes = ["Rt", "Fair", "Batch"];
    let polls = |metrics: &str, class| program::sum(metrics, "doorbell_worker_polls", class);
    let start = Instant::now();
    while classes.iter().any(|class| polls(&metrics, class) == 0) {
        assert!(start.elapsed() < LONG, "{metrics}");
        thread::sleep(Duration::from_millis(1));
        metrics = stream.ask("/metrics").unwrap().body;
    }
    for class in classes {
        let polls = polls(&metrics, class);
        assert!((1..10_000).contains(&polls), "{class}: {polls} {metrics}");
    }
    clinic.stop(Signal::TERM);
}

/// Requests computations until it is over. Returns how long each answer took.
fn computes(clinic: &Clinic, computed: &AtomicU64, over: &AtomicBool) -> Vec<Duration> {
    let mut stream = Stream::to(clinic);
    let mut times = Vec::new();
    while !over.load(SeqCst) {
        let start = Instant::now();
        let answer = stream.ask("/compute").unwrap();
        times.push(start.elapsed());
        assert!(answer.body.starts_with("computed "), "{answer:?}");
        computed.fetch_add(1, SeqCst);
    }
    times
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn the_urgent_route_answers_while_all_cores_compute() {
    const FLOOD: usize = 32;
    const BEATS: usize = 100;
    let clinic = Clinic::start();
    let over = AtomicBool::new(false);
    let computed = AtomicU64::new(0);
    let (beats, computing) = thread::scope(|scope| {
        let flood: Vec<_> = (0..FLOOD)
            .map(|_| scope.spawn(|| computes(&clinic, &computed, &over)))
            .collect();
        let ends = program::SetOnDrop(&over);
        // Until all of them have begun.
        let start = Instant::now();
        while computed.load(SeqCst) < FLOOD as u64 {
            assert!(start.elapsed() < LONG, "{computed:?} answers");
            thread::sleep(Duration::from_millis(1));
        }
        let mut stream = Stream::to(&clinic);
        let beats: Vec<_> = (0..BEATS)
            .map(|_| {
                let start = Instant::now();
                assert_eq!(stream.ask("/healthz").unwrap().body, "ok\n");
                let took = start.elapsed();
                // The flood goes on meanwhile.
                thread::sleep(Duration::from_millis(2));
                took
            })
            .collect();
        drop(ends);
        let computing = flood.into_iter().flat_map(|it| it.join().unwrap());
        (beats, computing.collect::<Vec<_>>())
    });
    let (beat, computing) = (median(beats), median(computing));
    println!("a beat takes {beat:?}, a computation {computing:?}");
    // These wait for each other, 32 × 5 ms on two cores; the median beat waits for none.
    assert!(
        computing >= Duration::from_millis(10),
        "{computing:?}: no flood"
    );
    assert!(beat < computing / 2, "{beat:?}, {computing:?}");
    let metrics = ask(&clinic, "/metrics").body;
    let line = format!("clinic_requests{{route=\"/healthz\"}} {BEATS}\n");
    assert!(metrics.contains(&line), "{metrics}");
    clinic.stop(Signal::TERM);
}

/// Handlers of `/batch` that have begun.
fn begun(counts: &mut Stream) -> usize {
    let metrics = counts.ask("/metrics").unwrap().body;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("clinic_requests{route=\"/batch\"} "));
    line.unwrap().parse().unwrap()
}

#[test]
fn requests_that_are_under_way_end_before_the_program_does() {
    // A second of work for one core, so that the signal comes before it is done. A Batch handler is a task
    // of its own: its connection reads the request at once, and the work waits.
    const WORK: usize = 200;
    for signal in [Signal::TERM, Signal::INT] {
        let clinic = Clinic::lingering();
        let mut streams: Vec<Stream> = (0..WORK).map(|_| Stream::to(&clinic)).collect();
        for stream in &mut streams {
            stream.send("/batch").unwrap();
        }
        let start = Instant::now();
        let mut counts = Stream::to(&clinic);
        let begun = loop {
            match begun(&mut counts) {
                0 => assert!(start.elapsed() < LONG, "no handler begins"),
                begun => break begun,
            }
        };
        clinic.signal(signal);
        let waiting = streams.iter().filter(|stream| !stream.has_something());
        assert!(waiting.count() > 0, "there is nothing left to wait for");
        // A request that was sent but not read may be answered or not. One that has begun gets a whole
        // answer.
        let mut answered = 0;
        for mut stream in streams {
            if let Ok(answer) = stream.answer() {
                assert_eq!(answer.status, 200);
                assert!(answer.body.starts_with("computed "), "{answer:?}");
                stream.assert_closed();
                answered += 1;
            }
        }
        assert!(answered >= begun, "{answered} of {begun}");
        clinic.assert_all_is_closed();
        clinic.wait();
    }
}

#[test]
fn idle_connections_do_not_keep_it_from_ending() {
    let clinic = Clinic::lingering();
    let mut asked = Stream::to(&clinic);
    assert_eq!(asked.ask("/").unwrap().status, 200);
    let silent = Stream::to(&clinic);
    // Checks that descriptors are counted: the listener and one connection, at least.
    let open = clinic.descriptors();
    assert!((2..100).contains(&open.len()), "{open:?}");
    clinic.signal(Signal::TERM);
    asked.assert_closed();
    clinic.assert_all_is_closed();
    assert!(std::net::TcpStream::connect(clinic.address()).is_err());
    drop(silent);
    clinic.wait();
}

/// The test's own certificate for `localhost`, and its key.
const CERTIFICATE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../crates/doorbell-hyper/tests/tls/certificate.pem"
);
const KEY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../crates/doorbell-hyper/tests/tls/key.pem"
);

/// A connection over TLS to this address.
fn over_tls(address: &str) -> Stream<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(CERTIFICATE).unwrap();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = Arc::new(config.with_no_client_auth());
    let name = "localhost".try_into().unwrap();
    let tls = ClientConnection::new(config, name).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    Stream::over(StreamOwned::new(tls, stream))
}

#[test]
fn it_listens_over_tls_and_at_a_unix_socket_too_and_logs_who_asks() {
    let file = format!("doorbell-clinic-{}", std::process::id());
    let file = std::env::temp_dir().join(file);
    let _ = std::fs::remove_file(&file);
    let path = file.to_str().unwrap();
    let mut clinic = Clinic::with(&[
        "--tls",
        "127.0.0.1:0",
        "--certificate",
        CERTIFICATE,
        "--key",
        KEY,
        "--unix",
        path,
        "--log",
    ]);
    let tls = clinic.listens("https://");
    assert_eq!(clinic.listens("unix:"), path);
    let mut plain = Stream::to(&clinic);
    let from = plain.local_addr();
    assert_eq!(plain.ask("/").unwrap().body, "hello from the clinic\n");
    assert_eq!(over_tls(&tls).ask("/compute").unwrap().status, 200);
    let unix = UnixStream::connect(&file).unwrap();
    unix.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(Stream::over(unix).ask("/healthz").unwrap().body, "ok\n");
    let log = clinic.logged();
    let user = rustix::process::getuid().as_raw();
    for line in [
        format!("{from} GET / 200\n"),
        " (TLS) GET /compute 200\n".to_owned(),
        format!("user {user} GET /healthz 200\n"),
    ] {
        assert!(log.contains(&line), "no {line:?} in {log:?}");
    }
    assert!(!file.exists(), "the file of the socket stays");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let clinic = Clinic::start();
    // They take a second.
    let mut streams: Vec<Stream> = (0..200).map(|_| Stream::to(&clinic)).collect();
    for stream in &mut streams {
        stream.send("/batch").unwrap();
    }
    let mut counts = Stream::to(&clinic);
    let start = Instant::now();
    while begun(&mut counts) == 0 {
        assert!(start.elapsed() < LONG, "no handler begins");
    }
    clinic.signal(Signal::TERM);
    // Two signals that come together may count as one.
    counts.assert_closed();
    clinic.signal(Signal::INT);
    clinic.ends_with(1);
}

#[test]
fn a_port_in_use_and_other_mistakes_say_what_to_do() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    for (arguments, words) in [
        (["--listen", taken.as_str()], ["in use", "--listen"]),
        (["--listen", "nonsense"], ["nonsense", "127.0.0.1:8080"]),
        (["--listen", "192.0.2.1:80"], ["192.0.2.1:80", "0.0.0.0"]),
        (["--cores", "0"], ["at least one core", "1 or more"]),
        (["--unix", "/dev/null"], ["in use", "--unix"]),
    ] {
        let mut child = program::command()
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut printed = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut printed)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{arguments:?}");
        assert_eq!(printed, "", "{arguments:?}");
        for word in words {
            assert!(said.contains(word), "{arguments:?}: {said}");
        }
        assert_eq!(said.lines().count(), 1, "one line: {said}");
    }
}
