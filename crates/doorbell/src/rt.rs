//! [`Rt`]: the runtime of one machine, behind the public types.

use crate::ambient::{self, Ambient, Limit};
use crate::around::{Around, AroundPlan, ThreadRole};
use crate::blocking::{Blocking, BlockingPlan, Pool};
use crate::class_workers::{ClassWorkers, OpenError, Opened, obtain};
use crate::forked::Forked;
use crate::group::{Group, Registry, TooManyGroups, about_of};
use crate::handle::Handle;
use crate::hooks::WorkerInfo;
use crate::metrics::{Metrics, WorkerMetrics};
use crate::net::{self, Registered};
use crate::policy_hook::PolicyHooks;
use crate::room::Rooms;
use crate::rt_plan::RtPlan;
use crate::{
    Class, ClassKind, CoreId,
    metrics::{Policy, WorkerPolicy},
    switches::Switches,
};
use async_lock::{Mutex, OnceCell};
use doorbell_core::bell::WorkerState;
use doorbell_core::call::{ErasedCall, ManyTable, RawMany, launch_many, wait_for};
use doorbell_core::mailbox::Gone;
use doorbell_core::parcel::{Drawn, Pool as Parcels, Room, Run};
use doorbell_core::scheduler::offline::{PutBack, TakenOff};
use doorbell_core::scheduler::telemetry::TelemetryPlan;
use doorbell_core::switches::SwitchWord;
use doorbell_core::task::{About, BodyVtable, Kind, RawJoin};
use doorbell_core::wait;
use doorbell_core::wheel::{Clock, Holds, Window};
use doorbell_core::worker::timer::RawTimer;
use doorbell_core::worker::{IdlePolicy, WorkerShared};
use doorbell_core::worker::{Local, TaskSeen, launch_described};
use doorbell_machine::{Counter, Machine, ThreadError, ThreadSpec};
use event_listener::{Event, EventListener};
use std::alloc::Layout;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::task::Waker;

/// Sleeps shorter than this are timed by the OS's own clock. Longer ones are mostly timeouts, which are armed often and
/// seldom fire: the cheap clock is exact enough for them.
const EXACT_BELOW_NS: u64 = 50_000_000;

/// The settings of a runtime, after the builder has checked them.
pub(crate) struct Plan {
    pub(crate) name: String,
    /// The CPU of each core; `None` leaves its worker free.
    pub(crate) cpus: Vec<Option<usize>>,
    /// The stack size of each thread, in bytes; `None` for the machine's default.
    pub(crate) stack_size: Option<usize>,
    pub(crate) idle: IdlePolicy,
    pub(crate) switches: Switches,
    pub(crate) blocking: BlockingPlan,
    pub(crate) mailbox_limit: Option<usize>,
    pub(crate) telemetry: TelemetryPlan,
    pub(crate) policy_refused: PolicyHooks,
    pub(crate) around: AroundPlan,
    /// Whether the clock is paused.
    pub(crate) paused: bool,
    /// The seed of shuffled turns.
    pub(crate) shuffle: Option<u64>,
    /// How the Rt workers run.
    pub(crate) urgent: RtPlan,
}

