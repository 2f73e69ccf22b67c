//! A child process of this program, seen from both sides: servers, and clients that hold connections.
//!
//! The child prints one line when it is ready. It ends when its standard input does, or after a while.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child as OsChild, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::LabError;
use crate::measure::Process;

/// A child that takes longer to end is killed.
const END_MAX: Duration = Duration::from_secs(5);
/// The time between two checks whether it has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Descriptors that a process needs beyond those of its connections.
const SPARE: u64 = 64;

/// A child process. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Child {
    process: OsChild,
    stdin: Option<ChildStdin>,
    line: String,
}

impl Child {
    /// Starts this program with `arguments`, and waits until it is ready.
    ///
    /// # Errors
    /// If it cannot be started, or ends before it is ready.
    pub(super) fn start(arguments: &[String]) -> Result<Self, LabError> {
        let failed = |source| LabError::System {
            what: "starting a process of this program",
            source,
        };
        let program = std::env::current_exe().map_err(failed)?;
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take();
        let mut child = Self {
            process,
            stdin,
            line: String::new(),
        };
        if let Some(stdout) = stdout {
            BufReader::new(stdout)
                .read_line(&mut child.line)
                .map_err(failed)?;
        }
        if child.line.trim().is_empty() {
            return Err(LabError::ChildEnded {
                arguments: arguments.join(" "),
            });
        }
        Ok(child)
    }

    /// The line that it printed when it was ready.
    pub(super) fn line(&self) -> &str {
        self.line.trim()
    }

    /// The process, for inspection.
    pub(super) fn process(&self) -> Process {
        Process::with_number(self.process.id())
    }

    /// Ends it and waits.
    ///
    /// # Errors
    /// If it does not end, or ends with an error.
    pub(super) fn end(mut self) -> Result<(), LabError> {
        drop(self.stdin.take());
        let failed = |source| LabError::System {
            what: "waiting for a process of this program",
            source,
        };
        let began = Instant::now();
        while began.elapsed() < END_MAX {
            match self.process.try_wait().map_err(failed)? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(failed(std::io::Error::other(status.to_string()))),
                None => thread::sleep(LOOK),
            }
        }
        Err(failed(std::io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both calls fail if it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In the child: waits until standard input ends, at most for `most`.
///
/// # Errors
/// [`LabError::System`] if waiting fails.
pub(super) fn wait_for_end(most: Duration) -> Result<(), LabError> {
    let failed = |source| LabError::System {
        what: "waiting for the end of standard input",
        source,
    };
    let deadline = Instant::now() + most;
    let mut stdin = std::io::stdin();
    let mut ignored = [0; 256];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let left =
            Timespec::try_from(left).map_err(|error| failed(std::io::Error::other(error)))?;
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        let ready = poll(&mut polled, Some(&left)).map_err(|errno| failed(errno.into()))?;
        if ready > 0 && stdin.read(&mut ignored).map_err(failed)? == 0 {
            return Ok(());
        }
    }
}

/// Raises the limit of descriptors as far as this process may.
///
/// # Errors
/// [`LabError::System`] if the OS refuses.
pub(super) fn allow_descriptors() -> Result<(), LabError> {
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    setrlimit(Resource::Nofile, wanted).map_err(|errno| LabError::System {
        what: "raising the limit of open descriptors to what is allowed",
        source: errno.into(),
    })
}

/// How many of `wanted` connections a process may have.
pub(super) fn connections_of(wanted: u64) -> u64 {
    let most = getrlimit(Resource::Nofile).maximum;
    most.map_or(wanted, |most| wanted.min(most.saturating_sub(SPARE)))
}
