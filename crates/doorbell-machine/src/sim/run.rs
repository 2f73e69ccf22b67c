//! A run, from the start of a world's first thread to the end of its last.

use super::config::{Config, EventKind, Failure, Outcome, Sink, ThreadReport};
use super::lines::NOBODY;
use super::queue::What;
use super::spec::SpecError;
use super::thread::{Doing, Thread};
use super::world::{World, has_whole, look, set_current, set_whole, step};
use crate::Policy;
use crate::{ThreadError, ThreadHandle, ThreadSpec, slots};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The function that a thread runs.
type Body = Box<dyn FnOnce()>;

type Routine = Coroutine<(), (), (), DefaultStack>;

/// A thread that was started and has no coroutine yet.
pub(super) struct Born {
    body: Body,
    stack: DefaultStack,
}

/// Why a run cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The machine cannot be simulated.
    #[error("this machine cannot be simulated: {0}")]
    Spec(#[from] SpecError),
    /// The caller is inside a run.
    #[error("a run inside a run; begin it from a thread of the OS")]
    Inside,
    /// The thread that would run it unwinds, or was left in the midst of that by a run.
    #[error("the thread unwinds; begin a run on another")]
    Unwinds,
    /// There is no memory for a stack.
    #[error("no stack for a simulated thread: {0}; lower stack_bytes or the number of threads")]
    Stack(#[from] std::io::Error),
    /// The OS refused the thread of the run.
    #[error("the OS did not start the thread of a run: {0}; raise the limit on threads")]
    Thread(#[source] std::io::Error),
    /// The program makes no step any more: see [`run_apart`](super::run_apart()).
    #[error(
        "for {0:?} the program made no step: it waits in the OS, where no simulated thread can wake it (a lock held over `work`, a channel of std, a sleep of std), or it computes without end"
    )]
    Silent(std::time::Duration),
    /// The thread of the run ended without a result.
    #[error("the thread of the run ended before the run did")]
    Died,
}

thread_local! {
    /// Free stacks, and their size. They are kept because making one takes longer than a small run.
    static STACKS: RefCell<(usize, Vec<DefaultStack>)> = const { RefCell::new((0, Vec::new())) };
}

fn take_stack(bytes: usize) -> std::io::Result<DefaultStack> {
    let kept = STACKS.with_borrow_mut(|(size, stacks)| {
        if *size != bytes {
            *size = bytes;
            stacks.clear();
        }
        stacks.pop()
    });
    kept.map_or_else(|| DefaultStack::new(bytes), Ok)
}

fn keep_stack(bytes: usize, stack: DefaultStack) {
    STACKS.with_borrow_mut(|(size, stacks)| {
        if *size == bytes {
            stacks.push(stack);
        }
    });
}

/// Runs `body` as the first thread of a simulated machine, on CPU 0, until all threads have ended or the run
/// has failed. A run that fails leaks what its threads have allocated.
///
/// The whole run happens on the calling OS thread, so all threads of the run share `thread_local!` values.
///
/// # Errors
/// [`RunError`] says why the run cannot begin.
pub fn run(config: Config, body: impl FnOnce() + 'static) -> Result<Outcome, RunError> {
    run_traced(config, None, body)
}

/// As [`run`], and passes every event to `sink`.
///
/// # Errors
/// As for [`run`].
pub fn run_traced(
    config: Config,
    sink: Option<Sink>,
    body: impl FnOnce() + 'static,
) -> Result<Outcome, RunError> {
    run_watched(config, sink, Arc::default(), body)
}

