//! A twin of ipistorm between two CPUs: one calls the other one, which idles, and waits for the end of each call.
//!
//! In the kernel before the patch a flag that means "make a pass of the scheduler" kicks an idle CPU that polls. So after
//! each call it makes a pass, which finds nothing, most of it with interrupts masked. The next call comes meanwhile, has to
//! interrupt, and waits for the end of the pass. How long interrupts are masked is the only unknown: a parameter.

use super::{Cpus, NEED_RESCHED, NOTIFY, POLLING};
use crate::bench::{Bench, BenchError, Measured, Ratio, mean};
use crate::scenario::spawn;
use doorbell_machine::sim::{self, SimCounter};
use doorbell_machine::{Counter, Machine, Ordering, Sim, ThreadError, ThreadHandle, Word};
use serde::Deserialize;
use std::sync::Arc;

/// Calls before the first that counts.
const WARM_UP: u64 = 50;
/// CPUs under other last-level caches of one socket, as CPU 8 and CPU 16 of the patch's machine.
const CALLER: usize = 16;
const CALLEE: usize = 32;
const CPUS: usize = 48;

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// Before the patch: the flag for a pass kicks a CPU that polls.
    Base,
    /// Every call interrupts.
    Revert,
    /// A flag of its own kicks a CPU that polls, which makes no pass.
    Notify,
}

/// The size of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Which kernel.
    pub kernel: Kernel,
    /// How long a pass that finds nothing masks interrupts, beside its looks at other run queues.
    pub masked_ns: u64,
    /// How many calls count.
    pub calls: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How long each call took.
    pub took_ns: Vec<u64>,
    /// Interrupts that the callee took.
    pub interrupts: u64,
}

impl Measured for Figures {
    fn add(&mut self, other: Self) {
        self.took_ns.extend(other.took_ns);
        self.interrupts += other.interrupts;
    }

    fn times_ns(&self) -> Vec<(&'static str, &[u64])> {
        vec![("", &self.took_ns)]
    }

    fn ratios(&self, _: u64) -> Vec<Ratio> {
        let calls = self.took_ns.len() as u64;
        vec![
            ("op_ns", mean(&self.took_ns)),
            ("interrupts_per_1k", [1_000 * self.interrupts, calls]),
        ]
    }
}

/// Runs it.
///
/// # Errors
/// [`BenchError`] if the machine cannot be simulated.
pub fn run(bench: &Bench, shape: Shape) -> Result<Figures, BenchError> {
    bench.run(CPUS, CALLER, move |bench| play(bench, shape))
}

impl Cpus {
    /// Kicks a CPU whose call queue was empty.
    fn kick(&self, to: usize, kernel: Kernel) {
        let flag = match kernel {
            Kernel::Base => NEED_RESCHED,
            Kernel::Notify => NOTIFY,
            Kernel::Revert => return self.interrupt(to),
        };
        let flags = &self.all[to].watched.flags;
        let polls =
            flags.compare_exchange(POLLING, POLLING | flag, Ordering::AcqRel, Ordering::Relaxed);
        if polls.is_err() {
            self.interrupt(to);
        }
    }

    /// A pass that finds no task: a look at the run queues of the last-level cache, with interrupts masked.
    fn pass(&self, me: usize, masked_ns: u64) {
        let near = CALLEE - CALLER;
        let others = &self.all[me / near * near..][..near];
        let tasks = others.iter().map(|it| it.run_queue.load(Ordering::Relaxed));
        if tasks.sum::<u32>() > 0 {
            sim::fail("a pass has found a task");
        }
        sim::work(masked_ns);
    }

    /// The idle task.
    fn idle(&self, me: usize, shape: Shape, stop: &SimCounter) {
        let watched = &self.all[me].watched;
        while stop.get() == 0 {
            watched.flags.store(POLLING, Ordering::SeqCst);
            let _ = Sim::<0>::spin(watched, u64::MAX, |it| {
                it.flags.load(Ordering::Acquire) != POLLING
                    || it.interrupt_ns.load(Ordering::Acquire) != 0
            });
            let arrives_ns = watched.interrupt_ns.load(Ordering::Acquire);
            sim::work(arrives_ns.saturating_sub(sim::time_ns()));
            self.take_interrupt(me);
            let flags = watched.flags.swap(0, Ordering::AcqRel);
            if flags != POLLING {
                self.flush(me);
            }
            if flags & NEED_RESCHED != 0 {
                self.pass(me, shape.masked_ns);
            }
        }
    }
}

/// The caller.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let cpus = Arc::new(Cpus::new(CPUS, bench.machine.costs, 0));
    let stop = Arc::<SimCounter>::default();
    let callee = {
        let (cpus, stop) = (Arc::clone(&cpus), Arc::clone(&stop));
        spawn::<0>("idle", CALLEE, move || cpus.idle(CALLEE, shape, &stop))?
    };
    let taken = || cpus.all[CALLEE].interrupts.get();
    let (mut took_ns, mut before) = (Vec::new(), 0);
    for call in 0..WARM_UP + shape.calls {
        if call == WARM_UP {
            before = taken();
        }
        let began_ns = sim::time_ns();
        if cpus.post(CALLER, CALLEE) {
            cpus.kick(CALLEE, shape.kernel);
        }
        let sent = cpus.call(CALLER, CALLEE);
        let _ = Sim::<0>::spin(sent, u64::MAX, |it| {
            it.is_locked.load(Ordering::Acquire) == 0
        });
        if call >= WARM_UP {
            took_ns.push(sim::time_ns() - began_ns);
        }
    }
    let interrupts = taken() - before;
    stop.set(1);
    cpus.interrupt(CALLEE);
    callee.join()?;
    Ok(Figures {
        took_ns,
        interrupts,
    })
}
