//! The clients: requests by hand, a probe, `wrk`, and processes of this program.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Error, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Deserialize;

use super::servers::{COMPUTATIONS, COUNTS};
use crate::frame::Outcome;
use crate::measure::{Process, Samples, SyscallCounter, SyscallSource, is_enough};
use crate::peers::{Want, join, join_all, sleep_until, thread_on};

pub(crate) const NO_WRK: &str =
    "`wrk`, which sends requests to the servers, cannot be started: `apt-get install wrk`";
const ANSWER_MAX: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 4_096;
/// The probe's threads take turns.
const PROBES: u32 = 32;
/// A probe that could not be sent by then counts as an error.
pub(super) const GRACE: Duration = Duration::from_secs(3);
/// A child ends within this, and is looked at so often.
const END_MAX: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);
/// Descriptors of a process that are no connections.
const SPARE: u64 = 64;
/// Time before and after idle connections are looked at, and for a server to close them.
const SETTLES: Duration = Duration::from_millis(300);
const CLOSES_MAX: Duration = Duration::from_secs(5);

/// A connection to a server, with timeouts.
pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    Ok(stream)
}

/// One request, and its whole answer.
pub(crate) fn get(stream: &mut TcpStream, path: &str) -> io::Result<()> {
    body(stream, path).map(drop)
}

/// The body of an answer.
fn body(stream: &mut TcpStream, path: &str) -> io::Result<Vec<u8>> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let (mut bytes, mut filled) = ([0; ANSWER_BYTES_MAX], 0);
    loop {
        let count = stream.read(&mut bytes[filled..])?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        filled += count;
        if let Some(body) = body_of(&bytes[..filled])? {
            return Ok(body.to_vec());
        }
    }
}

/// The body, if it is a whole answer; an error if it is no success.
fn body_of(bytes: &[u8]) -> io::Result<Option<&[u8]>> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let status = response.parse(bytes).map_err(Error::other)?;
    let httparse::Status::Complete(head) = status else {
        return Ok(None);
    };
    if response.code != Some(200) {
        return Err(Error::other(format!("status {:?}", response.code)));
    }
    let mut headers = response.headers.iter();
    let length = headers.find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| str::from_utf8(header.value).ok()?.parse().ok());
    let length: usize = length.ok_or_else(|| Error::other("an answer without a length"))?;
    Ok(bytes.get(head..head + length))
}

/// Checks the health of a server while it computes.
///
/// A request is due every few ms, whether the last one was answered or not, so several threads take turns.
/// An answer's lateness counts from the time at which its request was due.
#[derive(Debug)]
pub(crate) struct Probe {
    threads: Vec<JoinHandle<(Samples, u64)>>,
}

impl Probe {
    pub(crate) fn start(
        address: SocketAddr,
        keeps: bool,
        period: Duration,
        delay: Duration,
        span: Duration,
    ) -> Result<Self> {
        let begin = Instant::now() + delay;
        let count = (span.as_nanos() / period.as_nanos()) as u32;
        let look = |first: u32| {
            let dues = (first..count).step_by(PROBES as usize);
            let dues = dues.map(move |number| begin + period * number);
            thread_on("http-probe", None, move || look(address, keeps, dues))
        };
        let threads: Result<_> = (0..PROBES).map(look).collect();
        Ok(Self { threads: threads? })
    }

    /// The latenesses, and the number of errors.
    pub(crate) fn finish(self) -> Result<(Samples, u64)> {
        let found = join_all(self.threads)?;
        let late = Samples::of_all(found.iter().map(|(late, _)| late));
        Ok((late, found.iter().map(|(_, errors)| errors).sum()))
    }
}

/// One kept connection that greets so often: how late the answers are, and what a request costs the server.
pub(super) fn fixed_rate(site: &Site, per_s: u32, seconds: u32) -> Result<Outcome> {
    let (address, process) = (site.address, site.process());
    let mut stream = connect(address).context("connecting")?;
    let (cpu, switches) = (process.cpu()?, process.switches()?);
    let client = move || {
        let begin = Instant::now();
        let due = |number| begin + Duration::from_secs(1) * number / per_s;
        ask_when_due((0..per_s * seconds).map(due), || get(&mut stream, "/"))
    };
    let (late, errors) = join(thread_on("http-probe", None, client)?)?;
    let [switches, _] = process.switches()?.since(&switches);
    let cpu_us = process.cpu()?.saturating_sub(cpu).as_secs_f64() * 1e6;
    let requests = f64::from((per_s * seconds).max(1));
    let figures = [
        ("switches_per_op", switches as f64 / requests),
        ("server_cpu_us_per_op", cpu_us / requests),
        ("errors_count", errors as f64),
    ];
    Ok(Outcome::of(requests as u64, figures).late(late))
}

