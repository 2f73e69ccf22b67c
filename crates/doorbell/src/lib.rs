//! An async runtime for Linux whose cores work together without disturbing each other.
//!
//! Each task has a [`Class`]: Rt, Fair or Batch, the most urgent first. A *worker* is an OS thread that polls
//! the tasks of one class on one core.
//!
//! * **Busy cores are not disturbed.** A spinning worker is notified by a store, without a syscall. A running
//!   worker sees new work when it next looks. Only a sleeping worker is woken by a syscall, as a rule once.
//!   There is one interrupt: before a worker fires the overdue timers of a worker that is stuck in a poll,
//!   the kernel interrupts every CPU that runs a thread of this process (`membarrier(2)`).
//! * **Calls.** [`call_on`] sends a closure to a named core and returns its result.
//! * **Tasks move between cores**, unless they are pinned: [`task`]`().on(core)`.
//!
//! ```
//! #[doorbell::main(cores = 2)]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let task = doorbell::spawn(async { 6 * 7 });
//!     assert_eq!(task.await?, 42);
//!
//!     // Run a closure on core 1 and come back with what it returned.
//!     let there = doorbell::call_on(1, doorbell::current_core).await?;
//!     assert_eq!(there, Some(doorbell::CoreId::new(1)));
//!     Ok(())
//! }
//! ```
//!
//! # Libraries that work unchanged
//! Any library that needs no runtime of its own. The tests of this crate use `mpsc`, `oneshot`, `watch` and
//! `Semaphore` of `tokio::sync`, and `join!` and `select!` of `futures`. Libraries that call `tokio::spawn`,
//! `tokio::time` or `tokio::net` run in tasks of a runtime with the crate `doorbell-tokio`.
//!
//! The macros of `futures` await several things in one task. `join!` awaits all of them:
//!
//! ```
//! # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
//! let there = doorbell::call_on(1, || 40);
//! let here = async { 2 };
//! let (there, here) = futures::join!(there, here);
//! assert_eq!(there? + here, 42);
//! # Ok::<(), doorbell::CallError>(())
//! # }).unwrap();
//! ```
//!
//! `select!` awaits the first that is ready and drops the others. Dropping a call withdraws it; dropping a
//! [`JoinHandle`] lets its task run on. The futures must be fused and pinned:
//!
//! ```
//! use doorbell::time::{Duration, sleep};
//! use futures::FutureExt;
//! use std::pin::pin;
//!
//! # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
//! let mut work = doorbell::spawn(async { "done" }).fuse();
//! let mut late = pin!(sleep(Duration::from_secs(60)).fuse());
//! let first = futures::select! {
//!     output = work => output?,
//!     () = late => "too late",
//! };
//! assert_eq!(first, "done");
//! # Ok::<(), doorbell::JoinError>(())
//! # }).unwrap();
//! ```
//!
//! The macros of tokio, with its feature `macros` alone, need no runtime either, and no fused futures:
//!
//! ```
//! use doorbell::time::{Duration, sleep};
//!
//! # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
//! let first = tokio::select! {
//!     output = doorbell::spawn(async { "done" }) => output?,
//!     () = sleep(Duration::from_secs(60)) => "too late",
//! };
//! let (one, two) = tokio::join!(async { 1 }, doorbell::spawn(async { 2 }));
//! assert_eq!((first, one, two?), ("done", 1, 2));
//! # Ok::<(), doorbell::JoinError>(())
//! # }).unwrap();
//! ```
//!
//! # What inverts priorities, and what to do
//! An inversion is a task of a higher [`Class`] that waits for a task of a lower one. In two cases the lower
//! task inherits the higher class:
//!
//! * **A [`JoinHandle`]** (also in a [`JoinSet`] or a [`scope()`]). While a task of a higher class awaits the
//!   handle, the workers of that class poll the handle's task too, before their own tasks. The tasks that it
//!   awaits directly inherit as well. The task keeps its own class, and its children get that class. If the
//!   task computes for long, it does so on the workers of the higher class. To get only the result, without
//!   the inheritance, have the task send it by a channel.
//! * **[`sync::Mutex`]**. The task that holds the lock inherits in the same way. The lock goes to waiting
//!   tasks in the order of their classes.
//!
//! These cases invert priorities, and need a remedy in the program:
//!
//! | what | what to do |
//! |---|---|
//! | a poll that a worker of a lower class has begun: no other worker can continue it, so it must finish on its own thread | keep polls short, or compute in [`spawn_blocking`] |
//! | a pinned task (`.on(core)`, [`spawn_local`]), a call ([`call_on`]), a closure that blocks | do not await them from a higher class, or pin them in that class |
//! | channels, semaphores, `Notify`, `RwLock` and the like of other crates: the runtime does not know which task will send or release | give the sender the class of the receiver; or await the sender's handle too, beside the channel |
//! | `tokio::sync::Mutex`, `async_lock::Mutex` | [`sync::Mutex`], where classes share a lock |
//! | `std::sync::Mutex`: the OS may keep the holder's thread waiting, and then the whole worker waits | share it within one class only, or use [`sync::Mutex`] |
//! | a handle in `FuturesUnordered` or the like, which polls a handle only when it is woken. If a higher class awaits the set's task later, the handle's task inherits only when the set next polls the handle | await urgent handles directly |
//! | a Batch task that is awaited from Fair first and from Rt later, while all Fair workers are inside long polls | await it from Rt from the start |
//! | Rt tasks that await Rt tasks, or wait for a lock that Rt tasks hold: the numbers are not inherited | give tasks that wait for each other the same number |
//! | a guard that was sent to another task, or locked outside of tasks | lock in the task that uses the value |
//! | memory that a Batch task allocates and an Rt task frees, or the other way round: most allocators take a short lock for that, and the OS may keep the holder's thread waiting | pass large or many buffers between classes rarely; an allocator with a lock-free remote free (mimalloc, snmalloc) has no such wait |
//! | a timer that a pinned task armed on a worker that is now inside a long poll | keep polls short |
//!
//! With a [paused clock](Builder::start_paused) the tasks of all classes run on the Fair workers.
//!
//! # Tasks that do not yield
//! A task keeps its worker until it waits. A task does not wait if what it awaits is always ready. So each
//! poll may complete at most 128 operations of this crate that are ready at once; then the other tasks,
//! timers and calls of the worker have their turn. The module [`coop`] has the rules.
//!
//! Futures of other crates do not count. `tokio::sync` has a budget of its own, but only inside tokio. The
//! futures of [`sync::CancellationToken`] are those of `tokio-util`. A task that loops over such a future
//! while it is ready keeps its worker. Until it yields, its `timeout` and `abort` have no effect, and
//! dropping the runtime waits for it. Other cores take over the tasks and timers that may move. Wrap such a
//! future in [`coop::cooperative`]:
//!
//! ```
//! use doorbell::coop::cooperative;
//! use std::pin::pin;
//!
//! # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
//! let permits = tokio::sync::Semaphore::new(1);
//! for _ in 0..1_000 {
//!     // A permit is always there.
//!     let permit = cooperative(pin!(permits.acquire())).await?;
//!     drop(permit);
//! }
//! # Ok::<(), tokio::sync::AcquireError>(())
//! # }).unwrap();
//! ```
//!
//! A loop that computes calls [`coop::consume_budget`] now and then.
//!
//! To find polls that take long, switch on [`Builder::poll_times`]. While such a poll lasts,
//! [`metrics::WorkerMetrics::current_poll`] shows the core, the class and the time so far. When it has ended,
//! [`metrics::Metrics::long_polls`] has the name of its task. [`Builder::on_stall`] calls a hook while the poll
//! lasts, with the task, the line that spawned it, the core and the time so far.
//!
//! # Where to find what
//! | module | what |
//! |---|---|
//! | [`time`], [`net`], [`signal`], [`sync`] | timers, sockets, signals, the lock that knows classes |
//! | [`call`](mod@call), [`local`], [`coop`] | types of calls to cores, of values of one task or worker, of the poll budget |
//! | [`metrics`] | what a runtime tells of itself: counts, times, tasks, stalls, what the OS granted |
//! | [`error`](mod@error) | errors that few programs name |
//! | [`switches`] | protocols that can be turned into others |
//!
//! # Features
//! * `cancel`: `doorbell::sync::CancellationToken`, re-exported from `tokio-util`.
//! * `futures-io`, `tokio-io`: the read and write traits of `futures::io` and `tokio::io` for all streams of
//!   [`net`] and their halves, and the module `doorbell::io`, which re-exports them.
//! * `sim`: the module `doorbell::sim` and `#[doorbell::test(sim)]`, which run an async program on a simulated machine
//!   of up to 1,024 cores. For tests only.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod abort_handle;
mod ambient;
mod around;
mod blocking;
mod builder;
pub mod call;
mod call_class;
mod call_many;
mod call_on;
mod class;
mod class_workers;
pub mod coop;
mod core_state;
mod dump;
pub mod error;
mod forked;
mod group;
mod handle;
mod here;
mod hooks;
#[cfg(any(feature = "futures-io", feature = "tokio-io"))]
pub mod io;
mod join_set;
mod large;
pub mod local;
mod local_tasks;
pub mod metrics;
pub mod net;
mod owner;
mod policy_hook;
mod poll_times;
mod post;
mod relief;
mod room;
mod rt;
mod rt_budget;
mod rt_plan;
mod runtime;
mod scope;
pub mod signal;
#[cfg(feature = "sim")]
pub mod sim;
mod stack_size;
mod stalls;
pub mod switches;
pub mod sync;
mod task;
mod task_id;
mod task_local;
mod telemetry;
pub mod time;
mod wakers;
mod worker_local;
mod yield_now;