/// As [`run_traced`], and stores the number of events in `events` now and then.
pub(super) fn run_watched(
    config: Config,
    sink: Option<Sink>,
    events: Arc<AtomicU64>,
    body: impl FnOnce() + 'static,
) -> Result<Outcome, RunError> {
    config.machine.check()?;
    if has_whole() {
        return Err(RunError::Inside);
    }
    if std::thread::panicking() {
        return Err(RunError::Unwinds);
    }
    let stack_bytes = config.stack_bytes;
    let stack = take_stack(stack_bytes)?;
    let mut world = Box::new(World::new(config, sink));
    world.watched = events;
    let spec = ThreadSpec {
        name: "main".to_owned(),
        cpu: Some(0),
        stack_size: None,
    };
    let body = Box::new(body);
    world.start(spec, 0, Born { body, stack }, 0);
    let world: *mut World = Box::into_raw(world);
    let mut routines = Vec::new();
    set_whole(world);
    let outer = slots::Slots::new();
    // SAFETY: until the slots are swapped back below, only threads of the run use them.
    unsafe { slots::swap(&outer) };
    // SAFETY: made above, and freed below.
    unsafe { go_on(world, &mut routines) };
    // SAFETY: as above.
    unsafe { slots::swap(&outer) };
    set_whole(std::ptr::null_mut());
    // SAFETY: from the box above, and no thread of the world runs any more.
    let mut world = unsafe { Box::from_raw(world) };
    world.forget_all_stores();
    for routine in routines.into_iter().flatten() {
        abandon(stack_bytes, routine);
    }
    Ok(world.into_outcome())
}

/// Ends a thread that will not go on. What lies on its stack is leaked, because dropping it outside of the
/// run may be wrong.
fn abandon(stack_bytes: usize, mut routine: Routine) {
    if !routine.done() {
        // SAFETY: what is on the stack is never used again: the world is gone, and only its threads refer to
        // each other's stacks.
        unsafe { routine.force_reset() };
    }
    keep_stack(stack_bytes, routine.into_stack());
}

/// Runs the world until nothing happens any more, or it has failed.
///
/// # Safety
/// `world` is alive, and there is no other reference to it.
unsafe fn go_on(world: *mut World, routines: &mut Vec<Option<Routine>>) {
    // The thread whose slots are in place.
    let mut placed = NOBODY;
    loop {
        // SAFETY: the caller's promise; the reference ends before a thread of the world runs.
        let it = unsafe { &mut *world };
        let Some(due) = it.pop() else {
            // SAFETY: passed on from the caller.
            return unsafe { end(world) };
        };
        if due.time_ns > it.config.time_max_ns {
            return it.check_time();
        }
        let Some(thread) = it.happen(due) else {
            continue;
        };
        if placed != thread {
            if placed != NOBODY {
                // SAFETY: this gives the thread its own slots back.
                unsafe { slots::swap(&it.threads[placed as usize].slots) };
            }
            // SAFETY: the thread runs next.
            unsafe { slots::swap(&it.threads[thread as usize].slots) };
            placed = thread;
        }
        for Born { body, stack } in it.born.drain(..) {
            routines.push(Some(routine(body, stack)));
        }
        let Some(routine) = &mut routines[thread as usize] else {
            continue;
        };
        set_current(world);
        let result = routine.resume(());
        set_current(std::ptr::null_mut());
        // SAFETY: as above.
        let it = unsafe { &mut *world };
        it.watched.store(it.events, Ordering::Relaxed);
        if let CoroutineResult::Return(()) = result {
            let stack = routines[thread as usize].take().map(Coroutine::into_stack);
            if let Some(stack) = stack {
                keep_stack(it.config.stack_bytes, stack);
            }
        }
        if it.failure.is_some() {
            break;
        }
    }
    // SAFETY: as above.
    let it = unsafe { &mut *world };
    if placed != NOBODY {
        // SAFETY: this gives the thread its own slots back.
        unsafe { slots::swap(&it.threads[placed as usize].slots) };
    }
}

