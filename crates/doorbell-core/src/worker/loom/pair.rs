//! Two workers of one scheduler, each in its real loop: they share what they have, wake each other, and sleep.
//!
//! Where tasks *meet*, each of them is inside one poll until the other one is too: so each needs a worker
//! of its own, and the model deadlocks if one of them is left behind the other. A sleep that ends by a
//! time ends at once in a model: this shows that there is such a time, and not how long it is. Nor does a
//! model show a worker that gets no CPU, since each of its threads goes on in the end: the simulator does.

use super::with_one_clock;
use crate::scheduler::Scheduler;
use crate::testing::model::{
    Shows, check_large, check_largest, must_be_noticed_by, must_be_noticed_by_largest, mutant,
};
use crate::testing::spawn;
use crate::worker::{IdlePolicy, Worker, WorkerCounts, WorkerShared};
use ::loom::sync::Notify;
use ::loom::thread::{self, JoinHandle};
use doorbell_machine::{Bug, Loom};
use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A worker that spins for so long looks around once before it parks.
const LOOKS_AROUND_NS: u64 = 2 * crate::worker::spin::SPIN_ALONE_NS;

/// What all executions of a model have reached together.
pub(super) struct Reached {
    thefts: AtomicU64,
    stolen: AtomicU64,
    claims: AtomicU64,
    parks: AtomicU64,
}

impl Reached {
    pub(super) const fn nothing() -> Self {
        Reached {
            thefts: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
            claims: AtomicU64::new(0),
            parks: AtomicU64::new(0),
        }
    }

    fn add(&self, counts: &WorkerCounts) {
        self.thefts.fetch_add(counts.thefts, Relaxed);
        self.stolen.fetch_add(counts.stolen, Relaxed);
        self.claims.fetch_add(counts.claims, Relaxed);
        self.parks.fetch_add(counts.parks, Relaxed);
    }

    /// A model in which no worker is robbed, claimed or parks would show nothing of that.
    #[track_caller]
    fn assert_all(&self) {
        let counts = [&self.thefts, &self.claims, &self.parks];
        let [thefts, claims, parks] = counts.map(|count| count.load(Relaxed));
        eprintln!("{thefts} thefts, {claims} claims, {parks} parks");
        assert!(thefts > 0 && claims > 0 && parks > 0);
    }
}

type Shared<const RING: usize> = Arc<WorkerShared<Loom<RING>>>;

/// Two workers whose run queues' rings hold so many.
#[derive(Clone)]
pub(super) struct Pair<const RING: usize>(pub(super) [Shared<RING>; 2]);

impl<const RING: usize> Pair<RING> {
    pub(super) fn new(spin_ns: u64) -> Self {
        let remotes = Scheduler::new(2, &Arc::default(), |_, _| 0);
        Pair(with_one_clock(remotes, IdlePolicy::Spin { spin_ns }))
    }

    pub(super) fn start(&self, worker: usize) -> JoinHandle<()> {
        let shared = Arc::clone(&self.0[worker]);
        thread::spawn(move || Worker::new(shared).run())
    }

    /// The second worker has a thread of its own, and the caller is the first one.
    pub(super) fn run(&self) -> JoinHandle<()> {
        let second = self.start(1);
        Worker::new(Arc::clone(&self.0[0])).run();
        second
    }

    pub(super) fn close(&self) {
        self.0.iter().for_each(|worker| worker.close());
    }

    /// Both workers have ended: nothing is left of what they shared.
    fn assert_ended(&self, reached: &Reached) -> [WorkerCounts; 2] {
        let scheduler = self.0[0].remote().scheduler();
        assert!(
            !scheduler.idle().anyone_searches(),
            "a search is counted for ever"
        );
        assert_eq!(self.0[0].remote().shares(), 2, "a task was not freed");
        self.0.each_ref().map(|worker| {
            let counts = worker.counts();
            let told = counts.unparks_rung + counts.unparks_last_test + counts.unparks_ready;
            assert_eq!(counts.parks, told + counts.unparks_deadline);
            let announced = counts.parks + counts.parks_avoided;
            assert!(counts.rings <= announced, "{counts:?}");
            assert_eq!((counts.rings_awake, counts.rings_helped), (0, 0));
            assert_eq!(counts.watchdogs, counts.watchdogs_ended);
            assert!(counts.thefts <= counts.searches && counts.thefts <= counts.stolen);
            reached.add(&counts);
            counts
        })
    }
}