pub use abort_handle::AbortHandle;
pub use around::ThreadRole;
pub use blocking::{BlockingHandle, spawn_blocking};
pub use builder::{BuildError, Builder, IdlePolicy};
pub use call_class::call;
pub use call_many::{call_all, call_many};
pub use call_on::{CallError, call_on, try_call_on};
pub use class::{Class, ClassKind, current_class};
pub use doorbell_core::task::{JoinError, Name as TaskName};
pub use doorbell_macros::{main, test};
pub use group::Group;
pub use handle::{EnterGuard, Handle, WeakHandle};
pub use join_set::JoinSet;
pub use local_tasks::{spawn_local, spawn_local_on, try_spawn_local};
pub use post::post_on;
pub use runtime::Runtime;
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use task::{JoinHandle, SpawnError, TaskBuilder, spawn, task};
pub use task_id::{TaskId, current_task_id};
pub use yield_now::yield_now;

/// One CPU that a runtime uses. Cores are numbered from 0 to one less than [`Handle::cores`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(usize);

impl CoreId {
    /// The core with this number. It is checked when it is used: not every runtime has it.
    pub const fn new(index: usize) -> Self {
        CoreId(index)
    }

    /// The number of the core.
    pub const fn index(self) -> usize {
        self.0
    }
}

impl From<usize> for CoreId {
    fn from(index: usize) -> Self {
        CoreId(index)
    }
}

impl std::fmt::Display for CoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The core of the worker that calls this; `None` on a thread that is not a worker.
pub fn current_core() -> Option<CoreId> {
    ambient::current_core()
}
