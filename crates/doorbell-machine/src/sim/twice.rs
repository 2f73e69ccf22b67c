//! Two runs of one configuration, which must be the same.

use super::run::RunError;
use super::{ApartSink, Config, Event, Outcome, run_apart};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How many events are compared to find where two runs part.
const COMPARED: usize = 4_000_000;

/// What [`run_twice`] returns.
#[derive(Debug)]
pub struct Twice {
    /// How the first run ended.
    pub outcome: Outcome,
    /// The first event at which the runs part, in words. `None` if they are the same.
    pub parting: Option<String>,
}

/// Runs a program twice, as [`run_apart`] does, and compares the runs. If they differ, they are run twice more to find
/// where.
///
/// # Errors
/// As for [`run_apart`].
pub fn run_twice(
    config: &Config,
    patience: Duration,
    body: &Arc<impl Fn() + Send + Sync + 'static>,
) -> Result<Twice, RunError> {
    let once = |sink| {
        let body = Arc::clone(body);
        run_apart(config.clone(), patience, sink, move || body())
    };
    let kept = || {
        let (events, sink) = keep_events();
        let outcome = once(Some(sink))?;
        let events = std::mem::take(&mut *events.lock().unwrap_or_else(PoisonError::into_inner));
        Ok::<_, RunError>(Kept { outcome, events })
    };
    let (outcome, second) = (once(None)?, once(None)?);
    let differ = outcome.hash != second.hash || outcome.failure != second.failure;
    let parting = if differ {
        let first = parting(&kept()?, &kept()?);
        Some(match &second.failure {
            Some(failure) if outcome.failure.is_none() => {
                format!("the second one failed: {failure}; {first}")
            }
            _ => first,
        })
    } else {
        None
    };
    Ok(Twice { outcome, parting })
}

/// A run with its first events.
struct Kept {
    outcome: Outcome,
    events: Vec<Event>,
}

/// A sink that keeps the first events, and where it keeps them.
fn keep_events() -> (Arc<Mutex<Vec<Event>>>, ApartSink) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&kept);
    let keep = move |event: &Event| {
        let mut kept = theirs.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < COMPARED {
            kept.push(*event);
        }
    };
    (kept, Box::new(keep))
}

/// The first event at which two runs part.
fn parting(one: &Kept, other: &Kept) -> String {
    if one.outcome.hash == other.outcome.hash {
        return "but not when they were run once more".to_owned();
    }
    let pairs = one.events.iter().zip(&other.events);
    let same = pairs.take_while(|(one, other)| one == other).count();
    let at = |run: &Kept| match run.events.get(same) {
        Some(event) => {
            let thread = run.outcome.threads.get(event.thread as usize);
            shown(event, thread.map_or("?", |it| &it.name))
        }
        None => "the end".to_owned(),
    };
    let number = same + 1;
    format!(
        "event {number} is {} in one and {} in the other",
        at(one),
        at(other)
    )
}

impl Outcome {
    /// When the last thread ended, or stopped. What was due later belonged to no thread.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        let ends = self.threads.iter().filter_map(|it| it.last.last());
        ends.map(|event| event.time_ns).max().unwrap_or(0)
    }

    /// The last event of each of the threads that were active last, at most so many, on a line each.
    #[must_use]
    pub fn last_steps(&self, most: usize) -> String {
        let steps = self.threads.iter();
        let mut steps: Vec<_> = steps
            .filter_map(|thread| Some((thread, thread.last.last()?)))
            .collect();
        steps.sort_by_key(|(_, event)| std::cmp::Reverse(event.time_ns));
        let mut text = String::new();
        for (thread, event) in steps.iter().take(most) {
            let last = shown(event, &thread.name);
            let _ = write!(text, "\n  {} {}, after {last}", thread.name, thread.doing);
        }
        text
    }
}

fn shown(event: &Event, thread: &str) -> String {
    let Event {
        time_ns, cpu, line, ..
    } = event;
    let kind = event.kind.name();
    format!("`{kind} {line}` of {thread} on CPU {cpu} at {time_ns} ns")
}
