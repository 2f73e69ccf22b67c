//! The guards: one task of each urgent worker, which looks after the Fair worker of its core, its *ward*.
//!
//! It waits for the ward's set of descriptors as for any descriptor. What becomes ready there wakes it, unless it has
//! muted that; so no thread busy-polls, and while nothing is ready nothing wakes, but in a poll that others keep from
//! its CPU. A worker that hears of nothing parks on its bell, which takes less than to park in its own set.
//!
//! | it is | the set is | until |
//! |---|---|---|
//! | quiet | heard | something is ready at the ward |
//! | observing | muted | 250 µs later: the ward is in the same poll, so it is stuck, or it is not |
//! | backing off, as it was not | muted | 250 µs later, and twice as long each time, up to 16 ms |
//! | serving | heard, but while its share of the time is used up | the ward has slept, or its polls are short again |
//!
//! A ward that is in the same poll because others have its CPU is served once, and again after each back-off while that
//! poll goes on: a wake that came meanwhile raised nothing, and no descriptor tells of it. These back-offs grow up to 64
//! ms, so that a busy neighbour does not have the urgent worker run more of its tasks than the OS lets it.

use crate::class::Class;
use crate::rt::Rt;
use crate::time::{sleep, timeout};
use crate::{ClassKind, yield_now};
use doorbell_core::io::{Cleared, Direction, Registration};
use doorbell_core::scheduler::RemoteRef;
use doorbell_core::task::{About, BodyVtable, Join, Kind, Local, launch_described, write_body};
use doorbell_core::worker::rescue::{BackOffs, Pace, Rescue, STUCK_NS, Seen, TURN_NS, Then};
use doorbell_machine::{Machine, Parker as _, Poller};
use std::future::poll_fn;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;
use std::{io, mem};

/// Of the rank of what is rescued: it has its turn behind what it had raised, and before what that brings.
const GUARD: Class = Class::rt(49);

/// Before it tries again what the OS refused.
const RETRY: Duration = Duration::from_millis(16);

impl<M: Machine> Rt<M> {
    /// Makes the guards, once. The urgent workers have begun, or there are none.
    pub(crate) fn guard_fair(&self) -> io::Result<()> {
        let Some(urgent) = self.classes.iter().find(|it| it.kind == ClassKind::Rt) else {
            return Ok(());
        };
        let guard_all = || {
            let workers = self.workers.iter().zip(&urgent.workers);
            let guards = workers.map(|(ward, worker)| Guard::new(ward.remote(), worker.remote()));
            // All, before one runs.
            let guards: Vec<_> = guards.collect::<io::Result<Vec<Option<Guard<M>>>>>()?;
            for guard in guards.into_iter().flatten() {
                guard.launch();
            }
            Ok(())
        };
        self.guarded.get_or_try_init_blocking(guard_all).copied()
    }
}

/// Whether a guard that has served goes on.
enum AfterServing {
    Done,
    /// The worker ends.
    End,
}

/// Looks after one ward.
struct Guard<M: Machine> {
    ward: RemoteRef<M>,
    /// With the urgent worker. Before the descriptor: it goes first.
    registration: Registration<M, RemoteRef<M>>,
    /// The ward's set, under a number of its own.
    _set: OwnedFd,
}

impl<M: Machine> Guard<M> {
    /// `None` of a machine whose sets are no descriptors.
    fn new(ward: &RemoteRef<M>, worker: &RemoteRef<M>) -> io::Result<Option<Self>> {
        let refused = |kind: io::ErrorKind| io::Error::from(kind);
        let poller = ward.parker().open_poller();
        let poller = poller.map_err(|error| refused(error.kind()))?;
        let Some(set) = poller.as_descriptor()? else {
            return Ok(None);
        };
        // SAFETY: it stays open as long as the registration, which is dropped before it.
        let fd = unsafe { BorrowedFd::borrow_raw(set.as_raw_fd()) };
        let Some(fd) = M::Poller::name_of(fd) else {
            return Ok(None);
        };
        let registration = Registration::new(worker.clone(), fd);
        Ok(Some(Guard {
            ward: ward.clone(),
            registration: registration.map_err(|error| refused(error.kind()))?,
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
        // Whether what was served may wait behind the same poll again: no descriptor tells of that.
        let mut goes_on = false;
        while mem::take(&mut goes_on) || self.is_ready().await {
            let seen = Seen::of(&self.ward);
            if before.replace(seen).is_some_and(|it| seen.idles_since(&it)) {
                // What is ready says so all along, as a bell that was rung: the next edge is of something else.
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

    /// Waits until something is ready at the ward, or was before it is heard. `false` at the end of the worker.
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

    /// Whether the OS has done that. Where it refuses, the guard is woken more often, or later: nobody is worse off
    /// than without one.
    fn mute(&mut self, is_muted: bool) -> bool {
        self.registration.mute(is_muted).is_ok()
    }

    /// What becomes of the poll that the ward is inside of, if it is.
    async fn observe(&self, seen: Seen) -> Then {
        if !seen.is_inside() {
            return Then::Brief;
        }
        sleep(Duration::from_nanos(STUCK_NS)).await;
        Seen::of(&self.ward).since(&seen)
    }

    /// Until the polls of the ward are short again, or once.
    async fn serve(&mut self, then: Then, rescue: &mut Rescue<M>) -> AfterServing {
        let mut pace = Pace::new(Seen::of(&self.ward));
        rescue.begin();
        // Whether the ward's set has told of something.
        let mut is_told = true;
        loop {
            set_rescues::<M>(true);
            let may_be_more = rescue.turn(is_told);
            // Behind what was raised here.
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

/// Whether the worker that the caller is rescues from here on.
fn set_rescues<M: Machine>(rescues: bool) {
    Local::<M>::with_current(|worker| {
        if let Some(worker) = worker {
            worker.set_rescues(rescues);
        }
    });
}

/// Launches a task that stays on that worker.
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