/// The state that handles and workers share.
pub(crate) struct Rt<M: Machine> {
    /// The Fair workers. They are also in `classes`; this saves posts and calls one step.
    pub(crate) workers: Box<[Arc<WorkerShared<M>>]>,
    /// All classes; with a paused clock only Fair.
    pub(crate) classes: Vec<ClassWorkers<M>>,
    pub(crate) late: Mutex<Late<M>>,
    /// Held while a core is taken off or put back in all schedulers.
    pub(crate) switching: Mutex<()>,
    pub(crate) urgent: RtPlan,
    /// The start of the name of each worker's thread.
    pub(crate) name: String,
    /// The stack size of each worker's thread, in bytes; `None` for the machine's default.
    pub(crate) stack_size: Option<usize>,
    pub(crate) me: Weak<Rt<M>>,
    /// The hooks around all that threads do; empty if there are none. The owner keeps them.
    pub(crate) around: OnceCell<Weak<Around>>,
    /// Number of panics of these hooks.
    pub(crate) around_panics: M::Counter,
    pub(crate) forked: Forked<M>,
    pub(crate) switches: Arc<SwitchWord<M::Counter>>,
    /// The next core in turn. Every thread that is not a worker writes it, so it has a line of its own.
    pub(crate) cursor: M::Line<M::Counter>,
    pub(crate) spin_ns: u64,
    pub(crate) clock: Arc<Clock<M>>,
    /// Notified when the runtime is quiescent; only with a paused clock.
    pub(crate) quiescent: Option<Arc<Event>>,
    /// The CPU of each core; `None` leaves its worker free.
    pub(crate) cpus: Vec<Option<usize>>,
    pub(crate) rooms: Rooms,
    pub(crate) blocking: Arc<Pool<M>>,
    /// The groups that the numbers of the Fair scheduler stand for.
    pub(crate) groups: Mutex<Registry>,
}

impl<M: Machine> std::fmt::Debug for Rt<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rt")
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

/// The threads that were started while the runtime ran.
pub(crate) struct Late<M: Machine> {
    pub(crate) threads: Vec<M::Thread>,
    /// Whether the runtime has ended, so that no more threads are started.
    pub(crate) ended: bool,
}

/// Aborts the process if a worker unwinds: threads that wait for the worker would wait for ever.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        // Only reached by unwinding: std has printed the panic.
        std::process::abort();
    }
}

/// The index of the Fair workers in `Rt::classes`.
pub(crate) const FAIR: usize = 0;

impl<M: Machine> Rt<M> {
    /// Starts the thread of a worker. The workers of a class are started in order, from core 0 on.
    pub(crate) fn start_worker(&self, core: usize, class: usize) -> Result<M::Thread, ThreadError> {
        let kind = self.classes[class].kind;
        let ending = match kind {
            ClassKind::Fair => "",
            ClassKind::Rt => "-rt",
            ClassKind::Batch => "-batch",
        };
        let spec = ThreadSpec {
            name: format!("{}-{core}{ending}", self.name),
            // The CPU of a core that is off may be gone.
            cpu: self.cpus[core].filter(|_| self.is_on(core)),
            stack_size: self.stack_size,
        };
        let rt = self
            .me
            .upgrade()
            .expect("whoever starts a worker has the runtime");
        let thread = M::spawn(spec, Box::new(move || rt.run_worker(core, class)))?;
        self.classes[class].set_begun(core + 1);
        Ok(thread)
    }

    fn run_worker(self: Arc<Self>, core: usize, class: usize) {
        let rt = Arc::clone(&self);
        let class = &rt.classes[class];
        let obtained = obtain::<M>(class.kind, self.urgent.priority);
        // Set once, here.
        let _ = class.obtained[core].set_blocking(obtained);
        let shared = Arc::clone(&class.workers[core]);
        let entered = ambient::enter_worker(Handle::new(self), core, class.kind);
        let info = WorkerInfo::new(CoreId::new(core), class.kind);
        rt.run_around(ThreadRole::Worker(info), || {
            class.tell_if_refused(core);
            let goes_first = class.kind == ClassKind::Rt && obtained.is_fifo();
            let abort = AbortOnUnwind;
            rt.urgent.run(shared, goes_first);
            // Inside the hooks, as all that runs code of a user here.
            M::user(|| entered.end_locals());
            std::mem::forget(abort);
        });
        drop(rt);
        drop(entered);
    }

    /// The workers that run tasks of a class: those of the class if it is open, else the Fair workers.
    #[inline]
    fn workers_for(&self, kind: ClassKind) -> &[Arc<WorkerShared<M>>] {
        if let Some(ended) = self.in_child() {
            return &ended.workers;
        }
        if kind == ClassKind::Fair {
            return &self.workers;
        }
        let open = |class: &&ClassWorkers<M>| class.kind == kind && class.is_open();
        let class = self.classes.iter().find(open);
        class.map_or(&*self.workers, |class| &*class.workers)
    }

