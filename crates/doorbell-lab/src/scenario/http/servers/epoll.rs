//! A minimal server: one thread per core, epoll, and a few lines of HTTP.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::thread;

use crossbeam_channel::Sender;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::super::part::Part;
use super::conversation::{Conversation, Route, Step, answer};
use super::pool::{self, Job};
use super::running::Running;
use super::{Computation, Server, WORKERS};
use crate::error::LabError;

/// The value that stands for the listener where connections have their descriptor.
const LISTENER: u64 = u64::MAX;
/// How many events are taken at once.
const EVENTS: usize = 256;
/// How many bytes are read at once.
const BUFFER: usize = 16_384;

/// Where it computes: in the serving threads, or in other threads of the idle class.
#[derive(Debug)]
pub(super) struct RawEpoll {
    pub(super) pool: bool,
}

impl Server for RawEpoll {
    fn name(&self) -> &'static str {
        if self.pool {
            "raw epoll, idle-class pool"
        } else {
            "raw epoll"
        }
    }

    fn flag(&self) -> &'static str {
        if self.pool {
            "raw-epoll-pool"
        } else {
            "raw-epoll"
        }
    }

    fn parts(&self) -> &'static [Part] {
        if self.pool {
            &[Part::Computing]
        } else {
            &[Part::Hello, Part::Computing, Part::Idle]
        }
    }

    fn listeners(&self) -> usize {
        WORKERS
    }

    fn start(&self, listeners: Vec<TcpListener>, work: Computation) -> Result<Running, LabError> {
        let pool = self.pool.then(|| pool::start(work)).transpose()?;
        for listener in listeners {
            let mut worker = Worker::new(listener, work, pool.clone()).map_err(refused)?;
            let started = thread::Builder::new()
                .name("raw-epoll".to_owned())
                .spawn(move || worker.run());
            started.map_err(refused)?;
        }
        // The threads end with the process.
        Ok(Running::default())
    }
}

fn refused(source: io::Error) -> LabError {
    LabError::System {
        what: "starting a thread that serves",
        source,
    }
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
