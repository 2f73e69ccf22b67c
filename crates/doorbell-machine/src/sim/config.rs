//! What a run of the simulated machine is told, and what it tells.

use super::spec::{MachineSpec, Range};
use crate::mark::Marks;

/// What one core may see of another's stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Every access takes effect at once, in one order.
    #[default]
    Sc,
    /// Stores wait in a buffer of their thread, which sees them itself; they drain in order after
    /// a while, and at once at a read-modify-write, a syscall and a switch.
    Tso,
}

/// By what threads block in their parkers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parkers {
    /// A futex: one syscall to wait, in which the kernel looks at the word, and one to wake. A ring
    /// that finds nobody is lost.
    #[default]
    Futex,
    /// An eventfd, as of a thread that also waits for descriptors: `epoll_wait` and the read that
    /// empties it, and a write to wake. A ring that finds nobody ends the next wait, for no reason
    /// then.
    Eventfd,
    /// Each parker is of a kind that the seed draws.
    Mixed,
}

/// How often a poller says that a descriptor is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edges {
    /// Once for each time that it was made ready, or fewer.
    #[default]
    Strict,
    /// Now and then once more, for no reason, as the seed decides.
    Generous,
}

/// A run of the simulated machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Fixes everything that is left open: ties, costs that vary, drains, faults, random numbers.
    pub seed: u64,
    /// The machine.
    pub machine: MachineSpec,
    /// The memory model.
    pub memory: Memory,
    /// By what threads block.
    pub parkers: Parkers,
    /// How often pollers repeat themselves.
    pub edges: Edges,
    /// What goes wrong.
    pub faults: Faults,
    /// The clock's first value.
    pub clock_start_ns: u64,
    /// How many events there may be.
    pub events_max: u64,
    /// How much simulated time may pass.
    pub time_max_ns: u64,
    /// How many bytes of stack a thread has.
    pub stack_bytes: usize,
    /// Whether accesses to a cell must be in an order that the orderings of the atomics make. Each
    /// access then costs the host time that grows with the number of threads. Only under
    /// [`Memory::Sc`].
    pub races: bool,
}

impl Config {
    pub(super) fn looks_for_races(&self) -> bool {
        self.races && self.memory == Memory::Sc
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            seed: 0,
            machine: MachineSpec::default(),
            memory: Memory::default(),
            parkers: Parkers::default(),
            edges: Edges::default(),
            faults: Faults::default(),
            clock_start_ns: 1_000_000_000,
            events_max: 20_000_000,
            time_max_ns: 60_000_000_000,
            stack_bytes: 256 << 10,
            races: false,
        }
    }
}

/// What goes wrong, until the run itself ends it ([`end_faults`](super::end_faults)).
///
/// Chances are out of a million.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The chance that a thread is taken off its CPU at an event.
    pub deschedule_chance: u32,
    /// For how long.
    pub deschedule_ns: Range,
    /// The chance that a thread is starved from an event on: it gets no CPU for long. One at a time.
    pub starve_chance: u32,
    /// For how long.
    pub starve_ns: Range,
    /// Which threads can be starved: their numbers, in the order in which they were started.
    pub starved: std::ops::Range<u32>,
    /// The chance that a park ends for no reason.
    pub spurious_chance: u32,
    /// After how long.
    pub spurious_ns: Range,
    /// The chance that a wake, or the end of a sleep, comes late.
    pub late_chance: u32,
    /// By how much.
    pub late_ns: Range,
    /// The chance that a CPU, any one, takes no interrupts from an event on. What runs there goes on;
    /// wakes, deadlines and slice ends wait until it takes them again, and then come as one.
    pub mask_chance: u32,
    /// For how long.
    pub mask_ns: Range,
    /// CPUs that are slow: the number, and how long everything takes there, in per cent.
    pub slow_cpus: Vec<(usize, u64)>,
    /// What goes wrong at a given event.
    pub planned: Vec<Planned>,
}

impl Default for Faults {
    /// Nothing goes wrong.
    fn default() -> Self {
        let never = Range {
            min_ns: 0,
            max_ns: 0,
        };
        Faults {
            deschedule_chance: 0,
            deschedule_ns: never,
            starve_chance: 0,
            starve_ns: never,
            starved: 0..0,
            spurious_chance: 0,
            spurious_ns: never,
            late_chance: 0,
            late_ns: never,
            mask_chance: 0,
            mask_ns: never,
            slow_cpus: Vec::new(),
            planned: Vec::new(),
        }
    }
}

/// A fault at the first event from this one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its number: the first one is 1.
    pub event: u64,
    /// What happens there.
    pub fault: Fault,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The thread that makes the event is taken off its CPU for so long.
    Deschedule {
        /// For how long.
        ns: u64,
    },
    /// A CPU takes no interrupts for so long.
    Mask {
        /// Its number.
        cpu: usize,
        /// For how long.
        ns: u64,
    },
    /// The clock jumps ahead by so much, at most to its end.
    ClockJump {
        /// By how much.
        ns: u64,
    },
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Of every event, in order: two runs with the same hash were the same.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// How much simulated time has passed.
    pub time_ns: u64,
    /// Calls of `ring`.
    pub rings: u64,
    /// Of those, the ones that found nobody asleep.
    pub rings_vain: u64,
    /// Times that a thread fell asleep in a parker.
    pub parks: u64,
    /// Of those, the ones that a ring ended.
    pub parks_rung: u64,
    /// Faults that happened.
    pub faults: u64,
    /// Wakes and deadlines that came while their CPU took no interrupts.
    pub interrupts_held: u64,
    /// Of those, the ones that then came together with another.
    pub interrupts_merged: u64,
    /// The rare branches that were reached.
    pub marks: Marks,
    /// The threads, in the order in which they were started.
    pub threads: Vec<ThreadReport>,
    /// What failed first; the run ended there.
    pub failure: Option<Failure>,
}

