//! The simulated machine: many CPUs and threads on one OS thread, decided by one seed.
//!
//! Each simulated thread is a coroutine with its own clock. A step (an access, a syscall, a reading of the
//! clock) takes effect when no other thread's clock is behind. It costs what it costs on the machine that the
//! [`MachineSpec`] describes. Then the thread goes on or gives way. So a run is one order of steps, which the
//! seed alone decides. That order is possible on the real machine, and the times are those of that machine,
//! as far as the model goes.
//!
//! ```
//! use doorbell_machine::{Machine, Ordering, Sim, Word, sim};
//!
//! let outcome = sim::run(sim::Config::default(), || {
//!     let word = <Sim as Machine>::U32::new(1);
//!     assert_eq!(word.fetch_add(1, Ordering::Relaxed), 1);
//!     sim::work(1_000);
//! });
//! let outcome = outcome.unwrap();
//! assert_eq!(outcome.failure, None);
//! assert!(outcome.time_ns > 1_000);
//! ```
//!
//! `docs/simulator.md` says what is modelled and what is not.

mod apart;
mod buffer;
mod cells;
mod config;
mod faults;
mod lines;
#[cfg(target_os = "linux")]
pub mod os;
mod poller;
pub mod profile;
mod queue;
mod races;
mod rng;
mod run;
mod sched;
pub mod seeds;
mod smt;
mod spec;
#[cfg(test)]
mod tests;
mod thread;
pub mod trace;
mod twice;
mod wait;
mod witness;
mod words;
mod world;

pub use crate::Policy;
pub use apart::{ApartSink, run_apart};
pub use cells::{SimCell, SimCounter, SimLine, SimRecord};
pub use config::{
    Config, Edges, Event, EventKind, Failure, Fault, Faults, Memory, Outcome, Parkers, Planned,
    Sink, ThreadReport,
};
pub use poller::{SimFd, SimPoller};
pub use run::{RunError, SimThread, run, run_traced};
pub use spec::{CPUS_MAX, Costs, MachineSpec, Range, SpecError};
pub use twice::{Twice, run_twice};
pub use wait::SimParker;
pub use witness::Witness;
pub use words::{SimPtr, SimU32, SimU64};

use crate::{
    Bug, Fenced, Machine, Mark, PolicyError, Spun, ThreadError, ThreadSpec, Topology, slots,
};
use thread::{Doing, Wait};
use world::{Waits, look, step, wait as give_up_cpu};

/// The simulated machine, with the mutant of this number ([`Bug::from_number`]); if it is [`CHOSEN`], with that
/// of [`break_thread`].
#[derive(Clone, Copy, Debug)]
pub struct Sim<const BUG: u8 = 0>;

/// The number of the machine whose mutant is chosen while the program runs. Each other number is a build of all
/// protocols.
pub const CHOSEN: u8 = u8::MAX;

thread_local! {
    // All threads of a run share it.
    static BROKEN: std::cell::Cell<Bug> = const { std::cell::Cell::new(Bug::None) };
}

/// Breaks `line` in the machines with the number [`CHOSEN`] that this thread simulates from now on.
pub fn break_thread(line: Bug) {
    BROKEN.set(line);
}

/// Works for `ns`: uses the CPU without accessing memory. Other threads run meanwhile, also if this is called in a
/// poll that is [whole](Config::whole_polls) otherwise.
pub fn work(ns: u64) {
    let _interruptible = world::Interruptible::new();
    let _ = step(|world| world.event(EventKind::Work, ns.min(u64::from(u32::MAX)) as u32, ns));
}

/// Sleeps for `ns` in the OS.
pub fn sleep(ns: u64) {
    wait::sleep(ns);
}

/// Changes how the OS schedules the calling thread.
pub fn set_policy(policy: Policy) {
    let _ = step(|world| {
        world.flush();
        let cost = world.config.machine.costs.syscall_ns;
        world.event(EventKind::Policy, 0, cost);
    });
    let _ = look(|world| world.change_policy(policy));
    let _ = step(|_| ());
}

