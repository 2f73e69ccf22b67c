//! Two runs of one configuration, which must be the same.

use super::run::RunError;
use super::{Config, Event, Outcome, Witness, run_apart};
use std::sync::Arc;
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
/// where: then the program is given a witness each time.
///
/// # Errors
/// As for [`run_apart`].
pub fn run_twice(
    config: &Config,
    patience: Duration,
    body: &Arc<impl Fn(Option<Witness>) + Send + Sync + 'static>,
) -> Result<Twice, RunError> {
    let once = |witness: Option<&Witness>| {
        let (body, theirs) = (Arc::clone(body), witness.cloned());
        let sink = witness.map(Witness::sink);
        run_apart(config.clone(), patience, sink, move || body(theirs))
    };
    let seen = || {
        let witness = Witness::of_first_events(COMPARED);
        once(Some(&witness)).map(|outcome| (witness, outcome))
    };
    let (outcome, second) = (once(None)?, once(None)?);
    let differ = outcome.hash != second.hash || outcome.failure != second.failure;
    let parting = if differ {
        let first = parting(&seen()?, &seen()?);
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

/// The first event at which two runs part, and what ran there.
fn parting(one: &(Witness, Outcome), other: &(Witness, Outcome)) -> String {
    if one.1.hash == other.1.hash {
        return "but not when they were run once more".to_owned();
    }
    let same = one.0.same_events(&other.0);
    let at = |(witness, outcome): &(Witness, Outcome)| match witness.event(same) {
        Some((event, doing)) => {
            let thread = outcome.threads.get(event.thread as usize);
            let doing = doing.map(|doing| format!(", which {doing}"));
            let thread = thread.map_or("?", |it| &it.name);
            shown(&event, thread) + &doing.unwrap_or_default()
        }
        None => "the end".to_owned(),
    };
    let number = same + 1;
    let (one, other) = (at(one), at(other));
    format!("event {number} is {one} in one, and {other} in the other")
}

impl Outcome {
    /// When the last thread ended, or stopped. What was due later belonged to no thread.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        let ends = self.threads.iter().filter_map(|it| it.last.last());
        ends.map(|event| event.time_ns).max().unwrap_or(0)
    }
}

fn shown(event: &Event, thread: &str) -> String {
    let Event {
        time_ns, cpu, line, ..
    } = event;
    let kind = event.kind.name();
    format!("`{kind} {line}` of {thread} on CPU {cpu} at {time_ns} ns")
}
