//! Arrivals at a worker that falls asleep, and the evidence that they were served.

use crate::scenario::class::{BATCH, FAIR, RT};
use crate::scenario::scheduler::Workers;
use doorbell_core::io::{Direction, Registration};
use doorbell_core::parcel;
use doorbell_core::scheduler::RemoteRef;
use doorbell_core::task::Kind;
use doorbell_core::worker::timer::RawTimer;
use doorbell_machine::sim::{self, SimCounter, SimFd};
use doorbell_machine::{Counter, Readiness, Sim};
use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_channel::oneshot;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// Marks the begin and the end of the arrival's steps.
pub(super) const NOTE_COMES: u32 = 1 << 20;
pub(super) const NOTE_CAME: u32 = NOTE_COMES + 1;

/// How far in the future an armed timer is due.
const DUE_NS: u64 = 2_000;
/// The same for a timer before which the worker falls asleep once more.
const SOON_NS: u64 = 50_000;
/// How long the worker with surplus tasks stays inside its poll.
const POLL_NS: u64 = 1_500_000;
/// The other worker of the scheduler, beside the one that falls asleep.
const OTHER: usize = 1;

/// An arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A call, in the mailbox.
    Call,
    /// A wake of a task of that worker that may run anywhere, in the inject queue.
    Wake,
    /// A wake of a pinned task.
    WakePinned,
    /// Two tasks that another worker pushes in a long poll.
    Surplus,
    /// A task for the urgent worker of that core.
    Urgent,
    /// A task for the Batch worker of that core.
    Batch,
    /// A task for the Fair worker of that core.
    Fair,
    /// A timer by mail, due when it is taken or soon after.
    Timer,
    /// The same, due some time after that.
    TimerSoon,
    /// A ready descriptor whose waker arms a timer that is already due.
    TimerOfWaker,
    /// A descriptor that becomes ready.
    Ready,
    /// The same, of a worker that has just been taken off.
    ReadyOff,
    /// The registration of a ready descriptor.
    Register,
    /// The request to end.
    Close,
}

/// When the worker gets its first descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Long before the arrival.
    Before,
    /// With the arrival, from the same thread.
    Now,
}

/// Whether the arrival was served.
#[derive(Debug, Default)]
pub(super) struct Served(SimCounter);

impl Served {
    fn now(&self) {
        self.0.set(1);
    }

    pub(super) fn is(&self) -> bool {
        self.0.get() > 0
    }

    fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Wake for Served {
    fn wake(self: Arc<Self>) {
        self.now();
    }
}

/// Counts as served when it is dropped.
struct Dropped(Arc<Served>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.now();
    }
}

/// A waker that arms a timer which is already due.
struct Arms<const BUG: u8> {
    workers: Arc<Workers<BUG>>,
    worker: usize,
    served: Arc<Served>,
    /// Hands the timer to the thread that keeps it.
    armed: UnboundedSender<RawTimer>,
}

impl<const BUG: u8> Wake for Arms<BUG> {
    fn wake(self: Arc<Self>) {
        let now_ns = self.workers.clock.now_ns();
        match RawTimer::arm(
            self.workers.remote(self.worker),
            now_ns,
            &self.served.waker(),
        ) {
            Ok(timer) => drop(self.armed.unbounded_send(timer)),
            Err(_) => sim::fail("lost: a timer was refused by a worker that runs"),
        }
    }
}

/// What is kept until the run ends.
pub(super) type Kept = Vec<Box<dyn Send>>;

/// The arrival itself. It runs on a foreign thread; for [`What::Surplus`] on the other worker's thread.
pub(super) type Arrival = Box<dyn FnOnce() -> Kept + Send>;

/// Prepares an arrival.
pub(super) struct Stage<const BUG: u8> {
    pub(super) workers: Arc<Workers<BUG>>,
    /// The worker at which it arrives.
    pub(super) worker: usize,
    pub(super) first: First,
    pub(super) served: Arc<Served>,
}

type Registered<const BUG: u8> = Registration<Sim<BUG>, RemoteRef<Sim<BUG>>>;

impl<const BUG: u8> Stage<BUG> {
    /// Does all that can be done ahead. Returns the rest, and what to keep.
    pub(super) fn prepare(&self, what: What) -> (Arrival, Kept) {
        let mut kept = Kept::new();
        if self.first == First::Before {
            let registered = self.register(SimFd::open(), Waker::noop());
            kept.push(Box::new(registered));
        }
        let arrival = match what {
            What::Call => self.call(),
            What::Wake => self.wake(Kind::Task),
            What::WakePinned => self.wake(Kind::Pinned),
            What::Surplus => self.surplus(),
            What::Urgent => self.task_of(RT),
            What::Batch => self.task_of(BATCH),
            What::Fair => self.task_of(FAIR),
            What::Timer => self.timer(DUE_NS),
            What::TimerSoon => self.timer(SOON_NS),
            What::TimerOfWaker | What::Ready | What::ReadyOff | What::Register => {
                return (self.descriptor(what, &mut kept), kept);
            }
            What::Close => self.close(),
        };
        (self.with_first(arrival), kept)
    }

    /// Adds the registration of the worker's first descriptor, if it has none.
    fn with_first(&self, arrival: Arrival) -> Arrival {
        if self.first == First::Before {
            return arrival;
        }
        let mine = self.again();
        Box::new(move || {
            let registered = mine.register(SimFd::open(), Waker::noop());
            let mut kept = arrival();
            kept.push(Box::new(registered));
            kept
        })
    }