/// Tasks that are counted; the last one that ends asks the workers to close.
pub(super) struct Work<const RING: usize, const N: usize> {
    workers: Pair<RING>,
    polls: [AtomicUsize; N],
    left: AtomicUsize,
    begun: [Notify; N],
}

impl<const RING: usize, const N: usize> Work<RING, N> {
    pub(super) fn new(workers: &Pair<RING>) -> Arc<Self> {
        Arc::new(Work {
            workers: workers.clone(),
            polls: array::from_fn(|_| AtomicUsize::new(0)),
            left: AtomicUsize::new(N),
            begun: array::from_fn(|_| Notify::new()),
        })
    }

    /// Spawns the task with that number: on the worker that the caller is, or from outside, for the first.
    pub(super) fn spawn(self: &Arc<Self>, task: usize, body: fn(&Arc<Self>, usize)) {
        let work = Arc::clone(self);
        let future = async move {
            let before = work.polls[task].fetch_add(1, Relaxed);
            assert_eq!(before, 0, "a task ran twice");
            body(&work, task);
            if work.left.fetch_sub(1, Relaxed) == 1 {
                work.workers.close();
            }
        };
        drop(spawn(self.workers.0[0].remote(), future));
    }

    /// The first two tasks, inside one poll each.
    fn meet(self: &Arc<Self>, task: usize) {
        self.begun[1 - task].notify();
        self.begun[task].wait();
    }

    fn spawn_and_meet(self: &Arc<Self>, task: usize) {
        self.spawn(1, Self::meet);
        self.meet(task);
    }

    #[track_caller]
    pub(super) fn assert_all_ran(&self) {
        let once = |polls: &AtomicUsize| polls.load(Relaxed) == 1;
        assert!(self.polls.iter().all(once), "a task was lost");
    }
}

/// Tasks that lie in the first worker's inject queue when the workers begin.
fn given<const RING: usize, const N: usize>(
    spin_ns: u64,
    reached: &Reached,
    spawn: impl FnOnce(&Arc<Work<RING, N>>),
) {
    let workers = Pair::<RING>::new(spin_ns);
    let work = Work::new(&workers);
    spawn(&work);
    workers.run().join().unwrap();
    workers.assert_ended(reached);
    work.assert_all_ran();
}

/// The same of tasks that end at once.
fn given_at_once<const RING: usize, const N: usize>(spin_ns: u64, reached: &Reached) {
    given::<RING, N>(spin_ns, reached, |work| {
        (0..N).for_each(|task| work.spawn(task, |_, _| {}));
    });
}

/// Two that meet.
fn given_to_meet(spin_ns: u64, reached: &Reached) {
    given::<2, 2>(spin_ns, reached, |work| {
        (0..2).for_each(|task| work.spawn(task, Work::meet));
    });
}

/// One that spawns another one and meets it.
fn given_a_parent(spin_ns: u64, reached: &Reached) {
    given::<2, 2>(spin_ns, reached, |work| {
        work.spawn(0, Work::spawn_and_meet);
    });
}

/// A task that comes from a third thread meanwhile.
fn posted(spin_ns: u64, reached: &Reached) {
    let workers = Pair::<2>::new(spin_ns);
    let threads = [workers.start(0), workers.start(1)];
    let work = Work::<2, 1>::new(&workers);
    work.spawn(0, |_, _| {});
    crate::testing::model::join_all(threads);
    workers.assert_ended(reached);
    work.assert_all_ran();
}

