//! [`Handle`]: a runtime as others hold it.

use crate::ambient::{self, Ambient};
use crate::call::{self, Call, CallError};
use crate::call_class::CallBuilder;
use crate::call_many::{self, CallMany, ManyResults};
use crate::core_state::online;
use crate::large::boxed_if_large;
use crate::metrics::Metrics;
use crate::post;
use crate::task::{JoinHandle, SpawnError, TaskBuilder};
use crate::{Class, CoreId, Switches, WorkerPolicy};
use doorbell_core::bell::WorkerState;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

/// A runtime, to be used from anywhere: cheap to clone, and harmless once the runtime is gone.
///
/// After the runtime was dropped, a spawn returns a task that is cancelled, and a call returns
/// [`CallError::RuntimeGone`].
#[derive(Clone, Debug)]
pub struct Handle {
    inner: Arc<dyn Ambient>,
}

/// There is no runtime on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no doorbell runtime on this thread; call this from a task or inside block_on, or keep a Handle and use its methods"
)]
pub struct NoRuntime;

/// Why a thread may not block on a future.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockOnError {
    /// The thread is a worker.
    #[error(
        "block_on was called on a worker, whose other tasks would all wait; use .await, or call it from a thread of your own"
    )]
    InsideWorker,
}

/// Makes a runtime the current one of the thread until dropped: see [`Handle::enter`].
#[must_use = "the runtime is left as soon as the guard is dropped"]
pub struct EnterGuard {
    _entered: ambient::EnteredRuntime,
}

impl std::fmt::Debug for EnterGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EnterGuard")
    }
}

impl Handle {
    pub(crate) fn new(inner: Arc<dyn Ambient>) -> Self {
        Handle { inner }
    }

    #[inline]
    pub(crate) fn inner(&self) -> &dyn Ambient {
        &*self.inner
    }

