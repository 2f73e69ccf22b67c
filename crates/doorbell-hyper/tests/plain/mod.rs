//! A minimal HTTP/1.1 client on the standard library's sockets, and servers for it.

#![allow(dead_code, reason = "each test takes what it needs")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

pub(crate) mod site;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long anything may take before it counts as hung.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Gives each test of a binary the process for itself. If one has failed, the others still run.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Why no answer came.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The connection ended before the first byte.
    Unbegun(io::Error),
    /// It ended in the middle.
    Truncated(io::Error),
}

/// A connection for one request after another.
#[derive(Debug)]
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn try_to(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LONG))?;
        stream.set_write_timeout(Some(LONG))?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    pub(crate) fn to(address: SocketAddr) -> Client {
        Client::try_to(address).unwrap()
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.0.get_ref()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<()> {
        self.write(request(path).as_bytes())
    }

    pub(crate) fn ask(&mut self, path: &str) -> Result<Answer, Lost> {
        self.get(path).map_err(Lost::Unbegun)?;
        self.answer()
    }

    /// Reads exactly one answer. A truncated answer is an error.
    pub(crate) fn answer(&mut self) -> Result<Answer, Lost> {
        match self.0.fill_buf() {
            Ok([]) => return Err(Lost::Unbegun(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) => return Err(Lost::Unbegun(error)),
        }
        self.rest_of_answer().map_err(Lost::Truncated)
    }

    fn rest_of_answer(&mut self) -> io::Result<Answer> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {first:?}"));
        let mut body = Vec::new();
        let mut length = None;
        let mut chunked = false;
        loop {
            let line = self.line()?.to_lowercase();
            if line.is_empty() {
                break;
            }
            chunked |= line == "transfer-encoding: chunked";
            if let Some(number) = line.strip_prefix("content-length: ") {
                length = Some(number.parse::<usize>().unwrap());
            }
        }
        if !chunked {
            body.resize(length.expect("a length"), 0);
            self.0.read_exact(&mut body)?;
            return Ok(Answer { status, body });
        }
        loop {
            let size = usize::from_str_radix(&self.line()?, 16).unwrap();
            let before = body.len();
            body.resize(before + size, 0);
            self.0.read_exact(&mut body[before..])?;
            assert_eq!(self.line()?, "", "behind a chunk");
            if size == 0 {
                return Ok(Answer { status, body });
            }
        }
    }

    /// A line without its line end, which must be there.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Waits until the server closes it without another byte.
    pub(crate) fn assert_closed(&mut self) {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}"),
        }
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }

    /// Resets it: with a linger time of zero, closing sends a reset.
    pub(crate) fn reset(self) {
        rustix::net::sockopt::set_socket_linger(self.stream(), Some(Duration::ZERO)).unwrap();
    }
}

/// A request without a body.
pub(crate) fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n")
}

/// The resources of the process: descriptors of each kind, and threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Has {
    pub(crate) sockets: usize,
    pub(crate) polls: usize,
    pub(crate) events: usize,
    pub(crate) others: usize,
    pub(crate) threads: usize,
}

impl Has {
    /// Whether the descriptors are the same. In a binary with several tests the harness's threads come and
    /// go.
    pub(crate) fn is_but_threads(&self, other: &Has) -> bool {
        let threads = other.threads;
        *other
            == Has {
                threads,
                ..self.clone()
            }
    }

    pub(crate) fn now() -> Has {
        let mut kinds = BTreeMap::new();
        for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
            // One may have been closed since it was listed.
            let Ok(target) = std::fs::read_link(entry.unwrap().path()) else {
                continue;
            };
            let kind = match target.display().to_string() {
                it if it.starts_with("socket:") => "socket",
                it if it == "anon_inode:[eventpoll]" => "poll",
                it if it == "anon_inode:[eventfd]" => "event",
                _ => "other",
            };
            *kinds.entry(kind).or_insert(0) += 1;
        }
        let of = |kind| kinds.get(kind).copied().unwrap_or(0);
        Has {
            sockets: of("socket"),
            polls: of("poll"),
            events: of("event"),
            others: of("other"),
            threads: std::fs::read_dir("/proc/self/task").unwrap().count(),
        }
    }

    /// Waits until the condition holds: resources of what has ended disappear a moment later.
    pub(crate) fn wait_for(is_it: impl Fn(&Has) -> bool, when: &str) -> Has {
        let start = Instant::now();
        loop {
            let now = Has::now();
            if is_it(&now) {
                return now;
            }
            assert!(start.elapsed() < LONG, "{when}: it has {now:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
