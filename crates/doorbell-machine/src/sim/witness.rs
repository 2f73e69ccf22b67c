//! [`Witness`]: what a run does, told to a person: the last events of each CPU, a trace, and where two runs part.

use super::trace::{MachineTrace, State, What, what};
use super::{ApartSink, Event, Outcome, cpu, thread, time_ns};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many of its last events each CPU shows.
const EVENTS_SHOWN: usize = 4;

/// How many CPUs are shown.
const CPUS_SHOWN: usize = 8;

/// It sees one run, which it does not change. Clones are the same witness.
#[derive(Clone, Debug, Default)]
pub struct Witness(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// The last events of each CPU, oldest first. Accesses of memory are not kept.
    last: BTreeMap<u32, VecDeque<Entry>>,
    /// What each thread is in the midst of: the time and the CPU at which it began, and its name.
    begun: BTreeMap<u32, (u64, u32, String)>,
    trace: Option<MachineTrace<BufWriter<File>>>,
    /// The first error of the file.
    error: Option<io::Error>,
    /// The first events, at most so many.
    first: Vec<Event>,
    first_max: usize,
    /// What threads began and ended meanwhile: how many events came before, the thread, and what it began.
    changes: Vec<(usize, u32, Option<String>)>,
}

#[derive(Debug)]
struct Entry {
    time_ns: u64,
    thread: u32,
    did: Did,
}

#[derive(Debug)]
enum Did {
    Event(What<'static>),
    Begin(String),
}

impl Witness {
    /// A witness that also writes a trace to this file.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn with_trace(file: &Path) -> io::Result<Self> {
        let trace = MachineTrace::begin(BufWriter::new(File::create(file)?))?;
        let witness = Witness::default();
        witness.seen().trace = Some(trace);
        Ok(witness)
    }

    /// A witness that also keeps so many of the first events.
    #[must_use]
    pub fn of_first_events(most: usize) -> Self {
        let witness = Witness::default();
        witness.seen().first_max = most;
        witness
    }

    /// How many of the first events two runs have in common.
    pub(super) fn same_events(&self, other: &Witness) -> usize {
        let (one, other) = (self.seen(), other.seen());
        let pairs = one.first.iter().zip(&other.first);
        pairs.take_while(|(one, other)| one == other).count()
    }

    /// One of the first events, and what its thread was in the midst of.
    pub(super) fn event(&self, number: usize) -> Option<(Event, Option<String>)> {
        let seen = self.seen();
        let event = *seen.first.get(number)?;
        let mut changes = seen.changes.iter().rev();
        let last = changes.find(|(before, thread, _)| *before <= number && *thread == event.thread);
        Some((event, last.and_then(|(_, _, doing)| doing.clone())))
    }

    /// What the run passes its events to.
    #[must_use]
    pub fn sink(&self) -> ApartSink {
        let witness = self.clone();
        Box::new(move |event| witness.seen().see(event))
    }

    /// The calling simulated thread begins something that deserves a name, such as the poll of a task.
    pub fn begin(&self, name: String) {
        let (time_ns, Some(thread), Some(cpu)) = (time_ns(), thread(), cpu()) else {
            return;
        };
        let (cpu, mut seen) = (cpu as u32, self.seen());
        let did = Did::Begin(name.clone());
        let entry = Entry {
            time_ns,
            thread,
            did,
        };
        seen.keep(cpu, entry);
        seen.change(thread, Some(&name));
        seen.begun.insert(thread, (time_ns, cpu, name));
    }

    /// The calling thread ends what it has begun.
    pub fn end(&self) {
        if let Some(thread) = thread() {
            let mut seen = self.seen();
            seen.change(thread, None);
            seen.end(thread, time_ns());
        }
    }

    /// The run has failed so. Ends the trace with a mark, and returns the last events of the CPUs that were active last,
    /// each CPU on a line.
    ///
    /// # Errors
    /// An error of the trace's file.
    pub fn tell(&self, outcome: &Outcome, failure: &str) -> io::Result<String> {
        let mut seen = self.seen();
        let end_ns = outcome.end_ns();
        for thread in seen.begun.keys().copied().collect::<Vec<_>>() {
            seen.end(thread, end_ns);
        }
        if let Some(mut trace) = seen.trace.take() {
            trace.mark(end_ns, failure)?;
            trace.finish(&outcome.threads)?;
        }
        match seen.error.take() {
            Some(error) => Err(error),
            None => Ok(seen.shown(outcome)),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn see(&mut self, event: &Event) {
        if self.first.len() < self.first_max {
            self.first.push(*event);
        }
        let Some(what) = what(event) else { return };
        self.write(|trace| trace.record(event));
        let entry = Entry {
            time_ns: event.time_ns,
            thread: event.thread,
            did: Did::Event(what),
        };
        self.keep(event.cpu, entry);
    }

    fn change(&mut self, thread: u32, doing: Option<&str>) {
        let before = self.first.len();
        if before < self.first_max {
            self.changes
                .push((before, thread, doing.map(str::to_owned)));
        }
    }

    fn keep(&mut self, cpu: u32, entry: Entry) {
        let last = self.last.entry(cpu).or_default();
        if last.len() == EVENTS_SHOWN {
            last.pop_front();
        }
        last.push_back(entry);
    }

    fn end(&mut self, thread: u32, time_ns: u64) {
        if let Some((begun_ns, cpu, name)) = self.begun.remove(&thread) {
            self.write(|trace| trace.span((cpu, thread), (begun_ns, time_ns), &name));
        }
    }

    fn write(&mut self, write: impl FnOnce(&mut MachineTrace<BufWriter<File>>) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = self.trace.as_mut().and_then(|trace| write(trace).err());
        }
    }

    fn shown(&self, outcome: &Outcome) -> String {
        let name = |thread: u32| {
            let thread = outcome.threads.get(thread as usize);
            thread.map_or("?", |thread| &thread.name)
        };
        let mut cpus: Vec<_> = self.last.iter().collect();
        cpus.sort_by_key(|(_, last)| std::cmp::Reverse(last.back().map(|entry| entry.time_ns)));
        let mut text = String::new();
        for (cpu, last) in cpus.into_iter().take(CPUS_SHOWN) {
            let mut before = None;
            for (number, entry) in last.iter().enumerate() {
                let lead = match number {
                    0 => format!("\n  CPU {cpu}: "),
                    _ => "; ".to_owned(),
                };
                let who = match before.replace(entry.thread) {
                    Some(thread) if thread == entry.thread => String::new(),
                    _ => format!("{} ", name(entry.thread)),
                };
                let did = match &entry.did {
                    Did::Begin(name) => name.clone(),
                    Did::Event(what) => said(*what, name),
                };
                let at = Duration::from_nanos(entry.time_ns);
                let _ = write!(text, "{lead}{who}{did} at {at:?}");
            }
        }
        text
    }
}

/// An event in words.
fn said<'n>(what: What<'static>, name: impl Fn(u32) -> &'n str) -> String {
    let words = match what {
        What::State(State::Running) => "runs",
        What::State(State::Spinning) => "spins",
        What::State(State::Waiting) => "loses the CPU",
        What::State(State::Parked) => "waits",
        What::State(State::Ended) => "ends",
        What::Notify { of } => return format!("notifies {}", name(of)),
        What::Ring { of } => return format!("rings {}", name(of)),
        What::Post { item } => return format!("posts {item}"),
        What::Run { item } => return format!("runs {item}"),
        What::Instant { name } => name,
    };
    words.to_owned()
}
