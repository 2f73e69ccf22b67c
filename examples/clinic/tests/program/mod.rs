//! The program as a process, and a minimal HTTP/1.1 client.

#![allow(dead_code, reason = "each test takes what it needs")]

use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_mins(1);

/// The program's command, without arguments.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clinic"));
    command.stdin(Stdio::null());
    command
}

/// A running clinic, killed if it is dropped.
pub(crate) struct Clinic {
    child: Child,
    address: SocketAddr,
    out: BufReader<ChildStdout>,
}

impl Clinic {
    /// Starts it on a free port.
    pub(crate) fn start() -> Clinic {
        Self::with(&[])
    }

    /// Starts one that stays, after everything has ended, until it is waited for.
    pub(crate) fn lingering() -> Clinic {
        Self::with(&["--linger"])
    }

    pub(crate) fn with(more: &[&str]) -> Clinic {
        let mut child = command()
            .args(["--listen", "127.0.0.1:0", "--cores", "2"])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if more.contains(&"--log") {
                Stdio::piped()
            } else {
                Stdio::inherit()
            })
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut clinic = Clinic {
            child,
            address: SocketAddr::from(([0; 4], 0)),
            out,
        };
        clinic.address = clinic.listens("http://").parse().unwrap();
        clinic
    }

    /// Where it says in its next line that it listens.
    pub(crate) fn listens(&mut self, scheme: &str) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ");
        let address = address.and_then(|it| it.strip_prefix(scheme));
        let address = address.unwrap_or_else(|| panic!("it said {line:?}"));
        address.to_owned()
    }

    /// Ends it by a signal, and returns what it has logged.
    pub(crate) fn logged(mut self) -> String {
        self.signal(Signal::TERM);
        let mut log = String::new();
        let mut errors = self.child.stderr.take().unwrap();
        errors.read_to_string(&mut log).unwrap();
        self.wait();
        log
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn stop(self, signal: Signal) {
        self.signal(signal);
        self.wait();
    }

    /// Lets it go, and waits for a successful end.
    pub(crate) fn wait(self) {
        self.ends_with(0);
    }

    /// Lets it go, and waits for an end with this code.
    pub(crate) fn ends_with(mut self, code: i32) {
        drop(self.child.stdin.take());
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < LONG, "it does not end");
            thread::sleep(Duration::from_millis(2));
        };
        assert_eq!(status.code(), Some(code), "{status}");
    }

    /// Its sockets and pollers. Files and pipes may be inherited from the test's parent.
    pub(crate) fn descriptors(&self) -> Vec<String> {
        let folder = format!("/proc/{}/fd", self.child.id());
        let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
        // One may have been closed since it was listed.
        entries
            .filter_map(|it| std::fs::read_link(it.path()).ok())
            .map(|target| target.display().to_string())
            .filter(|target| target.starts_with("socket:") || target.starts_with("anon_inode:"))
            .collect()
    }

    /// Waits until a lingering one has closed every socket and poller, and has only its first thread left.
    pub(crate) fn assert_all_is_closed(&self) {
        let start = Instant::now();
        let threads = || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
            tasks.unwrap().count()
        };
        loop {
            let open = self.descriptors();
            if open.is_empty() && threads() == 1 {
                return;
            }
            let threads = threads();
            assert!(start.elapsed() < LONG, "{threads} threads, {open:?} open");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Clinic {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// A connection for one request after another.
pub(crate) struct Stream<S = TcpStream>(BufReader<S>);

impl Stream {
    pub(crate) fn to(clinic: &Clinic) -> Stream {
        let stream = TcpStream::connect(clinic.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Stream::over(stream)
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.0.get_ref().local_addr().unwrap()
    }

    /// Whether unread bytes have come.
    pub(crate) fn has_something(&self) -> bool {
        let stream = self.0.get_ref();
        stream.set_nonblocking(true).unwrap();
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false).unwrap();
        !matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl<S: Read + Write> Stream<S> {
    pub(crate) fn over(stream: S) -> Stream<S> {
        Stream(BufReader::new(stream))
    }

    pub(crate) fn ask(&mut self, path: &str) -> io::Result<Answer> {
        self.send(path)?;
        self.answer()
    }

    pub(crate) fn send(&mut self, path: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: clinic\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes())
    }

    /// Reads exactly one answer.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line == "\r\n" {
                break;
            }
            head.push(line.trim_end().to_lowercase());
        }
        let status = head[0].split(' ').nth(1).unwrap().parse().unwrap();
        let length = head
            .iter()
            .find_map(|it| it.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |it| it.parse().unwrap())];
        self.0.read_exact(&mut body)?;
        let body = String::from_utf8(body).unwrap();
        Ok(Answer { status, body })
    }

    /// Waits until the server closes the connection.
    pub(crate) fn assert_closed(&mut self) {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest)),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}"),
        }
    }
}

/// Makes one request on a new connection.
pub(crate) fn ask(clinic: &Clinic, path: &str) -> Answer {
    Stream::to(clinic).ask(path).unwrap()
}

/// The sum of a count over all workers of a class.
pub(crate) fn sum(metrics: &str, name: &str, class: &str) -> u64 {
    let begin = format!("{name}{{class=\"{class}\"");
    let lines = metrics.lines().filter(|line| line.starts_with(&begin));
    let counts = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
    counts.sum()
}

/// Sets a flag when dropped, so that other threads also end when the test fails.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
