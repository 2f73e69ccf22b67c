//! The writer. The format is Chrome's "Trace Event Format", its JSON object form.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};

use super::{Event, State, What};

/// What is added to the number of a worker for the line of its spans.
const SPANS: u32 = 1 << 20;

/// A text as JSON writes it.
fn json(text: &str) -> String {
    let mut written = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => written.extend(['\\', letter]),
            // Control characters, such as the end of a line.
            '\0'..='\u{1f}' => {
                let _ = write!(written, "\\u{:04x}", u32::from(letter));
            }
            _ => written.push(letter),
        }
    }
    written + "\""
}

/// A trace file that is being written.
///
/// ```
/// use doorbell_machine::sim::trace::{ChromeTrace, Event, State, What};
///
/// let event = |at_ns, what| Event { at_ns, core: 0, worker: 0, what };
/// let mut trace = ChromeTrace::begin(Vec::new())?;
/// trace.name_worker(0, 0, "fair")?;
/// trace.event(&event(0, What::State(State::Running)))?;
/// trace.event(&event(1_500, What::State(State::Parked)))?;
/// let text = String::from_utf8(trace.finish()?).expect("it is ASCII here");
/// assert!(text.contains(r#""name":"running""#));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ChromeTrace<W> {
    out: W,
    /// Whether the next record needs a comma before it.
    begun: bool,
    /// By the worker's number.
    workers: BTreeMap<u32, Track>,
    /// The cores that have a name in the file.
    cores: BTreeSet<u32>,
    /// Posted items that have not run.
    posted: BTreeMap<u64, Arrow>,
    /// The number of the next arrow.
    arrows: u64,
    end_ns: u64,
}

/// The core where a worker is drawn, and its open slice.
#[derive(Clone, Copy, Debug)]
struct Track {
    core: u32,
    open: bool,
    last_ns: u64,
}

/// A moment on a worker, as the file records it.
#[derive(Clone, Copy, Debug)]
struct At {
    core: u32,
    worker: u32,
    ns: u64,
}

/// The arrow from a post to the run of its item.
#[derive(Clone, Copy, Debug)]
struct Arrow {
    number: u64,
    from: At,
}

