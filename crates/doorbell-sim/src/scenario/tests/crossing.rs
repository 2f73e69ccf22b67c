//! Traffic that crosses the classes in every way. Measures the operations of urgent workers, each from the
//! moment at which only urgent workers have anything left to do for it.

use crate::scenario::class::{FAIR, RT};
use crate::scenario::program::{Ended, yield_now};
use crate::scenario::scheduler::Workers;
use crate::scenario::timer::Sleep;
use doorbell_core::parcel;
use doorbell_core::task::{Join, Kind};
use doorbell_machine::Counter;
use doorbell_machine::sim::{self, SimCounter};
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_channel::oneshot;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

pub(super) const CORES: usize = 2;
/// The traffic begins.
pub(super) const NOTE_BEGIN: u32 = 1 << 20;
/// The Fair task of core 0 begins to wake an urgent task that its own timer may wake too.
pub(super) const NOTE_WAKE: u32 = NOTE_BEGIN + 1;
/// The Fair task has woken it.
pub(super) const NOTE_WOKEN: u32 = NOTE_BEGIN + 2;
/// A task that its timer wakes, or a Fair worker earlier.
pub(super) const EITHER: &str = "a timer of a task that a Fair worker wakes too";
/// All measured operations.
pub(super) const MEASURED: &[&str] = &[
    "a post",
    "a call",
    "a call to many",
    "a wake",
    "a task",
    "a timer",
    "a post of a Fair worker",
    "a task of a Fair worker",
    EITHER,
];

/// How often the foreign thread does each operation.
const ROUNDS: usize = 14;
/// How often the Fair tasks do each operation.
const FAIR_ROUNDS: usize = 6;
/// How often the long-lived urgent tasks do each operation.
const SLEEPS: usize = 50;
const SLEEP_NS: u64 = 20_000;

/// An operation of an urgent worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) what: &'static str,
    pub(super) begun_ns: u64,
    pub(super) ended_ns: u64,
}

pub(super) const fn fair(core: usize) -> usize {
    FAIR * CORES + core
}

const fn rt(core: usize) -> usize {
    RT * CORES + core
}

/// Performs the measured operations. Closures and tasks have copies of it.
#[derive(Clone)]
pub(super) struct Traffic {
    pub(super) workers: Arc<Workers<0>>,
    pub(super) done: UnboundedSender<Done>,
}

type Say = oneshot::Sender<()>;

impl Traffic {
    fn note(&self, what: &'static str, begun_ns: u64) {
        let ended_ns = sim::time_ns();
        // The receiver lives until the run ends.
        let _ = self.done.unbounded_send(Done {
            what,
            begun_ns,
            ended_ns,
        });
    }

    /// Two closures: the first marks the time from which the operation is measured, the second its end. An
    /// operation that ends before the first call is not measured.
    fn halves(
        &self,
        what: &'static str,
    ) -> (impl FnOnce() + Send + use<>, impl FnOnce() + Send + use<>) {
        let begun_ns = Arc::new(SimCounter::default());
        let (mine, theirs) = (self.clone(), Arc::clone(&begun_ns));
        let ends = move || {
            if theirs.get() > 0 {
                mine.note(what, theirs.get());
            }
        };
        (move || begun_ns.set(sim::time_ns()), ends)
    }

    fn post(&self, worker: usize, f: impl FnOnce() + Send + 'static) {
        let once = self.workers.once("post", worker);
        let run = move || {
            once.happens();
            f();
        };
        if parcel::post(&**self.workers.remote(worker), run).is_err() {
            sim::fail("lost: a post was refused by a worker that runs");
        }
    }

