//! [`Builder::on_stall`]: a hook for polls that take long, and for closures that wait long, called while they last.

use crate::hooks::WorkerInfo;
use crate::{Builder, Class, ClassKind, CoreId, TaskId};
use doorbell_core::class::Class as SchedulerClass;
use doorbell_core::scheduler::telemetry::{
    PollStall, QUEUED_MIN_NS, STALLS_PER_SECOND, StallEvent, StallPlan,
};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// The shortest duration that [`Builder::on_stall`] accepts.
const AFTER_MIN: Duration = Duration::from_millis(1);

// The documentation of `on_stall` says so.
const _: () = assert!(STALLS_PER_SECOND == 10);

const _: () = assert!(QUEUED_MIN_NS == 500_000_000);

/// What takes long: see [`Builder::on_stall`]. Its `Display` shows everything.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    event: StallEvent,
}

/// What it is that takes long: see [`Stall::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StallKind {
    /// A poll of a task.
    Poll,
    /// The wait of a closure of [`spawn_blocking`](crate::spawn_blocking()) for a thread: of the oldest one in the
    /// queue. The closures that are under way may all wait for one that is queued, and then none of them ever ends.
    Queued,
}

impl Stall {
    /// What it is that takes long.
    ///
    /// ```
    /// use doorbell::{Builder, metrics::StallKind};
    ///
    /// let builder = Builder::new().on_stall(std::time::Duration::from_millis(10), |stall| {
    ///     if stall.kind() == StallKind::Queued {
    ///         eprintln!("{stall}: more Builder::blocking_threads may be needed");
    ///     }
    /// });
    /// # drop(builder);
    /// ```
    pub fn kind(&self) -> StallKind {
        match self.event {
            StallEvent::Poll(_) => StallKind::Poll,
            StallEvent::Queued { .. } => StallKind::Queued,
        }
    }

    fn poll(&self) -> Option<&PollStall> {
        match &self.event {
            StallEvent::Poll(poll) => Some(poll),
            StallEvent::Queued { .. } => None,
        }
    }

    /// The number of the task; `None` for a queued closure. [`Builder::on_stall`] has an example.
    pub fn id(&self) -> Option<TaskId> {
        self.poll().map(|poll| TaskId::new(poll.task))
    }

    /// The line that called `spawn` or the like for the task. For a task that a library spawned, it is a line
    /// of that library. `None` for a queued closure. [`Builder::on_stall`] has an example.
    pub fn spawned_at(&self) -> Option<&'static Location<'static>> {
        self.poll().map(|poll| poll.spawned_at)
    }

    /// The class of the task; `None` for a queued closure. The class of its worker may differ: while a higher class
    /// awaits the task or a lock that it holds, and with a paused clock.
    ///
    /// ```
    /// fn runs_elsewhere(stall: &doorbell::metrics::Stall) -> bool {
    ///     let worker = stall.worker().map(|worker| worker.class());
    ///     stall.class().map(|class| class.kind()) != worker
    /// }
    /// # let _ = runs_elsewhere;
    /// ```
    pub fn class(&self) -> Option<Class> {
        self.poll().map(|poll| Class::of_rank(poll.rank))
    }

    /// How long the poll has lasted at least: the time since the thread that looks for stalls first saw it. The poll
    /// goes on, or has ended just now. For a queued closure: how long it has waited, as
    /// [`BlockingMetrics::oldest_queued`](crate::metrics::BlockingMetrics::oldest_queued). [`Builder::on_stall`] has an example.
    pub fn lasted(&self) -> Duration {
        Duration::from_nanos(self.event.lasted_ns())
    }

    /// The worker that is inside the poll; `None` for a queued closure. [`Builder::on_stall`] has an example.
    pub fn worker(&self) -> Option<WorkerInfo> {
        self.poll().map(worker_of)
    }

    /// Number of reports of this worker that were left out since its previous one, because of the limit of 10
    /// in a second. 0 for a queued closure.
    ///
    /// ```
    /// let builder = doorbell::Builder::new().on_stall(std::time::Duration::from_millis(10), |stall| {
    ///     eprintln!("{stall}, and {} more on this worker", stall.left_out());
    /// });
    /// # drop(builder);
    /// ```
    pub fn left_out(&self) -> u64 {
        self.poll().map_or(0, |poll| poll.left_out)
    }
}