/// Asks each time that it is due. The latenesses of the answers, and the number of errors.
fn ask_when_due(
    dues: impl Iterator<Item = Instant>,
    mut ask: impl FnMut() -> io::Result<()>,
) -> (Samples, u64) {
    Want::Waker.ask();
    let (mut late, mut errors) = (Samples::default(), 0);
    for due in dues {
        sleep_until(due);
        if due.elapsed() < GRACE && ask().is_ok() {
            late.record(due.elapsed().as_nanos() as u64);
        } else {
            errors += 1;
        }
    }
    (late, errors)
}

fn look(address: SocketAddr, keeps: bool, dues: impl Iterator<Item = Instant>) -> (Samples, u64) {
    // The time to accept it is not measured.
    let mut kept = keeps.then(|| ask(address, None).ok()).flatten();
    ask_when_due(dues, || {
        let stream = ask(address, kept.take())?;
        kept = keeps.then_some(stream);
        Ok(())
    })
}

fn ask(address: SocketAddr, kept: Option<TcpStream>) -> io::Result<TcpStream> {
    let mut stream = kept.map_or_else(|| connect(address), Ok)?;
    get(&mut stream, "/healthz")?;
    Ok(stream)
}

/// A server, which is a process of this program.
#[derive(Debug)]
pub(crate) struct Site {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Site {
    pub(crate) fn start(who: &str, steps: u64, more: &[String]) -> Result<Self> {
        let failed = "starting a server";
        let mut child = Command::new(std::env::current_exe().context(failed)?)
            .args(["lab-server", "http", &format!("--who={who}")])
            .arg(format!("--compute-steps={steps}"))
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context(failed)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.context(failed)?;
        }
        // A server that cannot start says why on standard error, and says no address.
        let address = line.trim().parse();
        let address = address.context("reading where the server listens")?;
        Ok(Self { child, address })
    }

