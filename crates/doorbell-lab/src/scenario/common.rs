//! What every scenario does around its rounds: selects contestants and notes what is special about the run.

use std::io;
use std::num::NonZeroU64;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::thread::set_current_timer_slack;

use crate::error::LabError;
use crate::measure::{Machine, Pin, Unavailable, spawn_pinned};
use crate::report::{Row, known};

/// The order of `count` contestants in a round: each round begins with the next one.
pub(super) fn order(round: u32, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| (place + round as usize) % count)
}

/// Whether each of `labels` contains `only`, ignoring case.
///
/// # Errors
/// [`LabError::NoSuchContestant`] if none of them does.
pub(super) fn matching(labels: &[String], only: Option<&str>) -> Result<Vec<bool>, LabError> {
    let wanted = only.unwrap_or_default().to_lowercase();
    let matches: Vec<bool> = labels
        .iter()
        .map(|label| label.to_lowercase().contains(&wanted))
        .collect();
    if matches.contains(&true) {
        return Ok(matches);
    }
    Err(LabError::NoSuchContestant {
        filter: only.unwrap_or_default().to_owned(),
        known: labels.to_vec(),
    })
}

/// Notes for the reader that can apply to any run.
pub(super) fn caveats(machine: &Machine, uncounted: Option<&Unavailable>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(reason) = uncounted {
        notes.push(format!("system calls were not counted: {reason}"));
    }
    if machine.was_busy() {
        let busy = "other programs used the CPUs before this run: expect wide spreads, and interrupt \
                    counts that include theirs";
        notes.push(busy.to_owned());
    }
    if let Some(switches) = std::env::var_os("DOORBELL_SWITCHES") {
        notes.push(format!(
            "DOORBELL_SWITCHES is set: rows of doorbell that name no switch ran with {}",
            switches.display()
        ));
    }
    notes
}

/// One figure of one row, for a sentence; "n/a" if there is none.
pub(super) fn figure_of<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    [contestant, variant, metric]: [&str; 3],
) -> String {
    let wanted = |row: &&Row| row.contestant == contestant && row.variant == variant;
    let found = rows.into_iter().find(wanted);
    known(found.and_then(|row| row.metrics.get(metric)))
}

/// An error of building a tokio runtime.
pub(super) fn tokio_error(source: io::Error) -> LabError {
    LabError::System {
        what: "building a tokio runtime",
        source,
    }
}

