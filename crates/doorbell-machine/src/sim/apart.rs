//! A run on a thread of the OS that is its own, and the watch over that thread.

use super::run::{RunError, run_watched};
use super::{Config, Event, Outcome, Sink};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// What [`run_apart`] does beside the run.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// How long, by the OS's clock, the program may go without a step. Then it is taken for stuck.
    pub patience: Duration,
    /// How many of the first events are kept.
    pub keep: usize,
}

/// What [`run_apart`] returns.
#[derive(Debug)]
pub struct Apart {
    /// How the run ended.
    pub outcome: Outcome,
    /// Its first events, as many as were to be kept.
    pub events: Vec<Event>,
}

/// As [`run`](super::run()), on a new thread of the OS: what a program keeps in `thread_local!` values, or a library
/// for it, begins anew with each run. A program that waits in the OS, where no simulated thread can wake it, leaves
/// that thread behind.
///
/// # Errors
/// As for [`run`](super::run()); [`RunError::Silent`] if the program makes no step any more.
pub fn run_apart(
    config: Config,
    watch: Watch,
    body: impl FnOnce() + Send + 'static,
) -> Result<Apart, RunError> {
    let events = Arc::new(AtomicU64::new(0));
    let (done, ended) = channel();
    let theirs = Arc::clone(&events);
    let run = move || {
        let kept = Rc::new(RefCell::new(Vec::new()));
        let outcome = run_watched(config, sink(&kept, watch.keep), theirs, body);
        let _ = done.send(outcome.map(|outcome| Apart {
            outcome,
            events: kept.take(),
        }));
    };
    let thread = thread::Builder::new().name("simulation".to_owned());
    let thread = thread.spawn(run).map_err(RunError::Thread)?;
    let (mut last, mut silences) = (0, 0);
    loop {
        match ended.recv_timeout(watch.patience / 2) {
            Ok(apart) => {
                let _ = thread.join();
                return apart;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(RunError::Died),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = events.load(Ordering::Relaxed);
        silences = if now == last { silences + 1 } else { 0 };
        last = now;
        // One silence can be that of a process that was stopped for a while.
        if silences == 3 {
            return Err(RunError::Silent(watch.patience));
        }
    }
}

/// What keeps the first events.
fn sink(kept: &Rc<RefCell<Vec<Event>>>, most: usize) -> Option<Sink> {
    let kept = Rc::clone(kept);
    let keep = move |event: &Event| {
        let mut kept = kept.borrow_mut();
        if kept.len() < most {
            kept.push(*event);
        }
    };
    (most > 0).then(|| Box::new(keep) as Sink)
}
