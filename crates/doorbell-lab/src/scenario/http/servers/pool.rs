//! Threads that compute where nobody else wants the CPU, and answer themselves.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::event::epoll::{self, EventData, EventFlags};

use super::super::super::steps::compute;
use super::super::super::wants::Want;
use super::WORKERS;
use super::conversation::{Route, answer};
use crate::error::LabError;

/// A connection that waits for a computation. Whoever serves it hears nothing of it meanwhile.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) stream: Arc<TcpStream>,
    pub(super) epoll: Arc<OwnedFd>,
}

/// Starts the threads; they end when nobody can send any more.
///
/// # Errors
/// [`LabError::System`] if a thread cannot be started.
pub(super) fn start(steps: u64) -> Result<Sender<Job>, LabError> {
    let (sender, jobs) = unbounded();
    for _ in 0..WORKERS {
        let jobs = jobs.clone();
        let started = thread::Builder::new()
            .name("idle-class".to_owned())
            .spawn(move || work(&jobs, steps));
        started.map_err(|source| LabError::System {
            what: "starting a thread",
            source,
        })?;
    }
    Ok(sender)
}

fn work(jobs: &Receiver<Job>, steps: u64) {
    Want::Idle.ask();
    let mut text = Vec::new();
    answer(Route::Compute, &mut text);
    for job in jobs {
        compute(steps);
        // A client that does not take it is gone, or let go.
        if !matches!((&*job.stream).write(&text), Ok(count) if count == text.len()) {
            let _ = job.stream.shutdown(Shutdown::Both);
        }
        // It can be written to, so its thread looks at once what has come meanwhile. If that has let
        // it go, there is nothing to change.
        let data = EventData::new_u64(job.stream.as_raw_fd() as u64);
        let flags = EventFlags::IN | EventFlags::OUT;
        let _ = epoll::modify(&*job.epoll, job.stream.as_fd(), data, flags);
    }
}
