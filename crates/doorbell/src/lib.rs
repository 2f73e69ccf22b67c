//! An async runtime for Linux whose cores work together without disturbing each other.
//!
//! Tasks have a [`Class`]: Rt before Fair before Batch. A *worker* is an OS thread that polls the tasks of one class on one
//! core.
//!
//! * A worker that spins is notified by a store, without a syscall; one that runs is left alone; only one that sleeps is
//!   rung, as a rule once. There is one interrupt: before a worker fires the overdue timers of one that is stuck in a
//!   poll, the kernel interrupts every CPU that runs a thread of this process (`membarrier(2)`).
//! * A closure can be sent to a named core and its result awaited: [`call_on`].
//! * Tasks may move between cores, but for those that are put on one: [`task`]`().on(core)`.
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
//! # What works here without being written again
//! What needs no runtime of its own. The tests of this crate use `mpsc`, `oneshot`, `watch` and
//! `Semaphore` of `tokio::sync`, and `join!` and `select!` of `futures`.
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
//! `select!` awaits the first and drops the others, which withdraws calls and lets tasks run on. Its
//! futures are fused and pinned:
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
//! # What inverts priorities, and what to do
//! A task of a higher [`Class`] waits for one of a lower: an inversion. What is awaited by the
//! runtime's own means is run earlier for it:
//!
//! * **A [`JoinHandle`]** (also in a [`JoinSet`] or a [`scope()`]). While a task of a higher class
//!   awaits it, the workers of that class run the task too, before their own. What it awaits directly in its
//!   turn follows. It keeps its own class, and so do
//!   its children. A long computation in it is then one on those workers: if only its result is wanted,
//!   whenever it comes, have it sent by a channel.
//! * **[`sync::Mutex`]**. The same for the task that holds it, and who waits is served by class.
//!
//! What is not, and what to do instead:
//!
//! | what | what to do |
//! |---|---|
//! | a poll that a worker of a lower class has begun: no other worker can continue it, so it must finish on its own thread | keep polls short, or compute in [`spawn_blocking`] |
//! | a task that is pinned (`.on(core)`, [`spawn_local`]), a call ([`call_on`]), a closure that blocks | do not await them from a higher class, or pin them in that class |
//! | channels, semaphores, `Notify`, `RwLock` and the like of other crates: nobody knows who will send or let go | give the task that sends the class of the one that receives; or await its handle too, beside the channel |
//! | `tokio::sync::Mutex`, `async_lock::Mutex` | [`sync::Mutex`], where classes share a lock |
//! | `std::sync::Mutex`: its holder may be a thread that the OS keeps waiting, and then the whole worker waits | share it within one class only, or [`sync::Mutex`] |
//! | a handle in `FuturesUnordered` or the like, which polls a handle only when it is woken. If the set's task is awaited from a higher class later, the handle's task runs earlier only after the set has polled the handle again | await urgent handles directly |
//! | what a Batch task does that is awaited from Fair at first, and from Rt later, while all Fair workers are inside long polls | await it from Rt directly |
//! | Rt tasks that await Rt tasks, or hold a lock that they want: numbers are not handed on | give those that wait for each other one number |
//! | a guard that was sent to another task, or locked outside of tasks | lock where it is used |
//! | memory that a Batch task allocated and an Rt task frees, or the other way round: most allocators take a short lock for it, and its holder may be a thread that the OS keeps waiting | pass large or many buffers between classes rarely; an allocator with a lock-free remote free (mimalloc, snmalloc) has no such wait |
//! | a timer that a pinned task armed on a worker which is inside a long poll now | as for the poll |
//!
//! With a [paused clock](Builder::start_paused) the tasks of all classes run on the workers of class Fair.
//!
//! # What gives way, and what does not
//! A task keeps its core until it waits. If what it awaits is always ready, it does not wait. Each poll
//! may therefore complete 128 operations of this crate that are ready at once; then the other tasks,
//! timers and calls of the core have their turn. The module [`coop`] has the rules.
//!
//! This has a limit: futures of other crates do not count. `tokio::sync` has a budget of its own, but
//! only inside tokio; [`sync::CancellationToken`] is a future of `tokio-util`. A task that loops over
//! such a future while it is ready keeps its core. Its `timeout` and `abort` have no effect meanwhile,
//! and the drop of the runtime waits for it. Other cores take over the tasks and timers that may move.
//! Wrap such a future in
//! [`coop::cooperative`]:
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
//! [`Builder::poll_times`] shows what does not give way. While such a poll lasts, [`WorkerMetrics::current_poll`] says
//! on which core, in which class and for how long. When it has ended, [`Metrics::long_polls`] has the name of its task.
//! [`Builder::on_stall`] tells a hook of it while it lasts: which task, spawned where, on which core, for how long.
//!
//! # Features
//! * `cancel` (default): `doorbell::sync::CancellationToken`, of `tokio-util`.
//! * `futures-io`, `tokio-io`: the traits of those names for all streams of [`net`] and their halves, and
//!   `doorbell::io`, which has them.

