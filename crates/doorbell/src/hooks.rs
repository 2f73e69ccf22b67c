//! Closures that a runtime calls when its workers and tasks begin, end or park.

use crate::ambient;
use crate::{Builder, ClassKind, CoreId, TaskId, metrics::Metrics};
use doorbell_core::scheduler::telemetry::{TaskEvent, TaskHook, WorkerHook};
use std::panic::Location;
use std::sync::Arc;

/// The worker for which a hook is called: see [`Builder::on_worker_start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkerInfo {
    core: CoreId,
    class: ClassKind,
}

impl WorkerInfo {
    pub(crate) fn new(core: CoreId, class: ClassKind) -> Self {
        WorkerInfo { core, class }
    }

    /// The core of the worker.
    ///
    /// ```
    /// let builder = doorbell::Builder::new().on_worker_start(|worker| println!("{}", worker.core()));
    /// # drop(builder);
    /// ```
    pub fn core(&self) -> CoreId {
        self.core
    }

    /// The class of the tasks that the worker runs. A core has one worker for each class that is used.
    ///
    /// ```
    /// use doorbell::{Builder, ClassKind};
    ///
    /// let builder = Builder::new().on_worker_start(|worker| {
    ///     if worker.class() == ClassKind::Rt {
    ///         println!("core {} has an urgent worker", worker.core());
    ///     }
    /// });
    /// # drop(builder);
    /// ```
    pub fn class(&self) -> ClassKind {
        self.class
    }
}

/// The task for which a hook is called: see [`Builder::on_task_spawn`].
#[doc(alias = "TaskMeta")]
#[derive(Clone, Copy, Debug)]
pub struct TaskInfo<'a> {
    event: &'a TaskEvent<'a>,
}

impl TaskInfo<'_> {
    /// The number of the task. [`Builder::on_task_spawn`] has an example.
    pub fn id(&self) -> TaskId {
        TaskId::new(self.event.id)
    }

    /// The name of the task, if it was given one. [`Builder::on_task_spawn`] has an example.
    pub fn name(&self) -> Option<&str> {
        self.event.name
    }

    /// The core on which the hook runs: the core that spawns the task, or the core on which the task has
    /// ended. `None` on a thread that is not a worker of the runtime. [`Builder::on_task_spawn`] has an
    /// example.
    pub fn core(&self) -> Option<CoreId> {
        self.event.worker.map(CoreId::new)
    }

    /// The line that called `spawn` or the like for the task. For a task that a library spawned, it is a line of
    /// that library. [`Builder::on_before_task_poll`] has an example.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.event.spawned_at
    }
}

fn worker_hook(hook: impl Fn(&WorkerInfo) + Send + Sync + 'static) -> WorkerHook {
    let hook = move |worker| {
        // The hook is called on that worker.
        let class = ambient::with_worker(|frame| frame.map(ambient::Frame::kind));
        let class = class.unwrap_or(ClassKind::Fair);
        hook(&WorkerInfo::new(CoreId::new(worker), class));
    };
    Arc::new(hook)
}

fn task_hook(hook: impl Fn(&TaskInfo<'_>) + Send + Sync + 'static) -> TaskHook {
    Arc::new(move |event: &TaskEvent<'_>| {
        hook(&TaskInfo { event });
    })
}

/// Hooks. There may be several of each kind: all are called, in the order in which they were added. A hook runs on the
/// thread that the event concerns. The tasks of that worker wait for it, and with the switch `timer_pull=on` the timers of other
/// workers that sleep may too, so a hook is to be short. ([`Builder::on_stall`] is the exception: it has a
/// thread of its own.) A panic of a hook is caught and counted ([`Metrics::hook_panics`]), and has no other
/// effect. A kind without a hook costs one branch.
impl Builder {
    /// Calls `hook` on each worker before the worker runs anything else. [`crate::current_core`] and
    /// [`crate::spawn`] work in it.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (says, hears) = mpsc::channel();
    /// let runtime = doorbell::Builder::new()
    ///     .cores(2)
    ///     .on_worker_start(move |worker| says.send(worker.core().index()).unwrap())
    ///     .build()?;
    /// assert_eq!(hears.recv()? + hears.recv()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "on_thread_start")]
    #[must_use]
    pub fn on_worker_start(mut self, hook: impl Fn(&WorkerInfo) + Send + Sync + 'static) -> Self {
        self.telemetry.hooks.worker_start.push(worker_hook(hook));
        self
    }

    /// Calls `hook` on each worker that ends, after all its tasks have been dropped. A task that the hook
    /// spawns is cancelled.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (says, hears) = mpsc::channel();
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .on_worker_stop(move |worker| says.send(worker.core()).unwrap())
    ///     .build()?;
    /// drop(runtime);
    /// assert_eq!(hears.try_recv()?.index(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "on_thread_stop")]
    #[must_use]
    pub fn on_worker_stop(mut self, hook: impl Fn(&WorkerInfo) + Send + Sync + 'static) -> Self {
        self.telemetry.hooks.worker_stop.push(worker_hook(hook));
        self
    }

