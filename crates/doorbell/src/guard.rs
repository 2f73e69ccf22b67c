//! The guards: one task of each urgent lane, which looks after the Fair lane of its core, its *ward*.
//!
//! It waits for the ward's set of descriptors as for any descriptor. What becomes ready there wakes it, unless it has
//! muted that; so nothing polls, and while nothing is ready nothing wakes.
//!
//! | it is | the set is | until |
//! |---|---|---|
//! | quiet | heard | something is ready at the ward |
//! | watching | muted | 250 µs later: the ward is in the same poll, so it is stuck, or it is not |
//! | resting, as it was not | muted | 250 µs later, and twice as long each time, up to 64 ms |
//! | serving | heard, but while half of the time is used up | the ward has slept, or its polls are short again |
//!
//! While it serves, the ward is guarded: who wakes a rescuable task there tells the urgent lane.

use crate::class::Class;
use crate::rt::Rt;
use crate::time::{sleep, timeout};
use crate::{ClassKind, yield_now};
use doorbell_core::crew::FrontRef;
use doorbell_core::io::{Cleared, Direction, Registration};
use doorbell_core::lane::rescue::{Pace, STUCK_NS, Seen, Window, look_for};
use doorbell_core::task::{
    About, BodyVtable, Hold, Join, Kind, Local, launch_described, write_body,
};
use doorbell_machine::{Machine, PollEvents, Poller, Seat as _};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

/// As urgent as what is rescued.
const GUARD: Class = Class::rt(49);

/// While it serves it looks so often, at the least, whether the polls of the ward are still long, and begins anew to count its time.
const ROUND: Duration = Duration::from_millis(8);

const REST_MIN: Duration = Duration::from_micros(250);
const REST_MAX: Duration = Duration::from_millis(64);

impl<M: Machine> Rt<M> {
    /// Makes the guards, once. The urgent lanes have begun, or there are none.
    pub(crate) fn guard_fair(&self) -> io::Result<()> {
        let Some(urgent) = self.classes.iter().find(|it| it.kind == ClassKind::Rt) else {
            return Ok(());
        };
        let guard_all = || {
            let lanes = self.lanes.iter().zip(&urgent.lanes);
            let guards = lanes.map(|(ward, lane)| Guard::new(ward.front(), lane.front()));
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

/// What a guard puts what it finds into.
struct Room<M: Machine> {
    events: PollEvents,
    hold: Hold<M>,
}

/// Looks after one ward.
struct Guard<M: Machine> {
    ward: FrontRef<M>,
    /// With the urgent lane. Before the descriptor: it goes first.
    registration: Registration<M, FrontRef<M>>,
    /// The ward's set, under a number of its own.
    _set: OwnedFd,
}

impl<M: Machine> Guard<M> {
    /// `None` of a machine whose sets are no descriptors.
    fn new(ward: &FrontRef<M>, lane: &FrontRef<M>) -> io::Result<Option<Self>> {
        let refused = |kind: io::ErrorKind| io::Error::from(kind);
        let poller = ward.seat().open_poller();
        let poller = poller.map_err(|error| refused(error.kind()))?;
        let Some(set) = poller.as_descriptor() else {
            return Ok(None);
        };
        // SAFETY: it stays open as long as the registration, which is dropped before it.
        let fd = unsafe { BorrowedFd::borrow_raw(set.as_raw_fd()) };
        let Some(fd) = M::Poller::name_of(fd) else {
            return Ok(None);
        };
        let registration = Registration::new(lane.clone(), fd);
        Ok(Some(Guard {
            ward: ward.clone(),
            registration: registration.map_err(|error| refused(error.kind()))?,
            _set: set,
        }))
    }

    fn launch(self) {
        let lane = self.registration.station().clone();
        drop(launch_pinned(lane, self.run()));
    }

    async fn run(self) {
        let mut room = Room {
            events: PollEvents::new(),
            hold: Hold::default(),
        };
        let mut rest = REST_MIN;
        while self.is_ready().await {
            self.mute(true);
            if let Some(seen) = self.is_stuck().await {
                self.mute(false);
                self.serve(Pace::new(seen), &mut room).await;
                self.ward.set_guarded(false);
                here::<M, _>(|lane| lane.rescue_for(0));
                self.mute(true);
                rest = REST_MIN;
            }
            sleep(rest).await;
            rest = (2 * rest).min(REST_MAX);
            // What is ready by then, it hears of.
            self.mute(false);
        }
    }

    /// Waits until something is ready at the ward. `false` at the end of the lane.
    async fn is_ready(&self) -> bool {
        let event = poll_fn(|cx| self.registration.poll_ready(cx, Direction::Read)).await;
        match self.registration.clear(event, Direction::Read) {
            Cleared::Yes | Cleared::Newer => {}
        }
        !event.is_shut()
    }

    fn mute(&self, is_muted: bool) {
        // Where the OS refuses, it is woken more often, or not: nobody is worse off than without a guard.
        let _ = self.registration.mute(is_muted);
    }

    /// What the ward is inside of, if that is long.
    async fn is_stuck(&self) -> Option<Seen> {
        let before = Seen::of(&self.ward);
        if !before.is_inside() {
            return None;
        }
        sleep(Duration::from_nanos(STUCK_NS)).await;
        let now = Seen::of(&self.ward);
        now.is_same_poll(&before).then_some(now)
    }

    /// Until the polls of the ward are short again, or the lane ends.
    async fn serve(&self, mut pace: Pace, room: &mut Room<M>) {
        let mut window = Window::default();
        // Something was ready.
        let mut is_edge = true;
        // What lies behind the poll that goes on: from here on what is woken there comes by itself.
        let mut is_new = true;
        loop {
            let now_ns = M::now_ns();
            if let Some(left_ns) = window.begin(now_ns) {
                here::<M, _>(|lane| lane.rescue_for(left_ns));
                self.ward.set_guarded(true);
            }
            if is_edge {
                let _ = look_for(&self.ward, &mut room.events);
                if std::mem::take(&mut is_new) {
                    let _ = here::<M, _>(|lane| lane.sweep(&self.ward, &room.hold));
                }
                let took_ns = M::now_ns().saturating_sub(now_ns);
                here::<M, _>(|lane| lane.spend(took_ns));
                // Behind what was lent here.
                yield_now().await;
            }
            if here::<M, _>(Local::rescue_left_ns) == Some(0) {
                self.ward.set_guarded(false);
                self.mute(true);
                let rest_ns = window.end_ns().saturating_sub(M::now_ns());
                sleep(Duration::from_nanos(rest_ns)).await;
                self.mute(false);
            }
            is_edge = match timeout(ROUND, self.is_ready()).await {
                Ok(true) => true,
                Ok(false) => return,
                Err(_) => false,
            };
            if !pace.is_slow(Seen::of(&self.ward)) {
                return;
            }
        }
    }
}

/// Calls `f` with the lane that the caller is.
fn here<M: Machine, R>(f: impl FnOnce(&Local<M>) -> R) -> Option<R> {
    Local::<M>::with_current(|lane| lane.map(f))
}

/// Launches a task that stays on that lane.
fn launch_pinned<M: Machine, F>(lane: FrontRef<M>, future: F) -> Join<F::Output>
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
        launch_described(lane, Kind::Pinned, about, table, |at| {
            write_body(at, future);
        })
    };
    // SAFETY: the body's output is the future's.
    unsafe { raw.typed() }
}