impl<W: Write> ChromeTrace<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// An error of `out`.
    pub fn begin(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Self {
            out,
            begun: false,
            workers: BTreeMap::new(),
            cores: BTreeSet::new(),
            posted: BTreeMap::new(),
            arrows: 0,
            end_ns: 0,
        })
    }

    /// Names a worker in the viewer, best before its first event.
    ///
    /// # Errors
    /// An error of the file.
    pub fn name_worker(&mut self, core: u32, worker: u32, name: &str) -> io::Result<()> {
        self.name_core(core)?;
        let name = json(name);
        self.metadata(core, worker, "thread_name", &name)
    }

    /// Writes an event. The events of one worker must be in order of time.
    ///
    /// # Errors
    /// An error of the file.
    pub fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        let at = self.place(event)?;
        match event.what {
            What::State(state) => self.state(at, state),
            What::Notify { of } => self.instant(at, &format!("notify worker {of}")),
            What::Ring { of } => self.instant(at, &format!("ring worker {of}")),
            What::Post { item } => self.post(at, item),
            What::Run { item } => self.run(at, item),
            What::Instant { name } => self.instant(at, name),
        }
    }

    /// Writes a span of a worker, such as the poll of a task, on a line of its own below the worker's states. Spans of one
    /// worker do not overlap.
    ///
    /// # Errors
    /// An error of the file.
    pub fn span(
        &mut self,
        (core, worker): (u32, u32),
        (from_ns, to_ns): (u64, u64),
        name: &str,
    ) -> io::Result<()> {
        self.name_core(core)?;
        let at = At {
            core,
            worker: worker + SPANS,
            ns: from_ns,
        };
        self.end_ns = self.end_ns.max(to_ns);
        let ns = to_ns.saturating_sub(from_ns);
        let (us, ns) = (ns / 1_000, ns % 1_000);
        let more = format!(",\"dur\":{us}.{ns:03},\"name\":{}", json(name));
        self.record(at, 'X', &more)
    }

    /// Names the line of a worker's spans.
    ///
    /// # Errors
    /// An error of the file.
    pub fn name_spans(&mut self, core: u32, worker: u32, name: &str) -> io::Result<()> {
        self.metadata(core, worker + SPANS, "thread_name", &json(name))
    }

    /// Marks a moment over all cores.
    ///
    /// # Errors
    /// An error of the file.
    pub fn mark(&mut self, at_ns: u64, name: &str) -> io::Result<()> {
        let at = At {
            core: 0,
            worker: 0,
            ns: at_ns,
        };
        self.record(at, 'i', &format!(",\"name\":{},\"s\":\"g\"", json(name)))
    }

    /// Closes what is open and ends the file.
    ///
    /// # Errors
    /// An error of the file.
    pub fn finish(mut self) -> io::Result<W> {
        let end_ns = self.end_ns;
        for (item, arrow) in std::mem::take(&mut self.posted) {
            let at = At {
                ns: end_ns,
                ..arrow.from
            };
            self.never_run(at, item, arrow)?;
        }
        for (worker, track) in std::mem::take(&mut self.workers) {
            let at = At {
                core: track.core,
                worker,
                ns: end_ns,
            };
            if track.open {
                self.record(at, 'E', "")?;
            }
        }
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// How many workers, cores and posted items it keeps.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.workers.len() + self.cores.len() + self.posted.len()
    }

    /// Where to draw an event. A worker that has moved to another core leaves its open slice behind.
    fn place(&mut self, event: &Event<'_>) -> io::Result<At> {
        let before = self.workers.get(&event.worker).copied();
        let at = At {
            core: event.core,
            worker: event.worker,
            // A time that runs backwards would give overlapping slices.
            ns: event.at_ns.max(before.map_or(0, |track| track.last_ns)),
        };
        let mut open = before.is_some_and(|track| track.open);
        if before.map(|track| track.core) != Some(at.core) {
            if let Some(track) = before.filter(|track| track.open) {
                let core = track.core;
                self.record(At { core, ..at }, 'E', "")?;
                open = false;
            }
            self.name_core(at.core)?;
        }
        let last_ns = at.ns;
        let core = at.core;
        self.end_ns = self.end_ns.max(last_ns);
        let track = Track {
            core,
            open,
            last_ns,
        };
        self.workers.insert(at.worker, track);
        Ok(at)
    }

    fn state(&mut self, at: At, state: State) -> io::Result<()> {
        let was_open = self.workers.get(&at.worker).is_some_and(|track| track.open);
        if was_open {
            self.record(at, 'E', "")?;
        }
        if let Some(name) = state.name() {
            self.record(at, 'B', &format!(",\"name\":\"{name}\",\"cat\":\"state\""))?;
        }
        if let Some(track) = self.workers.get_mut(&at.worker) {
            track.open = state.name().is_some();
        }
        Ok(())
    }

    fn instant(&mut self, at: At, name: &str) -> io::Result<()> {
        let name = json(name);
        self.record(at, 'i', &format!(",\"name\":{name},\"s\":\"t\""))
    }

    fn post(&mut self, at: At, item: u64) -> io::Result<()> {
        let number = self.arrows;
        self.arrows += 1;
        let arrow = Arrow { number, from: at };
        if let Some(before) = self.posted.insert(item, arrow) {
            self.never_run(at, item, before)?;
        }
        self.instant(at, &format!("post {item}"))?;
        self.arrow(at, 's', number)
    }

    fn run(&mut self, at: At, item: u64) -> io::Result<()> {
        self.instant(at, &format!("run {item}"))?;
        match self.posted.remove(&item) {
            Some(arrow) => self.arrow(at, 'f', arrow.number),
            // It was posted before the trace began.
            None => Ok(()),
        }
    }

    /// Ends an arrow of an item that never ran, so that a viewer shows it.
    fn never_run(&mut self, at: At, item: u64, arrow: Arrow) -> io::Result<()> {
        self.instant(at, &format!("item {item} never ran"))?;
        self.arrow(at, 'f', arrow.number)
    }

    fn arrow(&mut self, at: At, phase: char, number: u64) -> io::Result<()> {
        // `bp: e` binds the end to the enclosing slice instead of the next one.
        let end = if phase == 'f' { ",\"bp\":\"e\"" } else { "" };
        let more = format!(",\"name\":\"post\",\"cat\":\"post\",\"id\":{number}{end}");
        self.record(at, phase, &more)
    }

    fn name_core(&mut self, core: u32) -> io::Result<()> {
        if self.cores.insert(core) {
            self.metadata(core, 0, "process_name", &format!("\"core {core}\""))?;
            // Without it viewers sort by name: core 10 before core 2.
            let more = format!(
                "\"ph\":\"M\",\"pid\":{core},\"tid\":0,\"name\":\"process_sort_index\",\
                 \"args\":{{\"sort_index\":{core}}}"
            );
            self.write(&more)?;
        }
        Ok(())
    }

    /// Writes a metadata record. `name` is already JSON.
    fn metadata(&mut self, core: u32, worker: u32, kind: &str, name: &str) -> io::Result<()> {
        self.write(&format!(
            "\"ph\":\"M\",\"pid\":{core},\"tid\":{worker},\"name\":\"{kind}\",\
             \"args\":{{\"name\":{name}}}"
        ))
    }

    fn record(&mut self, at: At, phase: char, more: &str) -> io::Result<()> {
        // The format's unit is the microsecond.
        let (us, ns) = (at.ns / 1_000, at.ns % 1_000);
        self.write(&format!(
            "\"ph\":\"{phase}\",\"ts\":{us}.{ns:03},\"pid\":{},\"tid\":{}{more}",
            at.core, at.worker
        ))
    }

    fn write(&mut self, fields: &str) -> io::Result<()> {
        let comma = if self.begun { "," } else { "" };
        self.begun = true;
        write!(self.out, "{comma}\n{{{fields}}}")
    }
}
