//! Tasks to be rescued: they wait for descriptors of Fair workers that compute.

use super::guard::Ward;
use super::program::{Ended, Player, Spun, below, one_in, yield_now};
use super::surge::gone;
use doorbell_core::io::{Direction, Registration};
use doorbell_core::task::{About, Kind};
use doorbell_core::worker::Local;
use doorbell_machine::sim::{self, SimCounter, SimFd};
use doorbell_machine::{Counter, Readiness, Sim};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// How much there is to rescue, and what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescues {
    /// Little, without faults: each rescue must be prompt.
    Few,
    /// More than the urgent workers may do within their share, without faults: they must keep to it.
    Many,
    /// With faults: only what holds of all tasks is checked.
    Any,
}

/// How many polls a computing task takes, and how long each poll is.
const COMPUTES: u64 = 3;
const COMPUTE_MIN_NS: u64 = 1_000_000;
const COMPUTE_MORE_NS: u64 = 4_000_000;
/// How many computing tasks each Fair worker gets in a step.
const COMPUTING: u64 = 8;
/// How many descriptors each of these workers has, and the longest poll of a task that reads from one.
const FEW: u64 = 2;
const FEW_POLL_NS: u64 = 5_000;
const MANY: u64 = 40;
const MANY_POLL_NS: u64 = 60_000;
/// By when most reading tasks wait for their descriptors if the workers did nothing before.
const WAIT_NS: u64 = 200_000;
/// How often the descriptors become ready, and the longest time between two rounds.
const ROUNDS: u64 = 12;
const ROUND_NS: u64 = 4_000_000;
/// By when a task must be rescued while a guard serves. The ward may first poll each computing task once: it does not know
/// yet that their polls are long. Then come the two polls between two sweeps, the turn in which the guard notices that a
/// sweep is due, and the rescue itself.
const RESCUED_NS: u64 = (COMPUTING + 2) * (COMPUTE_MIN_NS + COMPUTE_MORE_NS) + 4_000_000 + 500_000;

/// Bytes for which a rescuable task waits.
struct Inlet {
    fd: SimFd,
    core: usize,
    bytes: SimCounter,
    /// When the first unread byte came.
    since_ns: SimCounter,
    /// Since when the task waits; 0 while it does not.
    waits_ns: SimCounter,
    /// The thread that last woke the task.
    told_by: SimCounter,
    /// Whether it is registered with the worker's driver.
    is_registered: SimCounter,
}

/// The waker of a task that waits for an inlet.
struct Tells(Waker, Arc<Inlet>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        let thread = sim::thread().map_or(0, u64::from);
        self.1.told_by.set(thread);
        self.0.wake_by_ref();
    }
}

impl Inlet {
    /// An inlet of that Fair worker.
    fn open(core: usize) -> Arc<Self> {
        Arc::new(Inlet {
            fd: SimFd::open(),
            core,
            bytes: SimCounter::default(),
            since_ns: SimCounter::default(),
            waits_ns: SimCounter::default(),
            told_by: SimCounter::default(),
            is_registered: SimCounter::default(),
        })
    }

    /// One byte comes from outside. If the descriptor is registered, the worker's guard is told too.
    fn write(&self, wards: &[Ward]) {
        if self.bytes.add_shared(1) == 0 {
            self.since_ns.set(sim::time_ns());
        }
        self.fd.set_ready(Readiness::READABLE);
        if self.is_registered.get() != 0 {
            wards[self.core].set.set_ready(Readiness::READABLE);
        }
    }

    /// The number of bytes, and since when the task could have read one (`None` if it did not wait).
    fn read(&self) -> io::Result<(u64, Option<u64>)> {
        let _ = self.fd.take(Readiness::READABLE);
        let (bytes, waits_ns) = (self.bytes.get(), self.waits_ns.get());
        self.bytes.set(0);
        if bytes == 0 {
            if waits_ns == 0 {
                self.waits_ns.set(sim::time_ns());
            }
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.waits_ns.set(0);
        let since_ns = (waits_ns > 0).then(|| waits_ns.max(self.since_ns.get()));
        Ok((bytes, since_ns))
    }
}

impl<const BUG: u8> Player<BUG> {
    /// The program of a foreign thread in shapes with rescues.
    pub(super) fn play_rescues(&self, rescues: Rescues, steps: u64) {
        for _ in 0..steps {
            self.begin_step();
            let cores = self.workers.cores();
            let each = match rescues {
                Rescues::Few => 1 + below(FEW),
                Rescues::Many => MANY,
                Rescues::Any => below(MANY),
            };
            let inlets = (0..cores * each as usize).map(|inlet| Inlet::open(inlet % cores));
            let inlets: Vec<_> = inlets.collect();
            for inlet in &inlets {
                self.read_rescuable(rescues, inlet);
            }
            sim::sleep(below(WAIT_NS));
            for core in 0..cores {
                (0..COMPUTING).for_each(|_| self.compute(core));
                self.begin_rescuable(rescues, core);
            }
            for _ in 0..ROUNDS {
                sim::sleep(below(ROUND_NS));
                for inlet in &inlets {
                    inlet.write(&self.workers.wards);
                }
            }
        }
    }

