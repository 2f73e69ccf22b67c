//! [`Owner`]: starts the threads of a runtime, and ends them when it is dropped.

use crate::ambient;
use crate::around::{Around, ThreadRole};
use crate::blocking::{Blocking, Open, Pool};
use crate::builder::BuildError;
use crate::class::ClassKind;
use crate::class_workers::ClassWorkers;
use crate::forked::Forked;
use crate::handle::Handle;
use crate::relief::{DropsOn, Relief};
use crate::room::Rooms;
use crate::rt::{FAIR, Late, Plan, Rt};
use async_lock::{Mutex, OnceCell};
use doorbell_core::call::SPIN_NS;
use doorbell_core::class::Class;
use doorbell_core::scheduler::idle::Cores;
use doorbell_core::scheduler::telemetry::{StallReporter, Telemetry};
use doorbell_core::scheduler::{RemoteRef, Scheduler, SchedulerSpec, Turns};
use doorbell_core::switches::SwitchWord;
use doorbell_core::wheel::{Clock, Quiescent};
use doorbell_core::worker::remote::core_use::{CoreUse, Occupant};
use doorbell_core::worker::{IdlePolicy, WorkerConfig, WorkerShared};
use doorbell_machine::{
    Line, Machine, Parker, ThreadError, ThreadHandle, ThreadSpec, Topology, Word,
};
use event_listener::{Event, IntoNotification};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Owns the threads of the workers and the thread that looks for stalls. Dropping it ends the runtime.
#[derive(Debug)]
pub(crate) struct Owner<M: Machine> {
    pub(crate) rt: Arc<Rt<M>>,
    threads: Vec<M::Thread>,
    /// Whether the drop waits for blocking closures that are under way.
    waits_for_blocking: bool,
    /// `None` once the threads for blocking closures have been told to end.
    blocking: Option<Open>,
    /// `None` without a hook for stalls, or once its thread has been told to end.
    stalls: Option<Arc<StallReporter<M>>>,
    /// The hooks around all that threads do: kept until the workers have dropped their tasks.
    around: Option<Arc<Around>>,
}

/// How long a user's thread spins in `block_on`: as long as an idle worker, but at most [`SPIN_NS`].
fn spin_of_threads_ns(idle: IdlePolicy) -> u64 {
    match idle {
        IdlePolicy::Park => 0,
        IdlePolicy::Spin { spin_ns } => spin_ns.min(SPIN_NS),
        IdlePolicy::Adaptive { spin_max_ns, .. } => spin_max_ns.min(SPIN_NS),
        IdlePolicy::NeverPark => SPIN_NS,
    }
}

/// A paused clock that wakes the waiters for quiescence, one at a time.
fn paused_clock<M: Machine>(remote: RemoteRef<M>, quiescent: Arc<Event>) -> Clock<M> {
    Clock::paused(remote, move || {
        // `additional`: a waiter that was notified and has not run yet does not count for this notification.
        match quiescent.notify(1.additional()) {
            0 => Quiescent::Nobody,
            _ => Quiescent::Woken,
        }
    })
}

/// The clock of a runtime. If it is paused, also the event that it notifies when the runtime is quiescent.
fn clock_of<M: Machine>(plan: &Plan, fair: &RemoteRef<M>) -> (Arc<Clock<M>>, Option<Arc<Event>>) {
    let quiescent = plan.paused.then(|| Arc::new(Event::new()));
    let clock = match &quiescent {
        Some(quiescent) => paused_clock(fair.clone(), Arc::clone(quiescent)),
        None => Clock::default(),
    };
    (Arc::new(clock), quiescent)
}

/// The distance of two cores: work is stolen from the nearest first.
fn distance(topology: &Topology, one: Option<usize>, other: Option<usize>) -> u32 {
    let cpu = |os_id: Option<usize>| topology.cpu(os_id?);
    let (Some(one), Some(other)) = (cpu(one), cpu(other)) else {
        // A worker that is not bound is equally far from all others.
        return 0;
    };
    if one.node != other.node {
        3
    } else if one.llc != other.llc {
        2
    } else {
        u32::from(one.smt != other.smt)
    }
}

