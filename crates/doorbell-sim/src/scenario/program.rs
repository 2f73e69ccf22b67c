//! Random programs: what foreign threads and tasks do, drawn from the seed.

use super::ledger::Once;
use super::rest;
use super::scheduler::Workers;
use super::timer::Sleep;
use super::told::{Asked, Told, check_watchdogs};
use doorbell_core::call::{Many, Outcome};
use doorbell_core::parcel;
use doorbell_core::task::{Join, Kind};
use doorbell_core::worker::Local;
use doorbell_machine::sim::{self, SimCounter};
use doorbell_machine::{Counter, Sim};
use futures_channel::oneshot;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The longest work of one step.
const WORK_MAX_NS: u64 = 20_000;
/// The work of a step that is long enough for a watchdog to act.
const LONG_WORK_NS: u64 = 1_500_000;
/// The longest work of a step that keeps a worker busy.
const BUSY_WORK_MAX_NS: u64 = 300_000;
/// The longest sleep.
const SLEEP_MAX_NS: u64 = 400_000;
/// How often one closure is posted onward, at most.
const HOPS_MAX: u64 = 30;
/// How deeply tasks spawn tasks.
const DEPTH_MAX: u32 = 3;

/// What a program may do.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each stands for itself, and all mixtures make sense"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repertoire {
    /// Closures posted and called.
    pub posts: bool,
    /// Tasks.
    pub tasks: bool,
    /// Timers.
    pub timers: bool,
    /// Workers taken off and put back.
    pub offline: bool,
    /// Polls of more than a millisecond.
    pub long_polls: bool,
    /// More tasks, and polls of up to 300 us, so that all workers are busy and tasks wait.
    pub busy: bool,
    /// Descriptors that become ready, often several at once, and crowds of tasks.
    pub descriptors: bool,
}

pub(super) fn below(limit: u64) -> u64 {
    sim::random() % limit.max(1)
}

/// True once in `count` draws, on average.
pub(super) fn one_in(count: u64) -> bool {
    below(count) == 0
}

/// Runs a program. Its copies run in closures and tasks.
pub(super) struct Player<const BUG: u8> {
    pub(super) workers: Arc<Workers<BUG>>,
    pub(super) may: Repertoire,
}

impl<const BUG: u8> Clone for Player<BUG> {
    fn clone(&self) -> Self {
        Player {
            workers: Arc::clone(&self.workers),
            may: self.may,
        }
    }
}

impl<const BUG: u8> Player<BUG> {
    pub(super) fn any_worker(&self) -> usize {
        below(self.workers.len() as u64) as usize
    }

    /// The program of a foreign thread.
    pub(super) fn play_outside(&self, steps: u64) {
        let mut joins = Vec::new();
        for _ in 0..steps {
            self.begin_step();
            if self.may.descriptors && one_in(2) {
                if one_in(3) {
                    self.overtakes();
                } else {
                    self.surge();
                }
                continue;
            }
            match below(11) {
                0 if self.may.posts => self.post(),
                1 if self.may.posts => {
                    self.relay([self.any_worker(), self.any_worker()], below(HOPS_MAX));
                    if self.may.timers {
                        self.sleep_outside();
                    }
                }
                2 if self.may.posts => self.burst(),
                3 if self.may.posts && one_in(2) => self.call(),
                3 if self.may.posts => {
                    let (many, workers) = self.many(false);
                    self.check_many(&many.wait(), &workers);
                }
                4..=6 if self.may.tasks => joins.push(self.spawn(0)),
                7 if self.may.offline && one_in(2) => self.toggle_worker(),
                7 if self.may.timers => {
                    if one_in(2) {
                        self.workers.turn_timer_pull(1);
                    }
                    self.sleep_outside();
                }
                8 if self.may.posts => {
                    let told = Told::<BUG, _>::new(self.teller());
                    self.workers.wait_for(told, below(2) * 5_000);
                }
                9 if self.may.busy => joins.push(self.spawn(0)),
                9 => sim::sleep(below(SLEEP_MAX_NS)),
                _ => sim::work(below(WORK_MAX_NS)),
            }
            if one_in(4) {
                self.finish_one(&mut joins);
            }
        }
    }

