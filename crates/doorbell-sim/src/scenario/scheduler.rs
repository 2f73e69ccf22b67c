//! Workers on a simulated machine: started, used from outside and inside, closed and counted.

use super::class::{Classes, SchedulerPlan};
use super::ledger::{Home, Ledger, Once};
use super::rank_order::Judged;
use doorbell_core::call::{Many, ManyCall, blocking, launch_many, wait_for};
use doorbell_core::scheduler::Member;
use doorbell_core::scheduler::idle::Cores;
use doorbell_core::scheduler::offline::{PutBack, TakenOff};
use doorbell_core::scheduler::telemetry::{StallReporter, Telemetry, TelemetryPlan};
use doorbell_core::scheduler::{RemoteRef, Scheduler, SchedulerSpec, Turns};
use doorbell_core::switches::{SwitchWord, Switches, TimerPull};
use doorbell_core::task::{About, BodyVtable, Join, Kind, write_body};
use doorbell_core::wait::block_on_inside;
use doorbell_core::wheel::{Clock, Quiescent};
use doorbell_core::worker::{IdlePolicy, RunBudget, WorkerConfig, WorkerCounts, WorkerShared};
use doorbell_core::worker::{Local, launch_described};
use doorbell_machine::sim::{self, SimCounter, SimThread};
use doorbell_machine::{Machine, Sim, ThreadError, ThreadHandle};
use std::sync::Arc;

/// How the workers of a run are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchedulerConfig {
    /// The number in each scheduler.
    pub(crate) workers: usize,
    pub(crate) classes: Classes,
    pub(crate) idle: IdlePolicy,
    pub(crate) switches: Switches,
    /// Whether their clock is paused: it advances only when the runtime is quiescent.
    pub(crate) paused: bool,
    /// Of the Rt scheduler, if there are several schedulers.
    pub(crate) turns: Turns,
    /// Whether some tasks are in groups.
    pub(crate) groups: bool,
    /// A limit of their CPU time; it applies to the Rt workers if there are several schedulers.
    pub(crate) budget: Option<RunBudget>,
}

/// The workers of a run: all of the first scheduler, then all of the next. Each scheduler has one worker on
/// each of the first CPUs.
#[derive(Debug)]
pub(crate) struct Workers<const BUG: u8> {
    shared: Vec<Arc<WorkerShared<Sim<BUG>>>>,
    /// Their thread numbers.
    numbers: Vec<u32>,
    /// Workers of one scheduler.
    cores: usize,
    pub(super) ledger: Arc<Ledger>,
    pub(super) clock: Arc<Clock<Sim<BUG>>>,
    turns: Vec<Turns>,
    groups: bool,
    /// The switches that all remote halves share.
    switches: Arc<SwitchWord<SimCounter>>,
}

/// The groups of tasks, with their weights, in shapes with groups.
const GROUPS: [(u8, u32); 2] = [(1, 20), (2, 900)];

/// How many ranks the tasks have in shapes with ranks.
const RANKS: u64 = 5;
/// The longest time between the requests to two workers to end.
const CLOSE_APART_NS: u64 = 60_000;
/// By when a rung worker is mostly awake.
const WAKE_NS: u64 = 8_000;

/// The threads of a run's workers.
pub(crate) type Threads = Vec<SimThread>;

/// A scheduler of parking workers, without classes, groups or a budget.
pub(crate) fn one_scheduler(workers: usize) -> SchedulerConfig {
    SchedulerConfig {
        workers,
        classes: Classes::One,
        idle: IdlePolicy::Park,
        switches: Switches::default(),
        paused: false,
        turns: Turns::ByArrival,
        groups: false,
        budget: None,
    }
}

impl<const BUG: u8> Workers<BUG> {
    /// Starts the workers.
    pub(crate) fn start(
        config: SchedulerConfig,
        ledger: Arc<Ledger>,
    ) -> Result<(Arc<Self>, Threads), ThreadError> {
        Self::start_recorded(config, ledger, &TelemetryPlan::default(), None)
    }

