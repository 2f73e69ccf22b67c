//! The configuration of a run of the simulated machine, and its outcome.

use super::spec::{MachineSpec, Range};
use crate::mark::Marks;

/// The memory model: when a thread's stores become visible to other threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Every access takes effect at once, in one order (sequential consistency).
    #[default]
    Sc,
    /// Stores wait in a buffer of their thread; only that thread sees them. They drain in order, after a
    /// while, or at once at a read-modify-write, a syscall or a switch of threads (x86's total store order).
    Tso,
}

/// What threads block on in their parkers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parkers {
    /// A futex: one syscall to wait, in which the kernel tests the word, and one to wake. A ring is lost if
    /// no thread sleeps.
    #[default]
    Futex,
    /// An eventfd, as for a thread that also waits for descriptors: `epoll_wait` and a read that empties it
    /// to wait, and a write to wake. A ring while no thread sleeps ends the next wait, which is then
    /// spurious.
    Eventfd,
    /// The seed draws the kind of each parker.
    Mixed,
}

/// How often a poller reports that a descriptor is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edges {
    /// At most once for each time that it was made ready.
    #[default]
    Strict,
    /// Sometimes once more without cause, as the seed decides.
    Generous,
}

/// The configuration of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Determines everything that is left open: ties, varying costs, drains, faults, random numbers.
    pub seed: u64,
    /// The machine.
    pub machine: MachineSpec,
    /// The memory model.
    pub memory: Memory,
    /// What threads block on.
    pub parkers: Parkers,
    /// How often pollers report a descriptor.
    pub edges: Edges,
    /// What goes wrong.
    pub faults: Faults,
    /// The clock's first value.
    pub clock_start_ns: u64,
    /// The number of events at which the run fails.
    pub events_max: u64,
    /// The simulated time after which the run fails.
    pub time_max_ns: u64,
    /// The size of a thread's stack in bytes.
    pub stack_bytes: usize,
    /// Whether to report races: accesses to a cell that the orderings of the atomics do not order. Each
    /// access then takes host time that grows with the number of threads. Only under [`Memory::Sc`].
    pub races: bool,
    /// Whether code of a user's ([`Machine::user`](crate::Machine::user)) is whole: no other thread runs before it has
    /// returned, except where it waits or [works](super::work). So locks that the machine does not know are free
    /// whenever another thread runs.
    pub whole_polls: bool,
    /// Whether the cache line of something that is dropped comes back as an allocator's memory does: to the CPU that
    /// made it, and out of the cache that has it. Else whatever is made lies in no cache yet.
    pub lines_reused: bool,
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
            whole_polls: false,
            lines_reused: false,
        }
    }
}

/// The faults of a run, until the program ends them ([`end_faults`](super::end_faults)).
///
/// Chances are per million, for each event or each occasion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The chance that a thread is taken off its CPU at an event.
    pub deschedule_chance: u32,
    /// How long it stays off.
    pub deschedule_ns: Range,
    /// The chance that a thread is starved from an event on: it gets no CPU for a long time. One thread at a
    /// time.
    pub starve_chance: u32,
    /// How long it is starved.
    pub starve_ns: Range,
    /// The threads that can be starved, by their numbers in the order of their start.
    pub starved: std::ops::Range<u32>,
    /// The chance that a park ends spuriously.
    pub spurious_chance: u32,
    /// The time after which it ends.
    pub spurious_ns: Range,
    /// The chance that a wake, or the end of a sleep, comes late.
    pub late_chance: u32,
    /// The time by which it is late.
    pub late_ns: Range,
    /// The chance that a random CPU takes no interrupts from an event on. Its thread runs on; wakes,
    /// deadlines and slice ends wait until the CPU takes interrupts again, and then come as one.
    pub mask_chance: u32,
    /// How long it takes none.
    pub mask_ns: Range,
    /// The chance that the clock jumps ahead at an event.
    pub clock_jump_chance: u32,
    /// How far it jumps.
    pub clock_jump_ns: Range,
    /// Slow CPUs: the number, and how long everything takes there in per cent.
    pub slow_cpus: Vec<(usize, u64)>,
    /// Faults at given events.
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
            clock_jump_chance: 0,
            clock_jump_ns: never,
            slow_cpus: Vec::new(),
            planned: Vec::new(),
        }
    }
}