/// Puts a note of the program into the trace, and into its hash.
pub fn note(number: u32) {
    let _ = step(|world| world.event(EventKind::Note, number, 0));
}

/// Ends the run with a failure.
pub fn fail(why: impl Into<String>) {
    let _ = step(|world| world.fail(Failure::Oracle(why.into())));
}

/// Ends the run with a failure that is the runtime's, not the program's.
pub fn fail_runtime(why: String) {
    let _ = step(|world| world.fail(Failure::Runtime(why)));
}

/// Ends all faults, so that from here on the program can finish what it has begun.
pub fn end_faults() {
    let _ = look(world::World::end_faults);
}

/// Simulated time since the run began. Jumps of the clock do not change it, and reading it is no event.
#[must_use]
pub fn time_ns() -> u64 {
    look(|world| world.now_ns).unwrap_or(0)
}

/// Whether the caller runs on a simulated thread.
#[inline]
#[must_use]
pub fn is_inside() -> bool {
    world::is_inside()
}

/// What the OS would do is not part of the simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no network, no signal and no other descriptor inside a simulation; put a channel in its place, or test this part outside of `doorbell::sim`"
)]
pub struct NotSimulated;

/// Refuses what would go past the simulated machine to the OS.
///
/// # Errors
/// Of kind [`Unsupported`](std::io::ErrorKind::Unsupported), with [`NotSimulated`] inside, on a simulated thread.
pub fn refuse_os() -> std::io::Result<()> {
    if is_inside() {
        let kind = std::io::ErrorKind::Unsupported;
        return Err(std::io::Error::new(kind, NotSimulated));
    }
    Ok(())
}

/// The number of the calling thread, in the order of their start; `None` outside of any run.
#[must_use]
pub fn thread() -> Option<u32> {
    look(|world| world.current)
}

/// The CPU on which the caller runs; `None` outside of any run.
#[must_use]
pub fn cpu() -> Option<usize> {
    look(|world| world.cpu as usize)
}

/// Whether a CPU has no thread to run now; `false` if there is no such CPU.
#[must_use]
pub fn is_idle(cpu: usize) -> bool {
    look(|world| {
        world
            .cpus
            .get(cpu)
            .is_some_and(|it| it.current == lines::NOBODY)
    })
    .unwrap_or(false)
}

/// The number of the thread that a CPU runs now; `None` if it idles, or there is no such CPU.
#[must_use]
pub fn runs_on(cpu: usize) -> Option<u32> {
    let current = look(|world| world.cpus.get(cpu).map(|it| it.current)).flatten();
    current.filter(|thread| *thread != lines::NOBODY)
}

/// Whether a thread could run but another one has its CPU; `false` if there is no such thread.
#[must_use]
pub fn is_ready(thread: u32) -> bool {
    doing(thread) == Some(Doing::Ready)
}

/// Whether a thread waits and has not been told to go on; `false` if there is no such thread.
#[must_use]
pub fn is_asleep(thread: u32) -> bool {
    matches!(doing(thread), Some(Doing::Waits(_)))
}

/// Until when a thread waits in its parker or poller, by the clock of the program: `u64::MAX` if no time ends that.
/// `None` if it does not wait there, or was told to go on.
#[must_use]
pub fn parked_until_ns(thread: u32) -> Option<u64> {
    let until_ns = |world: &mut world::World| {
        let it = world.threads.get(thread as usize)?;
        let is_parked = it.doing == Doing::Waits(Wait::Parker);
        is_parked.then(|| it.until_clock_ns.unwrap_or(u64::MAX))
    };
    look(until_ns).flatten()
}