/// What the schedulers of a runtime have in common.
struct Common<'a, M: Machine> {
    plan: &'a Plan,
    topology: &'a Topology,
    switches: &'a Arc<SwitchWord<M::Counter>>,
    stalls: Option<&'a Arc<StallReporter<M>>>,
    cores: Arc<Cores<M>>,
}

impl<M: Machine> Common<'_, M> {
    /// The scheduler of a class, with one worker per core, below the schedulers `above`.
    fn scheduler(
        &self,
        class: ClassKind,
        above: Vec<RemoteRef<M>>,
        core_use: Occupant<M>,
    ) -> Vec<RemoteRef<M>> {
        let plan = self.plan;
        let telemetry = || Telemetry::new(plan.telemetry.clone(), plan.cpus.len(), self.stalls);
        let telemetry = (!plan.telemetry.is_nothing()).then(|| Arc::new(telemetry()));
        let (class, turns) = match class {
            ClassKind::Rt => (Class::Rt, Turns::ByRank),
            ClassKind::Fair => (Class::Fair, Turns::ByArrival),
            ClassKind::Batch => (Class::Batch, Turns::ByArrival),
        };
        let spec = SchedulerSpec {
            class,
            turns,
            telemetry,
            above,
            core_use: Some(core_use),
            cores: Some(Arc::clone(&self.cores)),
            shuffle: plan.shuffle,
        };
        Scheduler::described(plan.cpus.len(), self.switches, spec, |one, other| {
            distance(self.topology, plan.cpus[one], plan.cpus[other])
        })
    }
}

/// One scheduler for each class. With a paused clock there is only the Fair one.
struct Schedulers<M: Machine> {
    rt: Option<Vec<RemoteRef<M>>>,
    fair: Vec<RemoteRef<M>>,
    batch: Option<Vec<RemoteRef<M>>>,
}

impl<M: Machine> Schedulers<M> {
    fn new(
        plan: &Plan,
        topology: &Topology,
        switches: &Arc<SwitchWord<M::Counter>>,
        stalls: Option<&Arc<StallReporter<M>>>,
    ) -> Self {
        let words = CoreUse::new(plan.cpus.len());
        let cores = Cores::new(plan.cpus.len(), |one, other| {
            distance(topology, plan.cpus[one], plan.cpus[other])
        });
        let common = Common {
            plan,
            topology,
            switches,
            stalls,
            cores,
        };
        let scheduler = |class, side, above: &[&RemoteRef<M>]| {
            let above = above.iter().copied().cloned();
            common.scheduler(class, above.collect(), side)
        };
        let rt =
            (!plan.paused).then(|| scheduler(ClassKind::Rt, Occupant::working(&words, 0), &[]));
        let above = rt.as_ref().map(|remotes| &remotes[0]);
        let fair = scheduler(
            ClassKind::Fair,
            Occupant::spinning(&words),
            above.as_slice(),
        );
        let side = || Occupant::working(&words, 1);
        let batch = above.map(|above| scheduler(ClassKind::Batch, side(), &[&fair[0], above]));
        Schedulers { rt, fair, batch }
    }
}

/// The workers of all classes, the Fair ones first. Only the Fair ones are open.
fn classes_of<M: Machine>(
    plan: &Plan,
    schedulers: Schedulers<M>,
    clock: &Arc<Clock<M>>,
) -> Vec<ClassWorkers<M>> {
    let class = |kind, idle, remotes: Vec<RemoteRef<M>>| {
        let config = WorkerConfig { idle };
        let workers = remotes
            .into_iter()
            .map(|remote| Arc::new(WorkerShared::with(config, remote, Arc::clone(clock))));
        ClassWorkers::new(kind, workers, kind == ClassKind::Fair, &plan.policy_refused)
    };
    let mut classes = vec![class(ClassKind::Fair, plan.idle, schedulers.fair)];
    // Rt and Batch workers never spin.
    let others = [
        (ClassKind::Rt, schedulers.rt),
        (ClassKind::Batch, schedulers.batch),
    ];
    let park = IdlePolicy::Park;
    classes.extend(
        others
            .into_iter()
            .filter_map(|(kind, remotes)| Some(class(kind, park, remotes?))),
    );
    classes
}

