//! Calls of a class: closures that run on the worker that the class has on a core.

use crate::call_on::{self, Call, CallError};
use crate::class_workers::OpenError;
use crate::handle::Handle;
use crate::large::boxed_if_large;
use crate::{Class, ClassKind, CoreId, ambient};

/// Starts to describe a call of the current runtime; [`CallBuilder::on`] makes it.
///
/// [`call_on`](crate::call_on()) runs its closure on the Fair worker of a core, where it waits for the
/// worker's current poll. A call of an Rt class waits only for other Rt work:
///
/// ```
/// use doorbell::Class;
///
/// # #[doorbell::main(cores = 2)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let there = doorbell::call().class(Class::rt(50)).on(1, doorbell::current_core).await?;
/// assert_eq!(there, Some(doorbell::CoreId::new(1)));
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// If there is no runtime on this thread; [`Handle::call`] works anywhere.
#[track_caller]
pub fn call() -> CallBuilder {
    CallBuilder::of(Handle::current())
}

/// Describes a call before it is made: see [`call`].
#[must_use = "nothing is called before `on` is"]
#[derive(Clone, Debug)]
pub struct CallBuilder {
    handle: Handle,
    class: Class,
}

impl CallBuilder {
    pub(crate) fn of(handle: Handle) -> Self {
        CallBuilder {
            handle,
            class: Class::FAIR,
        }
    }

    /// Has the closure run on the worker that this class has on the core. The default is [`Class::FAIR`],
    /// whatever the class of the caller.
    ///
    /// The first task or call of a class starts its workers. Inside the closure
    /// [`current_class`](crate::current_class()) is this class, and tasks that it spawns have this class. The
    /// values of [`worker_local!`](crate::worker_local) are those of that worker.
    ///
    /// The call runs before all tasks that wait on that worker, also before more urgent ones. So it should be
    /// short. Calls of one task or thread to one worker run in the order in which they were posted.
    ///
    /// With a [paused clock](crate::Builder::start_paused) the calls of all classes run on the Fair workers.
    pub fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Posts the call at once, as [`call_on`](crate::call_on()) does, and returns a future of its result. The
    /// [mailbox limit](crate::Builder::mailbox_limit) holds for Fair workers only: calls of other classes do
    /// not wait for room, and take none.
    ///
    /// # Errors
    /// Awaiting the call returns the errors of [`call_on`](crate::call_on()), and [`CallError::NoWorkers`] if
    /// the OS did not start the workers of the class. After such a refusal the closure has been dropped on
    /// the calling thread.
    pub fn on<F, R>(self, core: impl Into<CoreId>, f: F) -> Call<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let core = core.into();
        boxed_if_large!(f: F, Box::new => self.post(core, f))
    }

    fn post<F, R>(self, core: CoreId, f: F) -> Call<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        if self.class.kind() == ClassKind::Fair {
            return call_on::post(&self.handle, core, f);
        }
        match self.check(core) {
            Ok(number) => call_on::post_to_class(&self.handle, number, self.class, self.urged(f)),
            Err(error) => Call::refused(error),
        }
    }

    /// Makes the call and blocks the calling thread until it has run, as [`Handle::call_blocking`] does. For
    /// threads that are not workers. The closure may borrow from the caller.
    ///
    /// ```
    /// use doorbell::Class;
    ///
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// let class = runtime.call().class(Class::rt(9)).on_blocking(0, doorbell::current_class)?;
    /// assert_eq!(class, Some(Class::rt(9)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Handle::call_blocking`], and [`CallError::NoWorkers`].
    pub fn on_blocking<F, R>(self, core: impl Into<CoreId>, f: F) -> Result<R, CallError>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        let core = core.into();
        boxed_if_large!(f: F, Box::new => self.wait(core, f))
    }

    fn wait<F, R>(self, core: CoreId, f: F) -> Result<R, CallError>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        if self.class.kind() == ClassKind::Fair {
            return call_on::blocking(&self.handle, core, f);
        }
        if ambient::on_a_worker() {
            call_on::check(&self.handle, core)?;
            return Err(CallError::InsideWorker);
        }
        let number = self.check(core)?;
        call_on::wait_on(&self.handle, number, self.class.kind(), self.urged(f))
    }

    /// Checks that the core can be called, and starts the workers of the class.
    fn check(&self, core: CoreId) -> Result<usize, CallError> {
        let number = call_on::check(&self.handle, core)?;
        let class = self.class;
        match self.handle.open_workers(class.kind()) {
            Ok(()) => Ok(number),
            Err(OpenError::Refused(kind)) => Err(CallError::NoWorkers { class, kind }),
            Err(OpenError::RuntimeGone) => Err(CallError::RuntimeGone),
        }
    }

    /// The closure, which first tells its worker the class of the call.
    fn urged<R, F: FnOnce() -> R>(&self, f: F) -> impl FnOnce() -> R + use<R, F> {
        let rank = self.class.rank();
        move || {
            ambient::with_worker(|worker| {
                if let Some(worker) = worker {
                    worker.handle().inner().set_current_rank(rank);
                }
            });
            f()
        }
    }
}
