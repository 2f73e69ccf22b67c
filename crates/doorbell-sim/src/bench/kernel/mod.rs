//! Twins of two kernel paths, without any code of doorbell: they show whether the simulated machine explains what the
//! kernel patches measured, before doorbell is asked about the same.
//!
//! | file | the patch |
//! |---|---|
//! | `ipistorm.rs` | `TIF_NOTIFY_IPI`: one CPU calls another one that idles, and waits |
//! | `shootdown.rs` | no IPI to a call queue that is not empty: all CPUs call all, and wait |
//!
//! A CPU has what the two paths use: a call queue, the flags of its idle task, its run queue, and an interrupt that
//! is on its way. An interrupt is sent by a store that takes effect after the latency of the machine's profile. Those that
//! arrive before the CPU takes one are taken as one, as by the interrupt controller. The CPU pays for entry and exit
//! what the profile has for a switch of threads.

pub mod ipistorm;
pub mod shootdown;

use doorbell_machine::sim::{self, SimCounter, SimLine, SimU32, SimU64};
use doorbell_machine::{Counter, Line, Machine, Ordering, Sim, Word};

/// Its idle task watches the flags, so that a store reaches it without an interrupt.
const POLLING: u32 = 1;
/// It was kicked, and shall make a pass of its scheduler.
const NEED_RESCHED: u32 = 2;
/// It was kicked for its call queue only.
const NOTIFY: u32 = 4;
/// A CPU that waits looks this often whether an interrupt has arrived.
const LOOK_NS: u64 = 200;

/// What an idle CPU watches.
#[derive(Debug)]
struct Watched {
    flags: SimU32,
    /// When the first interrupt arrives that was not taken yet; 0 if there is none.
    interrupt_ns: SimU64,
    /// When the last one arrives.
    last_ns: SimU64,
}

impl Watched {
    fn is_interrupted(&self) -> bool {
        let arrives_ns = self.interrupt_ns.load(Ordering::Acquire);
        arrives_ns != 0 && arrives_ns <= sim::time_ns()
    }
}

#[derive(Debug)]
struct Cpu {
    watched: SimLine<Watched>,
    /// The number of the last queued call plus one; 0 if there is none.
    queue: SimLine<SimU32>,
    /// How many tasks could run here.
    run_queue: SimLine<SimU32>,
    interrupts: SimCounter,
}

/// A call on its way from one CPU to another (the kernel's `call_single_data`).
#[derive(Debug)]
struct Call {
    /// The call that was queued before it.
    next: SimU32,
    is_locked: SimU32,
}

/// The machine of a twin.
#[derive(Debug)]
struct Cpus {
    all: Vec<Cpu>,
    /// One from each CPU to each.
    calls: Vec<SimLine<Call>>,
    latency_ns: u64,
    entry_ns: u64,
    function_ns: u64,
}

impl Cpus {
    fn new(count: usize, costs: sim::Costs, function_ns: u64) -> Self {
        let word = || SimLine::new(|| SimU32::new(0));
        let cpu = |_| Cpu {
            watched: SimLine::new(|| Watched {
                flags: SimU32::new(0),
                interrupt_ns: SimU64::new(0),
                last_ns: SimU64::new(0),
            }),
            queue: word(),
            run_queue: word(),
            interrupts: SimCounter::default(),
        };
        let call = |_| {
            SimLine::new(|| Call {
                next: SimU32::new(0),
                is_locked: SimU32::new(0),
            })
        };
        Cpus {
            all: (0..count).map(cpu).collect(),
            calls: (0..count * count).map(call).collect(),
            latency_ns: costs.ipi_latency_ns,
            entry_ns: costs.context_switch_ns,
            function_ns,
        }
    }

    fn call(&self, from: usize, to: usize) -> &SimLine<Call> {
        &self.calls[from * self.all.len() + to]
    }

    /// Queues a call, and returns whether the queue was empty.
    fn post(&self, from: usize, to: usize) -> bool {
        let (call, queue) = (self.call(from, to), &self.all[to].queue);
        call.is_locked.store(1, Ordering::Relaxed);
        let number = (from * self.all.len() + to) as u32 + 1;
        let mut first = queue.load(Ordering::Relaxed);
        loop {
            call.next.store(first, Ordering::Relaxed);
            match queue.compare_exchange(first, number, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return first == 0,
                Err(found) => first = found,
            }
        }
    }

    /// Runs all calls that are queued.
    fn flush(&self, me: usize) {
        let mut number = self.all[me].queue.swap(0, Ordering::AcqRel);
        while let Some(place) = number.checked_sub(1) {
            let call = &self.calls[place as usize];
            number = call.next.load(Ordering::Relaxed);
            sim::work(self.function_ns);
            call.is_locked.store(0, Ordering::Release);
        }
    }

    /// Sends an interrupt.
    fn interrupt(&self, to: usize) {
        let arrives_ns = sim::time_ns() + self.latency_ns;
        let watched = &self.all[to].watched;
        watched.last_ns.store(arrives_ns, Ordering::Release);
        let first = &watched.interrupt_ns;
        let _ = first.compare_exchange(0, arrives_ns, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Takes all interrupts that have arrived, as one. Those that arrive later remain.
    fn take_interrupt(&self, me: usize) {
        let Cpu {
            watched,
            interrupts,
            ..
        } = &self.all[me];
        if !watched.is_interrupted() {
            return;
        }
        let first = &watched.interrupt_ns;
        first.store(0, Ordering::SeqCst);
        let last_ns = watched.last_ns.load(Ordering::SeqCst);
        if last_ns > sim::time_ns() {
            // A sender may have stored a later time meanwhile.
            let _ = first.compare_exchange(0, last_ns, Ordering::AcqRel, Ordering::Relaxed);
        }
        interrupts.add_owned(1);
        sim::work(self.entry_ns);
        self.flush(me);
    }

    /// Waits for the end of a call, with interrupts.
    fn wait_for(&self, me: usize, to: usize) {
        let is_locked = || self.call(me, to).is_locked.load(Ordering::Acquire) != 0;
        while is_locked() {
            let watched = &self.all[me].watched;
            let _ = Sim::<0>::spin(watched, LOOK_NS, Watched::is_interrupted);
            self.take_interrupt(me);
        }
    }
}
