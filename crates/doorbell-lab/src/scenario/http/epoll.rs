//! A minimal server: one thread per core, epoll, and a few lines of HTTP. Its answers of `/compute` are computed there, or
//! by a pool of threads.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::servers::{COMPUTED, Computation, HEALTHY, HELLO, Running, WORKERS};
use crate::error::LabError;
use crate::peers::{Want, thread_on};

/// The value that stands for the listener where connections have their descriptor.
const LISTENER: u64 = u64::MAX;
/// How many events are taken at once.
const EVENTS: usize = 256;
/// How many bytes are read at once.
const BUFFER: usize = 16_384;

/// Starts a thread for each listener, and if it is to be the pool.
pub(super) fn start(
    listeners: Vec<TcpListener>,
    work: Computation,
    has_pool: bool,
) -> Result<Running, LabError> {
    let pool = has_pool.then(|| start_pool(work)).transpose()?;
    for listener in listeners {
        let worker = Worker::new(listener, work, pool.clone());
        let mut worker = worker.map_err(LabError::system("starting a thread that serves"))?;
        thread_on("raw-epoll", None, move || worker.run())?;
    }
    // The threads end with the process.
    Ok(Running::default())
}

/// One connection.
struct Connection {
    stream: Arc<TcpStream>,
    talk: Conversation,
    /// Whether the pool has it. Until its answer is written, nothing is read.
    waits: bool,
}

/// Whether a connection stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
enum Fate {
    Stays,
    Goes,
}

/// One thread.
struct Worker {
    epoll: Arc<OwnedFd>,
    listener: TcpListener,
    /// Indexed by descriptor.
    connections: Vec<Option<Connection>>,
    bytes: Vec<u8>,
    answers: Vec<u8>,
    work: Computation,
    pool: Option<Sender<Job>>,
}

