//! [`Builder::on_stall`]: who hears of polls that go on for long, while they do.

use crate::hooks::WorkerInfo;
use crate::{Builder, Class, ClassKind, CoreId, TaskId};
use doorbell_core::class::Class as SchedulerClass;
use doorbell_core::worker::{STALLS_PER_SECOND, StallEvent, StallPlan};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// The least that [`Builder::on_stall`] calls long.
const AFTER_MIN: Duration = Duration::from_millis(1);

// The documentation of `on_stall` says so.
const _: () = assert!(STALLS_PER_SECOND == 10);

/// A poll that goes on for long: see [`Builder::on_stall`]. Shown, it says all of it.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    event: StallEvent,
}

impl Stall {
    /// The number of the task. [`Builder::on_stall`] has an example.
    pub fn id(&self) -> TaskId {
        TaskId::new(self.event.task)
    }

    /// The line that spawned the task: where `spawn` or the like was called. A task that a library spawned has a line
    /// of that library. [`Builder::on_stall`] has an example.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.event.spawned_at
    }

    /// The class of the task. The worker's class differs while a higher class awaits the task or a lock that it holds,
    /// in a [rescue](crate::rescue), and with a paused clock.
    ///
    /// ```
    /// fn runs_elsewhere(stall: &doorbell::Stall) -> bool {
    ///     stall.class().kind() != stall.worker().class()
    /// }
    /// # let _ = runs_elsewhere;
    /// ```
    pub fn class(&self) -> Class {
        Class::of_rank(self.event.rank)
    }

    /// For how long the poll has lasted, at least: the time since it was first seen. The poll goes on, or has ended
    /// just now. [`Builder::on_stall`] has an example.
    pub fn lasted(&self) -> Duration {
        Duration::from_nanos(self.event.lasted_ns)
    }

    /// The worker that is inside the poll. [`Builder::on_stall`] has an example.
    pub fn worker(&self) -> WorkerInfo {
        let class = match self.event.class {
            SchedulerClass::Batch => ClassKind::Batch,
            SchedulerClass::Fair => ClassKind::Fair,
            SchedulerClass::Rt => ClassKind::Rt,
        };
        WorkerInfo::new(CoreId::new(self.event.worker), class)
    }

    /// How many reports of this worker were left out since the one before this, as they were too many in a second.
    ///
    /// ```
    /// let builder = doorbell::Builder::new().on_stall(std::time::Duration::from_millis(10), |stall| {
    ///     eprintln!("{stall}, and {} more on this worker", stall.left_out());
    /// });
    /// # drop(builder);
    /// ```
    pub fn left_out(&self) -> u64 {
        self.event.left_out
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worker = self.worker();
        write!(
            f,
            "{} worker of core {}: a poll of task {} of class {}, spawned at {}, has lasted {:?}",
            worker.class(),
            worker.core(),
            self.id(),
            self.class(),
            self.spawned_at(),
            self.lasted()
        )
    }
}

impl Builder {
    /// Calls `hook` when one poll of a task has lasted for `after`, while it goes on, also if it never ends; and again
    /// each time the poll has lasted twice as long as told. Polls of less than `after` are never told. A poll of one
    /// and a half times `after` is told if the thread that looks gets a CPU in time, no other call of this hook is
    /// running, and the worker is under its limit of 10 reports a second. `after` is 1 ms at least; less is taken as
    /// that. The time is what a clock on the wall shows: a worker that gets no CPU stalls too.
    ///
    /// Calls ([`call_on`](crate::call_on()) and the like) are no tasks and are not told. Nor are the future in
    /// `block_on`, and so the body of `#[doorbell::main]`, and closures of `spawn_blocking`.
    ///
    /// The hook runs on a thread of its own, so it may take its time: meanwhile no other stall is told, and no task
    /// waits for it. The thread is no worker: [`spawn`](crate::spawn()) panics there, a [`Handle`](crate::Handle)
    /// works. The hook may end this runtime or another one: who ends a runtime does not wait for its hook, so a call
    /// that is under way then may end later. If the hook panics, that is caught and counted
    /// ([`Metrics::hook_panics`](crate::Metrics::hook_panics)). There is one such hook, the last that was given.
    ///
    /// At most 10 reports are told in a second for each worker. The next one says how many were left out
    /// ([`Stall::left_out`]).
    ///
    /// With a hook the thread looks at all workers twice in each `after`. While the runtime is idle it sleeps, and the
    /// next poll wakes it, by a system call. Each poll stores a few words, and each task has some more. Without a hook
    /// there is no such thread, and tasks and polls cost what they cost otherwise.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (says, hears) = mpsc::channel();
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .on_stall(Duration::from_millis(5), move |stall| drop(says.send(*stall)))
    ///     .build()?;
    /// let task = runtime.spawn(async { std::thread::sleep(Duration::from_millis(50)) });
    /// let stall = hears.recv()?;
    /// println!("{stall}");
    /// assert_eq!((stall.id(), stall.worker().core().index()), (task.id(), 0));
    /// assert!(stall.lasted() >= Duration::from_millis(5));
    /// assert!(stall.spawned_at().file().ends_with(".rs"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_stall(
        mut self,
        after: Duration,
        hook: impl Fn(&Stall) + Send + Sync + 'static,
    ) -> Self {
        let after_ns = after.max(AFTER_MIN).as_nanos();
        self.telemetry.hooks.stall = Some(StallPlan {
            after_ns: u64::try_from(after_ns).unwrap_or(u64::MAX),
            hook: Arc::new(move |event: &StallEvent| hook(&Stall { event: *event })),
        });
        self
    }
}
