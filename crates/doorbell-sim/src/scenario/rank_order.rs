//! The oracle of rank order: no worker begins a poll while a task of a higher rank that it may run has waited for
//! longer than the promise allows.
//!
//! What the [push protocol](doorbell_core::scheduler::push) excepts is excepted here: a thread that is interrupted
//! between the push of a task and the end of the post (a task waits from the end on), and a thief that has tasks in its
//! hands.

use doorbell_machine::sim::{self, SimRecord};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// How long a task may wait while others begin polls of lower rank.
pub(super) const WAIT_NS: u64 = 50_000;
/// How long before or after a theft the tasks that a worker has in its hands may be missed by another one that begins a
/// poll. A worker takes an inject queue or a backlog whole.
const IN_HAND_NS: u64 = 10_000;

/// A task whose waits are judged.
#[derive(Debug, Default)]
struct Movable {
    rank: u8,
    /// How many of its polls have begun.
    polls: u64,
    /// Whether it is under poll, and was woken since that poll began.
    in_poll: bool,
    woken: bool,
    /// Since when it waits, if it does.
    since_ns: Option<u64>,
    /// When a poll of lower rank first began although it had waited for too long.
    passed_ns: Option<u64>,
}

impl Movable {
    fn waits(&mut self, now_ns: u64) {
        if self.in_poll {
            self.woken = true;
        } else {
            self.since_ns.get_or_insert(now_ns);
        }
    }

    /// A poll of it begins. Returns what its wait was like.
    fn begin(&mut self, now_ns: u64) -> Option<Waited> {
        self.polls += 1;
        (self.in_poll, self.woken) = (true, false);
        let since_ns = self.since_ns.take()?;
        let passed_ns = self.passed_ns.take();
        Some(Waited {
            rank: self.rank,
            for_ns: now_ns - since_ns,
            was_passed: passed_ns.is_some_and(|at_ns| now_ns > at_ns + IN_HAND_NS),
        })
    }
}

#[derive(Debug, Default)]
struct Seen {
    tasks: BTreeMap<u64, Movable>,
    /// How many tasks there were.
    count: u64,
    /// The ranks of the polls that began just now, and when.
    begun: Vec<(u8, u64)>,
}

impl Seen {
    /// A poll of this rank begins: notes for each task of a higher rank that it has waited for too long.
    fn note(&mut self, rank: u8, now_ns: u64) {
        let Seen { tasks, begun, .. } = self;
        let in_hand = |at_ns: u64| now_ns <= at_ns + IN_HAND_NS;
        // A thief had it in its hands when that other poll began, and now begins the first of what it took.
        for it in tasks.values_mut().filter(|it| it.rank <= rank) {
            it.passed_ns = it.passed_ns.filter(|at_ns| !in_hand(*at_ns));
        }
        begun.retain(|(_, at_ns)| in_hand(*at_ns));
        let is_late = |it: &Movable| {
            let waits_long = it.since_ns.is_some_and(|at_ns| now_ns > at_ns + WAIT_NS);
            waits_long && it.rank > rank && !begun.iter().any(|(rank, _)| *rank >= it.rank)
        };
        for it in tasks.values_mut().filter(|it| is_late(it)) {
            it.passed_ns.get_or_insert(now_ns);
        }
        begun.push((rank, now_ns));
    }
}

/// What the wait of a task was like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waited {
    /// The rank of the task.
    pub(super) rank: u8,
    /// How long it waited.
    pub(super) for_ns: u64,
    /// Whether it had to wait for a poll of lower rank that began too late.
    pub(super) was_passed: bool,
}

/// What a run has seen of rank order, in one scheduler.
#[derive(Debug, Default)]
pub(crate) struct RankOrder(SimRecord<Seen>);

impl RankOrder {
    /// A new task that any worker of the scheduler may run. It does not wait yet.
    pub(super) fn add(&self, rank: u8) -> u64 {
        self.0.with(|seen| {
            let task = seen.count;
            seen.count += 1;
            let movable = Movable {
                rank: rank.max(1),
                ..Movable::default()
            };
            seen.tasks.insert(task, movable);
            task
        })
    }

