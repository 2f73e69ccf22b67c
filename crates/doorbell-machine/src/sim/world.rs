//! The world: the state of one run of the simulated machine, and how its time advances.

use super::config::{Config, Event, EventKind, Failure, Memory};
use super::lines::{Lines, NOBODY};
use super::poller::Io;
use super::queue::{Due, Queue, What};
use super::races::Races;
use super::rng::Rng;
use super::sched::Cpu;
use super::seeds::{Oracle, Tasks};
use super::thread::{Doing, Thread};
use super::{Sink, words};
use crate::mark::Marks;
use corosensei::Yielder;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

thread_local! {
    /// The world whose thread runs now; null otherwise, in particular while the world's own code chooses the
    /// next thread.
    static WORLD: Cell<*mut World> = const { Cell::new(std::ptr::null_mut()) };
    /// The world of this OS thread during its whole run.
    static WHOLE: Cell<*mut World> = const { Cell::new(std::ptr::null_mut()) };
    /// The number of this OS thread; 0 until it has had a world.
    static HOME: Cell<u32> = const { Cell::new(0) };
}

/// How many OS threads have had a world.
static HOMES: AtomicU32 = AtomicU32::new(0);

/// The number of this OS thread; 0 if it has never had a world.
pub(super) fn home() -> u32 {
    HOME.get()
}

/// The next number of a world. By the number an atomic knows whether its line is one of this world.
static WORLDS: AtomicU32 = AtomicU32::new(0);

/// After how many events, at the latest, the watch over the run learns of them.
const TOLD_EVERY: u64 = 4_096;

/// How many panics of a run are noted.
const PANICS_NOTED: usize = 8;

/// Sets the world whose thread runs now on this OS thread; null for none.
pub(super) fn set_current(world: *mut World) {
    WORLD.set(world);
}

/// Sets the world of this OS thread; null for none.
pub(super) fn set_whole(world: *mut World) {
    WHOLE.set(world);
}

/// Whether this OS thread has a world already.
pub(super) fn has_whole() -> bool {
    !WHOLE.get().is_null()
}

/// Calls `f` with the world of this OS thread. For drops, which may happen inside or outside of a simulated
/// thread, but not in the world's own code.
pub(super) fn look_from_anywhere<R>(f: impl FnOnce(&mut World) -> R) -> Option<R> {
    let world = WHOLE.get();
    // SAFETY: as in `step`; there is no reference to the world while a program's code runs.
    (!world.is_null()).then(|| f(unsafe { &mut *world }))
}

/// Whether the caller runs on a simulated thread.
#[inline]
pub(super) fn is_inside() -> bool {
    !WORLD.get().is_null()
}

/// Whether the caller is inside code that no switch may interrupt.
pub(super) fn is_whole() -> bool {
    look_anyway(|world| world.is_whole()) == Some(true)
}

/// The world of the simulated thread that calls this. `None` while it unwinds: a step in a drop could switch
/// to another thread, which would then seem to unwind. In code of a user's that is whole no step switches.
#[inline]
fn current() -> Option<*mut World> {
    let world = WORLD.get();
    // SAFETY: as in `step`.
    let is_whole = || unsafe { (*world).is_whole() };
    (!world.is_null() && (!std::thread::panicking() || is_whole())).then_some(world)
}

/// While it lives, the running thread is inside code of a user's, which is whole if the configuration says so.
pub(super) struct Whole(bool);

impl Whole {
    pub(super) fn new() -> Self {
        let is_counted = look_anyway(|world| {
            let counts = world.config.whole_polls;
            world.threads[world.current as usize].in_user += u32::from(counts);
            counts
        });
        Whole(is_counted == Some(true))
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if self.0 {
            let _ = look_anyway(|world| world.threads[world.current as usize].in_user -= 1);
        }
    }
}

/// While it lives, the running thread can be switched inside code of a user's too, unless it unwinds.
pub(super) struct Interruptible(u32);

impl Interruptible {
    pub(super) fn new() -> Self {
        let of =
            |world: &mut World| std::mem::take(&mut world.threads[world.current as usize].in_user);
        Interruptible(if std::thread::panicking() {
            0
        } else {
            look(of).unwrap_or(0)
        })
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        if self.0 > 0 {
            let _ = look_anyway(|world| world.threads[world.current as usize].in_user = self.0);
        }
    }
}

/// Makes one step of the running thread: does `f`, and then gives way if its clock has passed that of another
/// thread. `None` outside of any world.
#[inline]
pub(super) fn step<R>(f: impl FnOnce(&mut World) -> R) -> Option<R> {
    let world = current()?;
    let (result, yielder) = inside(world, |world| {
        let result = f(world);
        (result, world.give_way())
    });
    if let Some(yielder) = yielder {
        suspend(yielder);
    }
    Some(result)
}