/// Nothing happens any more. If threads wait for ever, that may be the fault of the runtime.
///
/// # Safety
/// As for [`go_on`].
unsafe fn end(world: *mut World) {
    // SAFETY: the caller's promise; the reference ends before the oracle looks at what lies in the world.
    let it = unsafe { &mut *world };
    it.check_end();
    let oracle = it.oracle.take();
    let oracle = oracle.filter(|_| matches!(it.failure, Some(Failure::Deadlock(_))));
    if let Some(Err(why)) = oracle.map(|oracle| oracle()) {
        // SAFETY: as above; the oracle has returned.
        unsafe { &mut *world }.failure = Some(Failure::Runtime(why));
    }
}

/// The coroutine of a thread.
fn routine(body: Body, stack: DefaultStack) -> Routine {
    Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
        let _ = look(|world| world.threads[world.current as usize].yielder = yielder);
        let mut result = catch_unwind(AssertUnwindSafe(body));
        if result.is_ok() {
            result = catch_unwind(end_pool);
        }
        let message = result.err().map(|payload| message_of(&*payload));
        let _ = step(World::flush);
        let _ = look(|world| world.end_thread(message));
    })
}

/// Ends the pool that the thread has in its slot.
fn end_pool() {
    let end = look(|world| {
        let it = &mut world.threads[world.current as usize];
        it.ending = true;
        it.pool_end.take()
    });
    if let Some(end) = end.flatten() {
        // SAFETY: null is always allowed in the slot.
        let pool = unsafe { slots::replace_pool(std::ptr::null()) };
        // SAFETY: the caller of `set_pool_slot` allows this call, with the pointer that it stored.
        unsafe { end(pool) };
    }
}

pub(super) fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "something that is no text".to_owned())
}

impl World {
    /// Starts a thread, which becomes ready after `after_ns`.
    fn start(&mut self, spec: ThreadSpec, cpu: u32, born: Born, after_ns: u64) -> u32 {
        let thread = self.threads.len() as u32;
        self.threads
            .push(Thread::new(spec.name, cpu, Policy::default()));
        let starter = (self.current != NOBODY).then_some(self.current);
        if let Some(races) = &mut self.races {
            races.begin(thread, starter);
        }
        self.cpus[cpu as usize].threads += 1;
        self.born.push(born);
        let time_ns = self.now_ns.saturating_add(after_ns);
        self.schedule(time_ns, What::Wake, thread, 0);
        thread
    }

    /// The CPU with the fewest threads.
    pub(super) fn emptiest_cpu(&self, among: impl Iterator<Item = usize>) -> Option<usize> {
        among.min_by_key(|cpu| self.cpus[*cpu].threads)
    }

    fn end_thread(&mut self, panicked: Option<String>) {
        let (thread, cpu) = (self.current, self.cpu);
        self.event(EventKind::End, 0, 0);
        let it = &mut self.threads[thread as usize];
        it.doing = Doing::Ended;
        it.turn = it.turn.wrapping_add(1);
        it.panicked = panicked.is_some();
        let joiners = std::mem::take(&mut it.joiners);
        if let Some(message) = panicked {
            let thread = it.name.clone();
            self.fail(Failure::Panic { thread, message });
        }
        for joiner in joiners {
            self.tell(joiner);
        }
        self.cpus[cpu as usize].threads -= 1;
        self.leave_cpu(cpu, self.now_ns);
    }

    fn has_ended(&self) -> bool {
        self.threads.iter().all(|it| it.doing == Doing::Ended)
    }

    /// Nothing happens any more. The run fails with a deadlock, unless all threads have ended.
    fn check_end(&mut self) {
        let left = self.threads.iter().filter(|it| it.doing != Doing::Ended);
        let left: Vec<String> = left
            .map(|it| format!("{} {}", it.name, it.doing.name()))
            .collect();
        if !left.is_empty() {
            self.fail(Failure::Deadlock(left.join(", ")));
        } else if !self.tasks.have_ended() {
            let why = "a task has not ended, although all threads have";
            self.fail(Failure::Runtime(why.to_owned()));
        }
    }

    /// What is due next comes after the last moment of the run. If all threads have ended, nobody waits for it any more.
    fn check_time(&mut self) {
        if !self.has_ended() {
            self.fail(Failure::Time(self.config.time_max_ns));
        }
    }