    fn again(&self) -> Self {
        Stage {
            workers: Arc::clone(&self.workers),
            worker: self.worker,
            first: self.first,
            served: Arc::clone(&self.served),
        }
    }

    /// Registers a descriptor of the worker, and waits for it.
    pub(super) fn register(&self, fd: SimFd, waker: &Waker) -> Registered<BUG> {
        let remote = self.workers.remote(self.worker).clone();
        let registered = Registration::new(remote, fd).expect("the worker has not ended");
        let polled = registered.poll_ready(&Context::from_waker(waker), Direction::Read);
        if polled.is_ready() {
            // It became ready first.
            waker.wake_by_ref();
        }
        registered
    }

    fn call(&self) -> Arrival {
        let (remote, served) = (
            self.workers.remote(self.worker).clone(),
            Arc::clone(&self.served),
        );
        Box::new(move || {
            if parcel::post(&*remote, move || served.now()).is_err() {
                sim::fail("lost: a post was refused by a worker that runs");
            }
            Kept::new()
        })
    }

    fn wake(&self, kind: Kind) -> Arrival {
        let (say, said) = oneshot::channel::<()>();
        let served = Arc::clone(&self.served);
        drop(self.workers.launch(self.worker, kind, async move {
            if said.await.is_ok() {
                served.now();
            }
        }));
        // By then the task waits.
        sim::sleep(50_000);
        Box::new(move || {
            let _ = say.send(());
            Kept::new()
        })
    }

    fn surplus(&self) -> Arrival {
        let (workers, served) = (Arc::clone(&self.workers), Arc::clone(&self.served));
        Box::new(move || {
            for _ in 0..2 {
                let served = Arc::clone(&served);
                drop(workers.launch(OTHER, Kind::Task, async move { served.now() }));
            }
            Kept::new()
        })
    }

    /// A task for the worker of that scheduler on this core.
    fn task_of(&self, scheduler: usize) -> Arrival {
        let (workers, served) = (Arc::clone(&self.workers), Arc::clone(&self.served));
        Box::new(move || {
            let worker = scheduler * workers.cores();
            drop(workers.launch(worker, Kind::Task, async move { served.now() }));
            Kept::new()
        })
    }

    fn timer(&self, for_ns: u64) -> Arrival {
        let worker = self.worker;
        let (workers, served) = (Arc::clone(&self.workers), Arc::clone(&self.served));
        Box::new(move || {
            let when_ns = workers.clock.now_ns() + for_ns;
            let armed = RawTimer::arm(workers.remote(worker), when_ns, &served.waker());
            if armed.is_err() {
                sim::fail("lost: a timer was refused by a worker that runs");
            }
            vec![Box::new(armed.ok())]
        })
    }

    fn descriptor(&self, what: What, kept: &mut Kept) -> Arrival {
        let (mine, fd) = (self.again(), SimFd::open());
        if what == What::Register {
            fd.set_ready(Readiness::READABLE);
            return Box::new(move || vec![Box::new(mine.register(fd, &mine.served.waker()))]);
        }
        let waker = if what == What::TimerOfWaker {
            let (armed, timers) = unbounded();
            kept.push(Box::new(timers));
            Waker::from(Arc::new(Arms {
                workers: Arc::clone(&self.workers),
                worker: self.worker,
                served: Arc::clone(&self.served),
                armed,
            }))
        } else {
            self.served.waker()
        };
        match (self.first, what) {
            (First::Now, _) => {
                return Box::new(move || {
                    let registered = mine.register(fd, &waker);
                    mine.make_ready(what, fd);
                    vec![Box::new(registered), Box::new(waker)]
                });
            }
            (First::Before, What::Ready) => self.wait_in_a_task(fd),
            (First::Before, _) => kept.push(Box::new(self.register(fd, &waker))),
        }
        Box::new(move || {
            mine.make_ready(what, fd);
            vec![Box::new(waker)]
        })
    }

    fn make_ready(&self, what: What, fd: SimFd) {
        if what == What::ReadyOff {
            self.workers.take_off(self.worker);
        }
        fd.set_ready(Readiness::READABLE);
    }

    /// Launches a task of the worker that waits for the descriptor.
    fn wait_in_a_task(&self, fd: SimFd) {
        let (mine, served) = (self.again(), Arc::clone(&self.served));
        drop(self.workers.launch(self.worker, Kind::Task, async move {
            let registered = mine.register(fd, Waker::noop());
            poll_fn(|cx| registered.poll_ready(cx, Direction::Read)).await;
            served.now();
        }));
        // By then the task waits.
        sim::sleep(50_000);
    }

    fn close(&self) -> Arrival {
        let worker = self.worker;
        let (workers, dropped) = (Arc::clone(&self.workers), Dropped(Arc::clone(&self.served)));
        // A pinned task ends with its worker.
        drop(self.workers.launch(self.worker, Kind::Pinned, async move {
            let _dropped = dropped;
            std::future::pending::<()>().await;
        }));
        sim::sleep(50_000);
        Box::new(move || {
            workers.ask_to_end(worker);
            Kept::new()
        })
    }

    /// Keeps the other worker inside a poll until the run ends. The poll calls `arrive`.
    pub(super) fn inside_a_poll(&self, arrive: impl FnOnce() + Send + 'static) {
        drop(self.workers.launch(OTHER, Kind::Pinned, async move {
            arrive();
            sim::work(POLL_NS);
        }));
    }
}