/// The pool of threads for blocking closures.
fn blocking_of<M: Machine>(
    plan: &Plan,
    topology: &Topology,
    clock: &Arc<Clock<M>>,
) -> (Arc<Pool<M>>, Open) {
    let mut blocking = plan.blocking.clone();
    blocking.stack_size = plan.stack_size;
    if plan.cpus.iter().any(Option::is_some) {
        blocking.cpus = topology.cpus.iter().map(|cpu| cpu.os_id).collect();
    }
    Pool::new(blocking, &plan.name, clock)
}

impl<M: Machine> Owner<M> {
    /// Starts the Fair workers, one per core, and the thread that looks for stalls.
    pub(crate) fn start(plan: &Plan) -> Result<Self, BuildError> {
        let switches = Arc::new(SwitchWord::new(plan.switches));
        let topology = M::topology();
        let stalls = StallReporter::new(&plan.telemetry.hooks).map(Arc::new);
        let schedulers = Schedulers::new(plan, &topology, &switches, stalls.as_ref());
        let (clock, quiescent) = clock_of(plan, &schedulers.fair[0]);
        let classes = classes_of(plan, schedulers, &clock);
        let (blocking, open) = blocking_of(plan, &topology, &clock);
        if let Some(stalls) = &stalls {
            blocking.tell_of_queued(stalls);
        }
        let rt = Arc::new_cyclic(|me| Rt {
            workers: classes[FAIR].workers.clone(),
            late: Mutex::new(Late {
                threads: Vec::new(),
                ended: false,
            }),
            classes,
            switching: Mutex::new(()),
            urgent: plan.urgent,
            name: plan.name.clone(),
            stack_size: plan.stack_size,
            me: Weak::clone(me),
            around: OnceCell::new(),
            around_panics: M::Counter::default(),
            forked: Forked::here(),
            switches,
            cursor: M::Line::new(M::Counter::default),
            spin_ns: spin_of_threads_ns(plan.idle),
            clock,
            quiescent,
            cpus: plan.cpus.clone(),
            rooms: Rooms::new(plan.mailbox_limit, plan.cpus.len()),
            blocking,
            groups: Mutex::default(),
        });
        // If a thread cannot be started, dropping the owner ends the others.
        let mut owner = Owner {
            rt,
            threads: Vec::new(),
            blocking: Some(open),
            stalls,
            waits_for_blocking: true,
            around: None,
        };
        owner.enter_around(plan)?;
        for core in 0..plan.cpus.len() {
            let thread = owner.rt.start_worker(core, FAIR)?;
            owner.threads.push(thread);
        }
        owner.report_stalls(plan, &topology)?;
        Ok(owner)
    }

    /// Makes the hooks around threads, before there are any.
    fn enter_around(&mut self, plan: &Plan) -> Result<(), BuildError> {
        self.around = plan
            .around
            .start(&self.handle())
            .map_err(BuildError::Around)?;
        if let Some(around) = &self.around {
            let _ = self.rt.around.set_blocking(Arc::downgrade(around));
        }
        Ok(())
    }

    /// Starts the thread that looks for stalls, if there is a hook for them. The thread may use all CPUs of
    /// the mask. The owner does not wait for its end: the hook may end this runtime, or another runtime whose
    /// hook ends this one.
    fn report_stalls(&self, plan: &Plan, topology: &Topology) -> Result<(), ThreadError> {
        let Some(stalls) = self.stalls.clone() else {
            return Ok(());
        };
        let spec = ThreadSpec {
            name: format!("{}-stalls", plan.name),
            cpu: None,
            stack_size: plan.stack_size,
        };
        let classes = self.rt.classes.iter();
        let schedulers: Vec<_> = classes
            .map(|class| class.workers[0].remote().clone())
            .collect();
        let cpus: Vec<usize> = topology.cpus.iter().map(|cpu| cpu.os_id).collect();
        let blocking = Arc::clone(&self.rt.blocking);
        let run = move || {
            // If the OS refuses, the thread keeps the CPUs of its starter.
            let _ = M::bind_thread(&cpus);
            stalls.run(&schedulers, &|| blocking.oldest_ns());
        };
        drop(M::spawn(spec, Box::new(run))?);
        Ok(())
    }

    pub(crate) fn handle(&self) -> Handle {
        let rt: Arc<Rt<M>> = Arc::clone(&self.rt);
        Handle::new(rt)
    }
}