/// The CPU time that a thread has used; 0 if there is no such thread.
#[must_use]
pub fn ran_ns(thread: u32) -> u64 {
    look(|world| world.ran_ns(thread)).flatten().unwrap_or(0)
}

/// Whether a fault keeps a thread off its CPU now; `false` if there is no such thread.
#[must_use]
pub fn is_away(thread: u32) -> bool {
    doing(thread) == Some(Doing::Waits(Wait::Fault))
}

/// How many events a thread had. If two calls return the same number, the thread did nothing in between.
#[must_use]
pub fn events_of(thread: u32) -> usize {
    look(|world| {
        world
            .threads
            .get(thread as usize)
            .map(thread::Thread::count)
    })
    .flatten()
    .unwrap_or(0)
}

fn doing(thread: u32) -> Option<Doing> {
    look(|world| world.threads.get(thread as usize).map(|it| it.doing)).flatten()
}

/// How often a cache line went from one CPU to another so far, or was taken from all others for a write.
#[must_use]
pub fn lines_moved() -> u64 {
    look(|world| world.lines.moved()).unwrap_or(0)
}

/// A random number from the seed, for the program's own decisions.
#[must_use]
pub fn random() -> u64 {
    look(|world| world.program_rng.next()).unwrap_or(0)
}

/// Calls `f` for an oracle: its reads are no events, and it sees the values that all threads see.
pub fn unseen<R>(f: impl FnOnce() -> R) -> R {
    world::outside(f)
}

/// A fence that relies on the read-modify-write directly before it. As on x86 it does nothing, except cost
/// time. The run fails if the thread has stored since its last read-modify-write.
fn fence_after_rmw() {
    let _ = step(|world| {
        let cost = world.config.machine.costs.fence_ns;
        world.event(EventKind::Fence, 0, cost);
        world.note_fence();
        let thread = &world.threads[world.current as usize];
        if thread.has_stored {
            let thread = thread.name.clone();
            world.fail(Failure::BareFence { thread });
        }
    });
}

impl<const BUG: u8> Machine for Sim<BUG> {
    type U32 = SimU32;
    type U64 = SimU64;
    type Ptr<T> = SimPtr<T>;
    type Cell<T> = SimCell<T>;
    type Line<T: Send + Sync> = SimLine<T>;
    type Counter = SimCounter;
    type Parker = SimParker;
    type Poller = SimPoller;
    type Thread = SimThread;

    // Small, so that runs reach its end and its backlog.
    const RING_CAPACITY: usize = 4;
    const ADDRESSES_STEER: bool = false;
    const OS_THREADS: bool = false;

    #[inline(always)]
    fn breaks(line: Bug) -> bool {
        if BUG == CHOSEN {
            return BROKEN.get().is(line);
        }
        const { Bug::from_number(BUG) }.is(line)
    }

    fn fence_announce() {
        fence_after_rmw();
    }

    fn fence_recheck() {
        fence_after_rmw();
    }

    fn fence_light() {
        // On the host it is only for the compiler, so it is no step.
    }

    fn fence_heavy() -> Fenced {
        let _ = step(|world| {
            world.drain_all();
            let cost = world.config.machine.costs.syscall_ns;
            world.event(EventKind::Fence, 0, cost);
        });
        Fenced::Yes
    }

    fn now_ns() -> u64 {
        step(|world| {
            let now_ns = world.clock_ns();
            let cost = world.config.machine.costs.clock_ns;
            world.event(EventKind::Clock, 0, cost);
            now_ns
        })
        .unwrap_or(0)
    }

    fn relax(times: u32) {
        let _ = step(|world| {
            let cost = world.config.machine.costs.relax_ns * u64::from(times);
            world.event(EventKind::Relax, 0, cost);
        });
    }

    fn spin<T: Send + Sync>(line: &SimLine<T>, for_ns: u64, changed: impl Fn(&T) -> bool) -> Spun {
        wait::spin(line, for_ns, changed)
    }

