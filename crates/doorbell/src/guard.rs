//! Guards: one task on each Rt worker, which looks after the Fair worker of its core, its *ward*.
//!
//! The guard waits for the ward's epoll descriptor like for any other descriptor. A ready descriptor of the
//! ward wakes the guard, unless the guard has muted the set. So no thread busy-polls. While nothing is ready
//! the guard does not run; the exception is a ward that is inside a poll while other threads have its CPU. A
//! worker with no descriptors to wait for parks on its bell, which costs less than parking in its own set.
//!
//! | the guard is | the set is | until |
//! |---|---|---|
//! | quiet | heard | a descriptor of the ward is ready |
//! | observing | muted | 250 µs have passed: if the ward is in the same poll, it is stuck |
//! | backing off, after a ward that was not stuck | muted | 250 µs have passed, and twice as long each time, up to 16 ms |
//! | serving | heard, except while the guard's share of the time is used up | the ward has slept, or its polls are short again |
//!
//! A ward can be in the same poll because other threads have its CPU. The guard then serves it once, and
//! again after each back-off while that poll goes on: a wake that came meanwhile raised nothing, and no
//! descriptor reports it. These back-offs grow up to 64 ms. So a busy neighbour does not have the Rt worker
//! run more of the ward's tasks than the OS would let the ward run.

use crate::class::Class;
use crate::rt::Rt;
use crate::time::{sleep, timeout};
use crate::{ClassKind, yield_now};
use doorbell_core::io::{Cleared, Direction, Registration};
use doorbell_core::scheduler::RemoteRef;
use doorbell_core::task::{About, BodyVtable, Join, Kind, write_body};
use doorbell_core::worker::rescue::{BackOffs, Pace, Rescue, STUCK_NS, Seen, TURN_NS, Then};
use doorbell_core::worker::{Local, launch_described};
use doorbell_machine::{Machine, Parker as _, Poller};
use std::future::poll_fn;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;
use std::{io, mem};

/// The rank of rescued tasks: the guard has its turn after the tasks that it raised, and before those that
/// they wake.
const GUARD: Class = Class::rt(49);

/// Pause before the guard retries what the OS refused.
const RETRY: Duration = Duration::from_millis(16);

impl<M: Machine> Rt<M> {
    /// Makes the guards, once. The Rt workers have been started, or there are none.
    pub(crate) fn guard_fair(&self) -> io::Result<()> {
        let Some(urgent) = self.classes.iter().find(|it| it.kind == ClassKind::Rt) else {
            return Ok(());
        };
        let guard_all = || {
            let workers = self.workers.iter().zip(&urgent.workers);
            let guards = workers.map(|(ward, worker)| Guard::new(ward.remote(), worker.remote()));
            // Make all guards before the first one runs: if one fails, none is launched.
            let guards: Vec<_> = guards.collect::<io::Result<Vec<Option<Guard<M>>>>>()?;
            for guard in guards.into_iter().flatten() {
                guard.launch();
            }
            Ok(())
        };
        self.guarded.get_or_try_init_blocking(guard_all).copied()
    }
}

/// Whether a guard goes on after serving.
enum AfterServing {
    Done,
    /// The worker ends, and so does its guard.
    End,
}

/// Looks after one ward.
struct Guard<M: Machine> {
    ward: RemoteRef<M>,
    /// With the Rt worker. Before `_set`: the registration is dropped before its descriptor.
    registration: Registration<M, RemoteRef<M>>,
    /// The ward's set, as a descriptor of the guard's own.
    _set: OwnedFd,
}

impl<M: Machine> Guard<M> {
    /// `None` on a machine whose sets are not descriptors.
    fn new(ward: &RemoteRef<M>, worker: &RemoteRef<M>) -> io::Result<Option<Self>> {
        let poller = ward.parker().open_poller()?;
        let Some(set) = poller.as_descriptor()? else {
            return Ok(None);
        };
        // SAFETY: `set` is kept in the guard, where the registration is dropped before it.
        let fd = unsafe { BorrowedFd::borrow_raw(set.as_raw_fd()) };
        let Some(fd) = M::Poller::name_of(fd) else {
            return Ok(None);
        };
        let registration = Registration::new(worker.clone(), fd)?;
        Ok(Some(Guard {
            ward: ward.clone(),
            registration,
            _set: set,
        }))
    }

