//! Ends the program when a contestant hangs.
//!
//! A caller waits for its answer without a timeout, as a program does. So a lost call shows as a contestant
//! that never ends. The time limit turns this into a message.

use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The exit status of a run in which a contestant hung.
use anyhow::{Context as _, Result};
const EXIT_STOOD_STILL: i32 = 3;

/// What may not hang, and for how long; `None` is its end.
type Limit = Option<(String, Duration)>;

/// A thread that waits for the end of what may hang.
#[derive(Debug)]
pub(crate) struct TimeLimit(Sender<Limit>);

impl TimeLimit {
    /// Starts the thread, without a limit.
    pub(crate) fn start() -> Result<Self> {
        let (limits, told) = channel();
        thread::Builder::new()
            .name("time-limit".to_owned())
            .spawn(move || wait_for_overdue(&told))
            .context("starting a thread")?;
        Ok(Self(limits))
    }

    /// Sets a limit until the result is dropped. The message names `label` as what hung.
    #[must_use]
    pub(crate) fn arm(&self, label: String, limit: Duration) -> Armed<'_> {
        // The thread lives as long as the sender, here and below.
        let _ = self.0.send(Some((label, limit)));
        Armed(self)
    }
}

/// A limit in force.
#[derive(Debug)]
pub(crate) struct Armed<'a>(&'a TimeLimit);

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        let _ = self.0.0.send(None);
    }
}

fn wait_for_overdue(told: &Receiver<Limit>) {
    while let Ok(limit) = told.recv() {
        let Some((label, limit)) = limit else {
            continue;
        };
        if told.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            crate::tell(format_args!(
                "error: {label} did not end in time; a call was probably lost"
            ));
            process::exit(EXIT_STOOD_STILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set for the child process that is to hang.
    const STAND_STILL: &str = "DOORBELL_LAB_TEST_STAND_STILL";

    #[test]
    fn what_stands_still_is_ended_with_its_name() {
        if std::env::var_os(STAND_STILL).is_some() {
            let time_limit = TimeLimit::start().expect("a thread can be started");
            let _armed = time_limit.arm("the still one".to_owned(), Duration::from_millis(5));
            thread::sleep(Duration::from_mins(1));
            return;
        }
        let this_test = "measure::time_limit::tests::what_stands_still_is_ended_with_its_name";
        let output = process::Command::new(std::env::current_exe().expect("tests are a program"))
            .args([this_test, "--exact", "--nocapture"])
            .env(STAND_STILL, "1")
            .output()
            .expect("tests can be started");
        assert_eq!(output.status.code(), Some(EXIT_STOOD_STILL));
        assert!(String::from_utf8_lossy(&output.stderr).contains("the still one did not end"));
    }

    #[test]
    fn what_ends_in_time_is_forgotten() {
        let time_limit = TimeLimit::start().expect("a thread can be started");
        drop(time_limit.arm("a test".to_owned(), Duration::from_millis(50)));
        // It would end this process.
        thread::sleep(Duration::from_millis(200));
    }
}
