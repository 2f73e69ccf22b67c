//! Threads under `SCHED_IDLE` that compute, and send the answers themselves.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::event::epoll::{self, EventData, EventFlags};

use super::super::super::wants::Want;
use super::conversation::{Route, answer};
use super::{Computation, WORKERS};
use crate::error::LabError;

/// A connection that waits for a computation. Its serving thread gets no events of it meanwhile.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) stream: Arc<TcpStream>,
    pub(super) epoll: Arc<OwnedFd>,
}

/// Starts the threads. They end when the last sender is dropped.
///
/// # Errors
/// [`LabError::System`] if a thread cannot be started.
pub(super) fn start(work: Computation) -> Result<Sender<Job>, LabError> {
    let (sender, jobs) = unbounded();
    for _ in 0..WORKERS {
        let jobs = jobs.clone();
        let started = thread::Builder::new()
            .name("idle-class".to_owned())
            .spawn(move || follow(&jobs, work));
        started.map_err(|source| LabError::System {
            what: "starting a thread",
            source,
        })?;
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