    fn launch(self) {
        let worker = self.registration.station().clone();
        drop(launch_pinned(worker, self.run()));
    }

    async fn run(mut self) {
        let mut rescue = Rescue::new(self.ward.clone());
        let mut before = None;
        let mut back_offs = BackOffs::default();
        // Whether tasks may wait behind the same poll again, which no descriptor reports.
        let mut goes_on = false;
        while mem::take(&mut goes_on) || self.is_ready().await {
            let seen = Seen::of(&self.ward);
            if before.replace(seen).is_some_and(|it| seen.idles_since(&it)) {
                // The ward has idled since the last look. Something in its set stays ready, such as a rung
                // bell. The next edge is a new event.
                continue;
            }
            let _ = self.mute(true);
            let then = self.observe(seen).await;
            if then != Then::Brief {
                let served = self.serve(then, &mut rescue).await;
                set_rescues::<M>(false);
                if matches!(served, AfterServing::End) {
                    return;
                }
                let _ = self.mute(true);
            }
            sleep(Duration::from_nanos(back_offs.after(then))).await;
            goes_on = then != Then::Brief && Seen::of(&self.ward).since(&seen) != Then::Brief;
        }
    }

    /// Unmutes the set, and waits until a descriptor of the ward is ready. `false` at the end of the worker.
    async fn is_ready(&mut self) -> bool {
        while !self.mute(false) {
            sleep(RETRY).await;
        }
        let event = poll_fn(|cx| self.registration.poll_ready(cx, Direction::Read)).await;
        match self.registration.clear(event, Direction::Read) {
            Cleared::Yes | Cleared::Newer => {}
        }
        !event.is_shut()
    }

    /// Mutes or unmutes the set. Returns whether the OS has done it. If not, the guard is woken more often,
    /// or later, which is no worse than having no guard.
    fn mute(&mut self, is_muted: bool) -> bool {
        self.registration.mute(is_muted).is_ok()
    }

    /// Whether the poll that the ward is inside, if any, turns out to be long.
    async fn observe(&self, seen: Seen) -> Then {
        if !seen.is_inside() {
            return Then::Brief;
        }
        sleep(Duration::from_nanos(STUCK_NS)).await;
        Seen::of(&self.ward).since(&seen)
    }

    /// Rescues until the polls of the ward are short again; once if other threads have the ward's CPU.
    async fn serve(&mut self, then: Then, rescue: &mut Rescue<M>) -> AfterServing {
        let mut pace = Pace::new(Seen::of(&self.ward));
        rescue.begin();
        // Whether the ward's set has reported an event.
        let mut is_told = true;
        loop {
            set_rescues::<M>(true);
            let may_be_more = rescue.turn(is_told);
            // Run the raised tasks first.
            yield_now().await;
            let pause_ns = rescue.pause_ns();
            if then == Then::Starved {
                return AfterServing::Done;
            }
            if pause_ns > 0 {
                set_rescues::<M>(false);
                let _ = self.mute(true);
                sleep(Duration::from_nanos(pause_ns)).await;
                rescue.begin();
            } else if !may_be_more {
                is_told = match timeout(Duration::from_nanos(TURN_NS), self.is_ready()).await {
                    Ok(true) => true,
                    Ok(false) => return AfterServing::End,
                    Err(_) => false,
                };
            }
            if !pace.is_slow(Seen::of(&self.ward)) {
                return AfterServing::Done;
            }
        }
    }
}

/// Sets whether the calling worker rescues from now on.
fn set_rescues<M: Machine>(rescues: bool) {
    Local::<M>::with_current(|worker| {
        if let Some(worker) = worker {
            worker.set_rescues(rescues);
        }
    });
}

/// Launches a task that is pinned to this worker.
fn launch_pinned<M: Machine, F>(worker: RemoteRef<M>, future: F) -> Join<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let about = About {
        rank: GUARD.rank(),
        ..About::default()
    };
    let table = BodyVtable::of::<F>();
    // SAFETY: the future is Send, owns what it refers to, and is of the table's type.
    let raw = unsafe {
        launch_described(worker, Kind::Pinned, about, table, |at| {
            write_body(at, future);
        })
    };
    // SAFETY: the body's output is the future's.
    unsafe { raw.typed() }
}