impl Worker {
    fn new(
        listener: TcpListener,
        work: Computation,
        pool: Option<Sender<Job>>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let data = EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, EventFlags::IN)?;
        Ok(Self {
            epoll: Arc::new(epoll),
            listener,
            connections: Vec::new(),
            bytes: vec![0; BUFFER],
            answers: Vec::with_capacity(BUFFER),
            work,
            pool,
        })
    }

    fn run(&mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        loop {
            // Without an event the wait ends only by a signal.
            let _ = epoll::wait(&*self.epoll, spare_capacity(&mut events), None);
            for event in events.drain(..) {
                let (flags, data) = (event.flags, event.data.u64());
                if data == LISTENER {
                    self.accept();
                } else if self.serve(data as usize, flags) == Fate::Goes {
                    self.close(data as usize);
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
                && epoll::add(&*self.epoll, &stream, data, EventFlags::IN).is_ok();
            if !is_ready {
                continue;
            }
            if self.connections.len() <= at {
                self.connections.resize_with(at + 1, || None);
            }
            self.connections[at] = Some(Connection {
                stream: Arc::new(stream),
                talk: Conversation::default(),
                waits: false,
            });
        }
    }

    /// Answers what has come on a connection.
    fn serve(&mut self, at: usize, flags: EventFlags) -> Fate {
        let Some(connection) = self.connections.get_mut(at).and_then(Option::as_mut) else {
            // An earlier event of the same batch closed it.
            return Fate::Stays;
        };
        if !connection.waits {
            return match (&*connection.stream).read(&mut self.bytes) {
                Ok(0) => Fate::Goes,
                Ok(count) => self.answer(at, count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Fate::Stays,
                Err(_) => Fate::Goes,
            };
        }
        if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
            return Fate::Goes;
        }
        // The pool has answered.
        connection.waits = false;
        if self.listen_to(at, EventFlags::IN).is_err() {
            return Fate::Goes;
        }
        self.answer(at, 0)
    }

    /// Answers the first `count` bytes, and what was left over before.
    fn answer(&mut self, at: usize, count: usize) -> Fate {
        let mut count = count;
        self.answers.clear();
        loop {
            let Some(connection) = self.connections[at].as_mut() else {
                return Fate::Goes;
            };
            let step = connection
                .talk
                .take(&self.bytes[..count], &mut self.answers);
            count = 0;
            match step {
                Step::Compute if self.pool.is_none() => {
                    self.work.run();
                    answer(Route::Compute, &mut self.answers);
                }
                Step::Compute => {
                    return match self.send(at) {
                        Fate::Stays => self.hand_over(at),
                        Fate::Goes => Fate::Goes,
                    };
                }
                Step::Read => return self.send(at),
                Step::Close => {
                    // The connection is closed in any case, even if this answer does not arrive.
                    let _ = self.send(at);
                    return Fate::Goes;
                }
            }
        }
    }

    /// Sends all answers at once. Closes the connection if the client does not take them.
    fn send(&mut self, at: usize) -> Fate {
        let Some(connection) = self.connections[at].as_ref() else {
            return Fate::Goes;
        };
        if self.answers.is_empty() {
            return Fate::Stays;
        }
        let sent = (&*connection.stream).write(&self.answers);
        if matches!(sent, Ok(count) if count == self.answers.len()) {
            Fate::Stays
        } else {
            Fate::Goes
        }
    }

    /// Hands a connection to the pool.
    fn hand_over(&mut self, at: usize) -> Fate {
        if self.listen_to(at, EventFlags::empty()).is_err() {
            return Fate::Goes;
        }
        let (Some(pool), Some(connection)) = (&self.pool, self.connections[at].as_mut()) else {
            return Fate::Goes;
        };
        connection.waits = true;
        let job = Job {
            stream: Arc::clone(&connection.stream),
            epoll: Arc::clone(&self.epoll),
        };
        if pool.send(job).is_ok() {
            Fate::Stays
        } else {
            Fate::Goes
        }
    }

    fn listen_to(&self, at: usize, flags: EventFlags) -> io::Result<()> {
        let Some(connection) = &self.connections[at] else {
            return Ok(());
        };
        let data = EventData::new_u64(at as u64);
        Ok(epoll::modify(
            &*self.epoll,
            connection.stream.as_fd(),
            data,
            flags,
        )?)
    }

    fn close(&mut self, at: usize) {
        if let Some(connection) = self.connections[at].take() {
            // The pool may hold it for a while, which would keep it in the epoll set.
            let _ = epoll::delete(&*self.epoll, connection.stream.as_fd());
        }
    }
}

/// A connection that waits for a computation. Its serving thread gets no events of it meanwhile.
#[derive(Debug)]
struct Job {
    stream: Arc<TcpStream>,
    epoll: Arc<OwnedFd>,
}

/// Threads under `SCHED_IDLE` that compute, and send the answers themselves.
fn start_pool(work: Computation) -> Result<Sender<Job>, LabError> {
    let (sender, jobs) = unbounded();
    for _ in 0..WORKERS {
        let jobs = jobs.clone();
        thread_on("idle-class", None, move || follow(&jobs, work))?;
    }
    Ok(sender)
}

fn follow(jobs: &Receiver<Job>, work: Computation) {
    Want::Idle.ask();
    let mut text = Vec::new();
    answer(Route::Compute, &mut text);
    for job in jobs {
        work.run();
        // A client that does not take the answer is gone, or its connection is closed.
        if !matches!((&*job.stream).write(&text), Ok(count) if count == text.len()) {
            let _ = job.stream.shutdown(Shutdown::Both);
        }
        // The connection is writable, so its thread checks at once what has come meanwhile. If that thread
        // has closed it, this call fails without effect.
        let data = EventData::new_u64(job.stream.as_raw_fd() as u64);
        let flags = EventFlags::IN | EventFlags::OUT;
        let _ = epoll::modify(&*job.epoll, job.stream.as_fd(), data, flags);
    }
}

/// A request with a longer head is refused.
const HEAD_MAX: usize = 8_192;
/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// The route of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Hello,
    Compute,
    Healthz,
    Unknown,
}

/// What to do after the bytes read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
enum Step {
    /// Read more bytes.
    Read,
    /// Compute, answer that, and continue without new bytes.
    Compute,
    /// Close the connection after the answers so far.
    Close,
}

/// The bytes of one connection that were read and not answered.
#[derive(Debug, Default)]
struct Conversation {
    rest: Vec<u8>,
    /// Whether the client wants no further answer.
    ends: bool,
}

