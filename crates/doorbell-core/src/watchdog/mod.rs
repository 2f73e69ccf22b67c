//! The watchdog: has others do what waits behind a long poll. See README.md in this folder.
//!
//! A thread that publishes something behind a poll *arms* the watchdog: it looks at the watchdog's bell, and rings
//! it if it is parked. The watchdog's thread runs [`Watch`].

#[cfg(test)]
mod loom;
mod pace;
mod stuck_set;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use stuck_set::{StuckSet, Took};
pub use watch::Watch;

use crate::bell::{Announced, Bell, Kick, Look, Notified};
use crate::class::Class;
use doorbell_machine::{Counter, Line, Machine, Ordering, ParkEnd, Seat, Word};
use pace::{Ended, OVERDUE_NS, Parking, SLACK_NS};

/// A timer that is due so long before the watchdog looks is told to it.
const EARLY_NS: u64 = OVERDUE_NS + SLACK_NS;

/// What an armer reads: it changes when the watchdog parks or wakes.
#[derive(Debug)]
struct Words<M: Machine> {
    bell: Bell<M>,
    /// When the watchdog looks at timers, as it said when it parked last: 0 while it rests, `u64::MAX` for never.
    looks_ns: M::U64,
}

/// What the watchdog has done.
#[derive(Debug, Default)]
struct Tally<C> {
    looks: C,
    parks: C,
    rings: C,
    stuck: C,
    asks: C,
    unheard: C,
    revoked: C,
    cpu_ns: C,
}

/// What a watchdog has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchdogCounts {
    /// Looks at all lanes.
    pub looks: u64,
    /// Sleeps for want of anything to look after.
    pub parks: u64,
    /// Rings that ended such a sleep.
    pub rings: u64,
    /// Lanes that were found stuck, each once until it went on.
    pub stuck: u64,
    /// Lanes that were asked to help.
    pub asks: u64,
    /// Looks at a stuck lane at which no lane could be asked.
    pub unheard: u64,
    /// Searches that were the last, and that it ended because their lanes got no CPU.
    pub revoked: u64,
    /// CPU time of its thread, as it read that last.
    pub cpu_ns: u64,
}

/// The watchdog of one or more crews, as others reach it.
pub struct Watchdog<M: Machine> {
    words: M::Line<Words<M>>,
    seat: M::Seat,
    /// 1 once it is to end. It pauses on this word between two looks.
    closing: M::Line<M::U32>,
    pause: M::Seat,
    tally: M::Line<Tally<M::Counter>>,
}

impl<M: Machine> std::fmt::Debug for Watchdog<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watchdog")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Default for Watchdog<M> {
    fn default() -> Self {
        // Crews have shares of it by std's `Arc`.
        M::counted_by_std(|| Watchdog {
            words: M::Line::new(|| Words {
                bell: Bell::default(),
                looks_ns: M::U64::new(0),
            }),
            seat: M::Seat::new(),
            closing: M::Line::new(|| M::U32::new(0)),
            pause: M::Seat::new(),
            tally: M::Line::new(Tally::default),
        })
    }
}

/// The side of others.
impl<M: Machine> Watchdog<M> {
    /// The caller has published something behind a poll, by a read-modify-write and a
    /// [`fence_recheck`](Machine::fence_recheck): the watchdog is awake, or is rung here.
    #[inline]
    pub fn arm(&self) {
        match self.words.bell.look() {
            Look::Running | Look::Watching | Look::Notified => {}
            Look::ParkedUntold | Look::NotifiedFromBelow => self.wake(),
        }
    }

    /// As [`Watchdog::arm`], of a timer that is due then: the watchdog looks in time, or is rung here.
    #[inline]
    pub(crate) fn arm_for(&self, when_ns: u64) {
        // ORDER: Relaxed; with the swap of `announce` and its fence this is store buffering: either this sees when
        // the watchdog looks, or the watchdog's last look sees the timer.
        let looks_ns = self.words.looks_ns.load(Ordering::Relaxed);
        if when_ns.saturating_add(EARLY_NS) < looks_ns {
            self.arm();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        // The watchdog waits for nobody that may lose its CPU before it has rung: only an Rt lane is level with it.
        let standing = Class::Rt.standing::<M>();
        let bell = &self.words.bell;
        let notified = match bell.look() {
            Look::NotifiedFromBelow => bell.help(standing),
            _ => bell.notify(Kick::Take, standing),
        };
        self.ring_if_due(notified);
    }

    fn ring_if_due(&self, notified: Notified) {
        if notified == Notified::MustRing || notified == Notified::MustHelp {
            self.tally.rings.add_shared(1);
            self.words.bell.ring(&self.seat);
        }
    }

    /// Tells the watchdog to end. It does at once, whatever it sleeps for.
    pub fn close(&self) {
        // ORDER: Release pairs with the Acquire of `is_closing`; the bell's read-modify-write stands behind it.
        self.closing.store(1, Ordering::Release);
        self.ring_if_due(
            self.words
                .bell
                .notify(Kick::Take, Class::Rt.standing::<M>()),
        );
        self.pause.ring(&self.closing);
    }

    /// What it has done so far.
    pub fn counts(&self) -> WatchdogCounts {
        let tally = &self.tally;
        WatchdogCounts {
            looks: tally.looks.get(),
            parks: tally.parks.get(),
            rings: tally.rings.get(),
            stuck: tally.stuck.get(),
            asks: tally.asks.get(),
            unheard: tally.unheard.get(),
            revoked: tally.revoked.get(),
            cpu_ns: tally.cpu_ns.get(),
        }
    }
}

/// The side of the watchdog's own thread.
impl<M: Machine> Watchdog<M> {
    fn is_closing(&self) -> bool {
        // ORDER: Acquire pairs with the Release of `close`.
        self.closing.load(Ordering::Acquire) != 0
    }

    /// Says that it parks, and when it looks at timers. On [`Announced::Yes`] it looks once more before it sleeps.
    fn announce(&self, looks_ns: u64) -> Announced {
        // ORDER: Relaxed; a read-modify-write in front of the fence of the bell's announcement. See `arm_for`.
        self.words.looks_ns.swap(looks_ns, Ordering::Relaxed);
        match self.words.bell.announce_watch() {
            Announced::Yes => self.words.bell.announce_park(),
            Announced::Signalled => Announced::Signalled,
        }
    }

    /// Sleeps, having announced it.
    fn sleep(&self, parking: Parking) -> Ended {
        self.tally.parks.add_owned(1);
        match self.words.bell.park(&self.seat, parking.until_ns) {
            ParkEnd::Deadline => Ended::Time,
            ParkEnd::Rung | ParkEnd::Changed | ParkEnd::Spurious => Ended::Armed,
        }
    }

    /// It is awake. Behind this it looks.
    fn end_park(&self) {
        let _ = self.words.bell.end_idle();
    }

    /// Sleeps between two looks, until that time or until it is told to end.
    fn pause_until(&self, until_ns: u64) {
        let _ = self.pause.park(&self.closing, 0, Some(until_ns));
        if M::MODEL {
            // Such a sleep takes no time there, and somebody else is to go on.
            M::relax();
        }
    }
}
