#![doc = include_str!("../README.md")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::missing_panics_doc,
    reason = "a suite of tests plays the outside world; a test says what is wrong by its panic"
)]

mod support;
pub mod tasks;
pub mod timers;
pub mod wakers;

use std::time::Duration;

/// How a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// It has returned this.
    Done(T),
    /// It has panicked.
    Panicked,
    /// It was aborted, or its runtime has ended.
    Cancelled,
}

/// What happens to a task whose handle is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DroppedHandle {
    /// It goes on.
    Detaches,
    /// It is cancelled.
    Cancels,
}

/// A runtime with at least two workers. Dropping it ends it.
pub trait Runtime: Sized {
    /// What spawns tasks, from any thread.
    type Spawner: Spawner;
    /// What happens to a task whose handle is dropped.
    const DROPPED_HANDLE: DroppedHandle;

    /// Starts one.
    fn start() -> Self;

    /// What spawns tasks on it.
    fn spawner(&self) -> Self::Spawner;

    /// Runs a future on this thread.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// A timer, made and awaited on the runtime.
    fn sleep(time: Duration) -> impl Future<Output = ()> + Send;
}

/// Spawns tasks.
pub trait Spawner: Clone + Send + Sync + 'static {
    /// The handle of a task.
    type Task<T: Send + 'static>: Task<T>;

    /// Spawns a task.
    fn spawn<F>(&self, future: F) -> Self::Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;
}

/// The handle of a task.
pub trait Task<T>: Send + Sized + 'static {
    /// Asks for its end.
    fn abort(&mut self);

    /// Waits for its end.
    fn join(self) -> impl Future<Output = Ended<T>> + Send;
}

/// Makes a test of each case, for a runtime: `suite!(RuntimeType)`, in a module of its own.
#[macro_export]
macro_rules! suite {
    ($runtime:ty) => {
        $crate::suite!(@ $runtime, tasks:
            a_task_gives_its_output,
            tasks_spawn_and_await_tasks,
            block_on_takes_what_is_not_send,
            a_task_whose_handle_is_dropped,
            an_aborted_task_is_dropped_before_its_end_is_seen,
            the_abort_of_a_task_that_has_ended_leaves_its_output,
            a_future_is_dropped_before_its_output_is_seen,
            a_panic_is_seen_by_who_waits_and_ends_nothing_else,
            tasks_that_wait_are_dropped_when_the_runtime_ends,
        );
        $crate::suite!(@ $runtime, timers:
            a_sleep_is_never_early,
            a_short_sleep_ends_before_a_long_one,
            a_sleep_that_is_dropped_wakes_nothing,
        );
        $crate::suite!(@ $runtime, wakers:
            a_wake_from_another_thread_is_heard,
            a_wake_during_a_poll_is_heard,
            the_last_waker_of_several_counts,
            a_waker_may_outlive_its_task_and_its_runtime,
        );
    };
    (@ $runtime:ty, $module:ident: $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::$module::$case::<$runtime>();
            }
        )*
    };
}
