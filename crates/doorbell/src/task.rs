//! Spawning and joining tasks.

use crate::group::{Group, TooManyGroups};
use crate::handle::Handle;
use crate::large::boxed_if_large;
use crate::{AbortHandle, Class, CoreId, JoinError, TaskId, ambient, coop};
use doorbell_core::group::DEFAULT;
use doorbell_core::task::{About, BodyVtable, Join, Kind, Name, Phase, write_body};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Why a task was not spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The runtime has no core of that number.
    #[error("there is no core {core}: the runtime has cores 0 to {last}", last = .cores - 1)]
    NoSuchCore {
        /// The core asked for.
        core: CoreId,
        /// How many there are.
        cores: usize,
    },
    /// The core was taken off.
    #[error("core {core} is off; call core_online({core}) first, or pin the task to another core")]
    CoreOffline {
        /// The core asked for.
        core: CoreId,
    },
    /// The workers of the task's class were not started.
    #[error(
        "the OS did not start or bind the threads of class {class} ({kind}); raise the limit on threads (ulimit -u, pids.max), look at the affinity mask, or use fewer cores or another class"
    )]
    NoWorkers {
        /// The class asked for.
        class: Class,
        /// What the OS said.
        kind: std::io::ErrorKind,
    },
    /// The runtime has ended.
    #[error(
        "the runtime has ended: nothing is spawned or started in it; keep the Runtime until all is done"
    )]
    RuntimeGone,
    /// Only tasks of class Fair may be in a group.
    #[error(
        "a task of class {class} is in no group; leave the group out, or spawn it as Class::FAIR"
    )]
    GroupNeedsFair {
        /// The class asked for, or inherited.
        class: Class,
    },
    /// The runtime already serves as many groups as it can.
    #[error(
        "the runtime serves {max} groups already; drop handles of groups whose tasks have ended, or let several tenants share one"
    )]
    TooManyGroups {
        /// How many it can serve at a time.
        max: usize,
    },
}

/// Spawns a task that may run on any core of the current runtime. It has the class of the calling task.
///
/// The task starts without being awaited. Awaiting the handle gives its output. Dropping the handle lets the
/// task run on.
///
/// A task whose handle was dropped is kept until it completes or the runtime ends, also if nothing can wake it any
/// more. To end it earlier, abort it by its handle:
///
/// ```
/// use std::sync::Arc;
///
/// let runtime = doorbell::Builder::new().cores(1).build()?;
/// let kept = Arc::new(());
/// let held = Arc::clone(&kept);
/// drop(runtime.spawn(async move {
///     // It leaves no waker anywhere.
///     std::future::pending::<()>().await;
///     drop(held);
/// }));
/// runtime.block_on(runtime.spawn(async {}))?;
/// assert_eq!(Arc::strong_count(&kept), 2);
/// drop(runtime);
/// assert_eq!(Arc::strong_count(&kept), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// If there is no runtime on this thread; [`Handle::spawn`] works anywhere.
///
/// ```
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let task = doorbell::spawn(async { "done" });
/// assert_eq!(task.await.unwrap(), "done");
/// # });
/// ```
#[track_caller]
#[inline]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    boxed_if_large!(future: F, Box::pin => spawn_here(future))
}

#[track_caller]
#[inline]
fn spawn_here<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // By reference: cloning the frame's handle would write a count that all workers share.
    let frame = ambient::expect_current();
    JoinHandle(launch(
        frame.handle(),
        frame.next_core(),
        Kind::Task,
        frame.class(),
        About::default(),
        future,
    ))
}

/// Starts to describe a task of the current runtime; [`TaskBuilder::spawn`] spawns it.
///
/// # Panics
/// If there is no runtime on this thread; [`Handle::task`] works anywhere.
///
/// ```
/// # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
/// let task = doorbell::task().on(1).spawn(async { doorbell::current_core() });
/// assert_eq!(task.await.unwrap(), Some(doorbell::CoreId::new(1)));
/// # });
/// ```
#[track_caller]
pub fn task() -> TaskBuilder {
    TaskBuilder::of(Handle::current())
}

/// Describes a task before it is spawned: see [`task`].
#[must_use = "nothing runs before spawn is called"]
#[derive(Clone, Debug)]
pub struct TaskBuilder {
    handle: Handle,
    core: Option<CoreId>,
    class: Option<Class>,
    name: Option<Name>,
    group: Option<Belongs>,
    stays: bool,
}