    /// Drops a join handle, cancels its task, or waits for it.
    fn finish_one(&self, joins: &mut Vec<Join<()>>) {
        if joins.is_empty() {
            return;
        }
        let join = joins.swap_remove(below(joins.len() as u64) as usize);
        match below(4) {
            0 => drop(join),
            1 => join.cancel(),
            2 => self.workers.wait_for(Asked(join, below(20)), 0),
            _ => drop(self.workers.wait_for(join, below(2) * 5_000)),
        }
    }

    fn post(&self) {
        self.post_to(self.any_worker());
    }

    /// Several closures for one worker.
    fn burst(&self) {
        let worker = self.any_worker();
        (0..2 + below(20)).for_each(|_| self.post_to(worker));
    }

    /// Posts a closure that no thread waits for.
    pub(super) fn post_to(&self, worker: usize) {
        let once = self.workers.once("post", worker);
        let work_ns = below(500);
        let run = move || {
            sim::work(work_ns);
            once.happens();
        };
        // A refused closure is dropped, and its `Once` reports that.
        drop(parcel::post(&**self.workers.remote(worker), run));
    }

    /// Posts a closure that posts another one to the other worker, which does the same.
    fn relay(&self, [to, other]: [usize; 2], hops: u64) {
        let once = self.workers.once("post", to);
        let player = self.clone();
        let run = move || {
            once.happens();
            if hops > 0 {
                player.relay([other, to], hops - 1);
            }
        };
        drop(parcel::post(&**self.workers.remote(to), run));
    }

    /// Calls a worker from a foreign thread and waits.
    fn call(&self) {
        let worker = self.any_worker();
        let once = self.workers.once("call", worker);
        let number = sim::random();
        let got = self.workers.call(worker, || {
            once.happens();
            number
        });
        let came = got.is_none() && once.times() == 0 && self.workers.ledger.ends();
        if !came && (got != Some(number) || once.times() != 1) {
            sim::fail(format!(
                "lost: a call to worker {worker} came back without its result"
            ));
        }
    }

    /// Calls several workers with one closure. A call that a task awaits may be cancelled.
    fn many(&self, from_task: bool) -> (Many<usize>, Vec<usize>) {
        let (first, step) = (self.any_worker(), 1 + self.any_worker());
        let workers: Vec<usize> = (first..self.workers.len()).step_by(step).collect();
        let once = |worker: &usize| {
            let once = self.workers.once("call to many", *worker);
            if from_task { once.or_withdrawn() } else { once }
        };
        let onces: Vec<Once> = workers.iter().map(once).collect();
        let here = move |worker: usize| {
            onces[(worker - first) / step].happens();
            worker
        };
        (self.workers.call_many(here, &workers), workers)
    }

    fn check_many(&self, outcomes: &[Outcome<usize>], workers: &[usize]) {
        let gone = self.workers.ledger.ends();
        let right = |(outcome, worker): (&Outcome<usize>, &usize)| match outcome {
            Outcome::Done(result) => result == worker,
            Outcome::Gone => gone,
            Outcome::Panicked(_) => false,
        };
        if outcomes.len() != workers.len() || !outcomes.iter().zip(workers).all(right) {
            sim::fail(format!(
                "lost: a call to the workers {workers:?} gave {outcomes:?}"
            ));
        }
    }

    /// A sleep, one in four with slack, and one in four due together with others.
    fn sleep(&self, for_ns: u64) -> Sleep<BUG> {
        let sleep = Sleep::new(&self.workers, self.any_worker(), for_ns);
        match below(4) {
            0 => sleep.slack(below(SLEEP_MAX_NS)),
            1 => sleep.with_others(),
            _ => sleep,
        }
    }