    /// Launches a rescuable task. Once all workers are served, it must begin soon, wherever it is queued.
    fn begin_rescuable(&self, rescues: Rescues, core: usize) {
        let (ended, player, launched_ns) =
            (Ended::new(&self.workers), self.clone(), sim::time_ns());
        self.launch_rescuable(core, async move {
            let _ended = ended;
            let wards = &player.workers.wards;
            let mut served_ns = wards.iter().map(|ward| ward.served_ns.get());
            if rescues == Rescues::Few && served_ns.all(|since_ns| since_ns > launched_ns) {
                let served_ns = wards.iter().map(|ward| ward.served_ns.get()).max();
                let late_ns = sim::time_ns() - served_ns.unwrap_or(launched_ns);
                if late_ns > RESCUED_NS {
                    sim::fail(format!(
                        "rescue: a new task of Fair worker {core} began {late_ns} ns after all were served"
                    ));
                }
            }
        });
    }

    /// Launches a task with long polls on a Fair worker.
    fn compute(&self, worker: usize) {
        let ended = Ended::new(&self.workers);
        let computes = async move {
            let _ended = ended;
            for _ in 0..COMPUTES {
                sim::work(COMPUTE_MIN_NS + below(COMPUTE_MORE_NS));
                yield_now().await;
            }
        };
        drop(self.workers.launch(worker, Kind::Task, Spun::new(computes)));
    }

    /// Launches a task that reads all bytes of an inlet in brief polls, and does what a connection may do.
    fn read_rescuable(&self, rescues: Rescues, inlet: &Arc<Inlet>) {
        let (ended, player, inlet) = (Ended::new(&self.workers), self.clone(), Arc::clone(inlet));
        let core = inlet.core;
        let reads = async move {
            let _ended = ended;
            let ledger = Arc::clone(&player.workers.ledger);
            let remote = player.workers.remote(core).clone();
            let Ok(registered) = Registration::new(remote, inlet.fd) else {
                return gone(&ledger);
            };
            inlet.is_registered.set(1);
            let mut read = 0;
            while read < ROUNDS {
                let ready = poll_fn(|cx| {
                    let tells = Tells(cx.waker().clone(), Arc::clone(&inlet));
                    let waker = Waker::from(Arc::new(tells));
                    let cx = Context::from_waker(&waker);
                    registered.poll_io(&cx, Direction::Read, || inlet.read())
                });
                let Ok((bytes, since_ns)) = ready.await else {
                    return gone(&ledger);
                };
                read += bytes;
                player.note_read(rescues, &inlet, since_ns);
                player.serve_one(rescues, core).await;
            }
            if read > ROUNDS {
                sim::fail(format!("once: read {read} bytes of {ROUNDS}"));
            }
        };
        self.launch_rescuable(core, reads);
    }

    fn launch_rescuable(&self, core: usize, task: impl Future<Output = ()> + Send + 'static) {
        let about = About {
            rescuable: true,
            ..About::default()
        };
        let task = Spun::new(task);
        drop(self.workers.launch_about(core, Kind::Task, about, task));
    }

    /// What a task does after each read.
    async fn serve_one(&self, rescues: Rescues, core: usize) {
        let most_ns = match rescues {
            Rescues::Few => FEW_POLL_NS,
            Rescues::Many | Rescues::Any => MANY_POLL_NS,
        };
        sim::work(below(most_ns));
        match below(6) {
            0 => yield_now().await,
            1 => {
                let ended = Ended::new(&self.workers);
                self.launch_rescuable(core, async move {
                    let _ended = ended;
                    sim::work(below(most_ns));
                });
            }
            2 if rescues == Rescues::Any && one_in(2) => {
                Local::<Sim<BUG>>::with_current(|local| local.map(Local::decline_rescue));
                yield_now().await;
            }
            _ => {}
        }
    }

    /// Checks a read of bytes that could have been read since `since_ns`.
    fn note_read(&self, rescues: Rescues, inlet: &Inlet, since_ns: Option<u64>) {
        let is_rescue = Local::<Sim<BUG>>::with_current(|local| local.map(Local::is_rescue));
        if is_rescue == Some(true) {
            self.workers.ledger.note_rescue();
        }
        let core = inlet.core;
        let served_ns = self.workers.wards[core].served_ns.get();
        let Some(since_ns) = since_ns.filter(|_| rescues == Rescues::Few && served_ns > 0) else {
            return;
        };
        let late_ns = sim::time_ns() - since_ns.max(served_ns);
        if late_ns > RESCUED_NS && !self.is_elsewhere(inlet) {
            sim::fail(format!(
                "rescue: what came to Fair worker {core}, which is served, waited for {late_ns} ns"
            ));
        }
    }

    /// Whether another Fair worker took the ready descriptors of the one that is served, or has stolen the task, which
    /// it polls now: then the task was queued at that worker, and the guard does not know where.
    fn is_elsewhere(&self, inlet: &Inlet) -> bool {
        let here = sim::thread().map_or(0, u64::from);
        let is_there = |worker: usize| {
            let number = u64::from(self.workers.number(worker));
            number == inlet.told_by.get() || number == here
        };
        let mut others = (0..self.workers.cores()).filter(|worker| *worker != inlet.core);
        others.any(is_there)
    }
}
