//! [`worker_local!`](crate::worker_local): statics of which each worker has its own.

use crate::ambient;
use doorbell_core::quiet::drop_quietly;
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// Declares statics of which each worker has its own value: see [`WorkerLocal`].
///
/// A value is made when its worker first uses it, and dropped on its worker when that ends. It need be
/// neither `Send` nor `Sync`.
///
/// The workers that a core has for other classes have values of their own: [`call_on`](crate::call_on())
/// and [`call_all`](crate::call_all()) reach those of the Fair workers, whoever calls, and
/// [`call`](crate::call()) those of another class.
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
            $vis static $name: $crate::WorkerLocal<$type> = $crate::WorkerLocal::new(|| $init);
        )+
    };
}

/// Why a worker's value was not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerLocalError {
    /// The thread is no worker.
    #[error(
        "a worker_local! was used on a thread that is no worker; use it in a task or in call_on(core, ..), not in block_on or on a thread of your own"
    )]
    NotAWorker,
    /// The worker ends and has dropped its value.
    #[error(
        "a worker_local! was used after its worker had dropped it; destructors of other worker_local! values must do without it"
    )]
    Ended,
    /// The value is being made, by code that asks for it.
    #[error(
        "a worker_local! was used by the expression that makes its first value; make the value without it"
    )]
    Recursive,
}

/// A static of which each worker has its own value; made by [`worker_local!`](crate::worker_local).
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

    /// Calls `f` with this worker's value, which is made if this is the first use.
    ///
    /// # Panics
    /// Where [`WorkerLocal::try_with`] returns an error: on a thread that is no worker, after the worker
    /// has dropped the value, or in the expression that makes it.
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }

    /// Calls `f` with this worker's value, which is made if this is the first use.
    ///
    /// # Errors
    /// [`WorkerLocalError`] says why there is no value here.
    ///
    /// ```
    /// doorbell::worker_local!(static NAME: String = String::from("a worker's"));
    /// assert_eq!(NAME.try_with(String::len), Err(doorbell::WorkerLocalError::NotAWorker));
    /// ```
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, WorkerLocalError> {
        // The frame is kept until `f` has returned, and with it the value.
        ambient::with_worker(|worker| {
            let locals = worker.ok_or(WorkerLocalError::NotAWorker)?.locals();
            let value = locals.get(self)?;
            // SAFETY: made by this worker, which drops it in `end`: that is run last on the worker, and
            // never while a value of the entry that it drops is in use, as it is `Gone` by then.
            Ok(f(unsafe { value.as_ref() }))
        })
    }

    /// Statics differ by address; the type tells apart what the compiler may have merged.
    fn key(&'static self) -> Key {
        (std::ptr::from_ref(self).addr(), TypeId::of::<T>())
    }
}

type Key = (usize, TypeId);

#[derive(Clone, Copy)]
enum Value {
    /// There is none; making it has panicked.
    Vacant,
    Making,
    /// From `Box::into_raw`.
    Here(NonNull<dyn Any>),
    Gone,
}

/// The values of one worker. Only its own thread uses them.
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
        /// Makes the value vacant again if its making unwinds.
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

    /// Drops all values, those made last first. What a destructor makes meanwhile is dropped too.
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
            // SAFETY: from `Box::into_raw`, and it was the only one: now the entry is `Gone`.
            drop_quietly(unsafe { Box::from_raw(value.as_ptr()) });
        }
        self.ended.set(true);
    }
}

impl Drop for Locals {
    fn drop(&mut self) {
        // A worker has done so before.
        self.end();
    }
}