static AT_ONCE: Reached = Reached::nothing();
static MORE_THAN_A_RING: Reached = Reached::nothing();
static TO_MEET: Reached = Reached::nothing();
static PARENT: Reached = Reached::nothing();
static SPINNING: Reached = Reached::nothing();
static SPINNING_TO_MEET: Reached = Reached::nothing();
static SPINNING_PARENT: Reached = Reached::nothing();
static POSTED_SPINNING: Reached = Reached::nothing();

fn two_at_once() {
    given_at_once::<2, 2>(0, &AT_ONCE);
}

fn three_over_a_ring_of_two() {
    given_at_once::<2, 3>(0, &MORE_THAN_A_RING);
}

fn two_meet() {
    given_to_meet(0, &TO_MEET);
}

fn parent_and_child() {
    given_a_parent(0, &PARENT);
}

fn two_at_once_spinning() {
    given_at_once::<2, 2>(LOOKS_AROUND_NS, &SPINNING);
}

fn two_meet_spinning() {
    given_to_meet(LOOKS_AROUND_NS, &SPINNING_TO_MEET);
}

fn parent_and_child_spinning() {
    given_a_parent(LOOKS_AROUND_NS, &SPINNING_PARENT);
}

fn one_posted_spinning() {
    posted(LOOKS_AROUND_NS, &POSTED_SPINNING);
}

#[test]
fn two_workers_share_what_one_of_them_has() {
    check_largest(two_at_once);
    AT_ONCE.assert_all();
}

#[test]
#[ignore = "a minute; HACKING.md has the command"]
fn two_workers_share_more_than_a_ring_holds() {
    check_largest(three_over_a_ring_of_two);
    MORE_THAN_A_RING.assert_all();
    let [thefts, stolen] = [&MORE_THAN_A_RING.thefts, &MORE_THAN_A_RING.stolen];
    assert!(thefts.load(Relaxed) < stolen.load(Relaxed), "none took two");
}

#[test]
fn two_tasks_get_a_worker_each() {
    check_largest(two_meet);
    TO_MEET.assert_all();
}

#[test]
fn two_tasks_get_a_worker_that_spins_each() {
    check_largest(two_meet_spinning);
    assert!(SPINNING_TO_MEET.thefts.load(Relaxed) > 0);
}

#[test]
fn a_task_and_its_child_get_a_worker_each() {
    check_largest(parent_and_child);
    PARENT.assert_all();
}

#[test]
fn a_task_and_its_child_get_a_worker_that_spins_each() {
    check_large(parent_and_child_spinning);
    SPINNING_PARENT.assert_all();
}

#[test]
fn two_workers_that_spin_share_what_comes_from_outside() {
    check_largest(one_posted_spinning);
    assert!(POSTED_SPINNING.thefts.load(Relaxed) > 0);
}

#[test]
fn mutant_no_surplus_fence() {
    mutant!(IdleNoSurplusFence, two_meet);
}

/// Shows that a model of two workers notices a mutant, as does that of the mutant's own protocol.
macro_rules! pair_notices {
    ($test:ident, $notices:ident, $bug:ident, $model:ident) => {
        #[test]
        fn $test() {
            let test = concat!("worker::loom::pair::", stringify!($test));
            $notices(test, Shows::Deadlock, Bug::$bug, $model);
        }
    };
}

// With two preemptions the first takes minutes, and the second about 30 s. With one, seconds.
pair_notices!(
    mutant_sleep_unseen,
    must_be_noticed_by_largest,
    IdleNoAnnounceFence,
    parent_and_child
);
pair_notices!(
    mutant_stolen_unseen,
    must_be_noticed_by_largest,
    QueuePushRelaxed,
    two_at_once
);
pair_notices!(
    mutant_stolen_spinning_unseen,
    must_be_noticed_by,
    QueuePushRelaxed,
    two_at_once_spinning
);