fn worker_of(poll: &PollStall) -> WorkerInfo {
    let class = match poll.class {
        SchedulerClass::Batch => ClassKind::Batch,
        SchedulerClass::Fair => ClassKind::Fair,
        SchedulerClass::Rt => ClassKind::Rt,
    };
    WorkerInfo::new(CoreId::new(poll.worker), class)
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lasted = self.lasted();
        let Some(poll) = self.poll() else {
            return write!(
                f,
                "a closure of `spawn_blocking` has waited {lasted:?} for a thread"
            );
        };
        let worker = worker_of(poll);
        write!(
            f,
            "{} worker of core {}: a poll of task {} of class {}, spawned at {}, has lasted {lasted:?}",
            worker.class(),
            worker.core(),
            TaskId::new(poll.task),
            Class::of_rank(poll.rank),
            poll.spawned_at,
        )
    }
}

impl Builder {
    /// Calls `hook` while a poll of a task lasts longer than `after`, also if the poll never ends. It is
    /// called again each time when the poll has lasted twice as long as at the previous call.
    ///
    /// Polls shorter than `after` are never reported. A poll of one and a half times `after` is reported if
    /// three conditions hold: the thread that looks for stalls gets a CPU in time, no other call of this hook
    /// is running, and the worker is below its limit of 10 reports a second. After a report that was left
    /// out, the next one has the number of those left out ([`Stall::left_out`]). `after` is at least 1 ms; a
    /// shorter time is taken as 1 ms. Time is wall time: a worker that gets no CPU stalls too.
    ///
    /// It is also called while a closure of [`spawn_blocking`](crate::spawn_blocking()) waits for a thread for longer than
    /// `after` and than 500 ms, and again each time when the oldest closure has waited twice as long
    /// ([`Stall::kind`]): a pool whose closures all wait for a queued one waits for itself.
    ///
    /// Other things are not reported. Calls ([`call_on`](crate::call_on()) and the like), the future in
    /// `block_on` (the body of `#[doorbell::main]`) and closures of `spawn_blocking` that are under way may take any time.
    ///
    /// The hook runs on a thread of its own. It may take its time: no task waits for it, but no other stall
    /// is reported meanwhile. The thread is not a worker and has no current runtime, so
    /// [`spawn`](crate::spawn()) panics there; a [`Handle`](crate::Handle) works. The hook may end this
    /// runtime or another one. Ending a runtime does not wait for its hook, so a running call of the hook may
    /// end later. A panic of the hook is caught and counted
    /// ([`Metrics::hook_panics`](crate::metrics::Metrics::hook_panics)). There may be several hooks. The shortest `after` sets the
    /// moments at which they are called, and each is called only at those at which its own `after` has passed. So a poll of
    /// one and a half times `after` is reported to the hook with the shortest one. Another hook may miss a poll that is
    /// shorter than twice its own `after` and the shortest one together.
    ///
    /// With a hook, the thread looks at all workers twice in each `after`. While the runtime is idle the
    /// thread sleeps; the next poll or blocking closure wakes it by a syscall. Each poll stores a few words, and each task is a
    /// few words larger. Without a hook there is no such thread and no such cost.
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
    /// assert_eq!(stall.id(), Some(task.id()));
    /// assert_eq!(stall.worker().map(|worker| worker.core().index()), Some(0));
    /// assert!(stall.lasted() >= Duration::from_millis(5));
    /// assert!(stall.spawned_at().is_some_and(|place| place.file().ends_with(".rs")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_stall(
        mut self,
        after: Duration,
        hook: impl Fn(&Stall) + Send + Sync + 'static,
    ) -> Self {
        let after_ns = after.max(AFTER_MIN).as_nanos();
        self.telemetry.hooks.stall.push(StallPlan {
            after_ns: u64::try_from(after_ns).unwrap_or(u64::MAX),
            hook: Arc::new(move |event: &StallEvent| hook(&Stall { event: *event })),
        });
        self
    }
}
