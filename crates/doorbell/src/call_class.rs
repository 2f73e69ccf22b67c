//! Calls of a class: a closure run on the worker of a core that a class has there.

use crate::call::{self, Call, CallError};
use crate::handle::Handle;
use crate::large::boxed_if_large;
use crate::{Class, ClassKind, CoreId, ambient};

/// A call of the current runtime, to be described before it is made.
///
/// [`call_on`](crate::call_on()) runs its closure on the Fair worker of a core, where it waits for the
/// poll that the worker may be in. An urgent call waits for polls of other urgent work only:
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

/// A call that is not made yet: see [`call`].
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

    /// Has the closure run on the worker that this class has on the core. Unless told, it is
    /// [`Class::FAIR`], whatever the class of the caller is.
    ///
    /// The workers of a class begin with its first task or call. Inside the closure
    /// [`current_class`](crate::current_class()) is this class, and what it spawns inherits it. The
    /// values of [`worker_local!`](crate::worker_local) are those of that worker. A call runs before the
    /// tasks that wait there, also before more urgent ones, in order with the other calls of the same
    /// task or thread to that worker; so it should be short.
    ///
    /// With a [paused clock](crate::Builder::start_paused) the calls of all classes run on the Fair
    /// workers.
    pub fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Posts the call at once, to be awaited: as [`call_on`](crate::call_on()) does. A
    /// [limit](crate::Builder::mailbox_limit) of mailboxes is one of the Fair workers: calls of other
    /// classes do not wait for room, and take none.
    ///
    /// # Errors
    /// Awaiting it returns the errors of [`call_on`](crate::call_on()), and [`CallError::NoWorkers`] if
    /// the OS did not start the workers of the class. Without a result the closure was dropped here.
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
            return call::post(&self.handle, core, f);
        }
        match self.check(core) {
            Ok(number) => call::post_to_class(&self.handle, number, self.class, self.urged(f)),
            Err(error) => Call::refused(error),
        }
    }

    /// Makes the call and blocks until it has run: as [`Handle::call_blocking`] does. For threads that
    /// are no worker. The closure may borrow from the caller.
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
            return call::blocking(&self.handle, core, f);
        }
        if ambient::on_a_worker() {
            call::check(&self.handle, core)?;
            return Err(CallError::InsideWorker);
        }
        let number = self.check(core)?;
        call::wait_on(&self.handle, number, self.class.kind(), self.urged(f))
    }

    /// The core is there, and so are the workers of the class.
    fn check(&self, core: CoreId) -> Result<usize, CallError> {
        let number = call::check(&self.handle, core)?;
        let class = self.class;
        match self.handle.open_workers(class.kind()) {
            Ok(()) => Ok(number),
            Err(kind) => Err(CallError::NoWorkers { class, kind }),
        }
    }

    /// The closure, with the number of its class known where it runs.
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
