//! Ends the program when a contestant hangs.
//!
//! A caller waits for its answer without a timeout, as a program does. So a lost call shows as a contestant
//! that never ends. The time limit turns this into a message.

use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::LabError;

/// The exit status of a run in which a contestant hung.
const EXIT_STOOD_STILL: i32 = 3;

#[derive(Debug)]
struct Limit {
    label: String,
    deadline: Instant,
}

#[derive(Debug, Default)]
struct Shared {
    limit: Mutex<Option<Limit>>,
    armed: Condvar,
}

impl Shared {
    fn limit(&self) -> MutexGuard<'_, Option<Limit>> {
        // A panic elsewhere cannot leave the option half written.
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that sleeps until the current deadline.
#[derive(Debug)]
pub(crate) struct TimeLimit {
    shared: Arc<Shared>,
}

impl TimeLimit {
    /// Starts the thread, without a deadline. It lives until the program ends.
    ///
    /// # Errors
    /// [`LabError::System`] if no thread can be started.
    pub(crate) fn start() -> Result<Self, LabError> {
        let shared = Arc::new(Shared::default());
        let limited = Arc::clone(&shared);
        thread::Builder::new()
            .name("time-limit".to_owned())
            .spawn(move || wait_for_overdue(&limited))
            .map_err(LabError::system("starting a thread"))?;
        Ok(Self { shared })
    }

    /// Sets a deadline until the result is dropped. The message names `label` as what hung.
    #[must_use]
    pub(crate) fn arm(&self, label: String, limit: Duration) -> Armed<'_> {
        *self.shared.limit() = Some(Limit {
            label,
            deadline: Instant::now() + limit,
        });
        self.shared.armed.notify_one();
        Armed { time_limit: self }
    }
}

/// A deadline in force.
#[derive(Debug)]
pub(crate) struct Armed<'a> {
    time_limit: &'a TimeLimit,
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        // The thread is not woken: it notices at the deadline, or when it is armed again.
        *self.time_limit.shared.limit() = None;
    }
}

fn wait_for_overdue(shared: &Shared) {
    let mut limit = shared.limit();
    loop {
        let now = Instant::now();
        let left = match limit.as_ref() {
            Some(overdue) if overdue.deadline <= now => {
                crate::tell(format_args!(
                    "error: {} did not end in time; a call was probably lost",
                    overdue.label
                ));
                process::exit(EXIT_STOOD_STILL);
            }
            Some(running) => running.deadline - now,
            None => Duration::from_hours(1),
        };
        limit = shared
            .armed
            .wait_timeout(limit, left)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
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
        let armed = time_limit.arm("a test".to_owned(), Duration::from_mins(1));
        assert!(time_limit.shared.limit().is_some());
        drop(armed);
        assert!(time_limit.shared.limit().is_none());
    }
}
