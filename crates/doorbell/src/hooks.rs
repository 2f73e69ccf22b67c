//! Closures that a runtime calls when its workers and tasks begin, end or park.

use crate::ambient;
use crate::{Builder, ClassKind, CoreId, Metrics, TaskId};
use doorbell_core::worker::{TaskEvent, TaskHook, WorkerHook};
use std::sync::Arc;

/// A worker, as a hook is shown it: see [`Builder::on_worker_start`].
#[derive(Clone, Copy, Debug)]
pub struct WorkerInfo {
    core: CoreId,
    class: ClassKind,
}

impl WorkerInfo {
    pub(crate) fn new(core: CoreId, class: ClassKind) -> Self {
        WorkerInfo { core, class }
    }

    /// Its core.
    ///
    /// ```
    /// let builder = doorbell::Builder::new().on_worker_start(|worker| println!("{}", worker.core()));
    /// # drop(builder);
    /// ```
    pub fn core(&self) -> CoreId {
        self.core
    }

    /// The class whose tasks it runs: a core has a worker for each class that is used.
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

/// A task, as a hook is shown it: see [`Builder::on_task_spawn`].
#[derive(Clone, Copy, Debug)]
pub struct TaskInfo<'a> {
    event: &'a TaskEvent<'a>,
}

impl TaskInfo<'_> {
    /// Its number; [`Builder::on_task_spawn`] has an example.
    pub fn id(&self) -> TaskId {
        TaskId::new(self.event.id)
    }

    /// Its name, if it was given one; [`Builder::on_task_spawn`] has an example.
    pub fn name(&self) -> Option<&str> {
        self.event.name
    }

    /// The core that the hook runs on: the one that spawns the task, or that has ended it. `None`
    /// on a thread that is no worker of the runtime. [`Builder::on_task_spawn`] has an example.
    pub fn core(&self) -> Option<CoreId> {
        self.event.worker.map(CoreId::new)
    }
}

fn worker_hook(hook: impl Fn(&WorkerInfo) + Send + Sync + 'static) -> WorkerHook {
    let hook = move |worker| {
        // The caller is that worker.
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

/// Hooks: of each kind there is one, the last that was given. It runs on the worker, whose tasks
/// wait meanwhile; that of [`Builder::on_stall`] does not. If it panics, that is caught and counted
/// ([`Metrics::hook_panics`]), and nothing else happens. What is not given costs a branch.
impl Builder {
    /// Calls `hook` on each worker before it runs anything. [`crate::current_core`] and
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
    #[must_use]
    pub fn on_worker_start(mut self, hook: impl Fn(&WorkerInfo) + Send + Sync + 'static) -> Self {
        self.telemetry.hooks.worker_start = Some(worker_hook(hook));
        self
    }

    /// Calls `hook` on each worker that ends, after all its tasks were dropped. What is spawned in it
    /// is cancelled.
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
    #[must_use]
    pub fn on_worker_stop(mut self, hook: impl Fn(&WorkerInfo) + Send + Sync + 'static) -> Self {
        self.telemetry.hooks.worker_stop = Some(worker_hook(hook));
        self
    }

    /// Calls `hook` on a worker that has nothing to do and is about to block. A task that is spawned
    /// in it runs, instead of the worker blocking.
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
    #[must_use]
    pub fn before_park(mut self, hook: impl Fn(&WorkerInfo) + Send + Sync + 'static) -> Self {
        self.telemetry.hooks.before_park = Some(worker_hook(hook));
        self
    }

    /// Calls `hook` on a worker that goes on after [`Builder::before_park`], once for each: it was
    /// woken, or had found something to do before it blocked.
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
    #[must_use]
    pub fn after_unpark(mut self, hook: impl Fn(&WorkerInfo) + Send + Sync + 'static) -> Self {
        self.telemetry.hooks.after_unpark = Some(worker_hook(hook));
        self
    }

    /// Calls `hook` for each task that is spawned, on the thread that spawns it. The task does not
    /// run before the hook has returned. A hook that spawns is called for that task too.
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
        self.telemetry.hooks.task_spawn = Some(task_hook(hook));
        self
    }

    /// Calls `hook` for each task that has ended: by its output, a panic, or cancelled. Its future
    /// is dropped by then; whoever awaits the task sees its end after the hook has returned.
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
    #[must_use]
    pub fn on_task_finish(mut self, hook: impl Fn(&TaskInfo<'_>) + Send + Sync + 'static) -> Self {
        self.telemetry.hooks.task_finish = Some(task_hook(hook));
        self
    }
}

impl Metrics {
    /// How many hooks have panicked.
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