    pub(crate) fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let began = Instant::now();
        while began.elapsed() < END_MAX {
            match self.child.try_wait().context("waiting for a server")? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("a server ended with {status}"),
                None => thread::sleep(LOOK),
            }
        }
        bail!("a server did not end in {END_MAX:?}")
    }

    pub(super) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Requests each route once.
    pub(super) fn touch(&self) -> Result<()> {
        let mut routes = ["/", "/compute", "/healthz"].into_iter();
        let touched = connect(self.address)
            .and_then(|mut stream| routes.try_for_each(|path| get(&mut stream, path)));
        touched.context("asking the server")
    }

    /// The figures of the computations since the last question, by the server's clock; none from a server that does not
    /// know.
    pub(super) fn computations(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let names = ["polls_p99_us", "polls_max_us"];
        names.into_iter().zip(self.figures(COMPUTATIONS))
    }

    /// The rings and the stolen tasks of doorbell so far; `None` from a server that does not know.
    pub(super) fn counts(&self) -> Option<[f64; 2]> {
        self.figures(COUNTS).try_into().ok()
    }

    /// The numbers in an answer; none if there is none.
    fn figures(&self, path: &str) -> Vec<f64> {
        let body = connect(self.address).and_then(|mut stream| body(&mut stream, path));
        let body = String::from_utf8(body.unwrap_or_default()).unwrap_or_default();
        body.split(' ').filter_map(|one| one.parse().ok()).collect()
    }

    /// Starts `wrk` with so many threads and connections.
    pub(super) fn wrk(
        &self,
        path: &str,
        [threads, connections]: [u32; 2],
        seconds: u32,
    ) -> Result<Wrk> {
        // Each thread of it opens the script anew.
        let written = memfd_create("wrk.lua", MemfdFlags::empty()).map(File::from);
        let written = written.map_err(Error::from).and_then(|mut file| {
            file.write_all(include_bytes!("wrk.lua"))?;
            Ok(file)
        });
        let script = written.context("writing the script of wrk")?;
        let child = Command::new("wrk")
            .arg(format!("-s/proc/self/fd/{}", script.as_raw_fd()))
            .arg(format!("-t{threads}"))
            .arg(format!("-c{connections}"))
            .arg(format!("-d{seconds}s"))
            .arg(format!("http://{}{path}", self.address))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        child.map(Wrk).context(NO_WRK)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Both calls fail if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Counts how often the threads of a server ask for events; `None` where that cannot be counted.
pub(super) fn counters_of_polls(process: Process) -> Option<Vec<SyscallCounter>> {
    let sources = SyscallSource::of_polls()?;
    let threads = process.switches().ok()?.threads();
    let all = threads.iter().flat_map(|thread| {
        let open = |source: &SyscallSource| source.open_for(*thread);
        sources.iter().map(open)
    });
    all.collect::<Result<_, _>>().ok()
}

/// What idle connections cost a server.
pub(super) fn idle(site: &Site, connections: u64, seconds: u32) -> Result<Outcome> {
    let process = site.process();
    let (rss_before, fds_before) = (process.resident_bytes()?, process.descriptors()?);
    let open = |_| {
        let mut stream = connect(site.address)?;
        get(&mut stream, "/healthz").map(|()| stream)
    };
    let held: io::Result<Vec<_>> = (0..connections).map(open).collect();
    let held = held.context("opening a connection that is to be idle")?;
    thread::sleep(SETTLES);
    let (began, switches) = (Instant::now(), process.switches()?);
    thread::sleep(Duration::from_secs(seconds.into()));
    let [switches, _] = process.switches()?.since(&switches);
    let span_s = began.elapsed().as_secs_f64();
    let rss = process.resident_bytes()?;
    drop(held);
    let fds_left = descriptors_left(process, fds_before)?;
    let rss_left = process.resident_bytes()?;
    let more = |now: u64| (now as f64 - rss_before as f64).max(0.0);
    let per_connection = |now: u64| more(now) / connections.max(1) as f64;
    let figures = [
        ("connections_count", connections as f64),
        ("idle_wakeups_per_s", switches as f64 / span_s),
        ("rss_per_connection_bytes", per_connection(rss)),
        ("fds_left_count", fds_left as f64),
        ("rss_left_per_connection_bytes", per_connection(rss_left)),
    ];
    Ok(Outcome::of(connections, figures))
}

fn descriptors_left(process: Process, before: usize) -> Result<usize> {
    let began = Instant::now();
    loop {
        let left = process.descriptors()?.saturating_sub(before);
        if left == 0 || began.elapsed() > CLOSES_MAX {
            // The owners of the last descriptors also free their memory.
            thread::sleep(SETTLES);
            return Ok(left);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// In a child: waits until standard input ends, or for `most`.
pub(super) fn wait_for_end(most: Duration) -> Result<()> {
    let (ended, end) = channel();
    thread_on("http-end", None, move || {
        let read = io::copy(&mut io::stdin(), &mut io::sink());
        // The receiver is gone only when the time is over.
        let _ = ended.send(read.map(drop));
    })?;
    let ended = end.recv_timeout(most).unwrap_or(Ok(()));
    ended.context("waiting for the end of standard input")
}

/// Raises this process's limit of descriptors to what is allowed.
pub(super) fn allow_descriptors() -> Result<()> {
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    let refused = "raising the limit of open descriptors to what is allowed";
    setrlimit(Resource::Nofile, wanted).context(refused)
}

/// So many, or as many as a process may have.
pub(super) fn connections_of(wanted: u64) -> u64 {
    let most = getrlimit(Resource::Nofile).maximum;
    most.map_or(wanted, |most| wanted.min(most.saturating_sub(SPARE)))
}

/// The client `wrk`.
#[derive(Debug)]
pub(super) struct Wrk(Child);

/// What its script reports.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(super) struct Finding {
    pub(super) requests: u64,
    pub(super) per_s: f64,
    p50_us: f64,
    p99_us: f64,
    /// Failures of sockets, and answers that are no success.
    pub(super) errors: u64,
}

impl Finding {
    /// Those for which there are enough answers.
    pub(super) fn percentiles(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        let all = [("p50_us", 50.0, self.p50_us), ("p99_us", 99.0, self.p99_us)];
        let requests = self.requests as usize;
        let all = all.into_iter();
        let enough = all.filter(move |(_, percent, _)| is_enough(requests, *percent));
        enough.map(|(name, _, us)| (name, us))
    }
}

/// An error if `wrk` is not installed.
pub(super) fn look_for_wrk() -> Result<()> {
    // It prints its version but exits with an error.
    let tried = Command::new("wrk").arg("--version").output();
    tried.map(drop).context(NO_WRK)
}

impl Wrk {
    pub(super) fn finish(self) -> Result<Finding> {
        let output = self.0.wait_with_output();
        let output = output.context("waiting for wrk")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let report = said.lines().last().unwrap_or_default();
        let found = serde_json::from_str(report).ok();
        let found = found.filter(|_| output.status.success());
        found.with_context(|| {
            let more = String::from_utf8_lossy(&output.stderr);
            format!("wrk failed, or its output is not understood:\n{said}{more}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_answers_have_no_p99() {
        let names = |requests| {
            let finding = Finding {
                requests,
                per_s: 578.56,
                p50_us: 896.0,
                p99_us: 33_360.0,
                errors: 0,
            };
            let names = finding.percentiles().map(|(name, _)| name);
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(637), ["p50_us"]);
        assert_eq!(names(1_000), ["p50_us", "p99_us"]);
        assert!(names(19).is_empty());
    }
}

#[cfg(test)]
mod exchange_tests {
    use super::body_of;

    #[test]
    fn an_answer_is_whole_with_its_last_byte() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        for end in 0..text.len() {
            let body = body_of(&text[..end]).expect("it may still come");
            assert_eq!(body, None, "{end}");
        }
        let body = body_of(text).expect("it is right");
        assert_eq!(body, Some(b"ok".as_slice()));
        assert!(body_of(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").is_err());
        assert!(body_of(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
