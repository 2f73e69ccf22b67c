//! OS threads: one for each task, and what threads request of the OS's scheduler.

use std::num::NonZeroU64;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context as _, Result};
use doorbell_machine::{Host as Kernel, Machine, Policy};
use futures::channel::oneshot;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_current_timer_slack};

use super::{Host, Peer, Role, Task, Workers};
use crate::error::panicked;
use crate::measure::Pin;

/// The greatest priority of a thread, for rank 99: below that of the kernel's interrupt threads (50).
const PRIORITY_MAX: u8 = 20;
/// The default of urgent workers.
const PRIORITY: u8 = 10;
/// Above that of every contestant, so that the waker's own delay is not measured.
const WAKER_PRIORITY: u8 = 20;

/// A thread for each task. One with a rank has a real-time priority by its rank where that is allowed, else the shortest
/// slice.
#[derive(Debug)]
pub(crate) struct Threads {
    workers: Workers,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// A thread with this request, on `cpu` if given.
    pub(crate) fn spawn_wanting(
        &mut self,
        want: Want,
        cpu: Option<usize>,
        task: impl Task,
    ) -> Result<()> {
        let run = move || {
            want.ask();
            futures::executor::block_on(task);
        };
        self.threads.push(thread_on("lab-thread", cpu, run)?);
        Ok(())
    }
}

/// The real-time priority of a thread of this rank: 1 to 20.
fn priority(rank: u8) -> u8 {
    (1 + rank / 5).min(PRIORITY_MAX)
}

impl Host for Threads {
    const NAME: &'static str = "OS threads";

    fn start(workers: &Workers) -> Result<Self> {
        Ok(Self {
            workers: workers.clone(),
            threads: Vec::new(),
        })
    }

    fn stop(self) -> Result<()> {
        join_all(self.threads).map(drop)
    }
}

impl Peer for Threads {
    fn spawn_as(&mut self, role: Role, task: impl Task) -> Result<()> {
        let want = if role.rank > 0 {
            Want::Priority(priority(role.rank))
        } else {
            Want::AsIs
        };
        // One with a rank but no core may run everywhere.
        let turn = (role.rank == 0).then_some(self.threads.len());
        let cpu = role.core.or(turn).and_then(|place| self.workers.cpu(place));
        self.spawn_wanting(want, cpu, task)
    }

    async fn sleep_until(due: Instant) {
        // The thread belongs to the task.
        sleep_until(due);
    }

    async fn yield_now() {
        thread::yield_now();
    }
}

/// Sets the calling thread's timer slack to the minimum; the default delays sleeps by up to 50 us.
/// Doorbell's workers do the same.
pub(crate) fn shortest_slack() {
    // A kernel that refuses this has no timer slack.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Lets the calling thread sleep until `due`, or not at all if that is over.
pub(crate) fn sleep_until(due: Instant) {
    thread::sleep(due.saturating_duration_since(Instant::now()));
}

/// Starts a thread with the minimal timer slack, on `cpu` and nowhere else if that is given. Then the calling thread
/// moves to `cpu` to start it.
pub(crate) fn thread_on<T: Send + 'static>(
    name: &'static str,
    cpu: Option<usize>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let work = || {
        shortest_slack();
        work()
    };
    // A new thread inherits its parent's mask, so it never runs elsewhere.
    let _there = cpu.map(Pin::to).transpose()?;
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.context("starting a thread")
}

/// The result of a thread.
pub(crate) fn join<T>(thread: JoinHandle<T>) -> Result<T> {
    let name = thread.thread().name().unwrap_or_default().to_owned();
    thread.join().map_err(|_| panicked(&name))
}

/// The results of several threads. Waits for all, also after one that panicked.
pub(crate) fn join_all<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Result<Vec<T>> {
    let all: Vec<_> = threads.into_iter().map(join).collect();
    all.into_iter().collect()
}

/// Closed when a loop is to end.
pub(crate) type Stopped = oneshot::Receiver<()>;

/// Threads that each go on until they are told to end.
#[derive(Debug)]
pub(crate) struct Loops(Vec<(oneshot::Sender<()>, JoinHandle<()>)>);

impl Loops {
    /// A thread for each worker. `make` makes its loop, which goes on until the channel is closed.
    pub(crate) fn start<F: FnOnce(Stopped) + Send + 'static>(
        name: &'static str,
        workers: &Workers,
        mut make: impl FnMut() -> Result<F>,
    ) -> Result<Self> {
        let start = |place| {
            let (go_on, (stop, stopped)) = (make()?, oneshot::channel());
            let thread = thread_on(name, workers.cpu(place), move || go_on(stopped))?;
            Ok((stop, thread))
        };
        let all: Result<_> = (0..workers.count()).map(start).collect();
        all.map(Self)
    }

    pub(crate) fn stop(self) -> Result<()> {
        let (stops, threads): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        drop(stops);
        join_all(threads).map(drop)
    }
}

