//! [`Handle`]: refers to a runtime, without keeping it running.

use crate::ambient::{self, Ambient};
use crate::call_class::CallBuilder;
use crate::call_many::{self, CallMany, ManyResults};
use crate::call_on::{self, Call, CallError};
use crate::class_workers::OpenError;
use crate::core_state::online;
use crate::large::boxed_if_large;
use crate::metrics::Metrics;
use crate::post;
use crate::task::{JoinHandle, SpawnError, TaskBuilder};
use crate::{
    Class, ClassKind, CoreId,
    metrics::{Policy, WorkerPolicy},
    switches::Switches,
};
use doorbell_core::bell::WorkerState;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};

/// Refers to a runtime, and can be used from any thread. It is cheap to clone and does not keep the runtime
/// running.
///
/// After the runtime was dropped, a call returns [`CallError::RuntimeGone`], what returns a [`SpawnError`]
/// returns [`SpawnError::RuntimeGone`], and any other spawn returns a task that is cancelled.
#[derive(Clone, Debug)]
pub struct Handle {
    inner: Arc<dyn Ambient>,
}

/// Refers to a runtime without keeping its memory and descriptors: see [`Handle::downgrade`].
#[derive(Clone, Debug)]
pub struct WeakHandle {
    inner: Weak<dyn Ambient>,
}

/// The thread has no current runtime.
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

/// Keeps a runtime the current one of the thread until this is dropped: see [`Handle::enter`].
#[must_use = "the runtime is left as soon as the guard is dropped"]
pub struct EnterGuard {
    _entered: ambient::EnteredRuntime,
}

impl std::fmt::Debug for EnterGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EnterGuard")
    }
}

// By hand: a panic of a user's leaves it whole: it runs none of a user's code while it changes.
impl std::panic::UnwindSafe for Handle {}
impl std::panic::RefUnwindSafe for Handle {}
impl std::panic::UnwindSafe for WeakHandle {}
impl std::panic::RefUnwindSafe for WeakHandle {}