/// A fault at a given event, or at the next one if it cannot happen there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The number of the event; the first one is 1.
    pub event: u64,
    /// What happens there.
    pub fault: Fault,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The thread that makes the event is taken off its CPU.
    Deschedule {
        /// How long.
        ns: u64,
    },
    /// A CPU takes no interrupts.
    Mask {
        /// The number of the CPU.
        cpu: usize,
        /// How long.
        ns: u64,
    },
    /// The clock jumps ahead, at most to its end.
    ClockJump {
        /// How far.
        ns: u64,
    },
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The hash of all events in order: two runs with the same hash were the same.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// How much simulated time passed.
    pub time_ns: u64,
    /// Calls of `ring`.
    pub rings: u64,
    /// Those of them that found no thread asleep.
    pub rings_vain: u64,
    /// How often a thread fell asleep in a parker.
    pub parks: u64,
    /// How many of these sleeps a ring ended.
    pub parks_rung: u64,
    /// Faults that happened.
    pub faults: u64,
    /// Wakes and deadlines that had to wait because their CPU took no interrupts.
    pub interrupts_held: u64,
    /// Those of them that then came together with an earlier one.
    pub interrupts_merged: u64,
    /// The rare branches that were reached.
    pub marks: Marks,
    /// The threads, in the order of their start.
    pub threads: Vec<ThreadReport>,
    /// The first panics of a run of [`run_apart`](super::run_apart()): their places and messages.
    pub panics: Vec<String>,
    /// If the run had no end, the tasks that have not ended, on lines of their own.
    pub tasks: String,
    /// The first failure, which ended the run.
    pub failure: Option<Failure>,
}

/// One thread of a run that is over.
#[derive(Clone, Debug)]
pub struct ThreadReport {
    /// Its name.
    pub name: String,
    /// The CPU on which it ran last.
    pub cpu: usize,
    /// What it did at the end.
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
    /// The run reached [`Config::events_max`].
    #[error("no end after {0} events; raise events_max if it needs more")]
    Events(u64),
    /// It took longer than [`Config::time_max_ns`].
    #[error("no end after {0} ns of simulated time; raise time_max_ns if it needs more")]
    Time(u64),
    /// A thread panicked.
    #[error("thread `{thread}` panicked: {message}")]
    Panic {
        /// Its name.
        thread: String,
        /// The panic's message.
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
    /// Something was touched that belongs to a world of another OS thread, or to an earlier run on one.
    #[error(
        "thread `{thread}` used something (a lock, a task, a waker) that was made in another run; make it inside the program, anew in each run, and keep it out of statics"
    )]
    Elsewhere {
        /// The name of the thread.
        thread: String,
    },
    /// A thread that unwinds has to wait, in a drop. No other thread can run meanwhile, because it would seem to unwind.
    #[error(
        "thread `{thread}` waits in a drop while a panic unwinds it, which cannot be simulated; do not block in that drop (`std::thread::panicking` tells), or mend the panic"
    )]
    WaitsInPanic {
        /// The name of the thread.
        thread: String,
    },
    /// A fence that relies on a read-modify-write directly before it has none there.
    #[error(
        "thread `{thread}` made a fence that no read-modify-write stands in front of: on some machines it is none"
    )]
    BareFence {
        /// The name of the thread.
        thread: String,
    },
    /// Two threads accessed a cell, at least one of them to write it, and nothing orders the two accesses.
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
        /// What that one did: `read` or `wrote`.
        does: &'static str,
    },
    /// What an oracle of the runtime found wrong ([`watch`](super::seeds::watch)).
    #[error("the runtime broke a promise of its own, so please report this: {0}")]
    Runtime(String),
    /// What the program itself found wrong ([`fail`](super::fail)).
    #[error("{0}")]
    Oracle(String),
}

/// One event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it began, in ns of simulated time.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// The number of the thread, in the order of their start.
    pub thread: u32,
    /// What it was.
    pub kind: EventKind,
    /// For an access the number of the cache line; else what the kind says.
    pub line: u32,
}

/// What an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// A load.
    Load,
    /// A store; under [`Memory::Tso`] its entry into the buffer.
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
    /// The thread worked; the line is the time in ns.
    Work,
    /// The thread started another one; the line is that one's number.
    Start,
    /// The thread ended.
    End,
    /// The thread waits for the end of another one; the line is that one's number.
    Join,
    /// The thread falls asleep in a parker; the line is 0 for a futex, 1 for an eventfd.
    Park,
    /// The thread woke up in its parker; the line is 0 for a ring, 1 for the deadline, 2 for a spurious wake,
    /// 3 for descriptors.
    Unpark,
    /// The thread rings; the line is the number of the thread that this wakes, or `u32::MAX`.
    Ring,
    /// The thread begins to spin on a line.
    Spin,
    /// The line on which the thread spins has changed, or the time is over.
    SpinEnd,
    /// The thread goes to sleep for a time.
    Sleep,
    /// The thread gets its CPU.
    Dispatch,
    /// Another thread takes the CPU from this one.
    Preempt,
    /// The thread changes its policy or its CPU.
    Policy,
    /// A fault happened. The line is 0 for a thread taken off its CPU, 1 for a clock jump, 2 for a late wake,
    /// 3 for a spurious wake, and 4 plus the number of a CPU that takes no interrupts.
    Fault,
    /// A note of the program ([`note`](super::note)); the line is its number.
    Note,
    /// A descriptor becomes ready; the line is its number.
    Ready,
    /// Another syscall of input or output; the line is the number of the descriptor or poller.
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

/// A function that gets every event as it happens.
pub type Sink = Box<dyn FnMut(&Event)>;