    /// How many polls of the task have begun.
    fn polls(&self, task: u64) -> u64 {
        self.0
            .with(|seen| seen.tasks.get(&task).map_or(0, |it| it.polls))
    }

    /// The task was spawned or woken, by a thread that saw so many polls of it before. It waits from now on, unless one
    /// more has begun since.
    pub(super) fn waits(&self, task: u64, polls: u64) {
        let now_ns = sim::time_ns();
        self.0.with(|seen| {
            let it = seen.tasks.get_mut(&task).filter(|it| it.polls == polls);
            if let Some(it) = it {
                it.waits(now_ns);
            }
        });
    }

    /// A poll of this rank begins: that of a movable task, or of another. Returns what its wait was like.
    pub(super) fn begins(&self, task: Option<u64>, rank: u8) -> Option<Waited> {
        let now_ns = sim::time_ns();
        self.0.with(|seen| {
            let it = task.and_then(|task| seen.tasks.get_mut(&task));
            let waited = it.and_then(|it| it.begin(now_ns));
            seen.note(rank.max(1), now_ns);
            waited
        })
    }

    /// The poll of that task is over. If it was woken meanwhile, it waits again.
    fn ends(&self, task: u64) {
        let now_ns = sim::time_ns();
        self.0.with(|seen| {
            if let Some(it) = seen.tasks.get_mut(&task) {
                it.in_poll = false;
                if std::mem::take(&mut it.woken) {
                    it.waits(now_ns);
                }
            }
        });
    }

    /// That task is gone.
    pub(super) fn forget(&self, task: u64) {
        self.0.with(|seen| seen.tasks.remove(&task));
    }

    /// Whether a task waits.
    #[cfg(test)]
    pub(super) fn anyone_waits(&self) -> bool {
        self.0
            .with(|seen| seen.tasks.values().any(|it| it.since_ns.is_some()))
    }
}

/// The waker of a judged task: wakes the task, and notes that it waits.
struct NotedWaker {
    inner: Waker,
    order: Arc<RankOrder>,
    task: u64,
}

impl Wake for NotedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let polls = self.order.polls(self.task);
        self.inner.wake_by_ref();
        self.order.waits(self.task, polls);
    }
}

/// A task whose polls are judged, and its waits too if any worker may run it. It is of one type for all futures with
/// that output, so that no cell of a task is compiled twice for each of them.
pub(super) struct Judged<T> {
    inner: Pin<Box<dyn Future<Output = T> + Send>>,
    order: Arc<RankOrder>,
    rank: u8,
    task: Option<u64>,
    waker: Option<(Waker, Waker)>,
}

impl<T> Judged<T> {
    pub(super) fn new(
        order: &Arc<RankOrder>,
        rank: u8,
        task: Option<u64>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Judged {
            inner: Box::pin(future),
            order: Arc::clone(order),
            rank,
            task,
            waker: None,
        }
    }

    /// The waker that notes what the task's own waker does.
    fn noted(&mut self, task: u64, own: &Waker) -> Waker {
        if let Some((inner, noted)) = &self.waker
            && inner.will_wake(own)
        {
            return noted.clone();
        }
        let noted = Waker::from(Arc::new(NotedWaker {
            inner: own.clone(),
            order: Arc::clone(&self.order),
            task,
        }));
        self.waker = Some((own.clone(), noted.clone()));
        noted
    }
}

impl<T> Future for Judged<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        if let Some(it) = this.order.begins(this.task, this.rank)
            && it.was_passed
        {
            sim::fail(format!(
                "rank order: a task of rank {} waited {} ns, and meanwhile a poll of lower rank began",
                it.rank, it.for_ns
            ));
        }
        let Some(task) = this.task else {
            return this.inner.as_mut().poll(cx);
        };
        let noted = this.noted(task, cx.waker());
        let polled = this.inner.as_mut().poll(&mut Context::from_waker(&noted));
        this.order.ends(task);
        polled
    }
}

impl<T> Drop for Judged<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task {
            self.order.forget(task);
        }
    }
}