    /// The same. `recorded` is recorded of their tasks, and `stalls` reports stalls.
    pub(super) fn start_recorded(
        config: SchedulerConfig,
        ledger: Arc<Ledger>,
        recorded: &TelemetryPlan,
        stalls: Option<&Arc<StallReporter<Sim<BUG>>>>,
    ) -> Result<(Arc<Self>, Threads), ThreadError> {
        let switches = Arc::new(SwitchWord::new(config.switches));
        let cpus = Sim::<BUG>::topology().cpus;
        let distance = |a: usize, b: usize| match (&cpus[a], &cpus[b]) {
            (a, b) if a.smt == b.smt => 0,
            (a, b) if a.llc == b.llc => 1,
            (a, b) if a.node == b.node => 2,
            _ => 3,
        };
        let plans = config.plans();
        let cores = Cores::new(config.workers, distance);
        let scheduler = |plan: &SchedulerPlan| {
            let telemetry = || Arc::new(Telemetry::new(recorded.clone(), config.workers, stalls));
            let spec = SchedulerSpec {
                class: plan.class,
                turns: plan.turns,
                telemetry: (!recorded.is_nothing()).then(telemetry),
                cores: Some(Arc::clone(&cores)),
                ..SchedulerSpec::default()
            };
            Scheduler::described(config.workers, &switches, spec, distance)
        };
        let remotes: Vec<_> = plans.iter().map(scheduler).collect();
        if config.groups {
            Self::open_groups(&remotes[0][0]);
        }
        let clock = Self::clock(config.paused, &remotes[0][0], &ledger);
        let mut shared = Vec::new();
        let mut threads = Threads::new();
        for (plan, remotes) in plans.iter().zip(remotes) {
            let idle = WorkerConfig { idle: plan.idle };
            for (core, remote) in remotes.into_iter().enumerate() {
                let worker = Arc::new(WorkerShared::with(idle, remote, Arc::clone(&clock)));
                threads.push(plan.start::<BUG>(core, Arc::clone(&worker))?);
                shared.push(worker);
            }
        }
        let workers = Workers {
            shared,
            numbers: threads.iter().map(SimThread::number).collect(),
            cores: config.workers,
            ledger,
            clock,
            turns: plans.iter().map(|plan| plan.turns).collect(),
            groups: config.groups,
            switches,
        };
        Ok((Arc::new(workers), threads))
    }

    fn clock(
        paused: bool,
        remote: &RemoteRef<Sim<BUG>>,
        ledger: &Arc<Ledger>,
    ) -> Arc<Clock<Sim<BUG>>> {
        if !paused {
            return Arc::default();
        }
        let told = Arc::clone(ledger);
        Arc::new(Clock::paused(remote.clone(), move || {
            told.check_quiescence();
            Quiescent::Nobody
        }))
    }

    fn open_groups(remote: &RemoteRef<Sim<BUG>>) {
        for (number, weight) in GROUPS {
            let scheduler = remote.scheduler();
            // SAFETY: no other thread opens a group, and there are no tasks yet.
            unsafe {
                scheduler
                    .groups()
                    .open(scheduler.remotes().len(), number, weight);
            };
        }
    }

