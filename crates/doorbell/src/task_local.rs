//! [`task_local!`](crate::task_local): values that are bound while a future is polled.
//!
//! A value is stored in the future that carries it. Each poll links it into a list of bindings, by a record
//! on the stack, and unlinks it when the poll returns or unwinds. A slot of the machine has the newest
//! binding. So nothing is allocated or swapped. A machine that runs many workers on one thread keeps their
//! bindings apart by its slots.

use doorbell_machine::slots;
use pin_project_lite::pin_project;
use std::any::TypeId;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Declares values that a future carries, and that everything it calls can read: see [`TaskLocal`].
///
/// ```
/// doorbell::task_local! {
///     /// The request that is served.
///     static REQUEST: u64;
/// }
///
/// async fn log() -> String {
///     REQUEST.with(|id| format!("request {id}"))
/// }
///
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let task = doorbell::spawn(REQUEST.scope(7, async { log().await }));
/// assert_eq!(task.await?, "request 7");
/// # Ok::<(), doorbell::JoinError>(())
/// # }).unwrap();
/// ```
#[macro_export]
macro_rules! task_local {
    ($($(#[$attr:meta])* $vis:vis static $name:ident: $type:ty);+ $(;)?) => {
        $(
            $(#[$attr])*
            $vis static $name: $crate::local::TaskLocal<$type> =
                $crate::local::TaskLocal::new(::std::stringify!($name));
        )+
    };
}

/// No value of the task-local is bound here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the task_local! {name} has no value here; wrap the future in {name}.scope(value, future), also that of each task that is spawned: it does not inherit it"
)]
pub struct TaskLocalError {
    name: &'static str,
}

/// A key for values that futures carry; made by [`task_local!`](crate::task_local).
///
/// [`TaskLocal::scope`] binds a value while a future is polled or dropped, on any worker. Spawned tasks,
/// calls and closures on other threads do not inherit it.
pub struct TaskLocal<T: 'static> {
    name: &'static str,
    of: std::marker::PhantomData<fn() -> T>,
}

impl<T: 'static> std::fmt::Debug for TaskLocal<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TaskLocal").field(&self.name).finish()
    }
}

type Key = (usize, TypeId);

/// A binding, on the stack of the function that made it.
struct Binding {
    key: Key,
    value: *const (),
    older: *const Binding,
}

