//! Which group is next: the arithmetic of virtual time, without a machine.
//!
//! A poll advances its group's virtual time by the time that it took, times [`WEIGHT_NS`], divided by the
//! group's weight. A worker that can choose runs the group with the least time. Times are compared as
//! differences, so they may wrap.

/// The weight of tasks without a group. Also the virtual time for one nanosecond at weight 1.
pub const DEFAULT_WEIGHT: u32 = 100;

/// The highest weight.
pub const WEIGHT_MAX: u32 = 10_000;

const WEIGHT_NS: u64 = DEFAULT_WEIGHT as u64;

/// The most credit of a group that runs: CPU time by which it may lag behind the present. A group that lags
/// more had too few tasks to use its share, so it does not get the rest back.
const LAG_NS: u64 = 4_000_000;

/// A group without a poll that ended in this time is idle, and has no credit.
const IDLE_NS: u64 = 5_000_000;

/// The lag, in CPU time of the group, from which a worker takes one of its tasks from another worker.
const PULL_NS: u64 = 200_000;

/// The present moves in steps of more than this, in virtual time, because all workers share its line.
const PRESENT_STEP: u64 = 1_000;

/// What a choice knows about a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Its virtual time.
    pub(crate) time: u64,
    pub(crate) weight: u32,
    /// When a poll of one of its tasks ended last.
    pub(crate) ran_ns: u64,
}

/// Whether one virtual time is before another.
#[inline]
pub(crate) fn is_before(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

/// The virtual time for some CPU time, and the remainder of the division, to be passed as `rest` next time.
#[inline]
pub(crate) fn step(ran_ns: u64, weight: u32, rest: u64) -> (u64, u64) {
    let weight = u64::from(weight.max(1));
    let sum = ran_ns.saturating_mul(WEIGHT_NS).saturating_add(rest);
    (sum / weight, sum % weight)
}

impl Account {
    /// Its virtual time, raised so that its credit at `present` is at most what [`LAG_NS`] and [`IDLE_NS`]
    /// allow.
    #[inline]
    pub(crate) fn lifted(&self, present: u64, now_ns: u64) -> u64 {
        let idle = now_ns.saturating_sub(self.ran_ns) > IDLE_NS;
        let lag_ns = if idle { 0 } else { LAG_NS };
        let (lag, _) = step(lag_ns, self.weight, 0);
        let floor = present.wrapping_sub(lag);
        if is_before(self.time, floor) {
            floor
        } else {
            self.time
        }
    }

    /// Whether it lags so far behind `present` that it is worth moving a task for it.
    pub(crate) fn is_behind(&self, present: u64) -> bool {
        let (worth, _) = step(PULL_NS, self.weight, 0);
        is_before(self.time, present.wrapping_sub(worth))
    }
}

/// The group that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) group: u8,
    /// Its virtual time, lifted.
    pub(crate) time: u64,
}

/// The group with the least time; the first among equals.
#[inline]
pub(crate) fn choose(
    groups: impl Iterator<Item = (u8, Account)>,
    present: u64,
    now_ns: u64,
) -> Option<Choice> {
    let mut best: Option<Choice> = None;
    for (group, account) in groups {
        let time = account.lifted(present, now_ns);
        if best.is_none_or(|best| is_before(time, best.time)) {
            best = Some(Choice { group, time });
        }
    }
    best
}

/// Whether the present must move to `time`.
#[inline]
pub(crate) fn moves_present(present: u64, time: u64) -> bool {
    is_before(present.wrapping_add(PRESENT_STEP), time)
}
