//! A lane that puts off its looks at descriptors: it sleeps on its word although it has some, and wakes
//! up by itself to look.

use super::arrival::Stage;
use super::plan::{Setting, sleep_until};
use doorbell_core::lane::LaneCounts;
use doorbell_machine::sim::{self, SimFd};
use doorbell_machine::{ParkIn, Readiness};
use std::task::Waker;

/// For how long looks are put off, by a lane that is no idle one meanwhile, and by one that is: longer than
/// anything takes that is served at once.
const NAP_NS: u64 = 500_000;
const SELDOM_NS: u64 = 600_000;

/// How long it takes until the lane is woken, behind the last event.
const BEGINS_NS: u64 = 2_200_000;
pub(super) const LASTS_NS: u64 = BEGINS_NS + 2 * SEES_NS;
/// A lane that is awake has seen an event by then.
const SEES_NS: u64 = 25_000;

/// What comes keeps it awake for a few passes.
const AVOIDED_MAX: u64 = 4;

/// A sentinel looks as often.
const SENTINEL_NS: u64 = 250_000;

/// Descriptors that become ready, and how often: more than the 20 within 2 ms that are a flood.
const FDS: usize = 6;
const ROUNDS: u64 = 4;
const APART_NS: u64 = 50_000;

/// What its looks are to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flood {
    /// It is woken by its descriptors.
    Off,
    /// It puts them off, and naps.
    Naps,
    /// It puts them off for longer, as an idle lane.
    Seldom,
}

impl Flood {
    pub(super) fn spacing_ns(self) -> u64 {
        match self {
            Flood::Off => 0,
            Flood::Naps => NAP_NS,
            Flood::Seldom => SELDOM_NS,
        }
    }

    /// By when the lane looks at a descriptor, says `Lane::with_spacing`.
    pub(super) fn seen_ns(self) -> u64 {
        self.spacing_ns()
    }

    /// By when it takes of a lane that has two tasks waiting; at once, if it is an idle one.
    pub(super) fn taken_ns(self) -> u64 {
        match self {
            Flood::Naps => 2 * NAP_NS,
            Flood::Off | Flood::Seldom => 0,
        }
    }

    /// When it has looked once since it was woken, and is between two looks.
    pub(super) fn later_ns(self) -> u64 {
        self.spacing_ns() + self.spacing_ns() / 10
    }
}

/// From that time on: from its end on the lane puts off its looks. It ends 10 ms later, long after all
/// is over. Afterwards the lane has as many descriptors as before.
pub(super) fn begin<const BUG: u8>(stage: &Stage<BUG>, from_ns: u64) {
    let fds: Vec<SimFd> = (0..FDS).map(|_| SimFd::open()).collect();
    let register = |fd: &SimFd| stage.register(*fd, Waker::noop());
    let registered: Vec<_> = fds.iter().map(register).collect();
    for round in 0..ROUNDS {
        sleep_until(from_ns + round * APART_NS);
        for fd in &fds {
            fd.set_ready(Readiness::READABLE);
        }
    }
    sleep_until(from_ns + BEGINS_NS);
    fds[0].set_ready(Readiness::READABLE);
    // The lane has seen it by then.
    sim::sleep(SEES_NS);
    drop(registered);
}

/// Whether the lane slept as it should, by what it counted in so long: on its word, woken by no
/// descriptor, and by the time only to look, or for a timer.
pub(super) fn holds(setting: Setting, form: ParkIn, since: &LaneCounts, took_ns: u64) -> bool {
    let looks = took_ns / setting.flood.spacing_ns() + 1;
    // A sentinel's too.
    let others = if setting.lanes > 1 {
        took_ns / SENTINEL_NS + 1
    } else {
        0
    };
    form == ParkIn::Word
        && since.unparks_ready == 0
        && since.looks_put_off <= looks
        && since.parks_avoided <= AVOIDED_MAX
        && since.unparks_deadline <= looks + 1 + others
}