    /// Waits on a foreign thread for a timer of a worker, or gives it up.
    fn sleep_outside(&self) {
        let for_ns = below(40_000);
        let mut sleep = self.sleep(for_ns);
        if one_in(2) {
            self.workers.wait_for(sleep, below(2) * 5_000);
            return;
        }
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx).is_ready()));
        if !self.workers.wait_for(polled, 0) {
            sim::work(below(2 * for_ns));
        }
    }

    /// Takes a worker off, or puts it back.
    fn toggle_worker(&self) {
        let worker = self.any_worker();
        let changed = if one_in(2) {
            self.workers.take_off(worker)
        } else {
            self.workers.put_back(worker)
        };
        if changed {
            self.tell_to_follow(worker);
        }
    }

    /// Puts all workers back.
    pub(super) fn put_all_back(&self) {
        for worker in 0..self.workers.len() {
            if self.workers.put_back(worker) {
                self.tell_to_follow(worker);
            }
        }
    }

    fn tell_to_follow(&self, worker: usize) {
        let once = self.workers.once("call to follow", worker);
        let follow = async move {
            Local::<Sim<BUG>>::with_current(|local| local.map(Local::follow));
            once.happens();
        };
        drop(self.workers.launch(worker, Kind::Call, follow));
    }

    /// Spawns a task that does some random things.
    pub(super) fn spawn(&self, depth: u32) -> Join<()> {
        let worker = self.any_worker();
        let kind = if one_in(4) { Kind::Pinned } else { Kind::Task };
        let ended = Ended::new(&self.workers);
        let player = self.clone();
        let steps = 1 + below(5);
        self.workers.launch(
            worker,
            kind,
            Spun::new(async move {
                let _ended = ended;
                for _ in 0..steps {
                    player.begin_step();
                    player.play_inside(depth).await;
                    if !player.workers.is_on(worker, kind) {
                        sim::fail("right core: a task ran on a worker that is not for it");
                    }
                }
            }),
        )
    }

    /// One step of a task. Boxed, since it may spawn a task of the same kind.
    fn play_inside(&self, depth: u32) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            match below(10) {
                0 if self.may.timers => {
                    self.sleep(below(SLEEP_MAX_NS)).await;
                }
                1 if self.may.timers => self.give_up_timer().await,
                2 if depth < DEPTH_MAX => self.spawn_some(depth + 1).await,
                3 if self.may.posts && one_in(4) => {
                    self.relay([self.any_worker(), self.any_worker()], below(HOPS_MAX));
                }
                3 if self.may.posts => self.post(),
                4 if self.may.posts && one_in(2) => self.call_inside().await,
                4 if self.may.posts => {
                    let (many, workers) = self.many(true);
                    // One in eight is given up.
                    if !one_in(8) {
                        self.check_many(&many.await, &workers);
                    }
                }
                5 => self.hand_over(depth).await,
                6 => yield_now().await,
                7 => self.tell_a_task().await,
                8 if self.may.long_polls && one_in(20) => sim::work(LONG_WORK_NS),
                8 | 9 if self.may.busy => sim::work(below(BUSY_WORK_MAX_NS)),
                _ => sim::work(below(WORK_MAX_NS)),
            }
        })
    }

    /// Drops a timer before it is due, possibly on another worker.
    async fn give_up_timer(&self) {
        let for_ns = below(if one_in(2) { SLEEP_MAX_NS } else { 10_000 });
        let mut sleep = self.sleep(for_ns);
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx).is_ready()));
        if !polled.await && one_in(2) {
            yield_now().await;
        }
        sim::work(below(10_000));
        if one_in(2) {
            // Dropped on another worker.
            let ended = Ended::new(&self.workers);
            drop(
                self.workers
                    .launch(self.any_worker(), Kind::Pinned, async move {
                        drop(sleep);
                        drop(ended);
                    }),
            );
        }
    }

    /// Awaits a wake that carries data.
    async fn tell_a_task(&self) {
        let (ended, tell) = (Ended::new(&self.workers), self.teller());
        let work_ns = below(3_000);
        let tell = move |told| {
            tell(told);
            // The wake may come during this poll or after it.
            sim::work(work_ns);
        };
        let told = Told::<BUG, _>::new(tell);
        let listens = self.workers.launch(
            self.any_worker(),
            if one_in(2) { Kind::Pinned } else { Kind::Task },
            Spun::new(async move {
                let _ended = ended;
                told.await;
            }),
        );
        Asked(listens, below(20)).await;
    }

    /// Returns a closure that drops its argument on some worker.
    fn teller(&self) -> impl FnOnce(Box<dyn Send>) + Send + Unpin + use<BUG> {
        let (workers, worker) = (Arc::clone(&self.workers), self.any_worker());
        let work_ns = below(3_000);
        move |told| {
            let tells = async move {
                sim::work(work_ns);
                drop(told);
            };
            drop(workers.launch(worker, Kind::Call, tells));
        }
    }

    pub(super) fn begin_step(&self) {
        self.workers.ledger.note_step();
        check_watchdogs(&self.workers);
        rest::check_trees(&self.workers);
    }

    /// Spawns several tasks and waits for some of them.
    async fn spawn_some(&self, depth: u32) {
        let most = if one_in(8) { 12 } else { 3 };
        let joins: Vec<_> = (0..=below(most)).map(|_| self.spawn(depth)).collect();
        for join in joins {
            match below(3) {
                0 => drop(join),
                1 => join.cancel(),
                _ => drop(join.await),
            }
        }
    }

    /// Awaits a call.
    async fn call_inside(&self) {
        let worker = self.any_worker();
        let once = self.workers.once("awaited call", worker);
        let called = self.workers.launch(worker, Kind::Call, async move {
            once.happens();
        });
        if called.await.is_err() && !self.workers.ledger.ends() {
            sim::fail("lost: an awaited call did not run");
        }
    }

    /// Awaits a message from another task.
    async fn hand_over(&self, depth: u32) {
        let (says, hears) = oneshot::channel::<u64>();
        let number = sim::random();
        let ended = Ended::new(&self.workers);
        let pause = below(3);
        let work_ns = below(WORK_MAX_NS);
        let worker = self.any_worker();
        let kind = if depth.is_multiple_of(2) {
            Kind::Task
        } else {
            Kind::Pinned
        };
        let sayer = self.workers.launch(worker, kind, async move {
            let _ended = ended;
            for _ in 0..pause {
                yield_now().await;
            }
            sim::work(work_ns);
            let _ = says.send(number);
        });
        drop(sayer);
        let heard = hears.await;
        if heard != Ok(number) && !self.workers.ledger.ends() {
            sim::fail("lost: a task was dropped that nobody cancelled");
        }
    }
}