    /// Does nothing: a hint by address would make a run depend on addresses.
    fn prefetch_write<T>(_ptr: *const T) {}

    fn mark(mark: Mark) {
        let _ = look(|world| world.tally.marks.add(mark));
    }

    fn user<R>(code: impl FnOnce() -> R) -> R {
        let _whole = world::Whole::new();
        code()
    }

    fn worker_slot() -> *const () {
        slots::simulated_worker()
    }

    unsafe fn set_worker_slot(ptr: *const ()) {
        // SAFETY: passed on from the caller.
        unsafe { slots::set_simulated_worker(ptr) };
    }

    fn pool_slot() -> *const () {
        slots::pool()
    }

    unsafe fn set_pool_slot(ptr: *const (), end: unsafe fn(*const ())) -> bool {
        let kept = look(|world| {
            let it = &mut world.threads[world.current as usize];
            if !it.ending {
                it.pool_end = Some(end);
            }
            !it.ending
        });
        let kept = kept == Some(true);
        if kept {
            // SAFETY: passed on from the caller; `end_pool` calls `end` with it.
            unsafe { slots::replace_pool(ptr) };
        }
        kept
    }

    fn random() -> u64 {
        random()
    }

    fn topology() -> Topology {
        look(|world| world.config.machine.topology())
            .unwrap_or_else(|| MachineSpec::default().topology())
    }

    fn set_policy(policy: Policy) -> Result<(), PolicyError> {
        set_policy(policy);
        Ok(())
    }

    fn policy() -> Result<Policy, PolicyError> {
        let policy = look(|world| world.threads[world.current as usize].policy);
        policy.ok_or_else(|| PolicyError::Unknown {
            source: std::io::ErrorKind::Unsupported.into(),
        })
    }

    fn cpu_count() -> usize {
        look(|world| world.cpus.len()).unwrap_or_else(|| MachineSpec::default().cpus())
    }

    fn cpu() -> usize {
        look(|world| world.cpu as usize).unwrap_or(0)
    }

    fn thread_number() -> u32 {
        thread().map_or(0, |thread| thread + 1)
    }

    fn cpu_time_ns(thread: u32) -> Option<u64> {
        step(|world| {
            let cost = world.config.machine.costs.syscall_ns;
            world.event(EventKind::Clock, 0, cost);
            world.ran_ns(thread.checked_sub(1)?)
        })
        .flatten()
    }

    fn bind_thread(cpus: &[usize]) -> Result<(), ThreadError> {
        bind(cpus)
    }

    fn spawn(
        spec: ThreadSpec,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> Result<SimThread, ThreadError> {
        run::spawn(spec, body)
    }
}

/// Moves the calling thread to one of these CPUs, unless it is on one already.
fn bind(cpus: &[usize]) -> Result<(), ThreadError> {
    let missing = look(|world| cpus.iter().copied().find(|cpu| *cpu >= world.cpus.len()));
    if cpus.is_empty() || missing.is_none_or(|cpu| cpu.is_some()) {
        return Err(ThreadError::Bind {
            name: "calling".to_owned(),
            cpu: missing.flatten().unwrap_or(0),
            source: std::io::ErrorKind::InvalidInput.into(),
        });
    }
    let _ = step(|world| {
        world.flush();
        let cost = world.config.machine.costs.syscall_ns;
        world.event(EventKind::Policy, 1, cost);
    });
    give_up_cpu(|world| {
        let to = world.emptiest_cpu(cpus.iter().copied());
        let Some(to) = to.filter(|_| !cpus.contains(&(world.cpu as usize))) else {
            return Waits::No;
        };
        let thread = world.current;
        world.block(Wait::Sleep);
        world.cpus[world.cpu as usize].threads -= 1;
        world.cpus[to].threads += 1;
        world.threads[thread as usize].cpu = to as u32;
        world.tell(thread);
        Waits::Yes
    });
    Ok(())
}
