//! [`worker_local!`](crate::worker_local): statics with one value for each worker.

use crate::ambient;
use doorbell_core::quiet::drop_quietly;
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// Declares statics with one value for each worker: see [`WorkerLocal`].
///
/// A value is made when its worker first uses it, and is dropped on this worker when the worker ends. It need
/// be neither `Send` nor `Sync`.
///
/// Each class has its own workers, so a core has one value for each class. [`call_on`](crate::call_on()) and
/// [`call_all`](crate::call_all()) reach the values of the Fair workers, whatever the class of the caller;
/// [`call`](crate::call()) reaches those of another class.
///
/// ```
/// use std::cell::Cell;
///
/// doorbell::worker_local! {
///     /// How often this worker was asked.
///     static HITS: Cell<u64> = Cell::new(0);
/// }
///
/// # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
/// for core in [0, 1, 1] {
///     doorbell::call_on(core, || HITS.with(|hits| hits.set(hits.get() + 1))).await?;
/// }
/// let hits = doorbell::call_on(1, || HITS.with(Cell::get)).await?;
/// assert_eq!(hits, 2);
/// # Ok::<(), doorbell::CallError>(())
/// # }).unwrap();
/// ```
#[macro_export]
macro_rules! worker_local {
    ($($(#[$attr:meta])* $vis:vis static $name:ident: $type:ty = $init:expr);+ $(;)?) => {
        $(
            $(#[$attr])*
            $vis static $name: $crate::local::WorkerLocal<$type> = $crate::local::WorkerLocal::new(|| $init);
        )+
    };
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerLocalError {
    /// The thread is not a worker.
    #[error(
        "a worker_local! was used on a thread that is no worker; use it in a task or in call_on(core, ..), not in block_on or on a thread of your own"
    )]
    NotAWorker,
    /// The worker is ending and has dropped its value.
    #[error(
        "a worker_local! was used after its worker had dropped it; destructors of other worker_local! values must do without it"
    )]
    Ended,
    /// The expression that makes the value uses it.
    #[error(
        "a worker_local! was used by the expression that makes its first value; make the value without it"
    )]
    Recursive,
}

/// A static with one value for each worker; made by [`worker_local!`](crate::worker_local).
pub struct WorkerLocal<T: 'static> {
    init: fn() -> T,
}

impl<T: 'static> std::fmt::Debug for WorkerLocal<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerLocal").finish_non_exhaustive()
    }
}

impl<T: 'static> WorkerLocal<T> {
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> Self {
        WorkerLocal { init }
    }

    /// Calls `f` with the value of the calling worker. The first use makes the value.
    ///
    /// # Panics
    /// Where [`WorkerLocal::try_with`] returns an error: on a thread that is not a worker, after the worker
    /// has dropped the value, or in the expression that makes it.
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`WorkerLocal::with`], but returns an error instead of panicking.
    ///
    /// # Errors
    /// [`WorkerLocalError`] says why there is no value.
    ///
    /// ```
    /// doorbell::worker_local!(static NAME: String = String::from("a worker's"));
    /// assert_eq!(NAME.try_with(String::len), Err(doorbell::error::WorkerLocalError::NotAWorker));
    /// ```
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, WorkerLocalError> {
        // `with_worker` keeps the frame until `f` has returned, and with it the value.
        ambient::with_worker(|worker| {
            let locals = worker.ok_or(WorkerLocalError::NotAWorker)?.locals();
            let value = locals.get(self)?;
            // SAFETY: this worker made the value, and drops it in `end`. That runs last on the worker, so no
            // use of the value is under way; a use by another destructor finds the entry `Gone`.
            Ok(f(unsafe { value.as_ref() }))
        })
    }

    /// The address tells statics apart. The type does so for statics that the compiler has merged.
    fn key(&'static self) -> Key {
        (std::ptr::from_ref(self).addr(), TypeId::of::<T>())
    }
}

type Key = (usize, TypeId);

#[derive(Clone, Copy)]
enum Value {
    /// There is no value yet, or making it has panicked.
    Vacant,
    Making,
    /// The value, from `Box::into_raw`.
    Here(NonNull<dyn Any>),
    Gone,
}

/// The values of one worker. Only the worker's thread uses them.
#[derive(Default)]
pub(crate) struct Locals {
    index: RefCell<BTreeMap<Key, usize>>,
    values: RefCell<Vec<Value>>,
    ended: Cell<bool>,
}

impl Locals {
    fn get<T: 'static>(
        &self,
        local: &'static WorkerLocal<T>,
    ) -> Result<NonNull<T>, WorkerLocalError> {
        let at = self.index.borrow().get(&local.key()).copied();
        let at = at.unwrap_or_else(|| {
            let mut values = self.values.borrow_mut();
            values.push(Value::Vacant);
            self.index
                .borrow_mut()
                .insert(local.key(), values.len() - 1);
            values.len() - 1
        });
        let value = self.values.borrow()[at];
        match value {
            Value::Here(value) => Ok(value.cast()),
            Value::Making => Err(WorkerLocalError::Recursive),
            Value::Gone => Err(WorkerLocalError::Ended),
            Value::Vacant if self.ended.get() => Err(WorkerLocalError::Ended),
            Value::Vacant => Ok(self.make(at, local.init)),
        }
    }

    #[cold]
    fn make<T: 'static>(&self, at: usize, init: fn() -> T) -> NonNull<T> {
        /// Makes the entry vacant again if `init` unwinds.
        struct Making<'a>(&'a Locals, usize);
        impl Drop for Making<'_> {
            fn drop(&mut self) {
                self.0.values.borrow_mut()[self.1] = Value::Vacant;
            }
        }
        self.values.borrow_mut()[at] = Value::Making;
        let making = Making(self, at);
        let value: Box<dyn Any> = Box::new(init());
        std::mem::forget(making);
        // SAFETY: a box's address is not null.
        let value = unsafe { NonNull::new_unchecked(Box::into_raw(value)) };
        self.values.borrow_mut()[at] = Value::Here(value);
        value.cast()
    }

    /// Drops all values, from the newest entry to the oldest, including values that destructors make
    /// meanwhile.
    pub(crate) fn end(&self) {
        loop {
            let newest = {
                let mut values = self.values.borrow_mut();
                let here = |value: &&mut Value| matches!(value, Value::Here(_));
                let newest = values.iter_mut().rev().find(here);
                newest.map(|value| std::mem::replace(value, Value::Gone))
            };
            let Some(Value::Here(value)) = newest else {
                break;
            };
            // SAFETY: from `Box::into_raw`, and taken only once: the entry is now `Gone`.
            drop_quietly(unsafe { Box::from_raw(value.as_ptr()) });
        }
        self.ended.set(true);
    }
}

impl Drop for Locals {
    fn drop(&mut self) {
        // For threads that are not workers; a worker has done this before.
        self.end();
    }
}