impl WeakHandle {
    /// The handle, unless the runtime has ended and its memory is gone. A handle that comes may be of a runtime that
    /// has ended: then the first use of it says so.
    pub fn upgrade(&self) -> Option<Handle> {
        Some(Handle {
            inner: self.inner.upgrade()?,
        })
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

    /// A handle that keeps nothing. A [`Handle`] does not keep a runtime running, but it keeps the memory and the
    /// descriptors of one that has ended. What the runtime itself owns, such as a hook, refers to it by a weak handle:
    /// otherwise each would keep the other.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// let weak = runtime.handle().downgrade();
    /// assert!(weak.upgrade().is_some_and(|handle| handle.is(&runtime)));
    /// drop(runtime);
    /// assert!(weak.upgrade().is_none());
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn downgrade(&self) -> WeakHandle {
        WeakHandle {
            inner: Arc::downgrade(&self.inner),
        }
    }

    /// Whether the runtime has a [paused clock](crate::Builder::start_paused). What keeps time by another clock can
    /// refuse to run there.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).start_paused(true).build()?;
    /// assert!(runtime.has_paused_clock());
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn has_paused_clock(&self) -> bool {
        self.inner.has_paused_clock()
    }

    /// Has the OS schedule the calling thread as it schedules the workers of a class, as well as the process is allowed
    /// to. For threads that work for tasks of that class and are not workers. A thread that is to be as a Fair worker
    /// keeps the policy that it has. Returns the policy that the OS reported; `None` if it did not report one.
    ///
    /// If the runtime's workers are bound to their CPUs ([`Builder::pin`](crate::Builder::pin)), the thread is bound to
    /// all CPUs on which the runtime was built: a thread that a worker starts begins on the one CPU of that worker.
    ///
    /// ```
    /// use doorbell::ClassKind;
    ///
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// let handle = runtime.handle().clone();
    /// let thread = std::thread::spawn(move || handle.schedule_thread_as(ClassKind::Batch));
    /// assert_eq!(thread.join().unwrap(), Some(doorbell::metrics::Policy::Idle));
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn schedule_thread_as(&self, class: ClassKind) -> Option<Policy> {
        self.inner.schedule_thread_as(class)
    }

    /// Whether both are handles of the same runtime.
    pub fn is(&self, other: &Handle) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.inner), Arc::as_ptr(&other.inner))
    }

    /// The current runtime of the thread: see [`Handle::try_current`].
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

    /// The current runtime of the thread: the one that the thread entered last. A thread enters a runtime as
    /// its worker, as its thread for blocking closures, inside
    /// [`Runtime::block_on`](crate::Runtime::block_on), or by [`Handle::enter`].
    ///
    /// # Errors
    /// [`NoRuntime`] if the thread has entered none.
    pub fn try_current() -> Result<Handle, NoRuntime> {
        ambient::with_current(|frame| frame.map(|frame| frame.handle().clone()).ok_or(NoRuntime))
    }

    /// Makes this runtime the current one of the thread until the guard is dropped. Guards may be dropped in
    /// any order.
    ///
    /// On a worker the guard counts until the end of the poll in which it was made. A local task may keep it over
    /// an await, but then it counts no more: the worker polls other tasks meanwhile, and none of them may see what
    /// another has entered. To use another runtime in a task, use the methods of its handle.
    ///
    /// ```
    /// use doorbell::{Builder, Handle};
    ///
    /// let (mine, other) = (Builder::new().cores(1).build()?, Builder::new().cores(1).build()?);
    /// let handle = other.handle().clone();
    /// let task = mine.spawn_local_on(0, move || async move {
    ///     let _entered = handle.enter();
    ///     let in_this_poll = Handle::current().is(&handle);
    ///     doorbell::yield_now().await;
    ///     (in_this_poll, Handle::current().is(&handle))
    /// });
    /// assert_eq!(mine.block_on(task)?, (true, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enter(&self) -> EnterGuard {
        EnterGuard {
            _entered: ambient::enter(self.clone()),
        }
    }

    /// Number of cores of the runtime, including those that are off.
    #[doc(alias("num_workers", "available_parallelism"))]
    pub fn cores(&self) -> usize {
        self.inner.cores()
    }

    /// Spawns a task that may run on any core.
    ///
    /// The task starts without being awaited. Dropping the [`JoinHandle`] lets it run on.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        boxed_if_large!(future: F, Box::pin => self.task().spawn(future))
    }

    /// Starts the workers of a class, one thread for each core. Without this, the first task or call of the
    /// class starts them, and its caller waits for the OS to do so. This has no effect if the workers have
    /// been started, or with a paused clock, where all classes run on the Fair workers. Opening Batch opens
    /// Rt first.
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
    /// [`SpawnError::NoWorkers`] if the OS did not start all of them. The next call, or the next task or call
    /// of the class, tries again. [`SpawnError::RuntimeGone`] if the runtime has ended.
    pub fn open_class(&self, class: Class) -> Result<(), SpawnError> {
        self.check_running()?;
        self.open_workers(class.kind())
            .map_err(|error| match error {
                OpenError::Refused(kind) => SpawnError::NoWorkers { class, kind },
                OpenError::RuntimeGone => SpawnError::RuntimeGone,
            })
    }

    pub(crate) fn check_running(&self) -> Result<(), SpawnError> {
        if self.inner().has_ended() {
            return Err(SpawnError::RuntimeGone);
        }
        Ok(())
    }

    /// Whether a task of this class can be spawned without starting threads: see [`Handle::open_class`].
    pub fn class_is_open(&self, class: Class) -> bool {
        self.inner().is_open(class.kind())
    }

    /// How the OS schedules each worker, as the OS reported when the worker began. The list has all workers
    /// of every class that is [open](Handle::open_class): this waits for workers that have just been started
    /// until they have asked the OS.
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

    /// Starts to describe a task of this runtime; [`TaskBuilder::spawn`] spawns it.
    pub fn task(&self) -> TaskBuilder {
        TaskBuilder::of(self.clone())
    }

    /// Starts to describe a call, for example to a worker of another class than Fair; see
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
        boxed_if_large!(f: F, Box::new => call_on::post(self, core.into(), f))
    }

    /// Runs a closure on the Fair worker of a core, without a result to await. See
    /// [`post_on`](crate::post_on()).
    ///
    /// The nodes for such closures belong to the calling thread, which uses each again once the core has
    /// given it back.
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
    /// [`CallError::RuntimeGone`]. The closure has then been dropped on the calling thread.
    pub fn post_on<F>(&self, core: impl Into<CoreId>, f: F) -> Result<(), CallError>
    where
        F: FnOnce() + Send + 'static,
    {
        boxed_if_large!(f: F, Box::new => post::post(self, core.into(), f))
    }

    /// Runs a closure once on the Fair worker of each of these cores, on all at the same time; see
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

    /// Runs a closure once on the Fair worker of every core that is on; see [`call_all`](crate::call_all()).
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

    /// Runs a closure once on the Fair worker of each of these cores, and blocks the calling thread until all
    /// have ended. For threads that are not workers. The closure may borrow from the caller. The results are
    /// in the order in which the cores were named.
    ///
    /// The thread spins for up to 50 µs, then it parks. A core is rung only if its worker sleeps.
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
    /// [`CallError::NoSuchCore`], [`CallError::CoreOffline`] and [`CallError::DuplicateCore`];
    /// [`CallError::InsideWorker`] if the caller is a worker, which could wait for itself. After any of these
    /// the closure has run nowhere. The result of a single core may be [`CallError::Panicked`] or
    /// [`CallError::RuntimeGone`].
    pub fn call_many_blocking<I, F, R>(&self, cores: I, f: F) -> Result<ManyResults<R>, CallError>
    where
        I: IntoIterator<Item: Into<CoreId>>,
        F: Fn(CoreId) -> R + Sync,
        R: Send,
    {
        call_many::blocking(self, cores, &f)
    }

    /// Runs a closure once on the Fair worker of every core that is on, and blocks until all have ended; see
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

    /// As [`Handle::call_on`], but does not wait for room in the core's mailbox; see
    /// [`try_call_on`](crate::try_call_on()).
    ///
    /// # Errors
    /// As for [`try_call_on`](crate::try_call_on()).
    pub fn try_call_on<F, R>(&self, core: impl Into<CoreId>, f: F) -> Result<Call<R>, CallError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        boxed_if_large!(f: F, Box::new => call_on::try_post(self, core.into(), f))
    }

    /// Runs a closure on the Fair worker of a core, and blocks the calling thread until it has run. For
    /// threads that are not workers. The closure may borrow from the caller.
    ///
    /// With a [mailbox limit](crate::Builder::mailbox_limit) this waits for room first. The thread spins for
    /// up to 50 µs, then it parks. Posting makes no syscall if the worker spins, and one if it is parked.
    ///
    /// # Errors
    /// [`CallError::NoSuchCore`] and [`CallError::CoreOffline`]; [`CallError::InsideWorker`] if the caller is
    /// a worker, which could wait for itself; [`CallError::RuntimeGone`]; [`CallError::Panicked`] with the
    /// payload of the closure's panic.
    pub fn call_blocking<F, R>(&self, core: impl Into<CoreId>, f: F) -> Result<R, CallError>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        boxed_if_large!(f: F, Box::new => call_on::blocking(self, core.into(), f))
    }

    /// Runs a future on the calling thread; see [`Runtime::block_on`](crate::Runtime::block_on).
    ///
    /// # Errors
    /// [`BlockOnError::InsideWorker`] if the caller is a worker.
    ///
    /// # Panics
    /// If the future panics.
    #[doc(alias = "block_on")]
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

    /// The counts of all workers at this moment.
    pub fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }

    /// What the Fair worker of a core does now: it runs, spins or is parked. `None` if there is no such core.
    /// The answer may be out of date at once. A worker that has ended shows as running.
    pub fn worker_state(&self, core: impl Into<CoreId>) -> Option<WorkerState> {
        let core = core.into().index();
        (core < self.cores()).then(|| self.inner.worker_state(core))
    }

    /// The current settings of the switches.
    pub fn switches(&self) -> Switches {
        self.inner.switches()
    }

    /// Changes the switches while the runtime runs. They apply to posts that begin later.
    pub fn set_switches(&self, switches: Switches) {
        self.inner.set_switches(switches);
    }
}