    /// Calls `hook` on a worker that has nothing to do and is about to park. If the hook spawns a task, the
    /// worker runs it instead of parking.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (says, hears) = mpsc::channel();
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .before_park(move |worker| drop(says.send(worker.core().index())))
    ///     .build()?;
    /// assert_eq!(hears.recv()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "on_thread_park")]
    #[must_use]
    pub fn before_park(mut self, hook: impl Fn(&WorkerInfo) + Send + Sync + 'static) -> Self {
        self.telemetry.hooks.before_park.push(worker_hook(hook));
        self
    }

    /// Calls `hook` on a worker that goes on after [`Builder::before_park`], once for each call of that hook:
    /// the worker was woken, or found something to do before it parked.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (says, hears) = mpsc::channel();
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .after_unpark(move |worker| drop(says.send(worker.core().index())))
    ///     .build()?;
    /// drop(runtime);
    /// assert!(hears.iter().all(|core| core == 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "on_thread_unpark")]
    #[must_use]
    pub fn after_unpark(mut self, hook: impl Fn(&WorkerInfo) + Send + Sync + 'static) -> Self {
        self.telemetry.hooks.after_unpark.push(worker_hook(hook));
        self
    }

    /// Calls `hook` for each task that is spawned, on the thread that spawns it. The task does not run before
    /// the hook has returned. If the hook spawns a task, it is called for that task too.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (says, hears) = mpsc::channel();
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .on_task_spawn(move |task| {
    ///         let name = task.name().map(str::to_owned);
    ///         says.send((task.id(), name, task.core())).unwrap();
    ///     })
    ///     .build()?;
    /// let task = runtime.task().name("first").spawn(async {});
    /// assert_eq!(hears.recv()?, (task.id(), Some("first".to_owned()), None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_task_spawn(mut self, hook: impl Fn(&TaskInfo<'_>) + Send + Sync + 'static) -> Self {
        self.telemetry.hooks.task_spawn.push(task_hook(hook));
        self
    }

    /// Calls `hook` for each task that has ended: it returned, panicked or was cancelled. The future has been
    /// dropped by then. A task that awaits this one sees its end only after the hook has returned.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (says, hears) = mpsc::channel();
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .on_task_finish(move |task| says.send(task.id()).unwrap())
    ///     .build()?;
    /// let task = runtime.spawn(async {});
    /// let id = task.id();
    /// runtime.block_on(task)?;
    /// assert_eq!(hears.try_recv()?, id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "on_task_terminate")]
    #[must_use]
    pub fn on_task_finish(mut self, hook: impl Fn(&TaskInfo<'_>) + Send + Sync + 'static) -> Self {
        self.telemetry.hooks.task_finish.push(task_hook(hook));
        self
    }

    /// Calls `hook` before each poll of a task, on the worker that polls it. With
    /// [`Builder::on_after_task_poll`] it can time polls.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (says, hears) = mpsc::channel();
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .on_before_task_poll(move |task| says.send((task.id(), task.spawned_at().line())).unwrap())
    ///     .build()?;
    /// let (task, line) = (runtime.spawn(doorbell::yield_now()), line!());
    /// let id = task.id();
    /// runtime.block_on(task)?;
    /// assert_eq!(hears.try_iter().collect::<Vec<_>>(), [(id, line), (id, line)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_before_task_poll(
        mut self,
        hook: impl Fn(&TaskInfo<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.telemetry.hooks.before_poll.push(task_hook(hook));
        self
    }

    /// Calls `hook` after each poll of a task, on the worker that has polled it: it returned, waits or panicked. The
    /// hook is called as often as that of [`Builder::on_before_task_poll`], and before
    /// [`Builder::on_task_finish`].
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    ///
    /// static POLLS: AtomicUsize = AtomicUsize::new(0);
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .on_after_task_poll(|_| {
    ///         POLLS.fetch_add(1, SeqCst);
    ///     })
    ///     .build()?;
    /// assert!(runtime.block_on(runtime.spawn(async { panic!("on purpose") })).is_err());
    /// assert_eq!(POLLS.load(SeqCst), 1);
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    #[must_use]
    pub fn on_after_task_poll(
        mut self,
        hook: impl Fn(&TaskInfo<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.telemetry.hooks.after_poll.push(task_hook(hook));
        self
    }
}

impl Metrics {
    /// Number of hook calls that have panicked.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .on_task_finish(|_| panic!("of a hook"))
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(async {}))?;
    /// assert_eq!(runtime.metrics().hook_panics(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hook_panics(&self) -> u64 {
        self.recorded.hook_panics
    }
}
