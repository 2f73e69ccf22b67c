//! The web servers of `doorbell lab http`, each as the process that the scenario starts.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use doorbell_lab::server_flags;
use serde_json::Value;

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// Those with a timeout, both versions of HTTP on one port, and an orderly end.
const WHOLE: [&str; 8] = [
    "tokio",
    "tokio-blocking",
    "tokio-idle-threads",
    "two-tokios",
    "two-doorbells",
    "doorbell",
    "doorbell-urgent-hello",
    "doorbell-one-class",
];

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// A server, and where it listens.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(who: &str, more: &[&str]) -> Self {
        Self::with_steps(who, "1000", more)
    }

    /// So many steps of work on `/compute`.
    fn with_steps(who: &str, steps: &str, more: &[&str]) -> Self {
        let mut command = program();
        command.args(["lab-server", "http", "--who", who, "--compute-steps", steps]);
        let mut child = command.args(more).spawn().expect("it starts");
        let stdout = child.stdout.take().expect("it is piped");
        let mut address = String::new();
        let read = BufReader::new(stdout).read_line(&mut address);
        read.expect("it says where it listens");
        let address = address.trim().to_owned();
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a timeout");
        stream
    }

    /// CPU time of its process so far, in ticks of the clock.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("it runs");
        // Behind the name, which may have blanks: user and system time are the 12th and 13th.
        let (_, fields) = stat.rsplit_once(')').expect("it has a name");
        let times = fields.split_whitespace().skip(11).take(2);
        times
            .map(|time| time.parse::<u64>().expect("a number"))
            .sum()
    }

    /// Waits for its end, which has to come by itself; whether it was a success.
    fn ends(mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < LONG {
            if let Some(status) = self.child.try_wait().expect("it was started") {
                return status.success();
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks, and reads until the connection has answered with `end`.
fn ask(stream: &mut TcpStream, requests: &str, end: &str) -> String {
    stream.write_all(requests.as_bytes()).expect("it reads");
    let mut text = String::new();
    let mut bytes = [0; 1_024];
    while !text.ends_with(end) {
        let count = stream.read(&mut bytes).expect("it answers");
        assert!(count > 0, "closed after {text:?}");
        text.push_str(str::from_utf8(&bytes[..count]).expect("it is text"));
    }
    text
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

#[test]
fn every_server_answers_each_route_on_one_connection() {
    for who in server_flags() {
        let server = Server::start(who, &[]);
        let mut stream = server.connect();
        for (path, length, body) in [
            ("/", 12, "hello, world"),
            ("/compute", 8, "computed"),
            ("/healthz", 2, "ok"),
            ("/compute", 8, "computed"),
        ] {
            let text = ask(&mut stream, &get(path), body).to_lowercase();
            assert!(text.starts_with("http/1.1 200 ok\r\n"), "{who}: {text}");
            let header = format!("content-length: {length}\r\n");
            assert!(text.contains(&header), "{who}: {text}");
        }
        let text = ask(&mut stream, &get("/none"), "\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 404 "), "{who}: {text}");
    }
}

#[test]
fn every_server_computes_in_slices() {
    for who in server_flags() {
        let server = Server::start(who, &["--compute-slices", "10"]);
        let text = ask(&mut server.connect(), &get("/compute"), "computed");
        assert!(text.starts_with("HTTP/1.1 200 "), "{who}: {text}");
    }
}

#[test]
fn requests_that_come_together_are_answered_in_turn() {
    for who in server_flags() {
        let server = Server::start(who, &[]);
        let three = ["/compute", "/", "/healthz"].map(get).concat();
        let text = ask(&mut server.connect(), &three, "ok");
        let computed = text.find("computed").expect(who);
        let greeted = text.find("hello, world").expect(who);
        assert!(computed < greeted, "{who}: {text}");
    }
}

#[test]
fn a_client_that_wants_no_more_is_let_go() {
    for who in server_flags() {
        let server = Server::start(who, &[]);
        let mut stream = server.connect();
        let last = "GET /compute HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(last.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it closes");
        assert!(text.ends_with("computed"), "{who}: {text}");
    }
}

#[test]
fn clients_that_go_while_it_computes_leave_the_others_alone() {
    for who in server_flags() {
        let server = Server::start(who, &[]);
        for _ in 0..50 {
            let mut gone = server.connect();
            gone.write_all(get("/compute").as_bytes())
                .expect("it reads");
        }
        let text = ask(&mut server.connect(), &get("/compute"), "computed");
        assert!(text.starts_with("HTTP/1.1 200 "), "{who}: {text}");
    }
}

#[test]
fn a_server_ends_with_its_standard_input_or_when_its_time_is_over() {
    for who in server_flags() {
        let mut server = Server::start(who, &["--unprivileged"]);
        // Somebody who is connected does not keep it.
        let _stream = server.connect();
        drop(server.child.stdin.take());
        assert!(server.ends(), "{who}");
    }
    assert!(Server::start("tokio", &["--seconds-max", "1"]).ends());
}

#[test]
fn a_request_in_flight_is_answered_although_the_server_ends() {
    // Some tenths of a second.
    const STEPS: &str = "60000000";
    // These threads compute only while a CPU has nothing else to do, and other tests may run beside this one.
    let is_idle_class = |who: &&str| *who == "tokio-idle-threads";
    for who in WHOLE.into_iter().filter(|who| !is_idle_class(who)) {
        let mut server = Server::with_steps(who, STEPS, &[]);
        let mut stream = server.connect();
        ask(&mut stream, &get("/healthz"), "ok");
        let (before, began) = (server.ticks(), Instant::now());
        stream
            .write_all(get("/compute").as_bytes())
            .expect("it reads");
        while server.ticks() < before + 3 {
            assert!(began.elapsed() < LONG, "{who} does not compute");
            thread::sleep(Duration::from_millis(1));
        }
        drop(server.child.stdin.take());
        let text = ask(&mut stream, "", "computed");
        assert!(text.starts_with("HTTP/1.1 200 "), "{who}: {text}");
        assert!(server.ends(), "{who}");
    }
}

#[test]
fn both_versions_of_http_are_spoken_on_one_port() {
    // The preface, and settings without any; the answer begins with settings of its own.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for who in WHOLE {
        let server = Server::start(who, &[]);
        let mut stream = server.connect();
        stream.write_all(PREFACE).expect("it reads");
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("it answers");
        assert_eq!(head[3], 4, "{who}: {head:?}");
    }
}

#[test]
fn idle_connections_are_held_and_closed() {
    let server = Server::start("raw-epoll", &[]);
    let held_by = |_| {
        let mut stream = server.connect();
        ask(&mut stream, &get("/healthz"), "ok");
        stream
    };
    let all: Vec<_> = (0..200).map(held_by).collect();
    let held = descriptors(&server);
    assert!(held >= 200, "{held}");
    drop(all);
    let began = Instant::now();
    while descriptors(&server) > held - 200 {
        assert!(began.elapsed() < LONG, "they are never closed");
        thread::sleep(Duration::from_millis(5));
    }
}

fn descriptors(server: &Server) -> usize {
    let folder = format!("/proc/{}/fd", server.child.id());
    std::fs::read_dir(folder).expect("it runs").count()
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8")
}

#[test]
fn wrong_options_are_clear_errors() {
    let serve = ["lab-server", "http", "--who"];
    let cases: [(&[&str], &str); 6] = [
        (&["tokio", "--compute-slices", "0"], "1.."),
        (
            &["nobody"],
            "tokio, tokio-bare, two-tokios, doorbell, doorbell-urgent-connections, doorbell-urgent-hello",
        ),
        (&["tokio", "--listen", "here"], "invalid socket address"),
        (
            &["tokio", "--listen", "192.0.2.1:0"],
            "listening for connections: ",
        ),
        (&["tokio", "--seconds-max", "0"], "1..=3600"),
        (&["tokio", "--unknown"], "unexpected argument"),
    ];
    for (arguments, part) in cases {
        let output = run(&[&serve[..], arguments].concat());
        assert!(!output.status.success(), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(
            error.contains(part),
            "{arguments:?} does not say {part}: {error}"
        );
    }
    let output = run(&["lab", "http", "--rounds", "0"]);
    assert!(!output.status.success());
}

#[test]
fn without_wrk_it_says_where_to_get_it() {
    let mut command = program();
    command
        .args(["lab", "http", "--quick"])
        .env("PATH", "/nowhere");
    let output = command.output().expect("it starts");
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(error.contains("apt-get install wrk"), "{error}");
}

/// The rows of a quick round; none where `wrk` or a second CPU is missing.
fn rows(only: &str) -> Vec<Value> {
    let quick = [
        "lab", "http", "--quick", "--rounds", "1", "--json", "--only",
    ];
    let output = run(&[&quick[..], &[only]].concat());
    let error = text(&output.stderr);
    if error.contains("needs 2 CPUs") || error.contains("apt-get install wrk") {
        eprintln!("not tested here: {error}");
        return Vec::new();
    }
    assert!(output.status.success(), "{error}");
    assert_eq!(error, "", "nothing else is said");
    let json: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(json["scenario"], "http");
    json["rows"].as_array().expect("rows are a list").clone()
}

/// Each row has these metrics, above zero.
fn assert_metrics(rows: &[Value], metrics: &[&str]) {
    for row in rows {
        for name in metrics {
            let value = row["metrics"][name].as_f64();
            assert!(value.is_some_and(|value| value > 0.0), "{name} of {row}");
        }
    }
}

#[test]
fn greetings_are_compared_with_tokio() {
    let rows = rows("two doorbell runtimes (hello, bound, one client");
    if rows.is_empty() {
        return;
    }
    let names: Vec<_> = rows.iter().map(|row| &row["contestant"]).collect();
    assert_eq!(names, ["tokio", "two doorbell runtimes"]);
    assert_metrics(
        &rows,
        &["rate_per_s", "p99_us", "server_cpu_us_per_op", "ratio_x"],
    );
    // Only doorbell says them.
    let counts = rows.iter().map(|row| row["metrics"].get("rings_per_op"));
    assert_eq!(
        counts.map(|it| it.is_some()).collect::<Vec<_>>(),
        [false, true]
    );
    for row in &rows {
        assert_eq!(row["metrics"]["errors_count"], 0.0, "{row}");
    }
}

#[test]
fn a_probe_looks_while_it_computes() {
    let rows = rows("tokio (computing, probe on new");
    if rows.is_empty() {
        return;
    }
    assert_eq!(rows.len(), 1);
    assert_metrics(&rows, &["rate_per_s", "p50_us", "max_us", "probes_count"]);
    // One is due every 10 ms, for half a second; those without an answer are errors.
    let metrics = &rows[0]["metrics"];
    let [probes, errors] = ["probes_count", "errors_count"].map(|name| metrics[name].as_f64());
    assert!(probes <= Some(50.0), "{metrics}");
    assert!(
        probes
            .zip(errors)
            .is_some_and(|(probes, errors)| probes + errors >= 50.0)
    );
}

#[test]
fn what_one_client_costs_at_a_fixed_rate_is_measured() {
    let rows = rows("tokio (one connection, 1,000");
    if rows.is_empty() {
        return;
    }
    assert_eq!(rows.len(), 1);
    assert_metrics(&rows, &["p50_us", "server_cpu_us_per_op"]);
    let metrics = &rows[0]["metrics"];
    // A server whose client is behind, since others have the CPUs, always finds a request, and need not sleep. Here half of
    // the answers come before the next request is due, so it sleeps before at least a tenth of the requests.
    let is_in_time = metrics["p50_us"].as_f64() < Some(1_000.0);
    let sleeps = metrics["switches_per_op"].as_f64();
    let least = if is_in_time { 0.1 } else { 0.0 };
    assert!(sleeps >= Some(least), "{metrics}");
}

#[test]
fn idle_connections_cost_memory_and_nothing_is_left() {
    let rows = rows("raw epoll (idle");
    if rows.is_empty() {
        return;
    }
    assert_metrics(&rows, &["connections_count", "rss_per_connection_bytes"]);
    for row in &rows {
        assert_eq!(row["metrics"]["fds_left_count"], 0.0, "{row}");
        assert!(row["metrics"]["idle_wakeups_per_s"].is_number(), "{row}");
    }
}