/// The group that a task was given.
#[derive(Clone, Debug)]
enum Belongs {
    To(Group),
    ToNone,
}

impl TaskBuilder {
    pub(crate) fn of(handle: Handle) -> Self {
        TaskBuilder {
            handle,
            core: None,
            class: None,
            name: None,
            group: None,
            stays: false,
        }
    }

    /// Pins the task to a core: it runs there only.
    pub fn on(mut self, core: impl Into<CoreId>) -> Self {
        self.core = Some(core.into());
        self
    }

    /// Gives the task a class. By default it has the class of the task or call that spawns it. On any other
    /// thread, or if another runtime is the current one, the default is [`Class::FAIR`].
    ///
    /// With a [paused clock](crate::Builder::start_paused) tasks of all classes run on the Fair workers, in
    /// the order in which they become ready.
    pub fn class(mut self, class: Class) -> Self {
        self.class = Some(class);
        self
    }

    /// Gives the task a name, which [`Handle::dump`] and hooks show: a `&'static str`, a `String`, an
    /// `Arc<str>` or a `Cow<'static, str>`. Names need not be unique. A task without a name spends no memory
    /// on one.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let task = doorbell::task().name("heartbeat").spawn(async {});
    /// assert_eq!(task.name(), Some("heartbeat"));
    /// let task = doorbell::task().name(format!("connection {}", 7)).spawn(async {});
    /// assert_eq!(task.name(), Some("connection 7"));
    /// # });
    /// ```
    pub fn name(mut self, name: impl Into<Name>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Puts the task into a [group](Group). By default it is in the group of the task that spawns it, if that
    /// task belongs to the same runtime and both are of class Fair.
    pub fn group(mut self, group: &Group) -> Self {
        self.group = Some(Belongs::To(group.clone()));
        self
    }

    /// Puts the task into no group, whichever task spawns it. All tasks without a group share the weight 100.
    pub fn no_group(mut self) -> Self {
        self.group = Some(Belongs::ToNone);
        self
    }

    /// Only the worker's own thread may drop the future. For pinned tasks.
    pub(crate) fn stays(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Spawns the task. If the workers of its class have not been started, this starts them. If the runtime
    /// has ended, the task is cancelled at once.
    ///
    /// # Panics
    /// If the task was pinned to a core that the runtime does not have or that is off, if the OS did not
    /// start the workers of its class, if it was given a group and is not of class Fair, or if the runtime
    /// serves too many groups. [`TaskBuilder::try_spawn`] returns an error instead.
    #[track_caller]
    #[inline]
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let spawned = boxed_if_large!(future: F, Box::pin => self.spawn_described(future));
        match spawned {
            Ok(join) => join,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`TaskBuilder::spawn`], but returns an error instead of panicking.
    ///
    /// # Errors
    /// [`SpawnError::NoSuchCore`] if the task was pinned to a core that the runtime does not have,
    /// [`SpawnError::CoreOffline`] if that core is off, [`SpawnError::NoWorkers`] if the OS did not start the
    /// workers of the task's class, [`SpawnError::GroupNeedsFair`] if the task was given a group and is not
    /// of class Fair, [`SpawnError::TooManyGroups`] if the runtime already serves as many other groups as it
    /// can, [`SpawnError::RuntimeGone`] if the runtime has ended. If it ends during the call, the task may be
    /// cancelled instead.
    #[track_caller]
    pub fn try_spawn<F>(self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.check_running()?;
        boxed_if_large!(future: F, Box::pin => self.spawn_described(future))
    }

    /// If the runtime has ended, the task is cancelled when this returns.
    #[track_caller]
    #[inline]
    pub(crate) fn spawn_described<F>(self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let cores = self.handle.cores();
        let (core, kind) = match self.core {
            Some(core) if core.index() >= cores => {
                return Err(SpawnError::NoSuchCore { core, cores });
            }
            Some(core) if !self.handle.inner().is_on(core.index()) => {
                return Err(SpawnError::CoreOffline { core });
            }
            Some(core) => (core.index(), Kind::Pinned),
            None => (self.any_core(), Kind::Task),
        };
        let class = self.open_class()?;
        let about = About {
            name: self.name.as_ref(),
            group: self.reserve_in_group(class)?,
            stays: self.stays,
            ..About::default()
        };
        let join = launch(&self.handle, core, kind, class, about, future);
        Ok(JoinHandle(join))
    }

    /// The number of the task's group in the runtime, with a place reserved; `None` if it was given none.
    fn reserve_in_group(&self, class: Class) -> Result<Option<u8>, SpawnError> {
        match &self.group {
            None => Ok(None),
            // Groups of a runtime that has ended get no place back.
            Some(Belongs::To(_)) if self.handle.inner().has_ended() => Ok(None),
            Some(Belongs::ToNone) => Ok(Some(DEFAULT)),
            Some(Belongs::To(_)) if class != Class::FAIR => {
                Err(SpawnError::GroupNeedsFair { class })
            }
            Some(Belongs::To(group)) => match self.handle.inner().reserve_in_group(group) {
                Ok(number) => Ok(Some(number)),
                Err(TooManyGroups { max }) => Err(SpawnError::TooManyGroups { max }),
            },
        }
    }

    /// The class of the task, after starting its workers, unless the runtime has ended.
    fn open_class(&self) -> Result<Class, SpawnError> {
        let class = self.class.unwrap_or_else(|| {
            ambient::peek(|frame| match frame {
                Some(frame) if frame.handle().is(&self.handle) => frame.class(),
                _ => Class::FAIR,
            })
        });
        match self.handle.open_class(class) {
            // The launch finds the Fair workers closed.
            Ok(()) | Err(SpawnError::RuntimeGone) => Ok(class),
            Err(error) => Err(error),
        }
    }

    fn any_core(&self) -> usize {
        ambient::with_current(|frame| match frame {
            Some(frame) if frame.handle().is(&self.handle) => frame.next_core(),
            _ => self.handle.inner().next_core(),
        })
    }
}

/// Launches a call. The runtime has the core.
pub(crate) fn launch_call<F>(
    handle: &Handle,
    core: usize,
    class: Class,
    future: F,
) -> Join<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    launch(handle, core, Kind::Call, class, About::default(), future)
}

/// Launches a task or a call. The runtime has the core.
fn launch<F>(
    handle: &Handle,
    core: usize,
    kind: Kind,
    class: Class,
    about: About<'_>,
    future: F,
) -> Join<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut body = Some(future);
    let mut write = |at: *mut u8| {
        let body = body.take().expect("a body is written once");
        // SAFETY: `launch` gives the address of an empty body of the type below.
        unsafe { write_body(at, body) };
    };
    // SAFETY: the future and its output are Send and own what they refer to.
    let raw = unsafe {
        handle
            .inner()
            .launch(core, kind, class, about, BodyVtable::of::<F>(), &mut write)
    };
    // SAFETY: the body's output is the future's.
    unsafe { raw.typed() }
}

