//! A lane that puts off its looks at descriptors: it sleeps on its word although it has some, and wakes
//! up by itself to look.

use super::arrival::Stage;
use super::plan::{Setting, sleep_until};
use doorbell_core::lane::LaneCounts;
use doorbell_machine::sim::{self, SimFd};
use doorbell_machine::{ParkIn, Readiness};
use std::task::Waker;

/// For how long looks are put off: longer than anything takes that is served at once.
const SPACING_NS: u64 = 500_000;
/// By when it looks at a descriptor, says `Lane::with_spacing`.
pub(super) const SEEN_NS: u64 = 2 * SPACING_NS;

/// How long it takes until the lane is woken, behind the last event.
const BEGINS_NS: u64 = 2_200_000;
pub(super) const LASTS_NS: u64 = BEGINS_NS + SPACING_NS / 5;
/// When the lane has looked once since, and is between two looks.
pub(super) const LATER_NS: u64 = SPACING_NS + SPACING_NS / 10;

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
    /// It puts them off.
    On,
}

impl Flood {
    pub(super) fn spacing_ns(self) -> u64 {
        match self {
            Flood::Off => 0,
            Flood::On => SPACING_NS,
        }
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
    sim::sleep(SPACING_NS / 20);
    drop(registered);
}

/// Whether the lane slept as it should, by what it counted in so long: on its word, woken by no
/// descriptor, and by the time only to look, or for a timer.
pub(super) fn holds(setting: Setting, form: ParkIn, since: &LaneCounts, took_ns: u64) -> bool {
    let looks = took_ns / SPACING_NS + 1;
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