    /// A random group for a task that is about to be launched.
    fn any_group(&self, kind: Kind) -> Option<u8> {
        if !self.groups || kind == Kind::Call {
            return None;
        }
        let group = (sim::random() % (GROUPS.len() as u64 + 2)) as u8;
        let given = usize::from(group) <= GROUPS.len();
        // The others inherit a group or get the default one.
        given.then(|| {
            self.remote(0).scheduler().groups().reserve(group);
            group
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.shared.len()
    }

    pub(crate) fn remote(&self, worker: usize) -> &RemoteRef<Sim<BUG>> {
        self.shared[worker].remote()
    }

    /// One of each scheduler.
    pub(super) fn schedulers(&self) -> impl Iterator<Item = &Scheduler<Sim<BUG>>> {
        let first = |worker| self.remote(worker).scheduler();
        (0..self.len()).step_by(self.cores).map(first)
    }

    /// In which order the workers of a scheduler run their tasks.
    pub(super) fn turns(&self, scheduler: usize) -> Turns {
        self.turns[scheduler]
    }

    /// How many workers each scheduler has.
    pub(super) fn cores(&self) -> usize {
        self.cores
    }

    /// The number of a worker's thread.
    pub(crate) fn number(&self, worker: usize) -> u32 {
        self.numbers[worker]
    }

    /// Takes a worker off its scheduler. Returns whether it was on.
    pub(super) fn take_off(&self, worker: usize) -> bool {
        self.remote(worker)
            .scheduler()
            .take_off(worker % self.cores)
            == TakenOff::Now
    }

    /// Puts a worker back. Returns whether it was off.
    pub(super) fn put_back(&self, worker: usize) -> bool {
        self.remote(worker)
            .scheduler()
            .put_back(worker % self.cores)
            == PutBack::Now
    }

    /// Turns `timer_pull` on by so many settings.
    pub(super) fn turn_timer_pull(&self, by: usize) {
        let switches = self.switches.load();
        let all = TimerPull::ALL;
        let timer_pull = all[(switches.timer_pull as usize + by) % all.len()];
        self.switches.store(Switches {
            timer_pull,
            ..switches
        });
    }

    /// Something that must happen exactly once, on that worker.
    pub(super) fn once(&self, what: &'static str, worker: usize) -> Once {
        let home = Home {
            worker,
            thread: self.number(worker),
        };
        Once::new(&self.ledger, what, Some(home))
    }

    /// Whether the caller may run a task or call of that kind: for `Kind::Task` any worker of the
    /// scheduler, else only that worker.
    pub(super) fn is_on(&self, worker: usize, kind: Kind) -> bool {
        Local::<Sim<BUG>>::with_current(|local| {
            local.is_some_and(|local| match kind {
                Kind::Task => local.is_of(self.remote(worker).scheduler()),
                _ => local.is(self.remote(worker)),
            })
        })
    }

    /// Waits for a future on a thread that is no worker: spins for `spin_ns`, then parks.
    pub(crate) fn wait_for<F: Future>(&self, future: F, spin_ns: u64) -> F::Output {
        block_on_inside(&self.clock, future, spin_ns)
    }

    /// What a task has returned that nobody cancels, once it has ended; `None`, and a failure of the run, if it was
    /// dropped.
    pub(crate) fn result_of<T>(&self, task: Join<T>) -> Option<T> {
        let result = self.wait_for(task, 0);
        if result.is_err() {
            sim::fail("lost: a task was dropped that nobody cancelled");
        }
        result.ok()
    }

    /// The time by the workers' clock, whose zero is not that of the simulated time.
    pub(crate) fn clock_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// The counts of all workers.
    pub(crate) fn counts(&self) -> Vec<WorkerCounts> {
        self.shared.iter().map(|shared| shared.counts()).collect()
    }

    /// Asks all workers to end, and waits until they have.
    pub(crate) fn close(&self, threads: Threads) {
        self.ledger.note_close();
        self.shared.iter().for_each(|shared| shared.close());
        Self::join(threads);
    }

    /// Asks one worker to end.
    #[cfg(test)]
    pub(super) fn ask_to_end(&self, worker: usize) {
        self.shared[worker].close();
    }

    /// Asks the workers to end one after another, at random intervals and some of them while they wake up,
    /// and waits until they have.
    pub(super) fn close_slowly(&self, threads: Threads) {
        for shared in &self.shared {
            if sim::random().is_multiple_of(2) {
                shared.remote().request_pass();
                sim::work(sim::random() % WAKE_NS);
            }
            shared.close();
            sim::sleep(sim::random() % CLOSE_APART_NS);
        }
        Self::join(threads);
    }

    fn join(threads: Threads) {
        for thread in threads {
            // A panic ends the whole run, so `join` cannot report one.
            let _ = thread.join();
        }
    }

    /// Launches a task or a call.
    pub(crate) fn launch<F>(&self, worker: usize, kind: Kind, future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let rank = match self.turns[worker / self.cores] {
            Turns::ByArrival => 0,
            Turns::ByRank => (sim::random() % RANKS) as u8,
        };
        let by_rank = self.turns[worker / self.cores] == Turns::ByRank;
        let order = self.ledger.order();
        let Some(order) = order.filter(|_| by_rank && kind != Kind::Call) else {
            return self.launch_ranked(worker, kind, rank, future);
        };
        let task = (kind == Kind::Task).then(|| order.add(rank));
        let judged = Judged::new(order, rank, task, future);
        let join = self.launch_ranked(worker, kind, rank, judged);
        if let Some(task) = task {
            order.waits(task, 0);
        }
        join
    }

    /// Launches a task with a rank.
    pub(crate) fn launch_ranked<F>(
        &self,
        worker: usize,
        kind: Kind,
        rank: u8,
        future: F,
    ) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let about = About {
            rank,
            group: self.any_group(kind),
            ..About::default()
        };
        self.launch_about(worker, kind, about, future)
    }

    /// Like [`Workers::launch`], with further attributes.
    pub(super) fn launch_about<F>(
        &self,
        worker: usize,
        kind: Kind,
        about: About<'_>,
        future: F,
    ) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let vtable = BodyVtable::of::<F>();
        // SAFETY: the written body has the table's type and is Send, as is its output; the handle is typed
        // with that output.
        unsafe {
            launch_described(self.remote(worker).clone(), kind, about, vtable, |body| {
                write_body(body, future);
            })
            .typed()
        }
    }

    /// Calls a worker and waits. Not for use on a worker.
    pub(crate) fn call<R: Send>(&self, worker: usize, f: impl FnOnce() -> R + Send) -> Option<R> {
        let remote: &Member<Sim<BUG>> = self.remote(worker);
        // SAFETY: this thread waits for the call here, once, and keeps nothing of it; closure and result
        // are Send.
        unsafe { blocking(f, |call| wait_for(remote, &call)) }.ok()
    }

    /// Calls several workers at once.
    pub(crate) fn call_many<F, R>(&self, f: F, workers: &[usize]) -> Many<R>
    where
        F: Fn(usize) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        let call = ManyCall::new(f, workers);
        let layout = call.layout();
        let remotes = workers.iter().map(|worker| &**self.remote(*worker));
        let table = ManyCall::<F, R>::TABLE;
        // SAFETY: there are as many remote halves as workers, at least one. The written closure is the one
        // that the table is for, and closure and results are Send and Sync.
        let raw = unsafe {
            launch_many(remotes, workers.len(), table, layout, |data| {
                call.write(data);
            })
        };
        // SAFETY: it was launched with that table and has not been polled.
        unsafe { Many::typed::<F>(raw) }
    }

    /// Frees the schedulers, whose workers have ended and whose last user this is. Returns how many remote
    /// halves are left, or an error with the number of users.
    pub(super) fn free(workers: Arc<Self>) -> Result<usize, usize> {
        let users = Arc::strong_count(&workers);
        let workers = Arc::into_inner(workers).ok_or(users - 1)?;
        let switches = Arc::clone(&workers.switches);
        drop(workers);
        Ok(Arc::strong_count(&switches) - 1)
    }
}