/// One thread of a run that is over.
#[derive(Clone, Debug)]
pub struct ThreadReport {
    /// Its name.
    pub name: String,
    /// The CPU that it ran on last.
    pub cpu: usize,
    /// What it did in the end.
    pub doing: &'static str,
    /// Its last events, oldest first.
    pub last: Vec<Event>,
}

/// Why a run ended before its threads did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Every thread waits, and nothing will wake one.
    #[error("deadlock: every thread waits for ever ({0})")]
    Deadlock(String),
    /// There were more events than the run was to have.
    #[error("no end after {0} events; raise events_max if it needs more")]
    Events(u64),
    /// It took more simulated time than it was to take.
    #[error("no end after {0} ns of simulated time; raise time_max_ns if it needs more")]
    Time(u64),
    /// A thread panicked.
    #[error("thread `{thread}` panicked: {message}")]
    Panic {
        /// Its name.
        thread: String,
        /// What it said.
        message: String,
    },
    /// An atomic was dropped while another thread's store to it was still in a store buffer.
    #[error("thread `{thread}` had a store pending to an atomic that was dropped (line {line})")]
    StoreToDropped {
        /// The name of the thread that stored.
        thread: String,
        /// The line.
        line: u32,
    },
    /// An atomic, or memory of the machine that is not atomic, was touched after it was dropped.
    #[error("thread `{thread}` touched memory that was dropped")]
    TouchedAfterDrop {
        /// The name of the thread.
        thread: String,
    },
    /// A fence that relies on a read-modify-write in front of it has none.
    #[error(
        "thread `{thread}` made a fence that no read-modify-write stands in front of: on some machines it is none"
    )]
    BareFence {
        /// The name of the thread.
        thread: String,
    },
    /// Two threads used a cell, one of them to write it, and nothing orders the two.
    #[error(
        "race: thread `{second}` {does} what thread `{first}` {did}, and no ordering stands between the two"
    )]
    Race {
        /// The name of the thread that came first.
        first: String,
        /// What it did: `read` or `wrote`.
        did: &'static str,
        /// The name of the thread that came second.
        second: String,
        /// What that one did.
        does: &'static str,
    },
    /// What the run itself found wrong ([`fail`](super::fail)).
    #[error("{0}")]
    Oracle(String),
}

/// One event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it began, in ns of simulated time.
    pub time_ns: u64,
    /// Where.
    pub cpu: u32,
    /// The number of the thread, in the order in which they were started.
    pub thread: u32,
    /// What it was.
    pub kind: EventKind,
    /// The line, for an access; else what the kind says.
    pub line: u32,
}

/// What an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// A load.
    Load,
    /// A store; under `tso` its entry into the buffer.
    Store,
    /// A read-modify-write.
    Rmw,
    /// A store left the buffer.
    Drain,
    /// A fence.
    Fence,
    /// A read of memory that is not atomic.
    Read,
    /// A write of such memory.
    Write,
    /// The clock was read.
    Clock,
    /// A hint that the CPU spins.
    Relax,
    /// The CPU worked; the line is how many ns.
    Work,
    /// The thread was started; the line is the number of the starter.
    Start,
    /// The thread ended.
    End,
    /// It waits for the end of another; the line is that one's number.
    Join,
    /// It falls asleep in a parker; the line is 0 for a futex, 1 for an eventfd.
    Park,
    /// It woke up in its parker; the line is 0 for a ring, 1 for the deadline, 2 for no reason, 3 for
    /// descriptors.
    Unpark,
    /// It rings; the line is the number of the thread that this wakes, or `u32::MAX`.
    Ring,
    /// It begins to spin on a line.
    Spin,
    /// The line that it spins on has changed, or the time is over.
    SpinEnd,
    /// It goes to sleep for a time.
    Sleep,
    /// It gets its CPU.
    Dispatch,
    /// Another thread takes the CPU from it.
    Preempt,
    /// It changes its policy or its CPU.
    Policy,
    /// A fault happened; the line is 0 for a thread taken off its CPU, 1 for a clock jump, 2 for
    /// a late wake, 3 for a spurious one, and 4 plus the number of a CPU that takes no interrupts.
    Fault,
    /// A note of the program ([`note`](super::note)); the line is its number.
    Note,
    /// A descriptor becomes ready; the line is its number.
    Ready,
    /// Another syscall of input and output; the line is the number of what it is about.
    Syscall,
}

impl EventKind {
    /// Its name, as traces show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Load => "load",
            EventKind::Store => "store",
            EventKind::Rmw => "rmw",
            EventKind::Drain => "drain",
            EventKind::Fence => "fence",
            EventKind::Read => "read",
            EventKind::Write => "write",
            EventKind::Clock => "clock",
            EventKind::Relax => "relax",
            EventKind::Work => "work",
            EventKind::Start => "start",
            EventKind::End => "end",
            EventKind::Join => "join",
            EventKind::Park => "park",
            EventKind::Unpark => "unpark",
            EventKind::Ring => "ring",
            EventKind::Spin => "spin",
            EventKind::SpinEnd => "spin_end",
            EventKind::Sleep => "sleep",
            EventKind::Dispatch => "dispatch",
            EventKind::Preempt => "preempt",
            EventKind::Policy => "policy",
            EventKind::Fault => "fault",
            EventKind::Note => "note",
            EventKind::Ready => "ready",
            EventKind::Syscall => "syscall",
        }
    }
}

/// Who is told of every event, as it happens.
pub type Sink = Box<dyn FnMut(&Event)>;