impl<M: Machine> Owner<M> {
    /// Tells all workers and the blocking pool to end.
    fn close(&mut self) {
        // Tell all before waiting for any: a task of one worker may wait until a task of another is dropped.
        let mut late = self.rt.late.lock_blocking();
        if std::mem::replace(&mut late.ended, true) {
            return;
        }
        self.threads.append(&mut late.threads);
        drop(late);
        // What waits for a worker that has no thread runs or is dropped here, and finds the runtime.
        let rt: Arc<Rt<M>> = Arc::clone(&self.rt);
        let _entered = ambient::enter(Handle::new(rt));
        self.rt.run_around(ThreadRole::Ending, || {
            for class in &self.rt.classes {
                let (begun, unbegun) = class.workers.split_at(class.begun());
                for worker in begun {
                    worker.close();
                }
                for worker in unbegun {
                    worker.close_unbegun();
                }
            }
        });
        if let Some(stalls) = self.stalls.take() {
            stalls.end();
        }
        if let Some(open) = self.blocking.take() {
            self.rt.blocking.close(open);
        }
    }

    /// Ends the runtime, and waits for its threads for at most `timeout`. Returns the number of threads that
    /// had not ended.
    pub(crate) fn shutdown(&mut self, timeout: Duration) -> usize {
        if self.rt.forked.is_child() {
            // None of its threads is in this process.
            return 0;
        }
        self.close();
        let blocking = Arc::clone(&self.rt.blocking);
        // A worker or a blocking closure could wait for itself.
        let waits = !ambient::on_a_worker() && !ambient::on_a_blocking_thread();
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = M::now_ns().saturating_add(if waits { timeout_ns } else { 0 });
        let running = self.wait(until_ns, DropsOn::OwnThread, || blocking.metrics().threads);
        if running > 0 {
            // `drop` joins the workers that have ended, which takes no time. The others are detached.
            self.threads.retain(M::Thread::is_finished);
            self.waits_for_blocking = false;
        }
        running
    }

    /// Waits until all workers have ended and no `others` are left, at most until `until_ns`. Returns how many
    /// threads are left. Meanwhile it ends the tasks of workers that are inside a long poll: that poll may wait
    /// for what such a task has.
    fn wait(&self, until_ns: u64, drops_on: DropsOn, others: impl Fn() -> usize) -> usize {
        let (word, parker) = (M::U32::new(0), M::Parker::new());
        let mut relief = Relief::new(&self.rt, drops_on);
        let mut pause_ns = FIRST_LOOK_NS;
        loop {
            let workers = self.threads.iter().filter(|thread| !thread.is_finished());
            let running = workers.count() + others() + usize::from(relief.is_at_work());
            let now_ns = M::now_ns();
            if running == 0 || now_ns >= until_ns {
                return running;
            }
            relief.look(now_ns);
            let next_ns = now_ns.saturating_add(pause_ns).min(until_ns);
            let _ = parker.park(&word, 0, Some(next_ns));
            pause_ns = (2 * pause_ns).min(LOOK_NS);
        }
    }
}

impl<M: Machine> Drop for Owner<M> {
    fn drop(&mut self) {
        if self.rt.forked.is_child() {
            // None of its threads is in this process, and one of them may have had any lock.
            let threads = std::mem::take(&mut self.threads);
            std::mem::forget((threads, self.blocking.take(), self.around.take()));
            return;
        }
        self.close();
        // On a worker of any runtime this does not wait: the worker's other tasks would wait too, and two
        // runtimes that end each other would wait for ever. The workers end by themselves, after their
        // current polls.
        if ambient::on_a_worker() {
            return;
        }
        self.wait(u64::MAX, DropsOn::Caller, || 0);
        for thread in self.threads.drain(..) {
            // A join never fails: a worker catches the panics of tasks, and its own panic aborts the process,
            // see `run_worker`.
            let _ = thread.join();
        }
        // A blocking closure that ends a runtime could wait for itself, or for another closure that waits for
        // it.
        if self.waits_for_blocking && !ambient::on_a_blocking_thread() {
            self.rt.blocking.join();
        }
    }
}

/// The first interval at which the thread that ends a runtime checks whether the workers have ended. It doubles
/// each time, up to `LOOK_NS`.
const FIRST_LOOK_NS: u64 = 20_000;
const LOOK_NS: u64 = 500_000;
