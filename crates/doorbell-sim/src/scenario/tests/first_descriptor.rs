//! A worker gets its first descriptor inside a poll that then goes on for long, or has one while it polls a task whose last
//! poll was long. Another worker must look at the poller meanwhile.

use super::pull::take_off;
use super::{one_scheduler, with_workers};
use crate::scenario::scheduler::Workers;
use crate::scenario::timer::Sleep;
use doorbell_core::io::{Direction, Registration};
use doorbell_core::scheduler::RemoteRef;
use doorbell_core::task::Kind;
use doorbell_machine::sim::{self, SimCounter, SimFd, SimThread};
use doorbell_machine::{Counter, Machine, Readiness, Sim, ThreadHandle, ThreadSpec};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

const MS: u64 = 1_000_000;
/// Longer than a watchdog with nothing to do stays one.
const RESTED_NS: u64 = 20 * MS;
/// How long the poll goes on after the registration.
const STUCK_NS: u64 = 10 * MS;
/// When the descriptor becomes ready, after the registration.
const READY_NS: u64 = 2 * MS;
/// How late another worker may bring it: promised in `worker/watch/README.md`.
const LATE_NS: u64 = 750_000;

/// When it was woken; 0 if it was not.
#[derive(Default)]
struct Woken(SimCounter);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.set(sim::time_ns());
    }
}

type Registered = Registration<Sim, RemoteRef<Sim>>;

/// Registers a descriptor of worker 0, and waits for it.
fn register(workers: &Workers<0>, fd: SimFd, woken: &Arc<Woken>) -> Registered {
    let registered = Registration::new(workers.remote(0).clone(), fd).unwrap();
    let waker = Waker::from(Arc::clone(woken));
    let polled = registered.poll_ready(&Context::from_waker(&waker), Direction::Read);
    assert!(polled.is_pending());
    registered
}

/// The thread that registers the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// The worker itself, in the task whose poll then goes on.
    Itself,
    /// A foreign thread.
    Outside,
}