    /// Whether both are handles of one runtime.
    pub fn is(&self, other: &Handle) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.inner), Arc::as_ptr(&other.inner))
    }

    /// The runtime that the caller runs in.
    ///
    /// # Panics
    /// If there is none; [`Handle::try_current`] returns an error instead.
    #[track_caller]
    pub fn current() -> Handle {
        match Handle::try_current() {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// The runtime that the caller runs in: that of its worker, of the innermost
    /// [`Runtime::block_on`](crate::Runtime::block_on), or of the latest [`Handle::enter`].
    ///
    /// # Errors
    /// [`NoRuntime`] on any other thread.
    pub fn try_current() -> Result<Handle, NoRuntime> {
        ambient::with_current(|frame| frame.map(|frame| frame.handle().clone()).ok_or(NoRuntime))
    }

    /// Makes this the current runtime of the thread until the guard is dropped. Guards may be
    /// dropped in any order.
    pub fn enter(&self) -> EnterGuard {
        EnterGuard {
            _entered: ambient::enter(self.clone()),
        }
    }

    /// How many cores the runtime uses.
    pub fn cores(&self) -> usize {
        self.inner.cores()
    }

    /// Spawns a task on any core.
    ///
    /// The task begins at once, also if the handle is dropped, which only lets it go.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        boxed_if_large!(future: F, Box::pin => self.task().spawn(future))
    }

    /// Starts the workers of a class, one thread for each core. Otherwise they begin with its first task or
    /// call, and whoever spawns or calls waits for the OS to start them. Without effect where they have
    /// begun, where the runtime has ended, and with a paused clock, where all classes run on the Fair workers.
    ///
    /// ```
    /// use doorbell::Class;
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// runtime.open_class(Class::BATCH)?;
    /// assert!(runtime.class_is_open(Class::BATCH));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SpawnError::NoWorkers`] if the OS did not start all of them. The next one who needs them tries again.
    pub fn open_class(&self, class: Class) -> Result<(), SpawnError> {
        let opened = self.open_workers(class.kind());
        opened.map_err(|kind| SpawnError::NoWorkers { class, kind })
    }

    /// Whether a task of that class is spawned without starting a thread: see [`Handle::open_class`].
    pub fn class_is_open(&self, class: Class) -> bool {
        self.inner().is_open(class.kind())
    }

    /// Lets the urgent worker of each core run [rescuable](TaskBuilder::rescuable) tasks while its Fair worker is
    /// stuck: see [`rescue`](crate::rescue). Call it once; it starts the workers of class Rt. A further call has no
    /// effect, and none has with a paused clock.
    ///
    /// # Errors
    /// [`SpawnError::NoWorkers`] if the OS did not start them, [`SpawnError::NoRescue`] if it refused a descriptor. The
    /// next call tries again.
    pub fn open_rescue(&self) -> Result<(), SpawnError> {
        self.open_class(Class::rt(1))?;
        let opened = self.inner().open_rescue();
        opened.map_err(|error| SpawnError::NoRescue { kind: error.kind() })
    }

    /// How the OS schedules each worker that was started, as the OS said when the worker began. The workers of a
    /// class begin with its first task, or by [`Handle::open_class`]. This waits for workers whose threads have
    /// just been started and have not asked the OS yet, so it lists all workers of every class that is open.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// runtime.block_on(runtime.task().class(doorbell::Class::BATCH).spawn(async {}))?;
    /// let policies = runtime.policies();
    /// let batch = policies.iter().find(|worker| worker.class() == doorbell::ClassKind::Batch);
    /// println!("{}", batch.expect("it was used"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn policies(&self) -> Vec<WorkerPolicy> {
        self.inner().policies()
    }

    /// A task to be described before it is spawned.
    pub fn task(&self) -> TaskBuilder {
        TaskBuilder::of(self.clone())
    }

    /// A call to be described before it is made, as to a worker of another class than Fair; see
    /// [`call`](crate::call()).
    pub fn call(&self) -> CallBuilder {
        CallBuilder::of(self.clone())
    }

    /// Runs a closure on the Fair worker of a core; see [`call_on`](crate::call_on()).
    pub fn call_on<F, R>(&self, core: impl Into<CoreId>, f: F) -> Call<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        boxed_if_large!(f: F, Box::new => call::post(self, core.into(), f))
    }

    /// Runs a closure on the Fair worker of a core, soon; nobody waits for it. See
    /// [`post_on`](crate::post_on()).
    ///
    /// The nodes that it takes belong to the calling thread, and are used again once the core
    /// has given them back.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// let (sent, came) = std::sync::mpsc::channel();
    /// runtime.post_on(0, move || sent.send("here").unwrap())?;
    /// assert_eq!(came.recv()?, "here");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CallError::NoSuchCore`], [`CallError::CoreOffline`], [`CallError::Full`] and
    /// [`CallError::RuntimeGone`]; the closure was dropped here.
    pub fn post_on<F>(&self, core: impl Into<CoreId>, f: F) -> Result<(), CallError>
    where
        F: FnOnce() + Send + 'static,
    {
        boxed_if_large!(f: F, Box::new => post::post(self, core.into(), f))
    }

    /// Runs a closure once on the worker of each of these cores, on all at the same time; see
    /// [`call_many`](crate::call_many()).
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(2).build()?;
    /// let calls = runtime.call_many([1, 0], |core| core.index());
    /// let numbers = runtime.block_on(calls)?;
    /// assert!(numbers.into_iter().map(Result::unwrap).eq([1, 0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_many<I, F, R>(&self, cores: I, f: F) -> CallMany<R>
    where
        I: IntoIterator<Item: Into<CoreId>>,
        F: Fn(CoreId) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        boxed_if_large!(f: F, Box::new => call_many::post(self, cores, f))
    }

    /// Runs a closure once on every core; see [`call_all`](crate::call_all()).
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(2).build()?;
    /// let there = runtime.block_on(runtime.call_all(|_| doorbell::current_core()))?;
    /// assert_eq!(there.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_all<F, R>(&self, f: F) -> CallMany<R>
    where
        F: Fn(CoreId) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        boxed_if_large!(f: F, Box::new => call_many::post(self, online(self), f))
    }

    /// Runs a closure once on the worker of each of these cores and blocks until all have ended.
    /// For threads that are no worker. The closure may borrow from the caller.
    ///
    /// The thread spins for up to 50 µs, then it parks. Each core is rung only if it sleeps.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(2).build()?;
    /// let names = ["here", "there"].map(String::from);
    /// let lengths = runtime.call_many_blocking([1, 0], |core| names[core.index()].len())?;
    /// assert!(lengths.into_iter().map(Result::unwrap).eq([5, 4]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CallError::NoSuchCore`] and [`CallError::DuplicateCore`]; [`CallError::InsideWorker`] if
    /// the caller is a worker, which could wait for itself. In all of these the closure ran
    /// nowhere. The result of a core may be [`CallError::Panicked`] or
    /// [`CallError::RuntimeGone`].
    pub fn call_many_blocking<I, F, R>(&self, cores: I, f: F) -> Result<ManyResults<R>, CallError>
    where
        I: IntoIterator<Item: Into<CoreId>>,
        F: Fn(CoreId) -> R + Sync,
        R: Send,
    {
        call_many::blocking(self, cores, &f)
    }

    /// Runs a closure once on every core and blocks until all have ended; see
    /// [`Handle::call_many_blocking`].
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(2).build()?;
    /// let there = runtime.call_all_blocking(|core| core.index())?;
    /// assert!(there.into_iter().map(Result::unwrap).eq([0, 1]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Handle::call_many_blocking`].
    pub fn call_all_blocking<F, R>(&self, f: F) -> Result<ManyResults<R>, CallError>
    where
        F: Fn(CoreId) -> R + Sync,
        R: Send,
    {
        call_many::blocking(self, online(self), &f)
    }

    /// As [`Handle::call_on`], but it does not wait for room; see
    /// [`try_call_on`](crate::try_call_on()).
    ///
    /// # Errors
    /// As for [`try_call_on`](crate::try_call_on()).
    pub fn try_call_on<F, R>(&self, core: impl Into<CoreId>, f: F) -> Result<Call<R>, CallError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        boxed_if_large!(f: F, Box::new => call::try_post(self, core.into(), f))
    }

    /// Runs a closure on the Fair worker of a core and blocks until it has run. For threads that are
    /// no worker. The closure may borrow from the caller.
    ///
    /// The thread spins for up to 50 µs, then it parks. If the worker spins, no syscall is
    /// made; if it is parked, one.
    ///
    /// # Errors
    /// [`CallError::NoSuchCore`]; [`CallError::InsideWorker`] if the caller is a worker, which
    /// could wait for itself; [`CallError::RuntimeGone`]; [`CallError::Panicked`] with what
    /// the closure panicked with.
    pub fn call_blocking<F, R>(&self, core: impl Into<CoreId>, f: F) -> Result<R, CallError>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        boxed_if_large!(f: F, Box::new => call::blocking(self, core.into(), f))
    }

    /// Runs a future on the calling thread; see [`Runtime::block_on`](crate::Runtime::block_on).
    ///
    /// # Errors
    /// [`BlockOnError::InsideWorker`] if the caller is a worker.
    ///
    /// # Panics
    /// If the future panics.
    pub fn try_block_on<F: Future>(&self, future: F) -> Result<F::Output, BlockOnError> {
        boxed_if_large!(future: F, Box::pin => self.run_here(future))
    }

    fn run_here<F: Future>(&self, future: F) -> Result<F::Output, BlockOnError> {
        if ambient::on_a_worker() {
            return Err(BlockOnError::InsideWorker);
        }
        let holds = ambient::holds_clock_of(self);
        let entered = ambient::enter_block_on(self.clone());
        let mut output = None;
        let run = async {
            let mut future = pin!(future);
            let polls = poll_fn(|cx| {
                entered.begin_poll();
                future.as_mut().poll(cx)
            });
            output = Some(polls.await);
        };
        self.inner.block_on(holds, pin!(run));
        Ok(output.expect("the future was run to its end"))
    }

    /// All counts of all workers at this moment.
    pub fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }

    /// What the worker of a core does now: it runs, spins or is parked. `None` if there is no
    /// such core. A moment later it may do something else; a worker that has ended shows as
    /// running.
    pub fn worker_state(&self, core: impl Into<CoreId>) -> Option<WorkerState> {
        let core = core.into().index();
        (core < self.cores()).then(|| self.inner.worker_state(core))
    }

    /// The settings of the switches.
    pub fn switches(&self) -> Switches {
        self.inner.switches()
    }

    /// Changes the switches while the runtime runs; posts that begin later follow them.
    pub fn set_switches(&self, switches: Switches) {
        self.inner.set_switches(switches);
    }
}
