//! A run on a thread of the OS that is its own, and the watch over that thread.

use super::run::{RunError, message_of, run_watched};
use super::world::look_anyway;
use super::{Config, Event, Outcome, Sink};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

/// A function that gets every event as it happens, on the thread of the run.
pub type ApartSink = Box<dyn FnMut(&Event) + Send>;

/// As [`run`](super::run()), on a new thread of the OS: what a program keeps in `thread_local!` values, or a library
/// for it, begins anew with each run. A program that waits in the OS, where no simulated thread can wake it, leaves
/// that thread behind.
///
/// `patience` is how long, by the OS's clock, the program may go without a step. Then it is taken for stuck.
///
/// # Errors
/// As for [`run`](super::run()); [`RunError::Silent`] if the program makes no step any more.
pub fn run_apart(
    config: Config,
    patience: Duration,
    sink: Option<ApartSink>,
    body: impl FnOnce() + Send + 'static,
) -> Result<Outcome, RunError> {
    note_panics();
    let events = Arc::new(AtomicU64::new(0));
    let (done, ended) = channel();
    let theirs = Arc::clone(&events);
    let run = move || {
        let sink = sink.map(|sink| sink as Sink);
        let _ = done.send(run_watched(config, sink, theirs, body));
    };
    let thread = thread::Builder::new().name("simulation".to_owned());
    let thread = thread.spawn(run).map_err(RunError::Thread)?;
    let (mut last, mut silences) = (0, 0);
    loop {
        match ended.recv_timeout(patience / 2) {
            Ok(outcome) => {
                let _ = thread.join();
                return outcome;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(RunError::Died),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = events.load(Ordering::Relaxed);
        silences = if now == last { silences + 1 } else { 0 };
        last = now;
        // One silence can be that of a process that was stopped for a while.
        if silences == 3 {
            return Err(RunError::Silent(patience));
        }
    }
}

/// From now on, each run of the process notes its panics, also those that the program catches.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _ = look_anyway(|world| world.note_panic(place_and_message(panic)));
            before(panic);
        }));
    });
}

fn place_and_message(panic: &PanicHookInfo<'_>) -> String {
    let message = message_of(panic.payload());
    match panic.location() {
        Some(place) => format!("{place}: {message}"),
        None => message,
    }
}