/// The handle of a spawned task, and a future of its output. Dropping it lets the task run on.
///
/// While a task of a higher class awaits the handle, the workers of that class run the task too, so it does
/// not wait for others of its own class: see [what inverts
/// priorities](crate#what-inverts-priorities-and-what-to-do). The task keeps its own class.
///
/// # Panics
/// If it is polled again after it was ready.
#[derive(Debug)]
pub struct JoinHandle<T>(Join<T>);

impl<T> JoinHandle<T> {
    /// The join without the poll budget that the handle adds.
    pub(crate) fn into_join(self) -> Join<T> {
        self.0
    }

    /// Cancels the task: its future is not polled again, and is dropped on a worker. Awaiting the handle then
    /// gives [`JoinError::Cancelled`], or the output if the task was complete before.
    pub fn abort(&self) {
        self.0.cancel();
    }

    /// Another handle that aborts the task, for other tasks and threads.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle::new(self.0.canceller())
    }

    /// Whether the task is complete: it returned, panicked or was cancelled.
    pub fn is_finished(&self) -> bool {
        self.0.phase() == Phase::Complete
    }

    /// The number of the task; see [`TaskId`].
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let (one, other) = (doorbell::spawn(async {}), doorbell::spawn(async {}));
    /// assert_ne!(one.id(), other.id());
    /// # });
    /// ```
    pub fn id(&self) -> TaskId {
        TaskId::new(self.0.id())
    }

    /// The name that [`TaskBuilder::name`] gave the task, if any.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// assert_eq!(doorbell::spawn(async {}).name(), None);
    /// # });
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }
}

impl<T> Unpin for JoinHandle<T> {}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.0.poll_complete(cx));
        ready!(coop::allow(cx));
        Poll::Ready(self.0.take())
    }
}