/// Wraps a future and checks that no worker polls or drops it while another one polls it.
pub(super) struct Spun<F> {
    future: F,
    is_polled: SimCounter,
}

impl<F> Spun<F> {
    pub(super) fn new(future: F) -> Self {
        Spun {
            future,
            is_polled: SimCounter::default(),
        }
    }
}

impl<F: Future> Future for Spun<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved out of its place, and no other code gives access to it.
        let it = unsafe { self.get_unchecked_mut() };
        if it.is_polled.add_shared(1) != 0 {
            sim::fail("once: two workers poll one task");
        }
        // SAFETY: the future is pinned with `self`.
        let polled = unsafe { Pin::new_unchecked(&mut it.future) }.poll(cx);
        it.is_polled.set(0);
        polled
    }
}

impl<F> Drop for Spun<F> {
    fn drop(&mut self) {
        if self.is_polled.get() != 0 {
            sim::fail("right core: a future was dropped while a worker polls it");
        }
    }
}

/// Runs in polls of that length until that moment of simulated time.
pub(crate) async fn run_until(at_ns: u64, poll_ns: u64) {
    poll_fn(|cx| {
        sim::work(poll_ns);
        if sim::time_ns() >= at_ns {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A part of every task's future: counts the task as launched, and as ended when it is dropped.
pub(super) struct Ended<const BUG: u8>(Arc<Workers<BUG>>);

impl<const BUG: u8> Ended<BUG> {
    pub(super) fn new(workers: &Arc<Workers<BUG>>) -> Self {
        workers.ledger.note_launched();
        Ended(Arc::clone(workers))
    }
}

impl<const BUG: u8> Drop for Ended<BUG> {
    fn drop(&mut self) {
        self.0.ledger.note_ended();
    }
}