impl<T: 'static> TaskLocal<T> {
    #[doc(hidden)]
    pub const fn new(name: &'static str) -> Self {
        TaskLocal {
            name,
            of: std::marker::PhantomData,
        }
    }

    /// The address tells statics apart. The type does so for statics that the compiler has merged.
    fn key(&'static self) -> Key {
        (std::ptr::from_ref(self).addr(), TypeId::of::<T>())
    }

    /// Binds a value while `future` is polled, and while it is dropped. Meanwhile it hides a value that was
    /// bound further out.
    ///
    /// ```
    /// doorbell::task_local!(static DEPTH: u32);
    ///
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let depth = DEPTH.scope(1, async {
    ///     let inner = DEPTH.scope(2, async { DEPTH.get() }).await;
    ///     (inner, DEPTH.get())
    /// });
    /// assert_eq!(depth.await, (2, 1));
    /// # });
    /// ```
    pub fn scope<F: Future>(&'static self, value: T, future: F) -> TaskLocalFuture<T, F> {
        TaskLocalFuture {
            local: self,
            value: Some(value),
            future: Some(future),
        }
    }

    /// Binds a value while `f` runs.
    ///
    /// ```
    /// doorbell::task_local!(static DEPTH: u32);
    /// assert_eq!(DEPTH.sync_scope(1, || DEPTH.get()), 1);
    /// ```
    #[allow(
        clippy::needless_pass_by_value,
        reason = "the value belongs to the scope, and goes with it"
    )]
    pub fn sync_scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        self.bind(&value, f)
    }

    fn bind<R>(&'static self, value: &T, f: impl FnOnce() -> R) -> R {
        /// Removes the binding, also if `f` unwinds.
        struct Unbind(*const ());
        impl Drop for Unbind {
            fn drop(&mut self) {
                // SAFETY: this is the older binding, further out on this stack, or null.
                unsafe { slots::set_task(self.0) };
            }
        }
        let older = slots::task();
        let binding = Binding {
            key: self.key(),
            value: std::ptr::from_ref(value).cast(),
            older: older.cast(),
        };
        let _unbind = Unbind(older);
        // SAFETY: only this module reads the slot, and `_unbind` removes the binding before the binding and
        // its value go away.
        unsafe { slots::set_task(std::ptr::from_ref(&binding).cast()) };
        f()
    }

    /// Calls `f` with the value that is bound here.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`TaskLocal::with`], but returns an error instead of panicking.
    ///
    /// # Errors
    /// [`TaskLocalError`] if no value is bound.
    ///
    /// ```
    /// doorbell::task_local!(static NAME: String);
    /// let error = NAME.try_with(String::len).unwrap_err();
    /// assert!(error.to_string().contains("NAME.scope(value, future)"));
    /// ```
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, TaskLocalError> {
        let key = self.key();
        let mut binding = slots::task().cast::<Binding>();
        // SAFETY: all bindings in the list are on the stack of this function's callers, so they and their
        // values stay until this returns.
        while let Some(bound) = unsafe { binding.as_ref() } {
            if bound.key == key {
                // SAFETY: as above. The key says that the value is a T, and it is only ever borrowed shared.
                return Ok(f(unsafe { &*bound.value.cast::<T>() }));
            }
            binding = bound.older;
        }
        Err(TaskLocalError { name: self.name })
    }

    /// A copy of the value that is bound here.
    ///
    /// # Errors
    /// [`TaskLocalError`] if no value is bound.
    pub fn try_get(&'static self) -> Result<T, TaskLocalError>
    where
        T: Copy,
    {
        self.try_with(|value| *value)
    }

    /// A copy of the value that is bound here.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(|value| *value)
    }
}

pin_project! {
    /// The future of [`TaskLocal::scope`].
    ///
    /// # Panics
    /// If it is polled again after it was ready.
    #[must_use = "nothing runs before it is awaited"]
    pub struct TaskLocalFuture<T: 'static, F> {
        local: &'static TaskLocal<T>,
        value: Option<T>,
        #[pin]
        future: Option<F>,
    }

    impl<T: 'static, F> PinnedDrop for TaskLocalFuture<T, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            with_bound(this.local, this.value.as_ref(), || this.future.set(None));
        }
    }
}

/// Calls `f` while the value is bound, if there is one.
fn with_bound<T: 'static, R>(
    local: &'static TaskLocal<T>,
    value: Option<&T>,
    f: impl FnOnce() -> R,
) -> R {
    match value {
        Some(value) => local.bind(value, f),
        None => f(),
    }
}

impl<T: 'static, F> TaskLocalFuture<T, F> {
    /// Takes the value out. It is bound no more if the future is polled again. `None` if it was taken before.
    ///
    /// ```
    /// doorbell::task_local!(static COUNT: std::cell::Cell<u32>);
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let mut counts = std::pin::pin!(COUNT.scope(0.into(), async { COUNT.with(|count| count.set(7)) }));
    /// counts.as_mut().await;
    /// assert_eq!(counts.as_mut().take_value().unwrap().get(), 7);
    /// assert!(counts.take_value().is_none());
    /// # });
    /// ```
    pub fn take_value(self: Pin<&mut Self>) -> Option<T> {
        self.project().value.take()
    }
}

impl<T: 'static, F> std::fmt::Debug for TaskLocalFuture<T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskLocalFuture")
            .field("local", self.local)
            .finish_non_exhaustive()
    }
}

impl<T: 'static, F: Future> Future for TaskLocalFuture<T, F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        assert!(
            this.future.is_some(),
            "a task-local scope was polled again after it was ready"
        );
        with_bound(this.local, this.value.as_ref(), || {
            let future = this.future.as_mut().as_pin_mut();
            let polled = future.expect("it is there, see above").poll(cx);
            if polled.is_ready() {
                this.future.set(None);
            }
            polled
        })
    }
}