/// As [`step`], but never gives way: for what takes no time.
pub(super) fn look<R>(f: impl FnOnce(&mut World) -> R) -> Option<R> {
    current().map(|world| inside(world, f))
}

/// As [`look`], but works while the thread unwinds too.
pub(super) fn look_anyway<R>(f: impl FnOnce(&mut World) -> R) -> Option<R> {
    let world = WORLD.get();
    (!world.is_null()).then(|| inside(world, f))
}

/// Calls the world's own code. An allocator or a sink that it calls is outside of the world, so what it asks for, as the
/// time, is no step inside of a step.
#[inline]
fn inside<R>(world: *mut World, f: impl FnOnce(&mut World) -> R) -> R {
    let _back = Back::leave();
    // SAFETY: the world lives while its threads run. The reference ends before another thread runs: `f` is the world's
    // own code, which runs no thread, and whatever it calls finds no world.
    f(unsafe { &mut *world })
}

/// Goes back into the world when it is dropped.
struct Back(*mut World);

impl Back {
    #[inline]
    fn leave() -> Self {
        Back(WORLD.replace(std::ptr::null_mut()))
    }
}

impl Drop for Back {
    #[inline]
    fn drop(&mut self) {
        set_current(self.0);
    }
}

/// Makes the running thread wait: `f` takes it off its CPU, and it gives way until the world resumes it.
/// Returns at once if `f` returns [`Waits::No`].
pub(super) fn wait(f: impl FnOnce(&mut World) -> Waits) {
    let Some(world) = current() else { return };
    let yielder = inside(world, |world| {
        let it = &world.threads[world.current as usize];
        let yielder = it.yielder;
        if std::thread::panicking() {
            let thread = it.name.clone();
            world.fail(Failure::WaitsInPanic { thread });
            return Some(yielder);
        }
        match f(world) {
            Waits::Yes => Some(yielder),
            Waits::No => None,
        }
    });
    if let Some(yielder) = yielder {
        suspend(yielder);
    }
}

/// Whether a thread has to wait.
#[must_use]
pub(super) enum Waits {
    Yes,
    No,
}

#[inline]
fn suspend(yielder: *const Yielder<(), ()>) {
    // SAFETY: the running thread set it when it began, and it lies in an outer frame of that thread's stack.
    unsafe { &*yielder }.suspend(());
}

/// Calls `f` outside of the world: its accesses are no events.
pub(super) fn outside<R>(f: impl FnOnce() -> R) -> R {
    let _back = Back::leave();
    f()
}

/// The state of one run.
pub(super) struct World {
    /// Neither 0 nor `u32::MAX`.
    pub(super) number: u32,
    /// The number of the OS thread that it runs on.
    pub(super) home: u32,
    pub(super) config: Config,
    /// The clock of the running thread.
    pub(super) now_ns: u64,
    /// The running thread, and its CPU.
    pub(super) current: u32,
    pub(super) cpu: u32,
    /// How long everything takes on that CPU, in per cent.
    pub(super) slow_percent: u64,
    /// The time of the queue's first entry; exact while a thread runs.
    first_ns: u64,
    queue: Queue,
    /// The next entry, if it was taken out of the queue already.
    pub(super) next: Option<Due>,
    pub(super) rng: Rng,
    pub(super) program_rng: Rng,
    pub(super) lines: Lines,
    pub(super) races: Option<Box<Races>>,
    pub(super) io: Io,
    pub(super) cpus: Vec<Cpu>,
    pub(super) threads: Vec<Thread>,
    /// Threads that were started and have no coroutine yet.
    pub(super) born: Vec<super::run::Born>,
    pub(super) sink: Option<Sink>,
    pub(super) hash: u64,
    pub(super) events: u64,
    /// Where the watch over the run reads how many events there were.
    pub(super) watched: Arc<AtomicU64>,
    /// The number of the next event at which a fault or the end of the run is due.
    pub(super) special: u64,
    /// The number of the event at which a thread is descheduled.
    pub(super) deschedule: u64,
    /// The number of the event from which on the next thread is starved.
    pub(super) starve: u64,
    /// Until when the last thread was starved.
    pub(super) starved_until_ns: u64,
    /// The number of the event at which a CPU is masked.
    pub(super) mask: u64,
    /// The number of the event at which the clock jumps.
    pub(super) clock_jump: u64,
    /// How many of the planned faults have happened.
    pub(super) planned: usize,
    pub(super) is_faulty: bool,
    /// How far the program's clock has jumped.
    pub(super) clock_ahead_ns: u64,
    /// The tasks of the program.
    pub(super) tasks: Tasks,
    /// What the runtime is asked if all threads wait for ever.
    pub(super) oracle: Option<Oracle>,
    pub(super) tally: Tally,
    /// The first panics.
    pub(super) panics: Vec<String>,
    pub(super) failure: Option<Failure>,
}

