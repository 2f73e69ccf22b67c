//! Guards, as in the runtime: each guard has the urgent worker of its core rescue tasks of the Fair worker,
//! its ward.
//!
//! The simulated machine cannot nest one descriptor set in another. So the program makes the guard's
//! descriptor ready together with each descriptor of its ward.

use super::class::RT;
use super::program::yield_now;
use super::scheduler::Workers;
use super::timer::Sleep;
use doorbell_core::io::{Direction, Registration};
use doorbell_core::scheduler::RemoteRef;
use doorbell_core::task::{About, Kind};
use doorbell_core::worker::Local;
use doorbell_core::worker::rescue::{BackOffs, Pace, Rescue, STUCK_NS, Seen, TURN_NS, Then};
use doorbell_machine::sim::{self, SimCounter, SimFd};
use doorbell_machine::{Counter, Readiness, Sim};
use std::future::poll_fn;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// The runtime's rank for guards.
const RANK: u8 = 49;

/// CPU time that an urgent worker may use beyond three tenths of the time in which it rescues: its initial
/// budget, one batch of raised tasks, and the tasks that it takes from other urgent workers while it leaves
/// its own ward alone (a debt).
const BEYOND_NS: u64 = 8_000_000;

/// What is known of a ward.
#[derive(Debug)]
pub(super) struct Ward {
    /// The descriptor that tells its guard.
    pub(super) set: SimFd,
    /// Since when its guard serves it, or serves it again after a pause; 0 while the guard does not serve.
    pub(super) served_ns: SimCounter,
}

impl Ward {
    pub(super) fn new() -> Self {
        Ward {
            set: SimFd::open(),
            served_ns: SimCounter::default(),
        }
    }
}

/// Looks after one ward.
struct Guard<const BUG: u8> {
    workers: Arc<Workers<BUG>>,
    core: usize,
    registered: Registration<Sim<BUG>, RemoteRef<Sim<BUG>>>,
}

/// The guard's worker has ended.
struct End;

/// Starts a guard on each urgent worker.
pub(super) fn launch_guards<const BUG: u8>(workers: &Arc<Workers<BUG>>) {
    for (core, ward) in workers.wards.iter().enumerate() {
        let worker = RT * workers.cores() + core;
        let registered = Registration::new(workers.remote(worker).clone(), ward.set);
        let guard = Guard {
            workers: Arc::clone(workers),
            core,
            registered: registered.expect("the worker has not ended"),
        };
        let about = About {
            rank: RANK,
            ..About::default()
        };
        let run = async move {
            let _ = guard.run().await;
        };
        drop(workers.launch_about(worker, Kind::Pinned, about, run));
    }
}

impl<const BUG: u8> Guard<BUG> {
    fn worker(&self) -> usize {
        RT * self.workers.cores() + self.core
    }

    fn ward(&self) -> &RemoteRef<Sim<BUG>> {
        self.workers.remote(self.core)
    }

    fn known(&self) -> &Ward {
        &self.workers.wards[self.core]
    }

    async fn run(mut self) -> Result<(), End> {
        let mut rescue = Rescue::new(self.ward().clone());
        let mut before = None;
        let mut back_offs = BackOffs::default();
        let mut goes_on = false;
        loop {
            if !mem::take(&mut goes_on) {
                self.is_ready().await?;
            }
            let seen = Seen::of(self.ward());
            if before.replace(seen).is_some_and(|it| seen.idles_since(&it)) {
                continue;
            }
            self.mute(true);
            let then = self.observe(seen).await?;
            if then != Then::Brief {
                let served = self.serve(then, &mut rescue).await;
                self.set_serves(false);
                served?;
                self.mute(true);
            }
            self.sleep(back_offs.after(then)).await?;
            goes_on = then != Then::Brief && Seen::of(self.ward()).since(&seen) != Then::Brief;
        }
    }

    async fn is_ready(&mut self) -> Result<(), End> {
        self.mute(false);
        let event = poll_fn(|cx| self.registered.poll_ready(cx, Direction::Read)).await;
        let _ = self.known().set.take(Readiness::READABLE);
        let _ = self.registered.clear(event, Direction::Read);
        if event.is_shut() { Err(End) } else { Ok(()) }
    }

    fn mute(&mut self, is_muted: bool) {
        let muted = self.registered.mute(is_muted);
        muted.expect("the machine refuses nothing here");
    }

    /// Whether it gets ready before the turn is over.
    async fn is_ready_in_turn(&mut self) -> Result<bool, End> {
        let mut sleep = Sleep::new(&self.workers, self.worker(), TURN_NS);
        let mut ready = pin!(self.is_ready());
        poll_fn(|cx| match ready.as_mut().poll(cx) {
            Poll::Ready(ready) => Poll::Ready(ready.map(|()| true)),
            Poll::Pending => Pin::new(&mut sleep)
                .poll(cx)
                .map(|fired| if fired { Ok(false) } else { Err(End) }),
        })
        .await
    }

    async fn sleep(&self, for_ns: u64) -> Result<(), End> {
        let fired = Sleep::new(&self.workers, self.worker(), for_ns).await;
        if fired { Ok(()) } else { Err(End) }
    }

    fn set_serves(&self, serves: bool) {
        let since_ns = if serves { sim::time_ns() } else { 0 };
        self.known().served_ns.set(since_ns);
        Local::<Sim<BUG>>::with_current(|local| {
            if let Some(local) = local {
                local.set_rescues(serves);
            }
        });
    }

    async fn observe(&self, seen: Seen) -> Result<Then, End> {
        if !seen.is_inside() {
            return Ok(Then::Brief);
        }
        self.sleep(STUCK_NS).await?;
        Ok(Seen::of(self.ward()).since(&seen))
    }

    async fn serve(&mut self, then: Then, rescue: &mut Rescue<Sim<BUG>>) -> Result<(), End> {
        let begun = self.times();
        let mut pace = Pace::new(Seen::of(self.ward()));
        rescue.begin();
        let mut is_told = true;
        self.set_serves(true);
        loop {
            let may_be_more = rescue.turn(is_told);
            yield_now().await;
            let pause_ns = rescue.pause_ns();
            self.check_share(begun);
            if then == Then::Starved {
                return Ok(());
            }
            if pause_ns > 0 {
                self.set_serves(false);
                self.mute(true);
                self.sleep(pause_ns).await?;
                rescue.begin();
                self.set_serves(true);
            } else if !may_be_more {
                is_told = self.is_ready_in_turn().await?;
            }
            if !pace.is_slow(Seen::of(self.ward())) {
                return Ok(());
            }
        }
    }

    /// The time, and how long the guard's worker has run.
    fn times(&self) -> (u64, u64) {
        (
            sim::time_ns(),
            sim::ran_ns(self.workers.number(self.worker())),
        )
    }

    /// Checks that the guard's worker has kept to its share since then.
    fn check_share(&self, begun: (u64, u64)) {
        let now = self.times();
        let (took_ns, ran_ns) = (now.0 - begun.0, now.1 - begun.1);
        if self.workers.judges_rescues() && ran_ns > took_ns / 10 * 3 + BEYOND_NS {
            let core = self.core;
            sim::fail(format!(
                "rescue: urgent worker {core} ran for {ran_ns} of {took_ns} ns"
            ));
        }
    }
}