    fn into_outcome(self) -> Outcome {
        let report = |it: &Thread| ThreadReport {
            name: it.name.clone(),
            cpu: it.cpu as usize,
            doing: it.doing.name(),
            last: it.last(),
        };
        let mut outcome = Outcome {
            hash: self.hash,
            events: self.events,
            time_ns: self.now_ns,
            rings: self.tally.rings,
            rings_vain: self.tally.rings_vain,
            parks: self.tally.parks,
            parks_rung: self.tally.parks_rung,
            faults: self.tally.faults,
            interrupts_held: self.tally.interrupts_held,
            interrupts_merged: self.tally.interrupts_merged,
            marks: self.tally.marks,
            threads: self.threads.iter().map(report).collect(),
            panics: self.panics,
            tasks: String::new(),
            failure: self.failure,
        };
        let has_no_end = matches!(
            outcome.failure,
            Some(
                Failure::Deadlock(_) | Failure::Events(_) | Failure::Time(_) | Failure::Runtime(_)
            )
        );
        if has_no_end {
            outcome.tasks = self.tasks.shown(outcome.end_ns());
        }
        outcome
    }
}

/// A started thread of a world.
#[derive(Debug)]
pub struct SimThread {
    world: u32,
    thread: u32,
}

impl SimThread {
    /// Its number, in the order in which threads were started, as [`thread`](super::thread) returns it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.thread
    }

    fn ask<R>(&self, f: impl FnOnce(&World, &Thread) -> R) -> Option<R> {
        look(|world| {
            (world.number == self.world).then(|| f(world, &world.threads[self.thread as usize]))
        })
        .flatten()
    }
}

impl ThreadHandle for SimThread {
    fn join(self) -> Result<(), ThreadError> {
        if self.ask(|_, _| ()).is_some() {
            super::wait::join(self.thread);
        }
        if self.ask(|_, it| it.panicked) == Some(true) {
            return Err(ThreadError::Panicked);
        }
        Ok(())
    }

    fn is_current(&self) -> bool {
        self.ask(|world, _| world.current == self.thread) == Some(true)
    }

    /// `true` after the end of its world too.
    fn is_finished(&self) -> bool {
        self.ask(|_, it| it.doing == Doing::Ended) != Some(false)
    }
}

/// Starts a thread of the world that the caller runs in.
pub(super) fn spawn(
    spec: ThreadSpec,
    body: Box<dyn FnOnce() + Send>,
) -> Result<SimThread, ThreadError> {
    let failed = |name: &str, source| ThreadError::Spawn {
        name: name.to_owned(),
        source,
    };
    let outside = || std::io::Error::other("the caller is no thread of a simulated machine");
    let sizes = look(|world| (world.config.stack_bytes, world.cpus.len()));
    let (stack_bytes, cpus) = sizes.ok_or_else(|| failed(&spec.name, outside()))?;
    if let Some(cpu) = spec.cpu.filter(|cpu| *cpu >= cpus) {
        let source = std::io::ErrorKind::InvalidInput.into();
        let name = spec.name;
        return Err(ThreadError::Bind { name, cpu, source });
    }
    let stack = take_stack(stack_bytes).map_err(|source| failed(&spec.name, source))?;
    let name = spec.name.clone();
    let thread = step(move |world| {
        world.flush();
        let costs = world.config.machine.costs;
        let all = 0..world.cpus.len();
        let cpu = spec.cpu.or_else(|| world.emptiest_cpu(all)).unwrap_or(0);
        let after_ns = costs.spawn_ns + costs.ipi_latency_ns;
        let thread = world.start(spec, cpu as u32, Born { body, stack }, after_ns);
        world.event(EventKind::Start, thread, costs.spawn_ns);
        SimThread {
            world: world.number,
            thread,
        }
    });
    thread.ok_or_else(|| failed(&name, outside()))
}