/// What a world counts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) rings: u64,
    pub(super) rings_vain: u64,
    pub(super) parks: u64,
    pub(super) parks_rung: u64,
    pub(super) faults: u64,
    pub(super) interrupts_held: u64,
    pub(super) interrupts_merged: u64,
    pub(super) marks: Marks,
}

impl World {
    pub(super) fn new(config: Config, sink: Option<Sink>) -> Self {
        let spec = &config.machine;
        let mut cpus: Vec<Cpu> = (0..spec.cpus()).map(|_| Cpu::default()).collect();
        for (cpu, percent) in &config.faults.slow_cpus {
            if let Some(cpu) = cpus.get_mut(*cpu) {
                cpu.slow_percent = (*percent).max(1);
                cpu.percent = cpu.slow_percent;
            }
        }
        let mut world = World {
            number: next_number(),
            home: next_home(),
            now_ns: 0,
            current: NOBODY,
            cpu: 0,
            slow_percent: 100,
            first_ns: u64::MAX,
            queue: Queue::default(),
            next: None,
            rng: Rng::new(config.seed, 1),
            program_rng: Rng::new(config.seed, 2),
            lines: Lines::new(spec, config.lines_reused),
            races: config.looks_for_races().then(Box::default),
            io: Io::default(),
            cpus,
            threads: Vec::new(),
            born: Vec::new(),
            sink,
            hash: 0,
            events: 0,
            watched: Arc::default(),
            special: 0,
            deschedule: 0,
            starve: 0,
            starved_until_ns: 0,
            mask: 0,
            clock_jump: 0,
            planned: 0,
            is_faulty: true,
            clock_ahead_ns: 0,
            tasks: Tasks::default(),
            oracle: None,
            tally: Tally::default(),
            panics: Vec::new(),
            failure: None,
            config,
        };
        world.config.faults.planned.sort_by_key(|plan| plan.event);
        world.draw_faults();
        world
    }

    /// Records an event of a thread.
    #[inline]
    pub(super) fn record(
        &mut self,
        time_ns: u64,
        cpu: u32,
        thread: u32,
        kind: EventKind,
        line: u32,
    ) {
        self.events += 1;
        if self.events.is_multiple_of(TOLD_EVERY) {
            self.watched.store(self.events, Ordering::Relaxed);
        }
        let event = Event {
            time_ns,
            cpu,
            thread,
            kind,
            line,
        };
        let what = u64::from(kind as u8) << 56 | u64::from(cpu) << 44 | u64::from(thread);
        self.hash = mix(mix(self.hash, time_ns ^ what), u64::from(line));
        self.threads[thread as usize].record(event);
        if let Some(sink) = &mut self.sink {
            sink(&event);
        }
    }

    /// Records an event of the running thread, and charges its cost.
    #[inline]
    pub(super) fn event(&mut self, kind: EventKind, line: u32, cost_ns: u64) {
        self.record(self.now_ns, self.cpu, self.current, kind, line);
        self.charge(cost_ns);
    }

    #[inline]
    pub(super) fn charge(&mut self, cost_ns: u64) {
        let cost_ns = if self.slow_percent == 100 {
            cost_ns
        } else {
            cost_ns.saturating_mul(self.slow_percent) / 100
        };
        self.now_ns = self.now_ns.saturating_add(cost_ns);
    }

    /// Puts an entry into the queue.
    pub(super) fn schedule(&mut self, time_ns: u64, what: What, of: u32, turn: u32) {
        let due = self.due(time_ns, what, of, turn);
        self.queue.push(due);
        self.first_ns = self.first_ns.min(time_ns);
    }

    fn due(&mut self, time_ns: u64, what: What, of: u32, turn: u32) -> Due {
        Due {
            time_ns,
            tie: self.rng.next() as u32,
            of,
            what,
            turn,
        }
    }

    /// Called after a step. If another thread's turn has come, returns the yielder by which to give way.
    #[inline]
    fn give_way(&mut self) -> Option<*const Yielder<(), ()>> {
        if self.now_ns <= self.first_ns && self.events < self.special {
            return None;
        }
        self.give_way_slowly()
    }