    /// The Fair workers.
    #[inline]
    fn fair(&self) -> &[Arc<WorkerShared<M>>] {
        self.workers_for(ClassKind::Fair)
    }

    /// Whether the worker belongs to this runtime.
    fn has(&self, local: &Local<M>) -> bool {
        let mut remotes = self.classes.iter().map(|class| class.workers[0].remote());
        remotes.any(|remote| local.is_of(remote.scheduler()))
    }

    /// The workers of the calling worker's class; on any other thread the Fair workers.
    #[inline]
    fn workers_here(&self) -> &[Arc<WorkerShared<M>>] {
        if let Some(ended) = self.in_child() {
            return &ended.workers;
        }
        Local::<M>::with_current(|local| {
            let mine = |class: &&ClassWorkers<M>| {
                local.is_some_and(|local| local.is_of(class.workers[0].remote().scheduler()))
            };
            let class = self.classes.iter().find(mine);
            class.map_or(&*self.workers, |class| &*class.workers)
        })
    }
}

impl<M: Machine> Ambient for Rt<M> {
    fn cores(&self) -> usize {
        self.workers.len()
    }

    fn reserve_in_group(&self, group: &Group) -> Result<u8, TooManyGroups> {
        let scheduler = self.workers[0].remote().scheduler();
        self.groups.lock_blocking().reserve(scheduler, group)
    }

    fn is_on(&self, core: usize) -> bool {
        !self.workers[core].remote().is_off()
    }

    fn room(&self, core: usize) -> Option<&Arc<crate::room::Room>> {
        self.rooms.of(core)
    }

    fn open(&self, kind: ClassKind) -> Result<Opened, OpenError> {
        let Some(at) = self.classes.iter().position(|class| class.kind == kind) else {
            return Ok(Opened::Before);
        };
        let class = &self.classes[at];
        if class.is_open() {
            return Ok(Opened::Before);
        }
        if self.forked.is_child() {
            // A thread of the parent may have had the lock below.
            return Err(OpenError::RuntimeGone);
        }
        if kind == ClassKind::Batch {
            // A thread begins under the policy of its starter, and without a privilege it cannot leave
            // `SCHED_IDLE`. So the Rt workers are started before any task runs on a Batch worker.
            let _ = self.open(ClassKind::Rt)?;
        }
        let mut late = self.late.lock_blocking();
        if late.ended {
            return Err(OpenError::RuntimeGone);
        }
        if class.is_open() {
            return Ok(Opened::Before);
        }
        if kind == ClassKind::Batch {
            // For the same reason, a thread that starts blocking threads for Batch workers is started first.
            late.threads.extend(self.blocking.prepare_for_batch()?);
        }
        while class.begun() < class.workers.len() {
            let thread = self.start_worker(class.begun(), at)?;
            late.threads.push(thread);
        }
        // Under this lock, either the thread that switches a core sees the class open, or this thread sees
        // the core switched.
        let _cores = self.switching.lock_blocking();
        class.set_open();
        Ok(Opened::Now)
    }

    fn has_ended(&self) -> bool {
        self.fair()[0].is_closing()
    }

    fn is_open(&self, kind: ClassKind) -> bool {
        let mut classes = self.classes.iter();
        classes.all(|class| class.kind != kind || class.is_open())
    }

    fn opened(&self) -> Vec<ClassKind> {
        let open = self.classes.iter().filter(|class| class.is_open());
        open.map(|class| class.kind).collect()
    }

    fn policies(&self) -> Vec<WorkerPolicy> {
        self.classes
            .iter()
            .flat_map(ClassWorkers::policies)
            .collect()
    }

    fn current_rank(&self) -> u8 {
        Local::<M>::with_current(|local| local.map_or(Class::FAIR.rank(), Local::rank))
    }

    fn set_current_rank(&self, rank: u8) {
        Local::<M>::with_current(|local| {
            if let Some(local) = local {
                local.set_rank(rank);
            }
        });
    }