/// Sets the calling thread's timer slack to the minimum; the default delays sleeps by up to 50 us.
/// Doorbell's workers do the same.
pub(super) fn shortest_slack() {
    // A kernel that refuses this has no timer slack.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Lets the calling thread sleep until `due`, or not at all if that is over.
pub(super) fn sleep_until(due: Instant) {
    thread::sleep(due.saturating_duration_since(Instant::now()));
}

/// Starts async-io's own thread, which inherits CPUs and timer slack from the thread that uses async-io
/// first. Call it from a thread that is not pinned.
pub(super) fn start_async_io() -> Result<(), LabError> {
    static ONCE: Once = Once::new();
    if ONCE.is_completed() {
        return Ok(());
    }
    let first = thread_on("async-io-first", None, || {
        ONCE.call_once(|| async_io::block_on(async {}));
    })?;
    join(first, "async-io-first")
}

/// Starts a thread with the minimal timer slack, on `cpu` if given.
pub(super) fn thread_on<T: Send + 'static>(
    name: &'static str,
    cpu: Option<usize>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, LabError> {
    let work = || {
        shortest_slack();
        work()
    };
    if let Some(cpu) = cpu {
        return spawn_pinned(name, cpu, work);
    }
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map_err(|source| LabError::System {
        what: "starting a thread",
        source,
    })
}

/// The result of a thread.
pub(super) fn join<T>(thread: JoinHandle<T>, name: &'static str) -> Result<T, LabError> {
    let panicked = |_| LabError::ThreadPanicked { thread: name };
    thread.join().map_err(panicked)
}

/// A tokio runtime with all its drivers, a worker on each of these CPUs and the timer slack of doorbell's
/// workers. Its blocking threads alternate between the CPUs.
pub(super) fn tokio_on(cpus: impl Into<Vec<usize>>) -> Result<tokio::runtime::Runtime, LabError> {
    tokio_builder(cpus).build().map_err(tokio_error)
}

/// The builder of such a runtime.
pub(super) fn tokio_builder(cpus: impl Into<Vec<usize>>) -> tokio::runtime::Builder {
    let cpus = cpus.into();
    let next = AtomicUsize::new(0);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(cpus.len())
        .on_thread_start(move || {
            // ORDER: relaxed; a number for each thread, which publishes nothing.
            let place = next.fetch_add(1, Ordering::Relaxed);
            // Pinning works if the process may use the CPU; else the worker runs anywhere. The former mask
            // is not restored, as the thread belongs to the runtime.
            std::mem::forget(Pin::to(cpus[place % cpus.len()]));
            shortest_slack();
        })
        .enable_all();
    builder
}

/// Runs each contestant: it must refuse to run before its setup, and end after it.
#[cfg(test)]
pub(super) fn try_each(
    trials: Vec<Box<dyn super::trial::Trial>>,
    mut tried: impl FnMut(&mut dyn super::trial::Trial, &str),
) {
    for mut one in trials {
        let name = format!("{} ({}, {})", one.name(), one.variant(), one.group());
        assert!(matches!(one.run(1), Err(LabError::NotSetUp)), "{name}");
        one.setup().expect(&name);
        tried(&mut *one, &name);
        one.teardown().expect(&name);
    }
}

/// Checks that the table of these contestants fits and still has the columns `kept`.
#[cfg(test)]
pub(super) fn assert_fits(
    trials: &[Box<dyn super::trial::Trial>],
    columns: &[crate::report::Column],
    kept: &[&str],
) {
    let names = trials.iter().map(|one| (one.name(), one.variant()));
    crate::report::fits::assert_table(names, columns, kept);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn threads_of_contestants_have_the_shortest_slack() {
        let slack = || rustix::thread::current_timer_slack().expect("it can be read");
        let asked = std::thread::spawn(move || {
            shortest_slack();
            slack()
        });
        assert_eq!(asked.join().expect("it does not panic"), 1);
        let runtime = tokio_on([0, 0]).expect("it starts");
        let of_task = runtime.block_on(runtime.spawn(async move { slack() }));
        assert_eq!(of_task.expect("it does not panic"), 1);
        for cpu in [None, Some(0)] {
            // A machine may lack CPU 0.
            if let Ok(thread) = thread_on("slack", cpu, slack) {
                assert_eq!(join(thread, "slack").expect("it does not panic"), 1);
            }
        }
    }

    /// The status and the timer slack of async-io's thread. A thread gets its name when it first runs.
    fn thread_of_async_io() -> Option<(String, String)> {
        let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
        let tasks = std::fs::read_dir("/proc/self/task").expect("proc is there");
        let mut numbers = tasks.filter_map(|task| task.ok()?.file_name().into_string().ok());
        numbers.find_map(|number| {
            let status = read(format!("/proc/self/task/{number}/status"));
            let is_it = status.starts_with("Name:\tasync-io\n");
            is_it.then(|| (status, read(format!("/proc/{number}/timerslack_ns"))))
        })
    }

    #[test]
    fn the_thread_of_async_io_has_the_shortest_slack_and_all_cpus() {
        start_async_io().expect("it starts");
        let began = Instant::now();
        let (status, slack) = loop {
            if let Some(found) = thread_of_async_io() {
                break found;
            }
            assert!(began.elapsed() < Duration::from_mins(1), "there is none");
            thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(slack.trim(), "1");
        let cpus = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("Cpus_allowed:"));
            line.map(str::to_owned)
        };
        let own = std::fs::read_to_string("/proc/self/status").expect("proc is there");
        assert_eq!(cpus(&status), cpus(&own));
    }

    #[test]
    fn each_round_begins_with_the_next_one() {
        assert_eq!(order(0, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(order(4, 3).collect::<Vec<_>>(), [1, 2, 0]);
    }

    #[test]
    fn a_filter_ignores_the_case_and_says_who_there_is() {
        let labels = ["Tokio (one)".to_owned(), "other (two)".to_owned()];
        assert_eq!(matching(&labels, Some("TOK")).expect("one"), [true, false]);
        assert_eq!(matching(&labels, None).expect("all"), [true, true]);
        let error = matching(&labels, Some("nobody")).expect_err("nobody is");
        assert!(error.to_string().contains("Tokio (one)"), "{error}");
    }
}