    fn give_way_slowly(&mut self) -> Option<*const Yielder<(), ()>> {
        let yielder = self.threads[self.current as usize].yielder;
        if self.is_whole() {
            // Faults wait; the end of the run does not.
            if self.events >= self.config.events_max {
                self.fail(Failure::Events(self.events));
            }
            return self.failure.is_some().then_some(yielder);
        }
        if self.events >= self.special && self.is_stopped_by_a_fault() {
            return Some(yielder);
        }
        if self.failure.is_some() {
            return Some(yielder);
        }
        // A special event was the only reason to look: no entry of the queue is due.
        if self.now_ns <= self.queue.first_ns() {
            return None;
        }
        let turn = self.cpus[self.cpu as usize].turn;
        self.cpus[self.cpu as usize].resume_ns = self.now_ns;
        let due = self.due(self.now_ns, What::Cpu, self.cpu, turn);
        self.next = Some(self.queue.exchange(due));
        Some(yielder)
    }

    /// Ends the run with a failure, unless it has failed before.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
        // The running thread gives way at its next step.
        self.special = 0;
    }

    /// Notes a panic, if it is one of the first.
    pub(super) fn note_panic(&mut self, panic: String) {
        if self.panics.len() < PANICS_NOTED {
            self.panics.push(panic);
        }
    }

    /// The time by the program's clock.
    pub(super) fn clock_ns(&self) -> u64 {
        self.now_ns.saturating_add(self.clock_ahead())
    }

    /// The simulated time at which the program's clock shows `clock_ns`. `u64::MAX` means never, unless it
    /// comes within the run, so that a thread which waits for it does not hide a deadlock.
    pub(super) fn time_of_clock(&self, clock_ns: u64) -> u64 {
        let ahead_ns = self.clock_ahead();
        let time_ns = clock_ns.saturating_sub(ahead_ns);
        if clock_ns == u64::MAX && time_ns > self.config.time_max_ns {
            return u64::MAX;
        }
        time_ns
    }

    fn clock_ahead(&self) -> u64 {
        let start_ns = self.config.clock_start_ns;
        start_ns.saturating_add(self.clock_ahead_ns)
    }

    /// The next entry; `None` if nothing happens any more.
    pub(super) fn pop(&mut self) -> Option<Due> {
        self.next.take().or_else(|| self.queue.pop())
    }

    /// Makes an entry happen. Returns the thread that runs now, if one does.
    #[inline]
    pub(super) fn happen(&mut self, due: Due) -> Option<u32> {
        self.now_ns = due.time_ns;
        if due.what == What::Cpu {
            let cpu = &self.cpus[due.of as usize];
            if cpu.turn != due.turn {
                return None;
            }
            (self.current, self.cpu) = (cpu.current, due.of);
            self.slow_percent = cpu.percent;
            self.first_ns = self.queue.first_ns();
            return Some(self.current);
        }
        self.happen_to_others(due);
        None
    }

    fn happen_to_others(&mut self, due: Due) {
        let (of, time_ns) = (due.of, due.time_ns);
        match due.what {
            What::Drain if self.threads[of as usize].buffer.turn == due.turn => self.drain(of),
            What::Drain => {}
            What::Unmask => self.unmask(of, time_ns),
            What::Slice if self.is_held(of, due) => {}
            What::Slice => self.end_slice(of, due.turn, time_ns),
            What::Cpu | What::Wake | What::Deadline | What::Spurious => self.end_wait(due),
        }
    }

    /// Ends the wait of a thread, unless the entry is void.
    fn end_wait(&mut self, due: Due) {
        let thread = &self.threads[due.of as usize];
        if thread.turn != due.turn {
            return;
        }
        // A spinning thread has its CPU and looks at the clock itself. All others need an interrupt.
        if thread.doing == Doing::Spins {
            return self.end_spin(due.of, due.time_ns);
        }
        let cpu = thread.cpu;
        if !self.is_held(cpu, due) {
            self.join_ready(due);
            self.reschedule(cpu, due.time_ns);
        }
    }

    /// Whether the running thread is inside code that no switch may interrupt.
    fn is_whole(&self) -> bool {
        self.threads[self.current as usize].in_user > 0
    }

    pub(super) fn is_tso(&self) -> bool {
        self.config.memory == Memory::Tso
    }

    /// The line of an atomic. If it has none in this world, it gets a line of its own.
    #[inline]
    pub(super) fn line_of(&mut self, tag: &words::Tag) -> u32 {
        if let Some(line) = tag.line_in(self.number) {
            return line;
        }
        if tag.is_dropped() {
            let thread = self.threads[self.current as usize].name.clone();
            self.fail(Failure::TouchedAfterDrop { thread });
        }
        if !tag.belongs(self.home) {
            self.refuse();
        }
        let line = self.lines.add(self.cpu);
        tag.set_own(self.number, line);
        line
    }
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95)
}

/// The number of this OS thread, which gets one if it has none.
fn next_home() -> u32 {
    if HOME.get() == 0 {
        HOME.set(HOMES.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
    }
    HOME.get()
}

fn next_number() -> u32 {
    loop {
        let number = WORLDS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if number != 0 && number != u32::MAX {
            return number;
        }
    }
}