    fn raised_rank(&self) -> Option<u8> {
        Local::<M>::with_current(|local| local.and_then(Local::raised_rank))
    }

    fn set_on(&self, core: usize, on: bool) -> Option<bool> {
        if self.forked.is_child() {
            // The calls that follow find the workers gone.
            return Some(false);
        }
        // One switch at a time, so that all schedulers agree on which cores are on.
        let _cores = self.switching.lock_blocking();
        let switch = |class: &ClassWorkers<M>| {
            let scheduler = class.workers[core].remote().scheduler();
            if on {
                return Some(scheduler.put_back(core) == PutBack::Now);
            }
            match scheduler.take_off(core) {
                TakenOff::Now => Some(true),
                // No other thread asks: this one has the lock.
                TakenOff::Before | TakenOff::Asked => Some(false),
                TakenOff::LastOne => None,
            }
        };
        // The Fair scheduler decides whether the core may be taken off; the others follow.
        let switched = switch(&self.classes[FAIR])?;
        for class in &self.classes[FAIR + 1..] {
            let _ = switch(class);
        }
        Some(switched)
    }

    fn follow_core(&self, core: usize) -> Result<(), ThreadError> {
        Local::<M>::with_current(|local| {
            if let Some(local) = local {
                local.follow();
            }
        });
        let Some(cpu) = self.cpus[core] else {
            return Ok(());
        };
        // Tasks that cannot leave the worker of a core that is off run on the CPUs of the cores that are on.
        let on = (0..self.cpus.len()).filter(|core| self.is_on(*core));
        let cpus: Vec<usize> = if self.is_on(core) {
            vec![cpu]
        } else {
            on.filter_map(|core| self.cpus[core]).collect()
        };
        M::bind_thread(&cpus)
    }

    fn rouse(&self, core: usize) {
        for class in &self.classes {
            class.workers[core].rouse();
        }
    }

    fn next_core(&self) -> usize {
        (self.cursor.add_shared(1) % self.workers.len() as u64) as usize
    }

    unsafe fn launch(
        &self,
        core: usize,
        kind: Kind,
        class: Class,
        about: About<'_>,
        vtable: &'static BodyVtable,
        write: &mut dyn FnMut(*mut u8),
    ) -> RawJoin {
        let remote = self.workers_for(class.kind())[core].remote().clone();
        // SAFETY: passed on from the caller.
        unsafe { launch_described(remote, kind, about_of(class, about), vtable, write) }
    }

    unsafe fn launch_here(
        &self,
        core: usize,
        workers: ClassKind,
        class: Class,
        about: About<'_>,
        vtable: &'static BodyVtable,
        write: &mut dyn FnMut(*mut u8),
    ) -> RawJoin {
        let of_kind = self.classes.iter().find(|class| class.kind == workers);
        let workers = of_kind.map_or(&self.workers, |class| &class.workers);
        let workers = self.in_child().map_or(workers, |ended| &ended.workers);
        let remote = workers[core].remote().clone();
        // SAFETY: passed on from the caller.
        unsafe { launch_described(remote, Kind::Pinned, about_of(class, about), vtable, write) }
    }

    unsafe fn call_blocking(
        &self,
        core: usize,
        workers: ClassKind,
        call: &ErasedCall,
    ) -> Result<(), Gone> {
        // SAFETY: passed on from the caller.
        unsafe { wait_for(&**self.workers_for(workers)[core].remote(), call) }
    }

    fn draw(&self, core: usize, room: Room, limit: Limit) -> Option<Drawn> {
        let worker = self.workers.get(core)?;
        let limited = limit == Limit::Heed && self.rooms.of(core).is_some();
        (!limited && !worker.remote().is_off()).then(|| Parcels::<M>::draw_current(room))
    }

    unsafe fn send(&self, core: usize, drawn: Drawn, run: Run) -> Result<(), Gone> {
        // SAFETY: passed on from the caller.
        unsafe { Parcels::<M>::send(&**self.fair()[core].remote(), drawn, run) }
    }

