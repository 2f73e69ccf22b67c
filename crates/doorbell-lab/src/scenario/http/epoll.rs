//! A minimal server: one thread per core, epoll, and a few lines of HTTP.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};
use httparse::{EMPTY_HEADER, Request, Status};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::servers::{COMPUTED, Computation, End, HEALTHY, HELLO, Setup};
use crate::peers::thread_on;

/// The value that stands for the listener where connections have their descriptor.
const LISTENER: u64 = u64::MAX;
/// How many events are taken at once.
const EVENTS: usize = 256;
/// How many bytes are read at once.
const BUFFER: usize = 16_384;
/// A request with a longer head, or with more lines, is refused.
const HEAD_MAX: usize = 8_192;
const LINES_MAX: usize = 32;

/// Starts a thread for each listener.
pub(super) fn start(listeners: Vec<TcpListener>, setup: &Setup) -> Result<End> {
    for (place, listener) in listeners.into_iter().enumerate() {
        let worker = Worker::new(listener, setup.work);
        let mut worker = worker.context("starting a thread that serves")?;
        thread_on("raw-epoll", setup.workers.cpu(place), move || worker.run())?;
    }
    // The threads end with the process.
    Ok(Box::new(|| ()))
}

/// One connection.
struct Connection {
    stream: TcpStream,
    /// What was read and not answered.
    bytes: Vec<u8>,
}

/// One thread.
struct Worker {
    epoll: OwnedFd,
    listener: TcpListener,
    /// Indexed by descriptor.
    connections: Vec<Option<Connection>>,
    bytes: Vec<u8>,
    answers: Vec<u8>,
    work: Computation,
}

impl Worker {
    fn new(listener: TcpListener, work: Computation) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let data = EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            connections: Vec::new(),
            bytes: vec![0; BUFFER],
            answers: Vec::with_capacity(BUFFER),
            work,
        })
    }

    fn run(&mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        loop {
            // Without an event the wait ends only by a signal.
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), None);
            for event in events.drain(..) {
                let at = event.data.u64();
                if at == LISTENER {
                    self.accept();
                } else if self.serve(at as usize).is_err() {
                    // The descriptor leaves the set when it is closed.
                    self.connections[at as usize] = None;
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let at = stream.as_raw_fd() as usize;
            let data = EventData::new_u64(at as u64);
            let is_ready = stream.set_nonblocking(true).is_ok()
                && stream.set_nodelay(true).is_ok()
                && epoll::add(&self.epoll, &stream, data, EventFlags::IN).is_ok();
            if !is_ready {
                continue;
            }
            if self.connections.len() <= at {
                self.connections.resize_with(at + 1, || None);
            }
            self.connections[at] = Some(Connection {
                stream,
                bytes: Vec::new(),
            });
        }
    }

    /// Answers what has come on a connection. An error closes it.
    fn serve(&mut self, at: usize) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(at).and_then(Option::as_mut) else {
            // An earlier event of the same batch closed it.
            return Ok(());
        };
        match connection.stream.read(&mut self.bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => connection.bytes.extend_from_slice(&self.bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        self.answers.clear();
        let mut ends = false;
        while !ends && let Some((body, is_last)) = take(&mut connection.bytes)? {
            ends = is_last;
            if body == Some(COMPUTED) {
                self.work.run();
            }
            answer(body, &mut self.answers);
        }
        // All answers at once, to a client that takes them.
        let length = self.answers.len();
        if length > 0 && connection.stream.write(&self.answers)? < length {
            return Err(ErrorKind::WriteZero.into());
        }
        if ends {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

/// What is answered; `None` for an unknown route.
type Body = Option<&'static str>;

/// Takes the first request off `bytes`: its answer, and whether the client wants no further one. `None` if it is not
/// whole.
fn take(bytes: &mut Vec<u8>) -> io::Result<Option<(Body, bool)>> {
    let mut headers = [EMPTY_HEADER; LINES_MAX];
    let mut request = Request::new(&mut headers);
    let status = request.parse(bytes).map_err(io::Error::other)?;
    let Status::Complete(length) = status else {
        if bytes.len() > HEAD_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        return Ok(None);
    };
    let body = match (request.method, request.path) {
        (Some("GET"), Some("/")) => Some(HELLO),
        (Some("GET"), Some("/compute")) => Some(COMPUTED),
        (Some("GET"), Some("/healthz")) => Some(HEALTHY),
        (Some("GET"), _) => None,
        _ => return Err(ErrorKind::InvalidData.into()),
    };
    let ends = request.headers.iter().any(|header| {
        let is_connection = header.name.eq_ignore_ascii_case("connection");
        is_connection && header.value.eq_ignore_ascii_case(b"close")
    });
    bytes.drain(..length);
    Ok(Some((body, ends)))
}

/// Appends an answer.
fn answer(body: Body, answers: &mut Vec<u8>) {
    let status = body.map_or("404 Not Found", |_| "200 OK");
    let body = body.unwrap_or_default();
    let length = body.len();
    // Writing to memory does not fail.
    let _ = write!(
        answers,
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{body}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bytes: &mut Vec<u8>, more: &str) -> Option<(Body, bool)> {
        bytes.extend_from_slice(more.as_bytes());
        take(bytes).expect("it is a request")
    }

    #[test]
    fn a_request_in_pieces_is_taken_when_it_is_whole() {
        let mut bytes = Vec::new();
        assert_eq!(taken(&mut bytes, "GET / HT"), None);
        assert_eq!(taken(&mut bytes, "TP/1.1\r\n\r"), None);
        assert_eq!(taken(&mut bytes, "\nGET"), Some((Some(HELLO), false)));
        let next = taken(&mut bytes, " /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(next, Some((Some(HEALTHY), false)));
        assert!(bytes.is_empty());
    }

    #[test]
    fn requests_that_come_together_are_taken_in_turn() {
        let mut bytes = Vec::new();
        let two = "GET /compute HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\nconnection: Close\r\n\r\n";
        assert_eq!(taken(&mut bytes, two), Some((Some(COMPUTED), false)));
        assert_eq!(taken(&mut bytes, ""), Some((None, true)));
        assert_eq!(taken(&mut bytes, ""), None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in ["PUT / HTTP/1.1\r\n\r\n", "\u{1}", &"x".repeat(HEAD_MAX + 1)] {
            assert!(take(&mut text.as_bytes().to_vec()).is_err(), "{text}");
        }
    }

    #[test]
    fn an_answer_says_its_length() {
        let text = |body| {
            let mut answers = Vec::new();
            answer(body, &mut answers);
            String::from_utf8(answers).expect("it is text")
        };
        let hello = text(Some(HELLO));
        assert!(hello.starts_with("HTTP/1.1 200 OK\r\n"), "{hello}");
        assert!(
            hello.ends_with("content-length: 12\r\n\r\nhello, world"),
            "{hello}"
        );
        assert!(text(None).ends_with("content-length: 0\r\n\r\n"));
    }
}