/// Threads that follow orders, each its own, until the end.
#[derive(Debug)]
pub(crate) struct Team<O> {
    name: &'static str,
    threads: Vec<(Sender<O>, JoinHandle<()>)>,
}

impl<O: Send + 'static> Team<O> {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            threads: Vec::new(),
        }
    }

    /// Adds a thread, on `cpu` if given. Once it runs, `begin` says how it follows an order.
    pub(crate) fn add<F: FnMut(O)>(
        &mut self,
        cpu: Option<usize>,
        begin: impl FnOnce() -> F + Send + 'static,
    ) -> Result<()> {
        let (orders, told) = channel();
        let thread = thread_on(self.name, cpu, move || told.into_iter().for_each(begin()))?;
        self.threads.push((orders, thread));
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.threads.len()
    }

    pub(crate) fn order(&self, place: usize, order: O) -> Result<()> {
        let sent = self.threads[place].0.send(order);
        sent.map_err(|_| panicked(self.name))
    }

    /// Waits until all orders are followed, also after one whose thread panicked.
    pub(crate) fn end(self) -> Result<()> {
        let (orders, threads): (Vec<_>, Vec<_>) = self.threads.into_iter().unzip();
        drop(orders);
        join_all(threads).map(drop)
    }
}

/// Work for a pool.
pub(crate) type Orders = crossbeam_channel::Sender<Box<dyn FnOnce() + Send>>;

/// Threads that compute on CPUs that are idle otherwise, under `SCHED_IDLE`.
#[derive(Debug)]
pub(crate) struct IdlePool(Orders, Threads);

impl IdlePool {
    pub(crate) fn start(workers: &Workers) -> Result<Self> {
        let (orders, waiting) = crossbeam_channel::unbounded::<Box<dyn FnOnce() + Send>>();
        let mut threads = Threads::start(workers)?;
        for place in 0..workers.count() {
            let waiting = waiting.clone();
            let work = async move { waiting.iter().for_each(|work| work()) };
            threads.spawn_wanting(Want::Idle, workers.cpu(place), work)?;
        }
        Ok(Self(orders, threads))
    }

    pub(crate) fn orders(&self) -> Orders {
        self.0.clone()
    }

    /// It ends when nobody can send to it any more.
    pub(crate) fn stop(self) -> Result<()> {
        drop(self.0);
        self.1.stop()
    }
}

/// The result of work in such a pool; `None` if it panicked.
pub(crate) async fn in_idle_pool<T: Send + 'static>(
    pool: &Orders,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = oneshot::channel();
    let order = Box::new(move || {
        // Who waited may be gone.
        let _ = done.send(work());
    });
    pool.send(order).ok()?;
    result.await.ok()
}

/// A thread's request to the OS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// No request.
    AsIs,
    /// To run before all ordinary threads.
    First,
    /// To run even before those.
    Waker,
    /// To run before all ordinary threads, at this real-time priority.
    Priority(u8),
    /// To run soon, by the shortest slice.
    Sooner,
    /// To run only on an otherwise idle CPU.
    Idle,
}

impl Want {
    /// The policy for a thread that is scheduled like the calling one.
    fn policy(self) -> Policy {
        let now = Kernel::policy().unwrap_or_default();
        let fifo = |priority| Policy::Fifo { priority };
        match self {
            Want::First => fifo(PRIORITY),
            Want::Waker => fifo(WAKER_PRIORITY),
            Want::Priority(priority) => fifo(priority),
            Want::Sooner => now.sooner(),
            Want::Idle => Policy::Idle,
            Want::AsIs => now,
        }
    }

    /// Requests it for the calling thread. If real-time priority is refused, it requests the shortest slice
    /// instead.
    pub(crate) fn ask(self) {
        let refused = self != Want::AsIs && Kernel::set_policy(self.policy()).is_err();
        if refused && matches!(self, Want::First | Want::Waker | Want::Priority(_)) {
            Want::Sooner.ask();
        }
    }

    /// Whether a thread of this program gets it: an old kernel accepts a slice but ignores it.
    pub(crate) fn is_given(self) -> bool {
        let tried = thread::spawn(move || {
            let wanted = self.policy();
            let _ = Kernel::set_policy(wanted);
            Kernel::policy().is_ok_and(|got| got == wanted)
        });
        tried.join().unwrap_or(false)
    }
}

/// A note for the reader if urgent workers get no real-time priority.
pub(crate) fn refused() -> Option<String> {
    (!Want::First.is_given()).then(|| {
        "SCHED_FIFO is refused, so urgent workers have a slice of 100 us instead; `doorbell info` says why \
         and what to do"
            .to_owned()
    })
}

/// Gives up the privilege to run threads before all others, for this process.
pub(crate) fn give_up_privileges() -> Result<()> {
    let refused = "giving up CAP_SYS_NICE";
    let mut sets = capabilities(None).context(refused)?;
    for set in [
        &mut sets.effective,
        &mut sets.permitted,
        &mut sets.inheritable,
    ] {
        set.remove(CapabilitySet::SYS_NICE);
    }
    set_capabilities(None, sets).context(refused)
}