impl Conversation {
    /// Takes new bytes, and appends answers to `answers`.
    fn take(&mut self, bytes: &[u8], answers: &mut Vec<u8>) -> Step {
        // Mostly nothing is left over, and the new bytes are parsed in place.
        let mut kept = std::mem::take(&mut self.rest);
        let input = if kept.is_empty() {
            bytes
        } else {
            kept.extend_from_slice(bytes);
            &kept
        };
        let mut used = 0;
        let step = loop {
            if self.ends {
                break Step::Close;
            }
            let left = &input[used..];
            let Some(head) = head(left) else {
                break if left.len() > HEAD_MAX {
                    Step::Close
                } else {
                    Step::Read
                };
            };
            used += head.len() + END.len();
            let Some(route) = route(head) else {
                answers.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
                break Step::Close;
            };
            self.ends = closes(head);
            if route == Route::Compute {
                break Step::Compute;
            }
            answer(route, answers);
        };
        self.rest = input[used..].to_vec();
        step
    }
}

/// Appends the answer of a route.
fn answer(route: Route, answers: &mut Vec<u8>) {
    let (status, body) = match route {
        Route::Hello => ("200 OK", HELLO),
        Route::Compute => ("200 OK", COMPUTED),
        Route::Healthz => ("200 OK", HEALTHY),
        Route::Unknown => ("404 Not Found", ""),
    };
    for part in ["HTTP/1.1 ", status, "\r\ncontent-type: text/plain\r\n"] {
        answers.extend_from_slice(part.as_bytes());
    }
    // The length of a body has at most two digits.
    let length = [
        b'0' + (body.len() / 10) as u8,
        b'0' + (body.len() % 10) as u8,
    ];
    answers.extend_from_slice(b"content-length: ");
    answers.extend_from_slice(&length[usize::from(length[0] == b'0')..]);
    answers.extend_from_slice(END);
    answers.extend_from_slice(body.as_bytes());
}

/// The first head without its end; `None` if it is not complete.
fn head(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes.windows(END.len()).position(|four| four == END)?;
    Some(&bytes[..length])
}

/// The route of a head; `None` if this server does not understand it.
fn route(head: &[u8]) -> Option<Route> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let target = line.strip_prefix(b"GET ")?.strip_suffix(b" HTTP/1.1")?;
    Some(match target {
        b"/" => Route::Hello,
        b"/compute" => Route::Compute,
        b"/healthz" => Route::Healthz,
        _ => Route::Unknown,
    })
}

/// Whether the client wants the connection closed after the answer.
fn closes(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').any(|line| {
        let line = line.trim_ascii();
        let name = b"connection:";
        line.len() > name.len()
            && line[..name.len()].eq_ignore_ascii_case(name)
            && line[name.len()..]
                .trim_ascii()
                .eq_ignore_ascii_case(b"close")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(conversation: &mut Conversation, bytes: &str) -> (Step, String) {
        let mut answers = Vec::new();
        let step = conversation.take(bytes.as_bytes(), &mut answers);
        (step, String::from_utf8(answers).expect("it is text"))
    }

    #[test]
    fn a_request_in_pieces_is_answered_when_it_is_whole() {
        let mut conversation = Conversation::default();
        assert_eq!(
            said(&mut conversation, "GET / HT"),
            (Step::Read, String::new())
        );
        assert_eq!(
            said(&mut conversation, "TP/1.1\r\n\r"),
            (Step::Read, String::new())
        );
        let (step, text) = said(&mut conversation, "\nGET");
        assert_eq!(step, Step::Read);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(
            text.ends_with("content-length: 12\r\n\r\nhello, world"),
            "{text}"
        );
        let (_, text) = said(&mut conversation, " /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.ends_with("content-length: 2\r\n\r\nok"), "{text}");
    }

    #[test]
    fn what_follows_a_computation_waits_for_it() {
        let mut conversation = Conversation::default();
        let two = "GET /compute HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\nconnection: Close\r\n\r\n";
        assert_eq!(said(&mut conversation, two), (Step::Compute, String::new()));
        let (step, text) = said(&mut conversation, "");
        assert_eq!(step, Step::Close);
        assert!(text.starts_with("HTTP/1.1 404 "), "{text}");
        assert!(text.ends_with("content-length: 0\r\n\r\n"), "{text}");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let (step, text) = said(&mut Conversation::default(), "PUT / HTTP/1.1\r\n\r\n");
        assert!(step == Step::Close && text.contains(" 400 "), "{text}");
        let long = "x".repeat(HEAD_MAX + 1);
        assert_eq!(
            said(&mut Conversation::default(), &long),
            (Step::Close, String::new())
        );
    }
}