    unsafe fn call_many(
        &self,
        cores: &[usize],
        table: &'static ManyTable,
        data: Layout,
        write: &mut dyn FnMut(NonNull<u8>),
    ) -> RawMany {
        let workers = self.fair();
        let remotes = cores.iter().map(|&core| &**workers[core].remote());
        // SAFETY: passed on from the caller.
        unsafe { launch_many(remotes, cores.len(), table, data, write) }
    }

    fn block_on(&self, holds: Holds, future: Pin<&mut dyn Future<Output = ()>>) {
        self.run_around(ThreadRole::BlockOn, || {
            let _inside = self.clock.inside(holds);
            wait::block_on_inside(&self.clock, future, self.spin_ns);
        });
    }

    fn around_blocking(&self, work: &mut dyn FnMut()) {
        self.run_around(ThreadRole::Blocking, work);
    }

    fn schedule_thread_as(&self, kind: ClassKind) -> Option<Policy> {
        self.blocking.leave_core();
        obtain::<M>(kind, self.urgent.priority).got()
    }

    fn has_paused_clock(&self) -> bool {
        self.quiescent.is_some()
    }

    fn advance(&self, duration_ns: u64) -> Option<EventListener> {
        // Listen before the clock moves: the runtime may be quiescent at once.
        let quiescent = self.quiescent.as_ref()?.listen();
        self.clock.advance_by(duration_ns);
        Some(quiescent)
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn after_ns(&self, duration_ns: u64) -> u64 {
        // The cheap clock may lag by some microseconds, which is too much for Rt tasks and for short sleeps.
        let is_exact = |local: Option<&Local<M>>| local.is_some_and(|it| it.turns().is_exact());
        if duration_ns < EXACT_BELOW_NS || Local::<M>::with_current(is_exact) {
            self.clock.after_exactly_ns(duration_ns)
        } else {
            self.clock.after_ns(duration_ns)
        }
    }

    fn arm_timer(
        &self,
        window: Window,
        is_ahead: bool,
        waker: &Waker,
    ) -> Result<Option<RawTimer>, Gone> {
        if !is_ahead && self.clock.has_passed(window.from_ns) {
            return Ok(None);
        }
        RawTimer::arm(self.workers_here()[0].remote(), window, waker).map(Some)
    }

    fn register(&self, fd: BorrowedFd<'static>) -> io::Result<Box<dyn Registered>> {
        let remote = Local::<M>::with_current(|local| {
            let mine = local.filter(|local| self.has(local));
            mine.map(|local| local.remote().clone())
        });
        let remote = remote.unwrap_or_else(|| self.fair()[0].remote().clone());
        net::register(remote, fd)
    }

    fn blocking(&self) -> &dyn Blocking {
        self.in_child()
            .map_or(&self.blocking, |ended| &ended.blocking)
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::new(self.blocking.metrics());
        metrics.recorded.hook_panics += self.around_panics.get();
        for class in &self.classes {
            // Before the test: a class that is being opened may have counted panics of hooks already.
            metrics.recorded.hook_panics += class.hook_panics.get();
            if class.is_open() {
                let workers = class.workers.iter().enumerate().map(|(core, worker)| {
                    let core = CoreId::new(core);
                    WorkerMetrics::new(core, class.kind, worker.state(), &worker.counts())
                });
                metrics.add(workers, class.workers[0].remote().scheduler().telemetry());
            }
        }
        metrics
    }

    fn tasks_here(&self) -> Vec<TaskSeen> {
        Local::<M>::with_current(|local| {
            let mine = local.filter(|local| self.has(local));
            mine.map(Local::tasks).unwrap_or_default()
        })
    }

    fn worker_state(&self, core: usize) -> WorkerState {
        self.workers[core].state()
    }

    fn switches(&self) -> Switches {
        self.switches.load()
    }

    fn set_switches(&self, switches: Switches) {
        self.switches.store(switches);
    }
}