/// First works in short polls for `for_ns`, until workers woken to help have stopped looking.
async fn be_busy(for_ns: u64) {
    let until_ns = sim::time_ns() + for_ns;
    poll_fn(|cx| {
        sim::work(20_000);
        if sim::time_ns() >= until_ns {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn outside(cpu: usize, body: impl FnOnce() + Send + 'static) -> SimThread {
    let spec = ThreadSpec {
        name: "outside".to_owned(),
        cpu: Some(cpu),
        stack_size: None,
    };
    Sim::<0>::spawn(spec, Box::new(body)).unwrap()
}

fn program(workers: &Arc<Workers<0>>, who: Who, kind: Kind, busy_ns: u64) {
    sim::sleep(RESTED_NS);
    let (fd, woken) = (SimFd::open(), Arc::<Woken>::default());
    let inside = Arc::new(SimCounter::default());
    let (mine, waits, begun) = (Arc::clone(workers), Arc::clone(&woken), Arc::clone(&inside));
    let stuck = workers.launch(0, kind, async move {
        be_busy(busy_ns).await;
        let kept = (who == Who::Itself).then(|| register(&mine, fd, &waits));
        begun.set(sim::time_ns());
        sim::work(STUCK_NS);
        drop(kept);
    });
    let (mine, waits) = (Arc::clone(workers), Arc::clone(&woken));
    let world = outside(workers.cores() + 1, move || {
        wait_until_inside(&inside);
        let kept = (who == Who::Outside).then(|| register(&mine, fd, &waits));
        becomes_ready(
            fd,
            READY_NS,
            &waits,
            &format!("{who:?}, {kind:?}, {busy_ns}"),
        );
        drop(kept);
    });
    world.join().unwrap();
    workers.wait_for(stuck, 0).unwrap();
}

/// Waits until the worker is inside the poll that takes long.
fn wait_until_inside(inside: &SimCounter) {
    while inside.get() == 0 {
        sim::sleep(50_000);
    }
}

/// After a time the descriptor becomes ready; then its task must be woken in time.
fn becomes_ready(fd: SimFd, after_ns: u64, woken: &Woken, case: &str) {
    sim::sleep(after_ns);
    let ready_ns = sim::time_ns();
    fd.set_ready(Readiness::READABLE);
    sim::sleep(LATE_NS);
    if woken.0.get() < ready_ns {
        sim::fail(format!("{case}: nobody has looked"));
    }
}

fn check(who: Who, kind: Kind, busy_ns: u64) {
    let scheduler = one_scheduler(2);
    with_workers(scheduler, move |workers, close| {
        program(workers, who, kind, busy_ns);
        close();
        let counts = workers.counts();
        if counts[1].unparks_ready != 1 {
            sim::fail(format!("not brought by the other worker: {counts:?}"));
        }
    });
}

#[test]
fn somebody_looks_at_the_first_descriptor_of_a_worker_that_is_stuck() {
    for who in [Who::Itself, Who::Outside] {
        for kind in [Kind::Task, Kind::Pinned] {
            for busy_ns in [0, RESTED_NS] {
                check(who, kind, busy_ns);
            }
        }
    }
}

/// The first of the task's two polls, from which the second one is expected to be long, and how long the task sleeps
/// between them. Then no worker has been awake for long.
const KNOWN_NS: u64 = 2 * MS;

/// Whether the worker is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Its {
    On,
    Off,
}

fn behind_a_known_task(workers: &Arc<Workers<0>>, its: Its, ready_after_ns: u64) {
    sim::sleep(RESTED_NS);
    let (fd, woken) = (SimFd::open(), Arc::<Woken>::default());
    let kept = register(workers, fd, &woken);
    if its == Its::Off {
        take_off(workers, 0);
    }
    let inside = Arc::new(SimCounter::default());
    let (mine, begun) = (Arc::clone(workers), Arc::clone(&inside));
    let stuck = workers.launch(0, Kind::Pinned, async move {
        sim::work(KNOWN_NS);
        Sleep::new(&mine, 0, RESTED_NS).await;
        begun.set(sim::time_ns());
        sim::work(STUCK_NS);
    });
    let world = outside(workers.cores() + 1, move || {
        wait_until_inside(&inside);
        becomes_ready(
            fd,
            ready_after_ns,
            &woken,
            &format!("{its:?}, ready after {ready_after_ns}"),
        );
        drop(kept);
    });
    world.join().unwrap();
    workers.wait_for(stuck, 0).unwrap();
}

#[test]
fn a_descriptor_behind_a_task_whose_last_poll_was_long_is_looked_at_while_others_slept() {
    for ready_after_ns in [0, READY_NS, STUCK_NS / 2] {
        for workers in [2, 4, 16] {
            for its in [Its::On, Its::Off] {
                with_workers(one_scheduler(workers), move |workers, close| {
                    behind_a_known_task(workers, its, ready_after_ns);
                    close();
                });
            }
        }
    }
}

/// A pinned task that works, waits for a descriptor, and works for so long.
fn waits_then_works(
    workers: &Arc<Workers<0>>,
    worker: usize,
    known_ns: u64,
    fd: SimFd,
    for_ns: u64,
) {
    let mine = Arc::clone(workers);
    let waits = async move {
        sim::work(known_ns);
        let registered = Registration::new(mine.remote(worker).clone(), fd).unwrap();
        poll_fn(|cx| registered.poll_ready(cx, Direction::Read)).await;
        sim::work(for_ns);
    };
    drop(workers.launch(worker, Kind::Pinned, waits));
}

/// The keeper brings an event to a pinned task of a worker that sleeps, whose poll is then long, as was its last one; and one to a
/// task of its own.
#[test]
fn who_wakes_a_pinned_task_with_a_long_poll_keeps_the_poller_for_the_rest() {
    with_workers(one_scheduler(2), |workers, close| {
        let [long, short, third] = [(); 3].map(|()| SimFd::open());
        waits_then_works(workers, 1, KNOWN_NS, long, STUCK_NS);
        waits_then_works(workers, 0, 0, short, 20_000);
        sim::sleep(RESTED_NS);
        let woken = Arc::<Woken>::default();
        let kept = register(workers, third, &woken);
        // Worker 0 falls asleep while the other one is awake.
        for (worker, for_ns) in [(1, MS), (0, 10_000)] {
            drop(workers.launch(worker, Kind::Call, async move { sim::work(for_ns) }));
            sim::sleep(MS / 10);
        }
        sim::sleep(RESTED_NS);
        let driver = workers.remote(0).driver();
        if sim::unseen(|| driver.keeper()) != Some(0) {
            sim::fail("worker 0 does not keep the poller".to_owned());
        }
        long.set_ready(Readiness::READABLE);
        short.set_ready(Readiness::READABLE);
        becomes_ready(third, READY_NS, &woken, "pinned");
        drop(kept);
        sim::sleep(STUCK_NS);
        close();
    });
}

/// A thread outside gives a task to the worker that sleeps in the poller, while another one idles. Its first poll is long.
#[test]
fn a_task_from_outside_leaves_the_poller_its_keeper() {
    for workers in [2, 4, 16] {
        with_workers(one_scheduler(workers), |workers, close| {
            let (fd, woken) = (SimFd::open(), Arc::<Woken>::default());
            let kept = register(workers, fd, &woken);
            sim::sleep(RESTED_NS);
            let driver = workers.remote(0).driver();
            let keeper = sim::unseen(|| driver.keeper()).expect("there is a descriptor");
            let stuck = workers.launch(keeper, Kind::Task, async { sim::work(STUCK_NS) });
            becomes_ready(fd, READY_NS, &woken, "from outside");
            drop(kept);
            workers.wait_for(stuck, 0).unwrap();
            close();
        });
    }
}