mod ambient;
mod blocking;
mod builder;
mod call;
mod call_class;
mod call_many;
mod class;
mod class_workers;
pub mod coop;
mod core_state;
mod dump;
mod group;
mod guard;
mod handle;
mod hooks;
#[cfg(any(feature = "futures-io", feature = "tokio-io"))]
pub mod io;
mod join_set;
mod large;
mod local;
mod metrics;
pub mod net;
mod owner;
mod policy_hook;
mod poll_times;
mod post;
pub mod rescue;
mod room;
mod rt;
mod rt_budget;
mod rt_plan;
mod runtime;
mod scope;
mod stack_size;
mod stalls;
pub mod sync;
mod task;
mod task_id;
mod task_local;
mod telemetry;
pub mod time;
mod wakers;
mod worker_local;
mod yield_now;

pub use blocking::{BlockingHandle, BlockingMetrics, spawn_blocking};
pub use builder::{BuildError, Builder, CpuList, IdlePolicy};
pub use call::{Call, CallError, call_on, try_call_on};
pub use call_class::{CallBuilder, call};
pub use call_many::{CallMany, ManyResults, call_all, call_many};
pub use class::{Class, ClassError, ClassKind, current_class};
pub use class_workers::WorkerPolicy;
pub use core_state::CoreError;
pub use doorbell_core::bell::WorkerState;
pub use doorbell_core::switches::{CallCoalesce, IdleNotify, SwitchError, Switches};
pub use doorbell_core::task::{JoinError, Name as TaskName, Payload};
pub use doorbell_core::worker::{Times, WorkerCounts};
pub use doorbell_machine::{Policy, ThreadError};
pub use doorbell_macros::{main, test};
pub use dump::{TaskDump, TaskState};
pub use group::{Group, WeightError};
pub use handle::{BlockOnError, EnterGuard, Handle, NoRuntime};
pub use hooks::{TaskInfo, WorkerInfo};
pub use join_set::JoinSet;
pub use local::{LocalJoinHandle, NotAWorker, spawn_local, spawn_local_on, try_spawn_local};
pub use metrics::{Metrics, WorkerMetrics};
pub use poll_times::LongPoll;
pub use post::post_on;
pub use runtime::{Runtime, ShutdownTimeout};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use stalls::Stall;
pub use task::{JoinHandle, SpawnError, TaskBuilder, spawn, task};
pub use task_id::TaskId;
pub use task_local::{TaskLocal, TaskLocalError, TaskLocalFuture};
pub use worker_local::{WorkerLocal, WorkerLocalError};
pub use yield_now::{YieldNow, yield_now};

/// One CPU that a runtime uses: a number from 0 to the number of cores less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(usize);

impl CoreId {
    /// The core with this number; whether a runtime has it shows when it is used.
    pub const fn new(index: usize) -> Self {
        CoreId(index)
    }

    /// Its number.
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

/// The core that the caller runs on; `None` on a thread that is no worker.
pub fn current_core() -> Option<CoreId> {
    ambient::current_core()
}
