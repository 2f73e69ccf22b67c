//! Whose turn it is: the arithmetic of virtual time, without a machine.
//!
//! A group's virtual time goes on by what its polls take, times [`WEIGHT_NS`], divided by its
//! weight. Whoever has a choice runs the group whose time is least. Times are compared as
//! differences, so they may wrap.

/// The weight of tasks without a group; also what a nanosecond counts for at weight 1.
pub const DEFAULT_WEIGHT: u32 = 100;

/// The highest weight.
pub const WEIGHT_MAX: u32 = 10_000;

const WEIGHT_NS: u64 = DEFAULT_WEIGHT as u64;

/// How much CPU time a group that runs may be behind what was chosen elsewhere: it is given back
/// to it. More is not: then it had too few tasks to use its share.
const LAG_NS: u64 = 4_000_000;

/// A group none of whose polls ended in so long a time has done nothing: it is given back nothing.
const IDLE_NS: u64 = 5_000_000;

/// By how much a group is behind before a worker takes one of its tasks from another.
const PULL_NS: u64 = 200_000;

/// By less than this the present time does not go on: it is a word that all workers share.
const PRESENT_STEP: u64 = 1_000;

/// What is known of a group when somebody chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Its virtual time.
    pub(crate) time: u64,
    pub(crate) weight: u32,
    /// When a poll of it ended last.
    pub(crate) ran_ns: u64,
}

/// Whether one virtual time is before another.
#[inline]
pub(crate) fn is_before(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

/// How far virtual time goes by so much CPU time, and what is left of it for the next time.
#[inline]
pub(crate) fn step(ran_ns: u64, weight: u32, rest: u64) -> (u64, u64) {
    let weight = u64::from(weight.max(1));
    let sum = ran_ns.saturating_mul(WEIGHT_NS).saturating_add(rest);
    (sum / weight, sum % weight)
}

impl Account {
    /// Its virtual time, as it counts at `present`: not so far back that it would be given what it
    /// has not waited for.
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

    /// Whether it is so far behind that it is worth to move a task for it.
    pub(crate) fn is_behind(&self, present: u64) -> bool {
        let (worth, _) = step(PULL_NS, self.weight, 0);
        is_before(self.time, present.wrapping_sub(worth))
    }
}

/// What was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) group: u8,
    /// Its virtual time, lifted.
    pub(crate) time: u64,
}

/// The group whose time is least; of equal ones the first.
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

/// Whether the present is to go on to that time.
#[inline]
pub(crate) fn moves_present(present: u64, time: u64) -> bool {
    is_before(present.wrapping_add(PRESENT_STEP), time)
}