    fn launch<F>(&self, worker: usize, kind: Kind, future: F) -> Join<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let ended = Ended::new(&self.workers);
        self.workers.launch(worker, kind, async move {
            let _ended = ended;
            future.await
        })
    }

    /// Starts the long-lived tasks. The join handles cover all of them.
    pub(super) fn begin(&self) -> Vec<Join<()>> {
        sim::note(NOTE_BEGIN);
        let (says, said): (Vec<_>, Vec<_>) = (0..CORES).map(|_| unbounded::<Say>()).unzip();
        let fairs = said.into_iter().enumerate().map(|(core, said)| {
            let mine = self.clone();
            self.launch(fair(core), Kind::Pinned, mine.play_fair(core, said))
        });
        let mut joins: Vec<_> = fairs.collect();
        // On one core only: where the other core's urgent worker sleeps, its own timer does not wake it.
        joins.push(self.launch(rt(1), Kind::Pinned, self.clone().tick()));
        for says in says {
            let mine = self.clone();
            joins.push(self.launch(rt(1), Kind::Pinned, mine.either(says)));
        }
        joins
    }

    async fn tick(self) {
        for _ in 0..SLEEPS {
            let due_ns = sim::time_ns() + SLEEP_NS;
            Sleep::new(&self.workers, rt(1), SLEEP_NS).await;
            self.note("a timer", due_ns);
        }
    }

    /// Waits for a Fair task or for a timer, whichever is first.
    async fn either(self, says: UnboundedSender<Say>) {
        for _ in 0..SLEEPS {
            let (say, mut said) = oneshot::channel();
            let _ = says.unbounded_send(say);
            let due_ns = sim::time_ns() + SLEEP_NS;
            let mut sleep = pin!(Sleep::new(&self.workers, rt(1), SLEEP_NS));
            let is_due = poll_fn(|cx| {
                let due = sleep.as_mut().poll(cx).is_ready();
                let told = Pin::new(&mut said).poll(cx).is_ready();
                if due || told {
                    Poll::Ready(due)
                } else {
                    Poll::Pending
                }
            });
            if is_due.await {
                self.note(EITHER, due_ns);
            }
        }
    }

    /// The program of a foreign thread: all of it is for urgent workers.
    pub(super) fn play_outside(&self) {
        for round in 0..ROUNDS {
            let core = round % CORES;
            let begun_ns = sim::time_ns();
            let mine = self.clone();
            self.post(rt(core), move || mine.note("a post", begun_ns));

            let begun_ns = sim::time_ns();
            if self.workers.call(rt(core), || ()).is_none() {
                sim::fail("lost: a call came back without its result");
            }
            self.note("a call", begun_ns);

            let begun_ns = sim::time_ns();
            drop(self.workers.call_many(|_| (), &[rt(0), rt(1)]).wait());
            self.note("a call to many", begun_ns);

            self.wake(rt(core));
            for kind in [Kind::Task, Kind::Pinned] {
                let begun_ns = sim::time_ns();
                let crosses = self.launch(rt(core), kind, self.clone().cross(core, round));
                drop(self.workers.wait_for(crosses, 0));
                self.note("a task", begun_ns);
            }
            sim::sleep(2_000);
        }
    }

    /// Wakes a waiting urgent task.
    fn wake(&self, worker: usize) {
        let (say, said) = oneshot::channel();
        let mine = self.clone();
        let waits = self.launch(worker, Kind::Task, async move {
            if let Ok(begun_ns) = said.await {
                mine.note("a wake", begun_ns);
            }
        });
        sim::sleep(8_000);
        let _ = say.send(sim::time_ns());
        drop(self.workers.wait_for(waits, 5_000));
    }

    /// An urgent task that spawns, joins, cancels, wakes and drops things of Fair workers, and waits for
    /// urgent workers only.
    async fn cross(self, core: usize, round: usize) {
        let mut gifts: Vec<Box<dyn Send>> = Vec::new();
        for at in 0..CORES {
            self.post(fair(at), || sim::work(100));
            let task = self.launch(fair(at), Kind::Pinned, yield_now());
            match Self::asked(task) {
                None => {}
                Some(task) if round.is_multiple_of(3) => task.cancel(),
                Some(task) if round % 3 == 1 => gifts.push(Box::new(task)),
                Some(task) => drop(task),
            }
            drop(self.launch(fair(at), Kind::Task, yield_now()));
            gifts.extend(self.armed(fair(at)));
        }
        // Things of Fair workers are dropped on the other urgent worker.
        self.post(rt(1 - core), move || drop(gifts));
        let called = self.launch(rt(1 - core), Kind::Call, async {});
        drop(called.await);
        let task = self.launch(rt(1 - core), Kind::Task, yield_now());
        drop(task.await);
    }

    /// The program of a Fair worker.
    async fn play_fair(self, core: usize, mut said: UnboundedReceiver<Say>) {
        for round in 0..FAIR_ROUNDS {
            let at = (core + round) % CORES;
            let (begins, ends) = self.halves("a post of a Fair worker");
            self.post(rt(at), ends);
            begins();

            let (begins, ends) = self.halves("a task of a Fair worker");
            let task = self.launch(rt(at), [Kind::Task, Kind::Pinned][round % 2], async move {
                ends();
                yield_now().await;
            });
            begins();
            match Self::asked(task) {
                None => {}
                Some(task) if round.is_multiple_of(4) => task.cancel(),
                Some(task) if round % 4 == 1 => self.post(rt(at), move || drop(task)),
                Some(task) if round % 4 == 2 => drop(task.await),
                Some(task) => drop(task),
            }
            let many = self.workers.call_many(|_| (), &[rt(0), rt(1)]);
            if round.is_multiple_of(2) {
                drop(many.await);
            }
            drop(self.launch(rt(at), Kind::Call, async {}).await);
            // One timer of the urgent worker and one of this worker, dropped by either of the two.
            for worker in [rt(at), fair(core)] {
                let armed = self.armed(worker);
                if round.is_multiple_of(2) {
                    self.post(rt(at), move || drop(armed));
                }
            }
            self.woken_by(rt(at)).await;
            while let Ok(say) = said.try_recv() {
                wakes(core, || {
                    let _ = say.send(());
                });
            }
            Sleep::new(&self.workers, fair(core), 1_000).await;
        }
        // A task whose channel is dropped is woken too.
        wakes(core, || drop(said));
    }

    /// A task that has a waker, unless it is complete. The waker wakes nothing: if it woke this task, a
    /// Fair worker suspended in the middle of the wake would delay it, and that is measured apart
    /// ([`EITHER`]).
    fn asked(mut task: Join<()>) -> Option<Join<()>> {
        let mut nobody = Context::from_waker(Waker::noop());
        let asked = Pin::new(&mut task).poll(&mut nobody);
        asked.is_pending().then_some(task)
    }

    /// An armed timer of that worker.
    fn armed(&self, worker: usize) -> Option<Box<dyn Send>> {
        let mut sleep = Box::new(Sleep::new(&self.workers, worker, SLEEP_NS));
        // With a waker that wakes nothing, as in `asked`.
        let mut nobody = Context::from_waker(Waker::noop());
        let is_ready = Pin::new(&mut *sleep).poll(&mut nobody).is_ready();
        (!is_ready).then_some(sleep as Box<dyn Send>)
    }

    /// Waits until that worker has woken this task.
    async fn woken_by(&self, worker: usize) {
        let woken = Arc::new(SimCounter::default());
        let mut given = false;
        poll_fn(|cx: &mut Context<'_>| {
            if woken.get() > 0 {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut given, true) {
                let (woken, waker): (_, Waker) = (Arc::clone(&woken), cx.waker().clone());
                self.post(worker, move || {
                    woken.set(1);
                    waker.wake();
                });
            }
            Poll::Pending
        })
        .await;
    }
}

/// Wakes urgent tasks that a timer wakes too. On core 0, whose worker is suspended, it also leaves notes.
fn wakes(core: usize, f: impl FnOnce()) {
    if core > 0 {
        return f();
    }
    sim::note(NOTE_WAKE);
    f();
    sim::note(NOTE_WOKEN);
}
